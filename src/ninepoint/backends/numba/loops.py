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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import assert_never

import numpy as np

from ...analysis.control import watched
from ...analysis.ranges import ranges
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
from ...lowering.kept import Kept, columns_of, full, height, parts
from ...lowering.machine import machine_type
from ..generated import Module
from .bands import Band
from .expressions import as_tuple
from .ranks import histogram_function, in_bins, selecting_function
from .rows import RowFunction, Source, row_function
from .turns import AHEAD, NEAR, one_by_one
from .window_loops import indented, plus


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


class _Writer(Band):
    def __init__(
        self, kernel: Kernel, reach: Box, together: Kernel | None, dtypes: Sequence[np.dtype]
    ) -> None:
        super().__init__(kernel, reach)
        # What slides along rows knows elements as they are computed with.
        self.converts = not any(isinstance(stage, Histogram) for stage in kernel.stages)
        self.dtypes = dtypes
        shorts = [short(dtype) for dtype in dtypes] if self.converts else []
        self.stores = tuple(one.store if one else "" for one in shorts)
        self.together = together
        # Where reads stand that may be outside of their neighborhood.
        self.places: list[str] = []
        self.every = kernel.every or (1,) * kernel.ndim
        # The columns that are made of stages of which not all are.
        self.parts = parts(kernel)
        # Whether every plane of the axis down which stages roll has a turn.
        self.rolls = any(one.count > 1 or isinstance(one.stage, RunningSum) for one in self.kept)
        self.turns = _planes(kernel, self.kept, self.every)

    def module(self, title: str, fastmath: bool) -> Module:
        kernel = self.kernel
        every = self.every[-1]
        final = self._function("band_row", kernel.body, kernel.outputs, 0, every=every, last=True)
        many = self._several()
        # Those that make a row of each stage, and of the result; and those that make several.
        self.functions = [tuple(map(self.once, self._stage_functions(one))) for one in self.kept]
        self.final = self.once(final)
        self.several = [None if one is None else self.once(one) for one in many]
        band = self._band()
        looks = watched(kernel)
        text = self.text(title, fastmath, band, notes=looks)
        return Module(
            text, self.warm, self.bytes_kept, looks, tuple(self.places), shorts=self.converts
        )

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
        self.expressions.types[name] = self.stage_type(name)
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
            n: Source(self.names[n], self.stage_type(n), kept.low[-1], self.parts.get(n, ()))
            for n, kept in self.by_name.items()
        }
        # The results of several rows: those of the first row first.
        stores = self.stores * (len(values) // len(self.kernel.outputs)) if last else ()
        return row_function(
            name, body, values, column, sources, self.kernel, self.names, self.expressions,
            self.reach, held, every, tail, stores, self.places,
        )  # fmt: skip

    def stage_type(self, name: str) -> str:
        stage = self.by_name[name].stage
        value = stage.values[stage.names.index(name)]
        return machine_type(value.dtype, self.known[name])

    # The loops over rows, or over planes and their rows.

    def _band(self) -> list[str]:
        lines = ["n = out0.shape[out0.ndim - 1]"]
        if self.every[-1] > 1 and any(one.stage.names[0] not in self.parts for one in self.kept):
            lines.append(f"whole = {self._points('n', -1)}")
        for kept in self.kept:
            for name in kept.stage.names:
                columns = self._columns(kept, int(self._longer(kept) > 0))
                width = f"padded({columns}, {self.item_size(name)})"
                apart = [str(n)] if (n := self._count(name)) > 1 else []
                shape = [str(kept.count), *self._lengths(kept), *apart, width]
                machine = self.stage_type(name)
                lines.append(
                    f"{self.names[name]} = np.empty(({', '.join(shape)}), dtype=np.{machine})"
                )
        for function in (*(one for group in self.functions for one in group), self.final):
            for buffer, count, machine in function.buffers:
                new = "zeros" if buffer in function.cleared else "empty"
                lines.append(f"{buffer} = np.{new}({count}, dtype=np.{machine})")
        lines.append("for b in range(out0.shape[0]):")
        outer = self.outer[:-1] if self.several else self.outer
        for axis, index in enumerate(outer):
            rolls = self.warm and index == outer[-1] and not self.several
            start = f"{-self.warm}, " if rolls else ""
            lines += indented(self._loop(axis, f"out0.shape[{axis + 1}]", start), axis + 1)
        made = self._rows_together() if self.several else self._turn()
        return lines + indented(made, len(outer) + 1)

    def _rows_together(self) -> list[str]:
        """Several rows in each turn, and what remains one by one."""
        count, height = (self.together or self.kernel).rows, self.length(-2)
        lines: list[str] = []
        if self.warm:
            lines.append(f"for i in range({-self.warm}, 0):")
            lines += indented(self._turn(result=False))
        together = f"{height} // {count} * {count}"
        fetched: list[str] = []
        if alone := one_by_one(self.kernel, self.together, self.dtypes):
            lines.append(f"far = out0.nbytes >= {NEAR}")
            together = f"0 if {alone} else {together}"
        elif self.several[-1] is not None:
            fetched = self._fetched(self.several[-1], count)
        lines.append(f"many = {together}")
        lines.append(f"for i in range(0, many, {count}):")
        lines += indented(fetched)
        # Rows that are made together in another way take nothing from stages.
        stages = (
            () if self.together else zip(self.kept, self.functions, self.several, strict=False)
        )
        for kept, (single,), many in stages:
            lines += indented(self._each(single, many, count, kept))
        lines += indented(self._each(self.final, self.several[-1], count, None))
        lines.append(f"for i in range(many, {height}):")
        return lines + indented(self._turn(warm=True))

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
        self, single: RowFunction, many: RowFunction | None, count: int, kept: Kept | None
    ) -> list[str]:
        """Calls that make so many rows of a stage or of the result: one for all, or for each."""
        columns = self._columns(kept) if kept else "n"
        made = self._made(kept) if kept else (0,) * len(self.indices)
        places = [self._down(made, row) for row in range(count)]
        targets = [self._targets(kept, place) for place in places]
        if many is not None:
            return [self._call(many, made, columns, [one for row in targets for one in row])]
        pairs = zip(places, targets, strict=True)
        return [self._call(single, place, columns, row) for place, row in pairs]

    def _targets(self, kept: Kept | None, place: Offset, part: int = 0) -> list[str]:
        """Where a row of a stage, or of the result, goes that is `place` from the result's."""
        if kept is None:
            index = [plus(*one) for one in zip(self._result(), place, strict=False)]
            return [f"row({out}, {as_tuple(['b', *index])})" for out in self.outs]
        at = self._place(kept, place, part)
        return [f"row({self.names[name]}, {at})" for name in kept.stage.names]

    @staticmethod
    def _down(place: Offset, rows: int) -> Offset:
        return (*place[:-1], place[-1] + rows)

    def _lengths(self, kept: Kept | None = None) -> list[str]:
        """How long a stage is, or the result, along the axes after that which it rolls down."""
        lengths = []
        for axis in range(self.axis + 1, -1):
            length = self.length(axis)
            if kept is not None:
                length = self._points(length, axis)
            lengths.append(plus(length, kept.high[axis] - kept.low[axis] if kept else 0))
        return lengths

    def _up_to(self, kept: Kept) -> str:
        """Up to which row a stage is made, counted as those of the result."""
        if self.kernel.ndim == 1:
            return "1"
        return plus(self._points(self.length(-2), -2), kept.high[-2])

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

    def _loop(self, axis: int, length: str, start: str = "") -> list[str]:
        """A loop over the results along an axis, which tells at which point each is made.

        Where planes roll it goes over all points.
        """
        index, step = self.indices[axis], self.every[axis]
        if step > 1 and not self._rolls(axis):
            return [f"for q{axis} in range({length}):", f"    {index} = {step} * q{axis}"]
        return [f"for {index} in range({start}{self._points(length, axis)}):"]

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

    def _turn(self, result: bool = True, warm: bool = False) -> list[str]:
        """What is done for one plane of the result: one of every stage, then its own.

        There may be no `result` yet; when `warm`, all planes before are there.
        """
        steps: list[tuple[str, list[str]]] = []
        for kept, group in zip(self.kept, self.functions, strict=True):
            made = self._made(kept)
            count = self._count(kept.stage.names[0])
            rows = [row for part in range(count) for row in self._targets(kept, made, part)]
            made = (*made[:-1], made[-1] + height(kept.stage) - 1)
            calls = [self._call(one, made, self._columns(kept), rows) for one in group]
            first = -self.warm if warm else kept.low[self.axis] - kept.high[self.axis]
            if isinstance(kept.stage, RunningSum):
                steps.append(("", self._run(kept.stage, calls)))
            elif result or first < 0:
                steps.append((self._from(first, self._some(kept)), self._rows(calls[0], kept)))
        if result:
            here = (0,) * max(1, len(self.indices))
            axis = self.kernel.ndim + self.axis
            some = ""
            if self.rolls and self._rolls(axis):
                some = f"{self.indices[axis]} % {self.every[axis]} == 0"
            made_rows = self._rows(self._call(self.final, here, "n", self._targets(None, here)))
            steps.append((self._from(-self.warm if warm else 0, some), made_rows))
        lines: list[str] = []
        for condition, several in groupby(steps, key=lambda step: step[0]):
            done = [line for _, part in several for line in part]
            lines += [f"if {condition}:", *indented(done)] if condition else done
        return lines

    def _from(self, first: int, some: str) -> str:
        """For which planes something is done, where not for all: some of those from the first on.

        No condition is needed where the loop begins at that plane.
        """
        if first == -self.warm:
            return some
        index = self.indices[self.axis + 1 if self.axis < -1 else -1]
        return f"{index} >= {first} and ({some})" if some else f"{index} >= {first}"

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

    def _made(self, kept: Kept) -> Offset:
        """Where a stage's row of this turn is, relative to the result's: in its last plane."""
        before = len(kept.low) + self.axis
        return (*(0,) * before, kept.high[self.axis], *kept.low[before + 1 : -1])

    def _rows(self, call: str, kept: Kept | None = None) -> list[str]:
        """A call for every row of a plane; where rows roll, for the one row."""
        inner = self.indices[len(self.indices) + self.axis + 2 :] if self.axis < -2 else []
        lines: list[str] = []
        for depth, (index, length) in enumerate(zip(inner, self._lengths(kept), strict=True)):
            made = [f"for {index} in range({length}):"]
            if kept is None:
                made = self._loop(self.indices.index(index), length)
            lines += indented(made, depth)
        return [*lines, *indented([call], len(inner))]

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

    def _place(self, kept: Kept, row: Offset, part: int = 0) -> str:
        """Where a stage keeps the row that is `row` from the result's."""
        inner = range(self.axis + 1, -1)
        apart = [str(part)] if self._count(kept.stage.names[0]) > 1 else []
        return as_tuple(
            [
                self.ring(kept, row),
                *(plus(self.indices[k + 1], row[k + 1] - kept.low[k]) for k in inner),
                *apart,
            ]
        )

    def _index(self, row: Offset) -> list[str]:
        """The index of the row of a field that is `row` from the result's."""
        steps = [a - low for a, low in zip(row, self.reach.lo[:-1], strict=False)]
        return [plus(i, step) for i, step in zip(self.indices, steps, strict=True)]

    def _call(self, function: RowFunction, row: Offset, columns: str, results: list[str]) -> str:
        """Call a row function for the row of what it makes that is `row` from the result's."""
        rows: list[str] = []
        for source, offset, part in function.rows:
            at = tuple(a + b for a, b in zip(row, offset or (0,), strict=True))
            kept = self.by_name.get(source)
            place = as_tuple(["b", *self._index(at)])
            if kept is not None:
                place = self._place(kept, at, part)
            rows.append(f"row({self.names[source]}, {place})")
        return self.call(function, rows, row, results, columns)


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


def _moved(offset: Offset, rows: int) -> Offset:
    return (*offset[:-2], offset[-2] + rows, offset[-1])
