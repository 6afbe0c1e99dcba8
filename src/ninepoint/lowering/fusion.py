"""Fusion: kernels as parts of another one, under names that no other part has.

    v = (u[-1] + u[1]) / 2                stage v = (u[-1] + u[1]) / 2
    w = x[0] - v[1]               ->      out = x[0] - v[1]

The operations stay what they were, and in their order, so that no bit changes.  `chain` puts parts
together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import assert_never

from ..analysis.simplify import drop_dead
from ..language.ir import (
    Assign,
    Atom,
    Cast,
    Histogram,
    Kernel,
    Offset,
    Position,
    Read,
    Reduce,
    Ref,
    RunningSum,
    Stage,
    State,
    Values,
    of_arrays,
    renamed,
    renamed_atom,
    shifted,
)
from .cost import operation, saved_by_row
from .schedule import Schedule


@dataclass(frozen=True, slots=True)
class Part:
    """A lowered kernel, and the names that it has in the whole.

    `sources` says what its fields are: fields of the whole, or what an earlier part made.
    `made` names its outputs; `names` those of its scalars and coefficients that have others.
    """

    kernel: Kernel
    sources: Mapping[str, str]
    made: tuple[str, ...]
    names: Mapping[str, str]


def unfit(kernel: Kernel) -> str:
    """Why a kernel cannot be a part of another one; empty if it can."""
    for stage in kernel.stages:
        match stage:
            case Values():
                pass
            case Histogram():
                return "a histogram slides over a field only"
            case RunningSum():
                return "a sum runs down the rows, with the rows of the result and no faster"
            case State():
                return "it is several steps already"
            case _:
                assert_never(stage)
    for body in (kernel.body, *(stage.body for stage in kernel.stages)):
        if any(isinstance(assign.value, Reduce) for assign in body):
            return "a window is looped over at each point, in a field only"
    return ""


def parts_of(kernel: Kernel) -> tuple[Values, ...]:
    """The stages of a kernel that is fit to be a part: values kept in rows, all of them."""
    stages = tuple(stage for stage in kernel.stages if isinstance(stage, Values))
    assert len(stages) == len(kernel.stages), kernel.stages
    return stages


def positions_of(part: Part) -> dict[str, Position]:
    """The positions that a part reads, by their names in the whole."""
    kernel = part.kernel
    placed = kernel.fields[len(kernel.fields) - len(kernel.positions) :]
    pairs = zip(placed, kernel.positions, strict=True)
    return {part.sources[name]: one for (name, _), one in pairs}


class Naming:
    """Names for one part that no other part has."""

    def __init__(self, part: Part, suffix: str) -> None:
        self.part = part
        self.suffix = suffix
        self.fields = dict(part.sources) | {
            name: f"{name}{suffix}" for stage in part.kernel.stages for name in stage.names
        }
        self.scalars: dict[str, Atom] = {
            n: Ref(d, part.names[n]) for n, d in part.kernel.scalars if n in part.names
        }

    def stage(self, stage: Values) -> Values:
        """A stage of the part."""
        body, values = self.body(stage.body, stage.values)
        names = tuple(self.fields[name] for name in stage.names)
        return replace(stage, names=names, body=body, values=values)

    def body(
        self, body: tuple[Assign, ...], values: tuple[Atom, ...]
    ) -> tuple[tuple[Assign, ...], tuple[Atom, ...]]:
        """Operations of the part, and their values."""
        alias = dict(self.scalars)
        arrays = {**self.part.names, **self.fields}
        made: list[Assign] = []
        for assign in body:
            expr = of_arrays(renamed(assign.value, alias), arrays)
            name = f"{assign.name}{self.suffix}"
            alias[assign.name] = Ref(expr.dtype, name)
            made.append(Assign(name, expr))
        return tuple(made), tuple(renamed_atom(value, alias) for value in values)


def inlined(kernel: Kernel, schedule: Schedule, only: Set[str] | None = None) -> Kernel:
    """Compute again, where it is read, what costs less than writing and reading a row.

    stage v = a[0] * a[0]                 s = a[-1] * a[-1]
    out = v[-1] + v[0]          ->        t = a[0] * a[0]
                                          out = s + t

    If `only` some stages are named, the others stay.
    """
    # The parts' own names end otherwise; `renumbered` makes all of them short.
    fresh = (f"c{number}" for number in itertools.count())
    for stage in reversed(kernel.stages):
        if not isinstance(stage, Values) or (only is not None and stage.names[0] not in only):
            continue
        reads = sum(len(_offsets(body, stage.names)) for body in _bodies(kernel))
        how = dict(schedule.stages).get(stage.names[0])
        again = saved_by_row(_work(stage), reads)
        if how == "inline" or (how is None and again <= schedule.shared - 1):
            kernel = _without(kernel, stage, fresh)
    return kernel


def renumbered(kernel: Kernel, named: Set[str]) -> Kernel:
    """Short names for what has none of its own: stages but for those `named`, and operations."""
    stages: list[Stage] = []
    rows: dict[str, str] = {}
    for stage in stages_of(kernel):
        for name in stage.names:
            short = f"v{len(rows) - len(named & rows.keys())}"
            rows[name] = name if name in named else short
        names = tuple(rows[name] for name in stage.names)
        body, values = _numbered(stage.body, stage.values, f"{names[0]}_", rows)
        stages.append(replace(stage, names=names, body=body, values=values))
    body, outputs = _numbered(kernel.body, kernel.outputs, "t", rows)
    return replace(kernel, stages=tuple(stages), body=body, outputs=outputs)


def _numbered(
    body: tuple[Assign, ...], values: tuple[Atom, ...], prefix: str, rows: Mapping[str, str]
) -> tuple[tuple[Assign, ...], tuple[Atom, ...]]:
    alias: dict[str, Atom] = {}
    made: list[Assign] = []
    for assign in body:
        expr = of_arrays(renamed(assign.value, alias), rows)
        alias[assign.name] = Ref(expr.dtype, f"{prefix}{len(made)}")
        made.append(Assign(f"{prefix}{len(made)}", expr))
    return tuple(made), tuple(renamed_atom(value, alias) for value in values)


def stages_of(kernel: Kernel) -> tuple[Values | State, ...]:
    """The stages of a kernel that is made of parts."""
    stages = tuple(stage for stage in kernel.stages if isinstance(stage, Values | State))
    assert len(stages) == len(kernel.stages), kernel.stages
    return stages


def _bodies(kernel: Kernel) -> list[tuple[Assign, ...]]:
    return [*(stage.body for stage in kernel.stages), kernel.body]


def _offsets(body: tuple[Assign, ...], names: tuple[str, ...]) -> list[Offset]:
    """Where a body reads a stage."""
    found = {
        assign.value.offset
        for assign in body
        if isinstance(assign.value, Read) and assign.value.field in names
    }
    return sorted(found)


def _work(stage: Values) -> float:
    """What it costs to compute a point, loads counted as additions."""
    values = {assign.name: assign.value for assign in stage.body}
    operations = sum(operation(expr) for expr in values.values())
    return operations + sum(isinstance(expr, Read) for expr in values.values())


def _without(kernel: Kernel, stage: Values, fresh: Iterator[str]) -> Kernel:
    """The kernel with what a stage computes in the place of the reads of it."""
    stages = []
    for other in stages_of(kernel):
        if other.names != stage.names:
            body, values = _inserted(other.body, other.values, stage, fresh)
            stages.append(replace(other, body=body, values=values))
    body, outputs = _inserted(kernel.body, kernel.outputs, stage, fresh)
    return drop_dead(replace(kernel, body=body, outputs=outputs, stages=tuple(stages)))


def _inserted(
    body: tuple[Assign, ...], values: tuple[Atom, ...], stage: Values, fresh: Iterator[str]
) -> tuple[tuple[Assign, ...], tuple[Atom, ...]]:
    found: list[Assign] = []
    alias: dict[str, Atom] = {}
    copies: dict[Offset, dict[str, Atom]] = {}
    for assign in body:
        expr = renamed(assign.value, alias)
        if not isinstance(expr, Read) or expr.field not in stage.names:
            found.append(Assign(assign.name, expr))
            continue
        if expr.offset not in copies:
            own = _moved(stage, expr.offset, fresh)
            copies[expr.offset] = own[1]
            found += own[0]
        value = renamed_atom(stage.values[stage.names.index(expr.field)], copies[expr.offset])
        if value.dtype is not expr.dtype:
            found.append(Assign(assign.name, Cast(expr.dtype, value)))
        else:
            alias[assign.name] = value
    return tuple(found), tuple(renamed_atom(value, alias) for value in values)


def _moved(
    stage: Values, by: Offset, fresh: Iterator[str]
) -> tuple[list[Assign], dict[str, Atom]]:
    """The operations of a stage at another point."""
    alias: dict[str, Atom] = {}
    made: list[Assign] = []
    for assign in stage.body:
        expr = shifted(renamed(assign.value, alias), by)
        name = next(fresh)
        alias[assign.name] = Ref(expr.dtype, name)
        made.append(Assign(name, expr))
    return made, alias
