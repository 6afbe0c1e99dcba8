"""Row functions: the text that computes one row of a stage, or of the result.

    @row_function()
    def v0_row(x_0, x_1, x_2, o0, n):
        for j in range(n):
            v0_0 = x_0[j]
            ...
            o0[j] = v0_4

    def band(x, out0):              the loops over rows that call it, which `loops` writes

What it writes overlaps nothing that it reads, which LLVM is promised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import assert_never

import numpy as np

from ...analysis.footprint import extents
from ...analysis.ranges import ranges
from ...analysis.rewrite import copied
from ...analysis.rewrite import rows as rows_of
from ...language.dtypes import short
from ...language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Cast,
    Coefficient,
    Histogram,
    Offset,
    Read,
    Ref,
    RunningSum,
    Select,
    State,
    Tap,
    Unary,
    Values,
    Weight,
    shifted,
)
from ...lowering.abreast import together
from ...lowering.cost import operation
from ...lowering.kept import Kept
from ...lowering.pieces import Piece, pieces
from ..generated import is_table
from .expressions import LIBRARY, NOTES, RESERVED
from .layout import Layout, sum_text
from .points import EACH, Point, gathered_rows, indented, plus
from .ranks import histogram_function, in_bins, selecting_function

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


class Functions(Layout):
    """The functions of a kernel, each of them once."""

    def write(self) -> None:
        """Write those that make a row, of each stage and of the result, and those for several."""
        self._written: dict[tuple[str, ...], RowFunction] = {}
        self.functions = [tuple(map(self._once, self._stage_functions(one))) for one in self.kept]
        body, values = self.kernel.body, self.kernel.outputs
        final = Made("band_row", body, values, every=self.every[-1])
        self.final = self._once(self._result_function(final))
        self.several = [None if one is None else self._once(one) for one in self._several()]

    def text(self, title: str, parameters: Sequence[str], band: Sequence[str], how: str) -> str:
        """The text of the module with this `band`; `how` says how rows are compiled."""
        lines: list[str] = []
        for function in self._written.values():
            lines += ["", "", *function.constants] if function.constants else []
            options = [how] * bool(how)
            if function.overlap:
                options.append(f"overlap={function.overlap}")
            lines += ["", "", f"@row_function({', '.join(options)})", *function.lines]
        if numbers := self.expressions.tables.lines():
            lines += ["", "", *numbers]
        lines += ["", "", f"def band({', '.join(parameters)}):", *indented(band)]
        text = "\n".join(lines[1:]) + "\n"
        used = set(WORD.findall(text))
        head = [f'"""{title}: written by ninepoint; changes made here are lost."""', ""]
        head += ["import math", ""] * ("math" in used) + ["import numpy as np", ""] * (
            "np" in used
        )
        if listed := ",\n    ".join(name for name in LIBRARY if name in used):
            head.append(f"from ninepoint.backends.llvm.library import (\n    {listed},\n)")
        return "\n".join([*head, "", text])

    def _once(self, function: RowFunction) -> RowFunction:
        """The function, under the name of one that does the same if there is one already.

        The same but for names: the steps of an iteration differ in nothing else.
        """
        if function.constants or function.buffers:
            self._written[function.lines] = function
            return function
        known: dict[str, str] = {}

        def anonymous(word: re.Match[str]) -> str:
            name = word.group()
            own = name in RESERVED or is_table(name)
            if name[0].isdigit() or (own and name != function.name):
                return name
            return known.setdefault(name, f"_{len(known)}")

        key = tuple(WORD.sub(anonymous, line) for line in function.lines)
        first = self._written.setdefault(key, function)
        return function if first is function else replace(function, name=first.name)

    def _stage_functions(self, kept: Kept) -> tuple[RowFunction, ...]:
        """The function that makes a row; for a running sum there are two."""
        stage = kept.stage
        name = f"{self.names[stage.names[0]]}_row"
        match stage:
            case Values() | State():
                return (row_function(Made(name, stage.body, stage.values), self),)
            case Histogram():
                if in_bins(stage, dict(self.kernel.fields)[stage.read.field]):
                    return (histogram_function(name, stage, self, kept.low[-1]),)
                return (self._selecting(name, stage, kept),)
            case RunningSum():
                return self._running(stage)
            case _:
                assert_never(stage)

    def _selecting(self, name: str, stage: Histogram, kept: Kept) -> RowFunction:
        every, rows = 1, "1"
        if self.kernel.ndim > 1:
            # Up to which row the stage is made, counted as those of the result.
            rows = sum_text(self.ends_at(kept, -2, True))
            if self.axis == -2 and not self.rolled:
                every = self.every[-2]
        size = rows, self.columns(kept)
        return selecting_function(name, stage, self, kept.low[-1], size, every)

    def _running(self, stage: RunningSum) -> tuple[RowFunction, ...]:
        """The function that adds a row to a sum, and the one that also takes one away."""
        name, body, kind = stage.name, stage.body, stage.value.dtype
        text = self.names[name]
        self.expressions.types[name] = self.stage_type(name)
        # The row that goes: the same operations, on the row before the first.
        up = (*(0,) * (self.kernel.ndim - 2), -stage.rows, 0)
        leaving, (gone,) = copied(
            body, (stage.value,), lambda own, _: f"{own}_out", lambda expr: shifted(expr, up)
        )
        pairs = zip(leaving, body, strict=True)
        self.known |= {new.name: self.known[old.name] for new, old in pairs}
        added = Assign(f"{name}_in", Binary(kind, "+", Ref(kind, name), stage.value))
        taken = Assign(f"{name}_next", Binary(kind, "-", Ref(kind, added.name), gone))
        self.known |= dict.fromkeys((added.name, taken.name), self.known[name])
        functions = (("_add", (*body, added)), ("_move", (*body, *leaving, added, taken)))
        return tuple(
            row_function(Made(text + word, lines, (Ref(kind, lines[-1].name),), name), self)
            for word, lines in functions
        )

    def _several(self) -> list[RowFunction | None]:
        """The functions that make several rows at once: of each stage, and of the result.

        None where one row after the other is better.
        """
        if self.kernel.rows == 1:
            return []
        several: list[RowFunction | None] = []
        for kept in self.kept:
            name = self.names[kept.stage.names[0]]
            one = Made(name, kept.stage.body, kept.stage.values)
            made = self._rows_at_once(one, f"{name}_r")
            several.append(None if made is None else row_function(made, self))
        last = self._rows_at_once(Made("band", self.kernel.body, self.kernel.outputs), "r")
        return [*several, None if last is None else self._result_function(last)]

    def _rows_at_once(self, one: Made, prefix: str) -> Made | None:
        """Several rows of a stage or of the result, whose operations' names begin so."""
        written, _ = together(replace(self.kernel, body=one.body, outputs=one.values), prefix)
        if written is None:
            return None
        self.known |= ranges(written)
        return Made(f"{one.name}_rows", written.body, written.outputs)

    def _result_function(self, made: Made) -> RowFunction:
        """The function of a row of the result, or of several, those of the first row first."""
        shorts = [short(dtype) for dtype in self.dtypes] if self.converts else []
        stores = tuple(one.store if one else "" for one in shorts)
        rows = len(made.values) // len(self.outs)
        return row_function(replace(made, stores=stores * rows), self)
