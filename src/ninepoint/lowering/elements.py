"""Elements: where those of a window are read, and how several are combined.

3 elements from x[-1] on, weighed 1 2 1      ->      t0 = x[-1];  t1 = x[0];  t2 = x[1]
                                                     t3 = t0 + t2;  t4 = t1 * 2;  t5 = t3 + t4
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..analysis.rewrite import (
    Body,
    Emit,
    added,
    along_rows,
    as_type,
    binary,
    mapped,
    number,
    replayed,
)
from ..language.dtypes import DType
from ..language.ir import Atom, BinaryOp, Expr, Offset, Read, Tap
from .ranks import combined

# Of an element taken twice nothing changes, so pieces of a window may overlap.
IDEMPOTENT: frozenset[BinaryOp] = frozenset(("minimum", "maximum", "&", "|"))

# Weights of a line from which on it is added piece by piece, and those of a piece: of a Gaussian,
# whose weights are those of pairs, 16 elements.
WIDE = 48
PIECE = 8


@dataclass(frozen=True, slots=True)
class Fold:
    """An operation by which elements are combined, and the type in which that is done."""

    op: BinaryOp
    dtype: DType

    @property
    def idempotent(self) -> bool:
        """Whether elements may be taken twice."""
        return self.op in IDEMPOTENT


@dataclass(frozen=True, slots=True)
class Elements:
    """Where elements are read: a field or a stage, and the offset of the window's first.

    `axes` are the core axes along which the window runs; of a window of any shape, `picked` are
    the indices of its elements.  Where there is a `body`, an element is its `result`, computed of
    what the taps of the body are at the element's offset.
    """

    name: str
    dtype: DType
    origin: Offset
    axes: Offset
    picked: tuple[Offset, ...] = ()
    body: Body = ()
    result: Atom | None = None

    @property
    def planes(self) -> tuple[tuple[Offset, tuple[tuple[int, int], ...]], ...]:
        """The rows and columns of what is picked, in each plane of the last two axes."""
        found: dict[Offset, list[tuple[int, int]]] = {}
        for index in self.picked:
            place = [0] * max(2, len(self.origin))
            for axis, step in zip(self.axes, index, strict=True):
                place[axis - len(self.origin)] = step
            found.setdefault(tuple(place[:-2]), []).append((place[-2], place[-1]))
        return tuple((plane, tuple(places)) for plane, places in found.items())

    @property
    def ground(self) -> Elements:
        """The same at the point's own row and column."""
        return self.by(tuple(-o for o in along_rows(self.origin)))

    def by(self, steps: Offset) -> Elements:
        """The same, so far away."""
        return replace(self, origin=added(self.origin, steps))

    def moved(self, axis: int, step: int) -> Elements:
        """The same, `step` further along an axis."""
        return self.by(tuple(step * (k == axis) for k in range(len(self.origin))))

    def kept(self, name: str, dtype: DType) -> Elements:
        """What is kept of each in a stage, which stands for rows of one plane."""
        origin = along_rows(self.origin)
        return replace(self, name=name, dtype=dtype, origin=origin, body=(), result=None)

    def first(self, emit: Emit) -> Atom:
        """The first element: read, or computed there."""
        if self.result is None:
            return emit(Read(self.dtype, self.name, self.origin))
        return computed(self.body, self.result, self.origin, emit)


# A source, whose first element is read, and its weight if it has one.
Piece: TypeAlias = tuple[Elements, float | None]


def joined(pieces: Iterable[Piece], fold: Fold, emit: Emit) -> Atom:
    """Combine elements, each with its weight."""
    items: list[tuple[Atom, float | None]] = []
    for piece, weight in pieces:
        item = piece.first(emit)
        if piece.dtype is DType.BOOL and fold.dtype is not DType.BOOL:
            item = as_type(item, DType.INT, emit)
        elif not piece.dtype.is_integer:
            item = as_type(item, fold.dtype, emit)
        items.append((item, weight))
    return weighed(items, fold, emit)


def weighed(items: Sequence[tuple[Atom, float | None]], fold: Fold, emit: Emit) -> Atom:
    """Combine values, each with its weight."""
    op, dtype = fold.op, fold.dtype
    groups: dict[float | None, list[Atom]] = {}
    for item, weight in items:
        groups.setdefault(weight, []).append(item)
    totals: list[Atom] = []
    for weight, group in groups.items():
        # Equal weights are applied to the sum: fewer products, and no more rounding. Integers
        # are added as such, in narrow lanes, before they become floats.
        total = as_type(combined(group, op, emit), dtype, emit)
        if weight is not None and weight != 1:
            total = binary("*", total, number(dtype, weight), emit)
        totals.append(total)
    if len(totals) <= WIDE:
        return combined(totals, op, emit)
    # Piece by piece: a row is done so, each piece with few registers.
    whole = combined(totals[:PIECE], op, emit)
    for k in range(PIECE, len(totals), PIECE):
        whole = binary(op, whole, combined(totals[k : k + PIECE], op, emit), emit)
    return whole


def computed(body: Body, result: Atom, at: Offset, emit: Emit) -> Atom:
    """What a body gives at an offset, to which those of its taps are added."""

    def place(_: str, expr: Expr) -> Atom:
        if isinstance(expr, Tap):
            expr = Read(expr.dtype, expr.field, added(expr.origin, at))
        return emit(expr)

    (value,) = replayed(body, [result], place)
    return value


def relative_to(origin: Offset, body: Body) -> Body:
    """A body whose taps are counted from an offset."""
    back = tuple(-o for o in origin)
    return mapped(
        body,
        lambda e: replace(e, origin=added(e.origin, back)) if isinstance(e, Tap) else e,
    )
