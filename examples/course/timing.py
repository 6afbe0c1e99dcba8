"""Times of calls that do the same work, one beside the other."""

from collections.abc import Callable
from time import perf_counter
from typing import Any


def measured(**calls: Callable[[], Any]) -> dict[str, float]:
    """Find the shortest time of each call, in seconds.

    The calls take turns, so that what else the machine does disturbs all of them.  The first
    turn is not counted: functions are compiled in it.
    """
    shortest = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    begun, turns = perf_counter(), 0
    while turns < 5 or (perf_counter() - begun < 0.1 and turns < 2000):
        for name, call in calls.items():
            start = perf_counter()
            call()
            shortest[name] = min(shortest[name], perf_counter() - start)
        turns += 1
    return shortest


def show(times: dict[str, float]) -> None:
    """Print times, and how they compare with the first."""
    first = next(iter(times.values()))
    for name, seconds in times.items():
        words = f"{name.replace('_', ' '):24s} {1e3 * seconds:10.4f} ms"
        print(words if seconds is first else f"{words}   {first / seconds:7.2f} x")


def compare(**calls: Callable[[], Any]) -> None:
    """Measure calls, and print their times."""
    show(measured(**calls))
