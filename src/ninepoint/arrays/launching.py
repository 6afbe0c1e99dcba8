"""Launches: what does the groups of a plan on blocks of one kind, bound once, called often.

    groups, a block, what is wanted     --bind-->     Launches
    launches(fields, given, outs)       ->            values

    whole array     every node with its border rule
    block           the rule at closed sides; at open ones each node gives as much less as it
                    looks, so that no point is computed which the whole array does not have

Values live as long as something reads them.  A group of several nodes is one call where one border
is enough for all of them, and one kernel where the block is large and lies in memory as it must;
else its nodes are done one after the other.  Each is bound when it is first done, as it is for the
arrays that are there then; all blocks of the kind are done so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .borders import Array
from .executable import Executable, Run
from .fused import bind_pass
from .ghosts import GhostCall
from .regions import Node
from .single import NOTHING, Given, Numbers, OneCall, Step, bind_call
from .work import Block, Group, Work, common, cut, take

# What is bound, on values that are there, and arrays to write to.
Bind = Callable[[Any, Mapping[int, Array], Mapping[int, Array]], Step]


class InTurn:
    """Some of them; gives what is `wanted` of what they make, and what is made lives no longer."""

    def __init__(self, items: Sequence[Group | Node], wanted: Sequence[int], bind: Bind) -> None:
        self._steps: list[Step | None] = [None] * len(items)
        self._items, self._wanted, self._bind = items, wanted, bind
        # What nobody reads after each of them.
        self._done: list[list[int]] = []
        known = {value for one in items for value in (*one.fields, *one.outputs)}
        for k in range(len(items)):
            later = {value for one in items[k + 1 :] for value in (*one.fields, *one.outputs)}
            self._done.append([*(known - later - set(wanted))])
            known &= later | set(wanted)

    def __call__(
        self, values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        known = dict(values)
        for k, step in enumerate(self._steps):
            if step is None:
                step = self._steps[k] = self._bind(self._items[k], known, outs)
            known.update(step(known, given, outs))
            for value in self._done[k]:
                known.pop(value, None)
        return {value: known[value] for value in self._wanted if value in known}


class Launches:
    """The groups of a plan on blocks of one kind: shapes, strides and types, and where they stand.

    Parameters
    ----------
    groups : sequence of Group
        In an order in which they can be done.
    wanted : sequence of int
    block : Block
    threads : int, optional
        The greatest number of threads.

    Raises
    ------
    ValueError
        If the block has not all that the region needs.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        wanted: Sequence[int],
        block: Block,
        threads: int | None = None,
    ) -> None:
        nodes = [node for group in groups for node in group.nodes]
        self._all, self._wanted = groups, wanted
        self._work = Work(nodes, wanted, block, threads)
        self._calls: list[OneCall] | None = None
        self._steps = InTurn(groups, wanted, self._bound)

    def __call__(
        self,
        fields: Sequence[Array],
        given: Given = NOTHING,
        outs: Mapping[int, Array] | None = None,
    ) -> list[Array]:
        """The wanted values for such fields.

        What is `given` besides is by default that of the calls.  `outs` are arrays of the right
        shape and type, of nobody else, to write values to; what is made in another way is given as
        another array.
        """
        values = self._steps(dict(enumerate(fields)), given, outs or {})
        return [self._work.given(value, values[value]) for value in self._wanted]

    def calls(self, fields: Sequence[Array], outs: Mapping[int, Array]) -> list[OneCall] | None:
        """All of it as calls in their order, none of which is done; None where it is more.

        There is an array in `outs` for all that is made.
        """
        if self._calls is not None:
            return self._calls
        values, free = {**dict(enumerate(fields)), **outs}, True
        found: list[OneCall] = []
        for group in self._all:
            for node in group.nodes:
                one = bind_call(self._work, node, values, outs)
                if not isinstance(one, OneCall):
                    return None
                run: Run | None = one.run
                if isinstance(run, GhostCall) and one.targets:
                    results = [outs[value] for value in one.outputs]
                    run, free = run.fixed(one.inputs(values), results), False
                if not isinstance(run, Executable):
                    return None
                found.append(replace(one, run=run))
        if free:
            # Others like these arrays are done so as well.
            self._calls = found
        return found

    def _bound(self, group: Group, values: Mapping[int, Array], outs: Mapping[int, Array]) -> Step:
        """What does a group on such values."""
        step: Step | None = None
        if group.at_once is not None:
            step = _bind_at_once(self._work, group, values, outs)
        if step is None and group.chain is not None:
            step = bind_pass(self._work, group, values, outs)
        if step is None and group.steps:
            return InTurn(group.steps, group.outputs, self._bound)
        if step is None and len(group.nodes) == 1:
            return bind_call(self._work, group.nodes[0], values, outs)
        return step or InTurn(group.nodes, group.outputs, partial(bind_call, self._work))


def _bind_at_once(
    work: Work, group: Group, values: Mapping[int, Array], outs: Mapping[int, Array]
) -> Step | None:
    """What does a group in one pass on a GPU; None if its nodes have to be done one by one.

    Open sides of a block are taken for ends of the array: what is wrong there, as far in as the
    nodes look, is cut off.
    """
    # Imported here: CuPy is optional, and the caller has it.
    from . import cuda

    do, program, along = group.at_once, group.program, group.nodes[0].along
    assert program is not None
    part = common(work, group, do.margin)
    if part is None:
        return None
    whole = work.shape is None
    pairs = tuple(
        (value, work.indices(value, values[value], part.has, along)) for value in group.fields
    )
    fields = [take(values[value], indices) for value, indices in pairs]
    shape, into = fields[0].shape, [outs[value] for value in group.outputs if value in outs]
    into = into if whole else []
    if len(into) not in (0, len(group.outputs)) or any(one.shape != shape for one in fields):
        return None
    run = cuda.Executable(do, fields, into or None, along)
    numbers = Numbers.of(program, work.core(shape, along), group.nodes)
    call = OneCall(run, pairs, group.outputs, numbers, bool(into))
    if whole:
        return call
    work.at |= dict.fromkeys(group.outputs, part.gives)

    def step(
        values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        made = call(values, given, outs)
        return {value: cut(one, part.has, part.gives) for value, one in made.items()}

    return step
