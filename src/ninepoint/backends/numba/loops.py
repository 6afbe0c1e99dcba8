"""Loops: the text of a module that computes a kernel at every point of a block.

    def band_rows(x_0, x_1, x_2, o0, n):          # one row: this is what LLVM vectorises
        for j in range(n): ...

    def band(x, out0):                            # (stack, rows + 2, columns + 2)
        n = out0.shape[2]
        for b in range(out0.shape[0]):
            for i in range(out0.shape[1]):
                band_rows(row(x, (b, i)), row(x, (b, i + 1)), ..., row(out0, (b, i)), n)

A stage has a function of its own, and a buffer that holds as many of its rows as are read at
once; row i of the result is made right after the last row of each stage that it needs.  Offsets
are counted from the lowest, so that no index is ever negative.  The block holds every neighbour
of every point: borders are somebody else's.

But for a chain of calls, or of steps, which has the border's rule between them:

    def band(u, out0, ends1_0, constant0, r):
        for i in range(-6, out0.shape[1]):
            if 0 <= i + 3 < out0.shape[1]:
                u_c0_row(...)              row i + 3 of the state, copied
                beyond(...)                and what lies beyond its ends
            if 0 <= i + 2 < out0.shape[1]:
                u_0_row(...)               row i + 2 after one step, from rows i + 1 .. i + 3
                absent(...)                what "fill" and "keep" write
                beyond(...)
            ...

Where the array ends, what "fill" and "keep" write is put into each row after it was made, and what
lies beyond its ends beside it; rows beyond the array are copies of those that are kept.  Where the
array goes on, more rows and columns are made, fewer with each step.  An ordinary kernel is a chain
that goes on at all ends.

Where results are made at every other point, `i` and `j` are points all the same, and results have
indices of their own:

    for q0 in range(out0.shape[1]):           # no row of a stage outlives its turn
        i = 2 * q0

    for i in range(-1, 2 * out0.shape[1] - 1):           # rows of stages roll
        v0_row(...)
        if i >= 0 and i % 2 == 0:
            band_row(..., row(out0, (b, i // 2)), n)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from ...analysis.control import watched
from ...analysis.ranges import ranges
from ...analysis.rewrite import copied
from ...language.dtypes import short
from ...language.ir import (
    Assign,
    Binary,
    Histogram,
    Offset,
    Ref,
    RunningSum,
    State,
    Values,
    shifted,
)
from ...lowering.abreast import together
from ...lowering.chain import Absent
from ...lowering.kept import Kept, height
from ..generated import Module
from .layout import Layout, RowFunction, Sum, as_tuple, sum_text
from .points import indented, plus
from .ranks import histogram_function, in_bins, selecting_function
from .rows import Functions, Made, row_function


class Loops(Layout):
    """The module of a kernel: functions of rows, and the loops that call them.

    The results are already in their storage types; they are stored as `dtypes`, without which they
    are stored as they are computed.  A chain has `edges`, whose tables it is given between its
    coefficients and its scalars.
    """

    def module(self, title: str, *, fastmath: bool = False) -> Module:
        """Write it."""
        kernel, names = self.kernel, self.names
        self._write_functions()
        tables = [name for name, _ in self.edges.tables] if self.edges else []
        looks = watched(kernel)
        parameters = [
            *(names[n] for n, _ in kernel.fields),
            *self.outs,
            *(names[n] for n, *_ in kernel.coefficients),
            *tables,
            *(names[n] for n, _ in kernel.scalars),
            *["notes"] * looks,
        ]
        band = [f"def band({', '.join(parameters)}):", *indented(self._band())]
        how = "fastmath=True" if fastmath else ""
        text = self.texts.text(title, band, self.expressions.tables.lines(), how)
        kept = sum(one.count * self.item_size(name) for name, one in self.by_name.items())
        places = tuple(self.places)
        return Module(text, self.warm, kept, looks, places, shorts=self.converts)

    # The functions that make a row.

    def _write_functions(self) -> None:
        """Write those of each stage and of the result, and those that make several rows."""
        self.texts = Functions()
        self.functions = [self._stage_functions(one) for one in self.kept]
        shorts = [short(dtype) for dtype in self.dtypes] if self.converts else []
        result = Made(
            "band",
            self.kernel.body,
            self.kernel.outputs,
            every=self.every[-1],
            stores=tuple(one.store if one else "" for one in shorts),
        )
        self.final = self._function(replace(result, name="band_row"))
        # None where one row after the other is better.
        self.several: list[RowFunction | None] = []
        if self.kernel.rows > 1:
            for kept in self.kept:
                name = self.names[kept.stage.names[0]]
                stage = Made(name, kept.stage.body, kept.stage.values)
                self.several.append(self._rows_at_once(stage, f"{name}_r"))
            self.several.append(self._rows_at_once(result, "r"))

    def _function(self, made: Made) -> RowFunction:
        return self.texts.once(row_function(made, self))

    def _rows_at_once(self, one: Made, prefix: str) -> RowFunction | None:
        """Several rows of a stage or of the result, whose operations' names begin so."""
        written, _ = together(replace(self.kernel, body=one.body, outputs=one.values), prefix)
        if written is None:
            return None
        self.known |= ranges(written)
        name, stores = f"{one.name}_rows", one.stores * self.kernel.rows
        return self._function(Made(name, written.body, written.outputs, stores=stores))

    def _stage_functions(self, kept: Kept) -> tuple[RowFunction, ...]:
        """The function that makes a row; for a running sum there are two."""
        stage = kept.stage
        name = f"{self.names[stage.names[0]]}_row"
        match stage:
            case Values() | State():
                return (self._function(Made(name, stage.body, stage.values)),)
            case Histogram():
                if in_bins(stage, dict(self.kernel.fields)[stage.read.field]):
                    found = histogram_function(name, stage, self, kept.low[-1])
                else:
                    found = self._selecting(name, stage, kept)
                return (self.texts.once(found),)
            case RunningSum():
                return self._running(stage)
            case _:
                assert_never(stage)

    def _selecting(self, name: str, stage: Histogram, kept: Kept) -> RowFunction:
        # Up to which row the stage is made, counted as those of the result.
        rows = "1" if self.kernel.ndim == 1 else sum_text(self.ends_at(kept, -2, True))
        return selecting_function(name, stage, self, kept.low[-1], (rows, self.columns(kept)))

    def _running(self, stage: RunningSum) -> tuple[RowFunction, ...]:
        """The function that adds a row to a sum, and the one that also takes one away."""
        name, body, kind = stage.name, stage.body, stage.value.dtype
        self.expressions.types[name] = self.stage_type(name)
        # The row that goes: the same operations, on the row before the first.
        up = (*(0,) * (self.kernel.ndim - 2), -stage.rows, 0)
        leaving, (gone,) = copied(
            body, (stage.value,), lambda own, _: f"{own}_out", lambda expr: shifted(expr, up)
        )
        pairs = zip(leaving, body, strict=True)
        self.known |= {new.name: self.known[old.name] for new, old in pairs}
        added = Assign(f"{name}_in", Binary(kind, "+", Ref(kind, name), stage.value))
        taken = Assign(f"{name}_next", Binary(kind, "-", Ref(kind, added.name), gone))
        self.known |= dict.fromkeys((added.name, taken.name), self.known[name])
        functions = (("_add", (*body, added)), ("_move", (*body, *leaving, added, taken)))
        return tuple(
            self._function(
                Made(self.names[name] + word, lines, (Ref(kind, lines[-1].name),), name)
            )
            for word, lines in functions
        )

    # The loops over rows, or over planes and their rows.

    def _band(self) -> list[str]:
        lines = ["n = out0.shape[out0.ndim - 1]"]
        for axis in self.edges.axes if self.edges else ():
            # 1 where the array goes on, which it does for all borders or for none.
            ends = f"ends{-axis}_{self.edges.borders[0]}" if self.edges else ""
            lines.append(f"before{-axis} = 1 if {ends}[0] == 0 else 0")
            lines.append(f"after{-axis} = 1 if {ends}[1] == 0 else 0")
            lines.append(f"ended{-axis} = before{-axis} + after{-axis} < 2")
        lines += self.buffers()
        for function in (*(one for group in self.functions for one in group), self.final):
            lines += [f"{name} = {room}" for name, room in function.buffers.items()]
        lines.append("for b in range(out0.shape[0]):")
        for depth, index in enumerate(self.outer[:-1], 1):
            lines += indented(self._loop(self.indices.index(index) - len(self.indices) - 1), depth)
        if not self.outer:
            return lines + indented(self._turn())
        rolling = self._in_turns() if self.several else self._rolling()
        return lines + indented(rolling, len(self.outer))

    def _loop(self, axis: int) -> list[str]:
        """A loop over the results along an axis, which tells at which point each is made."""
        index, step, length = self.indices[axis + 1], self.every[axis], self.length(axis)
        if step > 1:
            own = f"q{axis + self.kernel.ndim}"
            return [f"for {own} in range({length}):", f"    {index} = {step} * {own}"]
        return [f"for {index} in range({length}):"]

    def _rolling(self) -> list[str]:
        """A turn for each plane, or row, of the result, and for those before the first."""
        turn = self._turn()
        if not self.rolls(self.axis) and (self.every[self.axis] > 1 or not self.warm):
            return [*self._loop(self.axis), *indented(turn)]
        first = f"{-self.warm}, " if self.warm else ""
        points = sum_text((self.points(self.axis),))
        return [f"for {self.turn} in range({first}{points}):", *indented(turn)]

    def _in_turns(self) -> list[str]:
        """Turns of several rows, and single ones before these and after."""
        count, turn = self.kernel.rows, self._turn()
        before = [f"for i in range({-self.warm}, 0):", *indented(turn)] if self.warm else []
        return [
            *before,
            f"many = {self._many(count)}",
            f"for i in range(0, many, {count}):",
            *indented(self._turn(count)),
            f"for i in range(many, {self.length(-2)}):",
            *indented(turn),
        ]

    def _many(self, count: int) -> str:
        """Up to which row several are made at once."""
        length = self.length(-2)
        if self.edges is None or not self.kept:
            return f"{length} // {count} * {count}"
        # So many rows before the last one some stage has none to make.
        ends = [(k.high[-2], self.ends_at(k, -2, True)) for k in self.kept]
        ended = max(high - last[""] for high, (_, last, _) in ends)
        goes_on = max(high - last[""] - after["after2"] for high, (_, last, after) in ends)
        many = sum_text(({length: 1, "": -ended, "after2": ended - goes_on},))
        return f"max(0, {many}) // {count} * {count}"

    def _turn(self, rows: int = 1) -> list[str]:
        """One plane of each stage after the other, and of the result; where rows roll, one row.

        Or several rows at once, which each stage has.
        """
        alone = [None] * (len(self.kept) + 1)
        *several, last = self.several if rows > 1 else alone
        lines: list[str] = []
        for kept, functions, many in zip(self.kept, self.functions, several, strict=True):
            if isinstance(kept.stage, RunningSum):
                lines += self._run(kept, functions)
                continue
            lines += self._row(kept, many, rows=rows) if many else []
            for down in range(rows):
                at = plus(self.turn, kept.high[self.axis] + down) if self.turn else ""
                row = [] if many else self._row(kept, functions[0], down)
                test = self._there(kept, at) if rows == 1 else ""
                lines += _where(test, self._plane([*row, *self._ends_of(kept, down)], kept))
                if at:
                    lines += self._beyond(kept, self.axis, "{}", -kept.low[self.axis], at)
        if last:
            return lines + self._result(last, rows=rows)
        made = [line for down in range(rows) for line in self._result(self.final, down)]
        tests = [f"{self.turn} >= 0"] * (self.warm > 0 and rows == 1)
        if self.rolls(self.axis):
            tests.append(f"{self.turn} % {self.every[self.axis]} == 0")
        return lines + _where(" and ".join(tests), self._plane(made))

    def _there(self, kept: Kept, at: str) -> str:
        """Where a turn makes a plane of a stage, or a row: a condition, empty for everywhere."""
        if not self.turn:
            return ""
        if self.edges:
            first, stop = (sum_text(self.ends_at(kept, self.axis, last)) for last in (False, True))
            return f"{first} <= {at} < {stop}"
        begin = kept.low[self.axis] - kept.high[self.axis]
        return "" if begin == -self.warm else f"{self.turn} >= {begin}"

    def _plane(self, lines: list[str], kept: Kept | None = None) -> list[str]:
        """Lines for a row, done for all rows of a plane; where rows roll, for the one row."""
        for axis in reversed(range(self.axis + 1, -1)):
            head = self._loop(axis)
            if kept is not None:
                ends = [sum_text(self.ends_at(kept, axis, last)) for last in (False, True)]
                limits = ", ".join(ends[ends[0] == "0" :])
                head = [f"for {self.indices[axis + 1]} in range({limits}):"]
            lines = [*head, *indented(lines)]
            if kept is not None and axis == -2:
                plane = ", ".join(self.plane(kept, self.made(kept)))
                lines += self._beyond(kept, -2, f"{{}}[{plane}]", -self.low[-2])
        return lines

    def _row(self, kept: Kept, function: RowFunction, down: int = 0, rows: int = 1) -> list[str]:
        """One row of a stage, so many `down`, or several at once."""
        start = self.ends_at(kept, -1, False)
        first = sum_text((*start, {"": self.first(kept)}))
        places = [self.made(kept, down + k) for k in range(rows)]
        results = [
            _row_text(self.names[name], self.place(kept, place), first)
            for place in places
            for name in kept.stage.names
        ]
        # What a running sum reads is the last of its rows.
        place = places[0]
        place = (*place[:-1], *(one + height(kept.stage) - 1 for one in place[-1:]))
        return [self._call(function, place, start, results, self.columns(kept))]

    def _run(self, kept: Kept, functions: Sequence[RowFunction]) -> list[str]:
        """Add rows until the sum is whole; from then on one comes and one goes."""
        (name,), first = kept.stage.names, 1 - height(kept.stage)
        added, moved = (self._row(kept, function) for function in functions)
        return [
            f"if i == {first}:",
            f"    {self.names[name]}[:] = 0",
            f"if {first} <= i <= 0:",
            *indented(added),
            "elif i > 0:",
            *indented(moved),
        ]

    def _result(self, function: RowFunction, down: int = 0, rows: int = 1) -> list[str]:
        """A row of the result, so many `down`, or several at once."""
        here = (0,) * (len(self.indices) - 1)
        places = [(*here, down + k)[: len(self.indices)] for k in range(rows)]
        made: list[str] = []
        for axis, index in enumerate(self.indices, -self.kernel.ndim):
            if self.every[axis] > 1:
                rolls = self.rolls(axis)
                index = (
                    f"{index} // {self.every[axis]}" if rolls else f"q{axis + self.kernel.ndim}"
                )
            made.append(index)
        wheres = [as_tuple(["b", *map(plus, made, place)]) for place in places]
        results = [f"row({out}, {where})" for where in wheres for out in self.outs]
        lines = [self._call(function, places[0], (), results, "n")]
        for place, where in zip(places, wheres, strict=True):
            # Rows of results begin at column 0.
            ends = self.edges.results if self.edges else ()
            pairs = zip(self.outs, ends, strict=False)
            lines += self._absent([((out, where, 0), one) for out, one in pairs], place)
        return lines

    # What the border's rule asks for.

    def _ends_of(self, kept: Kept, down: int = 0) -> list[str]:
        """The ends of a row of a stage, if it is stored, and what lies beyond them."""
        if not isinstance(kept.stage, State) or self.edges is None:
            return []
        made, first = self.made(kept, down), self.first(kept)
        place, arrays = self.place(kept, made), self.edges.arrays
        rows = [((self.names[n], place, first), arrays[n].absent) for n in kept.stage.names]
        beyond = self._beyond(kept, -1, f"row({{}}, {place})", first)
        return [*self._absent(rows, made), *beyond]

    def _absent(
        self, rows: Sequence[tuple[tuple[str, str, int], Absent | None]], place: Offset
    ) -> list[str]:
        """Write the ends of rows, and rows at the ends.

        A row is told by its array, where it is in that, and the element of its column 0.
        """
        lines: list[str] = []
        # The first axis decides at a corner: its ends are written last.
        for axis in self.edges.axes if self.edges else ():
            calls: list[str] = []
            n = self.length(axis)
            for row, one in rows:
                if one is None:
                    continue
                source, (array, where, at) = row, row
                if one.before:
                    kept = self.by_name[one.before]
                    source = self.names[one.before], self.place(kept, place), self.first(kept)
                # A whole row is written from its first element on.
                skipped = 0 if axis == -1 else at
                own = _row_text(array, where, str(at - skipped))
                others = _row_text(*source[:2], str(source[2] - skipped))
                low, high = one.reach.sides[axis]
                for end, far in ((1, high), (0, low)):
                    test, span = "", f"max(0, {n} - {far}), {n}" if end else f"0, min({far}, {n})"
                    if axis != -1:
                        index = plus(self.indices[axis + 1], place[axis + 1])
                        test = f"{index} >= {n} - {far}" if end else f"{index} < {far}"
                        span = f"0, {own}.size"
                    told = f"ends{-axis}_{one.border}[{end}], constant{one.constant}[0]"
                    call = f"absent({own}, {others}, {span}, {told})"
                    calls += _where(test, [call] * (far > 0))
            lines += _where(f"ended{-axis}", calls)
        return lines

    def _beyond(self, kept: Kept, axis: int, array: str, at: int, turn: str = "") -> list[str]:
        """Write what lies beyond the ends of an axis, whose first element is `at`.

        Of planes and rows that are kept in turn, those that are known by the `turn` of one.
        """
        if not isinstance(kept.stage, State) or self.edges is None:
            return []
        low, high = (end[axis] for end in self.ends[kept.stage.names[0]])
        lines, n = list[str](), self.length(axis)
        for name in kept.stage.names:
            beyond = self.edges.arrays[name].beyond
            if beyond is None:
                continue
            head = f"beyond({array.format(self.names[name])}, {at}, "
            tail = f", ends{-axis}_{beyond[0]}, constant{beyond[1]}[0])"
            before = [f"for k in range({low}, 0):", f"    {head}k, k{tail}"] * (low < 0)
            after = [f"for k in range({high}):", f"    {head}{n} + k, k{tail}"] * (high > 0)
            if turn:
                before = _where(f"{turn} == min({-low}, {n} - 1)", before)
                one = [f"{head}{turn}, {turn} - {n}{tail}"] * (high > 0)
                after = _where(f"{n} <= {turn} < {n} + {high}", one)
            lines += [*before, *after]
        return _where(f"ended{-axis}", lines)

    def _call(
        self,
        function: RowFunction,
        row: Offset,
        start: Sequence[Sum],
        results: Sequence[str],
        columns: str,
    ) -> str:
        """Call a row function for the columns from `start` on of the row that is `row` away."""
        given = {"n": columns}
        given |= {f"o{k}": one for k, one in enumerate(results)}
        given |= {index: plus(index, step) for index, step in zip(self.indices, row, strict=True)}
        for label, source in function.rows.items():
            at = tuple(a + b for a, b in zip(row, source.offset, strict=True))
            low, kept = {"": source.column}, self.by_name.get(source.source)
            if kept is not None:
                first = sum_text((*start, low, {"": self.first(kept)}))
                place = self.place(kept, at)
            else:
                first = sum_text((*start, low, self.on("before", -1, -self.reach.lo[-1])))
                place = as_tuple(["b", *self.at(at)])
            first = "0" if source.source in self.constant else first
            given[label] = _row_text(self.names[source.source], place, first)
        arguments = [given.get(name, name) for name in function.parameters]
        return f"{function.name}({', '.join(arguments)})"


def _row_text(array: str, place: str, first: str) -> str:
    """A row from an element on."""
    return f"row({array}, {place})" if first == "0" else f"row_from({array}, {place}, {first})"


def _where(test: str, lines: list[str]) -> list[str]:
    """Lines, if there are any, that are done where a test holds; everywhere if there is none."""
    return [f"if {test}:", *indented(lines)] if test and lines else lines
