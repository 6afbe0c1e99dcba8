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
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ninepoint.arrays.arranging import Arrangement, Run, are_writable, listed, may_overlap
from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.frames import Frame
from ninepoint.arrays.layout import Layout, Piece, Shape, layout
from ninepoint.arrays.numpy import (
    BLOCK,
    SPLIT_POINTS,
    Program,
    Values,
    check_values,
    is_readable,
    over_stack,
)
from ninepoint.backends.memory import LEAST, empty
from ninepoint.backends.numba.cache import interpreted
from ninepoint.backends.threads import thread_count

# Up to this many bytes a result is made of zeros, rather than made empty and filled at the
# border: 2 us where four strips took 2.4 us (100x100 float64, Zen 4).
ZERO_BYTES = 32_768

# The machine code that moves elements is used for a call that came so many times: to load it
# takes as long as hundreds of calls without it, to compile it as long as a hundred thousand.
PATIENCE = 30

# Arrays of more points are computed piece by piece: the border is nothing beside them.
FRAME_POINTS = 2_000_000

# Up to this many bytes of fields, times how far the stencil looks, an array of two or three axes
# is padded as a whole by machine code: the more axes, the more points are near the border.  Mean
# of 3x3 on 200x200 float32 as a whole 17.6 us, in pieces 19.5 us, on 300x300 35.0 and 29.7 us;
# maximum of 9x9 on 512x512 float32 144 and 154 us; 27 points on 64x64x64 float32 443 and 643 us,
# on 100x100x100 2044 and 1838 us (Zen 4).  On one axis, NumPy's few copies are as fast.
FRAME_BYTES = {2: 100_000, 3: 1_000_000}

# So many calls in a row must take longer than this [s] before threads are tried: on a busy
# machine any single one may.
SHARED = 80e-6
SLOW_CALLS = 3

# So often is each of two ways tried before the faster is chosen; for so many calls at first, and
# at last: on a busy machine others leave no time to the threads, which may change.
TRIALS, FIRST_CALLS, LAST_CALLS = 4, 32, 512


@dataclass(frozen=True, slots=True)
class Options:
    """What a call was told beside its arguments."""

    border: Border
    cval: Any
    threads: int | None


def no_way(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> None:
    """Do nothing: some calls have no short way."""


def prepare(
    program: Program,
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
    run = _prepare(program, entry, arrangement.fields(fields), options, arrangement.out(out))
    return arrangement.around(run)


def _prepare(
    program: Program,
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
    itemsize = sum(dtype.itemsize for dtype in program.field_dtypes)
    plan = layout(core, program.reaches, options.border, itemsize, program.seams)
    shapes = [(*lead, *one) for one in plan.out_shapes]
    outs = listed(out)
    values = check_values(plan, options.cval, program.field_dtypes, program.out_dtypes)
    long = _long(program, plan, values, shapes, options.threads)
    if (
        points > FRAME_POINTS
        or not all(map(is_readable, fields, program.field_dtypes))
        or not all(map(is_readable, outs, program.out_dtypes))
        or (len(lead) > 1 and not all(a.flags.c_contiguous for a in (*fields, *outs)))
    ):
        return long
    makers = []
    for k, (one, dtype) in enumerate(zip(shapes, program.out_dtypes, strict=True)):
        # Where outputs differ in reach, points of the zones are computed too, and overwritten.
        fresh = out is None and plan.outputs[k].window == plan.computed
        makers.append(_maker(one, dtype, _strips(plan, k), values.outs[k], fresh))
    short = long
    if (
        len(plan.pieces) == 1
        and (points <= BLOCK or plan.pieces[0].gather is None)
        and all(target.scratch is None for target in plan.pieces[0].targets)
    ):
        if len(fields) == 1 and len(shapes) == 1 and len(lead) < 2 and not plan.has_keep:
            short = _single(entry, plan.pieces[0], makers[0], values.fields[0], not lead)
        else:
            short = _several(entry, plan, makers, values, len(lead))
    if (
        ndim in FRAME_BYTES
        and len(lead) < 2
        and not plan.has_keep
        and any(piece.padded for piece in plan.pieces)
    ):
        span = max(b - a for a, b in zip(plan.reach.lo, plan.reach.hi, strict=True))
        whole = span * FRAME_BYTES[ndim]
        frame = Frame(
            entry,
            layout(core, program.reaches, options.border, itemsize, program.seams, whole),
            program.field_dtypes,
            program.out_dtypes,
            tuple(values.fields),
            lead[0] if lead else None,
            program.warm,
        )
        short = _patient(short, partial(_framed, frame, makers))
    if short is long or points < SPLIT_POINTS or options.threads == 1:
        return short
    return _timed(short, long)


def _patient(first: Run, later: Callable[[], Run | None]) -> Run:
    """Do the first calls in the one way, and all others in the one that `later` makes, if any."""
    calls = 0
    call_later: Run | None = None

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        nonlocal calls, call_later
        if call_later is None:
            calls += 1
            if calls <= PATIENCE:
                return first(fields, numbers, out)
            call_later = later() or first
        return call_later(fields, numbers, out)

    return call


def _timed(short: Run, long: Run) -> Run:
    """Compute on this thread; if that takes long, in the way that proves to be the faster.

    The other way shares the work among threads, and does more beside it.
    """
    slow = turn = chosen = 0
    last = 2 * TRIALS + FIRST_CALLS
    ways, least = (short, long), [0.0, 0.0]

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        nonlocal slow, turn, chosen, last
        if slow < SLOW_CALLS:
            began = perf_counter()
            result = short(fields, numbers, out)
            slow = slow + 1 if perf_counter() - began > SHARED else 0
            return result
        if turn >= last:
            turn, last = 0, min(2 * last, LAST_CALLS)
        now, turn = turn, turn + 1
        if now >= 2 * TRIALS:
            return ways[chosen](fields, numbers, out)
        way, trial = divmod(now, TRIALS)
        began = perf_counter()
        result = ways[way](fields, numbers, out)
        took = perf_counter() - began
        least[way] = took if trial == 0 else min(least[way], took)
        if now == 2 * TRIALS - 1:
            chosen = int(least[1] < least[0])
        return result

    return call


def _long(
    program: Program,
    plan: Layout,
    values: Values,
    shapes: list[Shape],
    threads: int | None,
) -> Run:
    """Any array: what is prepared is that nothing has to be checked."""
    dtypes = program.out_dtypes
    many = math.prod(shapes[0][: -len(plan.shape)]) * plan.points >= SPLIT_POINTS

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        results: list[Array]
        if out is None:
            results = [empty(*pair) for pair in zip(shapes, dtypes, strict=True)]
        else:
            results = listed(out)
            if not are_writable(results, fields):
                return None
        bound = program.with_numbers(numbers) if numbers else program
        count = thread_count(threads) if many else 1
        over_stack(bound, plan, values, list(fields), results, count)
        return results[0] if len(results) == 1 else tuple(results)

    return call


@dataclass(frozen=True, slots=True)
class _Maker:
    """How one output is made: allocated, and filled at the places that are not computed."""

    make: Callable[..., Array]
    shape: Shape
    dtype: np.dtype[Any]
    strips: tuple[Any, ...]
    value: Any


def _maker(
    shape: Shape, dtype: np.dtype[Any], strips: tuple[Any, ...], value: Any, zeros: bool
) -> _Maker:
    size = math.prod(shape) * dtype.itemsize
    if zeros and strips and size <= ZERO_BYTES and type(value) is int and value == 0:
        return _Maker(np.zeros, shape, dtype, (), 0)
    return _Maker(np.empty if size < LEAST else empty, shape, dtype, strips, value)


def _strips(plan: Layout, k: int) -> tuple[Any, ...]:
    """Where an output is filled; two strips of one row or column each are one index."""
    places: list[Any] = [
        (..., *target[1:]) for target, kept in plan.outputs[k].zones if kept is None
    ]
    if plan.has_keep:
        return tuple(places)
    if any(place[1:] == tuple(slice(0, n) for n in plan.out_shapes[k]) for place in places):
        return (...,)
    strips: list[Any] = []
    for axis, n in enumerate(plan.out_shapes[k]):
        full = [place for place in places if place[axis + 1] != slice(0, n)]
        ends = sorted((place[axis + 1].start, place[axis + 1].stop) for place in full)
        rest = (slice(None),) * (len(plan.shape) - axis - 1)
        if n > 1 and ends == [(0, 1), (n - 1, n)]:
            strips.append((..., slice(0, n, n - 1), *rest))
        else:
            strips += [(..., slice(*end), *rest) for end in ends]
    return tuple(strips)


def _single(
    entry: Callable[..., None],
    piece: Piece,
    maker: _Maker,
    outside: Any,
    flat: bool,
) -> Run:
    """One field, one output: 2.5 us beside the computation and the padding (Zen 4)."""
    source: Any = (None, *piece.source[1:]) if flat else piece.source
    place: Any = piece.targets[0].place
    place = (None, *place[1:]) if flat else place
    gather, make, shape, dtype = piece.gather, maker.make, maker.shape, maker.dtype
    strips, value = maker.strips, maker.value

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Array | None:
        field = fields[0]
        if out is None:
            result = make(shape, dtype)
        else:
            result = out if type(out) is np.ndarray else out[0]
            if not result.flags.writeable or may_overlap(result, field):
                return None
        if gather is None:
            block = field[source]
        else:
            block = gather(field[None] if flat else field, outside, field.dtype)
        entry(block, result[place], *numbers)
        for strip in strips:
            result[strip].fill(value)
        return result

    return call


def _framed(frame: Frame, makers: list[_Maker]) -> Run | None:
    """Compute what lies near the border by machine code."""
    if interpreted() or not frame.fits:
        return None
    run = frame.runner()
    filled = [(k, strip, maker.value) for k, maker in enumerate(makers) for strip in maker.strips]

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        if out is None:
            results = [maker.make(maker.shape, maker.dtype) for maker in makers]
        else:
            results = listed(out)
            if not are_writable(results, fields):
                return None
        run(fields, results, numbers)
        for k, strip, value in filled:
            results[k][strip].fill(value)
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _several(
    entry: Callable[..., None],
    plan: Layout,
    makers: list[_Maker],
    values: Values,
    lead: int,
) -> Run:
    piece = plan.pieces[0]
    places = [target.place for target in piece.targets]
    gather, source = piece.gather, piece.source
    kept = [
        (k, target, keep)
        for k, output in enumerate(plan.outputs)
        for target, keep in output.zones
        if plan.has_keep
    ]

    def stacked(array: Array) -> Array:
        if lead == 0:
            return array[None]
        return array if lead == 1 else array.reshape(-1, *array.shape[lead:])

    def call(fields: Sequence[Array], numbers: Sequence[Any], out: Any) -> Any:
        if out is None:
            results = [maker.make(maker.shape, maker.dtype) for maker in makers]
        else:
            results = listed(out)
            if not are_writable(results, fields):
                return None
        blocks = [stacked(field) for field in fields]
        outs = [stacked(result) for result in results]
        inner = [result[place] for result, place in zip(outs, places, strict=True)]
        if gather is None:
            padded = [block[source] for block in blocks]
        else:
            padded = [
                gather(block, value, block.dtype)
                for block, value in zip(blocks, values.fields, strict=True)
            ]
        entry(*padded, *inner, *numbers)
        if kept:
            for k, target, keep in kept:
                if keep is None:
                    outs[k][target].fill(values.outs[k])
                else:
                    outs[k][target] = blocks[k][keep]
        else:
            for maker, result in zip(makers, results, strict=True):
                for strip in maker.strips:
                    result[strip].fill(maker.value)
        return results[0] if len(results) == 1 else tuple(results)

    return call
