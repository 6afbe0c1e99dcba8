"""Patches: one thread makes several columns of several rows, and loads whole rows of them.

    out = x[0, -1] + x[0, 1]         x0 = 4 columns of x at (i, j), at once; x1 = x[i, j - 1], ...
                                ->   t4 = x1 + x0.get(1);  t6 = x0.get(0) + x0.get(2);  ...
                                     4 columns of out at (i, j), at once

What the points of a patch share is computed once, in registers.  What lies beside the own columns
is loaded by itself, which the first cache has.  Where all that a thread reads and writes is inside
the arrays, no position is mapped by the rule of a border; elsewhere each element is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...analysis.ranges import ranges
from ...language.dtypes import computed, short
from ...language.ir import Atom, Const, Offset, Read
from .bodies import Array, Body, loaded, stored
from .borders import ends, finders, instead, left_out
from .functions import Function, plus
from .shapes import Part, Shape, chunk_of, shape_of
from .source import Launch

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (1, 128), 2: (4, 32)}

# Registers that addresses take besides, also where every element has its own.
_OTHERS = 32
_POINTER = 4

# Registers of a multiprocessor, and threads that are enough for it.
_FILE = 65536
_TOGETHER = 1024


@dataclass
class Region(Function):
    """One function of a launch, each of whose threads makes a patch of the points of a part.

    `own` are the lengths of the patch along each core axis, and `threads` those of a block.
    """

    part: Part
    own: Offset
    threads: Offset

    @property
    def ndim(self) -> int:
        """How many core axes there are."""
        return self.kernel.ndim

    @property
    def tile(self) -> Offset:
        """The points of a block along each core axis."""
        return tuple(a * b for a, b in zip(self.own, self.threads, strict=True))

    @property
    def low(self) -> Offset:
        """The first points; columns begin where a load may."""
        low = self.part.low
        return (*low[:-1], low[-1] // self.own[-1] * self.own[-1])

    def head(self) -> list[str]:
        """The position of the first point, i0, i1, ...; the arrays begin with the frame."""
        told = (self.tile, self.own, self.low, self.part.high)
        numbers = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in told)
        patch = f"npt_patch<{self.ndim}>{{{numbers}}}"
        lines = [f"const npt_place<{self.ndim}> here = npt_start(g, {patch});"]
        lines.append("if (here.none) return;")
        for axis in range(self.ndim):
            one = f"i{axis} = here.at[{axis}], n{axis} = here.length[{axis}]"
            lines.append(f"const npt_index {one};")
        return lines + self.frames("here.frame")

    def launch(self, wide: tuple[tuple[str, int], ...] = (), plain: str = "") -> Launch:
        """How the function is started."""
        names = tuple(array.name for array in self.arrays)
        threads = (self.threads[-1], self.threads[-2] if self.ndim > 1 else 1, 1)
        return Launch(self.name, names, threads, self.tile, self.low, self.part.high, wide, plain)

    def here(self, array: Array) -> str:
        """The element at the point i0, i1, ...."""
        return array.at([f"i{axis}" for axis in range(self.ndim)])

    def put(self, position: int, value: str) -> str:
        """Write an output at the point i0, i1, ..., or what its border has there instead."""
        part, target = self.part, self.outs[position]

        def other(rule: str) -> str:
            if rule == "fill":
                return self.constant((0, target.dtype, "fill"))
            name, dtype = self.kernel.fields[position]
            source = self.here(self.use(part.arrays[name]))
            if dtype == target.dtype:
                return source
            machine = computed(dtype).name
            kept = stored(target.dtype, machine, loaded(machine, dtype, source))
            return f"({target.stored})({kept})"

        places = [(f"i{axis}", f"n{axis}") for axis in range(self.ndim)]
        tests = ends(part.rules, part.reaches[position], places) if part.reaches else []
        skipped = [test for test, rule in tests if rule == "valid"]
        written = [one for one in tests if one[1] != "valid"]
        line = f"{self.here(target)} = {instead(written, value, other)};"
        return f"if (!({' || '.join(skipped)})) {line}" if skipped else line


def patched(part: Part) -> tuple[list[str], Launch] | None:
    """The functions of a launch, and how it is started; None where points are as well alone.

    The first is for arrays whose rows can be loaded in vectors, the other for all.
    """
    shape = shape_of(part)
    if shape is None:
        return None
    widths = _widths(part, shape)
    function = _patch(part, shape, part.name, "together" if widths else "apart")
    lines = function.text()
    if not widths:
        return lines, function.launch()
    plain = f"{part.name}_plain"
    lines += _patch(part, shape, plain, "apart").text()
    return lines, function.launch(tuple(widths.items()), plain)


def _patch(part: Part, shape: Shape, name: str, how: str) -> _Patch:
    ndim = part.kernel.ndim
    known = ranges(shape.kernel)
    own, threads = (
        (1,) * (ndim - 2) + two[-ndim:]
        for two in ((shape.rows, shape.columns), _THREADS[min(ndim, 2)])
    )
    return _Patch(
        shape.kernel, known, part.constants, name, part.targets, part, own, threads, shape, how
    )


def _widths(part: Part, shape: Shape) -> dict[str, int]:
    """The arrays that are read or written in vectors, and of how many bytes."""
    counts = [(array, shape.columns) for array in part.targets]
    for (name, _), chunks in shape.chunks.items():
        counts += [(part.arrays[name], chunk.count) for chunk in chunks]
    if max(count for _, count in counts) == 1:
        return {}
    found: dict[str, int] = {}
    for array, count in counts:
        found[array.name] = max(array.dtype.itemsize * count, found.get(array.name, 1))
    return found


@dataclass
class _Patch(Region):
    """A function that loads and stores several columns "together" or "apart".

    The outputs of its kernel are those of the first point first, then those of the next in its
    row.
    """

    shape: Shape
    how: str

    def text(self) -> list[str]:
        """The text of the function."""
        for name, _ in self.shape.chunks:
            self.use(self.part.arrays[name])
        loads = either("inside", self._loaded(), self._mapped())
        body = self._body()
        stores = either("inside", self._stored(), self._placed())
        for target in self.outs:
            self.use(target)
        inside = ["const bool inside =", f"  {self._inside()};"]
        head = [*self.head(), *inside, *self._declared()]
        threads = int(np.prod(self.threads))
        registers = self.shape.live + _OTHERS + _POINTER * len(self.arrays)
        blocks = _FILE // (threads * registers)
        text = [*head, *loads, *body, *stores]
        return self.lines(text, threads, max(1, min(blocks, _TOGETHER // threads)))

    def _inside(self) -> str:
        """Whether everything that is read and written lies inside, and is as it should be."""
        part = self.part
        tests: list[str] = []
        for axis in range(self.ndim):
            low, high = self._bounds(axis)
            if low > self.low[axis]:
                tests.append(f"i{axis} >= {low}")
            if high > -part.high[axis] or self.own[axis] > 1:
                tests.append(f"i{axis} < {plus(f'n{axis}', -high)}")
        if self.how == "apart":
            tests += [f"{array.parameter}_{self.ndim - 1} == 1" for array in self.arrays]
        return " & ".join(f"({test})" for test in tests) or "true"

    def _bounds(self, axis: int) -> tuple[int, int]:
        """The least position that is inside, and how far from the length the last one is."""
        part, length = self.part, self.own[axis]
        lows = [part.low[axis]]
        highs = [length - 1 - part.high[axis]]
        for (field, lead), chunks in self.shape.chunks.items():
            low, high = self._region(field, axis)
            for chunk in chunks:
                first, count = chunk.first, chunk.count
                ends = (first, first + count - 1) if axis == self.ndim - 1 else (lead[axis],) * 2
                lows.append(low - ends[0])
                highs.append(ends[1] - high)
        for reach in part.reaches:
            if any(map(any, left_out(part.rules, reach))):
                lows.append(-reach.lo[axis])
                highs.append(length - 1 + reach.hi[axis])
        return max(lows), max(highs)

    # What is loaded.

    def _declared(self) -> list[str]:
        return [
            f"npt_chunk<{self.part.arrays[field].stored}, {chunk.count}> {chunk.name} = {{}};"
            for (field, _), chunks in self.shape.chunks.items()
            for chunk in chunks
        ]

    def _loaded(self) -> list[str]:
        """All chunks, where everything is inside."""
        lines: list[str] = []
        seen: set[str] = set()
        for (field, lead), chunks in self.shape.chunks.items():
            name = self.part.arrays[field].parameter
            if name not in seen:
                lines.append(self._own(name, "const auto"))
                seen.add(name)
            for chunk in chunks:
                step = self._away(name, lead, chunk.first)
                lines.append(f"{chunk.name} = npt_{self.how}<{chunk.count}>(p_{name}{step});")
        return lines

    def _mapped(self) -> list[str]:
        """All chunks, wherever each row comes from; one that crosses an end by its elements."""
        lines: list[str] = []
        last, rules = self.ndim - 1, self.part.rules
        for (name, lead), chunks in self.shape.chunks.items():
            array, ruled = self.part.arrays[name], name not in self.part.regions
            places = []
            lines.append("{")
            for axis, step in enumerate(lead):
                found = self._at(name, axis, plus(f"i{axis}", step))
                lines.append(f"  const npt_index a{axis} = {found};")
                places.append(f"a{axis} * {array.parameter}_{axis}")
            row = " + ".join([array.parameter, *places])
            absent = [f"a{axis}" for axis in range(last) if ruled and "constant" in rules[axis]]
            there = f"({' | '.join(absent)}) >= 0" if absent else "true"
            lines.append(f"  const {array.stored} *const row = {row};")
            pair = rules[last] if ruled else ("nearest", "nearest")
            kind = f"{finders(pair)}, {'true' if self.how == 'together' else 'false'}"
            low, high = self._region(name, last)
            ends = f"{low}, {plus(f'n{last}', high)}, {array.parameter}_{last}"
            if absent or "constant" in pair:
                ends = f"{ends}, {self.constant((0, array.dtype, 'constant'))}"
            for chunk in chunks:
                first = plus(f"i{last}", chunk.first)
                lines.append(f"  npt_row<{kind}>({chunk.name}, row, {there}, {first}, {ends});")
            lines.append("}")
        return lines

    # Where elements are.

    def _region(self, field: str, axis: int) -> tuple[int, int]:
        """How far beyond both ends of an axis a scratch array reaches; a field does not."""
        if field not in self.part.regions:
            return 0, 0
        low, high = self.part.regions[field]
        return low[axis], high[axis]

    def _at(self, field: str, axis: int, place: str) -> str:
        """A position of a field, or of a scratch array: one beyond its ends is mapped."""
        if field not in self.part.regions:
            return f"at{axis}({place}, n{axis})"
        low, high = self._region(field, axis)
        return f"npt_within({place}, {low}, {plus(f'n{axis}', high)})"

    # What is computed.

    def _body(self) -> list[str]:
        body = self.computed(self.kernel.body, self._take)
        results = self._results(body)
        return [*body.printed(), *results]

    def _take(self, body: Body, name: str, read: Read) -> None:
        """Give an element of a chunk its name in a body."""
        machine, chunk = body.declare(name, read), chunk_of(read, self.shape)
        text = f"{chunk.name}.get({read.offset[-1] - chunk.first})"
        body.take(name, machine, loaded(machine, self.part.arrays[read.field].dtype, text))

    def _results(self, body: Body) -> list[str]:
        """The rows of each output, as they are stored."""
        lines: list[str] = []
        columns, outs = self.shape.columns, self.outs
        for position, target in enumerate(outs):
            made = f"npt_chunk<{target.stored}, {columns}> y{position}"
            lines.append(f"{made}[{self.shape.rows}];")
            for row in range(self.shape.rows):
                first = row * columns * len(outs) + position
                outputs = self.kernel.outputs[first :: len(outs)][:columns]
                values = ", ".join(self._element(body, target, one) for one in outputs)
                lines.append(f"npt_fill(y{position}[{row}], {values});")
        return lines

    def _element(self, body: Body, target: Array, value: Atom) -> str:
        """A value as it is stored."""
        machine = body.machine(value)
        if isinstance(value, Const) and not short(target.dtype):
            machine = target.dtype.name
        return stored(target.dtype, machine, body.result(value, machine))

    # What is stored.

    def _stored(self) -> list[str]:
        lines: list[str] = []
        for position, target in enumerate(self.outs):
            name = target.parameter
            lines.append(self._own(name, f"{target.stored} *const"))
            for row in range(self.shape.rows):
                lead = (0,) * (self.ndim - 2) + ((row,) if self.ndim > 1 else ())
                step = self._away(name, lead, 0)
                vector = f"y{position}[{row}]"
                lines.append(f"npt_{self.how}<{self.shape.columns}>(p_{name}{step}, {vector});")
        return lines

    def _own(self, name: str, kind: str) -> str:
        """The pointer to the thread's first element of an array."""
        places = [f"i{axis} * {name}_{axis}" for axis in range(self.ndim - 1)]
        return f"{kind} p_{name} = {name} + ({' + '.join([*places, f'i{self.ndim - 1}'])});"

    def _away(self, name: str, lead: Offset, column: int) -> str:
        """How far from that an element is."""
        text = ""
        for axis, step in enumerate(lead):
            if step:
                length = "" if abs(step) == 1 else f" * {abs(step)}"
                text += f" {'+' if step > 0 else '-'} {name}_{axis}{length}"
        return plus(text, column) if text or column else ""

    def _placed(self) -> list[str]:
        """Element by element, where there is one, and by the rules at the ends of outputs.

        One after the other, so that what few threads do takes few registers of all.
        """
        part, last = self.part, self.ndim - 1
        tests = [f"i{last} < {plus(f'n{last}', part.high[last])}"]
        if self.low[last] < part.low[last]:
            tests.append(f"i{last} >= {part.low[last]}")
        rows = f"i{last - 1} < {plus(f'n{last - 1}', part.high[last - 1])}" if last else "true"
        above = [f"const npt_index i{last - 1} = j{last - 1} + r;"] if last else []
        first = [
            f"const npt_index j{axis} = i{axis};" for axis in range(max(0, last - 1), last + 1)
        ]
        numbers = range(len(self.outs))
        return [
            *first,
            "#pragma unroll",
            f"for (int r = 0; r < {self.shape.rows}; r++) {{",
            *("  " + line for line in above),
            *(f"  auto z{k} = y{k}[r];" for k in numbers),
            "  #pragma unroll 1",
            f"  for (int k = 0; k < {self.shape.columns}; k++) {{",
            f"    const npt_index i{last} = j{last} + k;",
            f"    if ({' && '.join([rows, *tests])}) {{",
            *(f"      {self.put(k, f'z{k}.get(0)')}" for k in numbers),
            "    }",
            *(f"    z{k}.push({{}});" for k in numbers),
            "  }",
            "}",
        ]


def indented(head: str, lines: Iterable[str]) -> list[str]:
    """Lines inside of a block that begins so."""
    return [head, *("  " + line for line in lines)]


def either(test: str, lines: Iterable[str], others: Iterable[str]) -> list[str]:
    """Some lines where this holds, and others elsewhere."""
    return [*indented(f"if ({test}) {{", lines), *indented("} else {", others), "}"]
