"""Sharing: what neighbours compute as well is computed once and kept.

    g = abs(x[0, 1] - x[0, -1])               v = abs(x[0, 1] - x[0, -1])
    h = abs(x[0, 2] - x[0, 0])        ->      out = v[0, 0] + v[0, 1] + v[1, 0]
    k = abs(x[1, 1] - x[1, -1])
    out = g + h + k

Two operations are of one class when they are the same but for a shift of every offset along
the last two axes.  A class that is met at several shifts becomes a stage, if what is saved is
more than what it costs to write and read a row.  The operations themselves do not change, so
that neither does any bit of the result.

At last what all rows have is made once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Set
from dataclasses import replace
from functools import partial
from itertools import count

from ..analysis.rewrite import Body, along_rows, copied, drop_dead, in_bodies
from ..language.ir import (
    Assign,
    Atom,
    Carried,
    DType,
    Expr,
    Kernel,
    Noting,
    Offset,
    Read,
    Reduce,
    Ref,
    Stage,
    Values,
    added,
    named,
    needed,
    operands,
    renamed,
    shifted,
)
from .cost import operation, saved_by_row
from .schedule import Schedule


def shared(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Keep what is computed at several shifts, the most rewarding class first."""
    while True:
        saved, members = best(kernel)
        if saved <= schedule.shared - 1:
            return kernel
        kernel = _kept(kernel, members)


def best(kernel: Kernel) -> tuple[float, Mapping[str, Offset]]:
    """How many operations a point the best class saves, were it kept, and its members' shifts."""
    found: list[tuple[float, Mapping[str, Offset]]] = [(-math.inf, {})]
    for members in _classes(kernel):
        places = len(set(members.values()))
        if places > 1:
            cone = needed(kernel.body, [Ref(DType.BOOL, next(iter(members)))])
            computed = sum(operation(one.value) for one in cone)
            found.append((saved_by_row(computed, places), members))
    return max(found, key=lambda one: one[0])


def _classes(kernel: Kernel) -> Collection[dict[str, Offset]]:
    """The shifts of what is the same but for them, by the names."""
    scalars = {name for name, _ in kernel.scalars}
    numbers: dict[Expr, int] = {}
    place: dict[str, tuple[int, Offset]] = {}
    found: dict[int, dict[str, Offset]] = {}
    for assign in kernel.body:
        known = _class(assign.value, place, scalars)
        if known is None:
            continue
        key, shift = known
        number = numbers.setdefault(key, len(numbers))
        place[assign.name] = number, shift
        if not isinstance(assign.value, Read):
            found.setdefault(number, {})[assign.name] = shift
    return found.values()


def _class(
    expr: Expr, place: Mapping[str, tuple[int, Offset]], scalars: Set[str]
) -> tuple[Expr, Offset] | None:
    """What an operation is but for its shift, and the shift; None if it has none."""
    if isinstance(expr, Read):
        return replace(expr, offset=expr.offset[:-2]), along_rows(expr.offset)
    if isinstance(expr, Reduce | Noting | Carried):
        return None
    used = [name for name in operands(expr) if name not in scalars]
    if not used or not all(name in place for name in used):
        return None
    base = place[used[0]][1]
    back = tuple(-step for step in base)
    alias: dict[str, Atom] = {}
    for name in used:
        number, shift = place[name]
        alias[name] = Ref(DType.BOOL, f"{number} {added(shift, back)}")
    return renamed(expr, alias), base


def _kept(kernel: Kernel, members: Mapping[str, Offset]) -> Kernel:
    """Make a stage of a class, moved to the point itself, and read it where its members were."""
    name = f"v{sum(len(stage.names) for stage in kernel.stages)}"
    first, shift = next(iter(members.items()))
    back = tuple(-step for step in shift)
    own = Ref(named(kernel.body)[first].dtype, first)
    cone = needed(kernel.body, [own])
    stage = copied(cone, [own], partial(_numbered, name), lambda expr: shifted(expr, back))
    body = tuple(
        Assign(a.name, Read(a.value.dtype, name, members[a.name])) if a.name in members else a
        for a in kernel.body
    )
    return drop_dead(replace(kernel, body=body, stages=(*kernel.stages, Values((name,), *stage))))


def hoisted(kernel: Kernel) -> Kernel:
    """The kernel, in which is kept what depends on nothing but the place along a row.

    t1 = cos t0, of index1      ->      stage v0 = cos of index1, whose one row serves all rows
    """
    columns = {name for name, one in kernel.placed if one.axis == kernel.ndim - 1 > 0}
    names = (f"v{k}" for k in count(sum(len(stage.names) for stage in kernel.stages)))
    made: list[Stage] = []

    def kept(body: Body, values: tuple[Atom, ...]) -> tuple[Body, tuple[Atom, ...]]:
        alike: set[str] = set()
        own = {assign.name for assign in body}
        used = {atom.name for atom in values if isinstance(atom, Ref)}
        for name, expr in named(body).items():
            parts = own.intersection(operands(expr))
            if isinstance(expr, Read):
                same = expr.field in columns
            else:
                same = bool(parts) and parts <= alike
                same = same and not isinstance(expr, Reduce | Noting | Carried)
            if same:
                alike.add(name)
            else:
                used |= parts
        reads: dict[str, Expr] = {}
        for name, expr in named(body).items():
            if name in alike & used and not isinstance(expr, Read):
                value, stage = Ref(expr.dtype, name), next(names)
                cone = copied(needed(body, [value]), [value], partial(_numbered, stage))
                made.append(Values((stage,), *cone))
                reads[name] = Read(expr.dtype, stage, (0,) * kernel.ndim)
        body = tuple(Assign(a.name, reads.get(a.name, a.value)) for a in body)
        return needed(body, values), values

    if not columns:
        return kernel
    changed = in_bodies(kernel, kept)
    return replace(changed, stages=(*made, *changed.stages))


def _numbered(stage: str, _: str, k: int) -> str:
    """The name of an operation of a stage."""
    return f"{stage}_{k}"
