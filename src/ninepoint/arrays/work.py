"""Work: the block that nodes are done on, and where the values of them stand.

    whole array     every value is all there is of it
    block           a value has a span of the points of the whole along each axis, and some of
                    them are needed

Groups read and write it, one after the other (see `arrays.launching`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from ..base.frozen import frozen
from ..language.ir import Box
from .layout import Array, Index, Shape, Sides, Span
from .regions import Block, Finer, Node, cut_shapes, finer_values, looks, needed

Spans: TypeAlias = tuple[Span, ...]

# Arrays that are there, by the numbers of their values.
ByNumber: TypeAlias = Mapping[int, Array]


@frozen
class Group:
    """Nodes that are done together: the values they read, and those that others need.

    The last of the values that they read may be `positions`.  Several nodes are done at once by
    their `chain`; where they are steps of an iteration, `steps` has a group for each.  `kernel`
    holds all nodes in one, and `names` says what the values are called there.
    `asked` tells that the schedule says how many steps, so that arrays of any size are done so.
    """

    nodes: tuple[Any, ...]
    fields: tuple[int, ...]
    outputs: tuple[int, ...]
    positions: int = 0
    kernel: Any = None
    names: Mapping[int, str] = field(default_factory=dict)
    asked: bool = False
    steps: tuple[Group, ...] = ()
    chain: Any = None


# Values, and what is taken of each: nothing where it is taken as it is.
Taken: TypeAlias = Sequence[tuple[int, Index]]


def taken(values: ByNumber | Sequence[Array], fields: Taken) -> list[Array]:
    """What is taken of values."""
    return [values[value][index] if index else values[value] for value, index in fields]


@frozen
class Placed:
    """What some nodes take of their fields, and at which sides the array ends there.

    `gives` says where each of their results stands.  Spans of whole arrays are empty.
    """

    taken: Spans
    closed: tuple[Sides, ...]
    gives: Mapping[int, Spans]


class Work:
    """Where the values of a run stand; of whole arrays all spans are empty."""

    def __init__(
        self,
        nodes: Sequence[Node],
        wanted: Sequence[int],
        block: Block,
        threads: int | None = None,
    ) -> None:
        self.threads, self._domain = threads, block.domain
        # The values that are longer than what they are made of.
        self._finer = finer_values(nodes)
        # The span that each value has, and what of it is needed.
        has = block.domain.has
        self._at: dict[int, Spans] = dict.fromkeys(range(len(block.arrays)), has)
        domain = enumerate(zip(self._wanted, block.domain.shape, strict=True), -len(self._wanted))
        found = [needed(nodes, wanted, span, n, axis) for axis, (span, n) in domain]
        self._needs = {value: tuple(one[value] for one in found) for value in set().union(*found)}
        # Whoever makes a block knows how much is needed.
        for value in self._at:
            assert within(self._needs.get(value, has), has), (has, self._needs[value])

    @property
    def _wanted(self) -> Spans:
        """The points that are wanted of values, so far as there are any."""
        return self._domain.region

    def part(self, node: Node) -> Placed:
        """What a node is done on: all that is needed of it."""
        taken = _common(self._needs, node.fields)
        sides = self._closed(node, taken)
        rules = zip(sides, node.border.rules, strict=True)
        whole = [(low and a != "valid", high and b != "valid") for (low, high), (a, b) in rules]
        made = zip(node.outputs, node.reaches, strict=True)
        gives = {value: _left(taken, node.along, reach, whole) for value, reach in made}
        return Placed(taken, sides, gives)

    def common(self, group: Group, margin: Box) -> Placed | None:
        """What a group is done on at once, by a kernel that looks so far; None if there is less.

        The kernel may read less than the nodes do one by one.
        """
        node, taken = group.nodes[0], _common(self._at, group.fields)
        sides = self._closed(node, taken)
        gives = _left(taken, node.along, margin, sides)
        if all(within(self._needs.get(value, gives), gives) for value in group.outputs):
            return Placed(taken, sides, dict.fromkeys(group.outputs, gives))
        return None

    def _closed(self, node: Node, taken: Spans) -> tuple[Sides, ...]:
        """At which sides of what a node takes its border's rules apply."""
        if not taken:
            return ((True, True),) * len(node.along)
        found = []
        for axis in node.along:
            first, last, n = *taken[axis], self._domain.shape[axis]
            low, high = first == 0, last == n
            ring = "wrap" in looks(node, axis)[1]
            found.append((low and high, low and high) if ring else (low, high))
        return tuple(found)

    def stand(self, part: Placed) -> None:
        """Note where results stand."""
        self._at |= part.gives

    def core(self, shape: Shape, along: Shape) -> Shape:
        """What programs are told of the lengths of arrays of a shape, along some axes."""
        lengths = self._domain.lengths or self._domain.shape or shape
        return tuple(lengths[axis] for axis in along)

    def arrays(
        self, part: Placed, fields: Sequence[int], values: ByNumber, outs: ByNumber
    ) -> tuple[Taken, list[Array], list[Array] | None]:
        """What nodes take of fields, that of these values, and the arrays to write results to.

        None where there are none for just these points.
        """
        shapes, found = [values[value].shape for value in fields], []
        fitting = cut_shapes(shapes, fields, self._finer)
        for value, whole, shape in zip(fields, shapes, fitting, strict=True):
            index: Index = tuple(map(slice, shape))
            if shape == whole:
                index = index_of(values[value], self._at.get(value, ()), part.taken)
            found.append((value, index))
        # An array is there for what is wanted of a value, so far as there is any.
        there = all(v in outs and within(at, self._wanted) for v, at in part.gives.items())
        into = [outs[value] for value in part.gives] if there else None
        return tuple(found), taken(values, found), into

    def given(self, value: int, array: Array) -> Array:
        """What is wanted of a value."""
        # Only what is wanted at last is longer than the domain says.
        finer = self._finer.get(value, {})
        return cut(array, self._at.get(value, ()), self._wanted, finer)


def _common(spans: Mapping[int, Spans], values: Iterable[int]) -> Spans:
    """The points that all of some values have."""
    axes = zip(*(spans.get(value, ()) for value in values), strict=True)
    return tuple((max(a for a, _ in axis), min(b for _, b in axis)) for axis in axes)


def _left(spans: Spans, along: Shape, reach: Box, closed: Sequence[Sides]) -> Spans:
    """What is made of so much by what looks so far: at sides that are not closed less."""
    found = list(spans)
    if not found:
        return spans
    for axis, (low, high), (before, after) in zip(along, closed, reach.sides, strict=True):
        first, last = found[axis]
        first = first if low else first + before
        found[axis] = first, max(first, last if high else last - after)
    return tuple(found)


def within(some: Spans, others: Spans) -> bool:
    """Whether points are some of others, along every axis."""
    return all(a >= c and b <= d for (a, b), (c, d) in zip(some, others, strict=True))


def cut(array: Array, has: Spans, wanted: Spans, finer: Finer | None = None) -> Array:
    """The part of an array that stands at `has`, as far as it is there."""
    index = index_of(array, has, wanted, finer)
    return array[index] if index else array


def index_of(array: Array, has: Spans, wanted: Spans, finer: Finer | None = None) -> Index:
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
