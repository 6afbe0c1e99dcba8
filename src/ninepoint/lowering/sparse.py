"""Sparse: what no two results have in common, where not all of them are made, is done in place.

    every second row and column               stage v = x[0, 0] + x[0, 1]
    out = v[0, 0] + v[1, 0]            ->      out = (x[0, 0] + x[0, 1]) + (x[1, 0] + x[1, 1])

The operations stay what they were, and in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..language.ir import Assign, Kernel, Offset, Read, Values
from .fusion import inlined, renumbered, unfit
from .merging import OPERATIONS, ROWS
from .schedule import Schedule


def sparse(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Compute where it is read what is read at no point twice; the kernel has its steps."""
    if not kernel.stages or unfit(kernel):
        return kernel
    named = dict(schedule.stages)
    for stage in reversed(kernel.stages):
        name = stage.names[0]
        if not isinstance(stage, Values) or name in named or not _is_read_once(kernel, stage):
            continue
        found = inlined(kernel, replace(schedule, stages=((name, "inline"),)), {name})
        if _fits(found.body):
            kernel = renumbered(found, frozenset())
    return kernel


def _is_read_once(kernel: Kernel, stage: Values) -> bool:
    """Whether each point of a stage is read for one result at most, and for nothing else."""
    if any(_offsets(other.body, stage.names) for other in kernel.stages if other is not stage):
        return False
    offsets = _offsets(kernel.body, stage.names)
    steps = kernel.every
    places = {tuple(o % k for o, k in zip(one, steps, strict=True)) for one in offsets}
    return len(places) == len(offsets)


def _offsets(body: Iterable[Assign], names: tuple[str, ...]) -> set[Offset]:
    reads = (assign.value for assign in body if isinstance(assign.value, Read))
    return {read.offset for read in reads if read.field in names}


def _fits(body: tuple[Assign, ...]) -> bool:
    """Whether one row function can do it."""
    reads = [assign.value for assign in body if isinstance(assign.value, Read)]
    rows = {(read.field, read.offset[:-1]) for read in reads}
    return len(body) <= 2 * OPERATIONS and len(rows) <= ROWS
