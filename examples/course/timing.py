"""Times of calls that do the same work, one beside the other."""

from collections.abc import Callable
from time import perf_counter
from timeit import timeit
from typing import Any


def measured(**calls: Callable[[], Any]) -> dict[str, float]:
    """Find the shortest time of each call, in seconds.

    The calls take turns, so that what else the machine does disturbs all of them.  The first
    turn is not counted: functions are compiled in it.
    """
    begun, turns = perf_counter(), []
    while len(turns) < 6 or (perf_counter() - begun < 0.1 and len(turns) < 2000):
        turns.append({name: timeit(call, number=1) for name, call in calls.items()})
    return {name: min(turn[name] for turn in turns[1:]) for name in calls}


def show(times: dict[str, float]) -> None:
    """Print times, and how they compare with the first."""
    first = next(iter(times.values()))
    for name, seconds in times.items():
        words = f"{name.replace('_', ' '):24s} {1e3 * seconds:10.4f} ms"
        print(words if seconds is first else f"{words}   {first / seconds:7.2f} x")


def compare(**calls: Callable[[], Any]) -> None:
    """Measure calls, and print their times."""
    show(measured(**calls))
