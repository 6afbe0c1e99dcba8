"""Tuning: measure other schedules than the chosen one, and keep what is faster.

    choices     (field of the schedule, other values), one after the other
    measured    in turn with the best so far, after the results were compared to the bit

Each choice is tried with the best values of those before it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ..language.ir import RANKED, Kernel, Reduce
from ..lowering.schedule import Schedule
from .displays import bar, table, time_text

# A call by a schedule: what tells its code from others', and the call itself.
Variant: TypeAlias = Callable[[Schedule], tuple[Hashable, Callable[[], Any]]]

# Samples of a call and of the best one in turn; a sample takes at least so long [s].
_SAMPLES = 7
_SAMPLE = 2e-3

# Less than this is noise: two cores of a virtual machine differ by 2 % from run to run.
_GAIN = 0.97

# What a stage may be, and how many columns are done together.
STAGES = ("rows", "inline", "whole")
TILES = (256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Trial:
    """One schedule, and how long a call took beside the best one at that time [s]."""

    schedule: Schedule
    seconds: float
    best: float


@dataclass(frozen=True, slots=True, repr=False)
class Tuning:
    """What tuning found.

    Attributes
    ----------
    schedule : Schedule
        The fastest one.
    gain : float
        How many times faster it is than what the compiler chose.
    trials : tuple of Trial
        What was measured, in order.
    path : Path
        The file that keeps the schedule for this machine.
    """

    schedule: Schedule
    gain: float
    trials: tuple[Trial, ...]
    path: Path | None = None

    def __str__(self) -> str:
        """Tell what was tried, a line for each."""
        lines = [
            f"{_difference(one.schedule)}: {time_text(one.seconds)} against {time_text(one.best)}"
            for one in self.trials
        ]
        lines.append(f"best: {_difference(self.schedule)}, {self.gain:.2f} times as fast")
        return "\n".join(lines)

    def __repr__(self) -> str:
        # A prompt shows what print() does.
        return str(self)

    def _repr_html_(self) -> str:
        """Give a table for a notebook, with a row for each trial; the bars are times."""
        longest = max((max(one.seconds, one.best) for one in self.trials), default=1.0)
        rows = [
            (
                escape(_difference(one.schedule)),
                f"{bar(one.seconds / longest)} {time_text(one.seconds)}",
                f"the best so far {time_text(one.best)}",
            )
            for one in self.trials
        ]
        best = f"<b>{escape(_difference(self.schedule))}</b>"
        gain = f"<b>{self.gain:.2f} times as fast</b>"
        return table("What was tried", [*rows, ("best", best, gain)])


def _difference(schedule: Schedule) -> str:
    """The fields that are not the default's."""
    default = Schedule()
    names = [n for n in Schedule.__slots__ if getattr(schedule, n) != getattr(default, n)]
    return ", ".join(f"{name}={getattr(schedule, name)!r}" for name in names) or "as chosen"


# What reductions give whatever the order of their operations.
_ORDERLESS = frozenset(("min", "max", "any", "all", "argmin", "argmax", *RANKED))


def exact(kernel: Kernel) -> bool:
    """Whether the windows of a kernel give the same bits in any order of adding."""
    windows = [a.value for a in kernel.body if isinstance(a.value, Reduce)]
    return all(one.kind in _ORDERLESS or _whole(one) for one in windows)


def _whole(window: Reduce) -> bool:
    return window.kind in ("sum", "prod", "mean") and window.result.dtype.is_integer


def choices(exact: bool) -> list[list[dict[str, Any]]]:
    """What can be tried for one kernel; if it is `exact`, also what adds in another order."""
    found: list[list[dict[str, Any]]] = [
        [{"shared": 1}, {"shared": 20}, {"shared": float("inf")}],
        [{"running": False}],
    ]
    if exact:
        found += [
            [{"separable": 0.0}, {"separable": 3.0}, {"separable": float("inf")}],
            [{"direct": 4}, {"direct": 16}],
            [{"radix": 2}, {"radix": 8}],
            [{"sorted_columns": 9}],
        ]
    return found


def stage_choices(names: Sequence[str], base: Schedule) -> list[list[dict[str, Any]]]:
    """What can be tried for the stages of these names, and for tiles."""
    found: list[list[dict[str, Any]]] = [
        [{"stages": (*_others(base, name), (name, how))} for how in STAGES] for name in names
    ]
    return [*found, [{"tile": tile} for tile in TILES]]


def _others(schedule: Schedule, name: str) -> tuple[tuple[str, str], ...]:
    return tuple(one for one in schedule.stages if one[0] != name)


def search(
    base: Schedule,
    rounds: Callable[[Schedule], Sequence[list[dict[str, Any]]]],
    variant: Variant,
    limit: float,
) -> Tuning:
    """Try the choices of each round, for about `limit` seconds.

    The calls of `variant` may all write to the same arrays.
    """
    begin = perf_counter()
    best = base
    key, best_call = variant(base)
    wanted = _copied(best_call())
    seen = {key}
    trials: list[Trial] = []
    gain = 1.0
    for number, _ in enumerate(rounds(base)):
        for change in list(rounds(best))[number]:
            if perf_counter() - begin > limit:
                break
            schedule = replace(best, **change)
            key, call = variant(schedule)
            if key in seen:
                continue
            seen.add(key)
            if not _equal(call(), wanted):
                continue
            seconds, reference = _in_turn(call, best_call)
            trials.append(Trial(schedule, seconds, reference))
            if seconds < _GAIN * reference:
                best, best_call = schedule, call
                gain *= reference / seconds
    return Tuning(best, gain, tuple(trials))


def _in_turn(call: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """The medians of two calls that take turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    begin = perf_counter()
    call()
    count = max(1, round(_SAMPLE / max(perf_counter() - begin, 1e-7)))
    for sample in range(_SAMPLES):
        pairs = list(zip((call, other), taken, strict=True))
        # Each is as often the first, should what runs second find something in cache.
        for work, samples in pairs[:: 1 if sample % 2 else -1]:
            begin = perf_counter()
            for _ in range(count):
                work()
            samples.append((perf_counter() - begin) / count)
    return statistics.median(taken[0]), statistics.median(taken[1])


def _copied(result: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.array, result if isinstance(result, tuple) else (result,)))


def _equal(one: Any, other: Any) -> bool:
    """Whether two results agree to the bit."""
    ones, others = (v if isinstance(v, tuple) else (v,) for v in (one, other))
    return all(
        a.dtype == b.dtype and np.array_equal(_bits(a), _bits(b))
        for a, b in zip(ones, others, strict=True)
    )


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
