"""Sharing and fusion: what neighbours compute too is kept, or computed again where it is read.

    g = abs(x[0, 1] - x[0, -1])               v = abs(x[0, 1] - x[0, -1])
    h = abs(x[0, 2] - x[0, 0])        ->      out = v[0, 0] + v[0, 1] + v[1, 0]
    k = abs(x[1, 1] - x[1, -1])
    out = g + h + k

Two operations are of one class when they are the same but for a shift of every offset along
the last two axes.  A class that is met at several shifts becomes a stage, if what is saved is
more than what it costs to write and read a row.  Before that, differences are taken in one order;
at last what all rows have is made once.

    stage v = a[0] * a[0]                     s = a[-1] * a[-1]
    out = v[-1] + v[0]                ->      t = a[0] * a[0]
                                              out = s + t

The operations stay what they were, and in their order, so that no bit changes.  `chain` puts
kernels together, under names that no other has.  What the compiler names by number ends in a
digit: t0, v0_3, and so do the copies that it makes of what a user has named: u__0, r__2.  A name
of the user's ends in an underscore.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Set
from dataclasses import replace

from ..analysis.rewrite import (
    along_rows,
    bodies,
    copied,
    drop_dead,
    in_bodies,
    reads,
    simplify,
    uncast,
)
from ..language.ir import (
    Assign,
    Atom,
    Atoms,
    Binary,
    Body,
    Carried,
    Cast,
    DType,
    Element,
    Expr,
    Gather,
    Kernel,
    Named,
    Noting,
    Offset,
    Read,
    Reduce,
    Ref,
    Unary,
    Values,
    added,
    deeply,
    made_as,
    named,
    names_of,
    needed,
    operands,
    renamed,
    replayed,
    shifted,
)
from .schedule import Request, Schedule, operation, saved_by_row


def evened(kernel: Kernel, _: Request) -> Kernel:
    """The kernel, in which a difference whose sign nobody asks for is taken in one order.

    t2 = x[0, -1] - x[0, 0];  t3 = t2 * t2      ->      t2 = x[0, 0] - x[0, -1];  t3 = t2 * t2

    The other order gives the same square to the bit.  With one order, what a point makes of a
    neighbour is what that neighbour makes of the point, and can be shared: a bilateral filter of
    5 x 5 needs 12 exponentials in the place of 24.
    """
    values = named(kernel.body)
    asked = {*names_of(kernel.outputs)}
    for name, expr in reversed(values.items()):
        # Who asks for the sign of a value asks for that of what it is the opposite of.
        if not _is_even(expr, values) and (name in asked or _opposite(expr) is None):
            asked.update(operands(expr))
    body = tuple(
        Assign(name, replace(expr, left=expr.right, right=expr.left))
        if isinstance(expr, Binary) and name not in asked and _turns(expr, values)
        else Assign(name, expr)
        for name, expr in values.items()
    )
    return replace(kernel, body=body)


def _turns(expr: Binary, values: Named) -> bool:
    """Whether an operation is an element minus a later one of the same field."""
    if expr.op != "-" or not (expr.dtype.is_float or expr.dtype is DType.INT):
        return False
    # Elements may be given another type.
    left, right = uncast(expr.left, values), uncast(expr.right, values)
    if not isinstance(left, Read) or not isinstance(right, Read):
        return False
    return left.field == right.field and left.offset < right.offset


def _opposite(expr: Expr | None) -> Atom | None:
    """What an expression is the opposite of."""
    return expr.arg if isinstance(expr, Unary) and expr.op == "-" else None


def _is_even(expr: Expr, values: Named) -> bool:
    """Whether a value stays if its operands change their signs."""
    match expr:
        case Unary(op="abs"):
            return True
        case Binary(op="*", left=left, right=right):
            first, last = (_opposite(made_as(one, values)) or one for one in (left, right))
            return first == last
        case _:
            return False


def shared(kernel: Kernel, request: Request) -> Kernel:
    """Keep what is computed at several shifts, the most rewarding class first."""
    while members := max(_classes(kernel), key=lambda one: _saved(kernel, one), default=None):
        if _saved(kernel, members) <= request.schedule.shared - 1:
            break
        kernel = _kept(kernel, members)
    return kernel


def _saved(kernel: Kernel, members: Mapping[str, Offset]) -> float:
    """How many operations a point a class saves, were it kept, whose members have such shifts."""
    cone = needed(kernel.body, [Ref(DType.BOOL, next(iter(members)))])
    computed = sum(operation(one.value) for one in cone)
    return saved_by_row(computed, len(set(members.values())))


def _classes(kernel: Kernel) -> Collection[dict[str, Offset]]:
    """The shifts of what is the same but for them, by the names."""
    scalars = {name for name, _ in kernel.scalars}
    numbers = dict[Expr, int]()
    place = dict[str, tuple[int, Offset]]()
    found = dict[int, dict[str, Offset]]()
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
    alias = dict[str, Atom]()
    for name in used:
        number, shift = place[name]
        alias[name] = Ref(DType.BOOL, f"{number} {added(shift, back)}")
    return renamed(expr, alias), base


def _kept(kernel: Kernel, members: Mapping[str, Offset]) -> Kernel:
    """Make a stage of a class, moved to the point itself, and read it where its members were."""
    name = f"v{len(kernel.stage_names)}"
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
    values, alike, used = named(kernel.body), set[str](), set[str]()
    for name, expr in values.items():
        made = values.keys() & set(operands(expr))
        if isinstance(expr, Read):
            own = expr.field in columns
        else:
            own = bool(made) and made <= alike and not isinstance(expr, Reduce | Noting | Carried)
        if own:
            alike.add(name)
        else:
            used.update(operands(expr))
    used.update(names_of(kernel.outputs))
    # The last ones first, so that none of these stages reads another.
    for name, expr in reversed(values.items()):
        if name in alike & used and not isinstance(expr, Read):
            kernel = _kept(kernel, {name: (0,) * kernel.ndim})
    return kernel


def relabelled(kernel: Kernel, names: Mapping[str, str], suffix: str = "") -> Kernel:
    """The kernel with other `names`, of its stages, arrays and scalars, and of all operations.

    An operation is called by its stage and its number there, with a `suffix`.
    """
    scalars = {name: Ref(dtype, names.get(name, name)) for name, dtype in kernel.scalars}

    def change(stage: str, body: Body, values: Atoms) -> tuple[Body, Atoms]:
        prefix = f"{names[stage]}_" if stage else "t"
        return copied(
            body,
            values,
            lambda _, k: f"{prefix}{k}{suffix}",
            lambda expr: deeply(expr, other),
            scalars,
        )

    def other(expr: Expr) -> Expr:
        """A read of the array that stands in the place of another."""
        match expr:
            case Read() | Gather():
                return replace(expr, field=names.get(expr.field, expr.field))
            case Element():
                return replace(expr, array=names.get(expr.array, expr.array))
            case _:
                return expr

    made = in_bodies(kernel, change)
    stages = tuple(replace(s, names=tuple(map(names.__getitem__, s.names))) for s in made.stages)
    return replace(made, stages=stages)


def unlike(label: str, taken: set[str]) -> str:
    """A name for a part of a larger kernel, like this one, that nothing in it has yet."""
    name = label.replace(".", "_")
    name = f"{name}_" if name.isidentifier() else "stage_"
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def inlined(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Compute again what costs less than writing and reading a row."""
    for stage in reversed(kernel.stages):
        if not isinstance(stage, Values):
            continue
        count = sum(
            len({read.offset for read in reads(body, stage.names)}) for body in bodies(kernel)
        )
        how = dict(schedule.stages).get(stage.names[0])
        # What it costs to compute a point, loads counted as additions.
        work = sum(operation(assign.value) for assign in stage.body)
        again = saved_by_row(work + len(list(reads(stage.body))), count)
        if how == "inline" or (how is None and again <= schedule.shared - 1):
            kernel = _without(kernel, stage)
    return kernel


def _without(kernel: Kernel, stage: Values) -> Kernel:
    """The kernel with what a stage computes in the place of the reads of it."""
    # No part has such names; `renumbered` makes all of them short.
    fresh = (f"{stage.names[0]}_i{number}" for number in itertools.count())

    def inserted(_: str, body: Body, values: Atoms) -> tuple[Body, Atoms]:
        made = list[Assign]()
        copies = dict[Offset, Atoms]()

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
    arrays = dict[str, str]()
    for name in kernel.stage_names:
        short = f"v{len(arrays) - len(named & arrays.keys())}"
        arrays[name] = name if name in named else short
    return relabelled(kernel, arrays)


def flattened(kernel: Kernel, most: int) -> Kernel | None:
    """The kernel in one piece, if that takes no more than so many operations for each point.

    None where it takes more, or where a stage is no plain value.  On a GPU, where a thread has
    little memory and much time, that is often less work than to write a stage and to read it.
    """
    for stage in reversed(kernel.stages):
        if not isinstance(stage, Values) or any(isinstance(a.value, Reduce) for a in stage.body):
            return None
        kernel = simplify(_without(kernel, stage))
        if len(kernel.body) > most:
            return None
    return renumbered(kernel, frozenset()) if len(kernel.body) <= most else None
