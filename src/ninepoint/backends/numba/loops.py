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
of every point: what lies beyond the borders was put there before (see `arrays`).

Only a chain of calls, or of steps, follows the border's rule itself, between them:

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

Where results are made at every other point, `i` and `j` are points all the same:

    for i in range(0, 2 * out0.shape[1] - 1, 2):         # no row of a stage outlives its turn
        v0_row(...)
        band_row(..., row(out0, (b, i // 2)), n)

    for i in range(-1, 2 * out0.shape[1] - 1):           # rows of stages roll
        v0_row(...)
        if i >= 0 and i % 2 == 0:
            band_row(..., row(out0, (b, i // 2)), n)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from ...analysis.footprint import watched
from ...analysis.ranges import ranges
from ...language.ir import Atom, Body, added
from ...lowering.rolling import Kept, together
from ..compiled import Module
from ..llvm import library
from .points import indented, plus
from .rows import WORD, Layout, RowFunction, as_tuple, row_function

# What text may call.
LIBRARY = vars(library).keys() - {"np", "math"}


class Loops(Layout):
    """The module of a kernel: functions of rows, and the loops that call them.

    The results are already in their storage types; they are stored as `dtypes`, without which they
    are stored as they are computed.  A chain has `edges`, whose tables it is given between its
    coefficients and its scalars.
    """

    def module(self, title: str, *, fastmath: bool = False) -> Module:
        """Write it."""
        # The row functions, each of them once.
        self._written = dict[str, RowFunction]()
        self.functions = [
            self._function(one, "row", one.stage.body, one.stage.values) for one in self.stages
        ]
        # Those that make several rows; None where one row after the other is better.
        stages = self.stages if self.kernel.rows > 1 else ()
        self.several = [self._rows_at_once(one) for one in stages]
        looks = watched(self.kernel)
        parameters = [
            *dict(self.kernel.fields),
            *self.result.stage.names,
            *self.coefficients,
            *dict(self.edges.tables),
            *self.scalars,
            *["notes"] * looks,
        ]
        lines, how = list[str](), "fastmath=True" if fastmath else ""
        for function in self._written.values():
            lines += ["", "", *function.constants] if function.constants else []
            head = f"def {function.name}({', '.join(function.parameters)}):"
            lines += ["", "", f"@row_function({how})", head, *indented(function.body)]
        lines += ["", "", f"def band({', '.join(parameters)}):", *indented(self._band()), ""]
        used = set(WORD.findall("\n".join(lines)))
        first = [
            f'"""{title}: written by ninepoint; changes made here are lost."""\n',
            *["import math\n"] * ("math" in used),
            *["import numpy as np\n"] * ("np" in used),
            "from ninepoint.backends.llvm.library import (",
            *(f"    {name}," for name in sorted(LIBRARY & used)),
            ")",
        ]
        kept = sum(one.count * self.item_size(name) for name, one in self.by_name.items())
        text = "\n".join([*first, *lines])
        return Module(text, kept, looks, tuple(self.places), self.converts)

    # The functions that make a row.

    def _rows_at_once(self, kept: Kept) -> RowFunction | None:
        """Several rows of a stage or of the result."""
        stage = kept.stage
        prefix = f"{stage.names[0]}_a"
        written, _ = together(replace(self.kernel, body=stage.body, outputs=stage.values), prefix)
        if written is None or kept in self.alike:
            return None
        self.known |= ranges(written)
        return self._function(kept, "rows", written.body, written.outputs)

    def _function(self, kept: Kept, word: str, body: Body, values: Sequence[Atom]) -> RowFunction:
        """What makes one row of a stage or of the result, or several; its name ends so.

        Under the name of one that does the same if there is one already, the same but for names:
        the steps of an iteration differ in nothing else.
        """
        function = row_function(self, kept, word, body, values)
        known = dict[str, str]()

        def anonymous(word: re.Match[str]) -> str:
            name = word.group()
            if name in LIBRARY or name[-1] not in "_0123456789":
                return name
            return known.setdefault(name, f"_{len(known)}")

        lines = (", ".join(function.parameters), *function.constants, *function.body)
        first = self._written.setdefault(WORD.sub(anonymous, "\n".join(lines)), function)
        return replace(function, name=first.name)

    # The loops over rows, or over planes and their rows.

    def _band(self) -> Iterator[str]:
        yield "n = out0.shape[-1]"
        for axis in self.edges.axes:
            # 1 where the array goes on, which it does for all borders or for none.
            ends = f"ends{-axis}_{self.edges.borders[0]}"
            yield f"before{-axis} = 1 if {ends}[0] == 0 else 0"
            yield f"after{-axis} = 1 if {ends}[1] == 0 else 0"
        yield from self.buffers()
        for function in self.functions:
            for name, room in function.buffers.items():
                yield f"{name} = {room}"
        turns = self._turn()
        if self.several:
            turns = self._in_turns(turns)
        elif self.warm:
            # A turn for each plane, or row, of the result, and for those before the first.
            stop = plus(*self.points(self.axis))
            turns = [f"for {self.turn} in range({-self.warm}, {stop}):", *indented(turns)]
        elif self.outer:
            turns = self._over(self.axis, turns)
        for axis in reversed(range(-self.kernel.ndim, self.axis)):
            turns = self._over(axis, turns)
        yield "for b in range(out0.shape[0]):"
        yield from indented(turns)

    def _over(self, axis: int, lines: list[str]) -> list[str]:
        """Lines for each of the results along an axis."""
        stop, step = plus(*self.points(axis)), self.every[axis]
        limits = f"0, {stop}, {step}" if step > 1 else stop
        return [f"for {self.indices[axis + 1]} in range({limits}):", *indented(lines)]

    def _in_turns(self, turn: list[str]) -> list[str]:
        """Turns of several rows, and single ones before these and after."""
        count, length = self.kernel.rows, self.length(-2)
        before = [f"for i in range({-self.warm}, 0):", *indented(turn)] if self.warm else []
        # So many rows before the last one some stage has none to make.
        ended = max(kept.high[-2] - self.ended(kept, -2, True) for kept in self.stages)
        many = f"max(0, {plus(length, -ended)})" if ended else length
        return [
            *before,
            f"many = {many} // {count} * {count}",
            f"for i in range(0, many, {count}):",
            *indented(self._turn(count)),
            f"for i in range(many, {length}):",
            *indented(turn),
        ]

    def _turn(self, rows: int = 1) -> list[str]:
        """One plane of each stage after the other, and of the result; where rows roll, one row.

        Or several rows at once, which each stage has.
        """
        several = self.several if rows > 1 else [None] * len(self.functions)
        lines = list[str]()
        for kept, function, many in zip(self.stages, self.functions, several, strict=True):
            lines += self._row(kept, many, rows=rows) if many else []
            count = 1 if kept in self.alike else rows
            for down in range(count):
                at = plus(self.turn, kept.high[self.axis] + down) if self.turn else ""
                row = [] if many else self._row(kept, function, down)
                test = self._there(kept, at) if count == 1 else ""
                plane = self._plane([*row, *self._ends_of(kept, down)], kept)
                lines += [f"if {test}:", *indented(plane)] if test and plane else plane
                if at:
                    lines += self._beyond(kept, self.axis, "{}", -kept.low[self.axis], at)
        return lines

    def _there(self, kept: Kept, at: str) -> str:
        """Where a turn makes a plane of a stage, or a row: a condition, empty for everywhere."""
        if not self.turn:
            return ""
        if kept in self.alike:
            # Once for all.
            first, _ = self.limits(kept, self.axis)
            return " and ".join([*(f"{one} == 0" for one in self.outer[:-1]), f"{at} == {first}"])
        begin = kept.low[self.axis] - kept.high[self.axis]
        tests = [f"{self.turn} >= {begin}"] * (begin > -self.warm)
        if kept is self.result:
            every = self.every[self.axis]
            tests += [f"{self.turn} % {every} == 0"] * (every > 1 and self.warm > 0)
        elif self.edges.axes:
            first, stop = self.limits(kept, self.axis)
            tests = [f"{first} <= {at} < {stop}"]
        return " and ".join(tests)

    def _plane(self, lines: list[str], kept: Kept) -> list[str]:
        """Lines for a row, done for all rows of a plane; where rows roll, for the one row."""
        for axis in reversed(range(self.axis + 1, -1)):
            if kept is self.result:
                lines = self._over(axis, lines)
                continue
            first, stop = self.limits(kept, axis)
            head = f"for {self.indices[axis + 1]} in range({first}, {stop}):"
            lines = [head, *indented(lines)]
            if axis == -2:
                plane = ", ".join(self.plane(kept, self.made(kept)))
                lines += self._beyond(kept, -2, f"{{}}[{plane}]", -self.low[-2])
        return lines

    def _row(self, kept: Kept, function: RowFunction, down: int = 0, rows: int = 1) -> list[str]:
        """Make one row of a stage or of the result, so many `down`, or several at once."""
        start = self.ends_at(kept, -1, False)
        first = plus(*start, self.first(kept))
        places = [self.made(kept, down + k) for k in range(rows)]
        results = [
            _row_text(name, self.place(kept, place), first)
            for place in places
            for name in kept.stage.names
        ]
        row = places[0]
        given = {"n": self.columns(kept), **{f"o{k}": one for k, one in enumerate(results)}}
        given |= {index: plus(index, step) for index, step in zip(self.indices, row, strict=True)}
        for (name, offset), (label, column) in function.rows.items():
            at, source = added(row, offset), self.by_name.get(name)
            more = self.first(source) if source else self.on("before", -1, -self.reach.lo[-1])
            place = self.place(source, at) if source else as_tuple(["b", *self.at(at)])
            begin = "0" if name in self.constant else plus(*start, column, more)
            given[label] = _row_text(name, place, begin)
        arguments = [given.get(name, name) for name in function.parameters]
        return [f"{function.name}({', '.join(arguments)})"]

    # What the border's rule asks for.

    def _ends_of(self, kept: Kept, down: int = 0) -> Iterator[str]:
        """The ends of a row of a stage, if it is stored, and what lies beyond them.

        A row at an end of another axis is written as a whole.
        """
        row = self.made(kept, down)
        # The first axis decides at a corner: its ends are written last.
        for axis, array in product(self.edges.axes, kept.stage.names):
            one = self.edges.absent.get(array)
            if not one or not any(one.reach.sides[axis]):
                continue
            arrays = [(array, kept)] * 2
            if one.before:
                arrays[1] = one.before, self.by_name[one.before]
            # A whole row is written from its first element on.
            skipped = 0 if axis == -1 else self.first(kept)
            given = [
                _row_text(name, self.place(stage, row), str(self.first(stage) - skipped))
                for name, stage in arrays
            ]
            word = "absent"
            if axis != -1:
                word = "absent_row"
                given.append(plus(self.indices[axis + 1], row[axis + 1]))
            low, high = one.reach.sides[axis]
            ends = f"ends{-axis}_{one.border}, constant{one.constant}[0]"
            yield f"{word}({', '.join(given)}, {low}, {high}, {self.length(axis)}, {ends})"
        yield from self._beyond(kept, -1, f"row({{}}, {self.place(kept, row)})", self.first(kept))

    def _beyond(self, kept: Kept, axis: int, array: str, at: int, turn: str = "") -> Iterator[str]:
        """Write what lies beyond the ends of an axis, whose first element is `at`.

        Of planes and rows that are kept in turn, those that are known by the `turn` of one.
        """
        for name in kept.stage.names:
            if name not in self.edges.beyond:
                continue
            low, high = (end[axis] for end in self.ends[name].ends)
            border, constant = self.edges.beyond[name]
            rows = f"{array.format(name)}, {at}"
            ends = (
                f"{low}, {high}, {self.length(axis)}, ends{-axis}_{border}, constant{constant}[0]"
            )
            if low < 0 or high > 0:
                call = f"beyond_in_turn({rows}, {turn}," if turn else f"beyond({rows},"
                yield f"{call} {ends})"


def _row_text(array: str, place: str, first: str) -> str:
    """A row from an element on."""
    more = "" if first == "0" else f", {first}"
    return f"row({array}, {place}{more})"
