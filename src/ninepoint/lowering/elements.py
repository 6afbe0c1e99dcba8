"""Elements: where those of a window are read, and how several are combined.

3 elements from x[-1] on, weighed 1 2 1      ->      t0 = x[-1];  t1 = x[0];  t2 = x[1]
                                                     t3 = t0 + t2;  t4 = t1 * 2;  t5 = t3 + t4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..language.dtypes import DType
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Offset,
    Read,
    Tap,
    renamed,
    renamed_atom,
)
from ..language.networks import sort
from .lines import Lines
from .ranks import not_nan


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
    body: tuple[Assign, ...] = ()
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


# Weights of a line from which on it is added piece by piece, and those of a piece: of a Gaussian,
# whose weights are those of pairs, 16 elements.
WIDE = 48
PIECE = 8

# A source, how many steps further along the axis it is read, and its weight if it has one.
Piece: TypeAlias = tuple[Elements, int, float | None]


def joined(
    lines: Lines,
    axis: int,
    pieces: Sequence[Piece],
    dtype: DType,
    op: BinaryOp,
) -> Atom:
    """Combine reads, each `step` further along the axis and with its weight."""
    items: list[tuple[Atom, float | None]] = []
    for piece, step, weight in pieces:
        offset = list(piece.origin)
        offset[axis] += step
        item = element(lines, piece, tuple(offset))
        if piece.dtype is DType.BOOL and dtype is not DType.BOOL:
            item = lines.emit(Cast(DType.INT, item))
        elif not piece.dtype.is_integer and piece.dtype is not dtype:
            item = lines.emit(Cast(dtype, item))
        items.append((item, weight))
    return weighed(lines, items, dtype, op)


def element(lines: Lines, source: Elements, offset: Offset) -> Atom:
    """The element at an offset: read, or computed there."""
    if source.result is None:
        return lines.emit(Read(source.dtype, source.name, offset))
    return computed(lines, source.body, source.result, offset)


def computed(lines: Lines, body: Sequence[Assign], result: Atom, at: Offset) -> Atom:
    """What a body gives at an offset, to which those of its taps are added."""
    alias: dict[str, Atom] = {}
    for assign in body:
        value = renamed(assign.value, alias)
        if isinstance(value, Tap):
            value = Read(value.dtype, value.field, added(value.origin, at))
        alias[assign.name] = lines.emit(value)
    return renamed_atom(result, alias)


def relative_to(origin: Offset, body: Sequence[Assign]) -> tuple[Assign, ...]:
    """A body whose taps are counted from an offset."""
    back = tuple(-o for o in origin)
    return tuple(
        Assign(a.name, replace(a.value, origin=added(a.value.origin, back)))
        if isinstance(a.value, Tap)
        else a
        for a in body
    )


def weighed(
    lines: Lines, items: Sequence[tuple[Atom, float | None]], dtype: DType, op: BinaryOp
) -> Atom:
    """Combine values, each with its weight."""
    groups: dict[float | None, list[Atom]] = {}
    for item, weight in items:
        groups.setdefault(weight, []).append(item)
    totals: list[Atom] = []
    for weight, group in groups.items():
        # Equal weights are applied to the sum: fewer products, and no more rounding. Integers
        # are added as such, in narrow lanes, before they become floats.
        total = lines.tree(group, op)
        if total.dtype is not dtype:
            total = lines.emit(Cast(dtype, total))
        if weight is not None and weight != 1:
            total = lines.emit(Binary(dtype, "*", total, number(dtype, weight)))
        totals.append(total)
    if len(totals) <= WIDE:
        return lines.tree(totals, op)
    # Piece by piece: a row is done so, each piece with few registers.
    whole = lines.tree(totals[:PIECE], op)
    for k in range(PIECE, len(totals), PIECE):
        whole = lines.emit(Binary(dtype, op, whole, lines.tree(totals[k : k + PIECE], op)))
    return whole


def ordered(items: Sequence[Atom], lines: Lines) -> list[Atom]:
    """The elements in order; the last one is NaN if there is any."""
    ordered = sort(items, lines.emit)
    # Comparisons leave a NaN anywhere: the last element says that there is one.
    return [*ordered[:-1], not_nan(ordered[-1], items, lines.emit)]


def along_rows(origin: Offset) -> Offset:
    """An offset without its outer axes: a stage is kept for rows of one plane only."""
    return tuple(0 if axis < len(origin) - 2 else o for axis, o in enumerate(origin))


def grounded(source: Elements) -> Elements:
    """The source at the point's own row and column."""
    origin = source.origin
    outer = tuple(o if axis < len(origin) - 2 else 0 for axis, o in enumerate(origin))
    return replace(source, origin=outer)


def moved(source: Elements, axis: int, step: int) -> Elements:
    """The source, `step` further along an axis."""
    origin = tuple(o + step * (k == axis) for k, o in enumerate(source.origin))
    return replace(source, origin=origin)


def added(left: Offset, right: Offset) -> Offset:
    """The sum of two offsets."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def number(dtype: DType, value: float) -> Const:
    """A weight as a constant of the type in which it is applied."""
    if dtype.is_integer:
        return Const(dtype, str(int(value)))
    return Const(dtype, repr(dtype.numpy.type(value).item()))


def read(lines: Lines, source: Elements, axis: int, step: int, dtype: DType) -> Atom:
    """One element, `step` further along an axis, as `dtype`."""
    offset = list(source.origin)
    offset[axis] += step
    item = element(lines, source, tuple(offset))
    return item if source.dtype is dtype else lines.emit(Cast(dtype, item))


def squared(lines: Lines, source: Elements) -> Atom:
    """The square of the first element, an int."""
    item = element(lines, source, source.origin)
    if source.dtype is not DType.INT:
        item = lines.emit(Cast(DType.INT, item))
    return lines.emit(Binary(DType.INT, "*", item, item))
