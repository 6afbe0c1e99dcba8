"""Steps: the text of a module that does a chain of steps, with the border's rule between them.

    def band(u, out0, ends1, constant0, r):
        for i in range(-6, out0.shape[1]):
            u_c0_row(...)                row i + 3 of the state, copied
            beyond_ends(...)           and what lies beyond its ends
            if i >= -2:
                u_0_row(...)            row i + 2 after one step, from rows i + 1 .. i + 3
                absent_ends(...)       what "fill" and "keep" write
                beyond_ends(...)
            ...

Where the array ends, what "fill" and "keep" write is put into each row after it was made, and what
lies beyond its ends beside it; rows beyond the array are copies of those that are kept (see
`beyond_row`).  Where the array goes on, more rows and columns are made, fewer with each step.

Rows begin at multiples of 64 bytes where the array's rows begin: of the loads of a step, those
of the point's own column then touch one cache line a vector (heat in two and three axes,
float32: 1.2x, Zen 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from ...analysis.ranges import ranges
from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import Assign, Kernel, Offset, Read, Stage, State, Values
from ...lowering.abreast import abreast, worthwhile
from ...lowering.chain import Absent, Edges, mirrored
from ...lowering.kept import Kept, full, needed
from ...lowering.machine import machine_type
from ..generated import Module
from .bands import Band
from .expressions import as_tuple
from .rows import RowFunction, Source, row_function
from .window_loops import indented, plus

# A function that makes several rows, and its body.
Several: TypeAlias = tuple[RowFunction, tuple[Assign, ...]]

# How often each name is added, and the number itself under "".
Sum: TypeAlias = dict[str, int]

# Bytes of a cache line.
LINE = 64


def module(
    kernel: Kernel, edges: Edges, title: str, reach: Box, *, fastmath: bool = False
) -> Module:
    """Write the loops of a chain of steps, which looks as far as `reach`.

    Between its coefficients and its scalars it is given the tables of the `edges`.
    """
    return _Writer(kernel, edges, reach).module(title, fastmath)


class _Writer(Band):
    def __init__(self, kernel: Kernel, edges: Edges, reach: Box) -> None:
        # What is needed of a stage where the array goes on, and where it ends.
        self.needs, self.ends = needed(kernel), needed(kernel, stored=True)
        super().__init__(mirrored(kernel, edges), reach)
        self.edges = edges
        self.axes = edges.axes
        nothing = full((0,) * kernel.ndim)
        boxes = [(nothing, nothing), *self.ends.values()]
        boxes += [(kept.low, kept.high) for kept in self.kept]
        self.low = tuple(min(axis) for axis in zip(*(low for low, _ in boxes), strict=True))
        self.high = tuple(max(axis) for axis in zip(*(high for _, high in boxes), strict=True))
        least = min(map(self.item_size, self.by_name), default=LINE)
        # The element at which column 0 is kept.
        self.first = -(self.low[-1] * least // LINE) * LINE // least

    def module(self, title: str, fastmath: bool) -> Module:
        kernel = self.kernel
        functions = [
            self.once(self._function(f"{self.names[kept.stage.names[0]]}_row", kept.stage))
            for kept in self.kept
        ]
        last = Values(tuple(self.outs), kernel.body, kernel.outputs)
        final = self.once(self._function("band_row", last))
        several = [self._several(kept.stage) for kept in self.kept] + [self._several(last)]
        several = [one and (self.once(one[0]), one[1]) for one in several]
        tables = [name for name, _ in self.edges.tables]
        text = self.text(title, fastmath, self._band(functions, final, last, several), tables)
        return Module(text, self.warm, self.bytes_kept)

    def _function(self, name: str, stage: Stage) -> RowFunction:
        low = _lowest_columns(stage.body)
        sources = {
            n: Source(self.names[n], computed(d).name, low.get(n, 0), constant=n in self.constant)
            for n, d in self.kernel.fields
        }
        sources |= {
            n: Source(self.names[n], self.stage_type(n), low.get(n, 0)) for n in self.by_name
        }
        return row_function(
            name, stage.body, stage.values, 0, sources, self.kernel, self.names,
            self.expressions, self.reach,
        )  # fmt: skip

    def _several(self, stage: Stage) -> Several | None:
        """What makes several rows of a stage at once; None where each by itself is better."""
        kernel = replace(self.kernel, body=stage.body, outputs=stage.values)
        if kernel.rows == 1 or not worthwhile(kernel):
            return None
        name = self.names.get(stage.names[0], "band")
        written = abreast(kernel, f"{name}_r")
        self.known |= ranges(written)
        values = Values(stage.names, written.body, written.outputs)
        return self._function(f"{name}_rows", values), written.body

    def stage_type(self, name: str) -> str:
        stage = self.by_name[name].stage
        k = stage.names.index(name)
        if isinstance(stage, State):
            return computed(stage.storage[k]).name
        return machine_type(stage.values[k].dtype, self.known[name])

    # Extents: of a stage where the array goes on, and where it ends.

    def _start(self, kept: Kept, axis: int, sign: int = 1) -> Sum:
        name = kept.stage.names[0]
        ended = 0 if isinstance(kept.stage, State) else self.ends[name][0][axis]
        low = self.needs[name][0][axis]
        return {"": sign * ended, f"before{-axis}": sign * (low - ended)}

    def _stop(self, kept: Kept, axis: int) -> Sum:
        name = kept.stage.names[0]
        ended = 0 if isinstance(kept.stage, State) else self.ends[name][1][axis]
        high = self.needs[name][1][axis]
        return {f"n{-axis}": 1, "": ended, f"after{-axis}": high - ended}

    # The loops.

    def _band(
        self,
        functions: Sequence[RowFunction],
        final: RowFunction,
        last: Values,
        several: Sequence[Several | None],
    ) -> list[str]:
        lines = [f"n{-axis} = {self.length(axis)}" for axis in self.axes]
        for axis in self.axes:
            # 1 where the array goes on, which it does for all borders or for none.
            ends = f"ends{-axis}_{self.edges.borders[0]}"
            lines.append(f"before{-axis} = 1 if {ends}[0] == 0 else 0")
            lines.append(f"after{-axis} = 1 if {ends}[1] == 0 else 0")
            lines.append(f"ended{-axis} = before{-axis} + after{-axis} < 2")
        for kept in self.kept:
            for name in kept.stage.names:
                shape = self._shape(kept, name)
                lines.append(f"{self.names[name]} = aligned({shape}, np.{self.stage_type(name)})")
        lines.append("for b in range(out0.shape[0]):")
        outer = self.outer
        for depth, index in enumerate(outer[:-1], 1):
            lines += indented([f"for {index} in range(out0.shape[{depth}]):"], depth)
        turn = self._turn([*zip(self.kept, functions, strict=True)], final, last)
        if not outer:
            return lines + indented(turn, 1)
        rolling = self._rolling(outer[-1], turn)
        if self.kernel.rows > 1:
            together = self._together(functions, final, last, several)
            rolling = self._in_turns(outer[-1], turn, together)
        return lines + indented(rolling, len(outer))

    def _rolling(self, index: str, turn: list[str]) -> list[str]:
        """A turn for each plane, or row, of the result, and for those before the first."""
        first = f"{-self.warm}, " if self.warm else ""
        return [f"for {index} in range({first}n{-self.axis}):", *indented(turn)]

    def _in_turns(self, index: str, turn: list[str], together: list[str]) -> list[str]:
        """Turns of several rows, and single ones before these and after."""
        axis, count = self.axis, self.kernel.rows
        # So many rows before the last one some stage has none to make.
        ended, goes_on = (
            max(
                (k.high[axis] - self._stop(k, axis)[""] - more * self._stop(k, axis)["after2"])
                for k in self.kept
            )
            for more in (0, 1)
        )
        many = _text({"n2": 1, "": -ended, "after2": ended - goes_on})
        return [
            *([f"for {index} in range({-self.warm}, 0):", *indented(turn)] if self.warm else []),
            f"many = max(0, {many}) // {count} * {count}",
            f"for {index} in range(0, many, {count}):",
            *indented(together),
            f"for {index} in range(many, n2):",
            *indented(turn),
        ]

    def _shape(self, kept: Kept, name: str) -> str:
        """How much is kept of a stage: planes, rows and columns of the same size for all."""
        size = self.item_size(name)
        lengths = [str(kept.count)]
        for axis in range(self.axis + 1, -1):
            lengths.append(plus(self.length(axis), self.high[axis] - self.low[axis]))
        if self.axis < -2:
            # An odd number of rows, so that planes are no multiple of 4096 bytes apart either.
            lengths[-1] += " | 1"
        lengths.append(f"padded({plus('n1', self.first + self.high[-1])}, {size})")
        return as_tuple(lengths)

    def _turn(
        self, stages: Sequence[tuple[Kept, RowFunction]], final: RowFunction, last: Values
    ) -> list[str]:
        """One plane of each stage after the other; where rows roll, one row."""
        turn: list[str] = []
        for kept, function in stages:
            row = [*self._row(kept, function), *self._ends_of(kept)]
            turn += self._plane_of(kept, [*self._rows(row, kept), *self._beyond(kept)])
        made = self._volumes(self._rows(self._result(final, last.body, last)))
        if not self.warm:
            return turn + made
        return [*turn, f"if {self.indices[self.axis + 1]} >= 0:", *indented(made)]

    def _together(
        self,
        functions: Sequence[RowFunction],
        final: RowFunction,
        last: Values,
        several: Sequence[Several | None],
    ) -> list[str]:
        """Several rows of each stage after the other, where all of them are within the array."""
        count = range(self.kernel.rows)
        *stages, result = several
        lines: list[str] = []
        for kept, function, many in zip(self.kept, functions, stages, strict=True):
            if many is not None:
                lines += self._row(kept, *many, rows=self.kernel.rows)
            for down in count:
                lines += [] if many else self._row(kept, function, down=down)
                at = plus(self.indices[-1], kept.high[-2] + down)
                lines += [*self._ends_of(kept, down), *self._turned(kept, at)]
        if result is not None:
            lines += self._result(*result, last, rows=self.kernel.rows)
        for down in count if result is None else ():
            lines += self._result(final, last.body, last, down=down)
        return lines

    def _plane_of(self, kept: Kept, lines: list[str]) -> list[str]:
        """Lines that make a plane of a stage, or a row, where there is one; and those beyond."""
        made = self._volumes(lines, kept)
        if self.kernel.ndim == 1:
            return made
        at = plus(self.indices[self.axis + 1], kept.high[self.axis])
        first, stop = (_text(ends(kept, self.axis)) for ends in (self._start, self._stop))
        return [f"if {first} <= {at} < {stop}:", *indented(made), *self._turned(kept, at)]

    def _turned(self, kept: Kept, at: str) -> list[str]:
        """Make the planes beyond the ends of the axis that rolls, or the rows, of those kept."""
        stage, axis = kept.stage, self.axis
        if not isinstance(stage, State):
            return []
        low, high = (ends[axis] for ends in self.ends[stage.names[0]])
        function = "beyond_row" if axis == -2 else "beyond_plane"
        calls = [
            f"{function}({self.names[name]}, {at}, n{-axis}, ends{-axis}_{beyond[0]}, {-low}, "
            f"{high}, {-kept.low[axis]}, constant{beyond[1]}[0])"
            for name in stage.names
            if (beyond := self.edges.arrays[name].beyond) is not None and (low or high)
        ]
        return self._guarded(-axis, calls)

    def _row(
        self,
        kept: Kept,
        function: RowFunction,
        body: tuple[Assign, ...] = (),
        down: int = 0,
        rows: int = 1,
    ) -> list[str]:
        """One row of a stage, so many `down`, or several at once, by a function of this body."""
        start = self._start(kept, -1)
        first = _text(start, {"": self.first})
        places = [self._made(kept, down + k) for k in range(rows)]
        results = [
            f"row_from({self.names[n]}, {self._place(kept, place)}, {first})"
            for place in places
            for n in kept.stage.names
        ]
        count = _text(self._stop(kept, -1), self._start(kept, -1, -1))
        body = body or kept.stage.body
        return [self._call(function, body, places[0], start, results, count)]

    def _ends_of(self, kept: Kept, down: int = 0) -> list[str]:
        """The ends of a row of a stage, if it is stored, and what lies beyond them."""
        stage, place = kept.stage, self._made(kept, down)
        if not isinstance(stage, State):
            return []
        rows = [f"row({self.names[n]}, {self._place(kept, place)})" for n in stage.names]
        edges = [self.edges.arrays[name] for name in stage.names]
        lines = self._absent(rows, self.first, [edge.absent for edge in edges], place, 0)
        low, high = self.ends[stage.names[0]]
        beyond = [
            f"beyond_ends({row}, {self.first}, n1, ends1_{edge.beyond[0]}, {-low[-1]}, "
            f"{high[-1]}, constant{edge.beyond[1]}[0])"
            for edge, row in zip(edges, rows, strict=True)
            if edge.beyond is not None
        ]
        return lines + self._guarded(1, beyond)

    def _result(
        self,
        final: RowFunction,
        body: tuple[Assign, ...],
        last: Values,
        down: int = 0,
        rows: int = 1,
    ) -> list[str]:
        """A row of the result, so many `down`, or several at once, by a function of this body."""
        places = [
            (*(0,) * (len(self.indices) - 1), down + k)[: len(self.indices)] for k in range(rows)
        ]
        results = []
        for place in places:
            index = as_tuple(["b", *map(plus, self.indices, place)])
            results.append([f"row({out}, {index})" for out in last.names])
        flat = [row for one in results for row in one]
        lines = [self._call(final, body, places[0], {}, flat, "n1")]
        for place, own in zip(places, results, strict=True):
            lines += self._absent(own, 0, self.edges.results, place, self.first)
        return lines

    def _rows(self, lines: list[str], kept: Kept | None = None) -> list[str]:
        """Lines for a row, done for every row of a plane."""
        if self.axis == -2:
            return lines
        first = _text(self._start(kept, -2)) if kept else "0"
        stop = _text(self._stop(kept, -2)) if kept else "n2"
        return [f"for i in range({first}, {stop}):", *indented(lines)]

    def _volumes(self, lines: list[str], kept: Kept | None = None) -> list[str]:
        """Lines for a plane, done for all that lie between it and the axis that rolls."""
        for axis in reversed(range(self.axis + 1, -2)):
            low, high = (kept.low[axis], kept.high[axis]) if kept else (0, 0)
            length = plus(self.length(axis), high)
            lines = [f"for {self.indices[axis + 1]} in range({low}, {length}):", *indented(lines)]
        return lines

    # What the border's rule asks for.

    def _guarded(self, axis: int, calls: list[str]) -> list[str]:
        return [f"if ended{axis}:", *indented(calls)] if calls else []

    def _absent(
        self, rows: list[str], at: int, absent: Sequence[Absent | None], place: Offset, first: int
    ) -> list[str]:
        """Write the ends of rows whose column 0 is element `at`, and rows at the ends."""
        calls: dict[int, list[str]] = {axis: [] for axis in self.axes}
        for row, one in zip(rows, absent, strict=True):
            if one is None:
                continue
            kept, began = row, (at, 0)
            if one.before:
                index = self._place(self.by_name[one.before], place)
                kept, began = f"row({self.names[one.before]}, {index})", (self.first, first)
            value = f"constant{one.constant}[0]"
            for axis in self.axes:
                low, high = one.reach.sides[axis]
                ends = f"n{-axis}, ends{-axis}_{one.border}, {low}, {high}, {kept}"
                if not low and not high:
                    continue
                if axis == -1:
                    call = f"absent_ends({row}, {at}, {ends}, {began[0]}, {value})"
                else:
                    index = plus(self.indices[axis + 1], place[axis + 1])
                    call = f"absent_row({row}, {index}, {ends}, {began[1]}, {value})"
                calls[axis].append(call)
        # The first axis decides at a corner: its ends are written last.
        return [line for axis in self.axes for line in self._guarded(-axis, calls[axis])]

    def _beyond(self, kept: Kept) -> list[str]:
        """Write the rows that lie beyond the ends of a plane."""
        stage = kept.stage
        if self.axis == -2 or not isinstance(stage, State):
            return []
        (low, high), at = self.ends[stage.names[0]], -self.low[-2]
        plane = self._plane(kept, self._made(kept))
        calls = [
            f"beyond_rows({self.names[name]}[{plane}], {at}, n2, ends2_{beyond[0]}, {-low[-2]}, "
            f"{high[-2]}, constant{beyond[1]}[0])"
            for name in stage.names
            if (beyond := self.edges.arrays[name].beyond) is not None
        ]
        return self._guarded(2, calls)

    # Places.

    def _made(self, kept: Kept, down: int = 0) -> Offset:
        """Where a stage's row of this turn is, relative to the result's: in its last plane."""
        place = [0] * len(self.indices)
        if place:
            place[self.axis + 1] = kept.high[self.axis] + down
        return tuple(place)

    def _place(self, kept: Kept, row: Offset) -> str:
        """Where a stage keeps a row; along all axes but that which rolls, from the lowest."""
        index = [self._plane(kept, row)]
        if self.axis < -2:
            index.append(plus("i", row[-1] - self.low[-2]))
        return as_tuple(index)

    def _plane(self, kept: Kept, row: Offset) -> str:
        index = [self.ring(kept, row)]
        for axis in range(self.axis + 1, -2):
            index.append(plus(self.indices[axis + 1], row[axis + 1] - self.low[axis]))
        return ", ".join(index)

    def _call(
        self,
        function: RowFunction,
        body: tuple[Assign, ...],
        row: Offset,
        start: Sum,
        results: list[str],
        count: str,
    ) -> str:
        """Call a row function for the columns from `start` on."""
        low = _lowest_columns(body)
        rows: list[str] = []
        for source, offset, _ in function.rows:
            at = tuple(a + b for a, b in zip(row, offset, strict=True))
            kept = self.by_name.get(source)
            if kept is not None:
                first = _text(start, {"": self.first + low[source]})
                place = self._place(kept, at)
                rows.append(f"row_from({self.names[source]}, {place}, {first})")
                continue
            first = _text(start, {"": low[source], "before1": -self.reach.lo[-1]})
            index = as_tuple(["b", *self._at(at)])
            if source in self.constant:
                rows.append(f"row({self.names[source]}, {index})")
                continue
            rows.append(f"row_from({self.names[source]}, {index}, {first})")
        return self.call(function, rows, row, results, count)

    def _at(self, at: Offset) -> list[str]:
        """The index of a row in a field: from where the block begins that the fields hold."""
        return [
            _text({index: 1, "": at[axis + 1], f"before{-axis}": -self.reach.lo[axis]})
            for axis, index in enumerate(self.indices, -self.kernel.ndim)
        ]


def _lowest_columns(body: tuple[Assign, ...]) -> dict[str, int]:
    """The lowest column that a body reads of each field and stage."""
    lowest: dict[str, int] = {}
    for assign in body:
        if isinstance(assign.value, Read):
            name, column = assign.value.field, assign.value.offset[-1]
            lowest[name] = min(lowest.get(name, column), column)
    return lowest


def _text(*sums: Sum) -> str:
    """The sum of sums: `n1 + 2 * before1 - 3`."""
    total: dict[str, int] = {}
    for one in sums:
        for name, times in one.items():
            total[name] = total.get(name, 0) + times
    text = ""
    for name, times in sorted(total.items(), key=lambda item: (item[0] == "", item[1] < 0)):
        if not times:
            continue
        term = name if name and abs(times) == 1 else f"{abs(times)} * {name}"
        term = term if name else str(abs(times))
        text += f" {'-' if times < 0 else '+'} {term}" if text else "-" * (times < 0) + term
    return text or "0"
