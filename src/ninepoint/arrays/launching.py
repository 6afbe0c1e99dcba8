"""Launches: what does the groups of a plan on blocks of one kind, bound once, called often.

    groups, a block, what is wanted     --bind-->     Launches
    launches(fields, given, outs)       ->            values

    call, fields, along, out, threads   --bind-->     Executable
    executable(fields, numbers, out)    ->            results, one for each output

An executable does one call (`single`), or several as one kernel (`chains`).  All that does not
depend on the data is found out once: how arrays are given to machine code, what lies outside of
them, what is checked.  Whether `out` overlaps a field is looked at each time.

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

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..backends.memory import empty
from ..backends.threads import thread_count
from ..base.frozen import frozen
from .accepted import (
    as_it_is,
    check_values,
    check_writable,
    checked_out,
    is_cupy,
    listed,
    placed,
    whole_shape,
    write,
)
from .arranging import Turned, are_writable, arranged, core_last, plain, scattered
from .borders import Boundary
from .chains import Chain, Passes, is_worth, spans
from .ghosts import Edges, turned
from .layout import Array, Axes, Border, Extensions, PlainArrays, Shape, Sides
from .regions import Block, Node, thinned
from .single import Single, Way
from .work import ByNumber, Group, Taken, Work, taken

# Fewer points are done by one thread, whatever they cost: to look up how many cores there are
# takes 1.5 us, of the 5 us of a small call (Zen 4).
SPLIT_POINTS = 16_384

# What does calls: fields, numbers, out -> results.  The numbers are coefficient arrays, then
# scalars.
Run: TypeAlias = Callable[[PlainArrays, Sequence[Any], Any], PlainArrays]


class Executable:
    """Calls on arrays of one kind: shapes, strides, types; on so many threads at the most.

    Called with fields and `out` like those that it was bound to, and with numbers: coefficient
    arrays, then scalars.

    Raises
    ------
    ValueError
        If shapes do not broadcast, `out` does not fit, or `cval` does not fit a dtype.
    TypeError
        If `out` is no array of NumPy, or cannot hold the results.
    """

    def __init__(
        self,
        call: Single | Chain,
        fields: PlainArrays,
        along: Axes,
        out: Any = None,
        threads: int | None = None,
    ) -> None:
        self._pace, self._threads = call.compiled.pace, threads
        self._shape = shape = whole_shape(fields)
        outs = list[Array]()
        if out is not None:
            made = call.shapes(tuple(shape[axis] for axis in along))
            shapes = [placed(shape, along, one) for one in made]
            outs = checked_out(out, shapes, call.compiled.out_dtypes)
        wide = [np.broadcast_to(field, shape) for field in fields]
        does, how = arranged(call, wide, core_last(len(shape), along), outs)
        compiled = does.compiled
        # Results are made apart where the arrays for them cannot be written to as they lie.
        pairs = zip(map(how.of, outs), compiled.out_dtypes, strict=False)
        self._apart = not all(plain(one, dtype, compiled.ndim) for one, dtype in pairs)
        alike = all(field.shape == shape for field in fields)
        stays = does is call and how == Turned(tuple(range(len(shape))))
        self._how = None if stays and alike and not self._apart else how
        fields = self._laid(fields)
        split = fields[0].ndim - compiled.ndim
        lead, core = fields[0].shape[:split], fields[0].shape[split:]
        specs = zip(does.shapes(core), compiled.out_dtypes, strict=True)
        self._specs = [((*lead, *one), dtype) for one, dtype in specs]
        self._way: Way | Passes = does.way(fields)
        self._points = math.prod(lead) * self._way.points
        self._shared = self._points >= SPLIT_POINTS and threads != 1

    def __call__(
        self, fields: PlainArrays, numbers: Sequence[Any], out: Any = None
    ) -> PlainArrays:
        """What a call gives: one array for each output."""
        targets = [] if out is None else listed(out)
        results, how = targets, self._how
        if targets and not are_writable(targets, fields):
            # They may lie over fields: results are made apart, and moved there.
            check_writable(targets)
            results = []
        if how is not None:
            fields = self._laid(fields)
            results = [] if self._apart else list(map(how.of, results))
        made = results or [empty(shape, dtype) for shape, dtype in self._specs]
        # To ask how many threads there are takes as long as a small call.
        if not self._shared:
            self._way.run(numbers, fields, made, 1)
        else:
            self._paced(numbers, fields, made)
        if results:
            return targets
        if how is not None:
            made = list(map(how.back, made))
        if not targets:
            return made
        for target, one in zip(targets, made, strict=True):
            write(target, one)
        return targets

    def _laid(self, fields: PlainArrays) -> PlainArrays:
        """The fields as the program reads them."""
        how, shape = self._how, self._shape
        if how is None:
            return fields
        return [
            how.of(one if one.shape == shape else np.broadcast_to(one, shape)) for one in fields
        ]

    def _paced(self, numbers: Sequence[Any], fields: PlainArrays, results: PlainArrays) -> None:
        """Compute on as many threads as the points are worth.

        One alone does what takes less long than to ask others.  How long a point takes was
        measured in an earlier call; what was not is taken to be slow.  (With one and two threads
        a mean of 3x3 took 14 and 48 us where the others slept, 37 and 23 to 40, 82 and 42; a
        median of 3x3 77 and 43, Zen 5.)
        """
        known, points, way = self._pace, self._points, self._way
        alone = known and known[0] * points <= way.handoff
        threads = 1 if alone else thread_count(self._threads)
        began = perf_counter()
        way.run(numbers, fields, results, threads)
        pace = (perf_counter() - began) * threads / points
        # What takes longer than before may do so for another reason, and counts four times as much
        # at most.  To share costs time as well: what is shared is taken for a little faster each
        # time, so that one thread is tried again, in one of fifty calls.
        if known:
            pace = min(pace, 4 * known[0]) if threads == 1 else 0.97 * min(pace, known[0])
        known[:] = [pace]

    def beyond(self, ghosts: Extensions) -> Executable:
        """The same with other values beyond the sides where a single call has some."""
        assert isinstance(self._way, Way)
        made = copy(self)
        made._way = self._way.beyond(ghosts)
        return made


class GhostCall:
    """Calls of a node whose border has conditions, on fields like some.

    Beyond sides that are not `closed` there are no neighbours.
    """

    def __init__(
        self,
        node: Node,
        fields: PlainArrays,
        closed: Sequence[Sides],
        threads: int | None,
    ) -> None:
        self._node, self._closed, self._threads = node, closed, threads
        self._shape = shape = whole_shape(fields)
        order = core_last(len(shape), node.along)
        self._edges = Edges.of(node, tuple(shape[axis] for axis in order))
        # What did the last calls, under a border of names; and under which boundary, where its
        # conditions are numbers, which stay the same.
        self._last: tuple[Boundary | None, Border, Executable] | None = None

    def __call__(
        self,
        fields: PlainArrays,
        numbers: Sequence[Any],
        out: Any = None,
        given: Any = None,
        step: int | None = None,
    ) -> PlainArrays:
        """What a call gives: one array for each output.

        Another boundary that is `given` may have other values than that of the node; functions are
        told the `step`.
        """
        boundary, last = self._node.boundary if given is None else Boundary.of(given), self._last
        if last is None or last[0] != boundary:
            same = boundary if all(one.plain for one in boundary.conditions) else None
            now = boundary if step is None else boundary.after(step)
            last = self._last = same, *self._bound(now, fields, out)
        return last[2](fields, numbers, out)

    def _bound(
        self, boundary: Boundary, fields: PlainArrays, out: Any
    ) -> tuple[Border, Executable]:
        """What does calls on fields under a boundary, and the names that this has there."""
        node, last = self._node, self._last
        # Values that do not fit are wrong beside an array without elements as well.
        opened = boundary.opened(self._closed)
        with np.errstate(all="ignore"):
            sides = self._edges.laid(turned(opened, self._shape, node.along))
        names: Any = [[one if isinstance(one, str) else "ghost" for one in pair] for pair in sides]
        border = Border(tuple(map(tuple, names)))
        if last is not None and last[1] == border:
            return border, last[2].beyond(sides)
        call = Single(node.compiled, border, node.cval, sides)
        return border, Executable(call, fields, node.along, out, self._threads)


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
