"""Row functions: the text that computes one row of a stage, or of the result.

    @row_function()
    def v0_row(x_0, x_1, x_2, o0, n):
        for j in range(n):
            v0_0 = x_0[j]
            ...
            o0[j] = v0_4

What it writes overlaps nothing that it reads, which LLVM is promised.  A module has each function
once, and a function `band` with the loops that call them (see `loops`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np

from ...analysis.footprint import extents
from ...analysis.rewrite import Body
from ...analysis.rewrite import rows as rows_of
from ...language.ir import COMPARISONS, Assign, Atom, Binary, Cast, Read, Ref, Select, Unary
from ...lowering.cost import operation
from ..generated import is_table
from .layout import LIBRARY, NOTES, RESERVED, Layout, Row, RowFunction
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
    body: Body
    values: tuple[Atom, ...]
    held: str = ""
    every: int = 1
    stores: tuple[str, ...] = ()


def row_function(made: Made, layout: Layout) -> RowFunction:
    """Write the function that makes a row."""
    rows = dict(_labelled(made.body, layout))
    point = Point(
        layout.expressions,
        layout.expressions.tables,
        dict(layout.kernel.fields) | {n: d for n, d, _ in layout.kernel.coefficients},
        layout.names,
        layout.reach,
        layout.loads,
        {(row.source, row.offset): (label, row.column) for label, row in rows.items()},
        layout.places,
    )
    point.tables.fetched = {}
    # What is done before the loop over the row, and for a point.
    once: list[str] = []
    lines = [f"{made.held} = o0[j]"] if made.held else []
    for name, expr in ((assign.name, assign.value) for assign in made.body):
        if not isinstance(expr, Read):
            lines += point.lines(name, expr)
            continue
        label, column = point.rows[expr.field, expr.offset[:-1]]
        point.types[name] = layout.machine(expr.field)
        if expr.field in layout.constant:
            # All elements of the row are alike, and only the first is there.
            once.append(f"{name} = {label}[0]")
        else:
            element = f"{label}[{plus('j', expr.offset[-1] - column)}]"
            lines.append(f"{name} = {point.loaded(expr.field, element)}")
    atoms = map(point.expressions.atom, made.values)
    place, over = "j", ["for j in range(n):"]
    if made.every > 1:
        place, over = "q0", ["for q0 in range(n):", f"    j = {made.every} * q0"]
    for k, (one, store) in enumerate(zip_longest(atoms, made.stores, fillvalue="")):
        lines.append(f"o{k}[{place}] = {f'{store}({one})' if store else one}")
    if point.looks:
        once.append(f"turns = {EACH}")
    body = (*point.tables.fetched.values(), *once, *over, *indented(lines))
    return RowFunction(
        made.name,
        _parameters(body, rows, point, layout, len(made.values)),
        body,
        tuple(point.constants),
        rows,
        point.buffers,
        _overlap(made, rows, layout),
    )


def _labelled(body: Body, layout: Layout) -> Iterator[tuple[str, Row]]:
    """The rows that a body reads, by their names.

    No operation has one of these: those of a stage `__` begin so as well.
    """
    # From which column on rows are read.
    first: dict[str, int] = {}
    for assign in body:
        for name, low, _ in extents(assign.value):
            first[name] = min(first.get(name, low[-1]), low[-1])
    order = [*(name for name, _ in layout.kernel.fields), *layout.by_name]
    found = gathered_rows(body) | rows_of(body)
    places = sorted(found, key=lambda row: (order.index(row[0]), row[1]))
    taken = {assign.name for assign in body}
    for k, (source, offset) in enumerate(places):
        name = layout.names[source]
        while f"{name}_{k}" in taken:
            name += "_"
        taken.add(f"{name}_{k}")
        yield f"{name}_{k}", Row(source, offset, first.get(source, 0))


def _parameters(
    body: Sequence[str], rows: Iterable[str], point: Point, layout: Layout, results: int
) -> tuple[str, ...]:
    """What a function of these lines is called with."""
    kernel = layout.kernel
    others = [name for name, *_ in (*kernel.coefficients, *kernel.scalars)]
    others += [NOTES] * point.looks
    there = [*rows, *layout.whole, *point.buffers, *(f"o{k}" for k in range(results)), "n"]
    used = set(WORD.findall("\n".join(body)))
    return tuple(name for name in (*there, *map(layout.names.__getitem__, others)) if name in used)


def _overlap(made: Made, rows: Mapping[str, Row], layout: Layout) -> tuple[int, ...]:
    """How many columns are computed by themselves at the end, and how many must be left for it."""
    if made.held or made.every > 1 or not all(map(_in_vectors, made.body)):
        return ()
    machines = [layout.machine(row.source) for row in rows.values()]
    machines += [layout.expressions.types[v.name] for v in made.values if isinstance(v, Ref)]
    widest = max((np.dtype(one).itemsize for one in machines), default=1)
    columns = VECTOR if widest <= 2 else VECTOR // 2
    effort = max(1, sum(operation(assign.value) for assign in made.body))
    least = max(columns // 4, math.ceil(LEFT / effort))
    return (columns, least) if least < columns else ()


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


class Functions:
    """The functions of a module, each of them once."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, ...], RowFunction] = {}

    def once(self, function: RowFunction) -> RowFunction:
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

    def text(self, title: str, band: Sequence[str], tables: Sequence[str], how: str) -> str:
        """The text of the module with this `band`; `how` says how rows are compiled."""
        lines: list[str] = []
        for function in self._written.values():
            lines += ["", "", *function.constants] if function.constants else []
            options = [how] * bool(how)
            if function.overlap:
                options.append(f"overlap={function.overlap}")
            lines += ["", "", f"@row_function({', '.join(options)})", *function.lines]
        if tables:
            lines += ["", "", *tables]
        text = "\n".join([*lines[1:], "", "", *band, ""])
        used = set(WORD.findall(text))
        head = [f'"""{title}: written by ninepoint; changes made here are lost."""', ""]
        for name in ("math", "numpy as np"):
            if name.rpartition(" ")[2] in used:
                head += [f"import {name}", ""]
        if listed := ",\n    ".join(name for name in LIBRARY if name in used):
            head.append(f"from ninepoint.backends.llvm.library import (\n    {listed},\n)")
        return "\n".join([*head, "", text])
