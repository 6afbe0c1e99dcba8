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

An interior needs no border, and shrinks with each step.  Here the columns, and where planes
roll the rows of a plane, do not shrink where the array ends: what lies beyond is put there after
each step, and so is what "fill" and "keep" write.  Where the array goes on, they shrink.

Rows begin at multiples of 64 bytes where the array's rows begin: of the loads of a step, those
of the point's own column then touch one cache line a vector (heat in two and three axes,
float32: 1.2x, Zen 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ...language.box import Box
from ...language.dtypes import computed
from ...language.ir import Assign, Kernel, Offset, Read, Stage, State, Values
from ...lowering.chain import Absent, Edges
from ...lowering.kept import Kept, needed
from ...lowering.machine import machine_type
from ..generated import Module
from .bands import Band
from .expressions import as_tuple
from .rows import RowFunction, Source, row_function
from .window_loops import indented, plus

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
        super().__init__(kernel, reach)
        self.edges = edges
        self.ends = needed(kernel, stored=True)
        self.axes = edges.axes
        boxes = [(kept.low, kept.high) for kept in self.kept] + list(self.ends.values())
        self.low = tuple(min(axis) for axis in zip(*(low for low, _ in boxes), strict=True))
        self.high = tuple(max(axis) for axis in zip(*(high for _, high in boxes), strict=True))
        least = min(map(self.item_size, self.by_name))
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
        tables = [name for name, _ in self.edges.tables]
        text = self.text(title, fastmath, self._band(functions, final, last), tables)
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

    def stage_type(self, name: str) -> str:
        stage = self.by_name[name].stage
        k = stage.names.index(name)
        if isinstance(stage, State):
            return computed(stage.storage[k]).name
        return machine_type(stage.values[k].dtype, self.known[name])

    # Extents: of a stage where the array goes on, and where it ends.

    def _start(self, kept: Kept, axis: int, sign: int = 1) -> Sum:
        ended = 0 if isinstance(kept.stage, State) else self.ends[kept.stage.names[0]][0][axis]
        return {"": sign * ended, f"before{-axis}": sign * (kept.low[axis] - ended)}

    def _stop(self, kept: Kept, axis: int) -> Sum:
        ended = 0 if isinstance(kept.stage, State) else self.ends[kept.stage.names[0]][1][axis]
        return {f"n{-axis}": 1, "": ended, f"after{-axis}": kept.high[axis] - ended}

    # The loops.

    def _band(self, functions: list[RowFunction], final: RowFunction, last: Values) -> list[str]:
        lines = [f"n1 = {self.length(-1)}"]
        if -2 in self.axes:
            lines.append(f"n2 = {self.length(-2)}")
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
        for axis, index in enumerate(self.outer):
            start = f"{-self.warm}, " if self.warm and index == self.outer[-1] else ""
            loop = f"for {index} in range({start}out0.shape[{axis + 1}]):"
            lines += indented([loop], axis + 1)
        stages = [self._stage(*pair) for pair in zip(self.kept, functions, strict=True)]
        result = self._result(final, last)
        return lines + indented(self._turn(stages, result), len(self.outer) + 1)

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

    def _turn(self, stages: list[list[str]], result: list[str]) -> list[str]:
        """One plane of each stage after the other; where rows roll, one row."""
        index = self.indices[self.axis + 1]
        turn: list[str] = []
        for kept, lines in zip(self.kept, stages, strict=True):
            made = self._volumes([*self._rows(lines, kept), *self._beyond(kept)], kept)
            first = kept.low[self.axis] - kept.high[self.axis]
            if first > -self.warm:
                made = [f"if {index} >= {first}:", *indented(made)]
            turn += made
        made = self._volumes(self._rows(result))
        return turn + ([f"if {index} >= 0:", *indented(made)] if self.warm else made)

    def _stage(self, kept: Kept, function: RowFunction) -> list[str]:
        """One row of a stage."""
        stage = kept.stage
        place = self._made(kept)
        start = self._start(kept, -1)
        results = [
            f"row_from({self.names[n]}, {self._place(kept, place)}, "
            f"{_text(start, {'': self.first})})"
            for n in stage.names
        ]
        count = _text(self._stop(kept, -1), self._start(kept, -1, -1))
        lines = [self._call(function, stage.body, place, start, results, count)]
        if not isinstance(stage, State):
            return lines
        rows = [f"row({self.names[n]}, {self._place(kept, place)})" for n in stage.names]
        edges = [self.edges.arrays[name] for name in stage.names]
        lines += self._absent(rows, self.first, [edge.absent for edge in edges], place, 0)
        low, high = self.ends[stage.names[0]]
        beyond = [
            f"beyond_ends({row}, {self.first}, n1, ends1_{edge.beyond[0]}, {-low[-1]}, "
            f"{high[-1]}, constant{edge.beyond[1]}[0])"
            for edge, row in zip(edges, rows, strict=True)
            if edge.beyond is not None
        ]
        return lines + self._guarded(1, beyond)

    def _result(self, final: RowFunction, last: Values) -> list[str]:
        """One row of the result."""
        index = as_tuple(["b", *self.indices])
        rows = [f"row({out}, {index})" for out in last.names]
        nothing = (0,) * len(self.indices)
        call = self._call(final, last.body, nothing, {}, rows, "n1")
        return [call, *self._absent(rows, 0, self.edges.results, nothing, self.first)]

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
        columns: list[str] = []
        whole: list[str] = []
        for row, one in zip(rows, absent, strict=True):
            if one is None:
                continue
            kept, began = row, (at, 0)
            if one.before:
                place_before = self._place(self.by_name[one.before], place)
                kept, began = f"row({self.names[one.before]}, {place_before})", (self.first, first)
            value = f"constant{one.constant}[0]"
            low, high = _zone(one.reach, -1)
            if low or high:
                columns.append(
                    f"absent_ends({row}, {at}, n1, ends1_{one.border}, {low}, {high}, {kept}, "
                    f"{began[0]}, {value})"
                )
            low, high = _zone(one.reach, -2)
            if -2 in self.axes and (low or high):
                whole.append(
                    f"absent_row({row}, i, n2, ends2_{one.border}, {low}, {high}, {kept}, "
                    f"{began[1]}, {value})"
                )
        return self._guarded(1, columns) + self._guarded(2, whole)

    def _beyond(self, kept: Kept) -> list[str]:
        """Write the rows that lie beyond the ends of a plane."""
        stage = kept.stage
        if -2 not in self.axes or not isinstance(stage, State):
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

    def _made(self, kept: Kept) -> Offset:
        """Where a stage's row of this turn is, relative to the result's: in its last plane."""
        place = [0] * len(self.indices)
        place[self.axis + 1] = kept.high[self.axis]
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
            index = [self._index(axis, at) for axis in range(-self.kernel.ndim, -1)]
            if source in self.constant:
                rows.append(f"row({self.names[source]}, {as_tuple(['b', *index])})")
                continue
            rows.append(f"row_from({self.names[source]}, {as_tuple(['b', *index])}, {first})")
        return self.call(function, rows, row, results, count)

    def _index(self, axis: int, at: Offset) -> str:
        """The index of a row in a field: from where the block begins that the fields hold."""
        index, low = self.indices[axis + 1], -self.reach.lo[axis]
        if axis in self.axes:
            return _text({index: 1, "": at[axis + 1], f"before{-axis}": low})
        return plus(index, at[axis + 1] + low)


def _zone(reach: Box, axis: int) -> tuple[int, int]:
    """How many points at each end of an axis have no neighbour."""
    return max(-reach.lo[axis], 0), max(reach.hi[axis], 0)


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
