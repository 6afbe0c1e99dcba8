"""Loops: the text of a module that computes a kernel at every point of a block.

    def band_rows(x_0, x_1, x_2, o0, n):          # one row: this is what LLVM vectorises
        for j in range(n): ...

    def band(x, out0):                            # (stack, rows + 2, columns + 2)
        for b in range(out0.shape[0]):
            for i0 in range(out0.shape[1]):
                band_rows(row(x, (b, i0)), row(x, (b, i0 + 1)), ..., row(out0, (b, i0)), n)

A stage has a function of its own, and a buffer that holds as many of its rows as are read at
once; row i of the result is made right after the last row of each stage that it needs.  The
block holds every neighbour of every point: borders are somebody else's.  Offsets are counted
from the lowest, so that no index is ever negative.

Where results are made at every other point, `i` and `j` are points all the same, and results have
indices of their own:

    for q0 in range(out0.shape[1]):           # no row of a stage outlives its turn
        i = 2 * q0

    for i in range(-1, 2 * out0.shape[1] - 1):           # rows of stages roll, those that are read
        if (i + 1) % 2 == 0:
            v0_row(...)
        if i >= 0 and i % 2 == 0:
            band_row(..., row(out0, (b, i // 2)), n)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from ...analysis.control import watched
from ...analysis.ranges import Interval, ranges
from ...language.box import Box
from ...language.dtypes import computed, short
from ...language.ir import (
    Assign,
    Atom,
    Binary,
    Histogram,
    Kernel,
    Offset,
    Read,
    Ref,
    RunningSum,
    State,
    Values,
    renamed,
)
from ...lowering.abreast import abreast, worthwhile
from ...lowering.kept import (
    Kept,
    columns_of,
    full,
    height,
    kept_stages,
    parts,
    rolling_axis,
)
from ...lowering.machine import machine_type
from ..backend import Module
from .control import NOTES
from .histograms import histogram_function, in_bins
from .names import LIBRARY, RESERVED, as_tuple, kernel_expressions, kernel_names
from .rows import RowFunction, Source, row_function
from .selecting import selecting_function
from .tables import is_table
from .turns import AHEAD, NEAR, one_by_one
from .window_loops import plus

# A name that is not an attribute.
_NAME = re.compile(r"(?<![\w.])\w+")


def heading(title: str, text: str, names: Mapping[str, Sequence[str]]) -> list[str]:
    """The first lines of a generated module: imports of what `text` uses.

    `names` are those that it may use of each module.
    """
    used = set(_NAME.findall(text))
    lines = [f'"""{title}"""', ""]
    if "math" in used:
        lines += ["import math", ""]
    if "np" in used:
        lines += ["import numpy as np", ""]
    for module, known in names.items():
        if listed := ",\n    ".join(name for name in known if name in used):
            lines.append(f"from ninepoint.backends.{module} import (\n    {listed},\n)")
    return [*lines, ""]


def whole_text(title: str, lines: Sequence[str]) -> str:
    """The text of a module, of which `lines` come after the imports."""
    text = "\n".join(lines[1:]) + "\n"
    title += ": written by ninepoint; changes made here are lost."
    return "\n".join([*heading(title, text, {"llvm.library": LIBRARY}), text])


def module(
    kernel: Kernel,
    title: str,
    reach: Box,
    together: Kernel | None = None,
    *,
    fastmath: bool = False,
    dtypes: Sequence[np.dtype] = (),
) -> Module:
    """Write the loops of a kernel, whose outputs are already in their storage types.

    `together` is the same kernel, with several rows made at once where an array gains by it.
    The outputs are stored as `dtypes`, without which they are stored as they are computed.
    """
    return _Writer(kernel, reach, together, dtypes).module(title, fastmath)


class _Writer:
    def __init__(
        self, kernel: Kernel, reach: Box, together: Kernel | None, dtypes: Sequence[np.dtype]
    ) -> None:
        self.kernel = kernel
        # What slides along rows knows elements as they are computed with.
        self.converts = not any(isinstance(stage, Histogram) for stage in kernel.stages)
        self.dtypes = dtypes
        shorts = [short(dtype) for dtype in dtypes] if self.converts else []
        self.stores = tuple(one.store if one else "" for one in shorts)
        self.together = together
        self.reach = reach
        self.known: dict[str, Interval] = ranges(kernel)
        self.names = {**kernel_names(kernel), NOTES: "notes"}
        self.watched = watched(kernel)
        # Where reads stand that may be outside of their neighborhood.
        self.places: list[str] = []
        self.expressions = kernel_expressions(kernel, self.known, self.names)
        # Of a turn that makes several rows each stage keeps as many more.
        more = kernel.rows - 1
        self.kept = tuple(replace(one, count=one.count + more) for one in kept_stages(kernel))
        self.axis = rolling_axis(kernel)
        # The names of the indices along all axes but the last.
        self.indices = [*(f"i{axis}" for axis in range(kernel.ndim - 2)), "i"][: kernel.ndim - 1]
        self.by_name = {name: kept for kept in self.kept for name in kept.stage.names}
        self.constant = constant_in_rows(kernel)
        self.every = kernel.every or (1,) * kernel.ndim
        # The columns that are made of stages of which not all are.
        self.parts = parts(kernel)
        # Whether every plane of the axis down which stages roll has a turn.
        self.rolls = any(one.count > 1 or isinstance(one.stage, RunningSum) for one in self.kept)
        self.turns = _planes(kernel, self.kept, self.every)

    def module(self, title: str, fastmath: bool) -> Module:
        kernel = self.kernel
        outs = [f"out{k}" for k in range(len(kernel.outputs))]
        every = self.every[-1]
        final = self._function("band_row", kernel.body, kernel.outputs, 0, every=every, last=True)
        many = self._several()
        written: dict[tuple[str, ...], RowFunction] = {}
        functions = [
            tuple(once(function, written) for function in self._stage_functions(kept))
            for kept in self.kept
        ]
        final = once(final, written)
        several = [None if one is None else once(one, written) for one in many]
        fields = tuple(n for n, _ in kernel.fields)
        coefficients = tuple(n for n, *_ in kernel.coefficients)
        scalars = tuple(n for n, _ in kernel.scalars)
        arguments = [
            *(self.names[n] for n in fields),
            *outs,
            *(self.names[n] for n in (*coefficients, *scalars)),
            *["notes"] * self.watched,
        ]
        lines = function_lines(written.values(), fastmath=fastmath)
        if tables := self.expressions.tables.lines():
            lines += ["", "", *tables]
        lines += ["", "", f"def band({', '.join(arguments)}):"]
        lines += ["    " + line for line in self._band(functions, final, several, outs)]
        text = whole_text(title, lines)
        rows = sum(
            kept.count * self._item_size(name) for kept in self.kept for name in kept.stage.names
        )
        return Module(
            text, self.warm, rows, self.watched, tuple(self.places), shorts=self.converts
        )

    @property
    def warm(self) -> int:
        return max((kept.warm for kept in self.kept), default=0)

    # Functions of one row.

    def _stage_functions(self, kept: Kept) -> tuple[RowFunction, ...]:
        """The function that makes a row; for a running sum there are two."""
        stage, column = kept.stage, kept.low[-1]
        name = f"{self.names[stage.names[0]]}_row"
        match stage:
            case Values():
                made = self.parts.get(stage.names[0], (0,))
                body, values, origins = columns_of(stage.body, stage.values, made)
                self.known |= {name: self.known[first] for name, first in origins.items()}
                every = self._step(kept)
                longer = self._longer(kept)
                tail = len(stage.body) * longer, len(stage.values) * longer
                return (self._function(name, body, values, column, "", every, tail),)
            case Histogram():
                storage = dict(self.kernel.fields)[stage.read.field]
                fields = {n: self.names[n] for n, _ in self.kernel.fields}
                if in_bins(stage, storage):
                    return (histogram_function(name, stage, storage, fields, self.reach, column),)
                return (self._selecting(name, stage, storage, kept),)
            case RunningSum():
                return self._running(kept, stage, column)
            case State():
                raise AssertionError("states of steps have loops of their own")
            case _:
                assert_never(stage)

    def _selecting(
        self, name: str, stage: Histogram, storage: np.dtype, kept: Kept
    ) -> RowFunction:
        fields = {n: self.names[n] for n, _ in self.kernel.fields}
        every = 1
        if self.axis == -2 and self.kernel.ndim > 1 and len(self.turns[stage.names[0]]) == 1:
            every = self.every[-2]
        return selecting_function(
            name, stage, storage, fields, self.reach, kept.low[-1],
            (self._up_to(kept), self._columns(kept)), every,
        )  # fmt: skip

    def _running(self, kept: Kept, stage: RunningSum, column: int) -> tuple[RowFunction, ...]:
        """The function that adds a row to a sum, and the one that also takes one away."""
        name, body, value = stage.name, stage.body, stage.value
        every = self._step(kept)
        text = self.names[name]
        self.expressions.types[name] = self._stage_type(name)
        before = Ref(value.dtype, name)
        added = Assign(f"{name}_in", Binary(value.dtype, "+", before, value))
        self.known[added.name] = self.known[name]
        sum_in = Ref(value.dtype, added.name)
        # The row that goes: the same operations, on the row before the first.
        out = {a.name: Ref(a.value.dtype, f"{a.name}_out") for a in body}
        leaving = []
        for assign in body:
            one = renamed(assign.value, dict(out))
            if isinstance(one, Read):
                one = replace(one, offset=_moved(one.offset, -stage.rows))
            leaving.append(Assign(f"{assign.name}_out", one))
            self.known[leaving[-1].name] = self.known[assign.name]
        gone = out[value.name] if isinstance(value, Ref) else value
        taken = Assign(f"{name}_next", Binary(value.dtype, "-", sum_in, gone))
        self.known[taken.name] = self.known[name]
        return (
            self._function(f"{text}_add", (*body, added), (sum_in,), column, name, every),
            self._function(
                f"{text}_move",
                (*body, *leaving, added, taken),
                (Ref(value.dtype, taken.name),),
                column,
                name,
                every,
            ),
        )

    def _several(self) -> list[RowFunction | None]:
        """The functions that make several rows at once: of each stage, and of the result.

        None where one row after the other is better.
        """
        if self.together is not None:
            written = abreast(self.together, "r")
            self.known |= ranges(written)
            return [self._function("band_rows", written.body, written.outputs, 0, last=True)]
        if self.kernel.rows == 1:
            return []
        several: list[RowFunction | None] = []
        for kept in self.kept:
            body, values, column = kept.stage.body, kept.stage.values, kept.low[-1]
            name = self.names[kept.stage.names[0]]
            several.append(self._rows_at_once(f"{name}_rows", f"{name}_r", body, values, column))
        body, values = self.kernel.body, self.kernel.outputs
        return [*several, self._rows_at_once("band_rows", "r", body, values, 0, last=True)]

    def _rows_at_once(
        self,
        name: str,
        prefix: str,
        body: tuple[Assign, ...],
        values: tuple[Atom, ...],
        column: int,
        last: bool = False,
    ) -> RowFunction | None:
        """The function of this name, whose operations have names that begin with `prefix`."""
        kernel = replace(self.kernel, body=body, outputs=values)
        if self.kept and not worthwhile(kernel):
            return None
        written = abreast(kernel, prefix)
        self.known |= ranges(written)
        return self._function(name, written.body, written.outputs, column, last=last)

    def _function(
        self,
        name: str,
        body: tuple[Assign, ...],
        values: tuple[Atom, ...],
        column: int,
        held: str = "",
        every: int = 1,
        tail: tuple[int, int] = (0, 0),
        last: bool = False,
    ) -> RowFunction:
        sources = {
            n: Source(
                self.names[n],
                computed(d).name,
                self.reach.lo[-1],
                constant=n in self.constant,
                load=one.load if self.converts and (one := short(d)) else "",
            )
            for n, d in self.kernel.fields
        }
        sources |= {
            n: Source(self.names[n], self._stage_type(n), kept.low[-1], self.parts.get(n, ()))
            for n, kept in self.by_name.items()
        }
        return row_function(
            name, body, values, column, sources, self.kernel, self.names, self.expressions,
            self.reach, held, every, tail, self._stores(len(values)) if last else (), self.places,
        )  # fmt: skip

    def _stores(self, count: int) -> tuple[str, ...]:
        """How the results of so many rows are stored: those of the first row first."""
        return self.stores * (count // len(self.kernel.outputs))

    def _stage_type(self, name: str) -> str:
        stage = self.by_name[name].stage
        value = stage.values[stage.names.index(name)]
        return machine_type(value.dtype, self.known[name])

    # The loops over rows, or over planes and their rows.

    def _band(
        self,
        functions: list[tuple[RowFunction, ...]],
        final: RowFunction,
        several: list[RowFunction | None],
        outs: list[str],
    ) -> list[str]:
        lines = ["n = out0.shape[out0.ndim - 1]"]
        if self.every[-1] > 1 and any(one.stage.names[0] not in self.parts for one in self.kept):
            lines.append(f"whole = {self._points('n', -1)}")
        for kept in self.kept:
            for name in kept.stage.names:
                columns = self._columns(kept, int(self._longer(kept) > 0))
                width = f"padded({columns}, {self._item_size(name)})"
                apart = [str(n)] if (n := self._count(name)) > 1 else []
                shape = [str(kept.count), *self._lengths(kept), *apart, width]
                machine = self._stage_type(name)
                lines.append(
                    f"{self.names[name]} = np.empty(({', '.join(shape)}), dtype=np.{machine})"
                )
        for function in (*(one for group in functions for one in group), final):
            for buffer, count, machine in function.buffers:
                new = "zeros" if buffer in function.cleared else "empty"
                lines.append(f"{buffer} = np.{new}({count}, dtype=np.{machine})")
        lines.append("for b in range(out0.shape[0]):")
        depth = 1
        # A kernel of one axis has no rows that could roll.
        outer = self.indices[: len(self.indices) + self.axis + 2]
        if several:
            outer = outer[:-1]
        for axis, index in enumerate(outer):
            rolls = self.warm and index == outer[-1] and not several
            start = f"{-self.warm}, " if rolls else ""
            length = f"out0.shape[{axis + 1}]"
            made = [f"for {index} in range({start}{length}):"]
            if self._rolls(axis):
                made = [f"for {index} in range({start}{self._points(length, axis)}):"]
            elif self.every[axis] > 1:
                made = self._loop(axis, length)
            lines += ["    " * depth + line for line in made]
            depth += 1
        if several:
            made = self._rows_together(functions, final, several, outs)
            return lines + ["    " * depth + line for line in made]
        made = self._turn(functions, final, outs)
        return lines + ["    " * depth + line for line in made]

    def _rows_together(
        self,
        functions: list[tuple[RowFunction, ...]],
        final: RowFunction,
        several: list[RowFunction | None],
        outs: list[str],
    ) -> list[str]:
        """Several rows in each turn, and what remains one by one."""
        count, (*outer, _) = (self.together or self.kernel).rows, self.indices
        height = f"out0.shape[{len(outer) + 1}]"
        lines: list[str] = []
        if self.warm:
            lines.append(f"for i in range({-self.warm}, 0):")
            lines += ["    " + line for line in self._turn(functions, None, outs)]
        together = f"{height} // {count} * {count}"
        fetched: list[str] = []
        if alone := one_by_one(self.kernel, self.together, self.dtypes):
            lines.append(f"far = out0.nbytes >= {NEAR}")
            together = f"0 if {alone} else {together}"
        elif several[-1] is not None:
            fetched = self._fetched(several[-1], count)
        lines.append(f"many = {together}")
        lines.append(f"for i in range(0, many, {count}):")
        lines += ["    " + line for line in fetched]
        # Rows that are made together in another way take nothing from stages.
        stages = () if self.together else zip(self.kept, functions, several[:-1], strict=True)
        for kept, (single,), many in stages:
            made = [self._down(self._made(kept), row) for row in range(count)]
            results = [
                [f"row({self.names[n]}, {self._place(kept, one)})" for n in kept.stage.names]
                for one in made
            ]
            calls = self._each(single, many, made, self._columns(kept), results)
            lines += ["    " + call for call in calls]
        made = [self._down((0,) * len(self.indices), row) for row in range(count)]
        places = [as_tuple(["b", *outer, plus("i", row)]) for row in range(count)]
        results = [[f"row({out}, {place})" for out in outs] for place in places]
        lines += ["    " + call for call in self._each(final, several[-1], made, "n", results)]
        lines.append(f"for i in range(many, {height}):")
        return lines + ["    " + line for line in self._turn(functions, final, outs, warm=True)]

    def _fetched(self, function: RowFunction, count: int) -> list[str]:
        """Ask for the rows that a turn soon reads as the first one, where arrays are far."""
        newest: dict[str, Offset] = {}
        for source, offset, _ in function.rows:
            if source not in self.by_name and source not in self.constant:
                newest[source] = max(newest.get(source, offset), offset)
        lines: list[str] = []
        for source, offset in newest.items():
            name = self.names[source]
            end = f"{name}.shape[{self.kernel.ndim - 1}] - 1"
            for k in range(AHEAD, AHEAD + count):
                *outer, soon = self._index(self._down(offset, k))
                place = as_tuple(["b", *outer, f"min({soon}, {end})"])
                lines.append(f"    fetch(row({name}, {place}), n)")
        return [f"if out0.nbytes >= {NEAR}:", *lines] if lines else []

    def _each(
        self,
        single: RowFunction,
        many: RowFunction | None,
        made: list[Offset],
        columns: str,
        results: list[list[str]],
    ) -> list[str]:
        """Calls that make these rows: one for all, or one for each."""
        if many is not None:
            return [self._call(many, made[0], columns, [one for row in results for one in row])]
        return [
            self._call(single, one, columns, row) for one, row in zip(made, results, strict=True)
        ]

    @staticmethod
    def _down(place: Offset, rows: int) -> Offset:
        return (*place[:-1], place[-1] + rows)

    def _lengths(self, kept: Kept | None = None) -> list[str]:
        """How long a stage is, or the result, along the axes after that which it rolls down."""
        ndim = self.kernel.ndim
        lengths = []
        for axis in range(self.axis + 1, -1):
            length = f"out0.shape[{ndim + axis + 1}]"
            if kept is not None:
                length = self._points(length, axis)
            lengths.append(plus(length, kept.high[axis] - kept.low[axis] if kept else 0))
        return lengths

    def _up_to(self, kept: Kept) -> str:
        """Up to which row a stage is made, counted as those of the result."""
        if self.kernel.ndim == 1:
            return "1"
        length = f"out0.shape[{self.kernel.ndim - 1}]"
        return plus(self._points(length, -2), kept.high[-2])

    # Points of which some results are not made.

    def _points(self, length: str, axis: int) -> str:
        """How many points so many results span along an axis."""
        step = self.every[axis]
        return length if step == 1 else f"{step} * {length} - {step - 1}"

    def _count(self, name: str) -> int:
        """In how many parts a stage is kept."""
        return len(self.parts.get(name, (0,)))

    def _step(self, kept: Kept) -> int:
        """How far the columns of a row of a stage are from each other."""
        return self.every[-1] if kept.stage.names[0] in self.parts else 1

    def _longer(self, kept: Kept) -> int:
        """How many parts of a stage have one column more than the others."""
        made, step = self.parts.get(kept.stage.names[0], (0,)), self._step(kept)
        least = (kept.wider - made[-1]) // step
        return sum((kept.wider - column) // step > least for column in made)

    def _columns(self, kept: Kept, more: int = 0) -> str:
        """How many columns all parts of a row of a stage have; and so many more."""
        length = "n" if self._step(kept) == self.every[-1] else "whole"
        last = self.parts.get(kept.stage.names[0], (0,))[-1]
        return plus(length, (kept.wider - last) // self._step(kept) + more)

    def _rolls(self, axis: int) -> bool:
        """Whether results are made at some of the planes of an axis that all have a turn."""
        return self.rolls and self.every[axis] > 1 and axis - self.kernel.ndim == self.axis

    def _loop(self, axis: int, length: str) -> list[str]:
        """A loop over the results along an axis, which tells at which point each is made."""
        index = self.indices[axis]
        return [f"for q{axis} in range({length}):", f"    {index} = {self.every[axis]} * q{axis}"]

    def _result(self) -> list[str]:
        """The indices of the row of the result that is made at this point."""
        found = []
        for axis, index in enumerate(self.indices):
            if self._rolls(axis):
                index = f"{index} // {self.every[axis]}"
            elif self.every[axis] > 1:
                index = f"q{axis}"
            found.append(index)
        return found

    def _turn(
        self,
        functions: list[tuple[RowFunction, ...]],
        final: RowFunction | None,
        outs: list[str],
        warm: bool = False,
    ) -> list[str]:
        """What is done for one plane of the result: one of every stage, then its own.

        Without `final` there is no result yet; when `warm`, all planes before are there.
        """
        lines: list[str] = []
        guarded: int | None = None
        for kept, group in zip(self.kept, functions, strict=True):
            made = self._made(kept)
            results = [
                f"row({self.names[n]}, {self._place(kept, made, part)})"
                for part in range(self._count(kept.stage.names[0]))
                for n in kept.stage.names
            ]
            made = (*made[:-1], made[-1] + height(kept.stage) - 1)
            calls = [self._call(one, made, self._columns(kept), results) for one in group]
            if isinstance(kept.stage, RunningSum):
                lines += self._run(kept.stage, calls)
                guarded = None
                continue
            first = -self.warm if warm else kept.low[self.axis] - kept.high[self.axis]
            if final is None and first >= 0:
                continue
            some = self._some(kept)
            if some:
                lines += self._where(self._rows(calls[0], kept), first, some)
                guarded = None
                continue
            guarded = self._add(lines, self._rows(calls[0], kept), first, guarded)
        if final is None:
            return lines
        place = as_tuple(["b", *self._result()])
        results = [f"row({out}, {place})" for out in outs]
        nothing = (0,) * max(1, len(self.indices))
        first = -self.warm if warm else 0
        made_rows = self._rows(self._call(final, nothing, "n", results))
        axis = self.kernel.ndim + self.axis
        if self.rolls and self._rolls(axis):
            return lines + self._where(
                made_rows, 0, f"{self.indices[axis]} % {self.every[axis]} == 0"
            )
        self._add(lines, made_rows, first, guarded)
        return lines

    def _some(self, kept: Kept) -> str:
        """Which planes of a stage are read, where not all are: a condition."""
        axis = self.kernel.ndim + self.axis
        if not self.rolls or not self._rolls(axis):
            return ""
        step, turns = self.every[axis], self.turns[kept.stage.names[0]]
        if len(turns) == step:
            return ""
        plane = plus(self.indices[axis], kept.high[self.axis])
        plane = f"({plane}) % {step}" if " " in plane else f"{plane} % {step}"
        return " or ".join(f"{plane} == {one}" for one in sorted(turns))

    def _where(self, made: list[str], first: int, some: str) -> list[str]:
        """Lines for some planes, from the first on."""
        if first > -self.warm:
            index = self.indices[self.axis + 1 if self.axis < -1 else -1]
            some = f"{index} >= {first} and ({some})"
        return [f"if {some}:", *("    " + line for line in made)]

    def _made(self, kept: Kept) -> Offset:
        """Where a stage's row of this turn is, relative to the result's: in its last plane."""
        before = len(kept.low) + self.axis
        return (*(0,) * before, kept.high[self.axis], *kept.low[before + 1 : -1])

    def _rows(self, call: str, kept: Kept | None = None) -> list[str]:
        """A call for every row of a plane; where rows roll, for the one row."""
        inner = self.indices[len(self.indices) + self.axis + 2 :] if self.axis < -2 else []
        lines: list[str] = []
        depth = 0
        for index, length in zip(inner, self._lengths(kept), strict=True):
            axis = self.indices.index(index)
            made = [f"for {index} in range({length}):"]
            if kept is None and self.every[axis] > 1:
                made = self._loop(axis, length)
            lines += ["    " * depth + line for line in made]
            depth += 1
        return [*lines, "    " * depth + call]

    def _run(self, stage: RunningSum, calls: list[str]) -> list[str]:
        """Add rows until the sum is whole; from then on one comes and one goes."""
        first = 1 - stage.rows
        return [
            f"if i == {first}:",
            f"    {self.names[stage.name]}[:] = 0",
            f"if {first} <= i <= 0:",
            f"    {calls[0]}",
            "elif i > 0:",
            f"    {calls[1]}",
        ]

    def _add(
        self, lines: list[str], made: list[str], first: int, guarded: int | None
    ) -> int | None:
        """Add lines from plane `first` on; `guarded` is that of the guard they may stand under.

        No guard is needed where the loop begins at that plane.
        """
        if first == -self.warm:
            lines += made
            return None
        if first != guarded:
            lines.append(f"if {self.indices[self.axis + 1]} >= {first}:")
        lines += ["    " + line for line in made]
        return first

    def _item_size(self, name: str) -> int:
        return np.dtype(self._stage_type(name)).itemsize

    def _place(self, kept: Kept, row: Offset, part: int = 0) -> str:
        """Where a stage keeps the row that is `row` from the result's."""
        ring = "0"
        if kept.count > 1:
            turn = plus(self.indices[self.axis + 1], row[self.axis + 1] - kept.low[self.axis])
            ring = f"({turn}) % {kept.count}" if " " in turn else f"{turn} % {kept.count}"
        inner = range(self.axis + 1, -1)
        apart = [str(part)] if self._count(kept.stage.names[0]) > 1 else []
        return as_tuple(
            [ring, *(plus(self.indices[k + 1], row[k + 1] - kept.low[k]) for k in inner), *apart]
        )

    def _index(self, row: Offset) -> list[str]:
        """The index of the row of a field that is `row` from the result's."""
        steps = [a - low for a, low in zip(row, self.reach.lo[:-1], strict=False)]
        return [plus(i, step) for i, step in zip(self.indices, steps, strict=True)]

    def _call(self, function: RowFunction, row: Offset, columns: str, results: list[str]) -> str:
        """Call a row function for the row of what it makes that is `row` from the result's."""
        arguments: list[str] = []
        for source, offset, part in function.rows:
            at = tuple(a + b for a, b in zip(row, offset or (0,), strict=True))
            kept = self.by_name.get(source)
            if kept is not None:
                arguments.append(f"row({self.names[source]}, {self._place(kept, at, part)})")
                continue
            arguments.append(f"row({self.names[source]}, {as_tuple(['b', *self._index(at)])})")
        if function.loops:
            arguments += [self.names[n] for n, _ in self.kernel.fields]
            arguments += ["b", *(plus(i, a) for i, a in zip(self.indices, row, strict=False))]
            arguments += [buffer for buffer, _, _ in function.buffers]
        arguments += [*results, columns, *function.given]
        arguments += [self.names[n] for n in function.others]
        return f"{function.name}({', '.join(arguments)})"


def function_lines(functions: Iterable[RowFunction], *, fastmath: bool) -> list[str]:
    """The text of row functions, after a blank line."""
    lines: list[str] = []
    for function in functions:
        options = ["noalias=True"] * function.noalias + ["fastmath=True"] * fastmath
        if function.apart:
            options.append("apart=" + as_tuple([f'"{name}"' for name in function.apart]))
        if function.overlap:
            options.append(f"overlap={function.overlap}")
        constants = ["", "", *function.constants] if function.constants else []
        decorator = f"@row_function({', '.join(options)})"
        lines += [*constants, "", "", decorator, *function.lines]
    return lines


def once(function: RowFunction, written: dict[tuple[str, ...], RowFunction]) -> RowFunction:
    """The function, under the name of one that does the same if there is one already.

    The same but for names: the steps of an iteration differ in nothing else.
    """
    if function.constants or function.buffers:
        written[function.lines] = function
        return function
    known: dict[str, str] = {}

    def anonymous(word: re.Match[str]) -> str:
        name = word.group()
        own = name in RESERVED or is_table(name)
        if name[0].isdigit() or (own and name != function.name):
            return name
        return known.setdefault(name, f"_{len(known)}")

    key = tuple(_NAME.sub(anonymous, line) for line in function.lines)
    first = written.setdefault(key, function)
    return function if first is function else replace(function, name=first.name)


def _planes(kernel: Kernel, kept: Sequence[Kept], every: Offset) -> dict[str, frozenset[int]]:
    """Of each stage the planes that are read, modulo the step between those of the result."""
    if not kept:
        return {}
    axis = kept[0].axis
    step = (1, *every)[axis] if kernel.ndim == 1 else every[axis]
    found: dict[str, set[int]] = {name: set() for one in kept for name in one.stage.names}

    def visit(body: Iterable[Assign], planes: Iterable[int]) -> None:
        for assign in body:
            read = assign.value
            if isinstance(read, Read) and read.field in found:
                offset = full(read.offset)[axis]
                found[read.field] |= {(plane + offset) % step for plane in planes}

    visit(kernel.body, [0])
    for one in reversed(kept):
        planes = set().union(*(found[name] for name in one.stage.names))
        if isinstance(one.stage, RunningSum):
            planes = set(range(step))
        for name in one.stage.names:
            found[name] = planes
        visit(one.stage.body, planes)
    return {name: frozenset(planes) for name, planes in found.items()}


def constant_in_rows(kernel: Kernel) -> frozenset[str]:
    """The fields that are constant along a row: positions along another axis."""
    labels = kernel.fields[len(kernel.fields) - len(kernel.positions) :]
    pairs = zip(labels, kernel.positions, strict=True)
    return frozenset(name for (name, _), one in pairs if one.axis < kernel.ndim - 1)


def _moved(offset: Offset, rows: int) -> Offset:
    return (*offset[:-2], offset[-2] + rows, offset[-1])
