"""Executables: what does the calls of one program on arrays like some, bound once, called often.

    program, fields, border, axes, out, threads  --bind-->  Executable
    executable(fields, numbers, out)             ->         results

All that does not depend on the data is found out once: how arrays are given to machine code, what
lies outside of them, what is checked.  A call then allocates its results and computes, which costs
1 us beside an array of 100x100 (Zen 4).  Whether `out` overlaps a field is looked at each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ninepoint import limits
from ninepoint.arrays.accepted import as_field, check_writable, listed
from ninepoint.arrays.arranging import Arrangement, are_writable
from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.commands import Machine, Part, commands
from ninepoint.arrays.gathering import Extensions
from ninepoint.arrays.layout import Layout, layout
from ninepoint.arrays.numpy import (
    broadcast_shape,
    check_values,
    checked_out,
    core_axes,
    core_shape,
)
from ninepoint.arrays.parts import (
    LASTING,
    SPLIT_POINTS,
    Batch,
    Values,
    divided,
    has_movable_zones,
    images_together,
    itemsize_of,
    machine_of,
    moved_arrays,
    note_pace,
    takes_over,
    threads_for,
    write,
    write_zones,
)
from ninepoint.backends.compiled import Bound
from ninepoint.backends.memory import LEAST, empty
from ninepoint.backends.threads import Held, thread_count

# What does calls: fields, numbers, out -> result.  The numbers are coefficient arrays and scalars.
Run: TypeAlias = Callable[[Sequence[Array], Sequence[Any], Any], Any]

# Arrays of more points are cut into parts anew in each call.
LARGE = 2_000_000

# Lists of commands for each thread.  With one thread and with two a Sobel of 400 x 400 float32
# took 18 and 12 us, of 512 x 512 37 and 23; where the other core is busy, two take 3 more (Zen 5).
SHARES = 2


class Executable:
    """The calls of a program on arrays of one kind: shapes, strides, types, border, threads.

    Called with fields and `out` like those that it was bound to, and with numbers: coefficient
    arrays, then scalars.

    Raises
    ------
    ValueError
        If shapes do not broadcast, `axes` or `out` do not fit, or `cval` does not fit a dtype.
    TypeError
        If `out` is no array of NumPy, or cannot hold the results.
    """

    __slots__ = (
        "_apart", "_arrangement", "_bound", "_entry", "_flat", "_lead", "_lists", "_machine",
        "_make", "_plan", "_points", "_program", "_shared", "_specs", "_stack", "_told",
        "_values", "_zones",
    )  # fmt: skip

    def __init__(
        self,
        program: Bound,
        fields: Sequence[Array],
        border: Border,
        cval: Any = 0,
        axes: Any = None,
        out: Any = None,
        threads: int | None = None,
        ghosts: tuple[Extensions, ...] = (),
    ) -> None:
        # What it was bound to, and what does the same without `out`, once that is asked for.
        self._bound = program, border, cval, axes, threads
        self._apart: Executable | None = None
        shape = broadcast_shape([field.shape for field in fields])
        core = core_shape(fields, program.ndim, axes)
        plan = layout(core, program.reaches, border, itemsize_of(program), every=program.every)
        dtypes = program.field_dtypes, program.out_dtypes
        values = check_values(plan, cval, *dtypes, program.positions)
        values.ghosts = ghosts
        if out is not None:
            order = None if axes is None else core_axes(axes, len(shape), program.ndim)
            along = order or range(len(shape) - program.ndim, len(shape))
            lead = tuple(n for axis, n in enumerate(shape) if axis not in along)
            shapes = [(*lead, *one) for one in plan.out_shapes]
            checked_out(out, shapes, program.out_dtypes, order)
        found = Arrangement(program, fields, axes, out)
        self._arrangement = None if found.plain else found
        if not found.plain:
            program, border = found.program, found.border(border)
            fields, out = found.fields(fields), found.out(out)
            core = fields[0].shape[len(fields[0].shape) - program.ndim :]
            plan = layout(core, program.reaches, border, itemsize_of(program), every=program.every)
        lead = fields[0].shape[: -program.ndim]
        self._program, self._plan, self._values = program, plan, values
        self._lead, self._stack = len(lead), math.prod(lead)
        self._points = self._stack * plan.points
        shapes = [(*lead, *one) for one in plan.out_shapes]
        self._specs = list(zip(shapes, program.out_dtypes, strict=True))
        most = max(math.prod(shape) * dtype.itemsize for shape, dtype in self._specs)
        self._make = np.empty if most < LEAST else empty
        self._shared = self._points >= SPLIT_POINTS and threads != 1
        self._machine = machine_of_list(program, plan, values, fields, listed(out))
        self._zones = not has_movable_zones(program, plan)
        # Whether machine code takes all arrays as they are, and does all.
        self._flat = len(lead) < 2 and not self._zones
        # For so many threads of the last call.
        self._lists: tuple[int, list[Array]] = 0, []
        self._told: Array | None = None
        if self._machine is not None:
            self._entry = program.entry
            self._told = commands(plan, self._machine, self._whole)

    def __call__(self, fields: Sequence[Array], numbers: Sequence[Any], out: Any = None) -> Any:
        """What a call gives: one array for each output, bare if there is one."""
        targets: Sequence[Array] = () if out is None else listed(out)
        if targets and not are_writable(targets, fields):
            return self._over(fields, numbers, targets)
        arranged, told = self._arrangement, self._told
        if arranged is not None:
            fields, out = arranged.fields(fields), arranged.out(out)
        if out is None:
            results = [self._make(shape, dtype) for shape, dtype in self._specs]
        else:
            results = listed(out)
        if told is None or self._shared:
            self._compute(fields, results, numbers)
        elif self._flat:
            self._entry(*fields, *results, *numbers, told)
        else:
            self._run(fields, results, numbers, told)
        if arranged is not None:
            results = list(arranged.given(results, targets))
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def _whole(self) -> Part:
        return Part(0, self._stack, 0, self._plan.shape[0])

    def _run(
        self,
        fields: Sequence[Array],
        results: Sequence[Array],
        numbers: Sequence[Any],
        told: Array,
    ) -> None:
        """Carry out a list of commands for all of the arrays, on this thread."""
        if not self._flat:
            fields, results = self._stacked(fields), self._stacked(results)
        self._entry(*fields, *results, *numbers, told)
        if self._zones:
            write_zones(self._program, self._plan, self._values, fields, results)

    def held(
        self,
        fields: Sequence[Array],
        outs: Sequence[Array],
        numbers: Sequence[Any],
        threads: int,
    ) -> Held | None:
        """The call on these arrays as machine code keeps it, shared among so many threads.

        None where there is something to do besides.  The results must overlap no field.
        """
        if self._told is None or self._arrangement is not None or self._zones:
            return None
        assert self._machine is not None
        lists = [self._told]
        if threads > 1:
            cut = divided(self._plan, self._stack, threads * SHARES)
            lists = [commands(self._plan, self._machine, part) for part in cut]
        if self._lead > 1:
            fields, outs = self._stacked(fields), self._stacked(outs)
        return self._program.with_numbers(numbers).held(fields, outs, lists)

    def _stacked(self, arrays: Sequence[Array]) -> list[Array]:
        """The arrays with one axis for the stack: of a result without points -1 says nothing."""
        return [array.reshape(self._stack, *array.shape[self._lead :]) for array in arrays]

    def _compute(
        self, fields: Sequence[Array], results: Sequence[Array], numbers: Sequence[Any]
    ) -> None:
        """Compute on this thread or on several, by how long a point took the last time.

        What would keep somebody waiting who interrupts it is done part by part.
        """
        program, told = self._program, self._told
        expected = program.pace[0] * self._points if program.pace else math.inf
        # To ask how many threads there are takes as long as a small call.
        threads = threads_for(program, self._points, self._bound[-1]) if self._shared else 1
        if told is not None and threads == 1:
            began = perf_counter()
            self._run(fields, results, numbers, told)
            note_pace(program, self._points, perf_counter() - began, 1)
            return
        bound = program.with_numbers(numbers) if numbers else program
        if told is None or self._zones or expected > LASTING:
            Batch(bound, self._plan, self._values, fields, results, threads).run()
            return
        if self._lists[0] != threads:
            assert self._machine is not None
            cut = divided(self._plan, self._stack, threads * SHARES)
            self._lists = threads, [commands(self._plan, self._machine, part) for part in cut]
        if self._lead > 1:
            fields, results = self._stacked(fields), self._stacked(results)
        began = perf_counter()
        bound.run_parts(fields, results, self._lists[1], threads)
        note_pace(program, self._points, perf_counter() - began, threads)

    def _over(
        self, fields: Sequence[Array], numbers: Sequence[Any], targets: Sequence[Array]
    ) -> Any:
        """The same where results may lie over fields: made in their place, or moved there."""
        check_writable(targets)
        small = self._points <= limits.current.in_place_points
        if small or not self._takes_place(fields, numbers, targets):
            if self._apart is None:
                program, border, cval, axes, threads = self._bound
                ghosts = self._values.ghosts
                self._apart = Executable(
                    program, fields, border, cval, axes, None, threads, ghosts
                )
            made = self._apart(fields, numbers)
            for target, one in zip(targets, listed(made), strict=True):
                write(target, one)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _takes_place(
        self, fields: Sequence[Array], numbers: Sequence[Any], targets: Sequence[Array]
    ) -> bool:
        """Compute into the place of fields, if machine code can."""
        program, plan, arranged, outs = self._program, self._plan, self._arrangement, targets
        if arranged is not None:
            if not arranged.has_place:
                return False
            fields, outs = arranged.fields(fields), listed(arranged.out(tuple(targets)))
        threads = thread_count(self._bound[-1]) if self._shared else 1
        if not takes_over(program, plan, fields, outs, threads):
            return False
        if self._machine is not None and threads == 1:
            told = commands(plan, self._machine, replace(self._whole, over=True))
            self._run(fields, outs, numbers, told)
            return True
        bound = program.with_numbers(numbers) if numbers else program
        Batch(bound, plan, self._values, fields, outs, threads, over=True).run()
        return True


def apply(
    program: Bound,
    fields: Sequence[object],
    *,
    border: Border,
    cval: Any = 0,
    axes: Any = None,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """What a program with its numbers gives for arrays of any kind that NumPy takes, once."""
    arrays = [as_field(value) for value in fields]
    program = program.within(core_shape(arrays, program.ndim, axes))
    made = Executable(program, arrays, border, cval, axes, out, threads)
    return made(arrays, (*program.coefficients, *program.scalars), out)


def machine_of_list(
    program: Bound, plan: Layout, values: Values, fields: Sequence[Array], outs: Sequence[Array]
) -> Machine | None:
    """What one list of commands for a whole call depends on; None if it takes another way."""
    lead = fields[0].shape[: -len(plan.shape)]
    moved = moved_arrays(program, fields, outs, values)
    if (
        moved is None
        or not fields[0].size
        or fields[0].size > LARGE
        or math.prod(lead) > images_together(program, plan, moved)
        or (len(lead) > 1 and not all(a.flags.c_contiguous for a in (*fields, *outs)))
    ):
        return None
    return machine_of(program, plan, values, moved)
