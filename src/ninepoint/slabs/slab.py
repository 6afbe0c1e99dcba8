"""One part of a state: it goes several steps on by itself, then is given what lies beside it.

    frame     |..|==========|..|      the part, and room on both sides for others' points
    exchange  the others' points come into the room; of fields that are no states once
    steps     the part's own points go into a second frame, which then is the first

The border's rules hold where the whole array ends, and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any, Protocol, TypeVar

import numpy as np

from ..arrays.borders import Array
from ..arrays.layout import Region
from ..arrays.regions import Span, hull
from ..arrays.work import Block, Domain
from ..backends.memory import empty
from ..iteration import Iteration
from ..program import Program
from .motion import Parts

T = TypeVar("T")


class Links(Protocol):
    """What the parts of a state tell each other, by their numbers; all do the same in order."""

    def exchange(self, give: Mapping[int, list[Array]], into: Mapping[int, list[Array]]) -> None:
        """Give arrays to others, and fill arrays with what they give."""

    def together(self, value: T) -> list[T]:
        """What all parts have to say."""


class Slab:
    """A part of a state, which goes on with others'; see `iteration.Advance`.

    `fields` are its own points of them, and `at` gives the scalars of a step: the same object
    where they are the same.
    """

    def __init__(
        self,
        parts: Parts,
        part: int,
        links: Links,
        at: Callable[[int], Mapping[str, Any]],
        fields: Sequence[Array],
        plan: Iteration,
    ) -> None:
        self.longest, self.unit = parts.longest, parts.motion.steps.unit(parts.longest)
        self._parts, self._part, self._links, self._at, self._plan = parts, part, links, at, plan
        self._count, self.ended = parts.motion.states, False
        shape = parts.shape_of(parts.shape, parts.lengths[part])
        self._fields = [
            *(np.broadcast_to(one, shape) for one in fields[: self._count]),
            *fields[self._count :],
        ]
        # Frames into which the next state goes; and where the frames of all parts are.
        self._spare: list[Array] = []
        self._frames = parts.owned
        # What each part needs, by the number of steps.
        self._needs: dict[int, list[Span]] = {}
        self._program: tuple[list[Mapping[str, Any]], Program, tuple[int, ...]] | None = None

    def forward(self, first: int, length: int) -> int:
        """Do so many steps from `first` on."""
        parts, needs = self._parts, self._needed(length)
        self._grow(self._needed(self.longest))
        self._grow(needs)
        self._exchange(self._fields[: self._count], needs)
        own, need = parts.owned[self._part], needs[self._part]
        if own[0] == own[1]:
            return length
        program, numbers = self._steps(first, length)
        given = [
            self._view(self._fields[k], need) if k in parts.cut else self._fields[k]
            for k in numbers
        ]
        at = len(parts.shape) + parts.axis
        start, stop = [0] * len(parts.shape), list(parts.shape)
        start[at], stop[at] = own
        region = Region(tuple(start), tuple(stop))
        start[at] = need[0]
        targets = [self._view(one, own) for one in self._spare]
        made = program.run(
            Block(tuple(given), tuple(start), Domain(parts.shape)),
            region,
            outs=dict(zip(program.wanted, targets, strict=True)),
            threads=self._plan.threads,
        )
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
        before = [self._view(one, self._parts.owned[self._part]) for one in self._spare]
        close = plan.is_close(states, before)
        ended = False
        if plan.callback is not None:
            # It may keep what it is shown, or write to it.
            kept = [one.copy() for one in states]
            ended = bool(plan.callback(step, *kept))
            for one, other in zip(states, kept, strict=True):
                one[...] = other
        told = self._links.together((ended, close))
        self.ended = any(one for one, _ in told) or all(one for _, one in told)
        return self.ended

    def final(self) -> list[Array]:
        """Give the part's own points of the state."""
        return [one.copy() for one in self.own()]

    def own(self) -> list[Array]:
        """The part's own points of the state, where they are."""
        span = self._parts.owned[self._part]
        return [self._view(one, span) for one in self._fields[: self._count]]

    def _needed(self, length: int) -> list[Span]:
        if length not in self._needs:
            parts = self._parts
            n = parts.shape[parts.axis]
            self._needs[length] = parts.motion.needs(length, parts.owned, n, parts.axis)
        return self._needs[length]

    def _steps(self, first: int, length: int) -> tuple[Program, tuple[int, ...]]:
        """The program of some steps; the same one while the scalars are."""
        each = [self._at(step) for step in range(first, first + length)]
        known = self._program
        if known is None or len(known[0]) != length or not all(map(is_, known[0], each)):
            known = self._program = each, *self._parts.motion.program(each)
        return known[1:]

    def _view(self, array: Array, span: Span) -> Array:
        """The part of a frame that stands so along the axis."""
        begin = self._frames[self._part][0]
        part = slice(span[0] - begin, span[1] - begin)
        index: tuple[Any, ...] = (..., part, *(slice(None),) * (-self._parts.axis - 1))
        view: Array = array[index]
        return view

    def _grow(self, needs: Sequence[Span]) -> None:
        """Have frames in all parts that hold what is needed, of all fields that are cut."""
        frames = [hull(*pair) for pair in zip(self._frames, needs, strict=True)]
        if frames == self._frames and self._spare:
            return
        own = self._parts.owned[self._part]
        which = self._parts.cut
        before = [self._view(self._fields[k], own) for k in which]
        self._frames = frames
        length = frames[self._part][1] - frames[self._part][0]
        for k, points in zip(which, before, strict=True):
            self._fields[k] = empty(self._parts.shape_of(points.shape, length), points.dtype)
            self._view(self._fields[k], own)[...] = points
        self._spare = [empty(one.shape, one.dtype) for one in self._fields[: self._count]]
        self._exchange([self._fields[k] for k in which[self._count :]], frames)

    def _exchange(self, arrays: Sequence[Array], spans: Sequence[Span]) -> None:
        """Have these spans in the frames of all parts, of arrays of which each has its own."""
        me, owned = self._part, self._parts.owned
        give: dict[int, list[Array]] = defaultdict(list)
        into: dict[int, list[Array]] = defaultdict(list)
        for part, (span, pieces) in enumerate(zip(spans, self._parts.pieces(spans), strict=True)):
            for owner, target, source in pieces:
                here, there = _shifted(source, owned[owner]), _shifted(target, span)
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
        if arrays and len(spans) > 1:
            self._links.exchange(give, into)


def _shifted(part: slice, span: Span) -> Span:
    return span[0] + part.start, span[0] + part.stop
