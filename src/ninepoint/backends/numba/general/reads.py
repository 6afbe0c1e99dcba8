"""Reads: every place where a kernel looks at a neighbour, and how far it may look there.

x[0, k]   with k of range(-1, 2)     ->     steps 0 and -1 .. 1: known, no check at run time
x[0, s]   with s a scalar            ->     checked at run time against the neighborhood
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....language import errors
from ....language.box import Box, Neighborhood
from ....language.values import constant, words
from .scopes import Bounds, Scope, Scopes, own

# A read outside the neighborhood is written down as one number: that of the read plus one,
# times SITE, plus the offset, which is cut to -REACH .. REACH.
SITE = 2**33
REACH = 2**31 - 1

# After so many turns a loop looks whether it shall go on.
EACH = 256


@dataclass(frozen=True, slots=True)
class Step:
    """One offset: the expression, or its text where it is a constant, and its bounds."""

    node: ast.expr
    bounds: Bounds | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """The offsets `first` .. `stop` - 1 of a window, along one axis."""

    first: Step
    stop: Step

    @property
    def length(self) -> int | None:
        """How many elements it has, if that is constant."""
        first, stop = self.first.bounds, self.stop.bounds
        if first is None or stop is None or first[0] != first[1] or stop[0] != stop[1]:
            return None
        return stop[0] - first[0]


@dataclass(frozen=True, slots=True)
class Access:
    """One read of a field, with a step or a stretch for each axis."""

    node: ast.Subscript
    scope: Scope
    parts: tuple[Step | Stretch, ...]


def accesses(
    scopes: Scopes, neighborhood: Neighborhood | None, pointwise: bool = False
) -> tuple[list[Access], Box]:
    """Every read, and the box that holds them all; a function of numbers has none to show.

    Raises
    ------
    StencilError
        If a field is assigned to, a read leaves the neighborhood for certain, or how far it
        goes is neither declared nor constant.
    """
    found = list(_found(scopes, neighborhood is not None))
    if not found and not pointwise:
        function = scopes.root.function
        raise errors.no_field(function.place, function.name)
    ndim = len(neighborhood) if neighborhood is not None else len(found[0].parts)
    low, high = [], []
    for access in found:
        span = access.scope.function.span(access.node)
        if len(access.parts) != ndim:
            name = ast.unparse(access.node.value)
            raise errors.offset_count(
                span, name, len(access.parts), ndim, neighborhood is not None
            )
        for axis, part in enumerate(access.parts):
            for offset in _reached(part, access.scope, neighborhood is not None):
                if neighborhood is not None:
                    _inside(offset, part, axis, neighborhood[axis], access.scope)
                low.append((axis, offset[0]))
                high.append((axis, offset[1]))
    if neighborhood is not None:
        lows, highs = zip(*neighborhood, strict=True)
        return found, Box(tuple(int(o) for o in lows), tuple(int(o) for o in highs))
    return found, Box(
        tuple(min(o for a, o in low if a == axis) for axis in range(ndim)),
        tuple(max(o for a, o in high if a == axis) for axis in range(ndim)),
    )


def _found(scopes: Scopes, declared: bool) -> Iterator[Access]:
    for scope in scopes.all:
        for node in own(scope, ast.Subscript):
            names = scopes.fields(node.value, scope)
            if not names:
                continue
            if not isinstance(node.ctx, ast.Load):
                raise errors.assigned_field(scope.function.span(node), min(names))
            yield Access(node, scope, tuple(_parts(node, scopes, scope)))


def _parts(node: ast.Subscript, scopes: Scopes, scope: Scope) -> Iterator[Step | Stretch]:
    index = node.slice
    elements = index.elts if isinstance(index, ast.Tuple) else [index]
    for element in elements:
        span = scope.function.span(element)
        if isinstance(element, ast.Slice):
            if element.step is not None and scopes.bounds(element.step, scope) != (1, 1):
                raise errors.window_step(span)
            if element.lower is None or element.upper is None:
                raise errors.window_open(span)
            yield _stretch(
                _step(element.lower, scopes, scope), _step(element.upper, scopes, scope), span
            )
            continue
        held = scopes.values(element, scope)
        if held is not None and len(held) == 1 and isinstance(held[0], tuple | slice):
            for item in held[0] if isinstance(held[0], tuple) else held:
                yield _constant_part(item, element, span)
            continue
        tuples = scopes.elements(element, scope)
        if tuples and isinstance(tuples[0].node, ast.Tuple) and element is index:
            for k in range(len(tuples[0].node.elts)):
                text = f"{ast.unparse(element)}[{k}]"
                one = ast.parse(text, mode="eval").body
                for part in ast.walk(one):
                    ast.copy_location(part, element)
                yield _step(one, scopes, scope)
            continue
        yield _step(element, scopes, scope)


def _step(node: ast.expr, scopes: Scopes, scope: Scope) -> Step:
    span = scope.function.span(node)
    for value in scopes.values(node, scope) or ():
        if isinstance(value, bool) or not isinstance(value, int):
            raise errors.offset_type(span, words(value))
    return Step(node, scopes.bounds(node, scope))


def _stretch(first: Step, stop: Step, span: errors.Span) -> Stretch:
    if first.bounds is not None and stop.bounds is not None:
        low, high = first.bounds[0], stop.bounds[1]
        if low >= high:
            raise errors.window_empty(span, low, high)
    return Stretch(first, stop)


def _constant_part(item: object, node: ast.expr, span: errors.Span) -> Step | Stretch:
    item = constant(item)
    if isinstance(item, slice):
        if constant(item.step) not in (None, 1):
            raise errors.window_step(span)
        if item.start is None or item.stop is None:
            raise errors.window_open(span)
        first = _constant_part(item.start, node, span)
        stop = _constant_part(item.stop, node, span)
        assert isinstance(first, Step)
        assert isinstance(stop, Step)
        return _stretch(first, stop, span)
    if isinstance(item, bool) or not isinstance(item, int):
        raise errors.offset_type(span, words(item))
    return Step(ast.copy_location(ast.Constant(item), node), (item, item))


def _reached(part: Step | Stretch, scope: Scope, declared: bool) -> Iterator[Bounds]:
    """The offsets that are known; what is not known must have been declared."""
    ends = (part,) if isinstance(part, Step) else (part.first, part.stop)
    for end in ends:
        if end.bounds is None and not declared:
            words = f"'{ast.unparse(end.node)}'"
            raise errors.offset_not_constant(scope.function.span(end.node), words)
    if isinstance(part, Step):
        if part.bounds is not None:
            yield part.bounds
    elif part.first.bounds is not None and part.stop.bounds is not None:
        yield part.first.bounds[0], part.stop.bounds[1] - 1


def _inside(
    offset: Bounds, part: Step | Stretch, axis: int, declared: tuple[int, int], scope: Scope
) -> None:
    """Raise where a constant offset is outside; one that varies is checked when it happens."""
    node = part.node if isinstance(part, Step) else part.first.node
    low, high = declared
    exact = isinstance(part, Stretch) or offset[0] == offset[1]
    for one in offset:
        if exact and not low <= one <= high:
            raise errors.offset_outside(scope.function.span(node), one, axis, low, high)
