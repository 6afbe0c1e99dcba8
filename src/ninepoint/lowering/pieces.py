"""Pieces: a long body that is done one after the other, with one value in between.

    t4 = t0 * 2;  t5 = t1 * 3;  t6 = t4 + t5        row[j] = x0[j] * 2 + x1[j] * 3
    t7 = t2 * 4;  t8 = t3 * 5;  t9 = t7 + t8   ->
    out = t6 + t9                                   row[j] += x2[j] * 4 + x3[j] * 5

A loop over a row that reads hundreds of elements has more addresses and values than there are
registers.  Several loops, each of which adds a few to what the row holds, need few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..analysis.rewrite import reads
from ..language.ir import Assign, Atom, Noting, Reduce, Ref, operands

# Elements that a body reads, from which on it is cut, and those of a piece.
LONG = 96
SHORT = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Some operations in a row, what they make, and what they continue with, if they do."""

    body: tuple[Assign, ...]
    result: str
    before: str = ""


def pieces(body: tuple[Assign, ...], value: Atom) -> tuple[Piece, ...]:
    """The pieces of a body that makes one float; one where it is short or cannot be cut."""
    assert isinstance(value, Ref)
    types = {assign.name: assign.value.dtype for assign in body}
    plain = not any(isinstance(assign.value, Reduce | Noting) for assign in body)
    if not (plain and value.dtype.is_float and value.name in types and _length(body) >= LONG):
        return (Piece(body, value.name),)
    ordered = _ordered(body, value.name)
    last: dict[str, int] = {value.name: len(ordered)}
    for place, assign in enumerate(ordered):
        last |= dict.fromkeys(operands(assign.value), place)
    found: list[Piece] = []
    start, before, alive = 0, "", set[str]()
    for place, assign in enumerate(ordered):
        alive = {name for name in alive | {assign.name} if last[name] > place}
        part = tuple(ordered[start : place + 1])
        ends = assign.name == value.name
        alone = alive == {assign.name} and types[assign.name] is value.dtype
        if ends or (alone and _length(part) >= SHORT):
            found.append(Piece(part, assign.name, before))
            start, before = place + 1, assign.name
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
