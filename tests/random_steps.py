"""Random state kernels: iterate(n) and n calls agree to the bit.  Run with NUMBA_DISABLE_JIT=1.

    python tests/random_steps.py FIRST LAST      prints how many of the seeds were chained

As plain Python the generated text needs no compiling, so that many kernels can be tried.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import numpy as np

import bounds
import kernels
import ninepoint as npt
import unlucky
from agreement import random_schedule
from ninepoint.arrays import iterating
from ninepoint.lowering.schedule import Schedule

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


def agrees(seed: int) -> bool:
    """Check one seed; whether steps were chained."""
    rng = Random(seed)
    case = state_kernel(rng)
    count = len(case.outputs)
    schedule = random_schedule(rng) if rng.random() < 0.5 else Schedule()
    stencil = npt.stencil(
        **case.options,
        dtype=tuple(case.fields.values())[:count],
        overflow=rng.choice(["wrap", "saturate"]),
        schedule=replace(schedule, steps=rng.choice([2, 3, 4])),
    )(case.function)
    core = (rng.randint(20, 60),) if case.ndim == 1 else (rng.randint(9, 22), rng.randint(9, 22))
    if case.ndim == 3:
        core = (rng.randint(5, 12), rng.randint(5, 12), rng.randint(5, 9))
    # Rows and planes are cut as only much longer ones would be, if they are long enough for it.
    iterating.KEPT, iterating.KEPT_PLANES = rng.choice([(1, 1), (1, 1 << 20), (1 << 20, 1 << 20)])
    if case.ndim > 1 and rng.random() < 0.3:
        core = (*core[:-2], *rng.choice([(core[-2], 70), (40, core[-1])]))
    shape = (*rng.choice([(), (), (2,), (2, 1)]), *core)
    arrays = {n: np.ascontiguousarray(kernels._values(rng, d, shape, case.averages))
              for n, d in case.fields.items()}  # fmt: skip
    arrays |= kernels.random_arrays(rng, case, shape) | arrays
    boundary = kernels.random_boundary(rng, case.ndim, rules=RULES)
    options = {"boundary": boundary, "cval": rng.choice([0, 1]), "threads": rng.choice([1, 2])}
    steps = rng.randint(0, 9)
    wanted = [arrays[name] for name in stencil.fields[:count]]
    for _ in range(steps):
        state = dict(zip(stencil.fields, wanted, strict=False))
        made = stencil(**(arrays | state), **case.scalars, **options)
        wanted = list(made) if isinstance(made, tuple) else [made]
    made = stencil.iterate(**arrays, **case.scalars, steps=steps, **options)
    for one, other in zip(made if isinstance(made, tuple) else (made,), wanted, strict=True):
        assert one.dtype == other.dtype, (seed, str(case))
        np.testing.assert_array_equal(one, other, err_msg=f"seed {seed}, {options}\n{case}")
    return bool(stencil.definition._chains)


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:])
    with bounds.everything():
        print(sum(agrees(seed) for seed in range(first, last)))
