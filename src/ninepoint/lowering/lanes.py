"""Lanes: kernels for stacks that lie innermost, such as the channels of colour images.

    interleaved     a row holds all lanes of all its columns, so that the next column is 3 on
                    x[0, 1] + x[1, 0]     3 lanes     ->     x[0, 3] + x[1, 0]
    levelled        one more axis, along which nothing looks: a row holds the lanes of one column
                    x[0, 1] + x[1, 0]                 ->     x[0, 1, 0] + x[1, 0, 0]

Both do what the kernel does, operation by operation, so that they give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from ..language.box import Box
from ..language.ir import (
    Assign,
    Histogram,
    Kernel,
    Loop,
    Offset,
    Read,
    Reduce,
    RunningSum,
    Stage,
    State,
    Tap,
)

# How an offset is written along the new axes.
Turn: TypeAlias = Callable[[Offset], Offset]


def interleaved(kernel: Kernel, lanes: int) -> Kernel | None:
    """The kernel on rows in which each column has so many lanes; None if it has no such form."""
    if any(isinstance(stage, State) for stage in kernel.stages):
        return None
    return turned(kernel, lambda offset: _apart(offset, lanes), lanes=lanes)


def levelled(kernel: Kernel) -> Kernel | None:
    """The kernel with one more axis at the end; None if it has no such form."""
    if any(isinstance(stage, Histogram | State | RunningSum) for stage in kernel.stages):
        # What slides along rows, or runs down them, would have to do so along other axes.
        return None
    return replace(turned(kernel, _above), ndim=kernel.ndim + 1, rows=1)


def box_interleaved(box: Box, lanes: int) -> Box:
    """Where an interleaved kernel looks, in elements."""
    return Box(_apart(box.lo, lanes), _apart(box.hi, lanes))


def box_levelled(box: Box) -> Box:
    """Where a levelled kernel looks."""
    return Box(_above(box.lo), _above(box.hi))


def _apart(offset: Offset, lanes: int) -> Offset:
    return (*offset[:-1], offset[-1] * lanes)


def _above(offset: Offset) -> Offset:
    return (*offset, 0)


def turned(kernel: Kernel, turn: Turn, axes: Turn = lambda axes: axes, lanes: int = 1) -> Kernel:
    """The kernel with other offsets, and so many lanes to a step along the last axis of taps.

    `axes` says along which axes windows run that ran along others.
    """

    def body(assigns: tuple[Assign, ...]) -> tuple[Assign, ...]:
        return tuple(Assign(one.name, expression(one.value)) for one in assigns)

    def expression(expr: Any) -> Any:
        match expr:
            case Read():
                return replace(expr, offset=turn(expr.offset))
            case Tap():
                origin, along = turn(expr.origin), axes(expr.axes)
                return replace(expr, origin=origin, axes=along, lanes=expr.lanes * lanes)
            case Reduce() | Loop():
                return replace(expr, body=body(expr.body))
            case _:
                return expr

    def stage(one: Stage) -> Stage:
        if isinstance(one, Histogram):
            element = Assign(one.element.name, expression(one.element.value))
            return replace(one, element=element, lanes=one.lanes * lanes)
        return replace(one, body=body(one.body))

    return replace(kernel, body=body(kernel.body), stages=tuple(map(stage, kernel.stages)))
