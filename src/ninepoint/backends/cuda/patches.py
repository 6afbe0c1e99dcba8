"""Patches: one thread makes several columns of several rows, and loads whole rows of them.

    out = x[0, -1] + x[0, 1]         x0 = 4 columns of x at (i, j), at once; x1 = x[i, j - 1], ...
                                ->   t4 = x1 + x0.get(1);  t6 = x0.get(0) + x0.get(2);  ...
                                     4 columns of out at (i, j), at once

What the points of a patch share is computed once, in registers.  What lies beside the own columns
is loaded by itself, which the first cache has.  Where all that a thread reads and writes is inside
the arrays, no position is mapped by the rule of a border; elsewhere each element is.

A patch of one column and one row has no chunks, and reads elements where they are: so loops are
done, and windows that are looped over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ...analysis.ranges import ranges
from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import Offset, Read
from ..numba.points import plus
from .bodies import Body, Function
from .printing import Array, Rules, block, either, ends, finders, instead, left_out, loaded, stored
from .shapes import Chunk, shape_of
from .source import Launch
from .windows import Windows

# Threads of a block along the last core axis, and along the last but one.
_THREADS = {1: (128,), 2: (4, 32)}

# Registers that addresses take besides, also where every element has its own.
_OTHERS = 32
_POINTER = 4

# Registers of a multiprocessor, and threads that are enough for it.
_FILE = 65536
_TOGETHER = 1024


@dataclass
class Patches(Function):
    """A launch that makes the points from `begin` to the lengths plus `end`, patch by patch.

    It reads `fields`, by their names in the kernel.  Results have `reaches`, whose ends are
    written as the border says; those of a stage have none.

    Where a thread makes several points there is a function for arrays whose rows can be loaded in
    vectors, and another for all.  Then the outputs of its kernel are those of the first point
    first, then those of the next in its row.
    """

    begin: Offset
    end: Offset
    fields: Mapping[str, Array]
    rules: Rules
    reaches: Sequence[Box] = ()
    # Positions that are mapped into the fields once for all reads, by axis and step.
    _found: dict[tuple[int, int], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shape = shape_of(self.kernel, self.outs, self.fields)
        if self.shape.several:
            self.kernel, self.known = self.shape.kernel, ranges(self.shape.kernel)
        # The lengths of a patch along each core axis, the threads of a block, and its points.
        self.own = ((1,) * (self.ndim - 2) + (self.shape.rows, self.shape.columns))[-self.ndim :]
        self.threads = ((1,) * self.ndim + _THREADS[min(self.ndim, 2)])[-self.ndim :]
        self.tile = tuple(a * b for a, b in zip(self.own, self.threads, strict=True))
        # The first points; columns begin where a load may.
        *lead, column = self.begin
        self.low = (*lead, column // self.own[-1] * self.own[-1])

    def launch(self) -> Launch:
        """How the function is started, once its text is written."""
        names = tuple(array.name for array in self.arrays)
        threads = (self.threads[-1], self.threads[-2] if self.ndim > 1 else 1, 1)
        launch = Launch(self.name, names, threads, self.tile, self.low, self.end)
        if not self.shape.several:
            return launch
        counts = [(array, self.shape.columns) for array in self.outs]
        counts += [(self.fields[one.field], one.count) for one in self.shape.chunks]
        wide = dict.fromkeys(names, 0)
        for array, count in counts:
            wide[array.name] = max(array.dtype.itemsize * count, wide[array.name])
        return replace(launch, wide=tuple(wide.values()), plain=f"{self.name}_plain")

    def text(self) -> list[str]:
        """The text of the function."""
        for chunk in self.shape.chunks:
            self.use(self.fields[chunk.field])
        body, results = self._computed()
        made = body.printed()
        made = [*(text for _, text in sorted(self._found.items())), *made]
        if self.shape.several:
            made += [*self._results(results), *either("inside", self._stored(), self._placed())]
        else:
            made += [self._put(k, value) for k, value in enumerate(results)]
        for target in self.outs:
            self.use(target)
        threads = int(np.prod(self.threads))
        if not self.shape.several:
            return self.lines([*self._head(), *made], threads)
        registers = self.shape.live + _OTHERS + _POINTER * len(self.arrays)
        blocks = max(1, min(_FILE // (threads * registers), _TOGETHER // threads))
        lines = [*self._head(), *self._loads(), *made]
        return self.lines(lines, threads, blocks, f"{self.name}_plain")

    def _head(self) -> list[str]:
        """The position of the first point, i0, i1, ...; the arrays begin with the frame."""
        told = (self.tile, self.own, self.low, self.end)
        numbers = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in told)
        patch = f"npt_patch<{self.ndim}>{{{numbers}}}"
        return [
            f"const npt_place<{self.ndim}> here = npt_start(g, {patch});",
            "if (here.none) return;",
            *(
                f"const npt_index i{axis} = here.at[{axis}], n{axis} = here.length[{axis}];"
                for axis in range(self.ndim)
            ),
            *self.frames("here.frame"),
        ]

    def _inside(self) -> str:
        """Whether everything that is read and written lies inside, and is as it should be."""
        tests: list[str] = []
        for axis in range(self.ndim):
            low, high = self._bounds(axis)
            if low > self.low[axis]:
                tests.append(f"i{axis} >= {low}")
            if high > -self.end[axis] or self.own[axis] > 1:
                tests.append(f"i{axis} < {plus(f'n{axis}', -high)}")
        steps = [f"({array.parameter}_{self.ndim - 1} == 1)" for array in self.arrays]
        tests.append(f"wide | ({' & '.join(steps)})")
        return " & ".join(f"({test})" for test in tests)

    def _bounds(self, axis: int) -> tuple[int, int]:
        """The least position that is inside, and how far from the length the last one is."""
        length = self.own[axis]
        lows, highs = [self.begin[axis]], [length - 1 - self.end[axis]]
        for one in self.shape.chunks:
            low, high = (end[axis] for end in self._region(one))
            first, last = (*one.lead, one.first), (*one.lead, one.first + one.count - 1)
            lows.append(low - first[axis])
            highs.append(last[axis] - high)
        for reach in self.reaches:
            if any(map(any, left_out(self.rules, reach))):
                lows.append(-reach.lo[axis])
                highs.append(length - 1 + reach.hi[axis])
        return max(lows), max(highs)

    def _region(self, one: Chunk) -> tuple[Offset, Offset]:
        """How far beyond both ends of each axis an array reaches; a field does not."""
        nothing = (0,) * self.ndim
        return self.fields[one.field].region or (nothing, nothing)

    # What is loaded.

    def _loads(self) -> list[str]:
        """All chunks, by rows where everything is inside."""
        chunks, kinds = self.shape.chunks, []
        for one in chunks:
            kind = f"npt_chunk<{self.fields[one.field].stored}, {one.count}>"
            kinds.append(f"{kind} {one.name} = {{}};")
        whole = [self._whole(one) for one in chunks]
        mapped = [line for one in chunks for line in self._mapped(one)]
        return [
            "const bool inside =",
            f"  {self._inside()};",
            *kinds,
            *either("inside", whole, mapped),
        ]

    def _whole(self, one: Chunk) -> str:
        """Load a chunk, where everything is inside."""
        place = self._near(self.fields[one.field], one.lead, one.first)
        return f"{one.name} = npt_load<wide, {one.count}>({place}, 1);"

    def _near(self, array: Array, lead: Sequence[int], column: int) -> str:
        """Where an element is that stands so far from the thread's first one."""
        steps = array.steps([plus(f"i{k}", step) for k, step in enumerate(lead)])
        place = " + ".join([*steps, plus(f"i{self.ndim - 1}", column)])
        return f"{array.parameter} + ({place})"

    def _mapped(self, one: Chunk) -> list[str]:
        """Load a chunk wherever its row comes from, or by its elements if it crosses an end."""
        array, last = self.fields[one.field], self.ndim - 1
        rules = self.rules if array.region is None else (("nearest", "nearest"),) * self.ndim
        low, high = self._region(one)
        places = []
        for axis, step in enumerate(one.lead):
            place, n = plus(f"i{axis}", step), f"n{axis}"
            inside = f"npt_within({place}, {low[axis]}, {plus(n, high[axis])})"
            places.append(f"at{axis}({place}, {n})" if array.region is None else inside)
        lines, there = array.row(places, rules)
        told = [one.name, "row", there, plus(f"i{last}", one.first), str(low[last])]
        told += [plus(f"n{last}", high[last]), f"{array.parameter}_{last}"]
        if array.region is None and (constant := self.constant((0, array.dtype, "constant"))):
            told.append(constant)
        return block("{", [*lines, f"npt_row<{finders(rules[last])}, wide>({', '.join(told)});"])

    # What is computed.

    def _computed(self) -> tuple[Body, list[str]]:
        """What is computed, and each output of it, as it is stored."""
        text = Body(self)
        storage = {name: one.dtype for name, one in self.fields.items()}
        storage |= {name: one.dtype for name, one in self.coefficients.items()}
        nowhere = Box((0,) * self.ndim, (0,) * self.ndim)
        arrays = {n: text.memory(one, len(one.shape)) for n, one in self.coefficients.items()}
        reader = partial(self._read, text)
        windows = Windows(text, text.tables, storage, arrays, nowhere, reader=reader)
        self.write(text, self.kernel.body, self._take, windows.lines)
        text.constants += windows.constants
        found = []
        for k, one in enumerate(self.kernel.outputs):
            target = self.outs[k % len(self.outs)]
            found.append(stored(target.dtype, text.machine(one), text.result(one)))
        return text, found

    def _take(self, text: Body, name: str, read: Read) -> None:
        """Give an element its name: that of a chunk, or one that is read where it is."""
        machine, dtype = text.declare(name, read), self.fields[read.field].dtype
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
        array = self.use(self.fields[field])
        lines: list[str] = []
        places: list[str] = []
        absent: list[str] = []
        for axis, step in enumerate(offset):
            place = plus(text.index(f"i{axis}"), step)
            if axis in along:
                place = f"{place} + {along[axis]}"
            inside = self.begin[axis] + step >= 0 >= self.end[axis] + step and axis not in along
            if array.region is None and not inside:
                found = f"at{axis}({place}, {text.index(f'n{axis}')})"
                if axis in along:
                    place = text.new("place")
                    lines.append(f"{place} = {found}")
                else:
                    place = text.index(f"a{axis}{'m' if step < 0 else 'p'}{abs(step)}")
                    self._found[axis, step] = f"const npt_index {place} = {found};"
                absent += [place] * ("constant" in self.rules[axis])
            places.append(place)
        element = f"{text.memory(array, len(places))}[{', '.join(places)}]"
        if absent:
            name = text.constant(self.constant((0, array.dtype, "constant")), array.dtype)
            element = f"({name} if ({' | '.join(absent)}) < 0 else {element})"
        return lines, element

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
            for row in range(self.shape.rows):
                place = self._near(target, (0,) * (self.ndim - 2) + (row,) * (self.ndim > 1), 0)
                lines.append(f"npt_store<wide, {self.shape.columns}>({place}, 1, y{k}[{row}]);")
        return lines

    def _placed(self) -> list[str]:
        """Element by element, where there is one, and by the rules at the ends of outputs.

        One after the other, so that what few threads do takes few registers of all.
        """
        last = self.ndim - 1
        tests = [f"i{last} < {plus(f'n{last}', self.end[last])}"]
        if self.low[last] < self.begin[last]:
            tests.append(f"i{last} >= {self.begin[last]}")
        above = []
        if last:
            above = [f"const npt_index i{last - 1} = j{last - 1} + r;"]
            tests.append(f"i{last - 1} < {plus(f'n{last - 1}', self.end[last - 1])}")
        numbers = range(len(self.outs))
        column = [
            f"const npt_index i{last} = j{last} + k;",
            *block(
                f"if ({' && '.join(tests)}) {{", [self._put(k, f"z{k}.get(0)") for k in numbers]
            ),
            *(f"z{k}.push({{}});" for k in numbers),
        ]
        row = [
            *above,
            *(f"auto z{k} = y{k}[r];" for k in numbers),
            "#pragma unroll 1",
            *block(f"for (int k = 0; k < {self.shape.columns}; k++) {{", column),
        ]
        return [
            *(f"const npt_index j{axis} = i{axis};" for axis in range(max(0, last - 1), last + 1)),
            "#pragma unroll",
            *block(f"for (int r = 0; r < {self.shape.rows}; r++) {{", row),
        ]

    def _put(self, position: int, value: str) -> str:
        """Write an output at the point i0, i1, ..., or what its border has there instead."""
        target = self.outs[position]
        here = [f"i{axis}" for axis in range(self.ndim)]

        def other(rule: str) -> str:
            if rule == "fill":
                return self.constant((0, target.dtype, "fill"))
            name, dtype = self.kernel.fields[position]
            source = self.use(self.fields[name]).at(here)
            if dtype == target.dtype:
                return source
            kept = loaded(computed(dtype).name, dtype, source)
            return f"npt_as<{target.stored}>::from({kept})"

        places = [(f"i{axis}", f"n{axis}") for axis in range(self.ndim)]
        tests = ends(self.rules, self.reaches[position], places) if self.reaches else []
        skipped = [test for test, rule in tests if rule == "valid"]
        written = [one for one in tests if one[1] != "valid"]
        line = f"{target.at(here)} = {instead(written, value, other)};"
        return f"if (!({' || '.join(skipped)})) {line}" if skipped else line
