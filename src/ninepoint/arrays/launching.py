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

Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

Arrays that are too short for a kernel are refused; so are steps on arrays too small to be worth
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..backends.memory import empty
from ..base.frozen import frozen
from .accepted import as_it_is, is_cupy, listed, write
from .arranging import core_last, scattered
from .chains import Chain, is_worth, spans
from .executable import Executable, Run
from .ghosts import GhostCall
from .layout import Array, PlainArrays, Shape
from .numpy import check_values, placed, whole_shape
from .regions import Block, Node, thinned
from .single import Single
from .work import ByNumber, Group, Taken, Work, taken


class Given(NamedTuple):
    """What calls are given beside arrays.

    The `leaves` are the numbers of all calls by name, in the order in which they were recorded;
    None where they are those of the calls.  Functions at the border are told the `step` of an
    iteration; a border of conditions may have other values, those of a `boundary`.
    """

    leaves: Sequence[Mapping[str, Any]] | None = None
    step: int | None = None
    boundary: Any = None


NOTHING = Given()

# Values, what is given besides, and arrays to write to, by number -> what is made of them.
Step: TypeAlias = Callable[[ByNumber, Given, ByNumber], dict[int, Array]]


# Of which leaf, by which name, and how it is read.
Read: TypeAlias = tuple[int, str, Callable[[Any], Any]]


@frozen
class OneCall:
    """A call of one node, or of several as one, on arrays of one kind.

    It takes these `fields` of the values that it is given, or these as they are; with `targets` it
    writes to arrays that are there.  Its numbers are coefficients, then scalars: its `own`, or
    what calls are given, of which `reads` say of which leaf, by which name and how each is read.
    Lengths of the arrays stay as they are.
    """

    run: Run
    fields: Taken
    outputs: tuple[int, ...]
    targets: bool
    own: Sequence[Any]
    reads: Sequence[Read]

    def __call__(self, values: ByNumber, given: Given, outs: ByNumber) -> dict[int, Array]:
        out = [outs[value] for value in self.outputs] if self.targets else None
        return dict(zip(self.outputs, self.on(values, given, out), strict=True))

    def on(self, values: Any, given: Given = NOTHING, out: Any = None) -> PlainArrays:
        """The results alone."""
        run, numbers, leaves = self.run, self.own, given.leaves
        if leaves is not None:
            numbers = [
                read(as_it_is(leaves[number][name])) if name else own
                for own, (number, name, read) in zip(numbers, self.reads, strict=True)
            ]
        if self.fields:
            values = taken(values, self.fields)
        if isinstance(run, GhostCall):
            return run(values, numbers, out, given.boundary, given.step)
        return run(values, numbers, out)


def _numbers(nodes: Sequence[Node], core: Shape) -> tuple[Sequence[Any], Sequence[Read]]:
    """The numbers of nodes on arrays of a shape, along their axes, and how they are read."""
    own, reads = list[Any](), list[Read]()
    for which in (0, 1):
        for node in nodes:
            for name, read in node.compiled.takes[which]:
                if isinstance(name, int):
                    own.append(core[name])
                    reads.append((0, "", int))
                else:
                    own.append(read(node.call.scalars[name]))
                    reads.append((node.number, name, read))
    return own, reads


def bind_call(work: Work, node: Node, values: ByNumber, outs: ByNumber) -> Step:
    """What does one node, on values like these; notes where its results stand."""
    there = any(is_cupy(values[value]) for value in node.fields)
    if node.thins and (there or not node.compiled.every):
        full = {value: out for value, out in outs.items() if value not in node.outputs}
        every = bind_call(work, node.full, values, full)

        def some(*given: Any) -> dict[int, Array]:
            # Copies, for nobody needs the rest of the memory.
            return {
                value: thinned(one, node.every, node.along).copy(order="K")
                for value, one in every(*given).items()
            }

        return some
    part, along = work.part(node), node.along
    border = node.boundary.opened(part.closed).on(len(along))
    pairs, fields, into = work.arrays(part, node.fields, values, outs)
    # Another array of this shape is as long.
    numbers = _numbers([node], work.core(whole_shape(fields), along))
    program = node.compiled
    run: Run
    if node.boundary.conditions:
        run = GhostCall(node, fields, part.closed, work.threads)
    elif there:
        # Imported here: CuPy is optional, and the caller has it.
        from .cuda import executable as on_device

        run = on_device.Executable(node, border, fields, along, into)
    else:
        call = Single(program, border, node.cval)
        run = Executable(call, fields, along, None if node.factors else into, work.threads)
        if node.factors:
            run = partial(_finer, node, run)
    work.stand(part)
    return OneCall(run, pairs, node.outputs, into is not None, *numbers)


def _finer(
    node: Node, run: Run, fields: PlainArrays, numbers: Sequence[Any], out: Any = None
) -> PlainArrays:
    """What a node gives whose program's outputs are phases.

    Its outputs are those of the first phase, then those of the next one; or those of one, if all
    phases are alike.
    """
    along, factors, count = node.along, node.factors, len(node.outputs)
    made, results = run(fields, numbers, None), listed(out)
    for k in range(count):
        if out is None:
            shape = made[k].shape
            longer = [shape[axis] * n for axis, n in zip(along, factors, strict=True)]
            results.append(empty(placed(shape, along, longer), made[k].dtype))
        for number, place in enumerate(np.ndindex(*factors)):
            part = thinned(results[k], factors, along, place)
            write(part, made[(number * count + k) % len(made)])
    return results


def _bind_group(work: Work, group: Group, values: ByNumber, outs: ByNumber) -> Step | None:
    """What does several nodes as one kernel; None if they have to be done one by one."""
    chain: Chain = group.chain
    compiled, along = chain.compiled, group.nodes[0].along
    part = work.common(group, compiled.reach)
    if part is None:
        return None
    pairs, fields, into = work.arrays(part, group.fields, values, outs)
    for node in group.nodes:
        # As where it is done alone, whatever is read of all this.
        check_values(node.border, node.cval, node.compiled)
    shape = whole_shape(fields)
    core = tuple(shape[axis] for axis in along)
    alike = all(one.shape == shape for one in fields[: len(fields) - group.positions])
    # Points must be left whose neighbours all exist.
    room = all(n > span for n, span in zip(core, spans(compiled.reach), strict=True))
    if not alike or 0 in shape or not room:
        return None
    if group.steps:
        itemsize = sum(dtype.itemsize for dtype in compiled.out_dtypes)
        if not group.asked and not is_worth(compiled.reach, 1, core, itemsize):
            return None
    else:
        order = core_last(len(shape), along)
        lain = [np.broadcast_to(one, shape).transpose(order) for one in fields]
        if any(scattered(compiled, lain)):
            # Each node does those where they lie.
            return None
    numbers = _numbers(group.nodes, work.core(shape, along))
    run = Executable(replace(chain, closed=part.closed), fields, along, into, work.threads)
    work.stand(part)
    return OneCall(run, pairs, group.outputs, into is not None, *numbers)


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
    """

    def __init__(
        self,
        groups: Sequence[Group],
        wanted: Sequence[int],
        block: Block,
        threads: int | None = None,
    ) -> None:
        nodes = [node for group in groups for node in group.nodes]
        self._groups, self._wanted = groups, wanted
        self._work = Work(nodes, wanted, block, threads)
        # Each with the values that nobody reads after it, and nobody wants.
        self._steps: Sequence[tuple[Step, Sequence[int]]] = ()

    def __call__(
        self,
        fields: PlainArrays,
        given: Given = NOTHING,
        outs: ByNumber | None = None,
    ) -> list[Array]:
        """The wanted values for such fields.

        What is `given` besides is by default that of the calls.  `outs` are arrays of the right
        shape and type, of nobody else, to write values to; what is made in another way is given as
        another array.
        """
        values, outs = dict(enumerate(fields)), outs or {}
        for step, done in self._steps or self._bound(values, outs):
            values.update(step(values, given, outs))
            for value in done:
                values.pop(value, None)
        return [self._work.given(value, values[value]) for value in self._wanted]

    def _bound(self, values: ByNumber, outs: ByNumber) -> Iterator[tuple[Step, Sequence[int]]]:
        """Bind each step when what it reads was made by those before."""
        left: list[Group | Node] = [*self._groups]
        found = []
        while left:
            one = left.pop(0)
            step = self._step(one, values, outs)
            if step is None:
                left[:0] = one.steps or one.nodes
                continue
            others = {*self._wanted, *(value for other in left for value in other.fields)}
            done = [value for value in (*one.fields, *one.outputs) if value not in others]
            found.append((step, done))
            yield found[-1]
        self._steps = found

    def _step(self, one: Group | Node, values: ByNumber, outs: ByNumber) -> Step | None:
        """What does a node, or a group at once; None if that has to be done one by one."""
        if not isinstance(one, Group):
            return bind_call(self._work, one, values, outs)
        if len(one.nodes) == 1:
            return bind_call(self._work, one.nodes[0], values, outs)
        return _bind_group(self._work, one, values, outs)
