"""Steps that machine code repeats, from the one half of some arrays to the other and back.

    steps 0, 2, ...    the calls from `one` to `other`        steps 1, 3, ...    back

A step of a small array ends within microseconds, and Python would take as long to begin the next.
Machine code hears of no interrupt, so that it does as many steps as end soon, and comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, TypeAlias

from ..backends.threads import Held, crew_address, repeat, thread_count
from .borders import Array
from .executable import SPLIT_POINTS, Executable

# How long machine code goes on by itself [s].
SLICE = 0.02

# So many more steps than before are done at once at the most, while their pace is not known well.
GROWTH = 4

# A step that takes less long on one thread is not shared [s]: to hand it to threads that look for
# work already takes 4 us (Zen 4).
SHARED = 12e-6

# A call, on which contiguous arrays that are no others' than ours, and with which numbers.
Calling: TypeAlias = tuple[Executable, Sequence[Array], Sequence[Array], Sequence[Any]]

# The calls of even steps, and those of odd ones.
Turns: TypeAlias = Sequence[Sequence[Held]]


class Repeats:
    """Steps on arrays that stay where they are; the next one is of the turn `turn`."""

    def __init__(self, calls: Sequence[Sequence[Calling]], alone: Turns, threads: int) -> None:
        """Take the calls, also as they are done on this thread; several may share them."""
        # Which hold what machine code reads.
        self._calls = calls
        self.turn = 0
        self._alone, self._threads = alone, threads
        # The same as several share them, which give the same: nothing before they are.
        self._shared: Turns | None = None
        # How long a step took on this thread [s], and how many are done at once.
        self._pace, self._count = 0.0, 1

    @staticmethod
    def of(calls: Sequence[Sequence[Calling]], threads: int | None) -> Repeats | None:
        """The calls of even and odd steps, if machine code can repeat them."""
        alone = _turns(calls, 1)
        if alone is None:
            return None
        points = max(outs[0].size for _, _, outs, _ in calls[0])
        count = thread_count(threads) if points >= SPLIT_POINTS else 1
        return Repeats(calls, alone, count)

    def __call__(self, most: int) -> int:
        """Do some steps, as many as end soon and `most` at the most; how many they were."""
        count, turns, crew = min(most, self._count), self._alone, 0
        # The first steps, after which it is known, are not warm.
        if self._count > GROWTH and self._pace > SHARED:
            crew = crew_address(self._threads)
        if crew:
            turns = self._shared = self._shared or _turns(self._calls, self._threads) or turns
        began = perf_counter()
        repeat(turns, self.turn, count, crew, self._threads)
        pace = (perf_counter() - began) / count
        if turns is self._alone:
            self._pace = pace
        self._count = max(1, min(GROWTH * count, int(SLICE / max(pace, 1e-9))))
        self.turn = (self.turn + count) % 2
        return count


def _turns(calls: Sequence[Sequence[Calling]], threads: int) -> Turns | None:
    """What is kept of all calls; None if one of them cannot be kept."""
    turns: list[list[Held]] = []
    for turn in calls:
        held = [call.held(fields, outs, told, threads) for call, fields, outs, told in turn]
        turns.append([one for one in held if one is not None])
        if len(turns[-1]) < len(turn):
            return None
    return turns
