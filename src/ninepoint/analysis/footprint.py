"""Footprint: how far from a point each output looks; which loops end, and which reads stay there.

    a = u[1, 0];  b = u[-1, 0];  out = a - b     ->      out: rows -1..1, columns 0..0

The walk follows an output's operands back to the reads.  The bound is the smallest box that
holds every offset the output may read, on any branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..language.ir import (
    Atom,
    Body,
    Box,
    DType,
    Expr,
    Gather,
    Inside,
    Kernel,
    Loop,
    Named,
    Noting,
    Offset,
    Read,
    Reduce,
    Ref,
    at_each,
    atoms,
    joined,
    made_as,
    mapped,
    named,
    needed,
    within,
    zero_product,
)
from .ranges import Interval, Known, ranges, refined, turn_ranges
from .rewrite import bodies


def reaches(kernel: Kernel) -> tuple[Box, ...]:
    """The box of offsets of each output; the point itself where an output reads nothing."""
    here = Box((0,) * kernel.ndim, (0,) * kernel.ndim)
    found = list[Box]()
    for output in kernel.outputs:
        cone = needed(kernel.body, [output])
        boxes = [Box(low, high) for one in cone for _, low, high in extents(one.value)]
        found.append(joined(boxes or [here]))
    return tuple(found)


def extents(expr: Expr) -> Iterator[tuple[str, Offset, Offset]]:
    """Each field that an operation reads, with its first and last offset."""
    if isinstance(expr, Read):
        yield expr.field, expr.offset, expr.offset
    elif isinstance(expr, Reduce):
        for field, at in tap_offsets(expr):
            axes = list(zip(*at, strict=True))
            yield field, tuple(map(min, axes)), tuple(map(max, axes))
    elif isinstance(expr, Gather):
        low, high = Box(expr.low, expr.high).shift(expr.offset).ends
        yield expr.field, low, high
    elif isinstance(expr, Loop):
        for assign in expr.body:
            yield from extents(assign.value)


def tap_offsets(reduce: Reduce) -> Iterator[tuple[str, list[Offset]]]:
    """Each tap's field and the offsets at which it matters: not where its weight is zero."""
    for name, value in named(reduce.body).items():
        if isinstance(value, Read):
            indices = zip(np.ndindex(reduce.shape), live(reduce, name), strict=True)
            found = [value.place(index) for index, matters in indices if matters]
            if found:
                yield value.field, found


def live(reduce: Reduce, name: str) -> list[bool]:
    """At which positions of a window what its result needs is made of this assignment.

    Products with a constant weight that is zero are 0 by themselves.
    """
    values = named(reduce.body)
    own = Ref(values[name].dtype, name)
    return at_each(reduce, lambda position: own in _live(reduce, values, position))


def _live(reduce: Reduce, values: Named, position: int) -> set[Atom]:
    """What the element of a window at `position` depends on, but for products that are zero."""
    live = set[Atom]()
    pending = [reduce.result]
    while pending:
        atom = pending.pop()
        made = None if atom in live else made_as(atom, values)
        if made and not zero_product(made, values, position):
            live.add(atom)
            pending += atoms(made)
    return live


# A loop of no more turns than this ends by itself, soon.
_SOON = 2**16


def bounded(kernel: Kernel) -> Kernel:
    """The kernel, where loops know their number of turns at most, and reads that they are inside.

    while k < 9: k += 1, from 0     ->      at most 9 turns
    """
    if not loops(kernel):
        return kernel
    return replace(kernel, body=_bounded(kernel.body, ranges(kernel)))


def _bounded(body: Body, known: Known) -> Body:
    values = named(body)

    def change(expr: Expr) -> Expr:
        match expr:
            case Inside(index=index, active=active):
                # Where the point is active.
                found = refined(index, active, True, known, values)
                inside = found is None or found.within(Interval(expr.low, expr.high))
                return replace(expr, place="") if inside else expr
            case Loop():
                inner = turn_ranges(expr, known)
                numbers = (expr.index, *(ref for ref, _ in expr.carried))
                spans = [inner[one.name].ends for one in numbers if one.dtype is DType.INT]
                turns = min(int(high) - int(low) + 1 for low, high in spans)
                if not expr.most and turns <= _SOON:
                    # There are no more turns than what counts them has values.
                    expr = replace(expr, most=turns)
                    inner = turn_ranges(expr, known)
                return replace(expr, body=_bounded(expr.body, inner))
            case _:
                return expr

    return mapped(body, change)


def watched(kernel: Kernel) -> bool:
    """Whether a kernel must be told to stop, or might read outside its neighborhood."""
    values = [assign.value for body in bodies(kernel) for assign in within(body)]
    return any(
        not v.most if isinstance(v, Loop) else isinstance(v, Noting) and v.place for v in values
    )


def loops(kernel: Kernel) -> bool:
    """Whether a kernel holds loops, or reads at computed offsets."""
    return any(isinstance(a.value, Noting) for body in bodies(kernel) for a in body)
