"""Lanes: kernels for arrays whose elements lie in another order in memory.

    interleaved     a row holds all lanes of all its columns, so that the next column is 3 on
                    x[0, 1] + x[1, 0]     3 lanes     ->     x[0, 3] + x[1, 0]
    transposed      axes in the order 1, 0
                    x[1, 0] - x[0, 2]                 ->     x[0, 1] - x[2, 0]

Stacks lie innermost so, such as the channels of colour images.  All do what the kernel does,
operation by operation, so that they give the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from ..analysis.rewrite import bodies, in_bodies
from ..base.frozen import frozen
from ..language.ir import (
    Box,
    Gather,
    Histogram,
    Kernel,
    Loop,
    Offset,
    Read,
    Reduce,
    inside,
    mapped,
    within,
)

# How arrays lie: a number says how many lanes each column of a row has.  Of an order of the axes,
# axis k is axis `how[k]` of the others.
How: TypeAlias = int | Offset


@frozen
class Turn:
    """How kernels are written for arrays that lie so.

    Where lanes are interleaved, a step along the last axis is as many times longer.  Kernels with
    stages that slide along rows have no such form: they would have to slide along another axis.
    """

    how: How

    def offset(self, at: tuple[Any, ...]) -> tuple[Any, ...]:
        """An offset along the other axes."""
        if isinstance(self.how, tuple):
            return tuple(at[axis] for axis in self.how)
        return (*at[:-1], at[-1] * self.how)

    def box(self, box: Box) -> Box:
        """Where the other kernel looks."""
        return Box(self.offset(box.lo), self.offset(box.hi))

    def kernel(self, kernel: Kernel) -> Kernel | None:
        """The kernel with other offsets; None if it has no such form."""
        # Nobody knows where an offset points that is computed.
        if any(isinstance(a.value, Gather) for body in bodies(kernel) for a in within(body)):
            return None
        if any(isinstance(stage, Histogram) for stage in kernel.stages):
            return None
        return in_bodies(kernel, lambda _, body, values: (mapped(body, self._expression), values))

    def _expression(self, expr: Any) -> Any:
        match expr:
            case Read(axes=axes, lanes=lanes):
                if isinstance(self.how, tuple):
                    axes = tuple(map(self.how.index, axes))
                elif axes:
                    lanes *= self.how
                return replace(expr, offset=self.offset(expr.offset), axes=axes, lanes=lanes)
            case Reduce() | Loop():
                return inside(expr, self._expression)
            case _:
                return expr
