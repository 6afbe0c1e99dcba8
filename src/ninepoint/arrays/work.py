"""Work: the block that nodes are done on, and where the values of them stand.

    whole array     every value is all there is of it
    block           a value has a span of the points of the whole along each axis, and some of
                    them are needed

Groups read and write it, one after the other (see `arrays.launching`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..backends.compiled import Bound
from ..language.box import Box
from . import phases
from .borders import Array
from .chains import Chain, Sides
from .layout import Region, Shape
from .numpy import Behind
from .regions import Node, Span, closed, needed, reach

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
        """The work that does the nodes on arrays of a GPU in one pass, if it can."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The whole array, of which a block is a part: its lengths along the last axes.

    The block begins at `start`, which may be less than 0 along an axis that wraps, and is to give
    the points of the `region`, as far as a value has them ("valid").  `lengths` are what programs
    are told of the whole, where positions are those in another array.
    """

    shape: Shape
    start: Shape
    region: Region
    lengths: Shape | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """Arrays, and where in the domain they stand; without one they are whole.

    The arrays have one shape along the axes of the domain, save that an array may lack axes, or
    have one element where it is the same all along.
    """

    arrays: tuple[Array, ...]
    domain: Domain | None = None


# What is taken of an array, one index after the other.
Indices: TypeAlias = tuple[tuple[Any, ...], ...]


def take(array: Array, indices: Indices) -> Array:
    """What these indices say of an array."""
    for index in indices:
        array = array[index]
    return array


class Work:
    """Where the values of a run stand; whole arrays (`shape` is None) stand where they are.

    Raises
    ------
    ValueError
        If the block has not all that the region needs.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        wanted: Sequence[int],
        block: Block,
        threads: int | None = None,
    ) -> None:
        self.threads = threads
        # The values that are longer than what they are made of.
        self.finer = phases.finer_values(nodes)
        self.shape: Shape | None = None
        # What programs are told of the lengths of the whole.
        self.lengths: Shape | None = None
        # The span that each value has, what of it is needed, and what each node takes.
        self.at: dict[int, Spans] = {}
        self.needs: dict[int, Spans] = {}
        self.takes: dict[int, Spans] = {}
        self.wanted: Spans = ()
        domain = block.domain
        if domain is None:
            return
        self.shape, self.lengths = domain.shape, domain.lengths or domain.shape
        axes = range(-len(domain.shape), 0)
        lengths = [
            max((a.shape[k] for a in block.arrays if a.ndim >= -k), default=1) for k in axes
        ]
        has = tuple((a, a + n) for a, n in zip(domain.start, lengths, strict=True))
        self.at = dict.fromkeys(range(len(block.arrays)), has)
        self.wanted = domain.region.spans
        found = [
            needed(nodes, wanted, span, n, k)
            for k, span, n in zip(axes, self.wanted, domain.shape, strict=True)
        ]
        self.needs = {value: tuple(values[value] for values, _ in found) for value in found[0][0]}
        for node, taken in zip(
            nodes, zip(*(taken for _, taken in found), strict=True), strict=True
        ):
            self.takes[id(node)] = tuple(span for span in taken if span is not None)
        for value in self.at:
            if not within(self.needs.get(value, has), has):
                raise ValueError(
                    f"the block has the points {has} and {self.needs[value]} are needed to give "
                    f"{self.wanted}, each axis by itself; give a larger block or a smaller region."
                )

    def core(self, shape: Shape, along: Behind) -> Shape:
        """What programs are told of the lengths of arrays of a shape, along some axes."""
        lengths = self.lengths or shape
        return tuple(lengths[axis] for axis in along)

    def indices(self, value: int, array: Array, taken: Spans, along: Behind) -> Indices:
        """What a node along such axes takes of a value; beside others it may have fewer axes."""
        index = index_of(array, self.at[value], taken) if self.shape is not None else None
        missing = -min(along) - array.ndim
        more = ((None,) * missing,) if missing > 0 else ()
        return more if index is None else (index, *more)

    def target(self, value: int, spans: Spans, outs: Mapping[int, Array]) -> Array | None:
        """The array to write a value to that stands so; None if just these points have none."""
        # An array is there for what is wanted of a value, so far as there is any.
        if value not in outs or (self.shape is not None and not within(spans, self.wanted)):
            return None
        return outs[value]

    def given(self, value: int, array: Array) -> Array:
        """What is wanted of a value."""
        if self.shape is None:
            return array
        has, wanted = self.at[value], self.wanted
        if value in self.finer:
            # Only what is wanted at last is longer than the domain says.
            has, wanted = _times(has, self.finer[value]), _times(wanted, self.finer[value])
        return cut(array, has, wanted)


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

    has: Spans
    sides: tuple[Sides, ...]
    gives: Spans


def common(work: Work, group: Group, margin: Box) -> Common | None:
    """What a group is done on at once; None where that is more than there is."""
    node = group.nodes[0]
    if work.shape is None:
        return Common((), ((True, True),) * len(node.along), ())
    has = tuple(
        (max(first for first, _ in axis), min(last for _, last in axis))
        for axis in zip(*(work.at[value] for value in group.fields), strict=True)
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
    return Common(has, sides, gives)


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
