"""Prepared calls: what does not depend on the data is done once, for all but large arrays.

A call on an array of 100x100 float64 computes for 5 us.  Finding the compiled kernel, laying
out the border and checking everything take 25 us; so the outcome of all that is kept as one
function, under a key made of all that it depends on (see `keys`):

    key(arguments, options)  ->  run(fields, numbers, out)  ->  result

Only calls that went well are prepared, so that mistakes are found in one place.  A prepared call
gives None where it must be done the ordinary way after all: what it depends on beyond the key,
such as whether `out` overlaps a field, is looked at each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ninepoint.arrays.arranging import Arrangement, Run, are_writable, may_overlap
from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.commands import Machine, Part, commands
from ninepoint.arrays.layout import Layout, Shape, layout
from ninepoint.arrays.numpy import check_values
from ninepoint.arrays.parts import (
    LASTING,
    SPLIT_POINTS,
    Values,
    divided,
    has_movable_zones,
    images_together,
    itemsize_of,
    machine_of,
    moved_arrays,
    over_stack,
    takes_over,
    write_zones,
)
from ninepoint.arrays.recognise import listed
from ninepoint.arrays.trials import Choice
from ninepoint.backends.backend import Code
from ninepoint.backends.memory import LEAST, empty
from ninepoint.backends.threads import thread_count

# Writes what is not computed, from fields to outputs, each with one stack axis.
Zones: TypeAlias = Callable[[Sequence[Array], Sequence[Array]], None]

# Arrays of more points are shared among threads from the first call on.
LARGE = 2_000_000

# Parts for each thread then.  With one thread and with two a Sobel of 400 x 400 float32 took 18
# and 12 us, of 512 x 512 37 and 23; where the other core is busy, two take 3 more (Zen 5).
SHARES = 2

# What is expected to take longer than this on one thread [s] is shared from the first call on: a
# thread that others leave no time to costs no more than a slice of theirs.
SURE = 5e-3


@dataclass(frozen=True, slots=True)
class Options:
    """What a call was told beside its arguments."""

    border: Border
    cval: Any
    threads: int | None


def no_way(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> None:
    """Do nothing: some calls have no short way."""


def prepare(
    program: Code,
    entry: Callable[..., None],
    fields: Sequence[Array],
    options: Options,
    out: Any,
    axes: Any = None,
) -> Run:
    """Prepare calls on fields and an `out` just like these, which went well.

    `entry` computes as `program.run` does, and is called with fields, outputs and numbers.
    """
    if not all(field.size for field in fields):
        return no_way
    arrangement = Arrangement(program, fields, axes, out)
    if arrangement.plain:
        return _prepare(program, entry, fields, options, out)
    if arrangement.program is not program:
        program = arrangement.program
        entry = program.entry
        options = replace(options, border=arrangement.border(options.border))
    run = _prepare(program, entry, arrangement.fields(fields), options, arrangement.out(out))
    return arrangement.around(run)


def _prepare(
    program: Code,
    entry: Callable[..., None],
    fields: Sequence[Array],
    options: Options,
    out: Any,
) -> Run:
    """Prepare calls on fields of one shape, whose core axes come last."""
    ndim = program.ndim
    shape = fields[0].shape
    lead, core = shape[:-ndim], shape[-ndim:]
    points = math.prod(shape)
    itemsize = itemsize_of(program)
    plan = layout(core, program.reaches, options.border, itemsize, every=program.every)
    shapes = [(*lead, *one) for one in plan.out_shapes]
    outs = listed(out)
    values = check_values(
        plan, options.cval, program.field_dtypes, program.out_dtypes, program.positions
    )
    long = _long(program, plan, values, shapes, options.threads)
    stack = math.prod(lead)
    machine = machine_of_list(program, plan, values, fields, outs)
    if machine is None:
        return long
    whole = Part(0, stack, 0, plan.shape[0])
    told = commands(plan, machine, whole)
    zones: Zones | None = None
    if not has_movable_zones(program, plan):
        zones = partial(write_zones, program, plan, values)
    given = len(fields) - program.positions
    short = _short(entry, shapes, program.out_dtypes, len(lead), given, told, zones)
    if out is not None:
        over = partial(commands, plan, machine, replace(whole, over=True))
        short = _over_fields(short, entry, program, plan, len(lead), over)
    if points < SPLIT_POINTS or options.threads == 1:
        return short
    if program.pace and program.pace[0] * points > SURE:
        return long
    shared = long if zones else _shared(program, plan, machine, shapes, len(lead), options.threads)
    return _timed(short, shared, long)


def machine_of_list(
    program: Code, plan: Layout, values: Values, fields: Sequence[Array], outs: Sequence[Array]
) -> Machine | None:
    """What one list of commands for a whole call depends on; None if it takes another way."""
    lead = fields[0].shape[: -len(plan.shape)]
    moved = moved_arrays(program, fields, outs)
    if (
        moved is None
        or fields[0].size > LARGE
        or math.prod(lead) > images_together(program, plan, moved)
        or (len(lead) > 1 and not all(a.flags.c_contiguous for a in (*fields, *outs)))
    ):
        return None
    return machine_of(program, plan, values, moved)


def _timed(short: Run, shared: Run, long: Run) -> Run:
    """Compute on this thread; if that takes long, in the way that proves to be the faster.

    The other way shares the work among threads: in machine code, unless somebody would have to
    wait so long for it that an interrupt should end it.
    """
    choice = Choice()

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        other = long if choice.took > LASTING else shared
        return choice.called(short, other, fields, numbers, out)

    return call


def _shared(
    program: Code,
    plan: Layout,
    machine: Machine,
    shapes: list[Shape],
    lead: int,
    threads: int | None,
) -> Run:
    """Whole arrays, by lists of commands that are made once and shared among threads."""
    dtypes = program.out_dtypes
    stack = math.prod(shapes[0][:lead])
    # For the number of threads of the last call.
    made: tuple[int, list[Array]] = 0, []

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        nonlocal made
        results = _results(shapes, dtypes, fields, out)
        if results is None:
            return None
        blocks = [*fields, *results]
        if lead > 1:
            blocks = [array.reshape(stack, *array.shape[lead:]) for array in blocks]
        count = thread_count(threads)
        if made[0] != count:
            cut = divided(plan, stack, count * SHARES)
            made = count, [commands(plan, machine, part) for part in cut]
        bound = program.with_numbers(numbers) if numbers else program
        bound.run_parts(blocks[: len(fields)], blocks[len(fields) :], made[1], count)
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _long(
    program: Code,
    plan: Layout,
    values: Values,
    shapes: list[Shape],
    threads: int | None,
) -> Run:
    """Any array: what is prepared is that nothing has to be checked."""
    dtypes = program.out_dtypes
    many = math.prod(shapes[0][: -len(plan.shape)]) * plan.points >= SPLIT_POINTS

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        results = _results(shapes, dtypes, fields, out)
        if results is None:
            return None
        bound = program.with_numbers(numbers) if numbers else program
        count = thread_count(threads) if many else 1
        over_stack(bound, plan, values, list(fields), results, count)
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _short(
    entry: Callable[..., None],
    shapes: list[Shape],
    dtypes: tuple[np.dtype[Any], ...],
    lead: int,
    given: int,
    told: Array,
    zones: Zones | None,
) -> Run:
    """One call of machine code on whole arrays: 1 us beside the computation (Zen 4).

    So many fields are `given`; positions follow, which nobody else has.  The `zones` are written
    after it where "keep" keeps what is converted to the result's type.
    """
    shape, dtype = shapes[0], dtypes[0]
    # Not -1: of a result without points there would be no telling.
    stack = math.prod(shape[:lead])
    make = np.empty if math.prod(shape) * dtype.itemsize < LEAST else empty

    def one(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Array | None:
        field, *positions = fields
        if out is None:
            result = make(shape, dtype)
        else:
            result = out if type(out) is np.ndarray else out[0]
            if not result.flags.writeable or may_overlap(result, field):
                return None
        entry(field, *positions, result, *numbers, told)
        return result

    def several(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        results = _results(shapes, dtypes, fields[:given], out)
        if results is None:
            return None
        blocks = [*fields, *results]
        if lead > 1 or zones is not None:
            blocks = [array.reshape(stack, *array.shape[lead:]) for array in blocks]
        entry(*blocks, *numbers, told)
        if zones is not None:
            zones(blocks[: len(fields)], blocks[len(fields) :])
        return results[0] if len(results) == 1 else tuple(results)

    return one if given == 1 and len(shapes) == 1 and lead < 2 and zones is None else several


def _over_fields(
    short: Run,
    entry: Callable[..., None],
    program: Code,
    plan: Layout,
    lead: int,
    over: Callable[[], Array],
) -> Run:
    """The same where results may be written to the place of fields, by a list of their own."""

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        made = short(fields, numbers, out)
        results = listed(out)
        if made is not None or not results or not are_writable(results, ()):
            return made
        if not takes_over(program, plan, fields, results, 1):
            return None
        blocks = [*fields, *results]
        if lead > 1:
            # Lists of commands know one axis for the stack.
            blocks = [array.reshape(-1, *array.shape[lead:]) for array in blocks]
        entry(*blocks, *numbers, over())
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _results(
    shapes: Sequence[Shape], dtypes: Sequence[np.dtype[Any]], fields: Sequence[Array], out: Any
) -> list[Array] | None:
    """Give the arrays to write to; None if those of `out` cannot be written as they are."""
    if out is None:
        return [empty(*pair) for pair in zip(shapes, dtypes, strict=True)]
    results = listed(out)
    return results if are_writable(results, fields) else None
