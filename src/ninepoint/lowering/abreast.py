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

from dataclasses import replace

import numpy as np

from ..analysis.ranges import ranges
from ..analysis.simplify import renamed, renamed_atom
from ..language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Call,
    Kernel,
    Offset,
    Read,
    Reduce,
    Ref,
)
from .lines import Lines
from .machine import machine_type
from .rows import POINTER_CHECKS
from .schedule import Schedule
from .sharing import COSTLY, FUNCTION

# Rows, read and written, that one loop has pointers to: x86-64 has 16 registers, of which the
# column and the stack take one each.  6 rows of a 3 x 3 median (8 read, 6 written) were as
# fast as 4 (Zen 4).
_POINTERS = 14

# What a load, a store, and the pass over a row that makes a stage cost, in additions.  With
# these what is counted as less was faster: extremes, means and medians of 3 x 3 to 5 x 5
# elements of 8 to 32 bits, 512 x 512 and 4096 x 4096 (Zen 4).
_LOAD = 2
_STORE = 2
_PASS = 4

# LLVM takes as many points at once as the widest load or store has lanes.  Floats wider than
# that take several registers each, and those of several rows do not fit: a 3 x 3 window of
# bytes, weighted in float64, lost a third of its speed (Zen 4).
_WIDER = 2


def fastest(kept: Kernel, in_place: Kernel, schedule: Schedule) -> Kernel:
    """The kernel whose values are kept in rows, or several rows of the other at once.

    Both give the same results; the second is the one whose small windows are done in place.
    """
    if not _suitable(in_place):
        return kept
    best, least = kept, effort(kept) * schedule.gain
    rows = schedule.rows
    while rows > 1:
        several = replace(in_place, rows=rows)
        written = abreast(several)
        read = len({row for assign in written.body for row in _row(assign)})
        if read <= POINTER_CHECKS and read + len(written.outputs) <= _POINTERS:
            spent = effort(several)
            if spent < least:
                best, least = several, spent
        rows //= 2
    return best


def _suitable(kernel: Kernel) -> bool:
    """Whether rows can be made together, and registers would hold their values."""
    if kernel.ndim < 2 or kernel.stages:
        return False
    if any(isinstance(assign.value, Reduce) for assign in kernel.body):
        return False
    planes = {offset[:-1] for assign in kernel.body for _, offset in _row(assign)}
    if len(planes) > 1:
        # Too many rows at once: 7 points of float32, 256 x 256 x 256, lost a third (Zen 4).
        return False
    sizes = _sizes(kernel)
    floats = [sizes[assign.name] for assign in kernel.body if not assign.value.dtype.is_integer]
    return max(floats, default=0) <= _WIDER * _lane(kernel.body, kernel.outputs, sizes)


def abreast(kernel: Kernel) -> Kernel:
    """The operations of `kernel.rows` rows, equal ones once; outputs of the first row first."""
    lines = Lines("r")
    outputs: list[Atom] = []
    for row in range(kernel.rows):
        alias: dict[str, Atom] = {}
        for assign in kernel.body:
            expr = renamed(assign.value, alias)
            if isinstance(expr, Read):
                expr = replace(expr, offset=_down(expr.offset, row))
            alias[assign.name] = lines.emit(expr)
        outputs += [renamed_atom(output, alias) for output in kernel.outputs]
    return replace(kernel, body=tuple(lines.body), outputs=tuple(outputs), rows=1)


def effort(kernel: Kernel) -> float:
    """What a point costs: bytes of vectors, as if all were additions."""
    written = abreast(kernel)
    sizes = _sizes(written)
    total = _effort(written.body, written.outputs, sizes) / kernel.rows
    for stage in kernel.stages:
        total += _effort(stage.body, stage.values, sizes) + _PASS * sizes[stage.names[0]]
    return total


def _effort(body: tuple[Assign, ...], values: tuple[Atom, ...], sizes: dict[str, int]) -> float:
    lane = _lane(body, values, sizes)
    total = float(_STORE * lane * len(values))
    for assign in body:
        cost = 1.0
        match assign.value:
            case Read():
                cost = _LOAD
            case Binary(op=op) if op in COMPARISONS:
                cost = 0  # one instruction with the choice that it is made for
            case Binary(op=op):
                cost = COSTLY.get(op, 1)
            case Call():
                cost = FUNCTION
        total += cost * max(lane, sizes[assign.name])
    return total


def _lane(body: tuple[Assign, ...], values: tuple[Atom, ...], sizes: dict[str, int]) -> int:
    """The widest element that is loaded or stored: so wide are the lanes of the loop [bytes]."""
    read = [sizes[assign.value.field] for assign in body if isinstance(assign.value, Read)]
    stored = [sizes[value.name] for value in values if isinstance(value, Ref)]
    return max([1, *read, *stored])


def _sizes(kernel: Kernel) -> dict[str, int]:
    """The size of each value, and of the elements of each field and stage [bytes]."""
    known = ranges(kernel)
    sizes = {name: dtype.itemsize for name, dtype in kernel.fields}
    kinds = {name: dtype for name, dtype in kernel.scalars}
    for stage in kernel.stages:
        kinds |= {a.name: a.value.dtype for a in stage.body}
        kinds |= {n: v.dtype for n, v in zip(stage.names, stage.values, strict=True)}
    kinds |= {a.name: a.value.dtype for a in kernel.body}
    for name, dtype in kinds.items():
        sizes[name] = np.dtype(machine_type(dtype, known[name])).itemsize
    return sizes


def _row(assign: Assign) -> tuple[tuple[str, Offset], ...]:
    """The row that is read, if one is."""
    read = assign.value
    return ((read.field, read.offset[:-1]),) if isinstance(read, Read) else ()


def _down(offset: Offset, rows: int) -> Offset:
    return (*offset[:-2], offset[-2] + rows, offset[-1])
