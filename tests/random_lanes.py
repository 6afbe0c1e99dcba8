"""Random kernels on stacks that lie innermost, against the same arrays image by image.

    python tests/random_lanes.py FIRST LAST

The generated text runs as plain Python, on arrays that check every index.  Prints how many seeds
were done in which way.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import agreement
import kernels
from agreement import Plain, with_positions
from ninepoint.arrays import accepted
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.arrays.lanes import with_lanes

COUNTS = (2, 3, 4, 5, 40)


def inside_out(array: np.ndarray, ndim: int) -> np.ndarray:
    """The same array, the axis before its core axes innermost in memory."""
    if array.ndim <= ndim:
        return array
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, -1 - ndim, -1)), -1, -1 - ndim)


def check(seed: int) -> str:
    """Compare one kernel; gives how its stack was done."""
    rng = Random(seed)
    drawn = agreement.draw(seed)
    case, stencil = drawn.case, drawn.stencil
    shape = kernels.random_shape(rng, case.ndim)
    arrays = kernels.random_arrays(rng, case, (rng.choice(COUNTS), *shape))
    fields = [accepted.as_field(arrays[name]) for name in stencil.fields]
    others = {n: drawn.values.get(n, stencil.defaults.get(n)) for n in stencil.scalars}
    compiled, _, _ = stencil.definition.compiled(
        [accepted.native(f.dtype) for f in fields], others, "keep" in str(drawn.boundary)
    )
    program: Any = Plain(compiled.bind(others))
    boundary = Boundary.of(drawn.boundary)
    # Conditions are made of calls with a border of another kind.
    border = Boundary.of("mirror" if boundary.conditions else boundary).on(compiled.ndim)
    fields = with_positions(stencil, others, fields)
    planar = [np.ascontiguousarray(f) for f in fields]
    lasting = [inside_out(f, case.ndim) for f in fields]
    done = "not compiled for that"
    if compiled.written is not None:
        found = with_lanes(program.within(shape), np.broadcast_arrays(*lasting))
        done = "as before" if found is None else "levels" if found[0].levels else "interleaved"
    wanted = on_numpy.apply(program, planar, border=border, cval=0, threads=1)
    result = on_numpy.apply(program, lasting, border=border, cval=0, threads=1)
    for one, other in zip(each(result), each(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    outs = tuple(inside_out(np.zeros_like(one), case.ndim) for one in each(wanted))
    on_numpy.apply(program, lasting, border=border, cval=0, threads=1, out=outs)
    for one, other in zip(outs, each(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
    return done


def each(results: Any) -> tuple[np.ndarray, ...]:
    return results if isinstance(results, tuple) else (results,)


def main(first: int, last: int) -> None:
    print(Counter(check(seed) for seed in range(first, last)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
