"""Row functions: the text that computes one row of a stage, or of the result.

    @row_function()
    def v0_row(x_0, x_1, x_2, o0, n):
        for j in range(n):
            v0_0 = x_0[j]
            ...
            o0[j] = v0_4

What it writes overlaps nothing that it reads, which LLVM is promised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ...language.box import Box
from ...language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Cast,
    Coefficient,
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
from ...lowering.cost import operation
from ...lowering.pieces import Piece, pieces
from .control import EACH, NOTES, Control, gathered_rows, in_other_rows
from .expressions import Expressions
from .window_loops import WindowLoops, indented, plus

# Columns that are computed by themselves at the end of a row: a vector of bytes, two of 16 bits,
# and of wider elements half as many.
VECTOR = 64

# Operations, over all columns that a multiple of these leaves, from which on that is less work
# than LLVM's narrow vectors and single columns, if it is a quarter of these at least.  (Rows of 62
# columns, 7 points float32: 122 and 108 us, Zen 3; of 445, a median of 3 x 3 bytes 28 and 17; of
# 98, which leave 2, a mean of 3 x 3 float32 lost a tenth, Zen 5.)
LEFT = 350

_VECTORS = frozenset({"+", "-", "*", "&", "|", "^", "minimum", "maximum"})


@dataclass(frozen=True, slots=True)
class Source:
    """A field or a stage: its name in the text, its type, and the column its rows begin at.

    All elements of a row of one that is `constant` are alike, positions along another axis, and
    only the first is there.  Where there is a function to `load` them, elements are converted by
    it.
    """

    name: str
    machine: str
    column: int
    constant: bool = False
    load: str = ""


# A source, and an offset along all axes but the last.
Row: TypeAlias = tuple[str, Offset]


@dataclass(frozen=True, slots=True)
class Made:
    """What a function makes: some values of a body.

    `held` names what the row holds already, for a function that changes it.  Its columns are
    `every` so many of those that it reads.  Its results are converted by the functions that
    `stores` names, "" for none.
    """

    name: str
    body: tuple[Assign, ...]
    values: tuple[Atom, ...]
    held: str = ""
    every: int = 1
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

    `rows` are sources with their offsets along all axes but the last, each from one of the
    `columns` on, relative to its own first; `others` are scalars and coefficients; `loops` says
    that it also takes whole fields and the place.  With `overlap` (64, 9) the last 64 columns are
    computed by themselves, some for the second time, where a multiple of 64 leaves at least 9.
    It is told what is `given` besides, and the buffers that are `cleared` are zero when it is
    first called.
    """

    name: str
    lines: tuple[str, ...]
    constants: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    columns: Mapping[str, int] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    buffers: tuple[tuple[str, int | str, str], ...] = ()
    loops: bool = True
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
        self.pieces: tuple[Piece, ...] = (Piece(made.body, ""),)
        if _cuttable(made):
            self.pieces = pieces(made.body, made.values[0])
        self.body = tuple(assign for piece in self.pieces for assign in piece.body)
        self.reads = _places(self.body, sources)
        along = gathered_rows(self.body)
        found = {at for at, _ in self.reads.values()}
        order = list(sources)
        self.rows = sorted(found | along, key=lambda row: (order.index(row[0]), row[1]))
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
        *before, last = self.pieces
        lines: list[str] = []
        for piece in before:
            # What is made so far is left in the row for the next one.
            lines += _over_row([*self._lines(piece), f"o0[j] = {piece.result}"])
        own = self._lines(last)
        atoms = [self.expressions.atom(value) for value in made.values]
        stored = [
            f"{store}({one})" if store else one
            for one, store in zip_longest(atoms, made.stores, fillvalue="")
        ]
        storing = [f"o{k}[{place}] = {one}" for k, one in enumerate(stored)]
        lines += _over_row([*own, *storing], made.every)
        return self._called(lines)

    def _called(self, lines: Sequence[str]) -> RowFunction:
        """The function of these lines, and what it is called with."""
        made, kernel = self.made, self.space.kernel
        loops = any(
            isinstance(a.value, Reduce) or in_other_rows(a.value) for a in within(self.body)
        )
        others, once = _others(self.body, made.values, kernel), self.once
        if self.control.looks:
            others, once = (*others, NOTES), [*once, f"turns = {EACH}"]
        arguments = [self.labels[row] for row in self.rows]
        if loops:
            arguments += [self.space.names[n] for n, _ in kernel.fields]
            places = ["b", *(f"i{a}" for a in range(kernel.ndim - 2)), "i"]
            arguments += places[: kernel.ndim]
            arguments += [buffer for buffer, _, _ in self.windows.buffers]
        arguments += [f"o{k}" for k in range(len(made.values))] + ["n"]
        arguments += [self.space.names[n] for n in others]
        inner = [*self.expressions.tables.fetched.values(), *once, *lines]
        machines = [self.sources[field].machine for field, _ in self.rows]
        machines += [self.expressions.types[v.name] for v in made.values if isinstance(v, Ref)]
        widest = max((np.dtype(one).itemsize for one in machines), default=1)
        plain = not (made.held or loops or self.control.looks or made.every > 1)
        return RowFunction(
            made.name,
            (f"def {made.name}({', '.join(arguments)}):", *indented(inner)),
            tuple(self.windows.constants),
            tuple(self.rows),
            {name: source.column for name, source in self.sources.items()},
            others,
            tuple(self.windows.buffers),
            loops,
            _overlap(self.body, widest) if plain else (),
        )

    def _lines(self, piece: Piece) -> list[str]:
        """The lines for a point."""
        made = self.made
        lines = [f"{made.held} = o0[j]"] if made.held else []
        if piece.before:
            lines.append(f"{piece.before} = o0[j]")
        for assign in piece.body:
            target, expr = assign.name, assign.value
            match expr:
                case Read():
                    source, (row, step) = self.sources[expr.field], self.reads[target]
                    self.expressions.types[target] = source.machine
                    if source.constant:
                        self.once.append(f"{target} = {self.labels[row]}[0]")
                        continue
                    element = f"{self.labels[row]}[{plus('j', step)}]"
                    lines.append(f"{target} = {self.windows.loaded(expr.field, element)}")
                case Tap() | Weight() | Coefficient():
                    raise AssertionError(expr)
                case _:
                    lines += self.control.lines(target, expr)
        return lines


def _over_row(lines: Sequence[str], every: int = 1) -> list[str]:
    """A loop over the row."""
    head = ["for j in range(n):"]
    if every > 1:
        head = ["for q0 in range(n):", f"    j = {every} * q0"]
    return [*head, *indented(lines)]


def _cuttable(made: Made) -> bool:
    """Whether a row may hold what was made so far of its one value."""
    one = len(made.values) == 1 and isinstance(made.values[0], Ref)
    return one and not made.held and made.every == 1


def _overlap(body: tuple[Assign, ...], widest: int) -> tuple[int, ...]:
    """How many columns are computed by themselves at the end, and how many must be left for it.

    `widest` is the size of the widest element that is loaded or stored.
    """
    columns = VECTOR if widest <= 2 else VECTOR // 2
    effort = max(1, sum(operation(assign.value) for assign in body))
    least = max(columns // 4, math.ceil(LEFT / effort))
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


def _places(body: tuple[Assign, ...], sources: Mapping[str, Source]) -> dict[str, tuple[Row, int]]:
    """Where each read of a body looks: in which row, and how far from the place there."""
    found = {}
    for assign in body:
        read = assign.value
        if isinstance(read, Read):
            step = read.offset[-1] - sources[read.field].column
            found[assign.name] = (read.field, read.offset[:-1]), step
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
