"""Launches: what does the groups of a plan on blocks of one kind, bound once, called often.

    groups, a block, what is wanted     --bind-->     Launches
    launches(fields, given, outs)       ->            values

    whole array     every value is all there is of it, and every node has its border rule
    block           a value has a span of the points of the whole along each axis, and some of
                    them are needed.  The rule holds at closed sides; at open ones each node gives
                    as much less as it looks, so that no point is computed which the whole array
                    does not have

Values live as long as something reads them.  A group of several nodes is one call where one border
is enough for all of them, and one kernel where the block is large and lies in memory as it must;
else its nodes are done one after the other.  Each is bound when it is first done, as it is for the
arrays that are there then; all blocks of the kind are done so.

Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

Arrays that are too short for a kernel are refused; so are steps on arrays too small to be worth
it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from ..backends.compiled import Compiled
from ..backends.memory import empty
from ..base.frozen import frozen
from ..language.ir import Box
from .accepted import as_it_is, check_values, is_cupy, listed, placed, whole_shape, write
from .arranging import core_last, scattered
from .chains import is_worth, spans
from .executable import NOTHING, Executable, GhostCall, Given, Single
from .layout import Array, Index, PlainArrays, Region, Shape, Sides
from .regions import Block, Finer, Looking, Node, cut_shapes, finer_values, looks, thinned

# Arrays that are there, by the numbers of their values.
ByNumber: TypeAlias = Mapping[int, Array]

# What does calls: fields, numbers, out, what is given besides -> results.  The numbers are
# coefficient arrays, then scalars.
Run: TypeAlias = Callable[[PlainArrays, Sequence[Any], Any, Given], PlainArrays]

# Of which leaf, by which name, and how it is read.
Read: TypeAlias = tuple[int, str, Callable[[Any], Any]]


@frozen
class Group:
    """Nodes that are done together: the values they read, and those that others need.

    Several nodes are done at once by their `chain`; where they are steps of an iteration, `steps`
    has a group for each.  `kernel` holds all nodes in one, and `names` says what the values are
    called there.  `asked` tells that the schedule says how many steps, so that arrays of any size
    are done so.
    """

    nodes: tuple[Any, ...]
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: Any = None
    names: Mapping[int, str] = field(default_factory=dict)
    asked: bool = False
    steps: tuple[Group, ...] = ()
    chain: Any = None


@frozen
class Step:
    """A call of one node, or of several as one, on arrays of one kind.

    It takes these `fields` of the values that it is given, and of each what is said, or all of it;
    or the values as they are; and after them the positions that it asks for.  With `targets` it
    writes to arrays that are there.  Its numbers are coefficients, then scalars: its `own`, or
    what calls are given, of which `reads` say of which leaf, by which name and how each is read.
    Lengths of the arrays stay as they are.
    """

    run: Run
    fields: Sequence[tuple[int, Index]]
    outputs: tuple[int, ...]
    targets: bool
    own: Sequence[Any]
    reads: Sequence[Read]
    asked: Callable[..., list[Array]] | None

    def on(self, values: Any, given: Given = NOTHING, out: Any = None) -> PlainArrays:
        """The results, for values by number."""
        numbers, leaves = self.own, given.leaves
        if leaves is not None:
            numbers = [
                read(as_it_is(leaves[number][name])) if name else own
                for own, (number, name, read) in zip(numbers, self.reads, strict=True)
            ]
        if self.fields:
            values = [values[k][index] if index else values[k] for k, index in self.fields]
        if self.asked:
            values = [*values, *self.asked(values, given.on)]
        return self.run(values, numbers, out, given)


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
        self._groups, self._wanted, self._threads = groups, wanted, threads
        self._domain = domain = block.domain
        # The values that are longer than what they are made of.
        self._finer = finer_values(nodes)
        # The span that each value has, and what of it is needed; nothing of whole arrays.
        has, given = domain.has, len(block.arrays)
        self._at: dict[int, Region] = dict.fromkeys(range(given), has)
        axes = enumerate(zip(domain.region, domain.shape, strict=True), -len(domain.shape))
        found = [Looking(nodes, wanted, given, k).values(span, n) for k, (span, n) in axes]
        self._needs = {v: Region(one[v] for one in found) for v in set().union(*found)}
        # Whoever makes a block knows how much is needed.
        for value in self._at:
            assert self._needs.get(value, has).inside(has), (has, self._needs[value])
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
            out = [outs[value] for value in step.outputs] if step.targets else None
            values.update(zip(step.outputs, step.on(values, given, out), strict=True))
            for value in done:
                values.pop(value, None)
        # Only what is wanted at last is longer than the domain says.
        return [
            cut(
                values[value],
                self._at.get(value, Region()),
                self._domain.region,
                self._finer.get(value, {}),
            )
            for value in self._wanted
        ]

    def _bound(self, values: ByNumber, outs: ByNumber) -> Iterator[tuple[Step, Sequence[int]]]:
        """Bind each step when what it reads was made by those before."""
        left, found = [*self._groups], []
        while left:
            group = left.pop(0)
            if group.chain is None:
                step: Step | None = self.bind(group.nodes[0], values, outs)
            else:
                step = self._chained(group, values, outs)
            if step is None:
                left[:0] = group.steps or [Group((n,), n.fields, n.outputs) for n in group.nodes]
                continue
            others = {*self._wanted, *(value for other in left for value in other.fields)}
            done = [value for value in (*group.fields, *group.outputs) if value not in others]
            found.append((step, done))
            yield found[-1]
        self._steps = found

    def bind(self, node: Node, values: ByNumber, outs: ByNumber) -> Step:
        """What does one node, on values like these; notes where its results stand."""
        there = any(is_cupy(values[value]) for value in node.fields)
        # Where a program makes all points, some are left out afterwards.
        thins = node.thins and (there or not node.compiled.every)
        does, along = node.full if thins else node, node.along
        part = _common(self._needs, node.fields)
        sides = self._closed(node, part)
        border = node.boundary.opened(sides).on(len(along))
        whole = [(before != "valid", after != "valid") for before, after in border.rules]
        made = zip(node.outputs, does.reaches, strict=True)
        gives = {value: _left(part, along, reach, whole) for value, reach in made}
        group = Group((does,), node.fields, node.outputs)
        step, fields, into = self._placed(group, part, gives, values, {} if thins else outs)
        run: Run
        if node.boundary.conditions:
            run = GhostCall(does, fields, sides, self._threads)
        elif there:
            # Imported here: CuPy is optional, and the caller has it.
            from .cuda import executable as on_device

            run = on_device.Executable(does, border, fields, along, into)
        else:
            call, to = Single(does.compiled, border, does.cval), None if does.factors else into
            run = Executable(call, fields, along, to, self._threads)
            if does.factors:
                run = partial(_finer, does, run)
        if thins:
            run = partial(_thinned, node, run)
        return step(run)

    def _chained(self, group: Group, values: ByNumber, outs: ByNumber) -> Step | None:
        """What does several nodes as one kernel; None if they have to be done one by one.

        The kernel may read less than the nodes do one by one.
        """
        chain, nodes = group.chain, group.nodes
        compiled, along = chain.compiled, nodes[0].along
        part = _common(self._at, group.fields)
        sides = self._closed(nodes[0], part)
        left = _left(part, along, compiled.reach, sides)
        if not all(self._needs.get(value, left).inside(left) for value in group.outputs):
            return None
        gives = dict.fromkeys(group.outputs, left)
        step, fields, into = self._placed(group, part, gives, values, outs)
        for node in nodes:
            # As where it is done alone, whatever is read of all this.
            check_values(node.border, node.cval, node.compiled)
        shape = whole_shape(fields)
        core = tuple(shape[axis] for axis in along)
        alike = all(one.shape == shape for one in fields[: len(fields) - len(compiled.positions)])
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
        run = Executable(replace(chain, closed=sides), fields, along, into, self._threads)
        return step(run)

    def _closed(self, node: Node, part: Region) -> tuple[Sides, ...]:
        """At which sides of the part that a node takes its border's rules apply."""
        if not part:
            return ((True, True),) * len(node.along)
        found = []
        for axis in node.along:
            first, last, n = *part[axis], self._domain.shape[axis]
            low, high = first == 0, last == n
            ring = "wrap" in looks(node, axis)[1]
            found.append((low and high, low and high) if ring else (low, high))
        return tuple(found)

    def _placed(
        self,
        group: Group,
        part: Region,
        gives: Mapping[int, Region],
        values: ByNumber,
        outs: ByNumber,
    ) -> tuple[Callable[[Run], Step], list[Array], list[Array] | None]:
        """The step of a group by what runs it; what that is bound to: fields, arrays for results.

        It takes a part of the fields, that of these values, and notes where its results stand.
        After the fields come the positions that it asks for.
        There are no arrays for results where there are none for just these points.
        """
        found, fields = [], list[Array]()
        shapes = [values[value].shape for value in group.fields]
        fitting = cut_shapes(shapes, group.fields, self._finer)
        for value, whole, shape in zip(group.fields, shapes, fitting, strict=True):
            index: Index = tuple(map(slice, shape))
            if shape == whole:
                index = index_of(values[value], self._at.get(value, Region()), part)
            found.append((value, index))
            fields.append(values[value][index] if index else values[value])
        # An array is there for what is wanted of a value, so far as there is any.
        wanted = self._domain.region
        there = all(v in outs and at.inside(wanted) for v, at in gives.items())
        into = [outs[value] for value in gives] if there else None
        self._at |= gives
        # Another array of this shape is as long.
        lengths = self._domain.lengths or self._domain.shape or whole_shape(fields)
        own, reads = list[Any](), list[Read]()
        for which, node in itertools.product((0, 1), group.nodes):
            for name, read in node.compiled.takes[which]:
                if isinstance(name, int):
                    own.append(lengths[node.along[name]])
                    reads.append((0, "", int))
                else:
                    own.append(read(node.call.scalars[name]))
                    reads.append((node.number, name, read))
        first, asked = group.nodes[0], None
        compiled = group.chain.compiled if group.chain else first.compiled
        if compiled.positions:
            asked = partial(_positions, first, compiled, part, lengths)
            fields += asked(fields)
        rest = tuple(found), tuple(gives), there, own, reads, asked
        return lambda run: Step(run, *rest), fields, into


def _positions(
    node: Node,
    compiled: Compiled,
    part: Region,
    lengths: Shape,
    fields: Sequence[Array],
    on: Shape | None = None,
) -> list[Array]:
    """The positions that a kernel asks for, as arrays that go with a part of fields.

    A point of it is so far on in the whole array.
    """
    made, shape = list[Array](), whole_shape(fields)
    for one in compiled.positions:
        axis = node.along[one.axis]
        along = np.arange(*(part[axis] if part else (0, shape[axis])))
        if part:
            # Along a ring a part goes on beyond the ends.
            along = (along + on[axis] if on else along) % lengths[axis]
        if one.among == "results":
            if node.border.rules[one.axis][0] == "valid":
                along -= max(0, -node.reaches[0].lo[one.axis])
            along //= (node.thinned or node.every)[one.axis]
        made.append(along.reshape(placed([1] * len(shape), [axis], [len(along)])))
    if any(map(is_cupy, fields)):
        # Imported here: CuPy is optional, and the caller has it.
        from ..backends.cuda import driver

        with driver.on(driver.device_of(next(filter(is_cupy, fields)))):
            return list(map(driver.uploaded, made))
    return made


def _finer(
    node: Node, run: Run, fields: PlainArrays, numbers: Sequence[Any], out: Any, given: Given
) -> PlainArrays:
    """What a node gives whose program's outputs are phases.

    Its outputs are those of the first phase, then those of the next one; or those of one, if all
    phases are alike.
    """
    along, factors, count = node.along, node.factors, len(node.outputs)
    made, results = run(fields, numbers, None, given), listed(out)
    for k in range(count):
        if out is None:
            shape = made[k].shape
            longer = [shape[axis] * n for axis, n in zip(along, factors, strict=True)]
            results.append(empty(placed(shape, along, longer), made[k].dtype))
        for number, place in enumerate(np.ndindex(*factors)):
            part = thinned(results[k], factors, along, place)
            write(part, made[(number * count + k) % len(made)])
    return results


def _thinned(node: Node, run: Run, *given: Any) -> PlainArrays:
    """The points that a node makes, of all that its program makes."""
    # Copies, for nobody needs the rest of the memory.
    return [thinned(one, node.every, node.along).copy(order="K") for one in run(*given)]


def _common(regions: Mapping[int, Region], values: Iterable[int]) -> Region:
    """The points that all of some values have."""
    return reduce(Region.clip, (regions.get(value, Region()) for value in values))


def _left(part: Region, along: Shape, reach: Box, closed: Sequence[Sides]) -> Region:
    """What is made of so much by what looks so far: at sides that are not closed less."""
    found = list(part)
    if not found:
        return part
    for axis, (low, high), (before, after) in zip(along, closed, reach.sides, strict=True):
        first, last = found[axis]
        first = first if low else first + before
        found[axis] = first, max(first, last if high else last - after)
    return Region(found)


def cut(array: Array, has: Region, wanted: Region, finer: Finer | None = None) -> Array:
    """The part of an array that stands at `has`, as far as it is there."""
    index = index_of(array, has, wanted, finer)
    return array[index] if index else array


def index_of(array: Array, has: Region, wanted: Region, finer: Finer | None = None) -> Index:
    """Where that part is in the array, which may be `finer`; nothing for all of it."""
    if has == wanted:
        return ()
    index = []
    for k, ((first, last), (a, b)) in enumerate(zip(has, wanted, strict=True), -len(has)):
        if array.ndim >= -k:
            one, factor = array.shape[k] == 1 != last - first, (finer or {}).get(k, 1)
            a, b = max(a, first) - first, min(b, last) - first
            index.append(slice(None) if one else slice(a * factor, max(a, b) * factor))
    return (..., *index)
