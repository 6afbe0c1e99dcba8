"""Random pipelines: kernels that call others agree with one call after the other, to the bit.

    NUMBA_DISABLE_JIT=1 python tests/random_pipelines.py FIRST LAST

prints how many of the seeds were done in one pass.  As plain Python the generated text needs no
compiling, so that many pipelines can be tried.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import sys
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import dask.array as da
import numpy as np

import kernels
import ninepoint as npt
import unlucky
from agreement import random_schedule
from ninepoint import _testing as bounds
from ninepoint.arrays.chunked import regions
from ninepoint.inspecting.asked import asked
from ninepoint.lowering.schedule import Schedule
from sliced import sliced

# "keep" keeps a field of the kernel, which is none of what remains without its calls.
RULES = tuple(rule for rule in kernels.RULES if rule not in ("valid", "keep"))

# Not every kernel is a function of its own: some are lambdas or made by a function.
HEAD = re.compile(r"(?m)^def kernel\((.*)\):\n")


@dataclass
class Pipeline:
    """A kernel that calls others, and the calls one by one: (result, stencil, fields, others).

    With `keeps` some calls have the rule "keep".  Scalars of calls that are `open` are parameters.
    Where there is a `boundary` it is that of all calls; `conditions` may be part of others.
    """

    names: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, npt.Stencil, tuple[str, ...], dict[str, Any]]] = field(
        default_factory=list
    )
    types: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    keeps: bool = False
    open: dict[str, Any] = field(default_factory=dict)
    boundary: Any = None
    conditions: bool = True

    def name(self, rng: Random, plain: str, stage: bool) -> str:
        """A name that means nothing else, an unlucky one as likely as not."""
        found = unlucky.drawn(rng, self.taken, plain, stage)
        self.taken.add(found)
        return found


def drawn(rng: Random, ndim: int, dtype: str | None) -> kernels.Case:
    """A kernel whose first result can be stored as `dtype`."""
    while True:
        numbers = rng.choice(["int", "float", "mixed"])
        case = kernels.random_kernel(
            rng, numbers=numbers, ndim=ndim, outputs=1, size=rng.randint(1, 3)
        )
        if not all(f"{name}[" in case.source for name in case.fields):
            continue
        if dtype is None or not case.outputs[0].startswith("c"):
            return unlucky.renamed(rng, case)


def value(rng: Random, pipeline: Pipeline, ndim: int, dtype: str, depth: int) -> str:
    """The name of an array of this type: one that is given, or what a stage makes."""
    known = [name for name, one in pipeline.types.items() if one == dtype]
    if known and rng.random() < 0.4:
        return rng.choice(known)
    if depth == 0 or dtype.startswith("c") or rng.random() < 0.2:
        name = pipeline.name(rng, f"given_{len(pipeline.inputs)}", False)
        pipeline.inputs[name] = pipeline.types[name] = dtype
        return name
    case = drawn(rng, ndim, dtype)
    rules = RULES
    if pipeline.keeps and np.can_cast(next(iter(case.fields.values())), dtype):
        rules = (*RULES, "keep")
    stencil = npt.stencil(
        **case.options,
        dtype=dtype,
        overflow=rng.choice(["wrap", "saturate"]),
        boundary=pipeline.boundary or stage_border(rng, case, rules, pipeline.conditions),
        cval=0 if pipeline.boundary else rng.choice([0, 1]),
        schedule=random_schedule(rng) if rng.random() < 0.5 else Schedule(),
    )(case.function)
    fields = {n: value(rng, pipeline, ndim, d, depth - 1) for n, d in case.fields.items()}
    others = dict(case.scalars)
    for name, (kind, shape) in case.standard.items():
        others[name] = kernels.values(rng, kind, shape, True)
    number = len(pipeline.calls)
    made = pipeline.name(rng, f"stage_{number}", True)
    pipeline.names[f"stencil_{number}"] = stencil
    words = [f"{n}={v}" for n, v in fields.items()]
    for name, one in others.items():
        if pipeline.keeps and name not in case.standard and rng.random() < 0.5:
            pipeline.open[f"{name}_of_{number}"] = one
        else:
            pipeline.names[f"{name}_of_{number}"] = one
        words.append(f"{name}={name}_of_{number}")
    pipeline.lines.append(f"    {made} = stencil_{number}({', '.join(words)})")
    pipeline.calls.append((made, stencil, tuple(fields.items()), others))
    pipeline.types[made] = dtype
    return made


def stage_border(rng: Random, case: kernels.Case, rules: tuple[str, ...], conditions: bool) -> Any:
    """The border of a call: of rules, and of some in ten of numbers and slopes as well."""
    boundary = kernels.random_boundary(rng, case.ndim, rules=rules)
    # Of its own, so that all else is what it was.
    other = Random(case.source)
    kinds = {np.dtype(dtype).kind for dtype in case.fields.values()}
    if conditions and other.random() < 0.1:
        given = (1,) * case.ndim
        return kernels.random_conditions(other, given, kinds, valid=False, arrays=False)
    return boundary


def text(case: kernels.Case, pipeline: Pipeline, fields: dict[str, str]) -> str:
    """The kernel with the calls of the pipeline before its own text."""
    helpers, signature, body = HEAD.split(case.source, maxsplit=1)
    rest = [p for p in signature.split(", ") if p.partition("=")[0] not in case.fields]
    given = [*pipeline.inputs, *pipeline.open, *rest]
    lines = [f"def whole({', '.join(given)}):", *pipeline.lines]
    lines += [f"    {name} = {array}" for name, array in fields.items()]
    return helpers + "\n".join(lines) + "\n" + body


def defined(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """What a text defines; its source can be found."""
    filename = f"<random pipeline {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    found = dict(names)
    exec(compile(source, filename, "exec"), found)
    return found


def random_cut(rng: Random, n: int) -> tuple[int, ...]:
    """Chunks of an axis, of any size, 0 among them."""
    if rng.random() < 0.3:
        return (n,)
    marks = sorted(rng.randint(0, n) for _ in range(rng.randint(1, 3)))
    return tuple(b - a for a, b in zip([0, *marks], [*marks, n], strict=True))


@dataclass
class Drawn:
    """A random pipeline, the kernel that makes its calls, and what is left of it without them."""

    pipeline: Pipeline
    source: str
    fields: dict[str, str]
    whole: npt.Stencil
    plain: npt.Stencil
    arrays: dict[str, np.ndarray]
    others: dict[str, Any]
    options: dict[str, Any]
    shape: tuple[int, ...]


def drawn_pipeline(
    rng: Random, axes: tuple[int, ...] = (1, 2, 2, 2, 3), conditions: bool = True
) -> Drawn | None:
    """A random pipeline, maybe with conditions at borders; None where the kernel has no calls."""
    ndim = rng.choice(axes)
    case = drawn(rng, ndim, None)
    while not HEAD.search(case.source):
        case = drawn(rng, ndim, None)
    pipeline = Pipeline(taken=unlucky.words(case.source), conditions=conditions)
    if rng.random() < 0.4:
        pipeline.boundary = kernels.random_boundary(rng, ndim, rules=RULES)
    fields = {n: value(rng, pipeline, ndim, d, 2) for n, d in case.fields.items()}
    source = text(case, pipeline, fields)
    names = defined(source, pipeline.names)
    boundary = pipeline.boundary or kernels.random_boundary(rng, ndim, rules=RULES)
    hows = [(name, rng.choice(["rows", "rows", "inline", "whole"])) for name, *_ in pipeline.calls]
    tile = rng.choice([0, 0, 3, 7])
    schedule = random_schedule(rng) if rng.random() < 0.5 else Schedule()
    chosen = replace(schedule, stages=tuple(hows), tile=tile)
    whole = npt.stencil(**case.options, schedule=chosen)(names["whole"])
    if not pipeline.calls:
        return None
    core = tuple(rng.randint(9, 18) for _ in range(ndim)) if ndim < 3 else (5, 6, 7)
    shape = (*rng.choice([(), (), (2,), (2, 1)]), *core)
    arrays = {
        n: np.ascontiguousarray(kernels.values(rng, d, shape, True))
        for n, d in pipeline.inputs.items()
    }
    others = dict(case.scalars)
    for name, (kind, own) in case.standard.items():
        others[name] = kernels.values(rng, kind, own, True)
    plain = npt.stencil(**case.options, schedule=schedule)(case.function)
    options = {"boundary": boundary, "cval": rng.choice([0, 1]), "threads": rng.choice([1, 2])}
    other = Random(case.source)
    if conditions and other.random() < 0.15:
        kinds = {np.dtype(dtype).kind for dtype in case.fields.values()}
        options["boundary"] = kernels.random_conditions(other, core, kinds, valid=False)
    return Drawn(pipeline, source, fields, whole, plain, arrays, others, options, shape)


def one_by_one(one: Drawn) -> np.ndarray | None:
    """What the calls give; None where one of them cannot be done as plain Python."""
    known: dict[str, Any] = dict(one.arrays)
    for made, stencil, taken, rest in one.pipeline.calls:
        try:
            known[made] = stencil(**{n: known[v] for n, v in taken}, **rest)
        except TypeError:
            # Plain Python cannot shift a uint64 by a signed number; Numba can.
            return None
    found: np.ndarray = one.plain(
        **{n: known[v] for n, v in one.fields.items()}, **one.others, **one.options
    )
    return found


def agrees(seed: int) -> bool:
    """Check one seed; whether it was done in one pass."""
    rng = Random(seed)
    one = drawn_pipeline(rng)
    wanted = one_by_one(one) if one is not None else None
    if one is None or wanted is None:
        return False
    whole, arrays, others, options = one.whole, one.arrays, one.others, dict(one.options)
    made = whole(**{n: arrays[n] for n in whole.fields}, **others, **options)
    assert made.dtype == wanted.dtype, (seed, one.source)
    text_ = f"seed {seed}, {options}\n{one.source}"
    np.testing.assert_array_equal(made, wanted, err_msg=text_)
    # On Dask the stages meet blocks with open sides.
    chunks = [random_cut(rng, n) for n in one.shape]
    view = sliced if seed % 2 else da.from_array
    lazy = {n: view(arrays[n], chunks) for n in whole.fields}
    del options["threads"]
    result = whole(**lazy, **others, **options)
    if seed % 2:
        # Tasks read what they need themselves, if one program does all stages.
        with bounds.limits(recut_ratio=float("inf")):
            again = regions.recut(result, tuple(random_cut(rng, n) for n in result.shape))
        result = result if again is None else again
    cut = result.compute(scheduler="sync")
    text_ = f"{seed}, {chunks}, {options}\n{one.source}"
    np.testing.assert_array_equal(cut, wanted, err_msg=text_)
    found = asked(whole.definition, [arrays[n] for n in whole.fields], {**others, **options}).plan
    return any(len(group.nodes) > 1 for group in found.groups)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    with bounds.interpreted():
        print(sum(agrees(seed) for seed in range(first, last)))
