"""One part of a state: it goes several steps on by itself, then is given what lies beside it.

    frame     |..|==========|..|      the part, and room on both sides for others' points
    exchange  the others' points come into the room
    steps     the part's own points go into a second frame, which then is the first

The border's rules hold where the whole array ends, and nowhere else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ..arrays.borders import Array
from ..arrays.layout import Region
from ..arrays.regions import Span
from ..arrays.work import Block, Domain
from ..backends.memory import empty
from ..iteration import Iteration
from ..program import Program
from .cut import Cut
from .motion import Motion, same_numbers

T = TypeVar("T")


class Links(Protocol):
    """What the parts of a state tell each other, by their numbers; all do the same in order."""

    def exchange(self, give: Mapping[int, list[Array]], into: Mapping[int, list[Array]]) -> None:
        """Give arrays to others, and fill arrays with what they give."""

    def together(self, value: T) -> list[T]:
        """What all parts have to say."""


class Numbers(Protocol):
    """The scalars of each step."""

    def at(self, step: int) -> dict[str, Any]:
        """Those of one step, counted from 0."""


class Slab:
    """A part of a state, which goes on with others'; see `iteration.Advance`.

    `fields` are its own points of them.  Those that are no states are cut as these are, or not:
    then they are the same all along the axis.
    """

    def __init__(
        self,
        motion: Motion,
        cut: Cut,
        part: int,
        links: Links,
        numbers: Numbers,
        fields: Sequence[Array],
        cut_too: Sequence[bool],
        longest: int,
        plan: Iteration,
    ) -> None:
        self.longest, self.unit = longest, motion.steps.unit(longest)
        self._motion, self._cut, self._part, self._links = motion, cut, part, links
        self._numbers, self._plan = numbers, plan
        self._own = own = cut.owned[part]
        shape = list(cut.shape)
        shape[cut.axis] = own[1] - own[0]
        self._frame, self._shape = own, tuple(shape)
        count = motion.states
        self._states = [_filled(np.broadcast_to(one, self._shape)) for one in fields[:count]]
        self._spare: list[Array] = []
        self._others = list(zip(fields[count:], cut_too, strict=True))
        # The other fields with the points beside, by what is needed of them.
        self._around: dict[tuple[Span, ...], list[Array]] = {}
        # What each part needs, by the number of steps.
        self._needs: dict[int, list[Span]] = {}
        self._program: tuple[list[dict[str, Any]], Program, tuple[int, ...]] | None = None

    def forward(self, first: int, length: int) -> int:
        """Do so many steps from `first` on."""
        needs = self._needed(length)
        own, need = self._own, needs[self._part]
        self._make_room(need)
        self._exchange(self._states, self._frame, needs)
        others = self._beside(needs)
        if own[0] == own[1]:
            return length
        program, fields = self._steps(first, length)
        count = len(self._states)
        given = [
            self._at(self._states[k], self._frame, need) if k < count else others[k - count]
            for k in fields
        ]
        start = [0] * len(self._shape)
        start[self._cut.axis] = need[0]
        spans = self._cut.region(own)
        region = Region(tuple(a for a, _ in spans), tuple(b for _, b in spans))
        targets = [self._at(one, self._frame, own) for one in self._spare]
        made = program.run(
            Block(tuple(given), tuple(start), Domain(self._cut.shape)),
            region,
            outs=dict(zip(program.wanted, targets, strict=True)),
            threads=self._plan.threads,
        )
        for target, result in zip(targets, made, strict=True):
            if not np.may_share_memory(target, result):
                target[...] = result
        self._states, self._spare = self._spare, self._states
        return length

    def ends(self, step: int) -> bool:
        """Show the state, and say whether it is the last for any of the parts."""
        states, plan = self.own(), self._plan
        if plan.until is None and plan.callback is None:
            return False
        before = [self._at(one, self._frame, self._own) for one in self._spare]
        close = plan.is_close(states, before)
        ended = False
        if plan.callback is not None:
            # It may keep what it is shown, or write to it.
            kept = [one.copy() for one in states]
            ended = bool(plan.callback(step, *kept))
            for one, other in zip(states, kept, strict=True):
                one[...] = other
        told = self._links.together((ended, close))
        return any(one for one, _ in told) or all(one for _, one in told)

    def final(self) -> list[Array]:
        """Give the part's own points of the state."""
        return [one.copy() for one in self.own()]

    def own(self) -> list[Array]:
        """The part's own points of the state, where they are."""
        return [self._at(one, self._frame, self._own) for one in self._states]

    def _needed(self, length: int) -> list[Span]:
        if length not in self._needs:
            cut = self._cut
            self._needs[length] = self._motion.needs(length, cut.owned, cut.length, cut.axis)
        return self._needs[length]

    def _steps(self, first: int, length: int) -> tuple[Program, tuple[int, ...]]:
        """The program of some steps; the same one while the scalars are."""
        each = [self._numbers.at(step) for step in range(first, first + length)]
        if self._program is None or not same_numbers(self._program[0], each):
            self._program = each, *self._motion.program(each)
        return self._program[1:]

    def _at(self, array: Array, frame: Span, span: Span) -> Array:
        """The part of an array that stands so along the axis."""
        if (
            frame == span
            or array.ndim < -self._cut.axis
            or array.shape[self._cut.axis] == 1 != (frame[1] - frame[0])
        ):
            return array
        part = slice(span[0] - frame[0], span[1] - frame[0])
        index: tuple[Any, ...] = (..., part, *(slice(None),) * (-self._cut.axis - 1))
        view: Array = array[index]
        return view

    def _make_room(self, need: Span) -> None:
        """Have frames that hold what is needed, the first with the state."""
        inside = self._frame[0] <= need[0] and need[1] <= self._frame[1]
        if not (inside and self._spare):
            frame = need
            if self.longest in self._needs and not inside:
                longest = self._needs[self.longest][self._part]
                if longest[0] <= need[0] and need[1] <= longest[1]:
                    frame = longest
            states = [self._framed(one, frame) for one in self._states]
            for state, own in zip(states, self.own(), strict=True):
                self._at(state, frame, self._own)[...] = own
            self._spare = [self._framed(one, frame) for one in states]
            self._states, self._frame = states, frame

    def _framed(self, like: Array, frame: Span) -> Array:
        shape = list(like.shape)
        shape[self._cut.axis] = frame[1] - frame[0]
        return empty(tuple(shape), like.dtype)

    def _exchange(self, arrays: Sequence[Array], frame: Span, needs: Sequence[Span]) -> None:
        """Have all that is needed in the frame: the own points are there."""
        cut, me = self._cut, self._part
        give: dict[int, list[Array]] = defaultdict(list)
        into: dict[int, list[Array]] = defaultdict(list)
        n = max(1, cut.length)
        for part, need in enumerate(needs):
            for owner, span in cut.pieces(need):
                if owner == me:
                    # Where these points are at home: along a ring others count them otherwise.
                    turn = span[0] // n * n
                    here = span[0] - turn, span[1] - turn
                    pieces = [self._at(one, frame, here) for one in arrays]
                    if part != me:
                        give[part] += pieces
                    elif here != span:
                        for one, piece in zip(arrays, pieces, strict=True):
                            self._at(one, frame, span)[...] = piece
                elif part == me:
                    into[owner] += [self._at(one, frame, span) for one in arrays]
        if len(needs) > 1:
            self._links.exchange(give, into)

    def _beside(self, needs: Sequence[Span]) -> list[Array]:
        """The other fields as far as they are needed; they never change."""
        need = needs[self._part]
        # All parts ask at once, or none does: they do the same steps.
        key = tuple(needs)
        if key not in self._around:
            found = [self._framed(one, need) if cut_too else one for one, cut_too in self._others]
            framed = []
            for one, (other, cut_too) in zip(found, self._others, strict=True):
                if cut_too:
                    self._at(one, need, self._own)[...] = other
                    framed.append(one)
            if framed:
                self._exchange(framed, need, needs)
            self._around[key] = found
        return self._around[key]


def _filled(array: Array) -> Array:
    made = empty(array.shape, array.dtype.newbyteorder("="))
    made[...] = array
    return made
