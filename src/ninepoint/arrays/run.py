"""Run nodes, group by group, on a block: the whole array, or a part of it with open sides.

    whole array     every node with its border rule
    block           the rule at closed sides; at open ones each node gives as much less as it
                    looks, so that no point is computed which the whole array does not have

Values live as long as something reads them.  A group of several nodes is one call where one border
is enough for all of them, and one kernel where the block is large and lies in memory as it must;
else its nodes are done one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..backends.compiled import Bound
from ..backends.memory import empty
from ..backends.threads import thread_count
from ..language.box import Box
from . import numpy as on_numpy
from . import phases
from .again import Again
from .axes import Behind
from .bands import Ends, Sides, fits, run_fused
from .borders import Array, Border, Rule
from .every import Steps, thinned_copy
from .iterating import Chain, run_chain
from .joint import Joint
from .lanes import Lanes, steps_made, width_of, with_lanes
from .layout import Region, Shape
from .recognise import is_cupy
from .regions import Node, Span, closed, look, needed, reach
from .views import plain, spread, stacked

# Bytes of all values below which calls are done one after the other: these stay in cache, and the
# ends of one kernel are done call by call.  (Of float32: two calls on 512x512, 3 MB, 84 us one
# after the other and 110 us as one kernel; four blurs of 724x724, 10 MB, 648 and 760 us, of
# 1024x1024 1.7 and 1.4 ms; Harris corners of 512x512, 4 MB, 241 and 239 us, of 724x724 506 and
# 405 us, Zen 4.)
CACHED = 1 << 23

Spans: TypeAlias = tuple[Span, ...]


class AtOnce(Protocol):
    """Nodes in one pass on a GPU, which takes all sides of the fields for ends of the array."""

    @property
    def margin(self) -> Box | None:
        """Where the nodes look, all together; None if they have to be done one by one."""

    def __call__(
        self, values: Mapping[int, Array], outs: Mapping[int, Array], whole: Shape | None
    ) -> dict[int, Array] | None:
        """What they make of values, by number; None if they have to be done one by one.

        `outs` are arrays to write to, and `whole` the lengths that programs are told.
        """


class Group(Protocol):
    """Nodes that are done together; with a `program` of all of them if there are several."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def turned(self) -> Sequence[Node]:
        """The nodes as if they worked along the last axes."""

    @property
    def fields(self) -> tuple[int, ...]: ...

    @property
    def outputs(self) -> tuple[int, ...]: ...

    @property
    def program(self) -> Bound | None: ...

    @property
    def joint(self) -> Joint | None:
        """The nodes as one call, where one border is enough for all."""

    @property
    def asked(self) -> bool:
        """Whether arrays of any size are done so."""

    @property
    def tile(self) -> int: ...

    @property
    def steps(self) -> Sequence[Group]:
        """The same as groups one after the other, if they are steps of an iteration."""

    @property
    def chain(self) -> Chain | None:
        """The steps in one pass, of which `program` has the numbers."""

    @property
    def at_once(self) -> AtOnce | None:
        """What does the nodes on arrays of a GPU in one pass, if it can."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The whole array, of which a block is a part: its lengths along the last axes.

    `lengths` are what programs are told of these, where positions are those in another array.
    """

    shape: Shape
    lengths: Shape | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Arrays, and where in the domain they stand.

    The arrays have one shape along the axes of the domain, save that an array may lack axes, or
    have one element where it is the same all along.  `start` is where they begin; along an axis
    that wraps it may be less than 0.  Without a domain the arrays are whole.
    """

    arrays: tuple[Array, ...]
    start: Shape = ()
    domain: Domain | None = None

    @property
    def region(self) -> Region:
        """The points of the domain that the arrays have."""
        depth = len(self.start)
        lengths = [
            max((a.shape[k] for a in self.arrays if a.ndim >= -k), default=1)
            for k in range(-depth, 0)
        ]
        return Region(self.start, tuple(a + n for a, n in zip(self.start, lengths, strict=True)))


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
    work = _Work(nodes, sources, wanted, block, region)
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


class _Work:
    """Where the values of a run stand; whole arrays (`shape` is None) stand where they are."""

    def __init__(
        self,
        nodes: Sequence[Node],
        sources: Iterable[int],
        wanted: Sequence[int],
        block: Block,
        region: Region | None,
    ) -> None:
        self.shape: Shape | None = None if block.domain is None else block.domain.shape
        # What programs are told of the lengths of the whole, and those along the last axes where
        # the domain is another's.
        self.lengths = None if block.domain is None else block.domain.lengths or self.shape
        self.whole: Shape | None = None
        # The span that each value has, what of it is needed, and what each node takes.
        self.at: dict[int, Spans] = {}
        self.needs: dict[int, Spans] = {}
        self.takes: dict[int, Spans] = {}
        self.wanted: Spans = ()
        # The values that are longer than what they are made of.
        self.finer = phases.finer_values(nodes)
        self.noted: Again | None = None
        if self.shape is None:
            return
        has = _spans(block.region)
        self.at = dict.fromkeys(sources, has)
        self.wanted = (
            _inside(nodes, wanted, self.at, has, self.shape) if region is None else _spans(region)
        )
        axes = [
            needed(nodes, wanted, span, n, k)
            for k, (span, n) in enumerate(
                zip(self.wanted, self.shape, strict=True), -len(self.shape)
            )
        ]
        self.needs = {value: tuple(values[value] for values, _ in axes) for value in axes[0][0]}
        for node, taken in zip(
            nodes, zip(*(taken for _, taken in axes), strict=True), strict=True
        ):
            self.takes[id(node)] = tuple(span for span in taken if span is not None)
        for value in self.at:
            if not _within(self.needs.get(value, has), has):
                raise ValueError(
                    f"the block has the points {has} and {self.needs[value]} are needed to give "
                    f"{self.wanted}, each axis by itself; give a larger block or a smaller region."
                )

    def target(self, value: int, spans: Spans, outs: Mapping[int, Array]) -> Array | None:
        """The array to write a value to that stands so; None if just these points have none."""
        # An array is there for what is wanted of a value, so far as there is any.
        if value not in outs or (self.shape is not None and not _within(spans, self.wanted)):
            return None
        return outs[value]

    def part(self, value: int, array: Array) -> tuple[Any, ...] | None:
        """Where in a value that is which is wanted of it; None for all of it."""
        if self.shape is None:
            return None
        has, wanted = self.at[value], self.wanted
        if value in self.finer:
            # Only what is wanted at last is longer than the domain says.
            has, wanted = _times(has, self.finer[value]), _times(wanted, self.finer[value])
        return _index(array, has, wanted)

    def given(self, value: int, array: Array) -> Array:
        """What is wanted of a value."""
        index = self.part(value, array)
        return array if index is None else array[index]


def _spans(region: Region) -> Spans:
    return tuple(zip(region.start, region.stop, strict=True))


def _times(spans: Spans, finer: phases.Finer) -> Spans:
    """Where the points of a finer value are."""
    axes = range(-len(spans), 0)
    return tuple(
        (a * finer.get(axis, 1), b * finer.get(axis, 1))
        for axis, (a, b) in zip(axes, spans, strict=True)
    )


def _within(some: Spans, others: Spans) -> bool:
    return all(a >= c and b <= d for (a, b), (c, d) in zip(some, others, strict=True))


def _inside(
    nodes: Sequence[Node], wanted: Sequence[int], sources: Iterable[int], has: Spans, shape: Shape
) -> Spans:
    """All points for which a block has what is needed."""
    spans: list[Span] = []
    for k, ((first, last), n) in enumerate(zip(has, shape, strict=True), -len(shape)):
        low, high = reach(nodes, wanted, sources, k)
        sides = [closed(node, k, (first, last), n) for node in nodes if any(look(node, k))]
        start = first if all(side[0] for side in sides) else first - low
        stop = last if all(side[1] for side in sides) else last - high
        spans.append((start, max(start, stop)))
    return tuple(spans)


def _cut(array: Array, has: Spans, wanted: Spans) -> Array:
    """The part of an array that stands at `has`, as far as it is there."""
    index = _index(array, has, wanted)
    return array if index is None else array[index]


def _index(array: Array, has: Spans, wanted: Spans) -> tuple[Any, ...] | None:
    """Where that part is in the array; None for all of it."""
    if has == wanted:
        return None
    index = []
    for k, ((first, last), (a, b)) in enumerate(zip(has, wanted, strict=True), -len(has)):
        if array.ndim < -k:
            continue
        if array.shape[k] == 1 != last - first:
            index.append(slice(None))
            continue
        a, b = max(a, first), min(b, last)
        index.append(slice(a - first, max(a, b) - first))
    return (..., *index)


def _full(nodes: Sequence[Node], outs: Mapping[int, Array]) -> Mapping[int, Array]:
    """The arrays to write to, as far as all points of them are wanted."""
    thin = {value for node in nodes if node.thins for value in node.outputs}
    return {value: out for value, out in outs.items() if value not in thin} if thin else outs


def _thinned(
    nodes: Sequence[Node], made: dict[int, Array], before: Steps = ()
) -> dict[int, Array]:
    """What is wanted of what nodes give that make all points, or have the steps `before`."""
    for node in nodes:
        if node.thins:
            done = before or (1,) * len(node.every)
            steps = tuple(k // step for k, step in zip(node.every, done, strict=True))
            for value in set(node.outputs) & made.keys():
                # A copy, for the rest of the memory is needed by nobody.
                made[value] = thinned_copy(made[value], steps, node.along)
    return made


def _group(
    work: _Work,
    group: Group,
    values: Mapping[int, Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What a group gives."""
    if group.at_once is not None:
        made = _at_once(work, group, group.at_once, values, _full(group.nodes, outs))
        if made is not None:
            return _thinned(group.nodes, made)
    if group.joint is not None:
        made = _as_one(work, group.joint, values, threads, outs)
        if made is not None:
            return made
    if group.program is not None:
        fused = _fused(work, group, group.program, values, threads, outs)
        if fused is not None:
            return fused
    if group.steps:
        return _step_by_step(work, group, values, threads, outs)
    return _one_by_one(work, group.nodes, values, group.outputs, threads, outs)


def _at_once(
    work: _Work,
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
    has, _, gives = _extents(work, group.nodes[0], group.fields, margin)
    enough = all(_within(work.needs.get(value, gives), gives) for value in group.outputs)
    if not enough or not _reached(group, margin, gives, has, work.shape):
        return None
    fields = {value: _cut(values[value], work.at[value], has) for value in group.fields}
    made = do(fields, {}, tuple(work.lengths[axis] for axis in along))
    if made is None:
        return None
    if work.noted is not None:
        work.noted.otherwise()
    work.at |= dict.fromkeys(made, gives)
    return {value: _cut(one, has, gives) for value, one in made.items()}


def _step_by_step(
    work: _Work,
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
    work: _Work,
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
        has, sides, gives = _extents(work, one, one.fields, margin)
        if not all(_within(work.needs.get(value, gives), gives) for value in one.outputs):
            return None
        for axis, side, low, high in zip(one.along, sides, margin.lo, margin.hi, strict=True):
            first, last = has[axis]
            # A block that ends with the array at one side has to hold what the rule takes.
            if any(side) and not all(side) and last - first <= high - low:
                return None
        at = [work.at[value] for value in one.fields]
        fields = [_cut(field, own, has) for field, own in zip(fields, at, strict=True)]
        work.takes[id(one)] = has
    turned = [np.moveaxis(_ranked(f, one.along), one.along, ends) for f in fields]
    takes = one.takes([field.shape for field in turned], width_of(turned, len(ends)))
    return _node(work, one, given, threads, outs) if takes else None


def _extents(
    work: _Work, node: Node, fields: Sequence[int], margin: Box
) -> tuple[Spans, tuple[Sides, ...], Spans]:
    """What of a block all fields have, where it ends with the array, and what it gives so."""
    assert work.shape is not None
    at = [work.at[value] for value in fields]
    has = tuple(
        (max(first for first, _ in axis), min(last for _, last in axis))
        for axis in zip(*at, strict=True)
    )
    sides = tuple(closed(node, axis, has[axis], work.shape[axis]) for axis in node.along)
    gives = list(has)
    for axis, side, low, high in zip(node.along, sides, margin.lo, margin.hi, strict=True):
        first, last = has[axis]
        gives[axis] = (
            first if side[0] else first - min(0, low),
            last if side[1] else last - max(0, high),
        )
    return has, sides, tuple(gives)


def _one_by_one(
    work: _Work,
    nodes: Sequence[Node],
    values: Mapping[int, Array],
    wanted: Sequence[int],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What the nodes make, each call by itself."""
    known = dict(values)
    for position, node in enumerate(nodes):
        known |= _node(work, node, [known[value] for value in node.fields], threads, outs)
        later = {value for other in nodes[position + 1 :] for value in other.fields}
        for value in [v for v in known if v not in later and v not in wanted]:
            del known[value]
    return {value: known[value] for value in wanted if value in known}


def _node(
    work: _Work,
    node: Node,
    fields: Sequence[Array],
    threads: int | None,
    outs: Mapping[int, Array],
) -> dict[int, Array]:
    """What one node makes; notes where it stands."""
    if node.thins and (steps := _steps(node, fields)) != node.every:
        made = _node(work, node.with_steps(steps), fields, threads, _full([node], outs))
        if work.noted is not None:
            work.noted.otherwise()
        return _thinned([node], made, steps)
    border, along = node.border, node.along
    fields = phases.cut_fields(fields, node.fields, work.finer)
    spans: dict[int, Spans] = dict.fromkeys(node.outputs, ())
    values: list[tuple[int, Any]] = [(value, None) for value in node.fields]
    if work.shape is not None:
        taken = work.takes[id(node)]
        pairs = zip(fields, node.fields, strict=True)
        values = [(value, _index(field, work.at[value], taken)) for field, value in pairs]
        fields = [
            field if index is None else field[index]
            for field, (_, index) in zip(fields, values, strict=True)
        ]
        border = _opened(node, taken, work.shape)
        spans = _made_at(node, border, taken)
        work.at |= spans
    ends = tuple(range(-len(along), 0))
    targets = [work.target(value, at, outs) for value, at in spans.items()]
    out: Any = None if any(one is None for one in targets) else tuple(targets)
    if along != ends:
        fields = [np.moveaxis(_ranked(field, along), along, ends) for field in fields]
        out = out and tuple(np.moveaxis(one, along, ends) for one in out)
    program = node.program
    whole = work.whole or (work.lengths and tuple(work.lengths[axis] for axis in along))
    if whole is not None:
        program = program.within(whole)
    apply = _apply(fields)
    if node.factors:
        compute = partial(apply, program, threads=threads)
        results = tuple(
            phases.apply(compute, program, fields, node.factors, border, node.cval, out, empty)
        )
    else:
        made = apply(program, fields, border=border, cval=node.cval, out=out, threads=threads)
        results = made if isinstance(made, tuple) else (made,)
    if work.noted is not None:
        if node.factors or along != ends or apply is not on_numpy.apply:
            work.noted.otherwise()
        else:
            # Another array of this shape is as long.
            program = program.within(on_numpy.core_shape(fields, program.ndim, None))
            work.noted.called(program, values, fields, node.outputs, border, node.cval, out)
    if along != ends:
        results = tuple(np.moveaxis(one, ends, along) for one in results)
    return dict(zip(node.outputs, results, strict=True))


def _steps(node: Node, fields: Sequence[Array]) -> Steps:
    """The steps with which a node is done, after which what is not wanted is left out."""
    if not node.program.every or any(map(is_cupy, fields)):
        return (1,) * len(node.every)
    return steps_made(fields, node.along, node.every)


def _made_at(node: Node, border: Border, taken: Spans) -> dict[int, Spans]:
    """Where the results of a node stand, made of fields that stand so, by this border."""
    found = {}
    for value, reaches in zip(node.outputs, node.reaches, strict=True):
        spans = list(taken)
        for k, axis in enumerate(node.along):
            (first, last), (before, after) = spans[axis], border.rules[k]
            start = first - min(0, reaches.lo[k]) if before == "valid" else first
            stop = last - max(0, reaches.hi[k]) if after == "valid" else last
            spans[axis] = start, max(start, stop)
        found[value] = tuple(spans)
    return found


def _apply(fields: Sequence[Array]) -> Any:
    """Find what applies a program to arrays where these are."""
    if not any(map(is_cupy, fields)):
        return on_numpy.apply
    # Imported here: CuPy is optional, and the caller has it.
    from . import cuda

    return cuda.apply


def _ranked(field: Array, along: Behind) -> Array:
    """The field with all axes of a node; beside others it may have fewer."""
    return field[(None,) * max(0, -min(along) - field.ndim)]


def _opened(node: Node, taken: Spans, shape: Shape) -> Border:
    """The border of a node on fields that stand so: open sides have no neighbours."""
    rules: list[tuple[Rule, Rule]] = []
    for axis, (before, after) in zip(node.along, node.border.rules, strict=True):
        low, high = closed(node, axis, taken[axis], shape[axis])
        rules.append((before if low else "valid", after if high else "valid"))
    return Border(tuple(rules))


def _fused(
    work: _Work,
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
        has, sides, gives = _extents(work, group.nodes[0], group.fields, margin)
        fields = [
            _cut(field, work.at[value], has)
            for field, value in zip(fields, group.fields, strict=True)
        ]
        enough = all(_within(work.needs.get(value, gives), gives) for value in group.outputs)
        if not enough or not _reached(group, margin, gives, has, work.shape):
            return None
    fields = [np.moveaxis(_ranked(field, along), along, ends) for field in fields]
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


def _reached(group: Group, margin: Box, gives: Spans, has: Spans, shape: Shape) -> bool:
    """Whether the nodes one by one need no more than the kernel of all, which may read less."""
    for axis, low, high in zip(group.nodes[0].along, margin.lo, margin.hi, strict=True):
        first, last = reach(group.nodes, group.outputs, group.fields, axis)
        if first < min(0, low) or last > max(0, high):
            return False
    for axis, (span, own, n) in enumerate(zip(gives, has, shape, strict=True), -len(shape)):
        values, _ = needed(group.nodes, group.outputs, span, n, axis)
        for value in group.fields:
            first, last = values.get(value, own)
            if first < own[0] or last > own[1]:
                return False
    return True


def _thin(
    work: _Work,
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
    inner = _Work(nodes, group.fields, group.outputs, block, region)
    inner.whole, inner.noted = whole, noted
    made = _one_by_one(inner, nodes, values, group.outputs, 1, {})
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
    return size > CACHED
