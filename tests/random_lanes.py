"""Random kernels on axes that lie in any order, against the same arrays image by image.

    python tests/random_lanes.py FIRST LAST

The generated text runs as plain Python, on arrays that check every index.  Prints how many seeds
were done in which way.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from random import Random
from typing import Any

import numpy as np

import agreement
import kernels
from agreement import Plain, with_positions
from ninepoint import _testing as bounds
from ninepoint.arrays import accepted, lanes
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.arrays.lanes import with_lanes

COUNTS = (2, 3, 4, 5, 40)


def inside_out(array: np.ndarray, ndim: int) -> np.ndarray:
    """The same array, the axis before its core axes innermost in memory."""
    if array.ndim <= ndim:
        return array
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, -1 - ndim, -1)), -1, -1 - ndim)


def laid(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The same array, its last axes in another order in memory."""
    order = (*range(array.ndim - len(order)), *(array.ndim - len(order) + k for k in order))
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def check(seed: int) -> str:
    """Compare one kernel; gives how its stack, and its own axes, were done."""
    with bounds.limits(transposed_points=0):
        return _check(seed)


def _check(seed: int) -> str:
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
    lie = partial(inside_out, ndim=case.ndim)
    if seed % 2:
        # Fields with fewer axes lie as they do.
        order = tuple(rng.sample(range(case.ndim + 1), case.ndim + 1))
        lie = partial(laid, order=order)
    lasting = [lie(f) if f.ndim > case.ndim else f for f in fields]
    done = "not compiled for that"
    if compiled.written is not None:
        found = with_lanes(program.within(shape), np.broadcast_arrays(*lasting))
        done = "as before" if found is None else _said(found[0])
    wanted = on_numpy.apply(program, planar, border=border, cval=0, threads=1)
    result = on_numpy.apply(program, lasting, border=border, cval=0, threads=1)
    for one, other in zip(each(result), each(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    outs = tuple(lie(np.zeros_like(one)) for one in each(wanted))
    on_numpy.apply(program, lasting, border=border, cval=0, threads=1, out=outs)
    for one, other in zip(outs, each(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
    return done


def _said(found: lanes.Lanes) -> str:
    inside = "levels" if found.levels else "interleaved" if found.inner else "one by one"
    return f"{inside}, transposed" if found.turn else inside


def each(results: Any) -> tuple[np.ndarray, ...]:
    return results if isinstance(results, tuple) else (results,)


def main(first: int, last: int) -> None:
    print(Counter(check(seed) for seed in range(first, last)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
