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

What finds the elements of some rank in large windows slides along the row.  For bytes it is a
histogram:

    median of x over 31 x 31, x of uint8:
        one column of 31 elements leaves the histogram and one enters it; the element of the
        wanted rank is found by counting, first in 16 coarse bins, then in 16 fine ones

Source: T. S. Huang, G. J. Yang and G. Y. Tang, "A fast two-dimensional median filtering
algorithm", IEEE Transactions on Acoustics, Speech and Signal Processing 27 (1), 1979.

For all other types it is a set of places:

    median of x over 11 x 11, x of float32:
        the elements of some rows and columns are put in order once, so that each has a place among
        them; along a row, 11 places leave the window's set and 11 enter it, and the wanted one is
        found from where the last one was

So what a point costs grows with the runs that the window has along the row, whatever type the
elements have.  The results of several rows are found together, and kept until their turn comes.

Source: J. Suomela, "Median filtering is equivalent to sorting", arXiv:1406.1717, 2014.

Compared with histograms, places took 2 to 4 times as long for bytes, and a half to a fifth of the
time for 16 bits (windows of 15 x 15 to 3 x 101, one thread).
"""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from ...analysis.footprint import extents
from ...analysis.ranges import Interval, machine_type, ranges
from ...analysis.rewrite import reads
from ...analysis.rewrite import rows as rows_of
from ...base import limits
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
from .points import EACH, Point, filled, indented, plus

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


@frozen
class RowFunction:
    """The text of a row function, and what it must be called with.

    Some of its `parameters` are its `rows` of fields and of stages, at offsets along all axes but
    the last: what each is called in the text, and the column that it begins at.  o0, o1, ... are
    its results, `n` is how many columns these have, and `i` and the like are its place.  Its
    `buffers` are made once, so.
    """

    name: str
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    constants: tuple[str, ...]
    rows: Mapping[tuple[str, Offset], tuple[str, int]]
    buffers: Mapping[str, str]


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
        self.reach = reach
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
        # What slides along rows knows elements as they are computed with; a chain keeps them so.
        slides = any(isinstance(stage, Histogram) for stage in kernel.stages)
        self.converts = HALVES and not slides and not edges
        fields = kernel.fields if self.converts else ()
        self.loads = {name: one.load for name, dtype in fields if (one := short(dtype))}
        shorts = map(short, dtypes if self.converts else ())
        self.stores = [one.store if one else "" for one in shorts]
        # Where reads stand that may be outside of their neighborhood.
        self.places = list[str]()

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
        # How many planes are made before the first of the result.
        self.warm = max(kept.warm for kept in self.stages)
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

    def first(self, kept: Kept) -> int:
        """The element of a stage's row at which column 0 is kept."""
        if not self.edges.axes or kept is self.result:
            return -kept.low[-1]
        least = min(map(self.item_size, self.by_name), default=LINE)
        found: int = -(self.low[-1] * least // LINE) * LINE // least
        return found

    def buffers(self) -> Iterator[str]:
        """The lines that make room for what is kept."""
        axes = range(self.axis + 1, -1)
        inner = [plus(*self.points(k), self.high[k] - self.low[k]) for k in axes]
        if inner:
            # An odd number of rows, so that planes are no multiple of 4096 bytes apart either.
            inner[-1] += " | 1"
        for kept in self.kept:
            columns = plus(*self.points(-1), self.first(kept) + self.high[-1])
            for name in kept.stage.names:
                width = f"padded({columns}, {self.item_size(name)})"
                shape = as_tuple([str(kept.count), *inner, width])
                yield f"{name} = np.empty({shape}, dtype=np.{self.machines[name]})"

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
        axes = range(self.axis + 1, stop)
        return [index, *(plus(self.indices[k + 1], row[k + 1] - self.low[k]) for k in axes)]

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
    layout: Layout, kept: Kept, word: str, body: Body, values: Sequence[Atom]
) -> RowFunction:
    """Write the function that makes a row of a stage or of the result, or several.

    These are some values of a body; the function's name ends in the word.
    """
    name, every, stores = f"{kept.stage.names[0]}_{word}", 1, list[str]()
    if isinstance(kept.stage, Histogram):
        return _sliding_function(name, kept, kept.stage, layout)
    if kept is layout.result:
        # Its columns are so many of those that it reads, and functions convert what is stored.
        every, stores = layout.every[-1], layout.stores * (len(values) // len(kept.stage.names))
    point = _Row(layout, body)
    # What is done before the loop over the row, and for a point.
    once = list[str]()
    lines = list[str]()
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
    arrays = (*labels, *layout.whole, *point.buffers, *outs)
    known = (*arrays, "n", *layout.coefficients, *layout.scalars, "notes")
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
        columns = dict[str, int]()
        for assign in body:
            for name, low, _ in extents(assign.value):
                columns[name] = min(columns.get(name, low[-1]), low[-1])
        order = [*dict(kernel.fields), *layout.by_name]
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
            axes = zip((*self.layout.indices, "j"), origin, self.layout.reach.lo, strict=True)
            places = [
                plus(index, along.get(axis, 0), offset - low)
                for axis, (index, offset, low) in enumerate(axes)
            ]
            text = f"{field}[{', '.join(['b', *places])}]"
        load = self.layout.loads.get(field)
        return f"{load}({text})" if load else text


# Ranks.


# A program, in which `$word` stands for a name of the function's own; the texts of what is made
# once for all rows, and tables with their types.
_Parts: TypeAlias = tuple[str, Mapping[str, str], Mapping[str, tuple[Sequence[object], str]]]


def _sliding_function(name: str, kept: Kept, stage: Histogram, layout: Layout) -> RowFunction:
    """Write the function that finds the element of a rank at each point of a stage's row."""
    storage = dict(layout.kernel.fields)[stage.read.field]
    # How far the window's first element is from where the block begins and from the row's column.
    steps = [o - least for o, least in zip(stage.read.offset, layout.reach.lo, strict=True)]
    steps[-1] += kept.low[-1]
    # Where each value has a bin of its own, and the window lies in a plane.
    in_plane = not any(any(run[:-3]) for run in stage.runs)
    if storage.kind in "iu" and storage.itemsize == 1 and in_plane:
        program, buffers, tables = _bins(stage, layout, steps, -128 if storage.kind == "i" else 0)
    else:
        program, buffers, tables = _places(kept, stage, layout, steps)
    own = {filled(f"${word}", name, {}): text for word, text in buffers.items()}
    return RowFunction(
        name,
        (*layout.whole, *filter(str.isidentifier, own), "o0", "n"),
        tuple(filled(program, name, {}).strip().split("\n")),
        tuple(
            f"{word}_{name} = np.array({held}, dtype=np.{dtype})"
            for word, (held, dtype) in tables.items()
        ),
        {},
        own,
    )


def _bins(stage: Histogram, layout: Layout, steps: Sequence[int], low: int) -> _Parts:
    """What finds the elements by counting, of values from `low` on."""
    rows = [run[-3] for run in stage.runs]
    begins = [steps[-1] + run[-2] for run in stage.runs]
    ends = [start + run[-1] for start, run in zip(begins, stage.runs, strict=True)]
    down, begin, end = "$rows[d]", "$begins[d]", "$ends[d]"
    tables = {"rows": (rows, "int64"), "begins": (begins, "int64"), "ends": (ends, "int64")}
    if len({*begins}) == len({*ends}) == 1 and rows == [*range(len(rows))]:
        # A box needs no tables.  (Medians of 15 x 15 and 31 x 31 bytes took 1.4 and 1.6 times as
        # long with them, 512 x 512, Zen 5.)
        down, begin, end, tables = "d", str(begins[0]), str(ends[0]), {}
    outer = list(map(plus, layout.indices, steps))
    if outer:
        outer[-1] += f" + {down}"

    def element(place: str) -> str:
        index = ", ".join(["b", *outer, place])
        return plus(f"i64({stage.read.field}[{index}])", -low)

    program = f"""
for k in range(256):
    $fine[k] = 0
for k in range(16):
    $coarse[k] = 0
for d in range({len(stage.runs)}):
    for k in range({begin}, {end}):
        value = {element("k")}
        $fine[value] += 1
        $coarse[value >> 4] += 1
for j in range(n):
    rest = {stage.rank}
    value = 0
    while $coarse[value] <= rest:
        rest -= $coarse[value]
        value += 1
    value = value << 4
    while $fine[value] <= rest:
        rest -= $fine[value]
        value += 1
    o0[j] = {plus("value", low)}
    if j + 1 < n:
        for d in range({len(stage.runs)}):
            value = {element(f"j + {begin}")}
            $fine[value] -= 1
            $coarse[value >> 4] -= 1
            value = {element(f"j + {end}")}
            $fine[value] += 1
            $coarse[value >> 4] += 1
"""
    buffers = {"fine": "np.empty(256, dtype=np.int32)", "coarse": "np.empty(16, dtype=np.int32)"}
    return program, buffers, tables


# Places.


class _Tile:
    """What is put in order together, for a window of these runs: rows and columns of results.

    A run is the steps to its row, its first column and its length.  The window's `planes` are
    steps along the axes before the last two; it begins at row `top` and column `left`.
    """

    def __init__(self, lines: Sequence[Offset]) -> None:
        self.planes = sorted({line[:-3] for line in lines})
        *_, rows, begins, lengths = zip(*lines, strict=True)
        self.top, self.left = min(rows), min(begins)
        height = self.height = max(rows) - self.top + 1
        width = self.width = max(map(sum, zip(begins, lengths, strict=True))) - self.left
        known = limits.current
        if height == 1:
            self.rows, columns = 1, max(known.sorted_columns, known.sorted_windows * width)
        else:
            side = math.sqrt(known.sorted_elements / len(self.planes))
            self.rows = max(1, int(side / 2) - height + 1, (known.sorted_windows - 1) * height + 1)
            columns = max(int(2 * side), known.sorted_windows * width)
        self.columns = max(1, columns - width + 1)
        # How many elements its windows have together.
        self.elements = len(self.planes) * (self.rows + height - 1) * (self.columns + width - 1)
        # Of each run its plane and its row, where it begins and what comes after it.
        self.runs = list[int]()
        for *steps, row, column, length in lines:
            first = column - self.left
            plane = self.planes.index(tuple(steps))
            self.runs += [plane, row - self.top, first, first + length]


def _places(kept: Kept, stage: Histogram, layout: Layout, steps: Sequence[int]) -> _Parts:
    """What finds the elements by places in a tile, and keeps those of its rows."""
    machine = computed(dict(layout.kernel.fields)[stage.read.field])
    ndim, unsigned = layout.kernel.ndim, f"uint{8 * machine.itemsize}"
    full = int(np.iinfo(unsigned).max)
    top = full // 2 + 1
    flipped = top if machine.kind == "i" else 0
    # What `keyed` needs to know of a type, and the bits of NaN.
    masks = [top, flipped, flipped, full, 0]
    if machine.kind == "f":
        infinite, nan = np.array([math.inf, math.nan], machine).view(unsigned).tolist()
        masks = [top, top, full, infinite ^ top, nan]
    tile = _Tile(stage.runs)
    short = tile.elements <= limits.current.sorted_elements
    buffers = {
        "held": f"np.empty({2 + max(1, ndim - 1)}, dtype=np.int64)",
        # No rows are held at first.
        "held[0]": "0",
        "held[1]": "0",
        "made": f"np.empty({tile.rows} * ({layout.columns(kept)}), dtype=np.{unsigned})",
        "keys": f"np.empty((2, {tile.elements}), dtype=np.{unsigned})",
        "order": f"np.empty((2, {tile.elements}), dtype=np.uint32)",
        "counts": f"np.empty({256 * machine.itemsize}, dtype=np.int64)",
        "ranks": f"np.empty({tile.elements}, dtype=np.{'uint16' if short else 'uint32'})",
        "inside": f"np.empty({(tile.elements + 63) // 64}, dtype=np.uint64)",
        "starts": f"np.empty({2 * len(stage.runs)}, dtype=np.int64)",
        # Up to which row the stage is made, counted as those of the result.
        "rows": "1" if ndim == 1 else layout.limits(kept, -2)[1],
    }
    tables: dict[str, tuple[Sequence[object], str]] = {
        "masks": (masks, "uint64"),
        "runs": (tile.runs, "int64"),
    }
    if len(tile.planes) > 1:
        tables["planes"] = [list(plane) for plane in tile.planes], "int64"
    return _selection(stage, layout, tile, steps), buffers, tables


def _selection(stage: Histogram, layout: Layout, tile: _Tile, steps: Sequence[int]) -> str:
    ndim = layout.kernel.ndim
    # Rows are counted from the first of the window.
    begins = [*steps[:-2], *(step + tile.top for step in steps[-2:-1])]
    further = [f" + $planes[d0, {k}]" if len(tile.planes) > 1 else "" for k in range(ndim - 2)]
    further += [" + d"] * (ndim > 1)
    pairs, start = zip(layout.indices, further, begins, strict=True), steps[-1] + tile.left
    line = as_tuple(["b", *(plus(f"{index}{more}", step) for index, more, step in pairs)])
    array, row = stage.read.field, "i" if ndim > 1 else "0"
    here = {f"$held[{k + 2}]": place for k, place in enumerate(["b", *layout.indices[:-1]])}
    known = [f"$held[0] <= {row} < $held[1]", *(f"{one} == {here[one]}" for one in here)]
    return f"""
if not ({" and ".join(known)}):
    $held[0], $held[1] = {row}, min({row} + {tile.rows}, $rows)
    {"; ".join(f"{one} = {place}" for one, place in here.items())}
    depth0 = $held[1] - $held[0] + {tile.height - 1}
    for first0 in range(0, n, {tile.columns}):
        width0 = min({tile.columns}, n - first0)
        wide0 = {plus("width0", tile.width - 1)}
        at0, valid0, front0 = 0, 0, row($keys, (0,))
        for d0 in range({len(tile.planes)}):
            for d in range(depth0):
                bits0 = same_bits(row({array}, {line}), front0)
                valid0 += keyed(bits0, {plus("first0", start)}, wide0, front0, at0, $masks)
                at0 += wide0
        turn0 = ordered($keys, $order, $counts, at0)
        keys0, order0 = row($keys, (turn0,)), row($order, (turn0,))
        for k in range(at0):
            $ranks[order0[k]] = k
        words0 = (at0 + 63) // 64
        for d in range($held[1] - $held[0]):
            at0 = d * n + first0
            slid(
                keys0, $masks, $ranks, $inside, words0, $runs, $starts, depth0, d, wide0, width0,
                {stage.rank}, valid0, $made, at0,
            )
at0 = ({row} - $held[0]) * n
found0 = same_bits($made, row({array}, {as_tuple(["b"] + ["0"] * (ndim - 1))}))
for j in range(n):
    o0[j] = found0[at0 + j]
"""
