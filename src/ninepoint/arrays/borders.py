"""Borders: what a neighbour outside the array is.

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
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from ninepoint.arrays.conditions import Condition, named_function
from ninepoint.arrays.copying import copy_to
from ninepoint.backends.memory import empty

Rule: TypeAlias = Literal[
    "fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap"
]
Index: TypeAlias = tuple[slice, ...]
Array: TypeAlias = np.ndarray[Any, Any]

RULES: tuple[str, ...] = get_args(Rule)
# NumPy's "reflect" is missing on purpose: the word is SciPy's here, where the edge is repeated.
ALIASES: dict[str, Rule] = {
    "edge": "nearest",
    "symmetric": "reflect",
    "periodic": "wrap",
    "grid-wrap": "wrap",
    "grid-mirror": "reflect",
    "grid-constant": "constant",
}
# Rules under which an output that has no neighbour is not computed at all.
ABSENT: frozenset[Rule] = frozenset(("fill", "keep", "valid"))


@dataclass(frozen=True, slots=True)
class Border:
    """The rule before and after the array along each core axis.

    Along the last one a column may be several `lanes`, elements that lie side by side: what
    stands outside are whole columns.  At a corner the first of the `deciding` axes says what is
    written where nothing is computed; by default that is the first of all.  At some sides that
    are "constant" there may be `ghosts`, each of a value of its own (see `shells`).
    """

    rules: tuple[tuple[Rule, Rule], ...]
    lanes: int = 1
    deciding: tuple[int, ...] = ()
    ghosts: tuple[tuple[bool, bool], ...] = ()

    @property
    def has_constant(self) -> bool:
        """Whether one constant stands beyond some side."""
        ghosts = self.ghosts or ((False, False),) * len(self.rules)
        return any(
            rule == "constant" and not ghost
            for pair, own in zip(self.rules, ghosts, strict=True)
            for rule, ghost in zip(pair, own, strict=True)
        )

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return len(self.rules)

    def uses(self, rule: Rule) -> bool:
        """Whether any side of any axis follows `rule`."""
        return any(rule in pair for pair in self.rules)

    def lanes_along(self, axis: int) -> int:
        """How many elements a column has, along this of the core axes."""
        return self.lanes if axis == len(self.rules) - 1 else 1

    def __str__(self) -> str:
        """Give it as one would write the option."""
        sides = {side for pair in self.rules for side in pair}
        if len(sides) == 1:
            return repr(sides.pop())
        return repr(tuple(a if a == b else (a, b) for a, b in self.rules))


@dataclass(frozen=True, slots=True)
class Boundary:
    """A `boundary=` option, read once where it was written, before the axes are counted.

    Holds the rules before and after each axis; those of one entry for `each` axis if the option
    was one name.  Equal boundaries mean the same, whichever of a rule's names was written.
    """

    entries: tuple[tuple[Rule | Condition, Rule | Condition], ...]
    each: bool
    # The values in the place of which names and `cval` stand.
    said: tuple[Condition, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of(given: object) -> Boundary:
        """Read the option.

        Parameters
        ----------
        given : str, Condition or sequence
            One name or condition for every axis, or one entry for each axis, a name, a condition
            or a ``(before, after)`` pair of these.

        Raises
        ------
        ValueError
            If a name is unknown, or "wrap" stands on one side of an axis only.
        TypeError
            If it is neither text nor a sequence.
        """
        if isinstance(given, Boundary):
            return given
        if isinstance(given, str):
            return _named(given)
        if isinstance(given, Condition):
            return Boundary(((given, given),), True)
        if not isinstance(given, tuple | list):
            raise TypeError(
                f"boundary must be a name or one entry per axis, not {given!r}; "
                f"names are {_names()}{_cure(given)}."
            )
        return Boundary(tuple(_pair(entry) for entry in given), False)

    def on(self, ndim: int) -> Border:
        """Give the border of a stencil of `ndim` axes.

        Raises
        ------
        ValueError
            If there is another number of entries.
        TypeError
            If there are conditions: only what knows about them may ask for their ghosts.
        """
        if self.conditions:
            self.sides(ndim)
            raise TypeError(
                f"boundary={self} has values at the border, which are there for arrays of NumPy, "
                "Dask and xarray, and not on a GPU; name a border rule."
            )
        return _on(self, ndim)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the rules that are no names."""
        return tuple(one for pair in self.entries for one in pair if isinstance(one, Condition))

    def sides(self, ndim: int) -> tuple[tuple[Rule | Condition, Rule | Condition], ...]:
        """The rules and conditions of a stencil of `ndim` axes.

        Raises
        ------
        ValueError
            If there is another number of entries.
        """
        if not self.each and len(self.entries) != ndim:
            raise _uncounted(self, ndim)
        return self.entries * ndim if self.each else self.entries

    def outline(self, ndim: int) -> Border:
        """A border with which results have the same shape: names in the place of conditions."""
        return Border(
            tuple(
                (
                    "nearest" if isinstance(before, Condition) else before,
                    "nearest" if isinstance(after, Condition) else after,
                )
                for before, after in self.sides(ndim)
            )
        )

    @property
    def meaning(self) -> Boundary:
        """The same with names in the place of functions: it pickles, and says what is meant."""
        return self.with_conditions(lambda one: one.of(named_function))

    def named(self, cval: Any) -> tuple[Boundary, Any]:
        """The same by names alone, and its `cval`, where there are such names.

        One value all around is "constant"; and where nothing flows, elements are reflected.
        """
        values = {one.key: one.c for one in self.conditions if one.kind == "dirichlet"}
        if not self.conditions or not all(one.has_name for one in self.conditions):
            return self, cval
        if len(values) > 1 or (values and (self.uses("fill") or self.uses("constant"))):
            return self, cval

        def name(one: Condition) -> Rule:
            return "constant" if one.kind == "dirichlet" else "reflect"

        said = tuple(one for one in self.conditions if one.kind == "dirichlet")[:1]
        named = replace(self.with_conditions(name), said=said)
        return named, next(iter(values.values()), cval)

    def after(self, step: int) -> Boundary:
        """The same as it is after so many steps of an iteration."""
        if not any(one.varies for one in self.conditions):
            return self
        return self.with_conditions(lambda one: one.after(step))

    def with_conditions(self, change: Callable[[Condition], Rule | Condition]) -> Boundary:
        """The same with other conditions, or names in their place."""
        pairs = (
            tuple(change(one) if isinstance(one, Condition) else one for one in pair)
            for pair in self.entries
        )
        return Boundary(tuple((before, after) for before, after in pairs), self.each)

    @property
    def keeps(self) -> bool:
        """Whether any side of any axis has the rule "keep"."""
        return self.uses("keep")

    def uses(self, rule: Rule) -> bool:
        """Whether any side of any axis follows `rule`."""
        return any(rule in pair for pair in self.entries)

    def __str__(self) -> str:
        """Give it as one would write the option."""
        if self.each:
            return repr(self.entries[0][0])
        return repr(tuple(a if a == b else (a, b) for a, b in self.entries))


@lru_cache(maxsize=64)
def _named(name: str) -> Boundary:
    rule = _rule(name)
    return Boundary(((rule, rule),), True)


@lru_cache(maxsize=256)
def _on(boundary: Boundary, ndim: int) -> Border:
    return boundary.outline(ndim)


def _uncounted(boundary: Boundary, ndim: int) -> ValueError:
    return ValueError(
        f"boundary={boundary} has {len(boundary.entries)} entries, but the stencil has {ndim} "
        f"{'axis' if ndim == 1 else 'axes'}; give one name, or one entry per axis "
        "(a name or a (before, after) pair)."
    )


def _pair(entry: object) -> tuple[Rule | Condition, Rule | Condition]:
    if isinstance(entry, str | Condition):
        return (_rule(entry), _rule(entry))
    if not isinstance(entry, tuple | list) or len(entry) != 2:
        raise ValueError(
            f"boundary entry {entry!r} is neither a name nor a (before, after) pair of names"
            f"{_cure(entry)}."
        )
    before, after = _rule(entry[0]), _rule(entry[1])
    if (before == "wrap") != (after == "wrap"):
        raise ValueError(
            f"boundary ({before!r}, {after!r}) wraps on one side only; "
            'use "wrap" on both sides of an axis or on neither.'
        )
    return (before, after)


def _rule(name: object) -> Rule | Condition:
    if isinstance(name, Condition):
        return name
    if isinstance(name, str):
        if name in ALIASES:
            return ALIASES[name]
        if name in RULES:
            return cast(Rule, name)
    raise ValueError(f"unknown boundary {name!r}; use one of {_names()}{_cure(name)}.")


def _cure(given: object) -> str:
    """What to write for something that may be meant as values."""
    if isinstance(given, bool | str) or not (
        callable(given) or isinstance(given, numbers.Number | np.ndarray)
    ):
        return ""
    return ", and values are npt.dirichlet(...)"


def _names() -> str:
    return ", ".join(f'"{name}"' for name in RULES)


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


def fitting_cval(cval: Any, dtype: np.dtype[Any], what: str) -> Any:
    """Give `cval` as a value of `dtype`, the dtype of `what` ("the result", "field 'x'").

    Raises
    ------
    ValueError
        If `dtype` cannot hold it: a fraction, NaN or a number out of range for integers, a
        complex number for reals, a number too big for the float type.
    TypeError
        If it is no number.
    """
    if type(cval) is int and cval == 0:
        return cval
    if isinstance(cval, np.ndarray) and cval.ndim == 0:
        cval = cval[()]
    if not isinstance(cval, numbers.Number | np.number | np.bool_):
        raise TypeError(f"cval must be a number, not {cval!r} of type {type(cval).__name__}.")
    if isinstance(cval, numbers.Complex | np.complexfloating) and not isinstance(
        cval, numbers.Real | np.bool_
    ):
        if dtype.kind != "c":
            raise _unfit(cval, dtype, what, "a real number")
        return dtype.type(cval)
    real: Any = cval
    match dtype.kind:
        case "b" | "i" | "u":
            if not math.isfinite(real) or int(real) != real:
                raise _unfit(cval, dtype, what, "a whole number")
            low, high = (0, 1) if dtype.kind == "b" else _limits(dtype)
            if not low <= int(real) <= high:
                raise _unfit(cval, dtype, what, f"a number from {low} to {high}")
            return dtype.type(int(real))
        case _:
            limit = float(np.finfo(dtype).max)
            try:
                too_big = math.isfinite(real) and abs(float(real)) > limit
            except OverflowError:
                too_big = True
            if too_big:
                raise _unfit(cval, dtype, what, f"a number up to {limit:.4g}")
            return dtype.type(real)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _unfit(cval: object, dtype: np.dtype[Any], what: str, cure: str) -> ValueError:
    return ValueError(
        f"cval={cval!r} does not fit {what}, which is {dtype}; use {cure}, or another dtype."
    )
