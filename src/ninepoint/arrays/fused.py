"""Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

Arrays that lie in memory as the kernel cannot read them, or are too short, are refused; so are
steps on arrays too small to be worth it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from ..backends.memory import empty
from .borders import Array
from .chains import Chain, Numbers, Pass, Sides, fits, plain, spread, stacked
from .lanes import Lanes, with_lanes
from .numpy import check_kept
from .parts import SPLIT_POINTS, note_pace, threads_for
from .single import Given, Step, lengths_of, told
from .work import Group, Spans, Work, cut, extents, ranked, reached, within


def bind_pass(
    work: Work,
    group: Group,
    members: Sequence[int],
    values: Mapping[int, Array],
    outs: Mapping[int, Array],
) -> Step | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    program, chain, threads = group.program, group.chain, work.threads
    assert program is not None
    assert chain is not None
    for node in group.nodes:
        if node.border.uses("keep"):
            check_kept(node.program.field_dtypes, node.out_dtypes)
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

    def turned(array: Array) -> Array:
        return array if along == ends else np.moveaxis(array, along, ends)

    def taken(values: Mapping[int, Array]) -> list[Array]:
        """The fields, with core axes last."""
        fields = [values[value] for value in group.fields]
        if work.shape is not None:
            fields = [cut(values[value], at[value], has) for value in group.fields]
        return [turned(ranked(field, along)) for field in fields]

    fields = taken(values)
    shape, lanes = fields[0].shape, None
    if any(field.shape != shape for field in fields[: len(fields) - program.positions]):
        return None
    if not group.steps and len(shape) >= ndim:
        found = with_lanes(chain, fields)
        lanes, chain = found or (None, chain)

    def lain(array: Array) -> Array:
        return stacked(array if lanes is None else lanes.of(array), chain.ndim)

    if not _takes(group, chain, [field if lanes is None else lanes.of(field) for field in fields]):
        return None
    lead, core = shape[: len(shape) - ndim], shape[len(shape) - ndim :]
    length = [
        n - (0 if before else low) - (0 if after else high)
        for n, (before, after), (low, high) in zip(core, sides, margin.sides, strict=True)
    ]
    dtypes = {value: dtype for value, dtype in _dtypes(group).items() if value in group.outputs}
    into = [
        value
        for value, dtype in dtypes.items()
        if (out := work.target(value, gives, outs)) is not None
        and _is_lain(turned(out), dtype, lanes, chain.ndim)
    ]
    lengths = work.lengths or shape
    whole = tuple(lengths[axis] for axis in (along if work.shape else ends))
    bound, told_lengths = program.within(whole), lengths_of(program, whole)
    fixed, count = (bound.coefficients, bound.scalars), len(bound.coefficients)
    points = math.prod(shape)
    small = points < SPLIT_POINTS or threads == 1
    make = empty if lanes is None else lanes.empty
    if lanes is not None:
        sides = (*lanes.in_turn(sides), *[(True, True)] * lanes.levels)
    core = lain(fields[0]).shape[1:]
    alone = Pass(chain, core, 1, sides)
    passes: dict[int, Pass] = {1: alone}
    if work.shape is not None:
        work.at |= dict.fromkeys(group.outputs, gives)

    def do(
        values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        results = {
            value: turned(outs[value]) if value in into else make((*lead, *length), dtype)
            for value, dtype in dtypes.items()
        }
        fields = taken(values)
        if program.positions:
            fields = spread(fields, program.positions)
        inputs = [lain(field) for field in fields]
        made = [lain(results[value]) for value in group.outputs]
        numbers: Numbers = fixed
        if given.numbers is not None:
            own = told(given.numbers, members, told_lengths)
            numbers = tuple(own[:count]), tuple(own[count:])
        if small:
            alone(numbers, inputs, made)
        else:
            many = threads_for(bound, points, threads)
            if many not in passes:
                passes[many] = Pass(chain, core, many, sides)
            began = perf_counter()
            passes[many](numbers, inputs, made)
            note_pace(bound, points, perf_counter() - began, many)
        if along == ends:
            return results
        return {value: np.moveaxis(one, ends, along) for value, one in results.items()}

    return do


def _dtypes(group: Group) -> dict[int, np.dtype]:
    return {
        value: dtype
        for node in group.nodes
        for value, dtype in zip(node.outputs, node.out_dtypes, strict=True)
    }


def _is_lain(out: Array, dtype: np.dtype, lanes: Lanes | None, ndim: int) -> bool:
    """Whether a kernel can write to an array as it is."""
    if lanes is None:
        return plain(out, dtype, ndim)
    return lanes.lies(out) and plain(lanes.of(out), dtype, ndim)


def _takes(group: Group, chain: Chain, fields: Sequence[Array]) -> bool:
    """Whether these arrays can be read by the kernel of a group, and are worth it."""
    compiled, shape = chain.compiled, fields[0].shape
    if len(shape) < chain.ndim:
        return False
    given = len(fields) - len(compiled.positions)
    pairs = zip(fields[:given], compiled.field_dtypes, strict=False)
    if not all(plain(field, dtype, chain.ndim) for field, dtype in pairs):
        return False
    core = shape[len(shape) - chain.ndim :]
    if not math.prod(shape) or not fits(core, compiled.reaches[0]):
        return False
    return not group.steps or chain.pays(core, group.asked)
