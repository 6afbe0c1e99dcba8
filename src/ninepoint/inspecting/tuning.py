"""Tuning of a stencil: what can be tried for it, and what is kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from ..definition import Definition
from ..lowering.schedule import Schedule
from .asked import Asked
from .search import Tuning, choices, exact, search, stage_choices


def tuned(
    one: Asked,
    variant: Callable[[Definition], Callable[[], Any]],
    seconds: float,
) -> Tuning:
    """Measure other schedules, and keep the fastest; `variant` is the call by a definition."""

    def tried(schedule: Schedule) -> tuple[Hashable, Callable[[], Any]]:
        other = one.call.definition.with_schedule(one.types, schedule)
        call = replace(one.call, definition=other)
        return _code(replace(one, call=call)), variant(other)

    found = search(Schedule(), functools.partial(_choices, one), tried, seconds)
    path = one.call.definition.tune(one.types, found.schedule)
    return replace(found, path=path)


def _choices(one: Asked, base: Schedule) -> list[list[dict[str, Any]]]:
    """What can be tried."""
    if one.is_single:
        forms, _ = one.forms
        return [] if forms is None else choices(exact(forms.stored))
    names = [node.label for group in one.plan.groups for node in group.nodes[:-1]]
    return stage_choices([*one.plan.whole, *names], base)


def _code(one: Asked) -> Hashable:
    """What is compiled for a call."""
    together = any(len(group.nodes) > 1 for group in one.plan.groups)
    schedule = one.call.definition.schedule_for(one.types)
    return tuple(kernel.module.text for kernel in one.kernels), together and schedule.tile
