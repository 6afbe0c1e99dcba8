"""Inlining: stages that are computed again where they are read.

    stage v = a[0] * a[0]                 s = a[-1] * a[-1]
    out = v[-1] + v[0]          ->        t = a[0] * a[0]
                                          out = s + t

The operations are the same, and in their order, and so are all bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from ..analysis.rewrite import (
    Body,
    bodies,
    copied,
    drop_dead,
    in_bodies,
    reads,
    replayed,
    rows,
    simplify,
)
from ..language.ir import (
    Assign,
    Atom,
    Cast,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Stage,
    State,
    Values,
    of_arrays,
    shifted,
)
from .cost import OPERATIONS, ROWS, operation, saved_by_row
from .fusion import unfit
from .schedule import Schedule


def inlined(kernel: Kernel, schedule: Schedule, only: Set[str] | None = None) -> Kernel:
    """Compute again what costs less than writing and reading a row.

    If `only` some stages are named, the others stay.
    """
    # The parts' own names end otherwise; `renumbered` makes all of them short.
    fresh = (f"c{number}" for number in itertools.count())
    for stage in reversed(kernel.stages):
        if not isinstance(stage, Values) or (only is not None and stage.names[0] not in only):
            continue
        count = sum(len(_offsets(body, stage)) for body in bodies(kernel))
        how = dict(schedule.stages).get(stage.names[0])
        # What it costs to compute a point, loads counted as additions.
        work = sum(operation(assign.value) for assign in stage.body)
        again = saved_by_row(work + len(list(reads(stage.body))), count)
        if how == "inline" or (how is None and again <= schedule.shared - 1):
            kernel = _without(kernel, stage, fresh)
    return kernel


def _offsets(body: Body, stage: Stage) -> set[Offset]:
    """Where a body reads a stage."""
    return {read.offset for read in reads(body, stage.names)}


def _without(kernel: Kernel, stage: Values, fresh: Iterator[str]) -> Kernel:
    """The kernel with what a stage computes in the place of the reads of it."""

    def inserted(body: Body, values: tuple[Atom, ...]) -> tuple[Body, tuple[Atom, ...]]:
        made: list[Assign] = []
        copies: dict[Offset, tuple[Atom, ...]] = {}

        def emit(name: str, expr: Expr) -> Atom:
            if isinstance(expr, Read) and expr.field in stage.names:
                at = expr.offset
                if at not in copies:
                    own, copies[at] = copied(
                        stage.body, stage.values, lambda *_: next(fresh), lambda e: shifted(e, at)
                    )
                    made.extend(own)
                value = copies[at][stage.names.index(expr.field)]
                if value.dtype is expr.dtype:
                    return value
                expr = Cast(expr.dtype, value)
            made.append(Assign(name, expr))
            return Ref(expr.dtype, name)

        values = replayed(body, values, emit)
        return tuple(made), values

    stages = tuple(other for other in kernel.stages if other.names != stage.names)
    return drop_dead(in_bodies(replace(kernel, stages=stages), inserted))


def renumbered(kernel: Kernel, named: Set[str]) -> Kernel:
    """Short names for what has none of its own: stages but for those `named`, and operations."""
    stages: list[Stage] = []
    arrays: dict[str, str] = {}
    for stage in kernel.stages:
        assert isinstance(stage, Values | State), stage
        for name in stage.names:
            short = f"v{len(arrays) - len(named & arrays.keys())}"
            arrays[name] = name if name in named else short
        names = tuple(arrays[name] for name in stage.names)
        body, values = _numbered(stage.body, stage.values, f"{names[0]}_", arrays)
        stages.append(replace(stage, names=names, body=body, values=values))
    body, outputs = _numbered(kernel.body, kernel.outputs, "t", arrays)
    return replace(kernel, stages=tuple(stages), body=body, outputs=outputs)


def _numbered(
    body: Body, values: tuple[Atom, ...], prefix: str, arrays: Mapping[str, str]
) -> tuple[Body, tuple[Atom, ...]]:
    return copied(body, values, lambda _, k: f"{prefix}{k}", lambda expr: of_arrays(expr, arrays))


def sparse(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Compute where it is read what is read at no point twice, where not all points are made.

    every second row and column               stage v = x[0, 0] + x[0, 1]
    out = v[0, 0] + v[1, 0]            ->      out = (x[0, 0] + x[0, 1]) + (x[1, 0] + x[1, 1])
    """
    if not kernel.stages or unfit(kernel):
        return kernel
    chosen = dict(schedule.stages)
    for stage in reversed(kernel.stages):
        name = stage.names[0]
        if not isinstance(stage, Values) or name in chosen or not _is_read_once(kernel, stage):
            continue
        found = inlined(kernel, replace(schedule, stages=((name, "inline"),)), {name})
        # One row function can do it.
        if len(found.body) <= 2 * OPERATIONS and len(rows(found.body)) <= ROWS:
            kernel = renumbered(found, frozenset())
    return kernel


def _is_read_once(kernel: Kernel, stage: Values) -> bool:
    """Whether each point of a stage is read for one result at most, and for nothing else."""
    if any(_offsets(other.body, stage) for other in kernel.stages):
        return False
    offsets = _offsets(kernel.body, stage)
    steps = kernel.every
    places = {tuple(o % k for o, k in zip(one, steps, strict=True)) for one in offsets}
    return len(places) == len(offsets)


def flattened(kernel: Kernel, most: int) -> Kernel | None:
    """The kernel in one piece, if that takes no more than so many operations for each point.

    None where it takes more, or where a stage is no plain value.  Where a thread has little memory
    of its own, and much time, that is often less work than to write a stage and to read it.
    """
    fresh = (f"c{number}" for number in itertools.count())
    for stage in reversed(kernel.stages):
        if not isinstance(stage, Values) or any(isinstance(a.value, Reduce) for a in stage.body):
            return None
        kernel = simplify(_without(kernel, stage, fresh))
        if len(kernel.body) > most:
            return None
    return renumbered(kernel, frozenset()) if len(kernel.body) <= most else None
