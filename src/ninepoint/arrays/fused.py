"""Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

    middle        the kernel of the group
    both ends     the nodes one after the other, on thin pieces

An array too small to be worth it, or that lies in memory as the kernel cannot read it, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from .. import limits
from ..backends.compiled import Bound
from ..backends.memory import empty
from ..backends.threads import thread_count
from ..language.box import Box
from .again import Again
from .axes import Behind
from .bands import Ends, Sides, fits, run_fused
from .borders import Array
from .iterating import run_chain
from .lanes import Lanes, with_lanes
from .layout import Region, Shape
from .single import one_by_one, ranked
from .views import plain, spread, stacked
from .work import Block, Domain, Group, Spans, Work, cut, extents, reached, within


def in_one_pass(
    work: Work,
    group: Group,
    program: Bound,
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array] | None:
    """What a group gives as one kernel; None if it has to be done node by node."""
    ndim, along, margin = program.ndim, group.nodes[0].along, program.reaches[0]
    ends = tuple(range(-ndim, 0))
    fields = [values[value] for value in group.fields]
    sides: tuple[Sides, ...] = ((True, True),) * ndim
    has: Spans = ()
    gives: Spans = ()
    if work.shape is not None:
        has, sides, gives = extents(work, group.nodes[0], group.fields, margin)
        fields = [
            cut(field, work.at[value], has)
            for field, value in zip(fields, group.fields, strict=True)
        ]
        enough = all(within(work.needs.get(value, gives), gives) for value in group.outputs)
        if not enough or not reached(group, margin, gives, has, work.shape):
            return None
    fields = [np.moveaxis(ranked(field, along), along, ends) for field in fields]
    lanes: Lanes | None = None
    laned = program
    if group.chain is None and fields[0].ndim >= ndim:
        shape = np.broadcast_shapes(*(field.shape for field in fields))
        found = with_lanes(program, fields) if all(f.shape == shape for f in fields) else None
        lanes, laned = found or (None, program)
    flat = fields if lanes is None else [lanes.of(field) for field in fields]
    if not (can_fuse(group, laned, flat) if group.chain is None else _can_chain(group, fields)):
        return None
    shape = fields[0].shape
    core = [
        n - (0 if before else -min(0, low)) - (0 if after else max(0, high))
        for n, (before, after), low, high in zip(
            shape[len(shape) - ndim :], sides, margin.lo, margin.hi, strict=True
        )
    ]
    results: dict[int, Array] = {}
    for value, dtype in _dtypes(group).items():
        if value in group.outputs:
            out = work.target(value, gives, outs)
            out = None if out is None else np.moveaxis(out, along, ends)
            if out is None or not _fits(out, dtype, ndim, lanes):
                whole = (*shape[: len(shape) - ndim], *core)
                out = empty(whole, dtype) if lanes is None else lanes.empty(whole, dtype)
            results[value] = out

    lengths = work.lengths or shape
    whole = tuple(lengths[axis] for axis in (along if work.shape else ends))
    thin = partial(_thin, work, group, whole, margin, along, gives, has, sides)
    bound = laned.within(whole)
    given = [stacked(field, laned.ndim) for field in spread(flat, program.positions)]
    made = [results[value] for value in group.outputs]
    made = [stacked(one if lanes is None else lanes.of(one), laned.ndim) for one in made]
    if group.chain is None:
        ends_of: Callable[[int, list[Array]], Sequence[Array]] = thin
        apart = 1
        if lanes is not None:
            ends_of = partial(_thin_lanes, thin, lanes.of_stack())
            sides = tuple(lanes.in_turn(sides))
            sides, apart = ((*sides, (True, True)), 1) if lanes.levels else (sides, lanes.count)
        run_fused(
            bound, ends_of, given, made, thread_count(threads), group.tile, sides, lanes=apart
        )
    else:
        numbers, count = (bound.coefficients, bound.scalars), thread_count(threads)
        step_by_step = [
            Ends(partial(thin, axis), axis, sides[axis], positions=program.positions)
            for axis in range(ndim)
        ]
        run_chain(group.chain, numbers, step_by_step.__getitem__, given, made, count, ended=sides)
    if work.shape is not None:
        work.at |= dict.fromkeys(group.outputs, gives)
    if work.noted is not None:
        work.noted.otherwise()
    return {value: np.moveaxis(one, ends, along) for value, one in results.items()}


def _fits(out: Array, dtype: np.dtype, ndim: int, lanes: Lanes | None) -> bool:
    """Whether a kernel can write to an array as it is."""
    if lanes is None:
        return plain(out, dtype, ndim)
    return lanes.lies(out) and plain(lanes.of(out), dtype, ndim + lanes.levels)


def _thin_lanes(
    thin: Callable[[int, Sequence[Array]], list[Array]],
    lanes: Lanes,
    axis: int,
    pieces: Sequence[Array],
) -> list[Array]:
    """What the nodes give one after the other, for thin pieces that lie in memory as `lanes`."""
    back = [lanes.back(piece) for piece in pieces]
    if lanes.turn:
        # They are small, and no other kernels are compiled for them.
        back = [np.ascontiguousarray(one) for one in back]
    return [lanes.of(one) for one in thin(lanes.axis(axis), back)]


def _thin(
    work: Work,
    group: Group,
    whole: Shape,
    margin: Box,
    along: Behind,
    gives: Spans,
    has: Spans,
    ended: Sequence[Sides],
    axis: int,
    pieces: Sequence[Array],
) -> list[Array]:
    """What the nodes give one after the other, for thin pieces of an axis, whose ends are closed.

    The pieces have the core axes behind those of the stack; both ends of the axis, joined, or one.
    """
    values = dict(zip(group.fields, pieces, strict=True))
    noted, key = None, None
    if work.noted is not None:
        key = (group.outputs, axis, *((one.shape, one.strides, one.dtype) for one in pieces))
        known = work.noted.ends.get(key)
        again = known(values, {}) if known is not None and known.ready else None
        if again is not None:
            return again
        noted = Again()
    nodes = group.turned
    block, region = Block(tuple(pieces)), None
    if work.shape is not None:
        length = pieces[0].shape[axis - len(along)]
        spans, wanted = [has[k] for k in along], [gives[k] for k in along]
        shape = [work.shape[k] for k in along]
        low, high = ended[axis]
        # An array of which the piece is one end, or all.
        shape[axis] = length if low and high else length + 1
        spans[axis] = (0, length) if low else (1, length + 1)
        before, after = max(0, -margin.lo[axis]), max(0, margin.hi[axis])
        wanted[axis] = (0 if low else length + 1 - after, shape[axis] if high else before)
        start = tuple(a for a, _ in spans)
        block = Block(tuple(pieces), start, Domain(tuple(shape)))
        region = Region(tuple(a for a, _ in wanted), tuple(b for _, b in wanted))
    inner = Work(nodes, group.fields, group.outputs, block, region)
    inner.whole, inner.noted = whole, noted
    made = one_by_one(inner, nodes, values, group.outputs, 1, {})
    if noted is not None and work.noted is not None:
        noted.gave([(value, inner.part(value, made[value])) for value in group.outputs])
        work.noted.ends[key] = noted
    return [inner.given(value, made[value]) for value in group.outputs]


def _dtypes(group: Group) -> dict[int, np.dtype[Any]]:
    return {
        value: dtype
        for node in group.nodes
        for value, dtype in zip(node.outputs, node.out_dtypes, strict=True)
    }


def _can_chain(group: Group, fields: Sequence[Array]) -> bool:
    """Whether the steps of a group are better done in one pass over these arrays."""
    chain = group.chain
    assert chain is not None
    ndim, shape = chain.compiled.ndim, fields[0].shape
    given = len(fields) - len(chain.compiled.positions)
    pairs = zip(fields[:given], chain.compiled.field_dtypes, strict=False)
    return all(f.shape == shape and plain(f, dtype, ndim) for f, dtype in pairs) and chain.pays(
        shape[len(shape) - ndim :], group.asked
    )


def can_fuse(group: Group, program: Bound, fields: Sequence[Array]) -> bool:
    """Whether these arrays can be read by the kernel of a group, and are worth it."""
    ndim, shape = program.ndim, fields[0].shape
    given = len(fields) - program.positions
    if any(field.shape != shape for field in fields[:given]) or len(shape) < ndim:
        return False
    pairs = zip(fields[:given], program.field_dtypes, strict=False)
    if not all(plain(field, dtype, ndim) for field, dtype in pairs):
        return False
    if not fits(shape[len(shape) - ndim :], program.reaches[0]):
        return False
    if group.asked:
        return True
    types = [*program.field_dtypes[:given], *_dtypes(group).values()]
    size: int = math.prod(shape) * sum(dtype.itemsize for dtype in types)
    return size > limits.current.fused_bytes
