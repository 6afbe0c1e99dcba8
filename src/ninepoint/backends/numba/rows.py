"""Row functions: the text that computes one row of a stage, or of the result.

    @row_function(noalias=True)
    def v0_row(x_0, x_1, x_2, o0, n):
        for j in range(n):
            v0_0 = x_0[j]
            ...
            o0[j] = v0_4

What it writes overlaps nothing that it reads.  LLVM finds that out by comparing pointers, as
long as there are few; to promise it is better only where each row is read at one offset, for
LLVM, once it is sure, keeps x[j + 1] for the next turn of the loop, which must then shuffle
lanes (3x3 sum of int8: 2.6 instead of 4.5 Gpixel/s, Zen 4).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ...analysis.ranges import of_type
from ...language.box import Box
from ...language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Cast,
    Coefficient,
    Const,
    Element,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Select,
    Tap,
    Unary,
    Weight,
    atoms,
    within,
)
from ...lowering.abreast import POINTER_CHECKS
from ...lowering.cost import operation
from ...lowering.pieces import Piece, Roll, pieces, rolled
from .control import EACH, NOTES, Control, gathered_rows, in_other_rows
from .expressions import Expressions, as_tuple
from .window_loops import WindowLoops, indented, plus

# Columns that are computed by themselves at the end of a row: a vector of bytes, two of 16 bits,
# and of wider elements half as many.
VECTOR = 64

# Operations, over all columns that a multiple of these leaves, from which on that is less work
# than LLVM's narrow vectors and single columns.  In rows of 445 columns a median of 3 x 3 bytes
# takes 17 instead of 28 us, one of float32 55 instead of 60; a mean of 3 x 3 float32 gains
# nothing, and lost a tenth in rows of 98, which leave 2 (448 rows, Zen 5).
LEFT = 1000

_VECTORS = frozenset({"+", "-", "*", "&", "|", "^", "minimum", "maximum"})


@dataclass(frozen=True, slots=True)
class Source:
    """A field or a stage: its name in the text, its type, and the column its rows begin at.

    Of one that is kept in `parts`, where not all results are made, each row holds every so many
    columns, from one of these on.  All elements of a row of one that is `constant` are alike,
    positions along another axis, and only the first is there.  Where
    there is a function to `load` them, elements are converted by it.
    """

    name: str
    machine: str
    column: int
    parts: tuple[int, ...] = ()
    constant: bool = False
    load: str = ""


# A source, an offset along all axes but the last, and one of the parts.
Row: TypeAlias = tuple[str, Offset, int]


@dataclass(frozen=True, slots=True)
class Made:
    """What a function makes: some values of a body, in a row that begins at column `start`.

    `held` names what the row holds already, for a function that changes it.  Its columns are
    `every` so many of those that it reads; of the first values, as many as `tail` says beside the
    number of operations for them, it makes one more column.  Its results are converted by the
    functions that `stores` names, "" for none.
    """

    name: str
    body: tuple[Assign, ...]
    values: tuple[Atom, ...]
    start: int = 0
    held: str = ""
    every: int = 1
    tail: tuple[int, int] = (0, 0)
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Space:
    """What the functions of one module share.

    They add the places of reads that may be outside of their neighborhood to `places`.
    """

    kernel: Kernel
    names: dict[str, str]
    expressions: Expressions
    reach: Box
    places: list[str]


@dataclass(frozen=True, slots=True)
class RowFunction:
    """The text of a row function, and what it must be called with.

    `rows` are sources with their offsets along all axes but the last, and which of their parts it
    is, each from one of the `columns` on, relative to its own first; `others` are scalars and
    coefficients; `loops` says that it also takes whole fields and the place.  With `noalias` LLVM
    is promised that no two rows overlap; without it, that the results `apart` overlap nothing.
    With `overlap` (64, 9) the last 64 columns are computed by themselves, some for the second
    time, where a multiple of 64 leaves at least 9.  It is told what is `given` besides, and the
    buffers that are `cleared` are zero when it is first called.
    """

    name: str
    lines: tuple[str, ...]
    constants: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    columns: Mapping[str, int] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    buffers: tuple[tuple[str, int | str, str], ...] = ()
    loops: bool = True
    noalias: bool = False
    apart: tuple[str, ...] = ()
    overlap: tuple[int, ...] = ()
    given: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


def row_function(made: Made, sources: Mapping[str, Source], space: Space) -> RowFunction:
    """Write the function that makes a row."""
    return _Writer(made, sources, space).function()


class _Writer:
    def __init__(self, made: Made, sources: Mapping[str, Source], space: Space) -> None:
        self.made, self.sources, self.space = made, sources, space
        kernel, self.expressions = space.kernel, space.expressions
        parts: tuple[Piece, ...] = (Piece(made.body, ""),)
        if _cuttable(made):
            parts = pieces(made.body, made.values[0])
        self.rolls = rolled(parts, self._movable)
        self.body = tuple(assign for roll in self.rolls for assign in roll.piece.body)
        self.values = made.values
        if self.rolls[-1].count > 1:
            self.values = (Ref(made.values[0].dtype, self.rolls[-1].piece.result),)
        for roll in self.rolls:
            for own, constants in roll.tables.items():
                self.expressions.types[own] = str(constants[0].dtype.value)
                self.expressions.known[own] = of_type(constants[0].dtype)
        self.reads = _places(self.body, sources, made.every)
        # What is read in rows that follow from the turn of a loop over pieces.
        self.elsewhere = {
            name for roll in self.rolls for name, move in roll.moves.items() if any(move[:-1])
        }
        along = gathered_rows(self.body)
        found = {at for name, (at, _) in self.reads.items() if name not in self.elsewhere}
        order = list(sources)
        self.rows = sorted(found | along, key=lambda row: (order.index(row[0]), *row[1:]))
        self.labels = _labels(self.rows, sources, {assign.name for assign in self.body})
        storage = dict(kernel.fields) | {n: d for n, d, _ in kernel.coefficients}
        loads = {name: source.load for name, source in sources.items()}
        self.windows = WindowLoops(self.expressions, storage, space.names, space.reach, loads)
        rows = {row: (self.labels[row], sources[row[0]].column) for row in along}
        self.control = Control(self.windows, rows, space.places)
        # What is done before the loop over the row.
        self.once: list[str] = []

    def function(self) -> RowFunction:
        made, tables = self.made, self.expressions.tables
        tables.fetched = {}
        place = "j" if made.every == 1 else "q0"
        *before, last = self.rolls
        lines = [line for roll in before for line in self._piece(roll)]
        front, own, ends = self._lines(last)
        atoms = [self.expressions.atom(value) for value in self.values]
        stored = [
            f"{store}({one})" if store else one
            for one, store in zip_longest(atoms, made.stores, fillvalue="")
        ]
        storing = [f"o{k}[{place}] = {one}" for k, one in enumerate(stored)]
        lines += _over_row(last, front, [*own, *storing], made.every)
        if made.tail[1]:
            # What all values need there may lie outside of what is given.
            lines += ["q0 = n", f"j = {made.every} * q0"]
            lines += [*own[:ends], *storing[: made.tail[1]]]
        return self._called(lines)

    def _called(self, lines: Sequence[str]) -> RowFunction:
        """The function of these lines, and what it is called with."""
        made, kernel = self.made, self.space.kernel
        loops = bool(self.elsewhere) or any(
            isinstance(a.value, Reduce) or in_other_rows(a.value) for a in within(self.body)
        )
        others, once = _others(self.body, self.values, kernel), self.once
        if self.control.looks:
            others, once = (*others, NOTES), [*once, f"turns = {EACH}"]
        arguments = [self.labels[row] for row in self.rows]
        if loops:
            arguments += [self.space.names[n] for n, _ in kernel.fields]
            places = ["b", *(f"i{a}" for a in range(kernel.ndim - 2)), "i"]
            arguments += places[: kernel.ndim]
            arguments += [buffer for buffer, _, _ in self.windows.buffers]
        arguments += [f"o{k}" for k in range(len(self.values))] + ["n"]
        arguments += [self.space.names[n] for n in others]
        inner = [*self.expressions.tables.fetched.values(), *once, *lines]
        machines = [self.sources[field].machine for field, *_ in self.rows]
        machines += [self.expressions.types[v.name] for v in self.values if isinstance(v, Ref)]
        widest = max((np.dtype(one).itemsize for one in machines), default=1)
        plain = not (made.held or loops or self.control.looks or made.every > 1)
        noalias = _promised(self.reads.values(), len(self.rows), made.every)
        # One result is left to be compared with the rows, which keeps LLVM unsure of these.
        apart = () if noalias else tuple(f"o{k}" for k in range(len(self.values) - 1))
        return RowFunction(
            made.name,
            (f"def {made.name}({', '.join(arguments)}):", *indented(inner)),
            tuple(self.windows.constants),
            tuple(self.rows),
            {name: source.column for name, source in self.sources.items()},
            others,
            tuple(self.windows.buffers),
            loops,
            noalias,
            apart,
            _overlap(self.body, widest) if plain else (),
        )

    def _movable(self, name: str) -> bool:
        """Whether rows of a source can be told by their number: those of a field's own array."""
        kernel, source = self.space.kernel, self.sources[name]
        own = name in dict(kernel.fields) and kernel.ndim > 1
        return own and not source.constant and not source.load

    def _piece(self, roll: Roll) -> list[str]:
        """A loop over the row that leaves in it what the next one continues with."""
        front, lines, _ = self._lines(roll)
        return _over_row(roll, front, [*lines, f"o0[j] = {roll.piece.result}"])

    def _lines(self, roll: Roll) -> tuple[list[str], list[str], int]:
        """Lines before the loop over the row, those for a point, and how many make its tail."""
        types, tables, made = self.expressions.types, self.expressions.tables, self.made
        place = "j" if made.every == 1 else "q0"
        front = [
            f"{own} = {tables.listed(types[own], map(_real, numbers))}[p0]"
            for own, numbers in roll.tables.items()
        ]
        lines = [f"{made.held} = o0[{place}]"] if made.held else []
        if roll.piece.before:
            # Pieces of one form end with values of one type.
            types[roll.piece.before] = types[self.rolls[self.rolls.index(roll) - 1].piece.result]
            lines.append(f"{roll.piece.before} = o0[j]")
        ends = 0
        for number, assign in enumerate(roll.piece.body):
            if number == made.tail[0]:
                ends = len(lines)
            target, expr = assign.name, assign.value
            match expr:
                case Read():
                    source = self.sources[expr.field]
                    types[target] = source.machine
                    if source.constant:
                        self.once.append(f"{target} = {self.labels[self.reads[target][0]]}[0]")
                        continue
                    row, at = self._element(roll, target, expr)
                    if target in self.elsewhere:
                        front.append(f"{target}_row0 = {row}")
                        row = f"{target}_row0"
                    lines.append(f"{target} = {self.windows.loaded(expr.field, f'{row}[{at}]')}")
                case Element() if roll.count > 1:
                    self.control.lines(target, expr)
                    index = [f"{at}{_further(roll, target, k)}" for k, at in enumerate(expr.index)]
                    array = self.space.names[expr.array]
                    front.append(f"{target} = {array}[{', '.join(index)}]")
                case Tap() | Weight() | Coefficient():
                    raise AssertionError(expr)
                case _:
                    lines += self.control.lines(target, expr)
        return front, lines, ends

    def _element(self, roll: Roll, target: str, read: Read) -> tuple[str, str]:
        """In which row an element is, and where in it."""
        source, (row, step) = self.sources[read.field], self.reads[target]
        further = _further(roll, target, -1)
        if target not in self.elsewhere:
            place = "q0" if source.parts else "j"
            return self.labels[row], plus(place, step) + further
        # A row of a field, which a turn of a loop over pieces reads.
        indices = [*(f"i{axis}" for axis in range(len(read.offset) - 2)), "i"]
        *steps, step = (at - low for at, low in zip(read.offset, self.space.reach.lo, strict=True))
        places = [
            plus(index, step) + _further(roll, target, axis)
            for axis, (index, step) in enumerate(zip(indices, steps, strict=True))
        ]
        own = f"row({source.name}, {as_tuple(['b', *places])})"
        return own, plus("j", self.made.start + step) + further


def _real(constant: Const) -> float:
    """The number that a float is."""
    assert isinstance(constant.value, float), constant
    return constant.value


def _further(roll: Roll, name: str, axis: int) -> str:
    """How much further a read is in each turn of a loop over pieces."""
    step = roll.moves[name][axis] if name in roll.moves else 0
    return "" if not step else f" {'+' if step > 0 else '-'} {abs(step)} * p0"


def _over_row(roll: Roll, front: Sequence[str], lines: Sequence[str], every: int = 1) -> list[str]:
    """A loop over the row; for pieces that do the same, one in a loop over these."""
    if every > 1:
        return ["for q0 in range(n):", f"    j = {every} * q0", *indented(lines)]
    made = ["for j in range(n):", *indented(lines)]
    if roll.count == 1:
        return made
    return [f"for p0 in range({roll.count}):", *indented([*front, *made])]


def _cuttable(made: Made) -> bool:
    """Whether a row may hold what was made so far of its one value."""
    one = len(made.values) == 1 and isinstance(made.values[0], Ref)
    return one and not made.held and made.every == 1


def _overlap(body: tuple[Assign, ...], widest: int) -> tuple[int, ...]:
    """How many columns are computed by themselves at the end, and how many must be left for it.

    `widest` is the size of the widest element that is loaded or stored.
    """
    columns = VECTOR if widest <= 2 else VECTOR // 2
    least = math.ceil(LEFT / max(1, sum(operation(assign.value) for assign in body)))
    return (columns, least) if least < columns and all(map(_in_vectors, body)) else ()


def _in_vectors(assign: Assign) -> bool:
    """Whether LLVM surely computes an operation in vectors: else more columns are more work."""
    match assign.value:
        case Binary(dtype=dtype, op=op):
            known = op in _VECTORS or op in COMPARISONS or (op == "/" and dtype.is_float)
            return known and not dtype.is_complex
        case Cast(dtype=dtype, arg=arg):
            return dtype.is_float or not arg.dtype.is_float
        case Read() | Unary() | Select():
            return True
        case _:
            return False


def _promised(places: Collection[tuple[Row, int]], rows: int, every: int) -> bool:
    """Whether to promise LLVM that the rows do not overlap the results."""
    # What a turn reads of a row that no other turn reads: with steps several columns may be.
    apart = {(row, step % every) for row, step in places}
    return len(apart) == len(places) or rows > POINTER_CHECKS


def _places(
    body: tuple[Assign, ...], sources: Mapping[str, Source], every: int
) -> dict[str, tuple[Row, int]]:
    """Where each read of a body looks: in which row, and how far from the place there."""
    found = {}
    for assign in body:
        read = assign.value
        if isinstance(read, Read):
            source = sources[read.field]
            step, part = read.offset[-1] - source.column, 0
            if source.parts:
                step, rest = divmod(step, every)
                part = source.parts.index(rest)
            found[assign.name] = (read.field, read.offset[:-1], part), step
    return found


def _labels(rows: Sequence[Row], sources: Mapping[str, Source], taken: set[str]) -> dict[Row, str]:
    """The names of the rows, which no operation has: those of a stage `__` begin so as well."""
    labels: dict[Row, str] = {}
    for k, row in enumerate(rows):
        name = sources[row[0]].name
        while f"{name}_{k}" in taken:
            name += "_"
        labels[row] = f"{name}_{k}"
        taken = taken | {labels[row]}
    return labels


def _others(body: tuple[Assign, ...], values: tuple[Atom, ...], kernel: Kernel) -> tuple[str, ...]:
    """The scalars and coefficients that a body uses."""
    used = {a.name for assign in body for a in atoms(assign.value) if isinstance(a, Ref)}
    used |= {value.name for value in values if isinstance(value, Ref)}
    for assign in within(body):
        inner = assign.value.body if isinstance(assign.value, Reduce) else ()
        for one in (assign, *inner):
            if isinstance(one.value, Element | Coefficient):
                used.add(one.value.array)
    known = [n for n, *_ in kernel.coefficients] + [n for n, _ in kernel.scalars]
    return tuple(n for n in known if n in used)
