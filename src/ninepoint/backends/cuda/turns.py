"""Turns: the text of one function of a kernel in strips.

const npt_index j = start + npt_index(threadIdx.x) * 4;         the lane's first column
float r0[3][6] = {};                                            a ring: rows of columns
for (npt_index i = i0 - 2; i < i1; i++) {
  npt_shift(r0);                                                the oldest row goes
  ...                                                           the newest is made
  npt_fetch<4, 1, 1>(r0[2]);                                    columns of other lanes
}

A strip is what a warp rolls down.  Its outer columns are made for what reads beside a result's:

32 lanes of 4 columns            4 | 120 | 4
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ...analysis.ranges import Interval
from ...language.ir import Kernel, Read
from ...lowering.chain import Absent, Constant, Edges
from ...lowering.kept import full
from .bodies import Array, Body, loaded, stored
from .borders import ABSENT, Rules, ends, finders, instead, left_out
from .functions import Function, field_arrays, out_arrays, plus
from .printing import C_TYPES, block, cast
from .rings import Loaded, Made, Rolling
from .source import LANES

# Warps of a block, which do strips beside each other: one for each scheduler of a processor.
WARPS = 4

# Which strips a function does: those near no end, those that are, or all.
Mode: TypeAlias = Literal["inside", "ends", "all"]


@dataclass(frozen=True, slots=True)
class Strip:
    """A kernel, what rolls down for it, and in how many columns a lane does it.

    `closed` is what rolls where rules are put between steps, and `inside` where none is.  Borders
    and ends have two axes: one row is the only row of its plane.
    """

    kernel: Kernel
    edges: Edges
    borders: tuple[Rules, ...]
    outs: tuple[np.dtype, ...]
    known: dict[str, Interval]
    closed: Rolling
    inside: Rolling
    columns: int

    @property
    def halo(self) -> tuple[int, int]:
        """The columns beside those of the result, a multiple of those of a lane."""
        both = (self.closed, self.inside)
        before = max(-(-one.before // self.columns) for one in both) * self.columns
        after = max(-(-one.after // self.columns) for one in both) * self.columns
        return before, after

    @property
    def width(self) -> int:
        """The columns of the result."""
        return LANES * self.columns - sum(self.halo)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The constants that a rule asks for."""
        rules = [{side for pair in one for side in pair} for one in self.borders]
        return tuple(one for one in self.edges.constants if one[2] in rules[one[0]])

    def fallback(self, axis: int) -> tuple[str, str]:
        """A rule for fields beyond whose ends nobody looks: where all else wraps they do too."""
        wraps = ("wrap", "wrap") in [rules[axis] for rules in self.borders]
        return ("wrap", "wrap") if wraps else ("nearest", "nearest")

    def left_out(self, absent: Absent, axis: int) -> tuple[int, int]:
        """How many points at both ends have other values than those inside."""
        return left_out(self.borders[absent.border], absent.reach)[axis]

    def zones(self, axis: int) -> tuple[int, int]:
        """The most of these of all states and results."""
        found = [edge.absent for edge in self.edges.arrays.values()]
        lost = [self.left_out(one, axis) for one in (*found, *self.edges.results) if one]
        low, high = zip((0, 0), *lost, strict=True)
        return max(low), max(high)

    def margins(self) -> tuple[int, int]:
        """How many rows must lie before and after those of a result that is near no end."""
        inside, warm = self.inside, self.inside.warm
        low, high = self.zones(0)
        rings = inside.rings
        loads = [warm - rings[one.name].newest for one in inside.loaded]
        least = [low - ring.low for ring in rings.values()]
        most = [high + ring.newest for ring in rings.values()]
        return max(0, low, *loads, *least), max(0, high, *most)


@dataclass
class StripFunction(Function):
    """One function; rows of a `wide` one are read and written in vectors."""

    strip: Strip
    mode: Mode
    wide: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self.found = self.strip.inside if self.mode == "inside" else self.strip.closed
        self.columns, self.last = self.strip.columns, self.kernel.ndim - 1
        self.fields = field_arrays(self.kernel)
        self.rings = self.found.rings
        self.registers = {name: f"r{k}" for k, name in enumerate(self.rings)}
        read = {one.field for one in self.found.loaded}
        for array in (*(a for n, a in self.fields.items() if n in read), *self.outs):
            self.use(array)

    @staticmethod
    def of(strip: Strip, name: str, mode: Mode, *, wide: bool) -> StripFunction:
        """A function of a strip."""
        outs = out_arrays(strip.outs)
        return StripFunction(
            strip.kernel, strip.known, strip.constants, name, outs, strip, mode, wide
        )

    def text(self, blocks: int = 0) -> list[str]:
        """The text, for registers of which there are enough for so many blocks."""
        first = plus("i0", -self.found.warm)
        made = [self._taken(one) for one in self.found.loaded]
        made += [self._made(level) for level in self.found.made]
        turn = [*self._begun(), *(line for level in made for line in level), *self._result()]
        body = [
            *self._place(),
            *self._kept(),
            *(line for one in self.found.loaded for line in self._load(one, first)),
            *self._unrolled(),
            *block(f"for (npt_index i = {first}; i < i1; i++) {{", turn),
        ]
        return self.lines(body, LANES * WARPS, blocks)

    def _unrolled(self) -> list[str]:
        """Several turns in one, after which each row is in its own registers again.

        A row that goes needs no copy then: of 8 steps of heat, in float32, a turn has 276
        instructions in the place of 350 (sm_90).
        """
        turns = min(3, max(ring.count for ring in self.rings.values()))
        # What loads at the ends as well is long enough.
        short = self.wide and self.mode == "inside"
        return [f"#pragma unroll {turns}"] if short and turns > 1 else []

    # Where the warp is.

    def _place(self) -> list[str]:
        """Which strip, which of its rows and which frame; and whether an end is near."""
        strip, (low, high) = self.strip, self.strip.zones(1)
        end = plus("start", LANES * strip.columns + high)
        lines = [
            "const auto [m, n, first, i0, i1, frame, none] = "
            f"npt_roll<{WARPS}, {strip.width}>(g);",
            "if (none) return;",
            f"const npt_index start = {plus('first', -strip.halo[0])};",
            f"const npt_index j = start + npt_index(threadIdx.x) * {strip.columns};",
            f"const bool inner = start >= {low} && {end} <= m;",
        ]
        if self.mode != "all":
            top, bottom = strip.margins()
            within = f"inner && i0 >= {top} && {plus('i1', bottom)} <= n"
            lines.append(
                f"if (!({within})) return;" if self.mode == "inside" else f"if ({within}) return;"
            )
        return [*lines, *self.frames("frame")]

    def _kept(self) -> list[str]:
        """The rings, and the rows of fields that are loaded for the next turn."""
        lines = []
        for name, ring in self.rings.items():
            size = ring.before + self.columns + ring.after
            rows = f"{self.registers[name]}[{ring.count}][{size}]"
            lines.append(f"{C_TYPES[ring.machine]} {rows} = {{}};")
        for one in self.found.loaded:
            kind = f"npt_chunk<{self.fields[one.field].stored}, {self.columns}>"
            lines.append(f"{kind} {self._next(one)} = {{}};")
        # Memory for a row that is given its ends.
        sizes = [
            np.dtype(self.rings[name].machine).itemsize
            for level in self.found.made
            for name, edge in zip(level.names, level.edges, strict=True)
            if edge is not None and edge.beyond is not None
        ]
        if sizes and self.mode == "ends":
            words = LANES * self.columns * -(-max(sizes) // 8)
            lines.append(f"__shared__ npt_uint64 held[{WARPS}][{words}];")
        return lines

    # A turn.

    def _begun(self) -> list[str]:
        """The oldest rows go; what lies beside the others is fetched."""
        lines = []
        for name, ring in self.rings.items():
            if ring.count > 1:
                lines.append(f"npt_shift({self.registers[name]});")
            if ring.fetched < 0:
                lines += self._fetched(name, ring.fetched)
        return lines

    def _fetched(self, name: str, row: int = 0) -> list[str]:
        """Columns beside those of a row, counted from the newest, if anybody reads them."""
        ring = self.rings[name]
        if not ring.before + ring.after:
            return []
        sides = f"{self.columns}, {ring.before}, {ring.after}"
        return [f"npt_fetch<{sides}>({self.registers[name]}[{ring.count - 1 + row}]);"]

    def _newest(self, name: str) -> str:
        """A column of the newest row of a ring."""
        ring = self.rings[name]
        return f"{self.registers[name]}[{ring.count - 1}][{plus('e', ring.before)}]"

    def _next(self, one: Loaded) -> str:
        return f"{self.registers[one.name]}_next"

    def _each(self, lines: Sequence[str]) -> list[str]:
        """Lines for each column of the lane."""
        return block(f"NPT_EACH(e, {self.columns}) {{", lines)

    def _taken(self, one: Loaded) -> list[str]:
        """A row of a field, which was loaded in the turn before."""
        ring, dtype = self.rings[one.name], self.fields[one.field].dtype
        value = loaded(ring.machine, dtype, f"{self._next(one)}.get(e)")
        lines = self._each([f"{self._newest(one.name)} = {value};"])
        lines += block("if (i + 1 < i1) {", self._load(one, "i + 1"))
        return lines if ring.fetched else [*lines, *self._fetched(one.name)]

    def _load(self, one: Loaded, turn: str) -> list[str]:
        """Load the row of a field that is taken in this turn."""
        array, target = self.fields[one.field], self._next(one)
        source, step = array.parameter, f"{array.parameter}_{self.last}"
        row = plus(turn, self.rings[one.name].newest)
        if self.mode == "inside":
            down = f"({row}) * {source}_0 + "
            if self.wide:
                return [f"{target} = npt_together<{self.columns}>({source} + ({down}j));"]
            place = f"{source} + ({down}j * {step}), {step}"
            return [f"{target} = npt_strided<{self.columns}>({place});"]
        rules = [self.strip.fallback(axis) for axis in range(2)]
        there, constant = "true", ""
        if one.beyond is not None:
            border, number = one.beyond
            rules = list(self.strip.borders[border])
            if any("constant" in pair for pair in rules):
                constant = f", {self.constant(self.strip.edges.constants[number])}"
        lines, place = [], source
        if self.last:
            lines.append(f"const npt_index row = npt_at<{finders(rules[0])}>({row}, n);")
            place = f"{source} + row * {source}_0"
            there = "row >= 0" if "constant" in rules[0] else there
        kind = f"{finders(rules[1])}, {'true' if self.wide else 'false'}"
        lines.append(f"npt_row<{kind}>({target}, {place}, {there}, j, 0, m, {step}{constant});")
        return block("{", lines)

    def _made(self, level: Made) -> list[str]:
        """A row of a stage, and what lies beyond its ends."""
        put = self.mode == "ends" and any(level.edges)
        newest = self.rings[level.names[0]].newest
        body = self._body(level, newest)
        values = [
            body.result(value, self.rings[name].machine)
            for name, value in zip(level.names, level.values, strict=True)
        ]
        inner = body.printed()
        stores, after = [], list[str]()
        for name, value, edge in zip(level.names, values, level.edges, strict=True):
            if put and edge is not None and edge.absent is not None:
                value = self._instead(edge.absent, newest, self.rings[name].machine, value)
            stores.append(f"{self._newest(name)} = {value};")
            if put and edge is not None and edge.beyond is not None:
                after += self._beyond(name, edge.beyond)
        if any("column" in store for store in stores):
            inner.append("const npt_index column = j + e;")
        lines = [f"const npt_index at = {plus('i', newest)};"] if put else []
        lines += [*self._each([*inner, *stores]), *after]
        for name in level.names:
            lines += [] if self.rings[name].fetched else self._fetched(name)
        return block("{", lines)

    def _instead(self, absent: Absent, row: int, machine: str, value: str) -> str:
        """The value of a stage, or what stands where the point is left out."""

        def convert(text: str, own: str) -> str:
            if own == machine:
                return text
            return cast(machine, text) if own else f"npt_as<{C_TYPES[machine]}>::from({text})"

        value = f"({value})" if " " in value else value
        return self._or_absent(absent, ("at", row), value, convert)

    def _or_absent(
        self, absent: Absent, at: tuple[str, int], value: str, convert: Callable[[str, str], str]
    ) -> str:
        """A value of the row `at` a place and so far from the turn's, or what its border has.

        `convert` gives a value of a machine type, or a constant of none, as one of this kind.
        """
        row, step = at

        def other(rule: str) -> str:
            if rule == "keep":
                before = absent.before
                return convert(self._read(before, step, 0, 0), self.rings[before].machine)
            return convert(self.constant(self.strip.edges.constants[absent.constant]), "")

        places = ((row, "n"), ("column", "m"))
        tests = ends(self.strip.borders[absent.border], absent.reach, places)
        return instead(tests, value, other)

    def _beyond(self, name: str, beyond: tuple[int, int]) -> list[str]:
        """Put beyond the ends of a ring's newest row, and of its rows, what the rule has there."""
        border, number = beyond
        ring, register = self.rings[name], self.registers[name]
        rows, sides = self.strip.borders[border]
        kind, value = C_TYPES[ring.machine], ""
        if "constant" in (*rows, *sides):
            constant = self.constant(self.strip.edges.constants[number])
            value = f", npt_as<{kind}>::from({constant})"
        lines = []
        if _is_put(sides):
            lines += [
                f"if (!inner) npt_columns<{finders(sides)}, {self.columns}, {ring.before}>(",
                f"    {register}[{ring.count - 1}], "
                f"reinterpret_cast<{kind} *>(held[threadIdx.y]), start, m{value});",
            ]
        if _is_put(rows):
            fetched = ring.count - 1 + ring.fetched
            numbers = f"{self.columns}, {ring.before}, {ring.after}, {fetched}"
            lines.append(f"npt_rows<{finders(rows)}, {numbers}>({register}, at, n{value});")
        return lines

    def _body(self, level: Made, row: int) -> Body:
        """The operations at a point of this row, relative to the result's."""

        def take(body: Body, name: str, read: Read) -> None:
            text = self._read(read.field, row, *full(read.offset))
            body.take(name, self.rings[read.field].machine, text)

        return self.computed(level.body, take)

    def _read(self, name: str, row: int, step: int, column: int) -> str:
        """An element of a ring, for a level that makes this row."""
        ring = self.rings[name]
        at = ring.count - 1 - (ring.newest - (row + step))
        return f"{self.registers[name]}[{at}][{plus('e', ring.before + column)}]"

    # The result.

    def _result(self) -> list[str]:
        level = self.found.result
        body = self._body(level, 0)
        values = [(body.machine(value), body.result(value)) for value in level.values]
        lines = [
            f"npt_chunk<{a.stored}, {self.columns}> p{k} = {{}};" for k, a in enumerate(self.outs)
        ]
        inner = body.printed()
        for k, (array, (machine, value)) in enumerate(zip(self.outs, values, strict=True)):
            inner.append(f"p{k}.put(e, {stored(array.dtype, machine, value)});")
        lines += [*self._each(inner), *self._stored(level)]
        return block("if (i >= i0) {" if self.found.warm else "{", lines)

    def _stored(self, level: Made) -> list[str]:
        """Write the row of each result, or what the rules of its border write near the ends."""
        whole: list[str] = []
        single: list[str] = []
        tests = ["inner"]
        for k, (array, edge) in enumerate(zip(self.outs, level.edges, strict=True)):
            name, down = array.parameter, f"i * {array.parameter}_0 + " * bool(self.last)
            step = f"{name}_{self.last}"
            if self.wide:
                whole.append(f"npt_together<{self.columns}>({name} + ({down}j), p{k});")
            else:
                place = f"{name} + ({down}j * {step}), {step}"
                whole.append(f"npt_strided<{self.columns}>({place}, p{k});")
            value = f"p{k}.get(e)"
            if edge is not None and edge.absent is not None:
                value = self._written(edge.absent, array, value)
                low, high = self.strip.left_out(edge.absent, 0)
                tests += [f"i >= {low}"] * bool(low) + [f"i < n - {high}"] * bool(high)
            single.append(f"{name}[{down}column * {step}] = {value};")
        lines = whole
        if self.mode != "inside":
            place = "const npt_index column = j + e;"
            each = [place, *block("if (column >= first && column < m) {", single)]
            test = " && ".join(dict.fromkeys(tests))
            lines = block(f"if ({test}) {{", whole) + block("else {", self._each(each))
        before, after = (one // self.columns for one in self.strip.halo)
        lanes = [f"threadIdx.x >= {before}"] * bool(before)
        lanes += [f"threadIdx.x < {LANES - after}"] * bool(after)
        return block(f"if ({' && '.join(lanes)}) {{", lines) if lanes else lines

    def _written(self, absent: Absent, array: Array, value: str) -> str:
        """A value of a result, or what its border writes in its place."""

        def convert(text: str, own: str) -> str:
            return f"({array.stored})({stored(array.dtype, own, text)})" if own else text

        return self._or_absent(absent, ("i", 0), value, convert)


def _is_put(rules: tuple[str, str]) -> bool:
    """Whether rules have something beyond; what "wrap" has there is computed as all else is."""
    return "wrap" not in rules and bool(set(rules) - set(ABSENT))
