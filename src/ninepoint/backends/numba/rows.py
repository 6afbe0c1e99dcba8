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

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ...analysis.footprint import extents
from ...analysis.rewrite import rows as rows_of
from ...language.ir import Atom, Body, Read
from .layout import LIBRARY, NOTES, RESERVED, Layout, Row, RowFunction
from .points import EACH, Point, gathered_rows, indented, plus

# A name that is not an attribute.
WORD = re.compile(r"(?<![\w.])\w+")


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
        dict(layout.kernel.fields) | {n: d for n, d, _ in layout.kernel.coefficients},
        layout.names,
        layout.reach,
        layout.loads,
        {(row.source, row.offset): (label, row.column) for label, row in rows.items()},
        layout.places,
    )
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
    body = (*once, *over, *indented(lines))
    return RowFunction(
        made.name,
        _parameters(body, rows, point, layout, len(made.values)),
        body,
        tuple(point.constants),
        rows,
        point.buffers,
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
    others = [name for name, _, _ in kernel.coefficients] + [name for name, _ in kernel.scalars]
    others += [NOTES] * point.looks
    there = [*rows, *layout.whole, *point.buffers, *(f"o{k}" for k in range(results)), "n"]
    there += [layout.names[name] for name in others]
    used = set(WORD.findall("\n".join(body)))
    return tuple(name for name in there if name in used)


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
            if name[0].isdigit() or (name in RESERVED and name != function.name):
                return name
            return known.setdefault(name, f"_{len(known)}")

        key = tuple(WORD.sub(anonymous, line) for line in function.lines)
        first = self._written.setdefault(key, function)
        return function if first is function else replace(function, name=first.name)

    def text(self, title: str, band: Sequence[str], how: str) -> str:
        """The text of the module with this `band`; `how` says how rows are compiled."""
        lines: list[str] = []
        for function in self._written.values():
            lines += ["", "", *function.constants] if function.constants else []
            lines += ["", "", f"@row_function({how})", *function.lines]
        text = "\n".join([*lines[1:], "", "", *band, ""])
        used = set(WORD.findall(text))
        head = [f'"""{title}: written by ninepoint; changes made here are lost."""', ""]
        for name in ("math", "numpy as np"):
            if name.rpartition(" ")[2] in used:
                head += [f"import {name}", ""]
        if listed := ",\n    ".join(name for name in LIBRARY if name in used):
            head.append(f"from ninepoint.backends.llvm.library import (\n    {listed},\n)")
        return "\n".join([*head, "", text])
