"""A state in parts, each of which goes several steps on, then is given what lies beside it.

    owned     |-- 0 --|-- 1 --|-- 2 --|
    frame of part 1 |=============|   its points, and room on both sides for others'
    exchange  the others' points come into the room; of fields that are no states once
    steps     the part's own points go into a second frame, which then is the first

Along a ring positions count on beyond the ends.  The border's rules hold where the whole array
ends, and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from ...arrays.blocks import part_of
from ...arrays.borders import Array
from ...arrays.layout import Shape
from ...arrays.numpy import broadcast_shape
from ...arrays.regions import Block, Domain, Looking, Span, along, hull, rings, spans_of
from ...backends.memory import empty
from ..iterate import Iteration
from ..motion import Motion

T = TypeVar("T")


def refusal(motion: Motion, shapes: Sequence[Shape], axis: int) -> str:
    """Why states of these shapes cannot be cut along an axis; empty where they can be."""
    nodes = motion.nodes
    whole = broadcast_shape(shapes)
    found = motion.graph.shapes(shapes)
    for node in nodes:
        if node.resizes:
            return f"'{node.label}' gives fewer points than it is given"
        if broadcast_shape([found[value] for value in node.fields]) != whole:
            return f"'{node.label}' is given fields that are smaller than the state"
    if len(rings(nodes, axis)) > 1:
        return 'some calls take the axis as a ring, by boundary="wrap", and others do not'
    return ""


@dataclass(frozen=True)
class Parts:
    """A state of this shape, cut along an axis, counted from the end, in parts of these lengths.

    Each field has a shape, and is cut as the state is, or is the same all along the axis.  Between
    two exchanges there are as many steps as the `longest` block has.
    """

    motion: Motion
    shape: Shape
    axis: int
    lengths: tuple[int, ...]
    fields: tuple[tuple[Shape, bool], ...]
    longest: int

    @staticmethod
    def of(
        motion: Motion,
        axis: int,
        lengths: Sequence[int],
        shapes: Sequence[tuple[Shape, bool]],
        exchange: float,
        plan: Iteration,
    ) -> Parts:
        """Parts of these lengths; an exchange takes so long [s].

        `shapes` are those of each field, or of a part of it, and whether it is cut.
        """
        whole = list(broadcast_shape([shape for shape, _ in shapes]))
        beside = [max(1, n) for n in (max(lengths), *whole[axis:][1:])]
        longest = motion.between(beside, [axis], exchange, plan.in_a_row)
        whole[axis] = sum(lengths)
        return Parts(motion, tuple(whole), axis, tuple(lengths), tuple(shapes), longest)

    @property
    def owned(self) -> list[Span]:
        """What each part has."""
        return spans_of(self.lengths)

    @property
    def cut(self) -> list[int]:
        """The numbers of the fields that are cut, the states among them."""
        return [k for k, (_, cut) in enumerate(self.fields) if cut or k < self.motion.states]

    def shapes(self, length: int) -> list[Shape]:
        """The shapes of the fields where the axis is so long, as that of a part is."""
        return [self.shape_of(shape, length) if cut else shape for shape, cut in self.fields]

    def shape_of(self, shape: Shape, length: int) -> Shape:
        """A shape with another length along the axis."""
        lengths = list(shape)
        lengths[self.axis] = length
        return tuple(lengths)

    @cached_property
    def frames(self) -> list[Span]:
        """What each part has room for: what any number of steps up to the longest needs."""
        motion, n, axis = self.motion, self.shape[self.axis], self.axis
        graph, wanted = motion.repeated([motion.call.scalars] * self.longest)
        one = Looking.of(graph.needed(wanted), wanted, graph.given, axis)
        found = []
        for a, b in self.owned:
            frame = one.needs((a, b), n)
            if one.ring and a < b:
                # Fewer steps need less than a ring that all of them need as a whole, or more.
                frame = hull(frame, (a + one.low, b + one.high))
            found.append(frame)
        return found

    @cached_property
    def moves(self) -> list[tuple[int, int, Span, Span]]:
        """What parts take: a part, whose points those are, and where they are here and there."""
        found = []
        for part, frame in enumerate(self.frames):
            for owner, pieces in part_of(self.lengths, frame).pieces.items():
                for target, source in pieces:
                    here = _shifted(source, self.owned[owner])
                    found.append((part, owner, here, _shifted(target, frame)))
        return found


class Links(Protocol):
    """What the parts of a state tell each other, by their numbers; all do the same in order."""

    @property
    def part(self) -> int:
        """The number of this part."""

    def exchange(self, give: Mapping[int, list[Array]], into: Mapping[int, list[Array]]) -> None:
        """Give arrays to others, and fill arrays with what they give."""

    def together(self, value: T) -> list[T]:
        """What all parts have to say."""


class Slab:
    """A part of a state, which goes on with others'; see `iteration.Advance`.

    `fields` are its own points of them.
    """

    def __init__(
        self, parts: Parts, links: Links, fields: Sequence[Array], plan: Iteration
    ) -> None:
        self.longest, self.unit = parts.longest, parts.motion.unit(parts.longest)
        self._parts, self._part, self._links, self._plan = parts, links.part, links, plan
        self._count, self.ended = parts.motion.states, False
        self._frame, self._own = parts.frames[links.part], parts.owned[links.part]
        self._fields = [
            self._framed(k, field) if k in parts.cut else np.asarray(field, parts.motion.types[k])
            for k, field in enumerate(fields)
        ]
        # Frames into which the next state goes.
        self._spare = [empty(one.shape, one.dtype) for one in self._fields[: self._count]]
        self._exchange([self._fields[k] for k in parts.cut[self._count :]])

    def forward(self, first: int, length: int) -> int:
        """Do so many steps from `first` on."""
        parts, own, shape = self._parts, self._own, self._parts.shape
        self._exchange(self._fields[: self._count])
        if own[0] == own[1]:
            return length
        program, given = parts.motion.program(first, length)
        targets = [self._view(one, own) for one in self._spare]
        outs = dict(zip(program.wanted, targets, strict=True))
        region = along(shape, parts.axis, own)
        domain = Domain(shape, along(shape, parts.axis, self._frame), region)
        block = Block(tuple(self._fields), domain)
        made = program.run(block, outs, self._plan.threads, given)
        for target, result in zip(targets, made, strict=True):
            if not np.may_share_memory(target, result):
                target[...] = result
        self._fields[: self._count], self._spare = self._spare, self._fields[: self._count]
        return length

    def ends(self, step: int) -> bool:
        """Show the state, and say whether it is the last for any of the parts."""
        states, plan = self.own(), self._plan
        looked = step == plan.steps or not step % (plan.every or plan.steps)
        if not looked or (plan.until is None and plan.callback is None):
            return False
        before = [self._view(one, self._own) for one in self._spare]
        # A callback may keep what it is shown, or write to it.
        kept = states if plan.callback is None else [one.copy() for one in states]
        close = plan.is_close(states, before)
        ended = plan.callback is not None and bool(plan.callback(step, *kept))
        for one, other in zip(states, kept, strict=True):
            if one is not other:
                one[...] = other
        told = self._links.together((ended, close))
        self.ended = any(one for one, _ in told) or all(one for _, one in told)
        return self.ended

    def final(self) -> list[Array]:
        """Give the part's own points of the state."""
        return [one.copy() for one in self.own()]

    def own(self) -> list[Array]:
        """The part's own points of the state, where they are."""
        return [self._view(one, self._own) for one in self._fields[: self._count]]

    def _view(self, array: Array, span: Span) -> Array:
        """The part of a frame that stands so along the axis."""
        part = slice(span[0] - self._frame[0], span[1] - self._frame[0])
        index: tuple[Any, ...] = (..., part, *(slice(None),) * (-self._parts.axis - 1))
        view: Array = array[index]
        return view

    def _framed(self, number: int, field: Array) -> Array:
        """A frame with the part's own points of a field; a state has all axes of the shape."""
        shape = self._parts.shape if number < self._count else field.shape
        length = self._frame[1] - self._frame[0]
        made = empty(self._parts.shape_of(shape, length), self._parts.motion.types[number])
        self._view(made, self._own)[...] = field
        return made

    def _exchange(self, arrays: Sequence[Array]) -> None:
        """Fill the frames of all parts, of arrays of which each has its own points."""
        me = self._part
        give: dict[int, list[Array]] = defaultdict(list)
        into: dict[int, list[Array]] = defaultdict(list)
        for part, owner, here, there in self._parts.moves:
            if owner == me:
                found = [self._view(one, here) for one in arrays]
                if part != me:
                    give[part] += found
                elif here != there:
                    # Along a ring a part may have the same points twice.
                    for one, piece in zip(arrays, found, strict=True):
                        self._view(one, there)[...] = piece
            elif part == me:
                into[owner] += [self._view(one, there) for one in arrays]
        if arrays and len(self._parts.lengths) > 1:
            self._links.exchange(give, into)


def _shifted(part: slice, span: Span) -> Span:
    return span[0] + part.start, span[0] + part.stop
