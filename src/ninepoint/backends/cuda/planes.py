"""Planes: a block marches along the first of three axes, and reads each plane once.

    out = x[-1, 0, 0] + x[1, 0, 0]           for each plane i0 of the block's part:
        + x[0, -1, 0] + x[0, 1, 0]     ->        take plane i0 + 1 of x, loaded in the turn before
                                                 share plane i0, with what lies around the block
                                                 load plane i0 + 2, for the next turn
                                                 make 4 columns of out, of planes i0 - 1 .. i0 + 1

A thread keeps the planes of its own columns in registers.  What neighbours have it reads from
shared memory, of which there are two parts in turn, so that one barrier is enough.  A border's
rule says where a chunk comes from when it is loaded, and nothing else knows of it.

Along the first axis the number of blocks may be any: each does as many planes as are left for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...analysis.ranges import ranges
from ...language.ir import Read
from ...lowering.abreast import abreast
from ...lowering.machine import machine_type
from .functions import loaded, plus
from .making import Making, either, gathered, indented
from .marching import THREADS, March, march_of
from .operations import C_TYPES
from .shapes import Part
from .source import Launch

# Planes of a block; and below which it reads much that another reads too.
_PLANES, _LEAST, _WARM = 64, 16, 8

# Registers of a multiprocessor, those that addresses take besides, and blocks that are enough.
_FILE = 65536
_OTHERS = 44
_BLOCKS = 4

# Turns are written out, so that planes are renamed and not copied, where that is not long: so many
# elements are loaded one by one near an end, and so many operations.
_ELEMENTS, _LONG = 24, 300

# Parts of the shared memory, which take turns.
_PARTS = 2


def marched(part: Part) -> tuple[list[str], Launch] | None:
    """The functions of a launch, and how it is started; None where nothing is gained by planes."""
    march = march_of(part)
    return None if march is None else _written(part, march)


def _written(part: Part, march: March) -> tuple[list[str], Launch]:
    columns = march.columns
    low = (*part.low[:-1], part.low[-1] // columns * columns)
    known = ranges(abreast(replace(part.kernel, rows=march.rows), ".", columns))
    place = part, march.rows, columns, low
    widths: dict[str, int] = {}
    if columns > 1:
        read = (part.arrays[name] for name in march.own)
        widths = {a.name: a.dtype.itemsize * columns for a in (*part.targets, *read)}
    plain = f"{part.name}_plain" if widths else ""
    functions = [
        _Planes(march.kernel, known, part.border, name, *place, how, march)
        for name, how in ((part.name, "together" if widths else "apart"), (plain, "apart"))
        if name
    ]
    lines = [line for one in functions for line in one.text()]
    launch = Launch(
        part.name,
        tuple(array.name for array in functions[0].arrays),
        (THREADS[1], THREADS[0], 1),
        (_PLANES, *march.tile),
        low,
        part.high,
        tuple(widths.items()),
        plain,
        least=max(_LEAST, _WARM * march.warm),
    )
    return lines, launch


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk that a thread loads of each plane: its row and first column, mapped, and a test.

    Fields are mapped by the border's rule, a scratch array by its own ends.
    """

    row: str
    column: str
    whole: str


@dataclass
class _Planes(Making):
    """One function, which loads and stores several columns "together" or "apart"."""

    march: March

    def text(self) -> list[str]:
        """The text of the function."""
        march = self.march
        for name in march.own:
            self.use(self.part.arrays[name])
        turn = self._turn()
        for target in self.part.targets:
            self.use(target)
        body = [
            *self._position(),
            *self._declared(),
            *self._places(),
            *self._loaded("first" if not march.warm else f"first - {march.warm}"),
            *self._unrolled(),
            *indented(
                f"for (npt_index i0 = {plus('first', -march.warm)}; i0 < last; i0++) {{", turn
            ),
            "}",
        ]
        threads = math.prod(THREADS)
        registers = march.live + _OTHERS + 4 * len(self.arrays)
        blocks = max(1, min(_BLOCKS, _FILE // (threads * registers)))
        return self.lines(body, threads, blocks)

    def _unrolled(self) -> list[str]:
        march = self.march
        loads = len(march.own) * march.rows + len(march.shared) * self._around
        long = loads * march.columns > _ELEMENTS or len(march.kernel.body) > _LONG
        counts = [max(one.counts) for one in march.own.values()]
        turns = min(3, max(counts))
        return [] if long or turns < 2 or self.how == "apart" else [f"#pragma unroll {turns}"]

    # Where a thread is.

    def _position(self) -> list[str]:
        """The block's part: planes from `first` to `last`, columns from j1 and j2 on."""
        part, low, (rows, columns) = self.part, self.low, self.march.tile
        lines = [f"const npt_index n{a} = npt_index(g.length[{a}]);" for a in range(3)]
        lines.append("unsigned block = blockIdx.x;")
        for axis, size in ((2, columns), (1, rows)):
            more = part.high[axis] - low[axis] + size - 1
            at = f"npt_index(block % m{axis}) * {size}"
            lines += [
                f"const unsigned m{axis} = unsigned(({plus(f'n{axis}', more)}) / {size});",
                f"const npt_index j{axis} = {plus(at, low[axis])};",
                f"block /= m{axis};",
            ]
        count = plus("n0", part.high[0] - low[0])
        return [
            *lines,
            "const npt_index parts = npt_index(gridDim.x / (m1 * m2) / npt_frames(g));",
            f"const npt_index each = ({count} + parts - 1) / parts;",
            f"const npt_index first = {plus('npt_index(block) % parts * each', low[0])};",
            f"const npt_index end = {plus('n0', part.high[0])};",
            "const npt_index last = first + each < end ? first + each : end;",
            "block /= unsigned(parts);",
            "if (first >= last) return;",
            f"const npt_index i1 = j1 + npt_index(threadIdx.y) * {self.rows};",
            f"const npt_index i2 = j2 + npt_index(threadIdx.x) * {self.columns};",
            *self.frames("block"),
            f"const bool within = {self._within((1, 2), self._steps())};",
        ]

    def _steps(self) -> list[str]:
        if self.how == "together":
            return []
        return [f"{target.parameter}_2 == 1" for target in self.part.targets]

    def _within(self, axes: tuple[int, ...], tests: list[str]) -> str:
        """Whether all points of a thread are inside along some axes, and no rule is met."""
        part, tests = self.part, list(tests)
        size = (1, self.rows, self.columns)
        for axis in axes:
            reaches = [one for one in part.reaches if part.border.leaves_out(one)]
            least = max([part.low[axis], *(-one.lo[axis] for one in reaches)])
            most = max([-part.high[axis], *(one.hi[axis] for one in reaches)])
            if least > self.low[axis]:
                tests.append(f"i{axis} >= {least}")
            if axis or most > -part.high[axis]:
                tests.append(f"i{axis} < {plus(f'n{axis}', 1 - size[axis] - most)}")
        return " & ".join(f"({test})" for test in tests) or "true"

    # What a thread keeps.

    def _declared(self) -> list[str]:
        """Planes of its own columns and of those beside, what it made before, and what comes."""
        march, lines, columns = self.march, list[str](), self.columns
        for field, own in march.own.items():
            kind = f"npt_chunk<{self._stored_as(field)}, {columns}>"
            for row, count in enumerate(own.counts):
                if count:
                    name = self._own_row(field, row)
                    lines.append(f"{kind} {name}[{count}] = {{}}, {name}_next = {{}};")
        for field, ones in march.beside.items():
            for one in ones:
                kind = f"npt_chunk<{self._stored_as(field)}, {one.count}>"
                lines.append(f"{kind} {one.name}[{one.planes}] = {{}};")
        for number, (name, count) in enumerate(march.earlier.items()):
            lines.append(f"{C_TYPES[self._machine(name)]} e{number}[{count}] = {{}};")
        rows, width = march.room
        for field in march.shared:
            stored = self._stored_as(field)
            for k in range(self._around):
                lines.append(
                    f"npt_chunk<{stored}, {columns}> {self._around_name(field, k)} = {{}};"
                )
            lines.append(
                f"__shared__ __align__(16) {stored} {self._plane(field)}"
                f"[{_PARTS}][{rows * width}];"
            )
        if march.shared:
            lines.append("int turn = 0;")
        return lines

    def _machine(self, name: str) -> str:
        (value,) = (a.value for a in self.march.kernel.body if a.name == name)
        return machine_type(value.dtype, self.operations.known[name], self.operations.least)

    def _stored_as(self, field: str) -> str:
        return self.part.arrays[field].stored

    def _own_row(self, field: str, row: int) -> str:
        return f"x{list(self.march.own).index(field)}r{row}"

    def _around_name(self, field: str, k: int) -> str:
        return f"h{list(self.march.own).index(field)}c{k}"

    def _plane(self, field: str) -> str:
        return f"plane{list(self.march.own).index(field)}"

    @property
    def _around(self) -> int:
        """The chunks around the block that a thread loads."""
        return -(-self.march.around // math.prod(THREADS)) if self.march.shared else 0

    # Where its chunks come from.

    def _places(self) -> list[str]:
        """The chunks of each plane: those of its own rows, and those around the block."""
        lines: list[str] = []
        march, columns = self.march, self.columns
        for k in range(self._around):
            lines += self._around_lines(k)
        for kind in self._kinds():
            field = kind or next(name for name in march.own if name not in self.part.regions)
            for row in range(self.rows):
                lines += self._mapped(kind, field, f"q{row}", plus("i1", row), "i2")
            if march.shared and (kind in march.shared or not kind):
                for k in range(self._around):
                    lines += self._mapped(kind, field, f"w{k}", f"w{k}_row", f"w{k}_column")
        if march.shared:
            _, width = march.room
            at = f"(npt_index(threadIdx.y) * {self.rows} + {march.halo.above}) * {width}"
            column = plus(f"npt_index(threadIdx.x) * {columns}", march.halo.before * columns)
            lines.append(f"const int here = int({at} + {column});")
        return lines

    def _kinds(self) -> list[str]:
        """The arrays that are mapped in different ways: all fields in one, scratch by name."""
        read = list(self.march.own)
        fields = [""] * any(name not in self.part.regions for name in read)
        return [*fields, *(name for name in read if name in self.part.regions)]

    def _around_lines(self, k: int) -> list[str]:
        """The row and the column of a chunk around the block, and its place in shared memory.

        First those of whole rows above and below it, then those at both sides.
        """
        march, columns = self.march, self.columns
        halo, (rows, across), (_, width) = march.halo, march.tile, march.room
        chunks, sides = width // columns, halo.before + halo.after
        number = f"threadIdx.y * {THREADS[1]} + threadIdx.x"
        name, before = f"w{k}", (halo.above + halo.below) * chunks
        row, column = f"w{k}_r", f"w{k}_c"
        lines = [
            f"const int {name} = int({number}) + {k * math.prod(THREADS)};",
            f"int {row} = {name} / {chunks}, {column} = {name} % {chunks};",
            f"if ({row} >= {halo.above}) {row} += {rows};",
        ]
        if sides:
            lines += [
                f"if ({name} >= {before}) {{",
                f"  {row} = ({name} - {before}) / {sides} + {halo.above};",
                f"  {column} = ({name} - {before}) % {sides};",
                f"  if ({column} >= {halo.before}) {column} += {across // columns};",
                "}",
            ]
        return [
            *lines,
            f"const int {name}_to = {row} * {width} + {column} * {columns};",
            f"const npt_index {name}_row = j1 + {plus(row, -halo.above)};",
            f"const npt_index {name}_column = j2 + ({plus(column, -halo.before)}) * {columns};",
        ]

    def _mapped(self, kind: str, field: str, name: str, row: str, column: str) -> list[str]:
        """Where a chunk lies in its plane, and whether all its columns are there."""
        chunk = self._chunk(kind, name)
        low, high = self._region(field, 2)
        tests = [f"{column} >= {low}", f"{column} + {self.columns} <= {plus('n2', high)}"]
        if not kind and "constant" in self.part.border.rules[1]:
            tests.append(f"{chunk.row} >= 0")
        return [
            f"const npt_index {chunk.row} = {self._at(field, 1, row)};",
            f"const npt_index {chunk.column} = {column};",
            f"const bool {chunk.whole} = {' & '.join(f'({test})' for test in tests)};",
        ]

    def _chunk(self, kind: str, name: str) -> _Chunk:
        own = self.part.arrays[kind].parameter if kind else ""
        return _Chunk(f"{name}{own}_a1", f"{name}{own}_a2", f"{name}{own}_whole")

    def _loaded(self, turn: str) -> list[str]:
        """Load what is taken in a turn."""
        lines: list[str] = []
        for field, own in self.march.own.items():
            kind = field if field in self.part.regions else ""
            targets = [
                (f"{self._own_row(field, row)}_next", self._chunk(kind, f"q{row}"), "")
                for row, count in enumerate(own.counts)
                if count
            ]
            lines += self._plane_loaded(field, plus(turn, own.newest), targets)
            if field in self.march.shared:
                targets = []
                for k in range(self._around):
                    beyond = (k + 1) * math.prod(THREADS) > self.march.around
                    test = f"w{k} < {self.march.around}" if beyond else ""
                    targets.append((self._around_name(field, k), self._chunk(kind, f"w{k}"), test))
                lines += self._plane_loaded(field, plus(turn, self.march.shared[field]), targets)
        return lines

    def _plane_loaded(
        self, field: str, plane: str, targets: list[tuple[str, _Chunk, str]]
    ) -> list[str]:
        """Load chunks of a plane of a field."""
        array, rules = self.part.arrays[field], self.part.border.rules
        scratch = field in self.part.regions
        name, columns = array.parameter, self.columns
        absent = [not scratch and "constant" in rules[axis] for axis in range(3)]
        lines = ["{", f"  const npt_index a0 = {self._at(field, 0, plane)};"]
        first = "(a0 < 0 ? 0 : a0)" if absent[0] else "a0"
        lines.append(f"  const {array.stored} *const from = {name} + {first} * {name}_0;")
        for target, chunk, test in targets:
            place = f"from + ({chunk.row} * {name}_1 + {chunk.column}"
            if self.how == "together":
                whole = [f"{target} = npt_together<{columns}>({place}));"]
            else:
                whole = [
                    f"{target} = npt_strided<{columns}>({place} * {name}_2), {name}_2);",
                ]
            each = self._elements(field, target, chunk, absent)
            inside = f"{chunk.whole} & (a0 >= 0)" if absent[0] else chunk.whole
            found = either(inside, whole, each)
            found = [*indented(f"if ({test}) {{", found), "}"] if test else found
            lines += ["  " + line for line in found]
        return [*lines, "}"]

    def _elements(self, field: str, target: str, chunk: _Chunk, absent: list[bool]) -> list[str]:
        """Load a chunk element by element, wherever each comes from."""
        array = self.part.arrays[field]
        name = array.parameter
        outside = [
            place
            for place, missing in zip(("a0", chunk.row, "a2"), absent, strict=True)
            if missing
        ]
        text = f"from[{chunk.row} * {name}_1 + a2 * {name}_2]"
        if outside:
            constant = self.part.border.constant(array.dtype, "constant")
            text = f"({' | '.join(outside)}) < 0 ? {constant} : {text}"
        place = f"const npt_index a2 = {self._at(field, 2, f'{chunk.column} + k')};"
        return gathered(target, self.columns, [place], text)

    # A turn.

    def _turn(self) -> list[str]:
        march = self.march
        lines = [*self._taken(), *self._given()]
        lines += [*indented("if (i0 + 1 < last) {", self._loaded("i0 + 1")), "}"]
        lines += self._fetched()
        lines += self._body()
        lines += self._remembered()
        inner = self._within((0,), [])
        inside = "within" if inner == "true" else f"within & {inner}"
        stores = either(inside, self._stored(), self._placed())
        return [
            *lines,
            *([*indented("if (i0 >= first) {", stores), "}"] if march.warm else stores),
        ]

    def _taken(self) -> list[str]:
        """The newest plane of the own columns; the oldest goes."""
        lines: list[str] = []
        for field, own in self.march.own.items():
            for row, count in enumerate(own.counts):
                if count:
                    name = self._own_row(field, row)
                    lines += _pushed(name, count, f"{name}_next")
        return lines

    def _given(self) -> list[str]:
        """Share a plane with the threads beside."""
        march, lines, columns = self.march, list[str](), self.columns
        if not march.shared:
            return []
        _, width = march.room
        for field, ahead in march.shared.items():
            plane = f"{self._plane(field)}[turn]"
            own = march.own[field]
            for row in range(self.rows):
                value = f"{self._own_row(field, row)}[{own.newest - ahead}]"
                step = f"here + {row * width}" if row else "here"
                lines.append(f"npt_together<{columns}>({plane} + {step}, {value});")
            for k in range(self._around):
                beyond = (k + 1) * math.prod(THREADS) > march.around
                test = f"if (w{k} < {march.around}) " if beyond else ""
                value = self._around_name(field, k)
                lines.append(f"{test}npt_together<{columns}>({plane} + w{k}_to, {value});")
        return [*lines, "__syncthreads();"]

    def _fetched(self) -> list[str]:
        """Read what the threads beside have shared."""
        march, lines = self.march, list[str]()
        _, width = march.room
        for field, ones in march.beside.items():
            for one in ones:
                at = plus("here", one.row * width + one.first)
                value = f"npt_together<{one.count}>(&{self._plane(field)}[turn][{at}])"
                lines += _pushed(one.name, one.planes, value)
        return [*lines, "turn ^= 1;"] if march.shared else lines

    def _had(self, read: Read, own: str) -> str:
        march, field = self.march, read.field
        if field in march.earlier:
            return f"e{list(march.earlier).index(field)}[{-read.offset[0] - 1}]"
        plane, row, column = read.offset
        dtype = self.part.arrays[field].dtype
        if 0 <= row < self.rows and 0 <= column < self.columns:
            back = march.own[field].newest - plane
            text = f"{self._own_row(field, row)}[{back}].get({column})"
        else:
            (one,) = (
                one
                for one in march.beside[field]
                if one.row == row and one.first <= column < one.first + one.count
            )
            back = march.shared[field] - plane
            text = f"{one.name}[{back}].get({column - one.first})"
        return loaded(own, dtype, text)

    def _remembered(self) -> list[str]:
        """Keep what later turns read of this one."""
        lines: list[str] = []
        for number, (name, count) in enumerate(self.march.earlier.items()):
            lines += _pushed(f"e{number}", count, self.operations.names[name])
        return lines


def _pushed(name: str, count: int, value: str) -> Iterator[str]:
    """Put a value before others that are kept; the last of these goes."""
    for k in reversed(range(1, count)):
        yield f"{name}[{k}] = {name}[{k - 1}];"
    yield f"{name}[0] = {value};"
