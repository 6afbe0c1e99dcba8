"""Abreast: several rows of the result made at once, so that what they share is done once.

    2 rows of                                 h = max of x[1] over -1..1;  g = x[0] over ...
    max of x over 3 x 3        ->             out0 = max(f, g, h)
                                              out1 = max(g, h, k)

Neighbours along a row share work by keeping rows in memory: each value is stored once and
loaded as often as it is needed.  Neighbours along a column can share it in registers, when one
turn of the loop makes their results together.  Which of the two is less work is counted: loads,
stores and operations for each point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..analysis.ranges import machine_type, ranges
from ..analysis.rewrite import Lines, bodies, reads, replayed, rows
from ..language.ir import (
    COMPARISONS,
    Atom,
    Atoms,
    Binary,
    Body,
    Call,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
    shifted,
)
from .cost import FUNCTION, LOAD, NEAR, PASS, STORE, WIDE, operation
from .fusion import flattened
from .schedule import Schedule

# Rows, read and written, that one loop has pointers to: x86-64 has 16 registers, of which the
# column and the stack take one each.  6 rows of a 3 x 3 median (8 read, 6 written) were as
# fast as 4 (Zen 4).
_POINTERS = 14

# Operations up to which several rows are made at once: a median of 5 x 3 bytes, 307 of them,
# took 0.1 s longer to compile, a bilateral filter of 3 x 3 with its 36 exponentials 4 s.
_LONGEST = 310

# Values wider than the widest load or store take several registers each, which those of several
# rows do not fit into: a 5 x 5 window of float32, weighted in float64, lost a third of its speed,
# one of 3 x 3 bytes as well (Zen 4).  So floats more than twice as wide are not tried.
_WIDEST = 2


def fastest(kept: Kernel, forms: Mapping[str, Kernel], schedule: Schedule) -> Kernel:
    """The kernel whose values are kept in rows, or several rows at once with nothing kept.

    Both do the same operations; `forms` are the kernel after each pass.  Rows of stages are made
    one after the other: two or three of them at once gained 0 to 12 % in steps of heat and
    gradients of 1000 x 1000 and 2500 x 2500, and a fifth in sums of 5 x 5 beyond the cache.
    """
    far = any(_adds_far(assign.value) for assign in forms["widened"].body)
    in_place = None if far else flattened(forms["wholesome"], _LONGEST)
    if in_place is None or schedule.rows == 1 or kept.ndim < 2:
        return kept
    # Too many rows at once: 7 points of float32, 256 x 256 x 256, lost a third (Zen 4).
    planes = {offset[:-1] for _, offset in rows(in_place.body)}
    if len(planes) > 1 or any(isinstance(assign.value, Reduce) for assign in in_place.body):
        return kept
    several = replace(in_place, rows=schedule.rows)
    written, sizes = abreast(several), _sizes(in_place)
    pointers = len(rows(written.body)) + len(written.outputs)
    # How much machine code it becomes, in operations.
    length = sum(FUNCTION if isinstance(a.value, Call) else 1 for a in written.body)
    floats = [sizes[a.name] for a in in_place.body if not a.value.dtype.is_integer]
    narrow = max(floats, default=0) <= _WIDEST * _lane(in_place.body, in_place.outputs, sizes)
    if pointers > _POINTERS or length > _LONGEST or not narrow:
        return kept
    return several if effort(written) / schedule.rows < effort(kept) * schedule.gain else kept


def _adds_far(expr: Expr) -> bool:
    """Whether an operation adds the floats of a window that is large.

    Several rows of 5 x 5 elements of float64, each with its weight, took twice as long (Zen 5).
    """
    if not isinstance(expr, Reduce) or expr.kind not in ("sum", "mean"):
        return False
    return not expr.result.dtype.is_integer and max(expr.shape) > NEAR


def abreast(kernel: Kernel) -> Kernel:
    """The operations of `kernel.rows` rows, equal ones once; outputs of the first row first."""
    if kernel.rows == 1:
        return kernel
    lines = Lines("r")
    outputs: list[Atom] = []

    def written(by: Offset) -> tuple[Atom, ...]:
        return replayed(kernel.body, kernel.outputs, lambda _, e: lines.emit(shifted(e, by)))

    for row in range(kernel.rows):
        outputs += written((*(0,) * (kernel.ndim - 2), row, 0))
    return replace(kernel, body=tuple(lines.body), outputs=tuple(outputs), rows=1)


def effort(kernel: Kernel) -> float:
    """What its points in a column cost: bytes of vectors, as if all were additions."""
    sizes = _sizes(kernel)
    loops = [(kernel.body, kernel.outputs), *((one.body, one.values) for one in kernel.stages)]
    total: float = PASS * sum(sizes[stage.names[0]] for stage in kernel.stages)
    for body, values in loops:
        lane = _lane(body, values, sizes)
        total += STORE * lane * len(values)
        for assign in body:
            match assign.value:
                case Read():
                    cost: float = LOAD
                case Binary(op=op) if op in COMPARISONS:
                    cost = 0  # one instruction with the choice that it is made for
                case _:
                    cost = operation(assign.value)
            size = sizes[assign.name]
            total += cost * (size * WIDE if size > lane else lane)
    return total


def _lane(body: Body, values: Atoms, sizes: Mapping[str, int]) -> int:
    """The widest element that is loaded or stored: so wide are the lanes of a loop [bytes]."""
    read = [sizes[one.field] for one in reads(body)]
    stored = [sizes[value.name] for value in values if isinstance(value, Ref)]
    return max([1, *read, *stored])


def _sizes(kernel: Kernel) -> dict[str, int]:
    """The size of each value, and of the elements of each field and stage [bytes]."""
    known = ranges(kernel)
    kinds = dict(kernel.scalars)
    for stage in kernel.stages:
        kinds |= {n: v.dtype for n, v in zip(stage.names, stage.values, strict=True)}
    kinds |= {a.name: a.value.dtype for body in bodies(kernel) for a in body}
    sizes = {name: dtype.itemsize for name, dtype in kernel.fields}
    return sizes | {n: np.dtype(machine_type(d, known[n])).itemsize for n, d in kinds.items()}
