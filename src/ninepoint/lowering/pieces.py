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

from ..analysis.rewrite import operands, reads
from ..language.ir import (
    Assign,
    Atom,
    Noting,
    Reduce,
    Ref,
)

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
