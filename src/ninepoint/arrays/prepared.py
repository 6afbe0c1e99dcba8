"""Prepared calls: what does not depend on the data is done once, for all but large arrays.

A call on an array of 100x100 float64 computes for 5 us.  Binding arguments, finding the
compiled kernel, laying out the border and checking everything take 25 us; so the outcome of all
that is kept as one function, under a key made of all that it depends on:

    key(arguments, options)  ->  call(fields, scalars, out)  ->  result

A call gives None where it must be done the long way after all: what it depends on beyond the
key, such as whether `out` overlaps a field, is looked at each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ninepoint.arrays.borders import Array, Border
from ninepoint.arrays.frames import Frame
from ninepoint.arrays.layout import Layout, Piece, Shape, layout
from ninepoint.arrays.numpy import (
    BLOCK,
    HANDOFF,
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

# arguments, out -> result
Call: TypeAlias = Callable[[Sequence[Any], Any], Any]

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

# So many calls in a row must take longer than a handoff before threads are tried: on a busy
# machine any single one may.
SLOW_CALLS = 3


@dataclass(frozen=True, slots=True)
class Options:
    """What a call was told beside its arguments."""

    border: Border
    cval: Any
    threads: int | None


def no_way(args: Sequence[Any], out: Any) -> None:
    """Stand for the short way of calls that have none."""


def key(values: Sequence[Any], is_field: Sequence[bool]) -> tuple[Any, ...] | None:
    """Give what a call depends on of its fields and scalars, save for the data.

    None if some are no plain arrays and numbers: the long way knows what to do.
    """
    parts: list[Any] = []
    for value, field in zip(values, is_field, strict=False):
        if field:
            one = array_key(value)
            if one is None:
                return None
            parts.append(one)
            continue
        kind = type(value)
        if kind is float or kind is bool or (kind is int and -(2**63) <= value < 2**63):
            parts.append(kind)
        else:
            return None
    return tuple(parts)


def array_key(value: Any) -> tuple[Any, ...] | None:
    """Give what a call depends on of one array; None if it is no plain one."""
    if type(value) is not np.ndarray or not value.flags.aligned:
        return None
    return value.shape, value.strides, value.dtype


def prepare(
    program: Program,
    entry: Callable[..., None],
    args: Sequence[Any],
    at: Sequence[int],
    scalars: Sequence[tuple[int, Any]],
    options: Options,
    out: Any,
) -> Call:
    """Prepare calls on arguments and an `out` just like these.

    `entry` computes as `program.run` does, and is called with fields, outputs and scalars. The
    arguments at `at` are the fields; a scalar is an argument, or a value where its place is -1.
    """
    fields = [args[k] for k in at]
    ndim = program.ndim
    shape = fields[0].shape
    lead, core = shape[:-ndim], shape[-ndim:]
    points = math.prod(shape)
    if len(core) < ndim or not points or any(field.shape != shape for field in fields):
        return no_way
    itemsize = sum(dtype.itemsize for dtype in program.field_dtypes)
    plan = layout(core, program.reaches, options.border, itemsize, program.seams)
    shapes = [(*lead, *one) for one in plan.out_shapes]
    outs = _listed(out)
    if out is not None and len(outs) != len(shapes):
        return no_way
    if not all(map(_fits, outs, shapes, program.out_dtypes)):
        return no_way
    values = check_values(plan, options.cval, program.field_dtypes, program.out_dtypes)
    long = _long(program, plan, values, shapes, at, scalars, options.threads)
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
            zero = values.fields[0]
            short = _single(entry, plan.pieces[0], makers[0], zero, not lead, at[0], scalars)
        else:
            short = _several(entry, plan, makers, values, len(lead), at, scalars)
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
        short = _patient(short, partial(_framed, frame, makers, at, scalars))
    if short is long or points < SPLIT_POINTS or options.threads == 1:
        return short
    return _timed(short, long)


def _patient(first: Call, later: Callable[[], Call | None]) -> Call:
    """Do the first calls in the one way, and all others in the one that `later` makes, if any."""
    calls = 0
    call_later: Call | None = None

    def call(args: Sequence[Any], out: Any) -> Any:
        nonlocal calls, call_later
        if call_later is None:
            calls += 1
            if calls <= PATIENCE:
                return first(args, out)
            call_later = later() or first
        return call_later(args, out)

    return call


def _timed(short: Call, long: Call) -> Call:
    """Compute on this thread, until it turns out that this takes so long that others may help."""
    slow = 0

    def call(args: Sequence[Any], out: Any) -> Any:
        nonlocal slow
        if slow >= SLOW_CALLS:
            return long(args, out)
        began = perf_counter()
        result = short(args, out)
        slow = slow + 1 if perf_counter() - began > HANDOFF else 0
        return result

    return call


def _long(
    program: Program,
    plan: Layout,
    values: Values,
    shapes: list[Shape],
    at: Sequence[int],
    scalars: Sequence[tuple[int, Any]],
    threads: int | None,
) -> Call:
    """Any array: what is prepared is that nothing has to be checked."""
    dtypes = program.out_dtypes
    many = math.prod(shapes[0][: -len(plan.shape)]) * plan.points >= SPLIT_POINTS

    def call(args: Sequence[Any], out: Any) -> Any:
        fields = [args[k] for k in at]
        results: list[Array]
        if out is None:
            results = [empty(*pair) for pair in zip(shapes, dtypes, strict=True)]
        else:
            results = _listed(out)
            if not _writable(results, fields):
                return None
        bound = program
        if scalars:
            bound = program.with_scalars([v if k < 0 else args[k] for k, v in scalars])
        over_stack(bound, plan, values, fields, results, thread_count(threads) if many else 1)
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _writable(outs: list[Array], fields: Sequence[Array]) -> bool:
    """Whether outputs can be written as they are, none of them sharing memory with another."""
    for k, out in enumerate(outs):
        if not out.flags.writeable:
            return False
        for other in (*fields, *outs[:k]):
            if _may_overlap(out, other):
                return False
    return True


def _may_overlap(one: Array, other: Array) -> bool:
    # Two arrays that own their memory share none: 0.1 us, where NumPy's function takes 0.4 us.
    if one is not other and one.flags.owndata and other.flags.owndata:
        return False
    return np.may_share_memory(one, other)


def _listed(out: Any) -> list[Any]:
    if type(out) is np.ndarray:
        return [out]
    if out is None:
        return []
    return list(out) if isinstance(out, tuple | list) else [out]


def _fits(out: Any, shape: Shape, dtype: np.dtype[Any]) -> bool:
    return type(out) is np.ndarray and out.shape == shape and out.dtype == dtype


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
    at: int,
    scalars: Sequence[tuple[int, Any]],
) -> Call:
    """One field, one output: 2.5 us beside the computation and the padding (Zen 4)."""
    source: Any = (None, *piece.source[1:]) if flat else piece.source
    place: Any = piece.targets[0].place
    place = (None, *place[1:]) if flat else place
    gather, make, shape, dtype = piece.gather, maker.make, maker.shape, maker.dtype
    strips, value = maker.strips, maker.value

    def call(args: Sequence[Any], out: Any) -> Array | None:
        field = args[at]
        if out is None:
            result = make(shape, dtype)
        else:
            result = out
            if not out.flags.writeable or _may_overlap(out, field):
                return None
        if gather is None:
            block = field[source]
        else:
            block = gather(field[None] if flat else field, outside, field.dtype)
        if scalars:
            numbers = [v if k < 0 else args[k] for k, v in scalars]
            entry(block, result[place], *numbers)
        else:
            entry(block, result[place])
        for strip in strips:
            result[strip].fill(value)
        return result

    return call


def _framed(
    frame: Frame,
    makers: list[_Maker],
    at: Sequence[int],
    scalars: Sequence[tuple[int, Any]],
) -> Call | None:
    """Compute what lies near the border by machine code."""
    if interpreted() or not frame.fits:
        return None
    run = frame.runner()
    filled = [(k, strip, maker.value) for k, maker in enumerate(makers) for strip in maker.strips]

    def call(args: Sequence[Any], out: Any) -> Any:
        fields = [args[k] for k in at]
        if out is None:
            results = [maker.make(maker.shape, maker.dtype) for maker in makers]
        else:
            results = _listed(out)
            if not _writable(results, fields):
                return None
        run(fields, results, [v if k < 0 else args[k] for k, v in scalars])
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
    at: Sequence[int],
    scalars: Sequence[tuple[int, Any]],
) -> Call:
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

    def call(args: Sequence[Any], out: Any) -> Any:
        fields = [args[k] for k in at]
        if out is None:
            results = [maker.make(maker.shape, maker.dtype) for maker in makers]
        else:
            results = _listed(out)
            if not _writable(results, fields):
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
        entry(*padded, *inner, *[v if k < 0 else args[k] for k, v in scalars])
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
