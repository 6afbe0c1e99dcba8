"""Footprint: how far from a point each output looks.

    a = u[1, 0];  b = u[-1, 0];  out = a - b     ->      out: rows -1..1, columns 0..0

The walk follows an output's operands back to the reads.  The bound is the smallest box that
holds every offset the output may read, on any branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ..language.ir import (
    Atom,
    Box,
    Expr,
    Gather,
    Kernel,
    Loop,
    Named,
    Offset,
    Read,
    Reduce,
    Ref,
    at_each,
    atoms,
    joined,
    made_as,
    named,
    needed,
    zero_product,
)


def reaches(kernel: Kernel) -> tuple[Box, ...]:
    """The box of offsets of each output; the point itself where an output reads nothing."""
    here = Box((0,) * kernel.ndim, (0,) * kernel.ndim)
    found = list[Box]()
    for output in kernel.outputs:
        cone = needed(kernel.body, [output])
        boxes = [Box(low, high) for one in cone for _, low, high in extents(one.value)]
        found.append(joined(boxes) if boxes else here)
    return tuple(found)


def extents(expr: Expr) -> Iterator[tuple[str, Offset, Offset]]:
    """Each field that an operation reads, with its first and last offset."""
    if isinstance(expr, Read):
        yield expr.field, expr.offset, expr.offset
    elif isinstance(expr, Reduce):
        yield from _window_extents(expr)
    elif isinstance(expr, Gather):
        low, high = Box(expr.low, expr.high).shift(expr.offset).ends
        yield expr.field, low, high
    elif isinstance(expr, Loop):
        for assign in expr.body:
            yield from extents(assign.value)


@lru_cache(64)
def _window_extents(reduce: Reduce) -> tuple[tuple[str, Offset, Offset], ...]:
    found = [(field, list(zip(*at, strict=True))) for field, at in tap_offsets(reduce)]
    return tuple((field, tuple(map(min, axes)), tuple(map(max, axes))) for field, axes in found)


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
