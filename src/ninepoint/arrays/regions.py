"""Regions: how much of its fields a sequence of nodes needs, for a part of what it gives.

    domain     |=========================================|
    block      |================|                          low side closed, high side open
    result     |=============|

A side of a block is *closed* where the array ends there too, so that border rules apply, and
*open* where only the block ends: there a result is smaller by what the nodes look at.  All that
a rule puts outside an array lies inside of it, no further from its end than the point outside
is.  So a block that is closed at a side holds all that is needed if it is longer than a node
looks.  Along an axis that wraps no point is different from others: a block has neighbours
from the other end of the array, its positions then count on beyond the array, and both its
sides are open; or it is the whole axis, and both are closed.

Axes are independent of each other, so all is said for one axis at a time, counted from the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..base.frozen import frozen
from ..base.remembered import Remembered
from ..language.ir import joined
from .layout import Array, Region, Rule, Shape, Span, hull

# By how much a value is longer than what it is made of, by the axis, counted from the end.
Finer: TypeAlias = Mapping[int, int]

# Where arrays begin, and how long they are, whose ends are far away.
FAR = 1 << 40


@frozen
class Domain:
    """The whole array, of which a block is a part: its lengths along the last axes.

    The block `has` some points, maybe beyond the ends of an axis that wraps, and is to give
    those of the `region`, as far as a value has them ("valid").  `lengths` are what programs are
    told of the whole, where positions are those in another array.
    """

    shape: Shape
    has: Region
    region: Region
    lengths: Shape | None = None


# Of whole arrays nothing is said.
WHOLE = Domain((), Region(), Region())


@frozen
class Block:
    """Arrays, and where in the domain they stand.

    The arrays have one shape along the axes of the domain, save that an array may lack axes, or
    have one element where it is the same all along.  A point of the domain is so far `on` in the
    whole array, if the domain is another one.
    """

    arrays: tuple[Array, ...]
    domain: Domain = WHOLE
    on: Shape | None = None


def spans_of(sizes: Sequence[int]) -> list[Span]:
    """From where to where each chunk of an axis is."""
    return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))


# One call (`program.graph.Node`): its `fields` and `outputs` are values, by number.  It works
# `along` some axes (`works_along` names none if all are alike to it), where each output looks as
# far as its one of `reaches` says, under a `boundary`, of which the `border` has names in place of
# conditions, with a `cval`.  Along each axis `every` says of how many points one is made; it
# `thins` where some are not, and `full` makes them all; results are as many times as long as
# `factors` says.  What it is `compiled` to computes it, and `text` gives what does it on a GPU,
# under a border.
Node: TypeAlias = Any

# Nodes, as far as those know them that do them block by block (`program.program.Program`, and
# `running.sending.Sent`); it pickles as its meaning, which `token` names.  Its `nodes` work on
# fields of one shape and of `field_dtypes`, and none that gives "valid" results is read by
# another.  Along an axis that is cut they all take it as a ring or none does.  `run` computes the
# `wanted` values from a block; `name` begins the names of layers, and `held` says how many bytes
# its coefficients have.
Program: TypeAlias = Any


def looks(node: Node, axis: int) -> tuple[Span, Sequence[Rule]]:
    """From where to where a node looks along an axis, the point itself always among it.

    And the border's rules there; none where it does not work along it.
    """
    if axis not in node.along:
        return (0, 0), ()
    place = node.along.index(axis)
    before, after = joined(node.reaches).sides[place]
    return (-before, after), node.border.rules[place]


def rings(nodes: Iterable[Node], axis: int) -> set[bool]:
    """Whether the nodes that look along an axis take it as a ring; some may, and others not."""
    found = (looks(node, axis) for node in nodes)
    return {"wrap" in rules for span, rules in found if any(span)}


class Looking:
    """From where to where wanted values look in the fields along an axis, far from its ends.

    The point itself is always among it; some nodes may take the axis as a `ring`.  The first
    `given` values are the fields; the axis is counted from the end.
    """

    def __init__(
        self, nodes: Sequence[Node], wanted: Sequence[int], given: int, axis: int
    ) -> None:
        self.nodes, self.wanted, self.given, self.axis = nodes, wanted, given, axis
        self.ring = True in rings(nodes, axis)
        low, high = self._of_fields((FAR, FAR + 1), 2 * FAR)
        self.low, self.high = min(0, low - FAR), max(0, high - FAR - 1)

    def values(self, span: Span, n: int) -> dict[int, Span]:
        """What must be known of each value to give `span` of those wanted, of an axis so long.

        Each of the fields of a node has what is needed of all of them.
        """
        values: dict[int, Span] = dict.fromkeys(self.wanted, span)
        whole = span == (0, n)
        for node in reversed(self.nodes):
            made = [values[value] for value in node.outputs if value in values]
            if not made:
                continue
            read = span if whole else self._grown(node, hull(made), n)
            if self.ring and not whole and read[1] - read[0] >= n:
                # The same points again and again: the axis is done as a whole.
                return self.values((0, n), n)
            for value in node.fields:
                values[value] = hull([values.get(value, read), read])
        return values

    def _grown(self, node: Node, span: Span, n: int) -> Span:
        """What a node needs of its fields to give a span."""
        (low, high), _ = looks(node, self.axis)
        first, last = span[0] + low, span[1] + high
        if self.ring or low == high == 0:
            return first, last
        # So many elements at an end decide what stands outside.
        order = max((one.order for one in node.boundary.conditions), default=0)
        thick = 1 + max(high - low, order)
        if first <= 0:
            first, last = 0, max(last, thick)
        if last >= n:
            first, last = max(0, min(first, n - thick)), n
        return first, last

    def _of_fields(self, span: Span, n: int) -> Span:
        """What is needed of the fields, all of them alike."""
        values = self.values(span, n)
        found = [values[value] for value in range(self.given) if value in values]
        return hull(found) if found else span

    def needs(self, span: Span, n: int) -> Span:
        """What of the fields is needed for some points of an axis so long."""
        (a, b), low, high = span, self.low, self.high
        if a == b or low == high == 0 or span == (0, n):
            # For no points nothing is needed, and no more than all for all.
            return span
        if (b - a + high - low < n) if self.ring else (a + low > 0 and b + high < n):
            # Far from the ends nothing is said anew for each block.
            return a + low, b + high
        return self._of_fields(span, n)

    def placed(self, span: Span, n: int) -> tuple[Span, int]:
        """Where a block is as it is in an axis so long, and how long the axis is there.

        Far from the ends all blocks of one shape are alike.
        """
        (a, b), near = span, 2 * (self.high - self.low + 1)
        length = b - a
        around = self.ring and length < n
        before, after = a < near and not around, n - b < near and not around
        if self.low == self.high == 0:
            # Nothing looks along it, so each block is as the whole.
            return (0, length), length
        if (self.ring and length + near >= n) or (before and after):
            return span, n
        first = a if before else 2 * FAR - (n - a) if after else FAR
        return (first, first + length), 2 * FAR


# How programs look along axes.
_known: Remembered[Looking] = Remembered(64)


def looking(program: Program, axis: int) -> Looking:
    """How a program looks along an axis, which is counted from the end."""
    key = program.token, program.wanted, axis
    given = len(program.field_dtypes)
    return _known.made(key, lambda: Looking(program.nodes, program.wanted, given, axis))


# Which points a result has: some of those of its fields (`every=`), or more (`upsample=`).
#
# every=(2, 3)     ->     result[::2, ::3], of the lengths ceil(n / 2) and ceil(n / 3)
#
# upsample=(k, l)  ->     a kernel of k * l results, the phases, on the fields   ->   interleaved
#
#     a a b b        phase (0, 0), (0, 1)        result p is around the element p // k
#     c c d d        phase (1, 0), (1, 1)        phase r has the results k * I + r
#
# To everything that looks at neighbours or at borders a phase is an ordinary result on the fields.
# Only where results are put together are there more points.


def thinned(
    array: Any, steps: Shape, along: Sequence[int], first: Sequence[int] | None = None
) -> Any:
    """Some points of an array, the first of each axis or others on; axes count from the end."""
    index = [slice(None)] * array.ndim
    for axis, step, start in zip(along, steps, first or (0,) * len(steps), strict=True):
        index[axis] = slice(start, None, step)
    return array[tuple(index)]


def cut_shapes(
    shapes: Sequence[Shape], values: Sequence[int], fine: Mapping[int, Mapping[int, int]]
) -> list[Shape]:
    """Shapes of the fields of a call, of which the `fine` ones are as long as those beside them.

    The finer result of a field that has half as many points, rounded up, may have one too many.
    """
    found = list(shapes)
    for position, value in enumerate(values):
        for axis, factor in fine.get(value, {}).items():
            beside = [
                shape[axis]
                for other, shape in zip(values, shapes, strict=True)
                if axis not in fine.get(other, {}) and len(shape) >= -axis and shape[axis] != 1
            ]
            shape = list(found[position])
            if beside and 0 < shape[axis] - min(beside) < factor:
                shape[axis] = min(beside)
                found[position] = tuple(shape)
    return found


def finer_values(nodes: Sequence[Node]) -> dict[int, Finer]:
    """The values that are longer than what they are made of, and what is made of these alone."""
    found: dict[int, Finer] = {}
    for node in nodes:
        known = [found.get(value, {}) for value in node.fields]
        thin = {axis for axis, step in zip(node.along, node.every, strict=False) if step > 1}
        own = {
            axis: k
            for axis, k in known[0].items()
            if all(axis in one for one in known) and axis not in thin
        }
        for axis, k in zip(node.along, node.factors, strict=False):
            own[axis] = own.get(axis, 1) * k
        if own:
            found |= dict.fromkeys(node.outputs, own)
    return found


def check_device(nodes: Sequence[Node]) -> None:
    """Raise where a GPU is to make finer results, or to lay values at the border."""
    for node in nodes:
        if node.boundary.conditions:
            raise TypeError(
                f"boundary={node.boundary} has values at the border, which are there for arrays "
                "of NumPy and xarray, and not on a GPU; name a border rule."
            )
    if any(node.factors for node in nodes):
        raise TypeError(
            "a GPU computes no finer results (upsample=) yet; give arrays of NumPy, as "
            "cupy.asnumpy(x) makes them, and leave device= out."
        )
