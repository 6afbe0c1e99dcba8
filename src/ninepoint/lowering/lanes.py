"""Lanes: kernels for arrays whose elements lie in another order in memory.

    interleaved     a row holds all lanes of all its columns, so that the next column is 3 on
                    x[0, 1] + x[1, 0]     3 lanes     ->     x[0, 3] + x[1, 0]
    transposed      axes in the order 1, 0
                    x[1, 0] - x[0, 2]                 ->     x[0, 1] - x[2, 0]

Stacks lie innermost so, such as the channels of colour images.  All do what the kernel does,
operation by operation, so that they give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..analysis.rewrite import bodies, mapped, number
from ..language.box import Box
from ..language.ir import (
    DType,
    Gather,
    Histogram,
    Kernel,
    Loop,
    Offset,
    Read,
    Reduce,
    Stage,
    State,
    Tap,
    within,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """How offsets are written along other axes, and along which windows run that ran along some.

    Where so many `lanes` are interleaved, a step along the last axis of taps is as much longer,
    and no offset may be computed.  Stages that slide along rows have no such form: they would have
    to do so along others.
    """

    offset: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    axes: Callable[[Offset], Offset] = lambda axes: axes
    lanes: int = 0

    def box(self, box: Box) -> Box:
        """Where the other kernel looks."""
        return Box(self.offset(box.lo), self.offset(box.hi))

    def kernel(self, kernel: Kernel) -> Kernel | None:
        """The kernel with other offsets; None if it has no such form."""
        if any(isinstance(stage, Histogram | State) for stage in kernel.stages):
            return None
        walked = (one for body in bodies(kernel) for one in within(body))
        if self.lanes and any(isinstance(one.value, Gather) for one in walked):
            return None
        return replace(
            kernel,
            body=mapped(kernel.body, self._expression),
            stages=tuple(map(self._stage, kernel.stages)),
        )

    def _expression(self, expr: Any) -> Any:
        match expr:
            case Read():
                return replace(expr, offset=self.offset(expr.offset))
            case Tap():
                origin, axes = self.offset(expr.origin), self.axes(expr.axes)
                return replace(
                    expr, origin=origin, axes=axes, lanes=expr.lanes * (self.lanes or 1)
                )
            case Gather():
                index = self.offset(expr.index)
                return replace(
                    expr,
                    origin=self.offset(expr.origin),
                    index=tuple(number(DType.INT, a) if isinstance(a, int) else a for a in index),
                    low=self.offset(expr.low),
                    high=self.offset(expr.high),
                )
            case Reduce() | Loop():
                return replace(expr, body=mapped(expr.body, self._expression))
            case _:
                return expr

    def _stage(self, one: Stage) -> Stage:
        assert not isinstance(one, Histogram)
        return replace(one, body=mapped(one.body, self._expression))


# How arrays lie: a number says how many lanes each column of a row has.  Of an order of the axes,
# axis k is axis `how[k]` of the others.
How: TypeAlias = int | tuple[int, ...]


def turn_of(how: How) -> Turn:
    """How kernels are written for arrays that lie so."""
    if isinstance(how, tuple):
        return Turn(
            lambda at: tuple(at[axis] for axis in how),
            lambda axes: tuple(how.index(axis) for axis in axes),
        )
    return Turn(lambda at: (*at[:-1], at[-1] * how), lanes=how)
