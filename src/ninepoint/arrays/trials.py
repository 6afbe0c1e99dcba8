"""Calls that are done on one thread or shared among several, whichever proves to be the faster.

Calls that take long are tried in both ways, and again after some hundred calls: on a busy machine
others leave no time to the threads, which may change.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any

from .. import limits

# So many calls in a row must take longer than this [s] before threads are tried: on a busy
# machine any single one may.  What keeps its own thread busy for less is never shared.
SLOW_CALLS = 3

# So often is each of two ways tried before the faster is chosen; for so many calls at first, and
# at last.
TRIALS, FIRST_CALLS, LAST_CALLS = 4, 32, 512


class Choice:
    """How calls of one kind are done, from how long they took before.

    Attributes
    ----------
    took : float
        How long the last call took of those on one thread before any trial [s].
    """

    __slots__ = ("_chosen", "_last", "_least", "_own", "_slow", "_turn", "took")

    def __init__(self) -> None:
        self.took = 0.0
        self._slow = self._turn = self._chosen = 0
        self._last = 2 * TRIALS + FIRST_CALLS
        # How long each way takes, and how long the first keeps its thread busy.
        self._least, self._own = [0.0, 0.0], 0.0

    def called(
        self, alone: Callable[..., Any], shared: Callable[..., Any], *arguments: Any
    ) -> Any:
        """Call one of two functions that give the same."""
        if self._slow < SLOW_CALLS:
            began = perf_counter()
            result = alone(*arguments)
            self.took = perf_counter() - began
            self._slow = self._slow + 1 if self.took > limits.current.shared_seconds else 0
            return result
        if self._turn >= self._last:
            self._turn, self._last = 0, min(2 * self._last, LAST_CALLS)
        now, self._turn = self._turn, self._turn + 1
        if now >= 2 * TRIALS:
            return (shared if self._chosen else alone)(*arguments)
        way, trial = divmod(now, TRIALS)
        # To ask for a thread's own time takes 1 us, so only trials do.
        mine, began = thread_time(), perf_counter()
        result = (shared if way else alone)(*arguments)
        took, own = perf_counter() - began, thread_time() - mine
        self._least[way] = took if trial == 0 else min(self._least[way], took)
        if way == 0:
            self._own = own if trial == 0 else min(self._own, own)
        if trial == TRIALS - 1:
            self._chosen = int(way == 1 and self._least[1] < self._least[0])
            if way == 0 and self._own < limits.current.shared_seconds:
                # Others kept it waiting, and would keep threads waiting too.
                self._turn = 2 * TRIALS
        return result
