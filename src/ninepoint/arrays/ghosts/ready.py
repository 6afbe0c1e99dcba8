"""Calls with ghosts that are ready: machine code takes the arrays themselves, and thin strips.

    what is there     the fields                       nothing of them is copied but near the ends
    ghosts            strips, computed in each call    in the memory of the commands, behind these

Everything that does not depend on elements and values is settled once (see `arrays.commands`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, cast

from ...backends.compiled import Bound
from ...backends.memory import empty
from ...backends.threads import thread_count
from ..arranging import are_writable
from ..borders import Array, Border, Rule
from ..commands import Part, commands, together
from ..executable import LARGE, SHARES
from ..layout import Layout, layout
from ..numpy import check_values
from ..parts import (
    SPLIT_POINTS,
    are_readable,
    divided,
    has_movable_zones,
    images_together,
    is_readable,
    is_shared,
    itemsize_of,
    machine_of,
    note_pace,
)
from ..shells import Shell
from .sides import CONDITION, Geometry, Sides
from .strips import Strips


class Ready:
    """Calls of a program on fields of one shape, whose core axes come last."""

    def __init__(
        self,
        program: Bound,
        plan: Layout,
        cval: Any,
        shape: tuple[int, ...],
        threads: int | None,
    ) -> None:
        depth = len(shape) - program.ndim
        self._program, self._plan, self._shape = program, plan, shape
        self._threads, self._stack = threads, math.prod(shape[:depth])
        values = check_values(
            plan, cval, program.field_dtypes, program.out_dtypes, program.positions
        )
        # Positions are read where they lie.
        self._given = len(program.field_dtypes) - program.positions
        dtypes = program.field_dtypes[: self._given]
        shell = Shell.of(plan, tuple(dtype.itemsize for dtype in dtypes), self._stack)
        self._shell = shell
        self._machine = replace(machine_of(program, plan, values), shell=shell)
        self._strips = Strips(shell, shape[:depth], dtypes)
        self.shapes = [(*shape[:depth], *one) for one in plan.out_shapes]
        # Lists and memory for a number of threads.
        self._lists: dict[int, tuple[Array, list[slice]]] = {}

    @staticmethod
    def of(
        program: Bound,
        fields: Sequence[Array],
        outs: Sequence[Array],
        geometry: Geometry,
        cval: Any,
        threads: int | None,
    ) -> Ready | None:
        """For fields and `outs` like these; None where they are done in another way."""
        shape = fields[0].shape
        ghosts = tuple((low == CONDITION, high == CONDITION) for low, high in geometry.rules)
        short = any(
            any(pair) and n <= max(reach)
            for pair, n, reach in zip(ghosts, geometry.core, geometry.reach, strict=True)
        )
        if short or not math.prod(shape) or len(program.along) != program.positions:
            return None
        if not program.takes_commands or not are_readable(program, fields):
            return None
        if not all(map(is_readable, outs, program.out_dtypes)):
            return None
        if len(shape) - program.ndim > 1 and not all(
            one.flags.c_contiguous for one in (*fields, *outs)
        ):
            return None
        border = _border(geometry, ghosts)
        plan = layout(
            geometry.core,
            program.reaches,
            border,
            itemsize_of(program),
            every=program.compiled.every,
        )
        if not has_movable_zones(program, plan):
            return None
        return Ready(program, plan, cval, shape, threads)

    def __call__(
        self,
        program: Bound,
        fields: Sequence[Array],
        sides: Sides,
        outs: Sequence[Array],
    ) -> list[Array] | None:
        """What a call gives, in `outs` if there are some; None if they cannot be written."""
        if outs and not are_writable(outs, fields):
            return None
        pairs = zip(self.shapes, program.out_dtypes, strict=True)
        results = list(outs) or [empty(*pair) for pair in pairs]
        points = self._stack * self._plan.points
        if points < SPLIT_POINTS or self._threads == 1:
            self._run(program, fields, sides, results, 1)
            return results
        threads = thread_count(self._threads) if is_shared(program, points) else 1
        began = perf_counter()
        self._run(program, fields, sides, results, threads)
        note_pace(program, points, perf_counter() - began, threads)
        return results

    def _run(
        self,
        program: Bound,
        fields: Sequence[Array],
        sides: Sides,
        results: Sequence[Array],
        threads: int,
    ) -> None:
        if threads not in self._lists:
            self._lists[threads] = self._made(threads)
        made, cuts = self._lists[threads]
        memory = made.copy()
        self._strips.fill(fields[: self._given], sides, memory, 8 * cuts[-1].stop)
        depth = len(self._shape) - program.ndim
        arrays = [*fields, *results]
        if depth > 1:
            arrays = [one.reshape(self._stack, *one.shape[depth:]) for one in arrays]
        blocks, outs = arrays[: len(fields)], arrays[len(fields) :]
        lists = [memory[cut] for cut in cuts]
        if threads > 1 and len(lists) > 1:
            program.run_parts(blocks, outs, lists, threads)
            return
        for told in lists:
            program.run(blocks, outs, told)

    def _made(self, threads: int) -> tuple[Array, list[slice]]:
        """The lists for so many threads, before memory for strips."""
        plan, stack = self._plan, self._stack
        most = images_together(self._program, plan)
        count = max(1 if threads == 1 else threads * SHARES, -(-stack * plan.points // LARGE))
        parts = divided(plan, stack, count) if count > 1 else [Part(0, stack, 0, plan.shape[0])]
        cut = [
            Part(first, min(first + most, part.stop), part.first, part.last)
            for part in parts
            for first in range(part.start, part.stop, most)
        ]
        # What is made with other memory is not kept with the layout: there is one for each stack.
        return together([commands(plan, self._machine, part) for part in cut], self._shell)


def _border(geometry: Geometry, ghosts: tuple[tuple[bool, bool], ...]) -> Border:
    """The rules, where conditions are constants of a value of their own for each place."""

    def rule(name: str) -> Rule:
        return cast(Rule, "constant" if name == CONDITION else name)

    pairs = tuple((rule(before), rule(after)) for before, after in geometry.rules)
    return Border(pairs, ghosts=ghosts)
