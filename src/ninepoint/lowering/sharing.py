"""Sharing: what neighbours compute as well is computed once and kept.

    g = abs(x[0, 1] - x[0, -1])               v = abs(x[0, 1] - x[0, -1])
    h = abs(x[0, 2] - x[0, 0])        ->      out = v[0, 0] + v[0, 1] + v[1, 0]
    k = abs(x[1, 1] - x[1, -1])
    out = g + h + k

Two operations are of one class when they are the same but for a shift of every offset along
the last two axes.  A class that is met at several shifts becomes a stage, if what is saved is
more than what it costs to write and read a row.  The operations themselves do not change, so
that neither does any bit of the result.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Set
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..analysis.simplify import drop_dead
from ..language.ir import (
    Assign,
    Atom,
    Carried,
    Expr,
    Kernel,
    Noting,
    Offset,
    Read,
    Reduce,
    Ref,
    Values,
    atoms,
    renamed,
    shifted,
)
from .cost import operation, saved_by_row
from .schedule import Schedule

Shift: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    shift: Shift


def shared(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Keep what is computed at several shifts, the most rewarding class first."""
    while True:
        found = _best(kernel, schedule.shared)
        if found is None:
            return kernel
        kernel = _kept(kernel, found)


def _best(kernel: Kernel, least: float) -> list[_Member] | None:
    """The members of the class that is most worth keeping."""
    saved, members = _most(kernel)
    return members if saved > least - 1 else None


def saving(kernel: Kernel) -> float:
    """How many operations a point the best class would save, were it kept; 0 if none would."""
    return max(0, _most(kernel)[0])


def _most(kernel: Kernel) -> tuple[float, list[_Member] | None]:
    """The class that saves most operations for each point, and how many."""
    values = {assign.name: assign.value for assign in kernel.body}
    best: list[_Member] | None = None
    most = -math.inf
    for members in _classes(kernel).values():
        shifts = {member.shift for member in members}
        if len(shifts) < 2:
            continue
        saved = saved_by_row(_cost(members[0].name, values), len(shifts))
        if saved > most:
            best, most = members, saved
    return most, best


def _classes(kernel: Kernel) -> dict[int, list[_Member]]:
    scalars = {name for name, _ in kernel.scalars}
    numbers: dict[Hashable, int] = {}
    place: dict[str, tuple[int, Shift]] = {}
    found: dict[int, list[_Member]] = {}
    for assign in kernel.body:
        known = _class(assign.value, place, scalars)
        if known is None:
            continue
        key, shift = known
        number = numbers.setdefault(key, len(numbers))
        place[assign.name] = number, shift
        if not isinstance(assign.value, Read):
            found.setdefault(number, []).append(_Member(assign.name, shift))
    return found


def _class(
    expr: Expr, place: dict[str, tuple[int, Shift]], scalars: Set[str]
) -> tuple[Hashable, Shift] | None:
    """What an operation is but for its shift, and the shift; None if it has none."""
    if isinstance(expr, Read):
        shift = _last_two(expr.offset)
        return ("read", expr.dtype, expr.field, expr.offset[:-2]), shift
    if isinstance(expr, Reduce | Noting | Carried):
        return None
    operands = atoms(expr)
    base = next(
        (place[a.name][1] for a in operands if isinstance(a, Ref) and a.name in place), None
    )
    if base is None:
        return None
    parts: list[Hashable] = []
    for atom in operands:
        if isinstance(atom, Ref) and atom.name in place:
            number, shift = place[atom.name]
            parts.append((number, shift[0] - base[0], shift[1] - base[1]))
        elif isinstance(atom, Ref) and atom.name not in scalars:
            return None  # an operation that has no class
        else:
            parts.append(atom)
    blank = renamed(expr, {a.name: Ref(a.dtype, "") for a in operands if isinstance(a, Ref)})
    return (blank, tuple(parts)), base


def _cost(name: str, values: dict[str, Expr]) -> float:
    """What the operations that `name` depends on cost, reads not counted."""
    total, pending, seen = 0.0, [name], set[str]()
    while pending:
        one = pending.pop()
        if one in seen or one not in values:
            continue
        seen.add(one)
        total += operation(values[one])
        pending += [a.name for a in atoms(values[one]) if isinstance(a, Ref)]
    return total


def _kept(kernel: Kernel, members: list[_Member]) -> Kernel:
    """Make a stage of a class, and read it where its members were."""
    first = members[0]
    stage_name = f"v{sum(len(stage.names) for stage in kernel.stages)}"
    stage = _stage(kernel, first, stage_name)
    shifts = {member.name: member.shift for member in members}
    body: list[Assign] = []
    for assign in kernel.body:
        if assign.name in shifts:
            offset = _offset((0,) * kernel.ndim, shifts[assign.name], 1)
            body.append(Assign(assign.name, Read(assign.value.dtype, stage_name, offset)))
        else:
            body.append(assign)
    return drop_dead(replace(kernel, body=tuple(body), stages=(*kernel.stages, stage)))


def _stage(kernel: Kernel, member: _Member, name: str) -> Values:
    """The operations of a member, moved to the point itself."""
    needed = {member.name}
    kept: list[Assign] = []
    for assign in reversed(kernel.body):
        if assign.name in needed:
            kept.append(assign)
            needed.update(a.name for a in atoms(assign.value) if isinstance(a, Ref))
    alias: dict[str, Atom] = {}
    body: list[Assign] = []
    by = _offset((0,) * kernel.ndim, member.shift, -1)
    for k, assign in enumerate(reversed(kept)):
        expr = shifted(renamed(assign.value, alias), by)
        body.append(Assign(f"{name}_{k}", expr))
        alias[assign.name] = Ref(expr.dtype, f"{name}_{k}")
    return Values((name,), tuple(body), (alias[member.name],))


def _last_two(offset: Offset) -> Shift:
    return (offset[-2] if len(offset) > 1 else 0, offset[-1])


def _offset(offset: Offset, shift: Shift, sign: int) -> Offset:
    """The offset moved by a shift along the last two axes."""
    moved = list(offset)
    moved[-1] += sign * shift[1]
    if len(moved) > 1:
        moved[-2] += sign * shift[0]
    return tuple(moved)
