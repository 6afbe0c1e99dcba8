"""Calls that are shared among threads or not, by how long they took."""

from __future__ import annotations

import time

import pytest

from ninepoint.arrays.trials import FIRST_CALLS, LAST_CALLS, SLOW_CALLS, TRIALS, Choice

# What is long here [s]: to sleep keeps a thread busy for some microseconds.
SHARED = 200e-6


@pytest.fixture(autouse=True)
def long(limited):
    limited(shared_seconds=SHARED)


class Way:
    """Counts calls, and keeps its thread busy or waits for so long [s]."""

    def __init__(self, busy: float = 0.0, waiting: float = 0.0) -> None:
        self.busy, self.waiting, self.count = busy, waiting, 0

    def __call__(self) -> Way:
        self.count += 1
        time.sleep(self.waiting)
        end = time.thread_time() + self.busy
        while time.thread_time() < end:
            pass
        return self


def made(choice: Choice, alone: Way, shared: Way, count: int) -> None:
    for _ in range(count):
        assert choice.called(alone, shared) in (alone, shared)


def test_what_waits_for_others_is_never_shared():
    choice, alone, shared = Choice(), Way(waiting=20 * SHARED), Way()
    made(choice, alone, shared, SLOW_CALLS + 3 * (2 * TRIALS + FIRST_CALLS))
    assert shared.count == 0


def test_what_is_busy_is_shared_where_that_is_faster():
    choice, alone, shared = Choice(), Way(busy=20 * SHARED), Way()
    made(choice, alone, shared, SLOW_CALLS + TRIALS)
    assert (alone.count, shared.count) == (SLOW_CALLS + TRIALS, 0)
    made(choice, alone, shared, TRIALS + FIRST_CALLS)
    assert (alone.count, shared.count) == (SLOW_CALLS + TRIALS, TRIALS + FIRST_CALLS)


@pytest.mark.parametrize("slow", [{"busy": 0.01}, {"waiting": 0.01}])
def test_calls_come_back_from_threads_that_become_slow(slow):
    choice, alone, shared = Choice(), Way(busy=5 * SHARED), Way()
    made(choice, alone, shared, SLOW_CALLS + 2 * TRIALS + FIRST_CALLS)
    shared.busy, shared.waiting = slow.get("busy", 0.0), slow.get("waiting", 0.0)
    made(choice, alone, shared, 2 * TRIALS)
    before = shared.count
    made(choice, alone, shared, FIRST_CALLS)
    assert shared.count == before


def test_both_ways_are_tried_again_and_again():
    choice, alone, shared = Choice(), Way(busy=2 * SHARED), Way(busy=2 * SHARED)
    made(choice, alone, shared, SLOW_CALLS + 2 * LAST_CALLS)
    assert min(alone.count, shared.count) >= 4 * TRIALS
