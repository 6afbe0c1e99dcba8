"""Fusion: kernels as parts of another one, and stages that are computed again where they are read.

    v = (u[-1] + u[1]) / 2                stage v = (u[-1] + u[1]) / 2
    w = x[0] - v[1]               ->      out = x[0] - v[1]

    stage v = a[0] * a[0]                 s = a[-1] * a[-1]
    out = v[-1] + v[0]          ->        t = a[0] * a[0]
                                          out = s + t

The operations stay what they were, and in their order, so that no bit changes.  `chain` puts
kernels together, under names that no other has.

What the compiler names by number ends in a digit: t0, v0_3, and so do the copies that it makes
of what a user has named: u__0, r__2.  A name of the user's ends in an underscore.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Set
from dataclasses import replace

from ..analysis.rewrite import bodies, copied, drop_dead, in_bodies, reads, simplify
from ..language.ir import (
    Assign,
    Atom,
    Atoms,
    Body,
    Cast,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    Values,
    of_arrays,
    replayed,
    shifted,
)
from .schedule import Schedule, operation, saved_by_row


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
            lambda expr: of_arrays(expr, names),
            scalars,
        )

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
