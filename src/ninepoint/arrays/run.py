"""Run nodes, group by group, on a block: the whole array, or a part of it with open sides.

    whole array     every node with its border rule
    block           the rule at closed sides; at open ones each node gives as much less as it
                    looks, so that no point is computed which the whole array does not have

Values live as long as something reads them.  A group of several nodes is one call where one border
is enough for all of them, and one kernel where the block is large and lies in memory as it must;
else its nodes are done one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .again import Again
from .borders import Array
from .fused import in_one_pass
from .joint import Joint
from .lanes import width_of
from .layout import Region
from .single import full, node_alone, one_by_one, ranked, thinned
from .work import AtOnce, Block, Group, Work, cut, extents, reached, within


def run(
    groups: Sequence[Group],
    block: Block,
    wanted: Sequence[int],
    *,
    region: Region | None = None,
    outs: Mapping[int, Array] | None = None,
    threads: int | None = None,
    noted: Again | None = None,
) -> list[Array]:
    """The wanted values, for the arrays of a block in the place of those given.

    Parameters
    ----------
    groups : sequence of Group
        In an order in which they can be done.
    block : Block
    wanted : sequence of int
    region : Region, optional
        The points of the domain to give, as far as a value has them ("valid"); by default all
        for which the block has what is needed.
    outs : mapping, optional
        Arrays of the right shape and type, of nobody else, to write values to.  What is made in
        another way is given as another array.
    threads : int, optional
        The greatest number of threads.
    noted : Again, optional
        What is to do blocks like this one from now on.

    Raises
    ------
    ValueError
        If the block has not all that the region needs.
    """
    outs = outs or {}
    nodes = [node for group in groups for node in group.nodes]
    sources = range(len(block.arrays))
    work = Work(nodes, sources, wanted, block, region)
    work.noted = noted
    values: dict[int, Array] = dict(enumerate(block.arrays))
    last = {value: k for k, group in enumerate(groups) for value in group.fields}
    for position, group in enumerate(groups):
        values |= _group(work, group, values, threads, outs)
        for value in [v for v in values if last.get(v, -1) <= position and v not in wanted]:
            del values[value]
    if noted is not None:
        noted.gave([(value, work.part(value, values[value])) for value in wanted])
    return [work.given(value, values[value]) for value in wanted]


def _group(
    work: Work,
    group: Group,
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What a group gives."""
    if group.at_once is not None:
        made = _at_once(work, group, group.at_once, values, full(group.nodes, outs))
        if made is not None:
            return thinned(group.nodes, made)
    if group.joint is not None:
        made = _as_one(work, group.joint, values, threads, outs)
        if made is not None:
            return made
    if group.program is not None:
        fused = in_one_pass(work, group, group.program, values, threads, outs)
        if fused is not None:
            return fused
    if group.steps:
        return _step_by_step(work, group, values, threads, outs)
    return one_by_one(work, group.nodes, values, group.outputs, threads, outs)


def _at_once(
    work: Work,
    group: Group,
    do: AtOnce,
    values: Mapping[int, Array],
    outs: Mapping[int, Array],
) -> dict[int, Array] | None:
    """What a group gives in one pass on a GPU; None if its nodes have to be done one by one."""
    if work.shape is None or work.lengths is None:
        return do(values, outs, None)
    margin, along = do.margin, group.nodes[0].along
    if margin is None:
        return None
    has, _, gives = extents(work, group.nodes[0], group.fields, margin)
    enough = all(within(work.needs.get(value, gives), gives) for value in group.outputs)
    if not enough or not reached(group, margin, gives, has, work.shape):
        return None
    fields = {value: cut(values[value], work.at[value], has) for value in group.fields}
    made = do(fields, {}, tuple(work.lengths[axis] for axis in along))
    if made is None:
        return None
    if work.noted is not None:
        work.noted.otherwise()
    work.at |= dict.fromkeys(made, gives)
    return {value: cut(one, has, gives) for value, one in made.items()}


def _step_by_step(
    work: Work,
    group: Group,
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What the last of some steps gives."""
    known = dict(values)
    before: Sequence[int] = ()
    for step in group.steps:
        known |= _group(work, step, known, threads, outs)
        for value in before:
            del known[value]
        before = step.outputs
    return {value: known[value] for value in group.outputs}


def _as_one(
    work: Work,
    one: Joint,
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array] | None:
    """What several nodes give as one; None if they have to be done otherwise."""
    margin, ends = one.program.reaches[0], tuple(range(-len(one.along), 0))
    given = [values[value] for value in one.fields]
    fields = given
    if work.shape is not None:
        has, sides, gives = extents(work, one, one.fields, margin)
        if not all(within(work.needs.get(value, gives), gives) for value in one.outputs):
            return None
        for axis, side, low, high in zip(one.along, sides, margin.lo, margin.hi, strict=True):
            first, last = has[axis]
            # A block that ends with the array at one side has to hold what the rule takes.
            if any(side) and not all(side) and last - first <= high - low:
                return None
        at = [work.at[value] for value in one.fields]
        fields = [cut(field, own, has) for field, own in zip(fields, at, strict=True)]
        work.takes[id(one)] = has
    turned = [np.moveaxis(ranked(f, one.along), one.along, ends) for f in fields]
    takes = one.takes([field.shape for field in turned], width_of(turned, len(ends)))
    return node_alone(work, one, given, threads, outs) if takes else None
