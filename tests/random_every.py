"""Random kernels, of whose results some points are made, beside all points of them.

NUMBA_DISABLE_JIT=1 python tests/random_every.py FIRST LAST
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import numpy as np

import agreement
import kernels
from ninepoint import _testing as bounds


def check(seed: int) -> int:
    """Compare the results of one seed; how many points were made."""
    drawn = agreement.draw(seed)
    rng = Random(f"every of {seed}")
    ndim = drawn.case.ndim
    arrays = drawn.arrays
    if rng.random() < 0.5:
        shape = tuple(rng.randint(1, 13) for _ in range(ndim))
        arrays = kernels.random_arrays(rng, drawn.case, (*rng.choice([(), (2,)]), *shape))
    every = rng.choice([2, tuple(rng.randint(1, 4) for _ in range(ndim))])
    steps = (every,) * ndim if isinstance(every, int) else every
    index = (..., *(slice(None, None, step) for step in steps))
    given: dict[str, Any] = {**arrays, **drawn.case.scalars, "boundary": drawn.boundary}
    full = drawn.stencil(**given)
    made = drawn.stencil(**given, every=every)
    full, made = (one if isinstance(one, tuple) else (one,) for one in (full, made))
    points = 0
    for one, all_points in zip(made, full, strict=True):
        wanted = all_points[index]
        assert (one.shape, one.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(one, wanted, f"seed {seed}, every={every}\n{drawn.case}")
        points += one.size
    return points


def main(first: int, last: int) -> None:
    """Check many seeds."""
    points = 0
    wrong = []
    for seed in range(first, last):
        try:
            points += check(seed)
        except AssertionError as error:
            print(error, flush=True)
            wrong.append(seed)
    print(f"{points} points; wrong: {wrong}")


if __name__ == "__main__":
    with bounds.interpreted():
        main(*map(int, sys.argv[1:]))
