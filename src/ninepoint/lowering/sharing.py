"""Sharing: what neighbours compute as well is computed once and kept.

    g = abs(x[0, 1] - x[0, -1])               v = abs(x[0, 1] - x[0, -1])
    h = abs(x[0, 2] - x[0, 0])        ->      out = v[0, 0] + v[0, 1] + v[1, 0]
    k = abs(x[1, 1] - x[1, -1])
    out = g + h + k

Two operations are of one class when they are the same but for a shift of every offset along
the last two axes.  A class that is met at several shifts becomes a stage, if what is saved is
more than what it costs to write and read a row.  The operations themselves do not change, so
that neither does any bit of the result.

Before that, differences are taken in one order; at last what all rows have is made once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Set
from dataclasses import replace
from itertools import count

from ..analysis.rewrite import Body, along_rows, copied, drop_dead, in_bodies, uncast
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Carried,
    Cast,
    Const,
    DType,
    Expr,
    Kernel,
    Noting,
    Offset,
    Read,
    Reduce,
    Ref,
    Stage,
    Unary,
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


def evened(kernel: Kernel) -> Kernel:
    """The kernel, in which a difference whose sign nobody asks for is taken in one order.

    t2 = x[0, -1] - x[0, 0];  t3 = t2 * t2      ->      t2 = x[0, 0] - x[0, -1];  t3 = t2 * t2

    The other order gives the same square to the bit.  With one order, what a point makes of a
    neighbour is what that neighbour makes of the point, and can be shared: a bilateral filter of
    5 x 5 needs 12 exponentials in the place of 24.
    """
    values = named(kernel.body)
    # The difference of which a value has the sign, or the opposite one.
    roots: dict[str, str] = {}
    asked = {atom.name for atom in kernel.outputs if isinstance(atom, Ref)}
    for name, expr in values.items():
        used = [roots[one] for one in operands(expr) if one in roots]
        if _turns(expr, values):
            roots[name] = name
        elif len(used) == 1 and _keeps_sign(expr):
            roots[name] = used[0]
            continue
        if not _is_even(expr, used):
            asked.update(used)
    asked = {roots.get(name, name) for name in asked}
    body = tuple(
        Assign(name, replace(expr, left=expr.right, right=expr.left))
        if isinstance(expr, Binary) and roots.get(name) == name and name not in asked
        else Assign(name, expr)
        for name, expr in values.items()
    )
    return replace(kernel, body=body)


def _turns(expr: Expr, values: Mapping[str, Expr]) -> bool:
    """Whether an expression is an element minus a later one of the same field."""
    if not isinstance(expr, Binary) or expr.op != "-":
        return False
    if not expr.dtype.is_float and expr.dtype is not DType.INT:
        return False
    # Elements may be given another type.
    left, right = uncast(expr.left, values), uncast(expr.right, values)
    if not isinstance(left, Read) or not isinstance(right, Read):
        return False
    return left.field == right.field and left.offset < right.offset


def _keeps_sign(expr: Expr) -> bool:
    """Whether a value changes its sign, and nothing else, as an operand does."""
    match expr:
        case Unary(op="-"):
            return True
        case Cast(dtype=dtype, storage=storage):
            return dtype.is_float and not storage
        case Binary(op="*" | "/", dtype=dtype, left=left, right=right):
            return dtype.is_float and (isinstance(left, Const) or isinstance(right, Const))
        case _:
            return False


def _is_even(expr: Expr, used: list[str]) -> bool:
    """Whether a value stays if all of its operands, which have one sign, change theirs."""
    match expr:
        case Unary(op="abs"):
            return True
        case Binary(op="*"):
            return len(used) == 2 and used[0] == used[1]
        case _:
            return not used


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
    stage = copied(cone, [own], lambda _, k: f"{name}_{k}", lambda expr: shifted(expr, back))
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
        alike, used = _alike(body, columns)
        used.update(atom.name for atom in values if isinstance(atom, Ref))
        reads: dict[str, Expr] = {}
        for name, expr in named(body).items():
            if name in alike & used and not isinstance(expr, Read):
                own, stage = Ref(expr.dtype, name), next(names)
                cone = copied(needed(body, [own]), [own], lambda _, k, v=stage: f"{v}_{k}")
                made.append(Values((stage,), *cone))
                reads[name] = Read(expr.dtype, stage, (0,) * kernel.ndim)
        body = tuple(Assign(a.name, reads.get(a.name, a.value)) for a in body)
        return needed(body, values), values

    if not columns:
        return kernel
    changed = in_bodies(kernel, kept)
    return replace(changed, stages=(*made, *changed.stages))


def _alike(body: Body, columns: Set[str]) -> tuple[Set[str], set[str]]:
    """What depends on these fields alone, and on scalars, and what all else uses."""
    alike: set[str] = set()
    used: set[str] = set()
    made = {one.name for one in body}
    for assign in body:
        value, names = assign.value, operands(assign.value)
        if isinstance(value, Read):
            own = value.field in columns
        elif isinstance(value, Reduce | Noting | Carried) or not alike.intersection(names):
            own = False
        else:
            own = all(name in alike or name not in made for name in names)
        if own:
            alike.add(assign.name)
        else:
            used.update(names)
    return alike, used
