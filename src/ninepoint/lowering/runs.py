"""Runs: windows of any shape as few boxes of elements that neighbours share.

    . . 1 . .        columns of 1, 3 and 5:     v3 = x[0] + x[1] + x[2]      (kept for a row)
    . 1 1 1 .                                   v5 = v3 + x[3] + x[4]        (kept for a row)
    1 1 1 1 1   ->
    . 1 1 1 .        5 reads, not 13:           out = x[0, -2] + v3[-1, -1] + v5[-2, 0]
    . . 1 . .                                         + v3[-1, 1] + x[0, 2]

Elements that stand in a line are runs.  A run is made of shorter ones, of which an extreme may
take elements twice; the runs of one length that stand side by side are joined to boxes in the same
way.  Which lengths are kept in rows, and whether runs go down the columns or along the rows,
is what costs least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TypeAlias

from .cost import LOAD, PASS, STORE

# Rows and columns: how far away an element is, or how long a box.
Pair: TypeAlias = tuple[int, int]

# What another element costs where it is read, and what a kept box costs besides its reads.
ELEMENT = LOAD + 1
_KEPT = STORE + PASS - 1

# Elements up to which all sets of levels are tried: those of 1000 take 0.1 s.
SEARCHED = 500

# What it costs to write a level of doubling to a row of its own, in loads: so counted, what
# needs least was within 3 % of the fastest for 15, 31 and 51 elements of 8 and 32 bits (Zen 4).
LEVEL = 1

# Lengths of runs among which those to keep are sought one by one; beyond, all are kept.
_SOUGHT = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of elements, and where it begins."""

    box: Pair
    place: Pair


@dataclass(frozen=True, slots=True)
class Boxes:
    """A window as pieces; boxes that are kept, each made of pieces that come before it."""

    kept: tuple[tuple[Pair, tuple[Piece, ...]], ...]
    pieces: tuple[Piece, ...]

    @property
    def cost(self) -> float:
        """What a point costs, in additions."""
        return ELEMENT * self.reads + _KEPT * len(self.kept)

    @property
    def reads(self) -> int:
        """How many reads are written."""
        return len(self.pieces) + sum(len(pieces) for _, pieces in self.kept)


@cache
def boxes(places: tuple[Pair, ...], idempotent: bool) -> Boxes:
    """The cheapest boxes of elements that stand at `places`, each of them once."""
    found = [_boxes(places, idempotent, axis) for axis in (0, 1)]
    return min(found, key=lambda one: one.cost)


def along_rows(places: Iterable[Pair]) -> list[tuple[Pair, int]]:
    """Where the runs along the rows begin, and how long they are."""
    return _runs(places, 1)


def _boxes(places: Iterable[Pair], idempotent: bool, axis: int) -> Boxes:
    starts: dict[int, list[Pair]] = {}
    for place, length in _runs(places, axis):
        starts.setdefault(length, []).append(place)
    # Runs of one length side by side are read once each where they are joined.
    beside = {length: _runs(where, 1 - axis) for length, where in starts.items()}
    joined = {
        length: _chosen(Counter(n for _, n in row), idempotent) for length, row in beside.items()
    }
    uses = {
        length: sum(len(joined[length].of(n)) for n in joined[length].levels)
        + sum(len(joined[length].parts(n)) for _, n in row)
        for length, row in beside.items()
    }
    chain = _chosen(uses, idempotent)
    kept = [(_pair(axis, n, 1), _moved(chain.of(n), axis)) for n in chain.levels]
    pieces: list[Piece] = []
    for length, row in beside.items():
        across = joined[length]
        if length > 1 and length not in chain.levels:
            for (down, right), n in row:
                for step in range(n):
                    at = (down + step, right) if axis else (down, right + step)
                    pieces += _moved(chain.of(length), axis, 1, at)
            continue
        for n in across.levels:
            kept.append((_pair(axis, length, n), _moved(across.of(n), 1 - axis, length)))
        for place, n in row:
            pieces += _moved(across.parts(n), 1 - axis, length, place)
    return Boxes(tuple(kept), tuple(pieces))


def _runs(places: Iterable[Pair], axis: int) -> list[tuple[Pair, int]]:
    """Where the longest runs along an axis begin, and how long they are."""
    left = set(places)
    down, right = _pair(axis, 1, 0)
    found: list[tuple[Pair, int]] = []
    for row, column in sorted(left):
        if (row - down, column - right) in left:
            continue
        length = 1
        while (row + length * down, column + length * right) in left:
            length += 1
        found.append(((row, column), length))
    return found


@dataclass(frozen=True, slots=True)
class _Chain:
    """Which lengths of runs are kept in rows, and of what each is made."""

    levels: tuple[int, ...]
    idempotent: bool

    def of(self, length: int) -> tuple[Pair, ...]:
        """The pieces of a run: how long each is, and where it begins."""
        return cut(length, [1, *(n for n in self.levels if n < length)], self.idempotent)

    def parts(self, length: int) -> tuple[Pair, ...]:
        """A run as it is read: one piece, or those that it is made of."""
        whole = length == 1 or length in self.levels
        return ((length, 0),) if whole else self.of(length)

    def cost(self, uses: Mapping[int, int]) -> float:
        """What it costs where each length is read so often."""
        total = sum(ELEMENT * len(self.of(n)) + _KEPT for n in self.levels)
        return total + sum(count * ELEMENT * len(self.parts(n)) for n, count in uses.items())


def _chosen(uses: Mapping[int, int], idempotent: bool) -> _Chain:
    """Begin with what is read, so often each, and add or drop one length after the other."""
    longest = max(uses)
    between = levels(longest, idempotent)
    some = sorted({*uses, *_powers(longest, 2), *between} - {1})
    chain = _Chain(tuple(sorted({*uses, *between} - {1})), idempotent)
    for _ in range(3 if len(some) <= _SOUGHT else 0):
        before = chain
        for n in some:
            other = _Chain(tuple(sorted({n} ^ set(chain.levels))), idempotent)
            chain = min(chain, other, key=lambda one: one.cost(uses))
        if chain == before:
            break
    return chain


def levels(length: int, idempotent: bool, radix: int = 0) -> tuple[int, ...]:
    """The lengths of runs that are made for a longer one, each of some of the one before.

    31 elements      ->      4 of x, 4 of those (16 of x); the window is two pieces of 16

    Each is `radix` times as long; or they are those that need the fewest loads.
    """
    if radix or length > SEARCHED:
        return _powers(length, radix or 4)
    return _fewest(length, idempotent)


def cut(length: int, sizes: Sequence[int], idempotent: bool) -> tuple[Pair, ...]:
    """A run as pieces of some sizes, the largest last: how long each is, and where it begins."""
    if idempotent:
        size = sizes[-1]
        return tuple((size, k) for k in (*range(0, length - size, size), length - size))
    found: list[Pair] = []
    start = 0
    for size in reversed(sizes):
        while length - start >= size:
            found.append((size, start))
            start += size
    return tuple(found)


def _powers(length: int, radix: int) -> tuple[int, ...]:
    sizes = [1]
    while sizes[-1] * radix <= length:
        sizes.append(sizes[-1] * radix)
    return tuple(sizes)


@cache
def _fewest(length: int, idempotent: bool) -> tuple[int, ...]:
    """The levels that need the fewest loads, a level's own row counted as one."""

    def loads(sizes: tuple[int, ...]) -> int:
        made = sum(last // first + LEVEL for first, last in pairwise(sizes))
        return made + len(cut(length, sizes, idempotent))

    found: list[tuple[int, ...]] = [(1,)]
    for sizes in found:
        found += [(*sizes, sizes[-1] * k) for k in range(2, 9) if sizes[-1] * k <= length]
    return min(found, key=lambda sizes: (loads(sizes), -len(sizes), sizes))


def _pair(axis: int, along: int, across: int) -> Pair:
    return (across, along) if axis else (along, across)


def _moved(
    parts: Iterable[Pair], axis: int, width: int = 1, place: Pair = (0, 0)
) -> tuple[Piece, ...]:
    """Parts of a run along an axis, so wide across it, as pieces that begin at a place."""
    down, right = place
    steps = [(n, _pair(axis, start, 0)) for n, start in parts]
    return tuple(Piece(_pair(axis, n, width), (down + a, right + b)) for n, (a, b) in steps)
