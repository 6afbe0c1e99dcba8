"""Which points a result has: some of those of its fields (`every=`), or more (`upsample=`).

every=(2, 3)     ->     result[::2, ::3], of the lengths ceil(n / 2) and ceil(n / 3)

upsample=(k, l)  ->     a kernel of k * l results, the phases, on the fields   ->   interleaved

    a a b b        phase (0, 0), (0, 1)        result p is around the element p // k
    c c d d        phase (1, 0), (1, 1)        phase r has the results k * I + r

To everything that looks at neighbours or at borders a phase is an ordinary result on the fields.
Only where results are put together are there more points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from .accepted import is_whole
from .layout import Shape

# A step, or a factor, for all axes of a kernel, or one for each of them.
Every: TypeAlias = int | tuple[int, ...]

# No axis is as long: larger steps make the first point too, but no program could hold them.
LONGEST = 1 << 62


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
        if not is_whole(one):
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
def steps_of(every: Every, ndim: int) -> Shape:
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


def thinned(
    array: Any, steps: Shape, along: Sequence[int], first: Sequence[int] | None = None
) -> Any:
    """Some points of an array, the first of each axis or others on; axes count from the end."""
    index = [slice(None)] * array.ndim
    for axis, step, start in zip(along, steps, first or (0,) * len(steps), strict=True):
        index[axis] = slice(start, None, step)
    return array[tuple(index)]


def finer(shape: Shape, factors: Sequence[int]) -> Shape:
    """Positions or lengths along the axes of a kernel, in the result."""
    return tuple(n * k for n, k in zip(shape, factors, strict=True)) if factors else shape


def cut_shapes(
    shapes: Sequence[Shape], values: Sequence[int], fine: Mapping[int, Mapping[int, int]]
) -> list[Shape]:
    """Shapes of the fields of a call, of which the `fine` ones are as long as those beside them.

    The finer result of a field that has half as many points, rounded up, may have one too many.
    """
    found = list(shapes)
    for position, value in enumerate(values):
        for axis, factor in fine.get(value, {}).items():
            beside = [
                shape[axis]
                for other, shape in zip(values, shapes, strict=True)
                if axis not in fine.get(other, {}) and len(shape) >= -axis and shape[axis] != 1
            ]
            shape = list(found[position])
            if len(shape) >= -axis and beside and 0 < shape[axis] - min(beside) < factor:
                shape[axis] = min(beside)
                found[position] = tuple(shape)
    return found
