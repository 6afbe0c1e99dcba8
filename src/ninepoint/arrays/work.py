"""Work: the block that nodes are done on, and where the values of them stand.

    whole array     every value is all there is of it
    block           a value has a span of the points of the whole along each axis, and some of
                    them are needed

Groups read and write it, one after the other (see `arrays.launching`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..backends.compiled import Bound
from ..language.box import Box
from . import phases
from .borders import Array
from .chains import Chain, Sides
from .layout import Region, Shape
from .numpy import Behind
from .regions import Node, Span, closed, look, needed, reach

Spans: TypeAlias = tuple[Span, ...]


class Group(Protocol):
    """Nodes that are done together; with a `program` of all of them if there are several."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def fields(self) -> tuple[int, ...]: ...

    @property
    def outputs(self) -> tuple[int, ...]: ...

    @property
    def program(self) -> Bound | None: ...

    @property
    def asked(self) -> bool:
        """Whether arrays of any size are done so."""

    @property
    def steps(self) -> Sequence[Group]:
        """The same as groups one after the other, if they are steps of an iteration."""

    @property
    def chain(self) -> Chain | None:
        """The nodes in one pass, of which `program` has the numbers."""

    @property
    def at_once(self) -> Any:
        """What does the nodes on arrays of a GPU in one pass, if it can: `work`, `margin`."""


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


class Work:
    """Where the values of a run stand; whole arrays (`shape` is None) stand where they are."""

    def __init__(
        self,
        nodes: Sequence[Node],
        wanted: Sequence[int],
        block: Block,
        region: Region | None = None,
        threads: int | None = None,
    ) -> None:
        self.threads = threads
        self.shape: Shape | None = None if block.domain is None else block.domain.shape
        # What programs are told of the lengths of the whole, and those along the last axes where
        # the domain is another's.
        self.lengths = None if block.domain is None else block.domain.lengths or self.shape
        # The span that each value has, what of it is needed, and what each node takes.
        self.at: dict[int, Spans] = {}
        self.needs: dict[int, Spans] = {}
        self.takes: dict[int, Spans] = {}
        self.wanted: Spans = ()
        # The values that are longer than what they are made of.
        self.finer = phases.finer_values(nodes)
        if self.shape is None:
            return
        has = _spans(block.region)
        self.at = dict.fromkeys(range(len(block.arrays)), has)
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
            if not within(self.needs.get(value, has), has):
                raise ValueError(
                    f"the block has the points {has} and {self.needs[value]} are needed to give "
                    f"{self.wanted}, each axis by itself; give a larger block or a smaller region."
                )

    def target(self, value: int, spans: Spans, outs: Mapping[int, Array]) -> Array | None:
        """The array to write a value to that stands so; None if just these points have none."""
        # An array is there for what is wanted of a value, so far as there is any.
        if value not in outs or (self.shape is not None and not within(spans, self.wanted)):
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
        return index_of(array, has, wanted)

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


def within(some: Spans, others: Spans) -> bool:
    """Whether points are some of others, along every axis."""
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


def ranked(field: Array, along: Behind) -> Array:
    """The field with all axes of a node; beside others it may have fewer."""
    missing = -min(along) - field.ndim
    return field[(None,) * missing] if missing > 0 else field


def cut(array: Array, has: Spans, wanted: Spans) -> Array:
    """The part of an array that stands at `has`, as far as it is there."""
    index = index_of(array, has, wanted)
    return array if index is None else array[index]


def index_of(array: Array, has: Spans, wanted: Spans) -> tuple[Any, ...] | None:
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


@dataclass(frozen=True, slots=True)
class Common:
    """What of a block all fields of a group have, where it ends with the array, and what is given.

    Of whole arrays that is all there is of them.
    """

    at: Mapping[int, Spans]
    has: Spans
    sides: tuple[Sides, ...]
    gives: Spans

    def fields(self, values: Mapping[int, Array], fields: Iterable[int]) -> dict[int, Array]:
        """So much of these values."""
        if not self.at:
            return {value: values[value] for value in fields}
        return {value: cut(values[value], self.at[value], self.has) for value in fields}


def common(work: Work, group: Group, margin: Box) -> Common | None:
    """What a group is done on at once; None where that is more than there is."""
    node = group.nodes[0]
    if work.shape is None:
        return Common({}, (), ((True, True),) * len(node.along), ())
    at = {value: work.at[value] for value in group.fields}
    has = tuple(
        (max(first for first, _ in axis), min(last for _, last in axis))
        for axis in zip(*at.values(), strict=True)
    )
    sides = tuple(closed(node, axis, has[axis], work.shape[axis]) for axis in node.along)
    spans = list(has)
    for axis, side, (low, high) in zip(node.along, sides, margin.sides, strict=True):
        first, last = has[axis]
        spans[axis] = (first if side[0] else first + low, last if side[1] else last - high)
    gives = tuple(spans)
    enough = all(within(work.needs.get(value, gives), gives) for value in group.outputs)
    if not enough or not _reached(group, margin, gives, has, work.shape):
        return None
    return Common(at, has, sides, gives)


def _reached(group: Group, margin: Box, gives: Spans, has: Spans, shape: Shape) -> bool:
    """Whether the nodes one by one need no more than the kernel of all, which may read less."""
    for axis, (low, high) in zip(group.nodes[0].along, margin.sides, strict=True):
        first, last = reach(group.nodes, group.outputs, group.fields, axis)
        if first < -low or last > high:
            return False
    for axis, (span, own, n) in enumerate(zip(gives, has, shape, strict=True), -len(shape)):
        values, _ = needed(group.nodes, group.outputs, span, n, axis)
        for value in group.fields:
            first, last = values.get(value, own)
            if first < own[0] or last > own[1]:
                return False
    return True
