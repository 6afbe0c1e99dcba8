"""Tuning: measure other schedules than the chosen one, and keep what is faster.

    choices     other values of fields of the schedule, one after the other
    measured    in turn with the best so far, after the results were compared to the bit

Each choice is tried with the best values of those before it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ..arrays.accepted import listed
from ..base.frozen import frozen
from ..language.ir import RANKED, Kernel, Reduce
from ..language.signature import table, time_text
from ..lowering.schedule import Schedule
from ..program.definition import Definition
from .asked import Asked
from .measuring import in_turn

# A call by a schedule: what tells its code from others', and the call itself.
Variant: TypeAlias = Callable[[Schedule], tuple[Hashable, Callable[[], Any]]]

# Samples of a call and of the best one in turn.
_SAMPLES = 7

# Less than this is noise: two cores of a virtual machine differ by 2 % from run to run.
_GAIN = 0.97


@frozen
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

    @property
    def _facts(self) -> list[tuple[str, str]]:
        """What was tried, with how long it took."""
        facts = [
            (_difference(one.schedule), f"{time_text(one.seconds)} against {time_text(one.best)}")
            for one in self.trials
        ]
        best = f"{_difference(self.schedule)}, {self.gain:.2f} times as fast"
        return [*facts, ("best", best)]

    def __str__(self) -> str:
        """Tell what was tried, a line for each."""
        return "\n".join(map(": ".join, self._facts))

    # A prompt shows what print() does.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Give a table for a notebook, with a row for each trial."""
        return table("What was tried", self._facts)


def _difference(schedule: Schedule) -> str:
    """The fields that are not the default's."""
    default = asdict(Schedule())
    names = [name for name, value in asdict(schedule).items() if value != default[name]]
    return ", ".join(f"{name}={getattr(schedule, name)!r}" for name in names) or "as chosen"


def tuned(
    one: Asked,
    variant: Callable[[Definition], Callable[[], Any]],
    seconds: float,
) -> Tuning:
    """Measure other schedules, and keep the fastest; `variant` is the call by a definition."""

    def tried(schedule: Schedule) -> tuple[Hashable, Callable[[], Any]]:
        definition = one.call.definition.with_schedule(one.types, schedule)
        other = replace(one, call=replace(one.call, definition=definition))
        together = any(len(group.nodes) > 1 for group in other.plan.groups)
        code = tuple(kernel.module.text for kernel in other.kernels)
        return (code, together and schedule.tile), variant(definition)

    found = search(Schedule(), _choices(one), tried, seconds)
    path = one.call.definition.tune(one.types, found.schedule)
    return replace(found, path=path)


def _choices(one: Asked) -> list[dict[str, Any]]:
    """What can be tried: other values of fields of a schedule."""
    if not one.is_single:
        names = [node.label for group in one.plan.groups for node in group.nodes[:-1]]
        return [
            *(
                {"stages": ((name, how),)}
                for name in (*one.plan.whole, *names)
                for how in ("rows", "inline", "whole")
            ),
            *({"tile": columns} for columns in (256, 512, 1024, 2048, 4096)),
        ]
    forms = one.last.compiled.forms
    if forms is None:
        return []
    values: dict[str, Sequence[Any]] = {"shared": (1, 20, math.inf)}
    if _any_order(forms.stored):
        values |= {
            "direct": (4, 16),
            "radix": (2, 8),
            "sorted_columns": (9,),
        }
    return [{name: value} for name, some in values.items() for value in some]


# What reductions give whatever the order of their operations.
_ORDERLESS = frozenset(("min", "max", "any", "all", "argmin", "argmax", *RANKED))


def _any_order(kernel: Kernel) -> bool:
    """Whether the windows of a kernel give the same bits in any order of adding."""
    windows = [a.value for a in kernel.body if isinstance(a.value, Reduce)]
    added = [one for one in windows if one.kind not in _ORDERLESS]
    return all(x.kind in ("sum", "prod", "mean") and x.result.dtype.is_integer for x in added)


def search(
    base: Schedule, choices: Sequence[dict[str, Any]], variant: Variant, limit: float
) -> Tuning:
    """Try each choice, for about `limit` seconds.

    The calls of `variant` may all write to the same arrays.
    """
    begin = perf_counter()
    best = base
    key, best_call = variant(base)
    wanted = _bits(best_call())
    seen = {key}
    trials: list[Trial] = []
    gain = 1.0
    for choice in choices:
        if perf_counter() - begin > limit:
            break
        # What it says of other stages stays.
        stages = dict(best.stages) | dict(choice.get("stages", ()))
        schedule = replace(best, **choice | {"stages": tuple(stages.items())})
        key, call = variant(schedule)
        if key in seen:
            continue
        seen.add(key)
        if _bits(call()) != wanted:
            continue
        seconds, reference = map(statistics.median, in_turn(call, best_call, _SAMPLES))
        trials.append(Trial(schedule, seconds, reference))
        if seconds < _GAIN * reference:
            best, best_call = schedule, call
            gain *= reference / seconds
    return Tuning(best, gain, tuple(trials))


def _bits(result: Any) -> list[tuple[np.dtype, bytes]]:
    """All bits of results."""
    return [(one.dtype, np.asarray(one).tobytes()) for one in listed(result)]
