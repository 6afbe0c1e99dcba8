"""Transposing: kernels for arrays whose axes lie in another order in memory.

    x[1, 0] - x[0, 2]     axes in the order 1, 0     ->     x[0, 1] - x[2, 0]

It does what the kernel does, operation by operation, so that it gives the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from ..language.box import Box
from ..language.ir import Histogram, Kernel, Offset, RunningSum, State
from .lanes import turned


def transposed(kernel: Kernel, order: Offset) -> Kernel | None:
    """The kernel whose axis k is axis `order[k]` of this one; None if it has no such form."""
    if any(isinstance(stage, Histogram | State | RunningSum) for stage in kernel.stages):
        # What slides along rows, or runs down them, would have to do so along other axes.
        return None
    if kernel.positions:
        return None

    def along(axes: Offset) -> Offset:
        return tuple(order.index(axis) for axis in axes)

    every = in_order(kernel.every, order) if kernel.every else ()
    changed = turned(kernel, lambda offset: in_order(offset, order), along)
    return replace(changed, rows=1, every=every)


def box_transposed(box: Box, order: Offset) -> Box:
    """Where a transposed kernel looks."""
    return Box(in_order(box.lo, order), in_order(box.hi, order))


def in_order(numbers: Offset, order: Offset) -> Offset:
    """One number for each axis, in another order of the axes."""
    return tuple(numbers[axis] for axis in order)
