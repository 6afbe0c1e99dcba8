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
from .axes import Behind
from .bands import Ends, Sides, fits, run_fused
from .borders import Array
from .in_turn import InTurn
from .iterating import run_chain
from .lanes import Lanes, with_lanes
from .layout import Region, Shape
from .single import Given, Step, lengths_of, told
from .views import plain, spread, stacked
from .work import Block, Domain, Group, Spans, Work, cut, extents, ranked, reached, within


def bind_pass(
    work: Work,
    group: Group,
    members: Sequence[int],
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> Step | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    program = group.program
    assert program is not None
    ndim, along, margin = program.ndim, group.nodes[0].along, program.reaches[0]
    ends = tuple(range(-ndim, 0))
    sides: tuple[Sides, ...] = ((True, True),) * ndim
    has: Spans = ()
    gives: Spans = ()
    if work.shape is not None:
        has, sides, gives = extents(work, group.nodes[0], group.fields, margin)
        enough = all(within(work.needs.get(value, gives), gives) for value in group.outputs)
        if not enough or not reached(group, margin, gives, has, work.shape):
            return None
    at = {value: work.at.get(value, has) for value in group.fields}

    def taken(values: Mapping[int, Array]) -> list[Array]:
        """The fields, with core axes last."""
        fields = [cut(values[value], at[value], has) for value in group.fields]
        return [np.moveaxis(ranked(field, along), along, ends) for field in fields]

    fields = taken(values)
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
    made_shape = (*shape[: len(shape) - ndim], *core)
    dtypes = {value: dtype for value, dtype in _dtypes(group).items() if value in group.outputs}
    into = [
        value
        for value, dtype in dtypes.items()
        if (out := work.target(value, gives, outs)) is not None
        and _fits(np.moveaxis(out, along, ends), dtype, ndim, lanes)
    ]
    lengths = work.lengths or shape
    whole = tuple(lengths[axis] for axis in (along if work.shape else ends))
    bound = laned.within(whole)
    told_lengths = lengths_of(program, whole)
    thin = partial(_thin, work, group, whole, margin, along, gives, has, sides, {})
    if work.shape is not None:
        work.at |= dict.fromkeys(group.outputs, gives)

    def do(
        values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        fields = taken(values)
        results = {
            value: np.moveaxis(outs[value], along, ends)
            if value in into
            else (empty if lanes is None else lanes.empty)(made_shape, dtype)
            for value, dtype in dtypes.items()
        }
        flat = fields if lanes is None else [lanes.of(field) for field in fields]
        inputs = [stacked(field, laned.ndim) for field in spread(flat, program.positions)]
        made = [results[value] for value in group.outputs]
        made = [stacked(one if lanes is None else lanes.of(one), laned.ndim) for one in made]
        ready = bound
        if given.numbers is not None:
            ready = bound.with_numbers(told(given.numbers, members, told_lengths))
        ends_of = partial(thin, given)
        if group.chain is None:
            _run_stages(group, ready, ends_of, inputs, made, thread_count(threads), sides, lanes)
        else:
            step_by_step = [
                Ends(partial(ends_of, axis), axis, sides[axis], positions=program.positions)
                for axis in range(ndim)
            ]
            run_chain(
                group.chain,
                (ready.coefficients, ready.scalars),
                step_by_step.__getitem__,
                inputs,
                made,
                thread_count(threads),
                ended=sides,
            )
        return {value: np.moveaxis(one, ends, along) for value, one in results.items()}

    return do


def _run_stages(
    group: Group,
    program: Bound,
    thin: Callable[[int, list[Array]], Sequence[Array]],
    fields: Sequence[Array],
    results: Sequence[Array],
    threads: int,
    sides: Sequence[Sides],
    lanes: Lanes | None,
) -> None:
    """Do nodes that are stages of each other, on arrays that lie as the kernel has them."""
    apart = 1
    if lanes is not None:
        thin = partial(_thin_lanes, thin, lanes.of_stack())
        sides = tuple(lanes.in_turn(sides))
        sides, apart = ((*sides, (True, True)), 1) if lanes.levels else (sides, lanes.count)
    run_fused(program, thin, fields, results, threads, group.tile, sides, lanes=apart)


def _fits(out: Array, dtype: np.dtype, ndim: int, lanes: Lanes | None) -> bool:
    """Whether a kernel can write to an array as it is."""
    if lanes is None:
        return plain(out, dtype, ndim)
    return lanes.lies(out) and plain(lanes.of(out), dtype, ndim + lanes.levels)


def _thin_lanes(
    thin: Callable[[int, list[Array]], Sequence[Array]],
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
    known: dict[Any, tuple[Work, InTurn]],
    given: Given,
    axis: int,
    pieces: Sequence[Array],
) -> list[Array]:
    """What the nodes give one after the other, for thin pieces of an axis, whose ends are closed.

    The pieces have the core axes behind those of the stack; both ends of the axis, joined, or one.
    What does pieces alike is `known`.
    """
    key = (axis, *((one.shape, one.strides) for one in pieces))
    if key not in known:
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
        inner.whole = whole
        known[key] = inner, InTurn(inner, nodes, group.outputs, 1)
    inner, do = known[key]
    made = do(dict(zip(group.fields, pieces, strict=True)), given, {})
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
