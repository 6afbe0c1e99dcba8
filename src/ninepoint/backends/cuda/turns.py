"""Turns: the text of one function of a kernel in strips.

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
from typing import Literal, TypeAlias

import numpy as np

from ...language.ir import Read
from ...lowering.chain import Absent
from ...lowering.kept import full
from ..numba.points import plus
from .bodies import Body, Function, field_arrays
from .memory import ABSENT, C_TYPES, Array, Rules, ends, finders, instead, loaded, stored
from .printing import block, either
from .rings import Loaded, Made, Rolling
from .source import LANES

# Warps of a block, which do strips beside each other: one for each scheduler of a processor.
WARPS = 4

# Which strips a function does: those near no end, those that are, or all.
Mode: TypeAlias = Literal["inside", "ends", "all"]


@dataclass(frozen=True, slots=True)
class Strip:
    """What rolls down, results of which types it gives, and in how many columns a lane does it."""

    rolling: Rolling
    outs: tuple[np.dtype, ...]
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
    """One function; near ends rows are not read and written in vectors."""

    strip: Strip
    mode: Mode

    def __post_init__(self) -> None:
        super().__post_init__()
        self.columns, self.last = self.strip.columns, self.ndim - 1
        self.fields = field_arrays(self.kernel)
        self.rings = self.rolling.rings
        self.registers = {name: f"r{k}" for k, name in enumerate(self.rings)}
        read = {one.field for one in self.rolling.loaded}
        for array in (*(a for n, a in self.fields.items() if n in read), *self.outs):
            self.use(array)

    @property
    def rolling(self) -> Rolling:
        """What rolls down."""
        return self.strip.rolling

    def text(self, blocks: int = 0, plain: str = "") -> list[str]:
        """The text, for registers of which there are enough for so many blocks."""
        first = plus("i0", -self.rolling.warm)
        made = [self._taken(one) for one in self.rolling.loaded]
        made += [self._made(level) for level in self.rolling.made]
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
        short = self.mode == "inside" and turns > 1
        return [f"#pragma unroll (wide ? {turns} : 1)"] if short else []

    # Where the warp is.

    def _place(self) -> list[str]:
        """Which strip, which of its rows and which frame; and whether an end is near."""
        strip, (low, high) = self.strip, self.rolling.zones(1)
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
            top, bottom = self.rolling.margins()
            within = f"inner && i0 >= {top} && {plus('i1', bottom)} <= n"
            lines.append(
                f"if (!({within})) return;" if self.mode == "inside" else f"if ({within}) return;"
            )
        return [*lines, *self.frames("frame")]

    def _kept(self) -> list[str]:
        """The rings, and the rows of fields that are loaded for the next turn."""
        lines = []
        for name, ring in self.rings.items():
            size = f"{ring.count}, {ring.before}, {self.columns}, {ring.after}"
            kind = f"npt_ring<{C_TYPES[ring.machine]}, {size}>"
            lines.append(f"{kind} {self.registers[name]} = {{}};")
        for one in self.rolling.loaded:
            kind = f"npt_chunk<{self.fields[one.field].stored}, {self.columns}>"
            lines.append(f"{kind} {self._next(one)} = {{}};")
        # Memory for a row that is given its ends.
        sizes = [
            np.dtype(self.rings[name].machine).itemsize
            for level in self.rolling.made
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
            lines.append(f"{self.registers[name]}.shift();")
            if ring.fetched < 0:
                lines.append(f"{self.registers[name]}.fetch({ring.fetched});")
        return lines

    def _newest(self, name: str) -> list[str]:
        """What lies beside the newest row of a ring is fetched, if anybody reads it there."""
        return [] if self.rings[name].fetched else [f"{self.registers[name]}.fetch(0);"]

    def _next(self, one: Loaded) -> str:
        return f"{self.registers[one.name]}_next"

    def _each(self, lines: Sequence[str]) -> list[str]:
        """Lines for each column of the lane."""
        return block(f"NPT_EACH(e, {self.columns}) {{", lines)

    def _taken(self, one: Loaded) -> list[str]:
        """A row of a field, which was loaded in the turn before."""
        ring, dtype = self.rings[one.name], self.fields[one.field].dtype
        value = loaded(ring.machine, dtype, f"{self._next(one)}.get(e)")
        lines = self._each([f"{self.registers[one.name]}.at(0, e) = {value};"])
        lines += block("if (i + 1 < i1) {", self._load(one, "i + 1"))
        return [*lines, *self._newest(one.name)]

    def _load(self, one: Loaded, turn: str) -> list[str]:
        """Load the row of a field that is taken in this turn."""
        array, target = self.fields[one.field], self._next(one)
        row = plus(turn, self.rings[one.name].newest)
        if self.mode == "inside":
            return [f"{target} = {self._whole(array, row)};"]
        rules: Rules = tuple(map(self.rolling.fallback, range(2)))
        constant = ""
        if one.beyond is not None:
            border, number = one.beyond
            rules = self.rolling.borders[border]
            if any("constant" in pair for pair in rules):
                constant = f", {self.constant(self.rolling.edges.constants[number])}"
        places = [f"npt_at<{finders(rules[0])}>({row}, n)"] * self.last
        lines, there = array.row(places, rules)
        kind = f"{finders(rules[1])}, wide"
        step = f"{array.parameter}_{self.last}"
        lines.append(f"npt_row<{kind}>({target}, row, {there}, j, 0, m, {step}{constant});")
        return block("{", lines)

    def _whole(self, array: Array, row: str, *chunk: str) -> str:
        """Load the lane's columns of a row, or store them."""
        name, step = array.parameter, f"{array.parameter}_{self.last}"
        down, how = f"({row}) * {name}_0 + " * self.last, "store" if chunk else "load"
        told = [f"{name} + ({down}(wide ? j : j * {step}))", step, *chunk]
        return f"npt_{how}<wide, {self.columns}>({', '.join(told)})"

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
                kind = C_TYPES[self.rings[name].machine]
                value = self._instead(edge.absent, ("at", newest), value, kind)
            stores.append(f"{self.registers[name]}.at(0, e) = {value};")
            if put and edge is not None and edge.beyond is not None:
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
        ring, register = self.rings[name], self.registers[name]
        rows, sides = self.rolling.borders[border]
        kind, value = C_TYPES[ring.machine], ""
        if "constant" in (*rows, *sides):
            constant = self.constant(self.rolling.edges.constants[number])
            value = f", npt_as<{kind}>::from({constant})"
        lines = []
        if _is_put(sides):
            told = f"held[threadIdx.y], start, m{value}"
            lines.append(f"if (!inner) {register}.columns<{finders(sides)}>({told});")
        if _is_put(rows):
            lines.append(f"{register}.beyond<{finders(rows)}, {ring.fetched}>(at, n{value});")
        return lines

    def _body(self, level: Made, row: int) -> Body:
        """The operations at a point of this row, relative to the result's."""

        def take(body: Body, name: str, read: Read) -> None:
            text = self._read(read.field, row, *full(read.offset))
            body.take(name, self.rings[read.field].machine, text)

        body = self.body()
        self.write(body, level.body, take)
        return body

    def _read(self, name: str, row: int, step: int, column: int) -> str:
        """An element of a ring, for a level that makes this row."""
        ring = self.rings[name]
        return f"{self.registers[name]}.at({row + step - ring.newest}, {plus('e', column)})"

    # The result.

    def _result(self) -> list[str]:
        level = self.rolling.result
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
        tests = ["inner"]
        for k, (array, edge) in enumerate(zip(self.outs, level.edges, strict=True)):
            whole.append(self._whole(array, "i", f"p{k}") + ";")
            value = f"p{k}.get(e)"
            if edge is not None and edge.absent is not None:
                value = self._instead(edge.absent, ("i", 0), value, array.stored)
                low, high = self.rolling.left_out(edge.absent, 0)
                tests += [f"i >= {low}"] * bool(low) + [f"i < n - {high}"] * bool(high)
            element = array.at(["i", "column"][-self.ndim :])
            single.append(f"{element} = {value};")
        lines = whole
        if self.mode != "inside":
            place = "const npt_index column = j + e;"
            each = [place, *block("if (column >= first && column < m) {", single)]
            test = " && ".join(dict.fromkeys(tests))
            lines = either(test, whole, self._each(each))
        before, after = (one // self.columns for one in self.strip.halo)
        lanes = [f"threadIdx.x >= {before}"] * bool(before)
        lanes += [f"threadIdx.x < {LANES - after}"] * bool(after)
        return block(f"if ({' && '.join(lanes)}) {{", lines) if lanes else lines


def _is_put(rules: tuple[str, str]) -> bool:
    """Whether rules have something beyond; what "wrap" has there is computed as all else is."""
    return "wrap" not in rules and bool(set(rules) - set(ABSENT))
