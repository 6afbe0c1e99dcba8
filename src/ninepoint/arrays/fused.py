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
from ..backends.threads import thread_count
from .borders import Array
from .chains import Pass, Sides, fits
from .parts import SPLIT_POINTS, is_shared, note_pace
from .single import Given, Step, lengths_of, told
from .views import plain, spread, stacked
from .work import Group, Spans, Work, cut, extents, ranked, reached, within


def bind_pass(
    work: Work,
    group: Group,
    members: Sequence[int],
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> Step | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    program, chain = group.program, group.chain
    assert program is not None
    assert chain is not None
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
    if not _takes(group, fields):
        return None
    shape = fields[0].shape
    lead, core = shape[: len(shape) - ndim], shape[len(shape) - ndim :]
    length = [
        n - (0 if before else -min(0, low)) - (0 if after else max(0, high))
        for n, (before, after), low, high in zip(core, sides, margin.lo, margin.hi, strict=True)
    ]
    dtypes = {value: dtype for value, dtype in _dtypes(group).items() if value in group.outputs}
    into = [
        value
        for value, dtype in dtypes.items()
        if (out := work.target(value, gives, outs)) is not None and plain(turned(out), dtype, ndim)
    ]
    lengths = work.lengths or shape
    whole = tuple(lengths[axis] for axis in (along if work.shape else ends))
    bound = program.within(whole)
    told_lengths = lengths_of(program, whole)
    points = math.prod(shape)
    small = points < SPLIT_POINTS or threads == 1
    alone = Pass(chain, core, 1, sides)
    passes: dict[int, Pass] = {1: alone}
    if work.shape is not None:
        work.at |= dict.fromkeys(group.outputs, gives)

    def do(
        values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        results = {
            value: turned(outs[value]) if value in into else empty((*lead, *length), dtype)
            for value, dtype in dtypes.items()
        }
        inputs = spread(taken(values), program.positions) if program.positions else taken(values)
        inputs = [stacked(field, ndim) for field in inputs]
        made = [stacked(results[value], ndim) for value in group.outputs]
        ready = bound
        if given.numbers is not None:
            ready = bound.with_numbers(told(given.numbers, members, told_lengths))
        numbers = ready.coefficients, ready.scalars
        if small:
            alone(numbers, inputs, made)
        else:
            count = thread_count(threads) if is_shared(bound, points) else 1
            if count not in passes:
                passes[count] = Pass(chain, core, count, sides)
            began = perf_counter()
            passes[count](numbers, inputs, made)
            note_pace(bound, points, perf_counter() - began, count)
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


def _takes(group: Group, fields: Sequence[Array]) -> bool:
    """Whether these arrays can be read by the kernel of a group, and are worth it."""
    chain, program = group.chain, group.program
    assert chain is not None
    assert program is not None
    ndim, shape = program.ndim, fields[0].shape
    given = len(fields) - program.positions
    if any(field.shape != shape for field in fields[:given]) or len(shape) < ndim:
        return False
    pairs = zip(fields[:given], program.field_dtypes, strict=False)
    if not all(plain(field, dtype, ndim) for field, dtype in pairs):
        return False
    core = shape[len(shape) - ndim :]
    if not math.prod(shape) or not fits(core, program.reaches[0]):
        return False
    return not group.steps or chain.pays(core, group.asked)
