"""Points: threads make the points of each stage, and then those of the results, from memory.

    v = x[0, 1] - x[0, -1]               __global__ void npt_f_1(f0, v0, ...)   v over its region
    out = v[-1, 0] + v[1, 0]     ->      __global__ void npt_f(v0, o0, ...)     the result

Any kernel can be done so.  A stage is an array between two launches, over all points at which it
is needed; beyond the ends of the fields it is computed there, as the border says they go on.

A thread makes a patch of several columns of several rows where that is less work, and loads whole
rows of them:

    out = x[0, -1] + x[0, 1]         x0 = 4 columns of x at (i, j), at once; x1 = x[i, j - 1], ...
                                ->   t4 = x1 + x0.get(1);  t6 = x0.get(0) + x0.get(2);  ...
                                     4 columns of out at (i, j), at once

What the points of a patch share is computed once, in registers.  What lies beside the own columns
is loaded by itself, which the first cache has.  Where all that a thread reads and writes is inside
the arrays, no position is mapped by the rule of a border; elsewhere each element is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, groupby
from operator import attrgetter

import numpy as np

from ...analysis.ranges import Interval, ranges
from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import Element, Histogram, Kernel, Offset, Read, Stage, Values
from ...lowering.kept import needed
from ...lowering.machine import machine_type
from ..numba.control import Control
from ..numba.window_loops import over
from .bodies import Body
from .borders import Rules, constants_of, ends, finders, instead, left_out, maps
from .functions import Function, field_arrays, out_arrays, plus
from .memory import Array, loaded, stored
from .printing import block
from .shapes import Chunk, Part, Shape, padded, shape_of
from .source import Launch, Scratch, Source
from .windows import Ranks, Windows

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (128,), 2: (4, 32)}

# Registers that addresses take besides, also where every element has its own.
_OTHERS = 32
_POINTER = 4

# Registers of a multiprocessor, and threads that are enough for it.
_FILE = 65536
_TOGETHER = 1024


def points(
    kernel: Kernel,
    name: str,
    reaches: Sequence[Box],
    outs: Sequence[np.dtype],
    rules: Rules,
) -> Source:
    """The text of a kernel whose outputs are in their storage types, and its launches.

    Its functions are called after `name`.
    """
    known, need = ranges(kernel), needed(kernel)
    constants = constants_of(rules, [dtype for _, dtype in kernel.fields], outs)
    arrays, scratch = field_arrays(kernel), list[Scratch]()
    lines, launches = maps(rules), list[Launch]()

    def add(part: Part) -> None:
        text, launch = _launched(part, known)
        lines.extend(text)
        launches.append(launch)

    for position, stage in enumerate(kernel.stages):
        if stage.names[0] not in need:
            continue
        low, high = (corner[-kernel.ndim :] for corner in need[stage.names[0]])
        one = replace(
            kernel, stages=kernel.stages[:position], body=stage.body, outputs=stage.values
        )
        made: dict[str, Array] = {}
        for k, value in enumerate(stage.names):
            number, dtype = len(scratch), _kept(stage, k, known)
            made[value] = Array(f"scratch{number}", f"v{number}", dtype, padded(low, high, dtype))
            scratch.append(Scratch(made[value].name, dtype, *padded(low, high, dtype)))
        called, targets = f"{name}_{len(launches) + 1}", tuple(made.values())
        add(Part(one, called, low, high, targets, arrays, rules, constants, (), stage))
        arrays = arrays | made
    nothing, results = (0,) * kernel.ndim, tuple(out_arrays(outs))
    add(Part(kernel, name, nothing, nothing, results, arrays, rules, constants, tuple(reaches)))
    return Source("\n".join([*lines, ""]), tuple(launches), tuple(scratch), constants)


def _kept(stage: Stage, k: int, known: Mapping[str, Interval]) -> np.dtype:
    """What a stage is stored as: the narrowest type that holds it."""
    # Steps in a chain are not points by themselves, and no sum runs down the rows.
    assert isinstance(stage, Values | Histogram)
    return np.dtype(machine_type(stage.values[k].dtype, known[stage.names[k]]))


def _launched(part: Part, known: Mapping[str, Interval]) -> tuple[list[str], Launch]:
    """The functions of a launch, and how it is started.

    The first is for arrays whose rows can be loaded in vectors, the other for all.
    """
    shape = shape_of(part)
    if shape.several:
        known = ranges(shape.kernel)
    widths: dict[str, int] = {}
    counts = [(array, shape.columns) for array in part.targets]
    counts += [(part.arrays[one.field], one.count) for one in shape.chunks]
    if max(count for _, count in counts) > 1:
        for array, count in counts:
            size = array.dtype.itemsize * count
            widths[array.name] = max(size, widths.get(array.name, 1))

    def written(name: str, how: str) -> tuple[list[str], Launch]:
        function = _Patch(
            shape.kernel, known, part.constants, name, part.targets, part, shape, how
        )
        return function.text(), function.launch()

    lines, launch = written(part.name, "together" if widths else "apart")
    if not widths:
        return lines, launch
    plain = f"{part.name}_plain"
    lines += written(plain, "apart")[0]
    return lines, replace(launch, wide=tuple(widths.items()), plain=plain)


@dataclass
class _Patch(Function):
    """A function each of whose threads makes a patch, with columns "together" or "apart".

    The outputs of its kernel are those of the first point first, then those of the next in its
    row.
    """

    part: Part
    shape: Shape
    how: str
    # Positions that are mapped into the fields once for all reads, by axis and step.
    _found: dict[tuple[int, int], str] = field(default_factory=dict, init=False)

    @property
    def own(self) -> Offset:
        """The lengths of a patch along each core axis."""
        return ((1,) * (self.ndim - 2) + (self.shape.rows, self.shape.columns))[-self.ndim :]

    @property
    def threads(self) -> Offset:
        """The threads of a block along each core axis."""
        two = _THREADS[min(self.ndim, 2)]
        return ((1,) * self.ndim + two)[-self.ndim :]

    @property
    def tile(self) -> Offset:
        """The points of a block along each core axis."""
        return tuple(a * b for a, b in zip(self.own, self.threads, strict=True))

    @property
    def low(self) -> Offset:
        """The first points; columns begin where a load may."""
        low = self.part.low
        return (*low[:-1], low[-1] // self.own[-1] * self.own[-1])

    def launch(self) -> Launch:
        """How the function is started."""
        names = tuple(array.name for array in self.arrays)
        threads = (self.threads[-1], self.threads[-2] if self.ndim > 1 else 1, 1)
        return Launch(self.name, names, threads, self.tile, self.low, self.part.high)

    def text(self) -> list[str]:
        """The text of the function."""
        for chunk in self.shape.chunks:
            self.use(self.part.arrays[chunk.field])
        loads = _either(self._loaded(), self._mapped()) if self.shape.several else []
        body, results = self._computed()
        computed_lines = body.printed()
        found = [text for _, text in sorted(self._found.items())]
        if self.shape.several:
            stores = [*self._results(results), *_either(self._stored(), self._placed())]
        else:
            stores = [self._put(k, value) for k, value in enumerate(results)]
        for target in self.outs:
            self.use(target)
        head = self._head()
        if self.shape.several:
            head += ["const bool inside =", f"  {self._inside()};", *self._declared()]
        threads = int(np.prod(self.threads))
        blocks = 0
        if self.shape.several:
            registers = self.shape.live + _OTHERS + _POINTER * len(self.arrays)
            blocks = max(1, min(_FILE // (threads * registers), _TOGETHER // threads))
        return self.lines([*head, *loads, *found, *computed_lines, *stores], threads, blocks)

    def _head(self) -> list[str]:
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
        lows, highs = [part.low[axis]], [length - 1 - part.high[axis]]
        for one in self.shape.chunks:
            low, high = (end[axis] for end in self._region(one.field))
            at = one.lead[axis] if axis < self.ndim - 1 else one.first
            more = 0 if axis < self.ndim - 1 else one.count - 1
            lows.append(low - at)
            highs.append(at + more - high)
        for reach in part.reaches:
            if any(map(any, left_out(part.rules, reach))):
                lows.append(-reach.lo[axis])
                highs.append(length - 1 + reach.hi[axis])
        return max(lows), max(highs)

    def _region(self, field: str) -> tuple[Offset, Offset]:
        """How far beyond both ends of each axis an array reaches; a field does not."""
        nothing = (0,) * self.ndim
        return self.part.arrays[field].region or (nothing, nothing)

    # What is loaded.

    def _declared(self) -> list[str]:
        return [
            f"npt_chunk<{self.part.arrays[one.field].stored}, {one.count}> {one.name} = {{}};"
            for one in self.shape.chunks
        ]

    def _loaded(self) -> list[str]:
        """All chunks, where everything is inside."""
        arrays = dict.fromkeys(self.part.arrays[one.field].parameter for one in self.shape.chunks)
        lines = [self._own(name, "const auto") for name in arrays]
        for one in self.shape.chunks:
            name = self.part.arrays[one.field].parameter
            step = self._away(name, one.lead, one.first)
            lines.append(f"{one.name} = npt_{self.how}<{one.count}>(p_{name}{step});")
        return lines

    def _mapped(self) -> list[str]:
        """All chunks, wherever each row comes from; one that crosses an end by its elements."""
        lines: list[str] = []
        for (name, lead), chunks in groupby(self.shape.chunks, attrgetter("field", "lead")):
            lines += block("{", self._mapped_row(name, lead, chunks))
        return lines

    def _mapped_row(self, field: str, lead: Offset, chunks: Iterable[Chunk]) -> list[str]:
        array, last = self.part.arrays[field], self.ndim - 1
        rules = self.part.rules if array.region is None else (("nearest", "nearest"),) * self.ndim
        low, high = self._region(field)
        places = []
        for axis, step in enumerate(lead):
            place, n = plus(f"i{axis}", step), f"n{axis}"
            inside = f"npt_within({place}, {low[axis]}, {plus(n, high[axis])})"
            places.append(f"at{axis}({place}, {n})" if array.region is None else inside)
        lines, there = array.row(places, rules)
        kind = f"{finders(rules[last])}, {'true' if self.how == 'together' else 'false'}"
        told = f"{low[last]}, {plus(f'n{last}', high[last])}, {array.parameter}_{last}"
        if any("constant" in pair for pair in rules):
            told = f"{told}, {self.constant((0, array.dtype, 'constant'))}"
        for one in chunks:
            first = plus(f"i{last}", one.first)
            lines.append(f"npt_row<{kind}>({one.name}, row, {there}, {first}, {told});")
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

    # What is computed.

    def _computed(self) -> tuple[Body, list[str]]:
        """What is computed, and each output of it, as it is stored."""
        text = self.body()
        if isinstance(self.part.stage, Histogram):
            made = self._histogram(text, self.part.stage)
        else:
            self._operations(text)
            made = [(text.machine(one), text.result(one)) for one in self.kernel.outputs]
        pairs = zip(made, cycle(self.outs), strict=False)
        return text, [stored(out.dtype, machine, value) for (machine, value), out in pairs]

    def _operations(self, text: Body) -> None:
        """Write the operations of the kernel."""
        storage = {name: one.dtype for name, one in self.part.arrays.items()}
        storage |= {name: dtype for name, dtype, _ in self.kernel.coefficients}
        nowhere = Box((0,) * self.ndim, (0,) * self.ndim)
        arrays = {
            name: text.memory(self.coefficients(name), len(shape))
            for name, _, shape in self.kernel.coefficients
        }
        reader = partial(self._read, text)
        windows = Windows(text, storage, arrays, nowhere, reader=reader)
        control = Control(windows, {}, [])
        for assign in self.kernel.body:
            match assign.value:
                case Read() as read:
                    self._take(text, assign.name, read)
                case Element() as element:
                    self.element(text, assign.name, element)
                case expr:
                    text.lines += control.lines(assign.name, expr)
        text.constants += windows.constants

    def _take(self, text: Body, name: str, read: Read) -> None:
        """Give an element its name: that of a chunk, or one that is read where it is."""
        machine, dtype = text.declare(name, read), self.part.arrays[read.field].dtype
        for chunk in self.shape.chunks:
            place = chunk.place(read)
            if place is not None:
                text.take(name, machine, loaded(machine, dtype, f"{chunk.name}.get({place})"))
                return
        text.types[name] = computed(dtype).name
        before, element = self._read(text, read.field, read.offset, {})
        text.lines += [*before, f"{name} = {element}"]

    def _read(
        self, text: Body, field: str, offset: Sequence[int], along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        """An element of a field, moved along axes, and the lines that come before it."""
        array, part = self.use(self.part.arrays[field]), self.part
        lines: list[str] = []
        places: list[str] = []
        absent: list[str] = []
        for axis, step in enumerate(offset):
            place = plus(text.index(f"i{axis}"), step)
            if axis in along:
                place = f"{place} + {along[axis]}"
            inside = part.low[axis] + step >= 0 >= part.high[axis] + step and axis not in along
            if array.region is None and not inside:
                found = f"at{axis}({place}, {text.index(f'n{axis}')})"
                if axis in along:
                    place = text.new("place")
                    lines.append(f"{place} = {found}")
                else:
                    place = text.index(f"a{axis}{'m' if step < 0 else 'p'}{abs(step)}")
                    self._found[axis, step] = f"const npt_index {place} = {found};"
                absent += [place] * ("constant" in part.rules[axis])
            places.append(place)
        element = f"{text.memory(array, len(places))}[{', '.join(places)}]"
        if absent:
            name = text.constant(self.constant((0, array.dtype, "constant")), array.dtype)
            element = f"({name} if ({' | '.join(absent)}) < 0 else {element})"
        return lines, element

    def _histogram(self, text: Body, stage: Histogram) -> list[tuple[str, str]]:
        """The elements of some rank, each point for itself."""
        read, last = stage.read, self.ndim - 1
        flat = last == 0 or (stage.shape[0] == 1 and not stage.runs)
        steps = len(stage.lines[0]) - 2
        along = {last: "d1"} if flat else {last - steps + k: f"d{k}" for k in range(steps + 1)}
        before, place = self._read(text, read.field, read.offset, along)
        machine = computed(self.part.arrays[read.field].dtype).name
        element, item = text.new("element"), text.known[stage.element.name]

        def loops(lines: Sequence[str]) -> list[str]:
            return _over(stage, [*before, f"{element} = {place}", *lines])

        ranks = Ranks(text, machine, element, item)
        lines, found = ranks.of_numbers(loops, stage.rank, len(stage.names))
        text.lines += lines
        return [(machine, text.kept(one, machine)) for one in found]

    # What is stored.

    def _results(self, values: Sequence[str]) -> list[str]:
        """The rows of each output."""
        lines: list[str] = []
        columns, outs = self.shape.columns, len(self.outs)
        for k, target in enumerate(self.outs):
            lines.append(f"npt_chunk<{target.stored}, {columns}> y{k}[{self.shape.rows}];")
            for row in range(self.shape.rows):
                first = row * columns * outs + k
                some = values[first : first + columns * outs : outs]
                lines.append(f"npt_fill(y{k}[{row}], {', '.join(some)});")
        return lines

    def _stored(self) -> list[str]:
        """All rows at once."""
        lines: list[str] = []
        for k, target in enumerate(self.outs):
            name = target.parameter
            lines.append(self._own(name, f"{target.stored} *const"))
            for row in range(self.shape.rows):
                lead = (0,) * (self.ndim - 2) + ((row,) if self.ndim > 1 else ())
                place = f"p_{name}{self._away(name, lead, 0)}"
                lines.append(f"npt_{self.how}<{self.shape.columns}>({place}, y{k}[{row}]);")
        return lines

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
        numbers = range(len(self.outs))
        column = block(
            f"for (int k = 0; k < {self.shape.columns}; k++) {{",
            [
                f"const npt_index i{last} = j{last} + k;",
                *block(
                    f"if ({' && '.join([rows, *tests])}) {{",
                    [self._put(k, f"z{k}.get(0)") for k in numbers],
                ),
                *(f"z{k}.push({{}});" for k in numbers),
            ],
        )
        row = [*above, *(f"auto z{k} = y{k}[r];" for k in numbers), "#pragma unroll 1", *column]
        return [
            *(f"const npt_index j{axis} = i{axis};" for axis in range(max(0, last - 1), last + 1)),
            "#pragma unroll",
            *block(f"for (int r = 0; r < {self.shape.rows}; r++) {{", row),
        ]

    def _put(self, position: int, value: str) -> str:
        """Write an output at the point i0, i1, ..., or what its border has there instead."""
        part, target = self.part, self.outs[position]
        here = [f"i{axis}" for axis in range(self.ndim)]

        def other(rule: str) -> str:
            if rule == "fill":
                return self.constant((0, target.dtype, "fill"))
            name, dtype = self.kernel.fields[position]
            source = self.use(part.arrays[name]).at(here)
            if dtype == target.dtype:
                return source
            kept = loaded(computed(dtype).name, dtype, source)
            return f"npt_as<{target.stored}>::from({kept})"

        places = [(f"i{axis}", f"n{axis}") for axis in range(self.ndim)]
        tests = ends(part.rules, part.reaches[position], places) if part.reaches else []
        skipped = [test for test, rule in tests if rule == "valid"]
        written = [one for one in tests if one[1] != "valid"]
        line = f"{target.at(here)} = {instead(written, value, other)};"
        return f"if (!({' || '.join(skipped)})) {line}" if skipped else line


def _over(stage: Histogram, body: Sequence[str]) -> list[str]:
    """Loops over the elements of a histogram's window: d0, d1, ... are steps along its axes."""
    if not stage.runs:
        return over(stage.shape, body)
    lines: list[str] = []
    for *steps, first, length in stage.runs:
        lines += [f"d{k} = {step}" for k, step in enumerate(steps)]
        lines.append(f"for d{len(steps)} in range({first}, {first + length}):")
        lines += ["    " + line for line in body]
    return lines


def _either(lines: Iterable[str], others: Iterable[str]) -> list[str]:
    """Some lines where a thread is inside, and others elsewhere."""
    return [*block("if (inside) {", list(lines))[:-1], *block("} else {", list(others))]
