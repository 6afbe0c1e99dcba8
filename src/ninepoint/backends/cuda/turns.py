"""Turns: the text of one function of a kernel in strips.

const npt_index j = start + npt_index(threadIdx.x) * 4;         the lane's first column
float r0[3][6] = {};                                            a ring: rows of columns
for (npt_index i = i0 - 2; i < i1; i++) {
  npt_shift(r0);                                                the oldest row goes
  ...                                                           the newest is made
  npt_fetch<4, 1, 1>(r0[2]);                                    columns of other lanes
}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ...language.ir import Element, Read
from ...lowering.chain import Absent
from ...lowering.kept import full
from .bodies import Body
from .borders import Border
from .elements import Array, loaded, stored
from .ends import beyond, instead, map_name
from .functions import Function, field_arrays, out_arrays, plus
from .printing import C_TYPES, cast, stored_type
from .rings import Loaded, Made, Rolling
from .strip import LANES, Strip, ring_type

# Warps of a block, which do strips beside each other: one for each scheduler of a processor.
WARPS = 4

# Which strips a function does: those near no end, those that are, or all.
Mode: TypeAlias = Literal["inside", "ends", "all"]


@dataclass(slots=True)
class StripFunction:
    """One function; rows of a `wide` one are read and written in vectors."""

    strip: Strip
    name: str
    mode: Mode
    wide: bool
    found: Rolling = field(init=False)
    function: Function = field(init=False)
    fields: dict[str, Array] = field(init=False)
    outs: list[Array] = field(init=False)
    rings: dict[str, str] = field(default_factory=dict, init=False)
    machines: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        strip, kernel = self.strip, self.strip.kernel
        self.found = strip.inside if self.mode == "inside" else strip.closed
        border = Border((), tuple(strip.constants))
        self.function = Function(kernel, strip.known, border, self.name)
        self.fields, self.outs = field_arrays(kernel), out_arrays(strip.outs)
        read = {one.field for one in self.found.loaded}
        for array in (*(a for n, a in self.fields.items() if n in read), *self.outs):
            self.function.use(array)
        for k, name in enumerate(self.found.rings):
            self.rings[name] = f"r{k}"
            self.machines[name] = ring_type(kernel, self.found, strip.known, name)

    @property
    def arrays(self) -> list[Array]:
        """What the function is given first."""
        return self.function.arrays

    def lines(self, blocks: int = 0) -> list[str]:
        """The text, for registers of which there are enough for so many blocks."""
        first = plus("i0", -self.found.warm)
        turn = [*self._begun(), *(line for level in self._levels() for line in level)]
        body = [
            *self._place(),
            *self._kept(),
            *(line for one in self.found.loaded for line in self._load(one, first)),
            *self._unrolled(),
            f"for (npt_index i = {first}; i < i1; i++) {{",
            *_indented(turn),
            "}",
        ]
        return self.function.lines(body, LANES * WARPS, blocks)

    def _unrolled(self) -> list[str]:
        """Several turns in one, after which each row is in its own registers again.

        A row that goes needs no copy then: of 8 steps of heat, in float32, a turn has 276
        instructions in the place of 350 (sm_90).
        """
        turns = min(3, max(ring.count for ring in self.found.rings.values()))
        # What loads at the ends as well is long enough.
        short = self.wide and self.mode == "inside"
        return [f"#pragma unroll {turns}"] if short and turns > 1 else []

    # Where the warp is.

    def _place(self) -> list[str]:
        """Which strip, which of its rows and which frame; and whether an end is near."""
        strip, ndim = self.strip, self.strip.kernel.ndim
        across = WARPS * strip.width
        lines = [
            f"const npt_index m = npt_index(g.length[{ndim - 1}]);",
            f"const npt_index n = {'npt_index(g.length[0])' if ndim > 1 else '1'};",
            f"const unsigned across = unsigned((m + {across - 1}) / {across});",
            "unsigned block = blockIdx.x;",
            f"const npt_index first = (npt_index(block % across) * {WARPS} + "
            f"npt_index(threadIdx.y)) * {strip.width};",
            "block /= across;",
        ]
        if ndim > 1:
            lines += [
                "const unsigned parts = gridDim.x / across / npt_frames(g);",
                "const npt_index rows = (n + npt_index(parts) - 1) / npt_index(parts);",
                "const npt_index i0 = npt_index(block % parts) * rows;",
                "const npt_index i1 = i0 + rows < n ? i0 + rows : n;",
                "block /= parts;",
            ]
        else:
            lines.append("const npt_index i0 = 0, i1 = 1;")
        lines += [
            "if (first >= m || i0 >= i1) return;",
            f"const npt_index start = {plus('first', -strip.halo[0])};",
            f"const npt_index j = start + npt_index(threadIdx.x) * {strip.columns};",
            *self._near(),
            *self.function.frames("block"),
        ]
        return lines

    def _near(self) -> list[str]:
        low, high = self.strip.zones(1)
        end = plus("start", LANES * self.strip.columns + high)
        lines = [f"const bool inner = start >= {low} && {end} <= m;"]
        if self.mode != "all":
            top, bottom = self.strip.margins()
            within = f"inner && i0 >= {top} && {plus('i1', bottom)} <= n"
            lines.append(
                f"if (!({within})) return;" if self.mode == "inside" else f"if ({within}) return;"
            )
        return lines

    def _kept(self) -> list[str]:
        """The rings, and the rows of fields that are loaded for the next turn."""
        columns, lines = self.strip.columns, list[str]()
        for name, ring in self.found.rings.items():
            size, kind = ring.before + columns + ring.after, C_TYPES[self.machines[name]]
            lines.append(f"{kind} {self.rings[name]}[{ring.count}][{size}] = {{}};")
        for one in self.found.loaded:
            lines.append(f"{self.fields[one.field].stored} {self._next(one)}[{columns}];")
        words = self._held() if self.mode == "ends" else 0
        if words:
            size = LANES * columns * words
            lines.append(f"__shared__ npt_uint64 held[{WARPS}][{size}];")
        return lines

    def _held(self) -> int:
        """Words of memory for an element of a row that is given its ends, or none."""
        sizes = [
            np.dtype(self.machines[name]).itemsize
            for level in self.found.made
            for name, edge in zip(level.names, level.edges, strict=bool(level.edges))
            if edge is not None and edge.beyond is not None
        ]
        return -(-max(sizes) // 8) if sizes else 0

    # A turn.

    def _begun(self) -> list[str]:
        """The oldest rows go; what lies beside the others is fetched."""
        lines = []
        for name, ring in self.found.rings.items():
            if ring.count > 1:
                lines.append(f"npt_shift({self.rings[name]});")
            if ring.fetched < 0:
                lines += self._fetched(name, ring.count - 1 + ring.fetched)
        return lines

    def _fetched(self, name: str, row: int) -> list[str]:
        """Columns beside those of a row, if anybody reads them."""
        ring = self.found.rings[name]
        if not ring.before + ring.after:
            return []
        sides = f"{self.strip.columns}, {ring.before}, {ring.after}"
        return [f"npt_fetch<{sides}>({self.rings[name]}[{row}]);"]

    def _levels(self) -> list[list[str]]:
        made = [self._taken(one) for one in self.found.loaded]
        made += [self._made(level) for level in self.found.made]
        return [*made, self._result()]

    def _next(self, one: Loaded) -> str:
        return f"{self.rings[one.name]}_next"

    def _taken(self, one: Loaded) -> list[str]:
        """A row of a field, which was loaded in the turn before."""
        ring, name = self.found.rings[one.name], self.rings[one.name]
        machine, dtype = self.machines[one.name], self.fields[one.field].dtype
        target = f"{name}[{ring.count - 1}][{plus('e', ring.before)}]"
        lines = [
            f"NPT_EACH(e, {self.strip.columns}) "
            f"{target} = {loaded(machine, dtype, f'{self._next(one)}[e]')};",
            "if (i + 1 < i1) {",
            *_indented(self._load(one, "i + 1")),
            "}",
        ]
        return lines if ring.fetched else [*lines, *self._fetched(one.name, ring.count - 1)]

    def _load(self, one: Loaded, turn: str) -> list[str]:
        """Load the row of a field that is taken in this turn."""
        strip, array = self.strip, self.fields[one.field]
        source, target, ndim = array.parameter, self._next(one), strip.kernel.ndim
        row = plus(turn, self.found.rings[one.name].newest)
        step = f"{source}_{ndim - 1}"
        columns, along = ("j", "") if self.wide else (f"j * {step}", f", {step}")
        if self.mode == "inside":
            place = f"({row}) * {source}_0 + {columns}"
            return [f"npt_load({target}, {source} + ({place}){along});"]
        rules = [
            strip.rule(one.beyond[0], axis) if one.beyond is not None else strip.fallback(axis)
            for axis in range(2)
        ]
        constant = strip.constant(one.beyond[1]) if one.beyond is not None else ""
        lines, place = ["{"], source
        if ndim > 1:
            lines.append(f"  const npt_index row = {map_name(rules[0])}::from({row}, n);")
            place = f"{source} + (row < 0 ? 0 : row) * {source}_0"
        last = f", {constant}" if "constant" in rules[1] else ""
        lines += [
            f"  const {array.stored} *const from = {place};",
            f"  if (inner) npt_load({target}, from + {columns}{along});",
            f"  else npt_load_ends<{map_name(rules[1])}>({target}, from, j, m, "
            f"{'1' if self.wide else step}{last});",
        ]
        if ndim > 1 and "constant" in rules[0]:
            each = f"NPT_EACH(e, {strip.columns}) {target}[e] = {constant};"
            lines.append(f"  if (row < 0) {{ {each} }}")
        return [*lines, "}"]

    def _made(self, level: Made) -> list[str]:
        """A row of a stage, and what lies beyond its ends."""
        rings, put = self.found.rings, self.mode == "ends"
        newest = rings[level.names[0]].newest
        lines = [f"const npt_index at = {plus('i', newest)};"] if put and level.edges else []
        absent = [edge.absent for edge in level.edges if edge is not None] if put else []
        lines.append(f"NPT_EACH(e, {self.strip.columns}) {{")
        body = self._body(level, newest)
        values = [
            body.result(value, self.machines[name])
            for name, value in zip(level.names, level.values, strict=True)
        ]
        lines += _indented(body.printed())
        stores: list[str] = []
        for k, (name, value) in enumerate(zip(level.names, values, strict=True)):
            ring, machine = rings[name], self.machines[name]
            if any(absent):
                value = self._instead(absent[k], newest, machine, value)
            target = f"{self.rings[name]}[{ring.count - 1}][{plus('e', ring.before)}]"
            stores.append(f"  {target} = {value};")
        if any("column" in store for store in stores):
            lines.append("  const npt_index column = j + e;")
        lines += [*stores, "}"]
        for name, edge in zip(level.names, level.edges, strict=bool(level.edges)):
            if put and edge is not None and edge.beyond is not None:
                lines += beyond(
                    self.strip, edge.beyond, rings[name], self.rings[name], self.machines[name]
                )
        for name in level.names:
            if not rings[name].fetched:
                lines += self._fetched(name, rings[name].count - 1)
        return ["{", *_indented(lines), "}"]

    def _instead(self, absent: Absent | None, row: int, machine: str, value: str) -> str:
        """The value of a stage, or what stands where the point is left out."""
        if absent is None:
            return value

        def kept(name: str) -> str:
            text = self._read(name, row, 0, 0)
            return text if self.machines[name] == machine else cast(machine, text)

        return instead(
            self.strip,
            absent,
            "at",
            f"({value})" if " " in value else value,
            lambda constant: f"npt_as<{C_TYPES[machine]}>::from({constant})",
            kept,
        )

    def _body(self, level: Made, row: int) -> Body:
        """The operations at a point of this row, relative to the result's."""
        body = self.function.body()
        for assign in level.body:
            expr, name = assign.value, assign.name
            match expr:
                case Read():
                    text = self._read(expr.field, row, *full(expr.offset))
                    body.take(name, self.machines[expr.field], text)
                case Element():
                    self.function.element(body, name, expr)
                case _:
                    body.assign(assign)
        return body

    def _read(self, name: str, row: int, step: int, column: int) -> str:
        """An element of a ring, for a level that makes this row."""
        ring = self.found.rings[name]
        at = ring.count - 1 - (ring.newest - (row + step))
        return f"{self.rings[name]}[{at}][{plus('e', ring.before + column)}]"

    # The result.

    def _result(self) -> list[str]:
        columns = self.strip.columns
        level = self.found.result
        body = self._body(level, 0)
        values = [(body.machine(value), body.result(value)) for value in level.values]
        lines = [f"{array.stored} p{k}[{columns}];" for k, array in enumerate(self.outs)]
        lines.append(f"NPT_EACH(e, {columns}) {{")
        lines += _indented(body.printed())
        for k, (array, (machine, value)) in enumerate(zip(self.outs, values, strict=True)):
            lines.append(f"  p{k}[e] = {stored(array.dtype, machine, value)};")
        lines.append("}")
        if self.mode != "inside":
            for k, edge in enumerate(level.edges):
                if edge is not None and edge.absent is not None:
                    lines += self._left_out(k, edge.absent)
        lines += self._stored()
        opening = "if (i >= i0) {" if self.found.warm else "{"
        return [opening, *_indented(lines), "}"]

    def _left_out(self, k: int, absent: Absent) -> list[str]:
        """What the rules of a result write near the ends."""
        dtype, own = self.outs[k].dtype, f"p{k}[e]"

        def kept(name: str) -> str:
            return stored(dtype, self.machines[name], self._read(name, 0, 0, 0))

        kind = stored_type(dtype)
        value = instead(self.strip, absent, "i", own, str, lambda name: f"({kind})({kept(name)})")
        if value == own:
            return []
        low, high = self.strip.left_out(absent, 0)
        place = ["    const npt_index column = j + e;"] if "column" in value else []
        near = (
            ["!inner"] * bool(place)
            + [f"i < {low}"] * bool(low)
            + [f"i >= n - {high}"] * bool(high)
        )
        return [
            f"if ({' || '.join(near)}) {{",
            f"  NPT_EACH(e, {self.strip.columns}) {{",
            *place,
            f"    {own} = {value};",
            "  }",
            "}",
        ]

    def _stored(self) -> list[str]:
        """Write the row of each result."""
        strip, ndim = self.strip, self.strip.kernel.ndim
        whole: list[str] = []
        single: list[str] = []
        for k, array in enumerate(self.outs):
            name, down = array.parameter, f"i * {array.parameter}_0 + " if ndim > 1 else ""
            step = f"{name}_{ndim - 1}"
            columns, along = ("j", "") if self.wide else (f"j * {step}", f", {step}")
            whole.append(f"npt_store({name} + ({down}{columns}), p{k}{along});")
            column = "(j + e)" if self.wide else f"(j + e) * {step}"
            single.append(f"if (j + e >= first && j + e < m) {name}[{down}{column}] = p{k}[e];")
        lines = whole
        if self.mode != "inside":
            each = [f"NPT_EACH(e, {strip.columns}) {{", *_indented(single), "}"]
            lines = ["if (inner) {", *_indented(whole), "} else {", *_indented(each), "}"]
        before, after = (one // strip.columns for one in strip.halo)
        tests = [f"threadIdx.x >= {before}"] * bool(before)
        tests += [f"threadIdx.x < {LANES - after}"] * bool(after)
        return [f"if ({' && '.join(tests)}) {{", *_indented(lines), "}"] if tests else lines


def _indented(lines: Sequence[str]) -> list[str]:
    return ["  " + line for line in lines]
