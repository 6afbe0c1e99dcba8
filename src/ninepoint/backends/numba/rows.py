"""Row functions: the text that computes one row of a stage, or of the result.

    @row_function()
    def v0_row(x_0, x_1, x_2, o0, n):
        for j in range(n):
            v0_0 = x_0[j]
            ...
            o0[j] = v0_4

What it writes overlaps nothing that it reads: LLVM relies on that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from ...analysis.footprint import extents
from ...analysis.ranges import machine_type
from ...analysis.rewrite import rows as rows_of
from ...language.ir import Atom, Body, Offset, Read
from .layout import Layout, RowFunction, Rows
from .points import EACH, Point, gathered_rows, indented, plus

# A name that is not an attribute.
WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")


def row_function(
    layout: Layout,
    name: str,
    body: Body,
    values: Sequence[Atom],
    every: int = 1,
    stores: Sequence[str] = (),
) -> RowFunction:
    """Write the function that makes a row, or several: some values of a body.

    Its columns are `every` so many of those that it reads.  Its results are converted by the
    functions that `stores` names, "" for none.
    """
    point = _Row(layout, body)
    # What is done before the loop over the row, and for a point.
    once: list[str] = []
    lines: list[str] = []
    for assign in body:
        own, expr = assign.name, assign.value
        if not isinstance(expr, Read):
            lines += point.written(own, expr)
            continue
        point.types[own] = layout.machines[expr.field]
        if expr.field in layout.constant:
            # All elements of the row are alike, and only the first is there.
            once.append(f"{own} = {point.rows[expr.field, expr.offset[:-1]][0]}[0]")
        else:
            _, element = point.element(expr.field, expr.offset, {})
            lines.append(f"{own} = {element}")
    place, over = "j", ["for j in range(n):"]
    if every > 1:
        place, over = "q0", ["for q0 in range(n):", f"    j = {every} * q0"]
    atoms, outs = map(point.atom, values), [f"o{k}" for k in range(len(values))]
    for out, one, store in zip_longest(outs, atoms, stores, fillvalue=""):
        lines.append(f"{out}[{place}] = {f'{store}({one})' if store else one}")
    if point.looks:
        once.append(f"turns = {EACH}")
    written = (*once, *over, *indented(lines))
    used = set(WORD.findall("\n".join(written)))
    labels = (label for label, _ in point.rows.values())
    known = (*labels, *layout.whole, *point.buffers, *outs, "n", *layout.others)
    parameters = tuple(one for one in known if one in used)
    return RowFunction(
        name, parameters, written, tuple(point.constants), point.rows, point.buffers
    )


class _Row(Point):
    """What is computed at a point of a row, of which the others are read as well."""

    def __init__(self, layout: Layout, body: Body) -> None:
        kernel, known = layout.kernel, layout.known
        types = {name: machine_type(dtype, known[name]) for name, dtype in kernel.scalars}
        storage = dict(kernel.fields) | {name: dtype for name, dtype, _ in kernel.coefficients}
        super().__init__(known, types, storage)
        self.layout, self.places = layout, layout.places
        self.rows = _labelled(body, layout)

    def element(
        self, field: str, origin: Offset, along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        row = field, origin[:-1]
        if row in self.rows and along.keys() <= {len(origin) - 1}:
            label, column = self.rows[row]
            text = f"{label}[{plus('j', origin[-1] - column, *along.values())}]"
        else:
            index = [[place] for place in (*self.layout.indices, "j")]
            for axis, place in along.items():
                index[axis].append(place)
            steps = [o - low for o, low in zip(origin, self.layout.reach.lo, strict=True)]
            places = [plus(*one, step) for one, step in zip(index, steps, strict=True)]
            text = f"{field}[{', '.join(['b', *places])}]"
        load = self.layout.loads.get(field)
        return [], f"{load}({text})" if load else text


def _labelled(body: Body, layout: Layout) -> Rows:
    """The rows that a body reads, by names that no operation has."""
    # From which column on rows are read.
    first: dict[str, int] = {}
    for assign in body:
        for name, low, _ in extents(assign.value):
            first[name] = min(first.get(name, low[-1]), low[-1])
    order = [*(name for name, _ in layout.kernel.fields), *layout.by_name]
    found = gathered_rows(body) | rows_of(body)
    rows = {}
    for k, row in enumerate(sorted(found, key=lambda one: (order.index(one[0]), one[1]))):
        rows[row] = f"{row[0]}r{k}", first.get(row[0], 0)
    return rows
