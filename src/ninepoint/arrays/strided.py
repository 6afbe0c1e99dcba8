"""Where the elements of an array lie, as lengths and steps: what is known without its memory.

    field (rows, columns), float32         lengths (480, 640)     steps (640, 1)
    beside a stack of 8 frames             lengths (8, 480, 640)  steps (0, 640, 1)

Steps are in elements, so they are the same for a pointer of C++.  Nothing is computed or copied
here; what a GPU is given is made of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Strided:
    """The lengths and the steps of an array, both axis by axis."""

    lengths: tuple[int, ...]
    steps: tuple[int, ...]

    def spread(self, lengths: tuple[int, ...]) -> Strided:
        """Broadcast it, as NumPy does."""
        missing = len(lengths) - len(self.lengths)
        steps = (
            step if length == n else 0
            for step, length, n in zip(self.steps, self.lengths, lengths[missing:], strict=True)
        )
        return Strided(lengths, ((0,) * missing) + tuple(steps))

    def turned(self, order: Sequence[int]) -> Strided:
        """Put its axes in another order."""
        return Strided(
            tuple(self.lengths[axis] for axis in order), tuple(self.steps[axis] for axis in order)
        )

    @property
    def overlaps_itself(self) -> bool:
        """Whether two elements may be one."""
        return overlaps_itself(self.lengths, self.steps, 1)


def overlaps_itself(lengths: Sequence[int], steps: Sequence[int], size: int) -> bool:
    """Whether two elements may be one: an axis does not step over all that shorter steps reach.

    Steps are counted as the `size` of an element is, in elements or in bytes.
    """
    if 0 in lengths:
        return False
    reached = size
    for step, length in sorted(
        (abs(step), n) for step, n in zip(steps, lengths, strict=True) if n > 1
    ):
        if step < reached:
            return True
        reached += step * (length - 1)
    return False


def contiguous(lengths: tuple[int, ...]) -> Strided:
    """Give the steps of an array in C order."""
    steps: list[int] = []
    step = 1
    for length in reversed(lengths):
        steps.append(step)
        step *= max(1, length)
    return Strided(lengths, tuple(reversed(steps)))


def strided(array: Any) -> Strided | None:
    """Where the elements of an array lie; None where that is not counted in whole elements."""
    size = array.dtype.itemsize
    if any(step % size for step in array.strides):
        return None
    return Strided(tuple(array.shape), tuple(step // size for step in array.strides))


def are_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one shape are the same elements."""
    places = (array.__array_interface__["data"][0] for array in (one, other))
    return one.dtype == other.dtype and one.strides == other.strides and len(set(places)) == 1


def mergeable(array: np.ndarray, lead: int) -> bool:
    """Whether the first `lead` axes lie in memory as one axis would."""
    axes = [k for k in range(lead) if array.shape[k] != 1]
    return all(array.strides[a] == array.strides[b] * array.shape[b] for a, b in pairwise(axes))


def is_readable(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether a program can work on `array` itself."""
    return array.dtype == dtype and array.strides[-1] == dtype.itemsize and array.flags.aligned


def is_movable(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether commands can move elements of `array`, whatever its strides."""
    return array.dtype == dtype and array.flags.aligned


def merged_axes(
    lengths: Sequence[int], steps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Make axes one that lie in memory as one in all arrays, and leave out those of length 1."""
    found: list[int] = []
    made: list[list[int]] = [[] for _ in steps]
    for axis, n in enumerate(lengths):
        if n == 1:
            continue
        own = [one[axis] for one in steps]
        if found and all(before[-1] == step * n for before, step in zip(made, own, strict=True)):
            found[-1] *= n
            for before, step in zip(made, own, strict=True):
                before[-1] = step
        else:
            found.append(n)
            for before, step in zip(made, own, strict=True):
                before.append(step)
    return found, made


def merged(arrays: Sequence[Strided]) -> list[Strided]:
    """The same arrays, all of the same lengths, of as few axes as can be."""
    lengths, steps = merged_axes(arrays[0].lengths, [array.steps for array in arrays])
    return [Strided(tuple(lengths), tuple(one)) for one in steps]


def memory_order(lengths: tuple[int, ...], steps: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Find an order of the axes in which the longest steps come first, and the last are short.

    The steps are those of some arrays of these lengths.
    """
    far = [sum(map(abs, own)) for own in zip(*steps, strict=True)]
    return tuple(sorted(range(len(lengths)), key=lambda axis: (lengths[axis] != 1, -far[axis])))


def apart(arrays: Sequence[Strided], most: int) -> Iterator[tuple[list[int], list[Strided]]]:
    """Cut arrays of one shape in parts of at most `most` axes: the offset of each, and the rest.

    The first axes are gone through one by one.
    """
    extra = max(0, len(arrays[0].lengths) - most)
    rest = [Strided(array.lengths[extra:], array.steps[extra:]) for array in arrays]
    for place in product(*map(range, arrays[0].lengths[:extra])):
        offsets = [
            sum(i * step for i, step in zip(place, array.steps, strict=False)) for array in arrays
        ]
        yield offsets, rest
