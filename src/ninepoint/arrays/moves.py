"""Moves: many small copies between two arrays as one call of machine code.

To pad a block, or to take both ends of every row, NumPy needs several assignments of a
microsecond and more each.  Where the same copies are made again and again, a compiled function
does all of them at once; it goes by lists of places:

    target[s, tp[i], tr[j], tc[k]] = source[s, sp[i], sr[j], sc[k]]

It copies bytes, so that it is compiled once for each size of element, whatever the dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ninepoint.backends.numba import cache as compiled

Places: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]

# What elements of so many bytes are copied as.
UNITS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)} | {16: np.dtype("complex128")}

# The copies know so many axes beside the stack's.
AXES = 3

# Columns side by side are a loop of their own from so many on.
SIDE_BY_SIDE = 4


def lifted(ndim: int, stacked: bool) -> tuple[Any, ...]:
    """The index that gives an array of `ndim` core axes the four axes of a move."""
    return (slice(None) if stacked else None, *(None,) * (AXES - ndim), ...)


def listed(axes: Sequence[tuple[Places, Places]]) -> Places:
    """Places in the source and in the target along each axis, as the machine code reads them."""
    pairs = [np.stack(axis, -1) for axis in axes]
    while len(pairs) < AXES:
        pairs.insert(0, np.zeros((1, 2), np.int64))
    planes, rows, columns = pairs
    start, stop = _side_by_side(columns)
    first = columns[start].tolist() if stop > start else [0, 0]
    single = np.concatenate([columns[:start], columns[stop:]])
    if len(single):
        # The last is copied again until there are threes.
        single = np.concatenate([single, single[-1:].repeat(-len(single) % 3, 0)])
    threes = single.reshape(-1, 3, 2).transpose(0, 2, 1)
    counts = [len(planes), len(rows), len(threes), *first, stop - start]
    return np.concatenate([counts, planes.ravel(), rows.ravel(), threes.ravel()])


def _side_by_side(columns: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[int, int]:
    """The longest part whose places follow one another in both arrays, if it is long enough."""
    breaks = np.flatnonzero((np.diff(columns, axis=0) != 1).any(1)) + 1
    bounds = [0, *breaks.tolist(), len(columns)]
    start, stop = max(pairwise(bounds), key=lambda pair: pair[1] - pair[0])
    return (start, stop) if stop - start >= SIDE_BY_SIDE else (0, 0)


@cache
def mover(size: int) -> Callable[..., None]:
    """The compiled function for elements of `size` bytes: source, list of places, target."""
    text = Path(compiled.__file__).with_name("moves.py").read_text()
    unit = UNITS[size]
    run: Callable[..., None] = compiled.load(
        text, "moves", (unit,), partial(_signature, unit), fastmath=False, raises=False
    )
    return run


def _signature(unit: np.dtype[Any]) -> Any:
    # Imported here, not above: `import ninepoint` must not import Numba.
    from numba import from_dtype, types

    element = from_dtype(unit)
    return types.void(
        types.Array(element, 4, "A", readonly=True),
        types.Array(types.int64, 1, "C", readonly=True),
        types.Array(element, 4, "A"),
    )
