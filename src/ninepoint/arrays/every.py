"""Every: which points of a result are made, as the option `every=` says.

every=(2, 3)     ->     result[::2, ::3], of the lengths ceil(n / 2) and ceil(n / 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

# A step for all axes of a kernel, or one for each of them.
Every: TypeAlias = int | tuple[int, ...]

# Lanes that are copied one after the other: NumPy copies a pixel of them by itself.  (Every second
# of 512 x 768 x 3 bytes: 90 us, pixel by pixel 350; Zen 5, under load.)
LANES = 8

# No axis is as long: larger steps make the first point too, but no program could hold them.
LONGEST = 1 << 62

# The step along each axis.
Steps: TypeAlias = tuple[int, ...]


def checked_every(given: Any) -> Every:
    """Read the option.

    Raises
    ------
    TypeError
        If it holds anything but whole numbers.
    ValueError
        If one of them is less than 1, or there are none.
    """
    if isinstance(given, tuple | list):
        if not given:
            raise ValueError(f"every={given!r} is empty; give one step, or one for each axis.")
        return tuple(_step(given, one) for one in given)
    return _step(given, given)


def _step(given: Any, step: Any) -> int:
    if isinstance(step, bool | np.bool_) or not isinstance(step, int | np.integer):
        raise TypeError(f"every={given!r} must be a whole number, or one for each axis.")
    if step < 1:
        raise ValueError(f"every={given!r}: each step must be 1 or more; 1 makes all points.")
    return min(int(step), LONGEST)


@lru_cache(maxsize=256)
def steps_of(every: Every, ndim: int) -> Steps:
    """Give the step along each axis of a stencil of `ndim` axes.

    Raises
    ------
    ValueError
        If there is another number of them.
    """
    if isinstance(every, int):
        return (every,) * ndim
    if len(every) != ndim:
        raise ValueError(
            f"every={every} has {len(every)} entries, but the stencil has {ndim} "
            f"{'axis' if ndim == 1 else 'axes'}; give one number, or one for each axis."
        )
    return every


def steps_left(every: Steps, done: Steps) -> Steps:
    """The steps that remain to be taken of a result that was made with others, their divisors."""
    return tuple(k // step for k, step in zip(every, done, strict=True))


def thinned_length(n: Any, step: int) -> Any:
    """How many of `n` points are made; of unknown lengths as many."""
    return n if step == 1 else -(-n // step)


def thinned_sizes(sizes: Sequence[Any], step: int) -> tuple[Any, ...]:
    """How many of the points of each chunk are made."""
    if step == 1:
        return tuple(sizes)
    found, first = [], 0
    for size in sizes:
        found.append(thinned_length(first + size, step) - thinned_length(first, step))
        first += size
    return tuple(found)


def thinned_chunks(
    chunks: Sequence[Sequence[Any]], steps: Steps, along: Sequence[int]
) -> tuple[tuple[Any, ...], ...]:
    """The chunks of those points, where they are cut as the full result is."""
    found = [tuple(sizes) for sizes in chunks]
    for axis, step in zip(along, steps, strict=True):
        found[axis] = thinned_sizes(found[axis], step)
    return tuple(found)


def thinned(array: Any, steps: Steps, along: Sequence[int]) -> Any:
    """The points of a full result that are made; `along` counts its axes from the end."""
    index = [slice(None)] * array.ndim
    for axis, step in zip(along, steps, strict=True):
        index[axis] = slice(None, None, step)
    return array[tuple(index)]


def thinned_copy(array: Any, steps: Steps, along: Sequence[int]) -> Any:
    """A copy of these points, in the order of memory that they have in the full result."""
    some = thinned(array, steps, along)
    if type(some) is not np.ndarray or not some.size:
        return some.copy(order="K")
    lanes = min(range(some.ndim), key=lambda axis: (some.shape[axis] == 1, some.strides[axis]))
    if not 1 < some.shape[lanes] <= LANES:
        return some.copy(order="K")
    made = np.empty_like(some)
    for k in range(some.shape[lanes]):
        lane = (slice(None),) * lanes + (k,)
        made[lane] = some[lane]
    return made
