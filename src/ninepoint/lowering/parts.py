"""Parts: how a window is taken apart, so that neighbours share what is computed of it.

    1 2 1       1
    2 4 2   =   2  (1 2 1)          found for integers exactly, for floats to a few units in
    1 2 1       1                   the last place of the largest weight

Weights that are a product are applied axis by axis.  A window of any shape is made of runs:

    . . 1 . .        columns of 1, 3 and 5:     v3 = x[0] + x[1] + x[2]      (kept for a row)
    . 1 1 1 .
    1 1 1 1 1   ->   7 reads, not 13:           out = x[0, -2] + v3[-1, -1] + v3[-2, 0] + x[1, 0]
    . 1 1 1 .                                         + x[2, 0] + v3[-1, 1] + x[0, 2]
    . . 1 . .

Elements that stand in a line are a run.  Runs of a length that is met several times are kept in
rows, and levels of doubling for long ones; each is made of shorter ones, of which an extreme may
take elements twice.  Whether runs go down the columns or along the rows, is what costs least.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from ..analysis.rewrite import uncast
from ..base.frozen import frozen
from ..language.ir import (
    Atom,
    Binary,
    Const,
    DType,
    Named,
    Offset,
    Reduce,
    Weight,
    made_as,
    needed,
)
from .schedule import Refused

NO_PRODUCT = "its weights are no product of one factor for each axis"

# What the product of the factors may miss of a weight, in units of the largest one: a few
# roundings of the type in which the weights are applied.
TOLERANCE = {DType.F32: 2.0**-21, DType.C64: 2.0**-21}
FINE = 2.0**-50

Factors: TypeAlias = tuple[tuple[float, ...], ...]


def factors(reduce: Reduce, values: Named) -> tuple[Atom, Factors]:
    """The window's element without its constant weights, and the weights axis by axis.

    There are no factors where there are no weights.  Refused if the weights are no product, or are
    not simply multiplied with.
    """

    def weighted(atom: Atom) -> bool:
        return any(isinstance(one.value, Weight) for one in needed(reduce.body, [atom]))

    if not weighted(reduce.result):
        return reduce.result, ()
    match made_as(reduce.result, values):
        case Binary(op="*", left=left, right=right, dtype=dtype) if reduce.kind in ("sum", "mean"):
            for weight, element in ((left, right), (right, left)):
                table = uncast(weight, values)
                if isinstance(table, Weight) and not weighted(element):
                    numbers = [Const(table.dtype, text).value for text in table.texts]
                    array = np.array(numbers, np.complex128).reshape(reduce.shape)
                    if array.imag.any():
                        raise Refused("its weights are complex")
                    # By its type: a bool counts as 0 or 1.
                    whole = all(isinstance(value, int) for value in numbers)
                    return element, separated(array.real, whole, TOLERANCE.get(dtype, FINE))
    raise Refused("its weights are not simply multiplied with")


def separated(weights: np.ndarray, whole: bool, tolerance: float) -> Factors:
    """A factor for each axis whose product is `weights`.

    Refused if there are none, and for `whole` numbers that a float does not hold.
    """
    shape: Offset = weights.shape
    fits = not whole or np.abs(weights).max() < 2**53
    if fits and weights.ndim == 1:
        return (tuple(weights.tolist()),)
    matrix = weights.reshape(shape[0], -1)
    largest = np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    pivot = matrix[largest]
    if not fits or pivot == 0:
        raise Refused(NO_PRODUCT)
    row, column = matrix[largest[0]], matrix[:, largest[1]]
    if whole:
        divisor = math.gcd(*(int(v) for v in row))
        row, column = row / divisor, column * divisor / pivot
        product = np.outer(column, row)
        fits = (column == np.round(column)).all() and np.array_equal(product, matrix)
    else:
        column = column / pivot
        fits = np.abs(np.outer(column, row) - matrix).max() <= tolerance * abs(pivot)
    if not fits:
        raise Refused(NO_PRODUCT)
    return tuple(column.tolist()), *separated(row.reshape(shape[1:]), whole, tolerance)


# Runs.

# How far away an element is, in rows and columns.
Place: TypeAlias = tuple[int, int]

# What it costs to keep a run, in elements that are read.
_KEPT = 2

# What it costs to write a level of doubling to a row of its own, in loads: so counted, what
# needs least was within 3 % of the fastest for 15, 31 and 51 elements of 8 and 32 bits (Zen 4).
LEVEL = 1

# Elements up to which all sets of levels are tried: those of 1000 take 0.1 s.
SEARCHED = 500


@frozen
class Runs:
    """A window as `found` runs along an axis: where each begins, and how long it is.

    Runs of some `sizes`, in order from 1 on, are kept: each is made of shorter ones.
    """

    axis: int
    found: tuple[tuple[Place, int], ...]
    sizes: Offset
    idempotent: bool

    @property
    def cost(self) -> int:
        """What a point costs, in elements that are read."""
        made = sum(_KEPT + len(self.pieces(size, size - 1)) for size in self.sizes[1:])
        return made + sum(len(self.pieces(length)) for _, length in self.found)

    def pieces(self, length: int, most: int = 0) -> Sequence[tuple[int, int]]:
        """What a run is read as, of sizes up to the `most`: how long each, and where it begins."""
        known = [size for size in self.sizes if size <= (most or length)]
        return cut(length, known, self.idempotent)


@cache
def runs_of(places: tuple[Place, ...], idempotent: bool) -> Runs:
    """The cheapest runs of elements that stand at `places`, each of them once."""
    ways = list[Runs]()
    for axis in (0, 1):
        found = tuple(runs(places, axis))
        lengths = Counter(length for _, length in found)
        several = {1, *(length for length, count in lengths.items() if count > 1)}
        for sizes in (several, several.union(levels(max(lengths), idempotent))):
            ways.append(Runs(axis, found, tuple(sorted(sizes)), idempotent))
    return min(ways, key=lambda one: one.cost)


def runs(places: Iterable[Place], axis: int) -> list[tuple[Place, int]]:
    """Where the longest runs along an axis begin, and how long they are."""
    left = set(places)
    down, right = (0, 1) if axis else (1, 0)
    found = list[tuple[Place, int]]()
    for row, column in sorted(left):
        if (row - down, column - right) in left:
            continue
        length = 1
        while (row + length * down, column + length * right) in left:
            length += 1
        found.append(((row, column), length))
    return found


@cache
def levels(length: int, idempotent: bool, radix: int = 0) -> Offset:
    """The lengths of runs that are made for a longer one, each of some of the one before.

    31 elements      ->      4 of x, 4 of those (16 of x); the window is two pieces of 16

    Each is `radix` times as long, or so many times that the fewest loads are needed.
    """

    def loads(sizes: Offset) -> int:
        made = sum(last // first + LEVEL for first, last in pairwise(sizes))
        return made + len(cut(length, sizes, idempotent))

    radices = [radix] if radix else range(2, 9) if length <= SEARCHED else [4]
    found: list[Offset] = [(1,)]
    for sizes in found:
        found += [(*sizes, sizes[-1] * k) for k in radices if sizes[-1] * k <= length]
    return min(found, key=lambda sizes: (loads(sizes), -len(sizes), sizes))


def cut(length: int, sizes: Sequence[int], idempotent: bool) -> list[tuple[int, int]]:
    """A run as pieces of some sizes, the largest last: how long each is, and where it begins."""
    if idempotent:
        size = sizes[-1]
        return [(size, k) for k in (*range(0, length - size, size), length - size)]
    found = list[tuple[int, int]]()
    start = 0
    for size in reversed(sizes):
        while length - start >= size:
            found.append((size, start))
            start += size
    return found
