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
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from ...analysis.footprint import extents
from ...analysis.rewrite import rows as rows_of
from ...language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Cast,
    Coefficient,
    Offset,
    Read,
    Ref,
    Select,
    Tap,
    Unary,
    Weight,
)
from ...lowering.cost import operation
from ...lowering.pieces import Piece, pieces
from .expressions import NOTES
from .layout import Layout
from .points import EACH, Point, gathered_rows, indented, plus

# Columns that are computed by themselves at the end of a row: a vector of bytes, two of 16 bits,
# and of wider elements half as many.
VECTOR = 64

# Operations, over all columns that a multiple of these leaves, from which on that is less work
# than LLVM's narrow vectors and single columns, if it is a quarter of these at least.  (Rows of 62
# columns, 7 points float32: 122 and 108 us, Zen 3; of 445, a median of 3 x 3 bytes 28 and 17; of
# 98, which leave 2, a mean of 3 x 3 float32 lost a tenth, Zen 5.)
LEFT = 350

# A name that is not an attribute.
WORD = re.compile(r"(?<![\w.])\w+")

_VECTORS = frozenset({"+", "-", "*", "&", "|", "^", "minimum", "maximum"})


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
class Row:
    """A row of a field or stage, at an offset along all axes but the last, from a column on."""

    source: str
    offset: Offset
    column: int


@dataclass(frozen=True, slots=True)
class RowFunction:
    """The text of a row function, and what it must be called with.

    Some of its `parameters` are `rows`; o0, o1, ... are its results, `n` is how many columns these
    have, and `i` and the like are its place.  With `overlap` (64, 9) the last 64 columns are
    computed by themselves, some for the second time, where a multiple of 64 leaves at least 9.
    Its `buffers` are made once, so.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    constants: tuple[str, ...] = ()
    rows: Mapping[str, Row] = field(default_factory=dict)
    buffers: Mapping[str, str] = field(default_factory=dict)
    overlap: tuple[int, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Its text."""
        head = f"def {self.name}({', '.join(self.parameters)}):"
        return (head, *indented(self.body))


def row_function(made: Made, layout: Layout) -> RowFunction:
    """Write the function that makes a row."""
    return _Writer(made, layout).function()


class _Writer:
    def __init__(self, made: Made, layout: Layout) -> None:
        self.made, self.layout, self.expressions = made, layout, layout.expressions
        kernel = layout.kernel
        self.pieces: tuple[Piece, ...] = (Piece(made.body, ""),)
        # Columns that are read and written where the results are.
        self.plain = not made.held and made.every == 1
        if self.plain and len(made.values) == 1 and isinstance(made.values[0], Ref):
            # The row may hold what was made so far.
            self.pieces = pieces(made.body, made.values[0])
        self.body = tuple(assign for piece in self.pieces for assign in piece.body)
        # From which column on rows are read.
        first: dict[str, int] = {}
        for assign in self.body:
            for name, low, _ in extents(assign.value):
                first[name] = min(first.get(name, low[-1]), low[-1])
        found = gathered_rows(self.body) | rows_of(self.body)
        order = [*(name for name, _ in kernel.fields), *layout.by_name]
        places = sorted(found, key=lambda row: (order.index(row[0]), row[1]))
        rows = [Row(source, offset, first.get(source, 0)) for source, offset in places]
        self.rows = dict(zip(self._labels(rows), rows, strict=True))
        storage = dict(kernel.fields) | {n: d for n, d, _ in kernel.coefficients}
        there = {(row.source, row.offset): (label, row.column) for label, row in self.rows.items()}
        self.point = Point(
            self.expressions,
            storage,
            layout.names,
            layout.reach,
            layout.loads,
            there,
            layout.places,
        )
        # What is done before the loop over the row.
        self.once: list[str] = []

    def _labels(self, rows: Sequence[Row]) -> Iterator[str]:
        """The names of the rows; no operation has them: those of a stage `__` begin so as well."""
        taken = {assign.name for assign in self.body}
        for k, row in enumerate(rows):
            name = self.layout.names[row.source]
            while f"{name}_{k}" in taken:
                name += "_"
            taken.add(f"{name}_{k}")
            yield f"{name}_{k}"

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
        made, layout, once = self.made, self.layout, self.once
        if self.point.looks:
            once = [*once, f"turns = {EACH}"]
        body = (*self.expressions.tables.fetched.values(), *once, *lines)
        kernel, results = layout.kernel, [f"o{k}" for k in range(len(made.values))]
        others = [name for name, *_ in kernel.coefficients] + [name for name, _ in kernel.scalars]
        others += [NOTES] * self.point.looks
        there = [*self.rows, *layout.whole, *self.point.buffers, *results, "n"]
        there += [layout.names[name] for name in others]
        used = set(WORD.findall("\n".join(body)))
        machines = [layout.machine(row.source) for row in self.rows.values()]
        machines += [self.expressions.types[v.name] for v in made.values if isinstance(v, Ref)]
        widest = max((np.dtype(one).itemsize for one in machines), default=1)
        return RowFunction(
            made.name,
            tuple(name for name in there if name in used),
            body,
            tuple(self.point.constants),
            self.rows,
            buffers=self.point.buffers,
            overlap=_overlap(self.body, widest) if self.plain else (),
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
                    lines += self._read(target, expr)
                case Tap() | Weight() | Coefficient():
                    raise AssertionError(expr)
                case _:
                    lines += self.point.lines(target, expr)
        return lines

    def _read(self, target: str, read: Read) -> list[str]:
        label, column = self.point.rows[read.field, read.offset[:-1]]
        self.expressions.types[target] = self.layout.machine(read.field)
        if read.field in self.layout.constant:
            # All elements of the row are alike, and only the first is there.
            self.once.append(f"{target} = {label}[0]")
            return []
        element = f"{label}[{plus('j', read.offset[-1] - column)}]"
        return [f"{target} = {self.point.loaded(read.field, element)}"]


def _over_row(lines: Sequence[str], every: int = 1) -> list[str]:
    """A loop over the row."""
    head = ["for j in range(n):"]
    if every > 1:
        head = ["for q0 in range(n):", f"    j = {every} * q0"]
    return [*head, *indented(lines)]


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
