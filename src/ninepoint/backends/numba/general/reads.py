"""Reads: every place where a kernel looks at a neighbour, and how far it may look there.

x[0, k]   with k of range(-1, 2)     ->     0 and -1 .. 1
x[0, s]   with s a scalar            ->     0 and whatever the neighborhood allows
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from ....language import errors
from ....language.box import Box, Neighborhood
from ....language.errors import Span
from ....language.source import Function
from ....language.values import words
from .scopes import Bounds, Maybe, Scope, Scopes, of, own


@dataclass(frozen=True, slots=True)
class Step:
    """One offset, and the least and the greatest that it may be, if these are known.

    With `stop` the offset of the expression is that behind a window, and this one the last.
    """

    node: ast.expr
    span: Span
    reached: Bounds | None
    stop: bool = False


_May: TypeAlias = Callable[[ast.expr], Maybe]

# For each axis an offset, or the first and the last of a window, of the reads by their nodes.
Accesses: TypeAlias = dict[ast.Subscript, tuple[tuple[Step, ...], ...]]


def accesses(
    scopes: Scopes, neighborhood: Neighborhood | None, pointwise: bool = False
) -> tuple[Accesses, Box]:
    """Every read, and the box that holds them all; a function of numbers has none to show.

    Raises
    ------
    StencilError
        If a field is assigned to, a read leaves the neighborhood for certain, or how far it
        goes is neither declared nor constant.
    """
    found = list(_found(scopes))
    if not found and not pointwise:
        function = scopes.root.function
        raise errors.no_field(function.place, function.name)
    declared = neighborhood is not None
    ndim = len(found[0][2] if neighborhood is None else neighborhood)
    reached: list[list[int]] = [[] for _ in range(ndim)]
    for node, scope, parts in found:
        if len(parts) != ndim:
            span, name = scope.function.span(node), ast.unparse(node.value)
            raise errors.offset_count(span, name, len(parts), ndim, declared)
        for axis, steps in enumerate(parts):
            for step in steps:
                known = step.reached
                if neighborhood is None:
                    if known is None:
                        words = f"'{ast.unparse(step.node)}'"
                        raise errors.offset_not_constant(step.span, words)
                    reached[axis] += known
                elif known is not None and known[0] == known[1]:
                    low, high = neighborhood[axis]
                    if not low <= known[0] <= high:
                        raise errors.offset_outside(step.span, known[0], axis, low, high)
    ends = neighborhood or [(min(one), max(one)) for one in reached]
    box = Box(*(tuple(map(int, one)) for one in zip(*ends, strict=True)))
    return {node: parts for node, _, parts in found}, box


def _found(
    scopes: Scopes,
) -> Iterator[tuple[ast.Subscript, Scope, tuple[tuple[Step, ...], ...]]]:
    for scope in scopes.all:
        may = partial(scopes.may, scope=scope)
        for node in own(scope, ast.Subscript):
            names = may(node.value).fields
            if not names:
                continue
            if not isinstance(node.ctx, ast.Load):
                raise errors.assigned_field(scope.function.span(node), min(names))
            yield node, scope, tuple(_parts(node.slice, scope.function, may))


def _parts(index: ast.expr, function: Function, may: _May) -> Iterator[tuple[Step, ...]]:
    """What stands for each axis; a tuple with a name, item by item."""
    for element in index.elts if isinstance(index, ast.Tuple) else [index]:
        span, found = function.span(element), may(element)
        if isinstance(element, ast.Slice):
            yield _window(element, span, may)
        elif found.parts is None:
            yield _step(element, found, span, may)
        else:
            for place, part in enumerate(found.parts):
                item = ast.Subscript(element, ast.Constant(place), ast.Load())
                one = ast.Constant(part.known[0]) if part.known else item
                yield _step(ast.copy_location(one, element), part, span, may)


def _step(node: ast.expr, found: Maybe, span: Span, may: _May) -> tuple[Step, ...]:
    for value in found.known:
        if isinstance(value, slice):
            ends = (None if one is None else ast.Constant(one) for one in
                    (value.start, value.stop, value.step))  # fmt: skip
            return _window(ast.Slice(*ends), span, may)
        if isinstance(value, bool) or not isinstance(value, int):
            raise errors.offset_type(span, words(value))
    return (Step(node, span, found.bounds),)


def _window(window: ast.Slice, span: Span, may: _May) -> tuple[Step, ...]:
    if window.step is not None and may(window.step) not in (of(1), of(None)):
        raise errors.window_step(span)
    if window.lower is None or window.upper is None:
        raise errors.window_open(span)
    (first,), (stop,) = (_step(end, may(end), span, may) for end in (window.lower, window.upper))
    low, high = first.reached, stop.reached
    if low and high and low[0] >= high[1]:
        raise errors.window_empty(span, low[0], high[1])
    last = (high[0] - 1, high[1] - 1) if high else None
    return first, Step(stop.node, span, last, stop=True)
