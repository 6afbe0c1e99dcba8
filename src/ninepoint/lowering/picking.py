"""Picking: of a window under a constant mask only those elements that change the result.

    max of (mask ? x : -inf) over 5 x 5          max of x over the 13 elements of the mask
    sum of (mask ? x : 0) over 5 x 5       ->    sum of x over the 13 elements of the mask
    sum of x * mask over 11 x 11                 sum of x over the 81 elements of the mask

An element that is the same constant at every point, and changes no result of its reduction, falls
away; what is left may be done in runs and boxes, as a window of that shape is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..analysis.ranges import Interval, of_arrays, ranges, window_range
from ..analysis.rewrite import made_as, mapped, named, uncast
from ..language.ir import (
    Atom,
    Binary,
    Coefficient,
    Const,
    Expr,
    Kernel,
    Offset,
    Reduce,
    Select,
    Tap,
    Weight,
    needed,
    window_indices,
)
from .schedule import Schedule

# What the elements of a mask are called.
_TRUTHS = frozenset({"True", "False", "0", "1", "0.0", "1.0"})


def picked(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Reduce only what counts, wherever a constant mask says what that is."""
    if not any(_masks(assign.value) for assign in kernel.body):
        return kernel
    known, arrays = ranges(kernel), of_arrays(kernel)

    def counted(expr: Expr) -> Expr:
        if not isinstance(expr, Reduce) or not _masks(expr):
            return expr
        return _counted(
            expr, lambda one: window_range(replace(expr, result=one), known, arrays), schedule
        )

    return replace(kernel, body=mapped(kernel.body, counted))


def _masks(expr: Expr) -> bool:
    return isinstance(expr, Reduce) and any(isinstance(a.value, Weight) for a in expr.body)


def _counted(reduce: Reduce, span: Callable[[Atom], Interval], schedule: Schedule) -> Reduce:
    """The reduction of those elements that count; `span` tells what elements can be."""
    values = named(reduce.body)
    element = made_as(reduce.result, values)
    match element:
        case Select(test=test, then=then, other=other):
            mask = made_as(test, values)
            if not isinstance(mask, Weight):
                return reduce
            chosen = [text == "True" for text in mask.texts]
            if isinstance(then, Const) and not isinstance(other, Const):
                then, other, chosen = other, then, [not one for one in chosen]
            if not isinstance(other, Const) or not _neutral(reduce, other, span(then)):
                return reduce
            return _of(reduce, then, chosen)
        case Binary(op="*", left=left, right=right) if reduce.kind == "sum":
            for factor, rest in ((left, right), (right, left)):
                mask = uncast(factor, values)
                if not isinstance(mask, Weight) or not set(mask.texts) <= _TRUTHS:
                    continue
                if not isinstance(rest, Const) and rest.dtype is element.dtype:
                    chosen = [text in ("True", "1", "1.0") for text in mask.texts]
                    if _is_grid(reduce, chosen) or max(reduce.shape) <= schedule.direct:
                        # Such weights are a product of factors, or written out at once.
                        return reduce
                    return _of(reduce, rest, chosen)
    return reduce


def _neutral(reduce: Reduce, other: Const, items: Interval) -> bool:
    """Whether a constant changes no result, whatever else is reduced."""
    match reduce.kind:
        case "sum":
            return other.text in ("0", "0.0", "-0.0", "False")
        case "any" | "all":
            return other.text == str(reduce.kind == "all")
        case "max" | "min" if not isinstance(other.value, complex):
            value = float(other.value)
            sign = 1.0 if reduce.kind == "max" else -1.0
            end = items.low if reduce.kind == "max" else items.high
            # Of two zeros the sign could be another.
            exact = other.dtype.is_integer and value == end
            return exact or sign * value < sign * end or value == -sign * math.inf
        case _:
            return False


def _is_grid(reduce: Reduce, chosen: Sequence[bool]) -> bool:
    """Whether the elements are all those of some rows and some columns."""
    indices = window_indices(reduce.shape)
    found = [index for index, one in zip(indices, chosen, strict=True) if one]
    return len(found) == math.prod(len(set(axis)) for axis in zip(*found, strict=True))


def _of(reduce: Reduce, result: Atom, chosen: Sequence[bool]) -> Reduce:
    """The reduction of `result` over the chosen elements, if there are any."""
    positions = [k for k, one in enumerate(chosen) if one]
    if not positions or len(positions) == len(chosen):
        return reduce
    indices = list(window_indices(reduce.shape))
    places = tuple(indices[k] for k in positions)
    body = mapped(needed(reduce.body, [result]), lambda expr: _at(expr, places, positions))
    if not any(isinstance(assign.value, Tap) for assign in body):
        return reduce
    return replace(reduce, shape=(len(places),), body=body, result=result)


def _at(expr: Expr, places: tuple[Offset, ...], positions: Sequence[int]) -> Expr:
    """What is at the places of a window."""
    match expr:
        case Tap() | Coefficient():
            found = tuple(expr.picked[k] for (k,) in places) if expr.picked else places
            return replace(expr, picked=found)
        case Weight():
            return replace(expr, texts=tuple(expr.texts[k] for k in positions))
        case _:
            return expr
