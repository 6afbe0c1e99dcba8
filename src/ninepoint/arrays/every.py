"""Every: which points of a result are made, as the option `every=` says.

every=(2, 3)     ->     result[::2, ::3], of the lengths ceil(n / 2) and ceil(n / 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

# A step, or a factor, for all axes of a kernel, or one for each of them.
Every: TypeAlias = int | tuple[int, ...]

# No axis is as long: larger steps make the first point too, but no program could hold them.
LONGEST = 1 << 62

# The step along each axis.
Steps: TypeAlias = tuple[int, ...]


def per_axis(name: str, given: Any) -> Every:
    """Read an option, such as `every`, of one whole number for each axis, or one for all of them.

    Ones are 1, however they are given.

    Raises
    ------
    TypeError
        If it holds anything but whole numbers.
    ValueError
        If one of them is less than 1, or there are none.
    """
    several = isinstance(given, tuple | list)
    numbers = tuple(given) if several else (given,)
    cure = f"write one whole number for each axis, such as {name}=(2, 2), or one for all of them"
    for one in numbers:
        if isinstance(one, bool | np.bool_) or not isinstance(one, int | np.integer):
            raise TypeError(f"{name}={given!r}: {one!r} is no whole number; {cure}.")
        if one < 1:
            raise ValueError(f"{name}={given!r}: {one} is less than 1; {cure}.")
    if not numbers:
        raise ValueError(f"{name}={given!r} is empty; {cure}.")
    if all(one == 1 for one in numbers):
        return 1
    whole = tuple(min(int(one), LONGEST) for one in numbers)
    return whole if several else whole[0]


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


def thinned_chunks(chunks: Sequence[Sequence[Any]], steps: Steps) -> tuple[tuple[Any, ...], ...]:
    """The chunks of those points, cut as the full result is; there is a step for each axis."""
    return tuple(thinned_sizes(sizes, step) for sizes, step in zip(chunks, steps, strict=True))


def thinned(
    array: Any, steps: Steps, along: Sequence[int], first: Sequence[int] | None = None
) -> Any:
    """Some points of an array, the first of each axis or others on; axes count from the end."""
    index = [slice(None)] * array.ndim
    for axis, step, start in zip(along, steps, first or (0,) * len(steps), strict=True):
        index[axis] = slice(start, None, step)
    return array[tuple(index)]
