"""Random state kernels: iterate(n) and n calls agree to the bit.  Run with NUMBA_DISABLE_JIT=1.

Every other kernel calls stencils, each with a border of its own.

    python tests/random_steps.py FIRST LAST      prints how many of the seeds were chained

As plain Python the generated text needs no compiling, so that many kernels can be tried.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import dask.array as da
import numpy as np

import kernels
import ninepoint as npt
import random_pipelines as pipelines
import unlucky
from agreement import random_schedule
from ninepoint import _testing as bounds
from ninepoint.arrays import iterating
from ninepoint.arrays.borders import Boundary
from ninepoint.lowering.schedule import Schedule
from threads_comm import Comm, on_threads

RULES = tuple(rule for rule in kernels.RULES if rule != "valid")


def state_kernel(rng: Random) -> kernels.Case:
    """A kernel that has a field for each output."""
    while True:
        numbers = rng.choice(["int", "float", "mixed"])
        options = {"numbers": numbers, "ndim": rng.choice([1, 2, 2, 2, 3])}
        case = kernels.random_kernel(rng, **options, outputs=rng.choice([1, 1, 2]))
        states = list(case.fields)[: len(case.outputs)]
        read = all(f"{name}[" in case.source for name in case.fields)
        if read and len(states) == len(case.outputs):
            return unlucky.renamed(rng, case)


def plain_step(rng: Random, schedule: Schedule) -> tuple[npt.Stencil, kernels.Case]:
    """A stencil without calls that can be iterated, and the kernel that it is made of."""
    case = state_kernel(rng)
    stencil = npt.stencil(
        **case.options,
        dtype=tuple(case.fields.values())[: len(case.outputs)],
        overflow=rng.choice(["wrap", "saturate"]),
        schedule=schedule,
    )(case.function)
    return stencil, case


def staged_step(rng: Random, schedule: Schedule) -> tuple[npt.Stencil, kernels.Case]:
    """A stencil that calls others, and a kernel with its fields and scalars."""
    while True:
        case = state_kernel(rng)
        found = pipelines.HEAD.search(case.source)
        states = dict(list(case.fields.items())[: len(case.outputs)])
        taken = unlucky.words(case.source)
        if not found or taken & states.keys():
            states = {f"state_{k}": dtype for k, dtype in enumerate(states.values())}
        if not found or any(dtype.startswith("c") for dtype in case.fields.values()):
            continue
        pipeline = pipelines.Pipeline(
            taken=taken | states.keys(), inputs=dict(states), types=dict(states), keeps=True
        )
        depth = rng.choice([1, 1, 2])
        fields = {
            n: pipelines.value(rng, pipeline, case.ndim, d, depth) for n, d in case.fields.items()
        }
        read = {name for _, _, given, _ in pipeline.calls for _, name in given}
        if not pipeline.calls or not set(pipeline.inputs) <= {*fields.values(), *read}:
            continue
        source = pipelines.text(case, pipeline, fields)
        names = pipelines.defined(source, pipeline.names)
        hows = [(name, rng.choice(["rows", "inline"])) for name, *_ in pipeline.calls]
        stencil = npt.stencil(
            **case.options,
            dtype=tuple(states.values()),
            overflow=rng.choice(["wrap", "saturate"]),
            schedule=replace(schedule, stages=tuple(hows) if rng.random() < 0.5 else ()),
        )(names["whole"])
        scalars = case.scalars | pipeline.open
        return stencil, replace(case, source=source, fields=pipeline.inputs, scalars=scalars)


def changing(rng: Random, value: object) -> list[object]:
    """Values of one type for the steps."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [value]
    return [value, value, value / 2 if isinstance(value, float) else value // 2]


def on_dask(
    rng: Random, stencil: npt.Stencil, arguments: dict, steps: int, options: dict, wanted: list
) -> None:
    """Check the steps on Dask, where they meet blocks with open sides."""
    shape = wanted[0].shape
    chunks = [pipelines.random_cut(rng, n) for n in shape]
    lazy = {
        n: da.from_array(one, chunks=chunks) if n in stencil.fields else one
        for n, one in arguments.items()
    }
    made = stencil.iterate(**lazy, steps=steps, **options)
    for one, other in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
        words = f"{chunks}, {options}"
        np.testing.assert_array_equal(one.compute(scheduler="sync"), other, err_msg=words)


def in_parts(
    rng: Random, stencil: npt.Stencil, arguments: dict, steps: int, options: dict, wanted: list
) -> None:
    """Check the steps of a state in parts, each of which goes on by itself for some of them."""
    shape = np.broadcast_shapes(*(np.shape(arguments[name]) for name in stencil.fields))
    axis = len(shape) - stencil.definition.rank if stencil.definition.rank else 0
    count = rng.choice([2, 2, 3, 5])

    def part(comm: Comm) -> list:
        own = {
            n: npt.distribute(np.broadcast_to(one, shape), comm, axis=axis)
            if n in stencil.fields else one
            for n, one in arguments.items()
        }  # fmt: skip
        made = stencil.iterate(**own, steps=steps, comm=comm, **options)
        return list(made) if isinstance(made, tuple) else [made]

    try:
        parts = on_threads(count, part)
    except (TypeError, ValueError) as error:
        if "cannot be cut" in str(error) or "asks for positions" in str(error):
            return
        raise
    for one, other in zip(zip(*parts, strict=True), wanted, strict=True):
        np.testing.assert_array_equal(np.concatenate(one, axis), other, err_msg=f"{options}")


def drawn_step(rng: Random, seed: int) -> tuple[npt.Stencil, kernels.Case]:
    """A stencil that can be iterated, which calls others if the seed is odd, and its kernel."""
    schedule = random_schedule(rng) if rng.random() < 0.5 else Schedule()
    schedule = replace(schedule, steps=rng.choice([2, 3, 4]))
    return (staged_step if seed % 2 else plain_step)(rng, schedule)


def agrees(seed: int) -> bool:
    """Check one seed; whether steps were chained."""
    rng = Random(seed)
    stencil, case = drawn_step(rng, seed)
    count = len(case.outputs)
    core = (rng.randint(20, 60),) if case.ndim == 1 else (rng.randint(9, 22), rng.randint(9, 22))
    if case.ndim == 3:
        core = (rng.randint(5, 12), rng.randint(5, 12), rng.randint(5, 9))
    if seed % 2:
        # Calls look farther together than one by itself; of volumes, as plain Python, one axis
        # is enough.
        core = (2 * core[0], *core[1:]) if case.ndim == 3 else tuple(2 * n for n in core)
    # Rows and planes are cut as only much longer ones would be, if they are long enough for it.
    iterating.KEPT, iterating.KEPT_PLANES = rng.choice([(1, 1), (1, 1 << 20), (1 << 20, 1 << 20)])
    if case.ndim > 1 and rng.random() < 0.3:
        core = (*core[:-2], *rng.choice([(core[-2], 70), (40, core[-1])]))
    shape = (*rng.choice([(), (), (2,), (2, 1)]), *core)
    arrays = {n: np.ascontiguousarray(kernels.values(rng, d, shape, case.averages))
              for n, d in case.fields.items()}  # fmt: skip
    arrays |= kernels.random_arrays(rng, case, shape) | arrays
    boundary = kernels.random_boundary(rng, case.ndim, rules=RULES)
    # Of its own, so that all else is what it was.
    other = Random(-seed)
    if other.random() < 0.2:
        kinds = {np.dtype(dtype).kind for dtype in case.fields.values()}
        boundary = kernels.random_conditions(other, core, kinds, valid=False)
    options = {"boundary": boundary, "cval": rng.choice([0, 1]), "threads": rng.choice([1, 2])}
    steps = rng.randint(0, 9)
    wanted = [arrays[name] for name in stencil.fields[:count]]
    each = {
        name: changing(rng, one) if rng.random() < 0.3 else [one]
        for name, one in case.scalars.items()
    }
    try:
        for step in range(steps):
            state = dict(zip(stencil.fields, wanted, strict=False))
            now = {name: one[step % len(one)] for name, one in each.items()}
            sides = Boundary.of(boundary).after(step).sides(case.ndim)
            made = stencil(**(arrays | state), **now, **(options | {"boundary": sides}))
            wanted = list(made) if isinstance(made, tuple) else [made]
    except TypeError:
        # Plain Python cannot shift a uint64 by a signed number; Numba can.
        return False
    given = {
        name: one[0] if len(one) == 1 else lambda step, one=one: one[step % len(one)]
        for name, one in each.items()
    }
    made = stencil.iterate(**arrays, **given, steps=steps, **options)
    for one, other in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
        assert one.dtype == other.dtype, (seed, str(case))
        np.testing.assert_array_equal(one, other, err_msg=f"seed {seed}, {options}\n{case}")
    if seed % 3 == 0:
        del options["threads"]
        on_dask(rng, stencil, arrays | given, steps, options, wanted)
    if seed % 3 == 1 and not Boundary.of(boundary).conditions:
        options.pop("threads", None)
        in_parts(rng, stencil, arrays | given, steps, options, wanted)
    return bool(stencil.definition.chains)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    with bounds.interpreted():
        print(sum(agrees(seed) for seed in range(first, last)))
