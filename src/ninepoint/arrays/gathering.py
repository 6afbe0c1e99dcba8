"""Gathering: what stands outside an array, copied from inside.

One formula per rule, exact for any reach (an axis of length 3 may be asked for index -50):

    index         ... -4 -3 -2 -1 | 0  1  2 |  3  4  5  6 ...
    nearest            0  0  0  0 | 0  1  2 |  2  2  2  2
    reflect            2  2  1  0 | 0  1  2 |  2  1  0  0
    mirror             0  1  2  1 | 0  1  2 |  1  0  1  2
    wrap               2  0  1  2 | 0  1  2 |  0  1  2  0

`source_indices` is that formula, `runs` the same thing as slices, and `Gather` copies a block
that sticks out of its array with a handful of slice assignments and no fancy indexing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ninepoint.arrays.borders import Array, Border, Index, Rule
from ninepoint.arrays.copying import copy_to
from ninepoint.backends.memory import empty


def source_indices(
    start: int, stop: int, n: int, before: Rule, after: Rule, lanes: int = 1
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For every position in [start, stop) of an axis of length `n`, the element that stands there.

    A rule takes `lanes` elements as one; `n` is a multiple of them.  -1 means that nothing does
    ("constant", or n == 0). The rules without neighbours ("fill", "keep", "valid") are mapped to
    the nearest element: what is computed from it is discarded.
    """
    position = np.arange(start, stop, dtype=np.int64)
    if n == 0:
        return np.full_like(position, -1)
    if lanes > 1:
        column, lane = np.divmod(position, lanes)
        first, last = start // lanes, -(-stop // lanes)
        columns = source_indices(first, last, n // lanes, before, after)[column - first]
        return np.where(columns < 0, -1, columns * lanes + lane)
    low = _mapped(position, n, before)
    if before == after:
        return low
    # Positions inside are their own source under either rule.
    return np.where(position < 0, low, _mapped(position, n, after))


def _mapped(
    position: np.ndarray[tuple[int], np.dtype[np.int64]], n: int, rule: Rule
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    match rule:
        case "constant":
            return np.where((position >= 0) & (position < n), position, -1)
        case "wrap":
            return position % n
        case "reflect":
            folded = position % (2 * n)
            return np.minimum(folded, 2 * n - 1 - folded)
        case "mirror":
            period = max(1, 2 * n - 2)  # n == 1 has one element, at index 0, and period 1
            folded = position % period
            return np.minimum(folded, period - folded) if n > 1 else np.zeros_like(folded)
        case _:
            return np.clip(position, 0, n - 1)


@dataclass(frozen=True, slots=True)
class Run:
    """Positions [start, stop) of a block come from `count` source elements, `step` apart.

    `first` is the source of position `start`; step is 1, -1 or 0 (one element repeated), and
    `first` is -1 where there is no source.
    """

    start: int
    stop: int
    first: int
    step: int

    @property
    def source(self) -> slice:
        """The source elements as a slice, in the order of the positions."""
        last = self.first + self.step * (self.stop - self.start)
        if self.step == 0:
            return slice(self.first, self.first + 1)
        return slice(self.first, last if last >= 0 else None, self.step)

    @property
    def extent(self) -> tuple[int, int]:
        """The least source index and one past the greatest."""
        last = self.first + self.step * (self.stop - self.start - 1)
        return min(self.first, last), max(self.first, last) + 1


@lru_cache(maxsize=4096)
def runs(
    start: int, stop: int, n: int, before: Rule, after: Rule, lanes: int = 1
) -> tuple[Run, ...]:
    """Give `source_indices` as few runs, positions counted from `start`.

    Costs time in proportion to what lies outside the array, not to its length.
    """
    inner_start, inner_stop = min(max(start, 0), stop), max(min(stop, n), start)
    if inner_start >= inner_stop:
        return tuple(split(source_indices(start, stop, n, before, after, lanes), 0))
    low = source_indices(start, inner_start, n, before, after, lanes)
    high = source_indices(inner_stop, stop, n, before, after, lanes)
    return (
        *split(low, 0),
        Run(inner_start - start, inner_stop - start, inner_start, 1),
        *split(high, inner_stop - start),
    )


def split(sources: np.ndarray[tuple[int], np.dtype[np.int64]], at: int) -> Iterator[Run]:
    """Give sources as runs, positions counted from `at`."""
    values = sources.tolist()
    start = 0
    while start < len(values):
        first, stop = values[start], start + 1
        step = values[stop] - first if stop < len(values) else 0
        # "No source" is -1: it must never pass for the neighbour of element 0.
        if abs(step) > 1 or min(first, values[min(stop, len(values) - 1)]) < 0:
            step = 0
        while stop < len(values) and values[stop] == values[stop - 1] + step:
            if values[stop] < 0 <= first:
                break
            stop += 1
        yield Run(at + start, at + stop, first, step if stop - start > 1 else 0)
        start = stop


class Gather:
    """Copies one block, which may stick out, of arrays of shape (stack, *shape).

    Axes whose outside positions repeat elements that are in the block anyway are padded
    inside the block, one after the other (2 copies an axis); the others ("wrap" at one end)
    need every combination of runs.
    """

    __slots__ = ("copies", "patches", "shape")

    def __init__(
        self, shape: Sequence[int], start: Sequence[int], stop: Sequence[int], border: Border
    ) -> None:
        self.shape = tuple(b - a for a, b in zip(start, stop, strict=True))
        every = [
            runs(a, b, n, *rules, border.lanes_along(axis))
            for axis, (a, b, n, rules) in enumerate(
                zip(start, stop, shape, border.rules, strict=True)
            )
        ]
        inside = [_own(axis, a) for axis, a in zip(every, start, strict=True)]
        whole = slice(None)
        first = [
            (own,) if own is not None else axis for own, axis in zip(inside, every, strict=True)
        ]
        # Each entry is (target, source); a source of None means the constant.
        self.copies: list[tuple[Index, Index | None]] = []
        for parts in itertools.product(*first):
            target = (whole, *(slice(run.start, run.stop) for run in parts))
            absent = any(run.first < 0 for run in parts)
            source = None if absent else (whole, *(run.source for run in parts))
            self.copies.append((target, source))
        self.patches: list[tuple[Index, Index | None]] = []
        done = [whole if own is None else slice(own.start, own.stop) for own in inside]
        for axis, own in enumerate(inside):
            if own is None:
                continue
            outside = [run for run in every[axis] if run is not own]
            pair = _pair_of_ends(outside, self.shape[axis], start[axis])
            if pair is not None:
                cuts = [(whole, *done[:axis], cut, *done[axis + 1 :]) for cut in pair]
                self.patches.append((cuts[0], cuts[1]))
                outside = []
            for run in outside:
                place = (*done[:axis], slice(run.start, run.stop), *done[axis + 1 :])
                patch: Index | None = None
                if run.first >= 0:
                    # The same elements, where they stand in the block.
                    moved = Run(0, run.stop - run.start, run.first - start[axis], run.step)
                    patch = (whole, *done[:axis], moved.source, *done[axis + 1 :])
                self.patches.append(((whole, *place), patch))
            done[axis] = whole

    def __call__(self, array: Array, cval: Any, dtype: np.dtype[Any]) -> Array:
        """Give the block, C-contiguous and of `dtype`; `cval` stands where nothing else does."""
        block: Array = empty((array.shape[0], *self.shape), dtype)
        for target, source in self.copies:
            if source is None:
                block[target] = cval
            else:
                copy_to(block[target], array[source])
        for target, source in self.patches:
            block[target] = cval if source is None else block[source]
        return block


def _pair_of_ends(outside: list[Run], n: int, start: int) -> tuple[slice, slice] | None:
    """Both ends of one element each as one slice of the block, and one for their sources."""
    if [(run.start, run.stop) for run in outside] != [(0, 1), (n - 1, n)]:
        return None
    low, high = (run.first - start for run in outside)
    if min(run.first for run in outside) < 0 or low == high:
        return None
    last = high + (1 if high > low else -1)
    return slice(0, n, n - 1), slice(low, last if last >= 0 else None, high - low)


def _own(axis: tuple[Run, ...], start: int) -> Run | None:
    """Give the run of positions inside the array, if it can fill all other positions."""
    own = next((run for run in axis if run.first == run.start + start and run.first >= 0), None)
    if own is None:
        return None
    low, high = own.extent
    for run in axis:
        if run.first >= 0 and not (low <= run.extent[0] and run.extent[1] <= high):
            return None
    return own
