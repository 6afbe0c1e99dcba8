"""Strips: a warp rolls down the rows of a strip of columns, and keeps rows in registers.

    v = x[0, 1] - x[0, -1]               for each row i of the warp's part of the strip:
    out = v[-1, 0] + v[1, 0]      ->         load row i + 2 of x, for the next turn
                                             make row i + 1 of v, of row i + 1 of x
                                             make row i of the result, of rows i - 1 and i + 1 of v

A lane has some columns beside each other; what lies beside these it gets from other lanes.  So
stages, calls that read each other's results and steps in time need no memory but the fields and
the results.  There are no barriers, and what neighbouring strips both need is made twice.

A text has two functions: each strip that is nowhere near an end of the array leaves at once the
one for strips that are, as these leave the other.

Along the first axis the number of blocks may be any: each does as many rows as are left for it.

The text of a function is that of one turn:

const npt_index j = start + npt_index(threadIdx.x) * 4;         the lane's first column
npt_ring<float, 3, 1, 4, 1> r0 = {};                            a ring: rows of columns
for (npt_index i = i0 - 2; i < i1; i++) {
  r0.shift();                                                   the oldest row goes
  ...                                                           the newest is made
  r0.fetch(0);                                                  columns of other lanes
}

A strip is what a warp rolls down.  Its outer columns are made for what reads beside a result's:

32 lanes of 4 columns            4 | 120 | 4
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...language.ir import Kernel, Read
from ...lowering.chain import Absent, Edges
from ...lowering.cost import operation
from ...lowering.kept import full
from ...lowering.passes import checked
from ..numba.points import plus
from .bodies import Body, Function, field_arrays, out_arrays
from .printing import (
    ABSENT,
    C_TYPES,
    Array,
    Rules,
    block,
    either,
    ends,
    finders,
    instead,
    loaded,
    stored,
)
from .rings import Loaded, Made, Rolling, rolling
from .source import LANES, Launch, Source

# Warps of a block, which do strips beside each other: one for each scheduler of a processor.
WARPS = 4

# Rows that a warp does of a strip: a tenth more are made before them in a chain of eight steps.
ROWS = 128

# Rows below which a warp does much that it does once: a quarter of them are made before the first,
# if so many are needed there.
LEAST, WARM = 32, 4

# Bytes that a lane loads of a row at once at most.
BYTES = 16


@dataclass(frozen=True, slots=True)
class Strip:
    """What rolls down, and in how many columns a lane does it."""

    rolling: Rolling
    columns: int

    @property
    def halo(self) -> tuple[int, int]:
        """The columns beside those of the result, a multiple of those of a lane."""
        before, after = (-(-n // self.columns) * self.columns for n in self.rolling.beside)
        return before, after

    @property
    def width(self) -> int:
        """The columns of the result."""
        return LANES * self.columns - sum(self.halo)


@dataclass
class StripFunction(Function):
    """The function for strips `inside`, or for those near ends, where rows are no vectors."""

    strip: Strip
    inside: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self.columns, self.last = self.strip.columns, self.ndim - 1
        self.rolling = self.strip.rolling
        self.fields = field_arrays(self.kernel)
        self.rings = self.rolling.rings
        read = {one.field for one in self.rolling.loaded}
        for array in (*(a for n, a in self.fields.items() if n in read), *self.outs):
            self.use(array)

    def launch(self, plain: str = "") -> Launch:
        """How the function is started, or the one called `plain` where rows are no vectors."""
        nothing, names = (0,) * self.ndim, tuple(array.name for array in self.arrays)
        sizes = [min(BYTES, self.columns * array.dtype.itemsize) for array in self.arrays]
        tile = (ROWS, WARPS * self.strip.width)[-self.ndim :]
        least = max(LEAST, WARM * self.rolling.warm) if self.last else 0
        threads, wide = (LANES, WARPS, 1), tuple(sizes) if plain else ()
        return Launch(self.name, names, threads, tile, nothing, nothing, wide, plain, least)

    def text(self, blocks: int = 0, plain: str = "") -> list[str]:
        """The text, for registers of which there are enough for so many blocks."""
        first = plus("i0", -self.rolling.warm)
        made = [self._taken(one) for one in self.rolling.loaded]
        made += [self._made(level) for level in self.rolling.levels[:-1]]
        turn = [*self._begun(), *(line for level in made for line in level), *self._result()]
        body = [
            *([] if plain else ["constexpr bool wide = false;"]),
            *self._place(),
            *self._kept(),
            *(line for one in self.rolling.loaded for line in self._load(one, first)),
            *self._unrolled(),
            *block(f"for (npt_index i = {first}; i < i1; i++) {{", turn),
        ]
        return self.lines(body, LANES * WARPS, blocks, plain)

    def _unrolled(self) -> list[str]:
        """Several turns in one, after which each row is in its own registers again.

        A row that goes needs no copy then: of 8 steps of heat, in float32, a turn has 276
        instructions in the place of 350 (sm_90).
        """
        turns = min(3, max(ring.count for ring in self.rings.values()))
        # What loads at the ends as well is long enough.
        short = self.inside and turns > 1
        return [f"#pragma unroll (wide ? {turns} : 1)"] if short else []

    # Where the warp is.

    def _place(self) -> list[str]:
        """Which strip, which of its rows and which frame; and whether an end is near."""
        strip, (low, high), (top, bottom) = (
            self.strip,
            self.rolling.zones(1),
            self.rolling.margins(),
        )
        end = plus("start", LANES * strip.columns + high)
        within = f"(inner && i0 >= {top} && {plus('i1', bottom)} <= n)"
        return [
            "const auto [m, n, first, i0, i1, frame, none] = "
            f"npt_roll<{WARPS}, {strip.width}>(g);",
            "if (none) return;",
            f"const npt_index start = {plus('first', -strip.halo[0])};",
            f"const npt_index j = start + npt_index(threadIdx.x) * {strip.columns};",
            f"const bool inner = start >= {low} && {end} <= m;",
            f"if ({'!' * self.inside}{within}) return;",
            *self.frames("frame"),
        ]

    def _kept(self) -> list[str]:
        """The rings, and the rows of fields that are loaded for the next turn."""
        lines = []
        for ring in self.rings.values():
            size = f"{ring.count}, {ring.before}, {self.columns}, {ring.after}"
            kind = f"npt_ring<{C_TYPES[ring.machine]}, {size}>"
            lines.append(f"{kind} {ring.name} = {{}};")
        for one in self.rolling.loaded:
            kind = f"npt_chunk<{self.fields[one.field].stored}, {self.columns}>"
            lines.append(f"{kind} {self._next(one)} = {{}};")
        # Memory for a row that is given its ends.
        sizes = [
            np.dtype(self.rings[name].machine).itemsize
            for level in self.rolling.levels[:-1]
            for name, edge in zip(level.names, level.edges, strict=True)
            if edge.beyond
        ]
        if sizes and not self.inside:
            words = LANES * self.columns * -(-max(sizes) // 8)
            lines.append(f"__shared__ npt_uint64 held[{WARPS}][{words}];")
        return lines

    # A turn.

    def _begun(self) -> list[str]:
        """The oldest rows go; what lies beside the others is fetched."""
        lines = []
        for ring in self.rings.values():
            lines.append(f"{ring.name}.shift();")
            if ring.fetched < 0:
                lines.append(f"{ring.name}.fetch({ring.fetched});")
        return lines

    def _newest(self, name: str) -> list[str]:
        """What lies beside the newest row of a ring is fetched, if anybody reads it there."""
        ring = self.rings[name]
        return [] if ring.fetched else [f"{ring.name}.fetch(0);"]

    def _next(self, one: Loaded) -> str:
        return f"{self.rings[one.name].name}_next"

    def _each(self, lines: Sequence[str]) -> list[str]:
        """Lines for each column of the lane."""
        return block(f"NPT_EACH(e, {self.columns}) {{", lines)

    def _taken(self, one: Loaded) -> list[str]:
        """A row of a field, which was loaded in the turn before."""
        ring, dtype = self.rings[one.name], self.fields[one.field].dtype
        value = loaded(ring.machine, dtype, f"{self._next(one)}.get(e)")
        lines = self._each([f"{ring.name}.at(0, e) = {value};"])
        lines += block("if (i + 1 < i1) {", self._load(one, "i + 1"))
        return [*lines, *self._newest(one.name)]

    def _load(self, one: Loaded, turn: str) -> list[str]:
        """Load the row of a field that is taken in this turn."""
        array, target = self.fields[one.field], self._next(one)
        row = plus(turn, self.rings[one.name].newest)
        if self.inside:
            return [f"{target} = {self._whole(array, row)};"]
        rules, constant = self.rolling.fallback, ""
        if one.beyond is not None:
            border, number = one.beyond
            rules = self.rolling.borders[border]
            constant = self.constant(self.rolling.edges.constants[number])
        places = [f"npt_at<{finders(rules[0])}>({row}, n)"] * self.last
        lines, there = array.row(places, rules)
        told = [target, "row", there, "j", "0", "m", f"{array.parameter}_{self.last}"]
        told += [constant] * bool(constant)
        lines.append(f"npt_row<{finders(rules[1])}, wide>({', '.join(told)});")
        return block("{", lines)

    def _whole(self, array: Array, row: str, *chunk: str) -> str:
        """Load the lane's columns of a row, or store them."""
        name, step = array.parameter, f"{array.parameter}_{self.last}"
        down, how = f"({row}) * {name}_0 + " * self.last, "store" if chunk else "load"
        told = [f"{name} + ({down}(wide ? j : j * {step}))", step, *chunk]
        return f"npt_{how}<wide, {self.columns}>({', '.join(told)})"

    def _made(self, level: Made) -> list[str]:
        """A row of a stage, and what lies beyond its ends."""
        put = level.state and not self.inside
        newest = self.rings[level.names[0]].newest
        body = self._body(level, newest)
        values = [
            body.result(value, self.rings[name].machine)
            for name, value in zip(level.names, level.values, strict=True)
        ]
        inner = body.printed()
        stores, after = [], list[str]()
        for name, value, edge in zip(level.names, values, level.edges, strict=True):
            if put and edge.absent:
                kind = C_TYPES[self.rings[name].machine]
                value = self._instead(edge.absent, ("at", newest), value, kind)
            stores.append(f"{self.rings[name].name}.at(0, e) = {value};")
            if put and edge.beyond:
                after += self._beyond(name, edge.beyond)
        if any("column" in store for store in stores):
            inner.append("const npt_index column = j + e;")
        lines = [f"const npt_index at = {plus('i', newest)};"] if put else []
        lines += [*self._each([*inner, *stores]), *after]
        lines += [line for name in level.names for line in self._newest(name)]
        return block("{", lines)

    def _instead(self, absent: Absent, at: tuple[str, int], value: str, kind: str) -> str:
        """A value of the row `at` a place and so far from the turn's, or what its border has."""
        row, step = at

        def other(rule: str) -> str:
            text = (
                self._read(absent.before, step, 0, 0)
                if rule == "keep"
                else self.constant(self.rolling.edges.constants[absent.constant])
            )
            return f"npt_as<{kind}>::from({text})"

        places = ((row, "n"), ("column", "m"))
        tests = ends(*self.rolling.rules_of(absent), places)
        return instead(tests, value, other)

    def _beyond(self, name: str, beyond: tuple[int, int]) -> list[str]:
        """Put beyond the ends of a ring's newest row, and of its rows, what the rule has there."""
        border, number = beyond
        ring = self.rings[name]
        rows, sides = self.rolling.borders[border]
        constant = self.constant(self.rolling.edges.constants[number])
        value = f", npt_as<{C_TYPES[ring.machine]}>::from({constant})" if constant else ""
        lines = []
        if _is_put(sides):
            told = f"held[threadIdx.y], start, m{value}"
            lines.append(f"if (!inner) {ring.name}.columns<{finders(sides)}>({told});")
        if _is_put(rows):
            lines.append(f"{ring.name}.beyond<{finders(rows)}, {ring.fetched}>(at, n{value});")
        return lines

    def _body(self, level: Made, row: int) -> Body:
        """The operations at a point of this row, relative to the result's."""

        def take(body: Body, name: str, read: Read) -> None:
            text = self._read(read.field, row, *full(read.offset))
            body.take(name, self.rings[read.field].machine, text)

        body = Body(self)
        self.write(body, level.body, take)
        return body

    def _read(self, name: str, row: int, step: int, column: int) -> str:
        """An element of a ring, for a level that makes this row."""
        ring = self.rings[name]
        return f"{ring.name}.at({row + step - ring.newest}, {plus('e', column)})"

    # The result.

    def _result(self) -> list[str]:
        level = self.rolling.levels[-1]
        body = self._body(level, 0)
        values = [(body.machine(value), body.result(value)) for value in level.values]
        lines = [
            f"npt_chunk<{a.stored}, {self.columns}> p{k} = {{}};" for k, a in enumerate(self.outs)
        ]
        inner = body.printed()
        for k, (array, (machine, value)) in enumerate(zip(self.outs, values, strict=True)):
            inner.append(f"p{k}.put(e, {stored(array.dtype, machine, value)});")
        lines += [*self._each(inner), *self._stored(level)]
        return block("if (i >= i0) {" if self.rolling.warm else "{", lines)

    def _stored(self, level: Made) -> list[str]:
        """Write the row of each result, or what the rules of its border write near the ends."""
        whole: list[str] = []
        single: list[str] = []
        low, high = self.rolling.zones(0)
        tests = ["inner", *[f"i >= {low}"] * bool(low), *[f"i < n - {high}"] * bool(high)]
        for k, (array, edge) in enumerate(zip(self.outs, level.edges, strict=True)):
            whole.append(self._whole(array, "i", f"p{k}") + ";")
            value = f"p{k}.get(e)"
            if edge.absent:
                value = self._instead(edge.absent, ("i", 0), value, array.stored)
            element = array.at(["i", "column"][-self.ndim :])
            single.append(f"{element} = {value};")
        lines = whole
        if not self.inside:
            place = "const npt_index column = j + e;"
            each = [place, *block("if (column >= first && column < m) {", single)]
            lines = either(" && ".join(tests), whole, self._each(each))
        before, after = (one // self.columns for one in self.strip.halo)
        lanes = [f"threadIdx.x >= {before}"] * bool(before)
        lanes += [f"threadIdx.x < {LANES - after}"] * bool(after)
        return block(f"if ({' && '.join(lanes)}) {{", lines) if lanes else lines


def _is_put(rules: tuple[str, str]) -> bool:
    """Whether rules have something beyond; what "wrap" has there is computed as all else is."""
    return "wrap" not in rules and bool(set(rules) - set(ABSENT))


# Registers beyond which a lane does fewer columns, or a chain fewer steps: with more than these
# a processor of 65536 has fewer than three blocks.
REGISTERS = 168

# Where a lane needs more than are easy the assembler is told so; by itself it keeps to 96, and
# spills: of 8 steps of heat, in float32, 204 bytes (nvcc 13.0, sm_90).
BLOCKS = 3

# Registers up to which a processor has warps enough to load while others compute: 20 of them.
EASY = 96

# Instructions of a turn besides those for each point: loop, addresses, load, store.
TURN = 40

# Columns of a lane.
COLUMNS = (16, 8, 4, 2, 1)


def strips(
    kernel: Kernel,
    edges: Edges,
    borders: Sequence[Rules],
    name: str,
    outs: Sequence[np.dtype],
) -> Source | None:
    """The text of a kernel with the rules of its borders: of several calls in one pass, or steps.

    None where they do not roll so.
    """
    kernel = checked(kernel)
    if kernel.ndim > 2 or any("valid" in pair for rules in borders for pair in rules):
        return None
    found = rolling(kernel, edges, borders)
    if found is None or not found.loaded or not found.takes_rules():
        return None
    fit = [one for one in (Strip(found, columns) for columns in COLUMNS) if _fits(one)]
    if not fit:
        return None
    best = min(fit, key=_cost)
    # Strips near an end are few, and need more registers than all others together would have.
    inside, near = (
        StripFunction(kernel, found.known, found.constants, called, out_arrays(outs), best, far)
        for called, far in ((name, True), (f"{name}_ends", False))
    )
    blocks, plain = BLOCKS if _needed(best) > EASY else 0, f"{name}_plain"
    lines = [*inside.text(blocks, plain), *near.text(), ""]
    launches = inside.launch(plain), near.launch()
    return Source("\n".join(lines), launches, (), found.constants)


def _fits(strip: Strip) -> bool:
    """Whether a quarter of the columns are those of the result, and registers are left."""
    largest = max(dtype.itemsize for _, dtype in strip.rolling.kernel.fields)
    if strip.columns * largest > max(BYTES, largest) or 4 * strip.width < LANES * strip.columns:
        return False
    return _needed(strip) <= REGISTERS


def _needed(strip: Strip) -> int:
    """About how many registers a lane needs; the assembler has the last word."""
    found, columns = strip.rolling, strip.columns
    storage = dict(found.kernel.fields)
    total, most = 24.0, 0
    for ring in found.rings.values():
        words = max(1, np.dtype(ring.machine).itemsize // 4)
        # The newest row is made from the others, and what is beside is fetched in its turn.
        total += words * (ring.count - 1) * columns
        most = max(most, words * (columns + ring.before + ring.after))
    for one in found.loaded:
        total += max(1, columns * storage[one.field].itemsize / 4)
    widest = max(len(level.body) for level in found.levels)
    # Operations of several columns are under way at once.
    return int(total + most + min(16, widest) + 2 * columns)


def _cost(strip: Strip) -> float:
    """Instructions of a warp for each column of the result."""
    found = strip.rolling
    work = sum(operation(assign.value) for level in found.levels for assign in level.body)
    beside = sum(ring.before + ring.after for ring in found.rings.values())
    waiting = max(1.0, _needed(strip) / EASY)
    return waiting * LANES * (strip.columns * work + beside + TURN) / strip.width
