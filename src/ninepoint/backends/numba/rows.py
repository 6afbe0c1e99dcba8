"""Rows: where they lie while loops run, what is kept of stages, and functions that compute them.

    x, two rows more than the result      row i + 1 of the result's:   x[b, i + 2], from column 1
    v, of which three rows are kept       row i + 1 of the result's:   v[(i + 2) % 3]

Places are written as sums of indices and lengths: in a chain, how many rows and columns there are
depends on the sides at which the array goes on beyond the block.

    @row_function()
    def v0_row(x_r0, x_r1, x_r2, o0, n):
        for j in range(n):
            v0_0 = x_r0[j]
            ...
            o0[j] = v0_4

What it writes overlaps nothing that it reads: LLVM relies on that.

What the user named ends in an underscore, as no other word of the text does, and what the compiler
named by number in a digit: x_, t0, v0_3, out1, and the row function band__row of the stage band_.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ...analysis.footprint import extents
from ...analysis.ranges import Interval, machine_type, ranges
from ...analysis.rewrite import reads
from ...analysis.rewrite import rows as rows_of
from ...base.frozen import frozen
from ...language.dtypes import computed, short
from ...language.ir import (
    Atom,
    Body,
    Box,
    Histogram,
    Kernel,
    Offset,
    Read,
    Stage,
    State,
    Values,
    joined,
)
from ...lowering.chain import Edges, mirrored
from ...lowering.rolling import Kept, full, kept_stages, needed, rolling_axis
from ..cache import machine
from .points import EACH, Point, indented, plus

# Bytes of a cache line.
LINE = 64


# Whether this machine converts half floats, several at once.
HALVES = platform.machine().lower() in ("aarch64", "arm64") or {"+avx", "+f16c"}.issubset(
    machine().rpartition(" ")[2].split(",")
)


# A name that is not an attribute.
WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")


def as_tuple(items: list[str]) -> str:
    """The text of a tuple."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


# Rows.


# Rows of a field or of a stage, at an offset along all axes but the last: what each is called in
# the text, and the column that it begins at.
Rows: TypeAlias = Mapping[tuple[str, Offset], tuple[str, int]]


@frozen
class RowFunction:
    """The text of a row function, and what it must be called with.

    Some of its `parameters` are those of its `rows`; o0, o1, ... are its results, `n` is how many
    columns these have, and `i` and the like are its place.  Its `buffers` are made once, so.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    constants: tuple[str, ...]
    rows: Rows
    buffers: Mapping[str, str]

    @property
    def lines(self) -> tuple[str, ...]:
        """Its text."""
        head = f"def {self.name}({', '.join(self.parameters)}):"
        return (head, *indented(self.body))


# Texts and numbers that are added.
Terms: TypeAlias = tuple[str | int, ...]


class Layout:
    """Where the rows of a kernel lie, or of a chain whose arrays have such `edges`.

    Its results are stored as `dtypes`, without which they are stored as they are computed.
    """

    def __init__(
        self,
        kernel: Kernel,
        reach: Box,
        dtypes: Sequence[np.dtype] = (),
        edges: Edges | None = None,
    ) -> None:
        self.reach, self.dtypes = reach, dtypes
        # Without axes where the array goes on at all ends.
        self.edges = edges or Edges(())
        # What is needed of a stage where the array goes on, and where it ends.
        self.needs, self.ends = needed(kernel, mirrored=True), needed(kernel, stored=True)
        if edges:
            kernel = mirrored(kernel, edges)
        self.kernel = kernel
        self.known: dict[str, Interval] = ranges(kernel)
        self.axis = rolling_axis(kernel)
        # The names of the indices along all axes but the last.
        self.indices = [*(f"i{axis}" for axis in range(kernel.ndim - 2)), "i"][: kernel.ndim - 1]
        # Those of the loops that are around all that rolls: a kernel of one axis has no rows.
        self.outer = self.indices[: len(self.indices) + self.axis + 2]
        # The last of them tells which turn it is, of those in which stages roll.
        self.turn = self.outer[-1] if self.outer else ""
        # The fields that are constant along a row: positions along another axis.
        self.constant = {name for name, one in kernel.placed if one.axis < kernel.ndim - 1}
        self.every = kernel.every or (1,) * kernel.ndim
        self._keep_stages()
        # What a function takes that looks anywhere: the fields, and its place.
        self.whole = [*dict(kernel.fields), "b", *self.indices]
        # What a kernel is given after its arrays.
        self.coefficients = [name for name, *_ in kernel.coefficients]
        self.scalars = [*dict(kernel.scalars)]
        self.others = [*self.coefficients, *self.scalars, "notes"]
        # What slides along rows knows elements as they are computed with; a chain keeps them so.
        slides = any(isinstance(stage, Histogram) for stage in kernel.stages)
        self.converts = HALVES and not slides and not edges
        fields = kernel.fields if self.converts else ()
        self.loads = {name: one.load for name, dtype in fields if (one := short(dtype))}
        shorts = map(short, self.dtypes if self.converts else ())
        self.stores = [one.store if one else "" for one in shorts]
        # Where reads stand that may be outside of their neighborhood.
        self.places: list[str] = []

    def _keep_stages(self) -> None:
        """Tell what is kept of each stage, and how far all of them reach."""
        kernel = self.kernel
        # Positions along a row are the same in all rows, and so are stages that read nothing else.
        columns = {name for name, one in kernel.placed if one.axis == kernel.ndim - 1}

        def alike(stage: Stage) -> bool:
            fields = {read.field for read in reads(stage.body)}
            return isinstance(stage, Values) and fields <= columns

        # Of a turn that makes several rows each stage keeps as many more.
        self.kept = tuple(
            replace(one, count=1 if alike(one.stage) else one.count + kernel.rows - 1)
            for one in kept_stages(kernel)
        )
        # Those of which all rows are the same.
        self.alike = [one for one in self.kept if alike(one.stage)]
        self.by_name = {name: kept for kept in self.kept for name in kept.stage.names}
        # The machine types of what is read of fields and of stages.
        self.machines = {name: computed(dtype).name for name, dtype in kernel.fields}
        for name, kept in self.by_name.items():
            stage, k = kept.stage, kept.stage.names.index(name)
            self.machines[name] = (
                computed(stage.storage[k]).name
                if isinstance(stage, State)
                else machine_type(stage.values[k].dtype, self.known[name])
            )
        # The result is a stage that is kept nowhere.
        here, outs = full((0,) * kernel.ndim), [f"out{k}" for k in range(len(kernel.outputs))]
        result = Values(tuple(outs), kernel.body, kernel.outputs)
        self.result = Kept(result, here, here, self.axis, 1)
        self.stages = (*self.kept, self.result)
        self.needs["out0"] = self.ends["out0"] = Box(here, here)
        # Whether results are made at some of the planes of an axis that all have a turn.
        self.thins = any(one.count > 1 for one in self.kept) and self.every[self.axis] > 1
        # How many planes are made before the first of the result.
        self.warm = max((kept.warm for kept in self.kept), default=0)
        # Rows of a chain begin at multiples of 64 bytes where the array's rows begin: of the loads
        # of a step, those of the point's own column then touch one cache line a vector (heat in
        # two and three axes, float32: 1.2x, Zen 4).  So all of its stages are kept alike.
        boxes = [*self.ends.values(), *(Box(one.low, one.high) for one in self.stages)]
        self.low, self.high = joined(boxes).ends

    def item_size(self, name: str) -> int:
        """The bytes of an element of a stage."""
        return np.dtype(self.machines[name]).itemsize

    # Extents: of the results, and of a stage where the array goes on, and where it ends.

    def length(self, axis: int) -> str:
        """The length of the result along an axis, counted from the last, which is -1."""
        return "n" if axis == -1 else f"out0.shape[{self.kernel.ndim + axis + 1}]"

    def points(self, axis: int) -> Terms:
        """How many points the results span along an axis."""
        step, length = self.every[axis], self.length(axis)
        return (length,) if step == 1 else (f"{step} * {length}", 1 - step)

    def on(self, side: str, axis: int, times: int) -> str | int:
        """So many, where the array goes on `before` or `after` the block."""
        if not self.edges.axes or not times:
            return times
        return f"{side}{-axis}" if times == 1 else f"{times} * {side}{-axis}"

    def ended(self, kept: Kept, axis: int, last: bool) -> int:
        """Where a stage begins or, at `last`, ends along an axis of an array that ends there."""
        stage = kept.stage
        return 0 if isinstance(stage, State) else self.ends[stage.names[0]].ends[last][axis]

    def ends_at(self, kept: Kept, axis: int, last: bool, times: int = 1) -> Terms:
        """Where a stage begins or, at `last`, ends along an axis."""
        ended, side = self.ended(kept, axis, last), "after" if last else "before"
        more = self.needs[kept.stage.names[0]].ends[last][axis] - ended
        points = self.points(axis) if last else ()
        return (*points, times * ended, self.on(side, axis, times * more))

    def limits(self, kept: Kept, axis: int) -> tuple[str, str]:
        """Where a stage begins and ends along an axis."""
        return plus(*self.ends_at(kept, axis, False)), plus(*self.ends_at(kept, axis, True))

    def columns(self, kept: Kept) -> str:
        """How many columns a row of a stage has, or of the result."""
        if kept is self.result:
            return "n"
        return plus(*self.ends_at(kept, -1, True), *self.ends_at(kept, -1, False, -1))

    # What is kept.

    def room(self, kept: Kept) -> tuple[Offset, Offset]:
        """The first and the last offset that there is room for."""
        return (self.low, self.high) if self.edges.axes else (kept.low, kept.high)

    def first(self, kept: Kept) -> int:
        """The element of a stage's row at which column 0 is kept."""
        if not self.edges.axes or kept is self.result:
            return -kept.low[-1]
        least = min(map(self.item_size, self.by_name), default=LINE)
        found: int = -(self.low[-1] * least // LINE) * LINE // least
        return found

    def buffers(self) -> list[str]:
        """The lines that make room for what is kept."""
        lines: list[str] = []
        for kept in self.kept:
            low, high = self.room(kept)
            axes = range(self.axis + 1, -1)
            inner = [plus(*self.points(k), high[k] - low[k]) for k in axes]
            if inner:
                # An odd number of rows, so that planes are no multiple of 4096 bytes apart either.
                inner[-1] += " | 1"
            columns = plus(*self.points(-1), self.first(kept) + high[-1])
            for name in kept.stage.names:
                width = f"padded({columns}, {self.item_size(name)})"
                shape = as_tuple([str(kept.count), *inner, width])
                kind = f"np.{self.machines[name]}"
                lines.append(f"{name} = np.empty({shape}, dtype={kind})")
        return lines

    # Places.

    def made(self, kept: Kept, down: int = 0) -> Offset:
        """Where a stage's row of this turn is, relative to the result's: in its last plane."""
        down += kept.high[self.axis]
        return tuple(down * (k == self.axis) for k in range(-self.kernel.ndim, -1))

    def plane(self, kept: Kept, row: Offset, stop: int = -2) -> list[str]:
        """Where a stage keeps the plane of a row that is `row` from the result's, or volume.

        That is its index along the axes up to `stop`, of which all but that which rolls are
        counted from the lowest.
        """
        index = "0"
        if kept.count > 1:
            turn = plus(self.turn, row[self.axis + 1] - kept.low[self.axis])
            index = f"({turn}) % {kept.count}" if " " in turn else f"{turn} % {kept.count}"
        low, _ = self.room(kept)
        axes = range(self.axis + 1, stop)
        return [index, *(plus(self.indices[k + 1], row[k + 1] - low[k]) for k in axes)]

    def place(self, kept: Kept, row: Offset) -> str:
        """Where a stage keeps a row, or where it is in a result."""
        if kept is not self.result:
            return as_tuple(self.plane(kept, row, -1))
        steps = zip(self.indices, self.every, strict=False)
        own = [f"{index} // {step}" if step > 1 else index for index, step in steps]
        return as_tuple(["b", *map(plus, own, row)])

    def at(self, row: Offset) -> list[str]:
        """The index of a row in a field: from where the block begins that the fields hold."""
        return [
            plus(index, row[k + 1], self.on("before", k, -self.reach.lo[k]))
            for k, index in enumerate(self.indices, -self.kernel.ndim)
        ]


# Functions.


def row_function(
    layout: Layout,
    name: str,
    body: Body,
    values: Sequence[Atom],
    every: int,
    stores: Sequence[str],
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
            lines.append(f"{own} = {point.element(expr.field, expr.offset, {})}")
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
        # From which column on rows are read.
        columns: dict[str, int] = {}
        for assign in body:
            for name, low, _ in extents(assign.value):
                columns[name] = min(columns.get(name, low[-1]), low[-1])
        order = [*(name for name, _ in kernel.fields), *layout.by_name]
        self.rows = dict[tuple[str, Offset], tuple[str, int]]()
        found = sorted(rows_of(body), key=lambda one: (order.index(one[0]), one[1]))
        for k, row in enumerate(found):
            self.rows[row] = f"{row[0]}r{k}", columns.get(row[0], 0)

    def element(self, field: str, origin: Offset, along: Mapping[int, str]) -> str:
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
        return f"{load}({text})" if load else text
