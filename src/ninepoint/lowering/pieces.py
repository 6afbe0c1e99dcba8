"""Pieces: a long body that is done one after the other, with one value in between.

    t4 = t0 * 2;  t5 = t1 * 3;  t6 = t4 + t5        row[j] = x0[j] * 2 + x1[j] * 3
    t7 = t2 * 4;  t8 = t3 * 5;  t9 = t7 + t8   ->
    out = t6 + t9                                   row[j] += x2[j] * 4 + x3[j] * 5

A loop over a row that reads hundreds of elements has more addresses and values than there are
registers.  Several loops, each of which adds a few to what the row holds, need few at a time.
Pieces that do the same a step further each, as those of a wide Gaussian, are one loop over them:
the text is short, and compiled soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..analysis.rewrite import copied, operands, reads
from ..language.dtypes import DType
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Const,
    Element,
    Expr,
    Noting,
    Offset,
    Read,
    Reduce,
    Ref,
)

# Elements that a body reads, from which on it is cut, and those of a piece.
LONG = 96
SHORT = 16

# As many pieces as this that do the same are one loop.
ALIKE = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Some operations in a row, what they make, and what they continue with, if they do."""

    body: tuple[Assign, ...]
    result: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class Roll:
    """A piece, or so many that do the same, of which it is the first.

    `moves` say how much further each piece reads than the one before, by the names of the reads;
    `tables` are the constants of all pieces, by the names that stand for them in this one.
    """

    piece: Piece
    count: int = 1
    moves: Mapping[str, Offset] = field(default_factory=dict)
    tables: Mapping[str, tuple[Const, ...]] = field(default_factory=dict)


def rolled(parts: Sequence[Piece], movable: Callable[[str], bool]) -> list[Roll]:
    """The pieces, where those that do the same are one; of fields, the `movable` in other rows."""
    found: list[Roll] = []
    forms = [_form(piece) for piece in parts]
    first = 0
    while first < len(parts):
        last = first + 1
        while last < len(parts) and forms[last] == forms[first]:
            last += 1
        roll = _roll(parts[first:last], movable)
        found += [roll] if roll is not None else map(Roll, parts[first:last])
        first = last
    return found


def _form(piece: Piece) -> tuple[Expr, ...]:
    """What a piece does, wherever it reads and whatever its constants are."""
    alias = {piece.before: Ref(DType.F64, "before")} if piece.before else {}
    body, _ = copied(piece.body, (), lambda _, place: f"{place}", alias=alias)
    return tuple(_anywhere(assign.value) for assign in body)


def _anywhere(expr: Expr) -> Expr:
    match expr:
        case Read():
            return replace(expr, offset=())
        case Element():
            return replace(expr, index=())
        case Binary() if expr.dtype.is_float:
            for side, atom in _constants(expr):
                expr = _with(expr, side, Ref(atom.dtype, side))
            return expr
        case _:
            return expr


def _constants(expr: Binary) -> Iterator[tuple[str, Const]]:
    for side, atom in (("left", expr.left), ("right", expr.right)):
        if isinstance(atom, Const):
            yield side, atom


def _with(expr: Binary, side: str, atom: Atom) -> Binary:
    """The operation with another operand on one side."""
    return replace(expr, left=atom) if side == "left" else replace(expr, right=atom)


def _roll(parts: Sequence[Piece], movable: Callable[[str], bool]) -> Roll | None:
    """Pieces of one form as one, if they are many and their reads go on in equal steps."""
    if len(parts) < ALIKE:
        return None
    moves: dict[str, Offset] = {}
    tables: dict[str, tuple[Const, ...]] = {}
    body: list[Assign] = []
    for same in zip(*(piece.body for piece in parts), strict=True):
        name, expr = same[0].name, same[0].value
        if isinstance(expr, Read | Element):
            step = _step([a.value for a in same if isinstance(a.value, Read | Element)])
            if step is None:
                return None
            if isinstance(expr, Read) and any(step[:-1]) and not movable(expr.field):
                return None
            moves[name] = step
        elif isinstance(expr, Binary) and expr.dtype.is_float:
            for side, _ in _constants(expr):
                constants = tuple(getattr(assign.value, side) for assign in same)
                if len(set(constants)) > 1:
                    own = f"{name}_{side}0"
                    tables[own] = constants
                    expr = _with(expr, side, Ref(constants[0].dtype, own))
        body.append(Assign(name, expr))
    return Roll(replace(parts[0], body=tuple(body)), len(parts), moves, tables)


def _step(reads: Sequence[Read | Element]) -> Offset | None:
    """How far each read is from the one before, where that is the same for all."""
    places = [one.offset if isinstance(one, Read) else one.index for one in reads]
    steps = {tuple(b - a for a, b in zip(*pair, strict=True)) for pair in pairwise(places)}
    return steps.pop() if len(steps) == 1 else None


def pieces(body: tuple[Assign, ...], value: Atom) -> tuple[Piece, ...]:
    """The pieces of a body that makes one float; one where it is short or cannot be cut."""
    assert isinstance(value, Ref)
    whole = (Piece(body, value.name),)
    if (
        _length(body) < LONG
        or not value.dtype.is_float
        or value.name not in {a.name for a in body}
    ):
        return whole
    if any(isinstance(assign.value, Reduce | Noting) for assign in body):
        return whole
    ordered = _ordered(body, value.name)
    types = {assign.name: assign.value.dtype for assign in ordered}
    last: dict[str, int] = {value.name: len(ordered)}
    for place, assign in enumerate(ordered):
        last |= dict.fromkeys(operands(assign.value), place)
    found: list[Piece] = []
    start, before, alive = 0, "", set[str]()
    for place, assign in enumerate(ordered):
        alive = {name for name in alive | {assign.name} if last[name] > place}
        part = ordered[start : place + 1]
        enough = _length(part) >= SHORT
        if alive == {assign.name} and enough and types[assign.name] is value.dtype:
            found.append(Piece(tuple(part), assign.name, before))
            start, before = place + 1, assign.name
    rest = tuple(ordered[start:])
    if rest:
        found.append(Piece(rest, value.name, before))
    return tuple(found)


def _length(body: Iterable[Assign]) -> int:
    """How many elements operations read."""
    return len(list(reads(body)))


def _ordered(body: tuple[Assign, ...], result: str) -> list[Assign]:
    """The operations that a result needs, each as late as it can be."""
    values = {assign.name: assign for assign in body}
    found: dict[str, Assign] = {}
    pending = [(result, False)]
    while pending:
        name, ready = pending.pop()
        if name in found or name not in values:
            continue
        if ready:
            found[name] = values[name]
            continue
        pending.append((name, True))
        pending += [(one, False) for one in reversed(operands(values[name].value))]
    return list(found.values())
