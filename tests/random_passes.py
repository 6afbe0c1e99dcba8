"""Random pipelines and steps on a GPU: in as few passes as can be, they are what they were.

    NUMBA_DISABLE_JIT=1 python tests/random_passes.py KIND FIRST LAST ...

with "pipelines" or "steps" prints how many of the seeds launched less than each call by itself
would.  The GPU is the stand-in of tests/cuda, which has to be found where CuPy would be.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from random import Random
from typing import Any

import cupy
import numpy as np

import kernels
import ninepoint as npt
import random_pipelines as pipelines
import random_steps
from ninepoint import _testing as bounds
from ninepoint.calls import Call
from ninepoint.graph import Graph, graph_of
from random_strips import exact


def listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def launches() -> int:
    """How many there were since this was asked last; those for ends are the same ones."""
    names = [one[0] for one in cupy.fake.log if isinstance(one, tuple)]
    cupy.fake.log.clear()
    return sum(not name.endswith("_ends") for name in names)


def recorded(
    stencil: npt.Stencil, fields: Sequence[np.ndarray], others: dict[str, Any], **options: Any
) -> tuple[Graph, int]:
    """The graph of a call, and how many calls there are in it."""
    given = {name: one for name, one in others.items() if name not in stencil.fields}
    call = Call.of(stencil.definition, stencil.definition.defaults | given, **options)
    graph, wanted = graph_of(call, [array.dtype for array in fields], looked=True)
    return graph, len(graph.needed(wanted))


def same(found: Any, wanted: Sequence[np.ndarray], words: str) -> None:
    for one, other in zip(listed(found), wanted, strict=True):
        assert one.dtype == other.dtype, words
        np.testing.assert_array_equal(one.get(), other, err_msg=words)


def pipeline_agrees(seed: int) -> bool:
    """Check one pipeline: the first call, a settled one, and one that writes to `out`."""
    rng = Random(seed)
    drawn = pipelines.drawn_pipeline(rng, (1, 2, 2, 2), conditions=False)
    if drawn is None:
        return False
    if rng.random() < 0.2:
        # One that broadcasts, if there are others.
        name = rng.choice(list(drawn.arrays))
        if len(drawn.arrays) > 1:
            drawn.arrays[name] = drawn.arrays[name][..., :1]
    wanted = pipelines.one_by_one(drawn)
    if wanted is None:
        return False
    options = {name: drawn.options[name] for name in ("boundary", "cval")}
    fields = [drawn.arrays[name] for name in drawn.whole.fields]
    graph, calls = recorded(drawn.whole, fields, drawn.others, **options)
    if not exact(graph):
        return False
    words = f"seed {seed}, {options}\n{drawn.source}"
    there = {name: cupy.asarray(array) for name, array in drawn.arrays.items()}
    launches()
    same(drawn.whole(**there, **drawn.others, **options), listed(wanted), words)
    first = launches()
    same(drawn.whole(**there, **drawn.others, **options), listed(wanted), words)
    assert launches() == first, words
    fewer = first < calls
    out = tuple(cupy.empty(one.shape, one.dtype) for one in listed(wanted))
    for _ in range(2):
        drawn.whole(**there, **drawn.others, **options, out=out if len(out) > 1 else out[0])
        same(out, listed(wanted), words)
    for name, array in drawn.arrays.items():
        np.testing.assert_array_equal(there[name].get(), array, err_msg=words)
    return fewer


def steps_agree(seed: int) -> bool:
    """Check some steps, with somebody who looks at the state now and then."""
    rng = Random(seed)
    stencil, case = random_steps.drawn_step(rng, seed)
    if case.ndim > 2:
        return False
    count, steps = len(case.outputs), rng.randint(1, 11)
    core = (rng.choice([1, 3, 9, 22]),) * (case.ndim - 1)
    shape = (*rng.choice([(), (2,)]), *core, rng.choice([1, 7, 30, 130]))
    arrays = {
        name: np.ascontiguousarray(kernels.values(rng, dtype, shape, case.averages))
        for name, dtype in case.fields.items()
    }
    arrays |= kernels.random_arrays(rng, case, shape) | arrays
    boundary = kernels.random_boundary(rng, case.ndim, rules=random_steps.RULES)
    options = {"boundary": boundary, "cval": rng.choice([0, 1])}
    each = {
        name: random_steps.changing(rng, one) if rng.random() < 0.3 else [one]
        for name, one in case.scalars.items()
    }
    fields = [arrays[name] for name in stencil.fields]
    try:
        graph, calls = recorded(stencil, fields, arrays | case.scalars, **options)
        states = [[arrays[name] for name in stencil.fields[:count]]]
        for step in range(steps):
            state = dict(zip(stencil.fields, states[-1], strict=False))
            now = {name: one[step % len(one)] for name, one in each.items()}
            states.append(listed(stencil(**(arrays | state), **now, **options)))
    except TypeError as error:
        if "ufunc" not in str(error):
            raise
        # Plain Python cannot shift a uint64 by a signed number; Numba can.
        return False
    if not exact(graph):
        return False
    words = f"seed {seed}, {steps} steps, {shape}, {options}\n{case}"
    there = {n: cupy.asarray(a) if n in stencil.fields else a for n, a in arrays.items()}
    given = {
        name: one[0] if len(one) == 1 else lambda step, one=one: one[step % len(one)]
        for name, one in each.items()
    }
    seen: list[tuple[int, list[Any]]] = []
    if rng.random() < 0.4:
        options["every"] = rng.randint(1, 5)
        options["callback"] = lambda step, *shown: seen.append((step, list(shown)))
    out: Any = tuple(cupy.empty(shape, one.dtype) for one in states[-1])
    launches()
    if rng.random() < 0.5:
        options["out"] = out if len(out) > 1 else out[0]
    found = stencil.iterate(**there, **given, steps=steps, **options)
    fewer = launches() < calls * steps
    same(found, states[-1], words)
    for step, shown in seen:
        same(tuple(shown), states[step], words)
    for name in stencil.fields:
        np.testing.assert_array_equal(there[name].get(), arrays[name], err_msg=words)
    return fewer


if __name__ == "__main__":
    checks = {"pipelines": pipeline_agrees, "steps": steps_agree}
    with bounds.interpreted(), np.errstate(all="ignore"):
        for kind, first, last in zip(*(sys.argv[k::3] for k in (1, 2, 3)), strict=True):
            print(kind, sum(map(checks[kind], range(int(first), int(last)))))
