"""Reads: every place where a kernel looks at a neighbour, and how far it may look there.

    for k in range(-1, 2):        k: an item of range(-1, 2), so -1 .. 1
        s += x[0, 2 * k]          x: the field of that name;  0, and -2 .. 2
    return x[0, s]                0, and whatever the neighborhood allows

What a name may be is looked up in scopes: those of the kernel, of its helper functions, and of
functions inside these.  Every value that a name is ever given counts, whatever the order: that is
coarse, and always true.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, TypeAlias

import numpy as np

from ....analysis.ranges import I64, Interval, bound
from ....language import errors
from ....language.box import FAR, Box, Neighborhood
from ....language.definitions import Definition, Function, copied, own_nodes
from ....language.errors import Span
from ....language.ir import Binary, DType, Ref, Unary
from ....language.operators import SYMBOLS
from ....language.values import constant, words

Bounds: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Maybe:
    """What an expression may be: fields, functions, a bounded integer, a tuple; else anything.

    `known` holds the value itself where that is a constant.
    """

    fields: frozenset[str] = frozenset()
    functions: frozenset[Scope] = frozenset()
    bounds: Bounds | None = None
    parts: tuple[Maybe, ...] | None = None
    known: tuple[Any, ...] = ()

    def __or__(self, other: Maybe) -> Maybe:
        bounds = parts = None
        if self.bounds and other.bounds:
            ends = (*self.bounds, *other.bounds)
            bounds = min(ends), max(ends)
        if self.parts and other.parts and len(self.parts) == len(other.parts):
            parts = tuple(map(operator.or_, self.parts, other.parts))
        return Maybe(self.fields | other.fields, self.functions | other.functions, bounds, parts)

    def at(self, place: int | None) -> Maybe:
        """What an item is, or any of them."""
        if not self.parts:
            return ANYTHING
        if place is None:
            return reduce(operator.or_, self.parts)
        return self.parts[place] if -len(self.parts) <= place < len(self.parts) else ANYTHING


ANYTHING = Maybe()

# What nobody knows.
_UNKNOWN = ast.Name("", ast.Load())


def of(value: Any) -> Maybe:
    """A constant."""
    value = constant(value)
    if type(value) is int:
        return Maybe(bounds=(value, value), known=(value,))
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iu":
        value = tuple(value)
    parts = tuple(map(of, value)) if isinstance(value, tuple | list) else None
    return Maybe(parts=parts, known=(value,))


@dataclass(eq=False, slots=True)
class Scope:
    """A function, the kernel's or a helper's, and what its names are given somewhere."""

    function: Function
    definition: Definition
    parent: Scope | None
    origins: dict[str, list[ast.AST]] = field(default_factory=dict)
    inner: dict[ast.AST, Scope] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        a = self.definition.args
        return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]

    def nodes(self, kind: Any) -> Iterator[Any]:
        """The nodes of a kind, without those of functions inside."""
        return (node for node in own_nodes(self.definition) if isinstance(node, kind))

    def home(self, name: str) -> Scope | None:
        """The scope of a name; None for one from outside the kernel."""
        if name in self.origins:
            return self
        return self.parent.home(name) if self.parent is not None else None

    def give(self, target: ast.expr, value: Any) -> None:
        """Note what a target is given."""
        match target:
            case ast.Name(id=name):
                self.origins.setdefault(name, []).append(value)
            case ast.Starred(value=inner):
                self.give(inner, _UNKNOWN)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for place, one in enumerate(targets):
                    self.give(one, ast.Subscript(value, ast.Constant(place), ast.Load()))
            case _:
                pass

    def constant(self, node: ast.AST) -> tuple[Any, ...]:
        """The value of a name, maybe dotted, from outside; as a tuple of one, else empty."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or self.home(root.id) is not None:
            return ()
        constants, dotted = self.function.constants, ast.unparse(node)
        return (constant(constants[dotted]),) if dotted in constants else ()


class Scopes:
    """The kernel's scope, of whose parameters some are `fields`, and those that it leads to."""

    def __init__(self, function: Function, fields: Collection[str]) -> None:
        self.all: list[Scope] = []
        self.helpers: dict[int, Scope] = {}
        self._fields = fields
        self._following: set[tuple[Scope, str]] = set()
        self.root = self._helper(function)
        self._calls = [(call, scope) for scope in self.all for call in scope.nodes(ast.Call)]

    def _helper(self, function: Function) -> Scope:
        if id(function) not in self.helpers:
            self.helpers[id(function)] = self._scope(function, copied(function.definition), None)
            for value in map(constant, function.constants.values()):
                if isinstance(value, Function):
                    self._helper(value)
        return self.helpers[id(function)]

    def _scope(self, function: Function, definition: Definition, parent: Scope | None) -> Scope:
        scope = Scope(function, definition, parent)
        self.all.append(scope)
        scope.origins |= {name: [] for name in scope.parameters}
        for node in own_nodes(definition):
            match node:
                case ast.FunctionDef() | ast.Lambda():
                    scope.inner[node] = self._scope(function, node, scope)
                    if isinstance(node, ast.FunctionDef):
                        scope.give(ast.Name(node.name), node)
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        scope.give(target, value)
                case (
                    ast.AnnAssign(target=target, value=ast.expr() as value)
                    | ast.NamedExpr(target=target, value=value)
                ):
                    scope.give(target, value)
                case ast.AugAssign(target=target):
                    # It is computed of itself.
                    scope.give(target, target)
                case (
                    ast.For(target=target, iter=steps)
                    | ast.comprehension(target=target, iter=steps)
                ):
                    scope.give(target, ast.Subscript(steps, _UNKNOWN, ast.Load()))
                case _:
                    pass
        return scope

    def _passed(self, callee: Scope, name: str) -> list[Maybe]:
        """What a parameter is given by the calls of its function."""
        if callee is self.root:
            return [Maybe(frozenset([name])) if name in self._fields else ANYTHING]
        return [
            self._argument(call, scope, callee, name)
            for call, scope in self._calls
            if callee in self.may(call.func, scope).functions
        ]

    def _argument(self, call: ast.Call, scope: Scope, callee: Scope, name: str) -> Maybe:
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        given = {} if starred else dict(zip(callee.parameters, call.args, strict=False))
        given |= {one.arg: one.value for one in call.keywords if one.arg}
        if name in given:
            return self.may(given[name], scope)
        defaults = callee.function.defaults if callee.parent is None else {}
        return of(defaults[name]) if name in defaults else ANYTHING

    def may(self, node: ast.AST, scope: Scope) -> Maybe:
        """What an expression may be."""
        for value in scope.constant(node):
            called = isinstance(value, Function)
            return Maybe(functions=frozenset([self._helper(value)])) if called else of(value)
        may = partial(self.may, scope=scope)
        match node:
            case ast.FunctionDef() | ast.Lambda():
                return Maybe(functions=frozenset([scope.inner[node]]))
            case ast.Constant(value=value):
                return of(value)
            case ast.Name(id=name):
                return self._named(name, scope)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return Maybe(parts=tuple(map(may, elements)))
            case ast.IfExp(body=body, orelse=orelse):
                return may(body) | may(orelse)
            case ast.Subscript(value=base, slice=index):
                at = may(index)
                return may(base).at(at.known[0] if at.bounds and at.known else None)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _computed("-", may(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return _computed(SYMBOLS[type(op)], may(left), may(right))
            case ast.Call(func=function, args=args, keywords=[]):
                return _called(scope.constant(function), list(map(may, args)))
            case _:
                return ANYTHING

    def _named(self, name: str, scope: Scope) -> Maybe:
        home = scope.home(name)
        if home is None or (home, name) in self._following:
            return ANYTHING
        self._following.add((home, name))
        found = [self.may(one, home) for one in home.origins[name]]
        if name in home.parameters:
            found += self._passed(home, name)
        self._following.discard((home, name))
        return reduce(operator.or_, found) if found else ANYTHING


# Arithmetic.

_WHOLE = ("+", "-", "*", "//", "%", "minimum", "maximum", "abs")
_EXTREMES = {min: "minimum", max: "maximum", np.minimum: "minimum", np.maximum: "maximum"}


def _computed(op: Any, *operands: Maybe) -> Maybe:
    """What an operation of integers gives, if nothing reads farther."""
    if op not in _WHOLE:
        return ANYTHING
    refs: Any = [Ref(DType.INT, str(k)) for k in range(len(operands))]
    known = {
        ref.name: Interval(*one.bounds) if one.bounds else I64
        for ref, one in zip(refs, operands, strict=True)
    }
    expr = Binary(DType.INT, op, *refs) if len(refs) == 2 else Unary(DType.INT, op, *refs)
    found = bound(expr, known, {})
    if not found.below(FAR):
        return ANYTHING
    low, high = map(int, found.ends)
    return Maybe(bounds=(low, high), known=(low,) if low == high else ())


def _called(held: tuple[Any, ...], args: list[Maybe]) -> Maybe:
    """What a function of integers gives; of a range a tuple of one that each of its items is."""
    if not held or not args or not callable(held[0]):
        return ANYTHING
    function, bounds = held[0], [one.bounds for one in args if one.bounds]
    if function is range and len(bounds) == len(args):
        (start, last), (first, stop) = ((0, 0), bounds[0]) if len(args) == 1 else bounds[:2]
        step = bounds[2] if len(args) == 3 else (1, 1)
        if step[0] <= 0 <= step[1]:
            return ANYTHING
        ends = (start, max(start, stop - 1)) if step[0] > 0 else (min(last, first + 1), last)
        return Maybe(parts=(Maybe(bounds=ends),))
    if function in _EXTREMES and len(args) > 1:
        return reduce(partial(_computed, _EXTREMES[function]), args)
    if function in (abs, np.abs):
        return _computed("abs", args[0])
    return args[0] if function is int and args[0].bounds else ANYTHING


# Reads.


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

# For each axis an offset, or the first and the last of a window.
Steps: TypeAlias = tuple[tuple[Step, ...], ...]


def accesses(
    scopes: Scopes, neighborhood: Neighborhood | None, pointwise: bool
) -> tuple[dict[ast.Subscript, Steps], Box]:
    """Every read by its node, and the box that holds all; a function of numbers has none to show.

    Raises
    ------
    StencilError
        If a field is assigned to, a read leaves the neighborhood for certain, or how far it
        goes is neither declared nor constant.
    """
    found = list(_reads(scopes))
    if not found and not pointwise:
        function = scopes.root.function
        raise errors.no_field(function.place, function.name)
    declared = neighborhood is not None
    ndim = len(found[0][2] if neighborhood is None else neighborhood)
    reached: list[list[int]] = [list(one) for one in neighborhood or [()] * ndim]
    for node, scope, parts in found:
        if len(parts) != ndim:
            span, name = scope.function.span(node), ast.unparse(node.value)
            raise errors.offset_count(name, len(parts), ndim, declared, span)
        for axis, step in ((axis, step) for axis, steps in enumerate(parts) for step in steps):
            known = step.reached
            if not declared:
                if known is None:
                    raise errors.offset_not_constant(step.span, f"'{ast.unparse(step.node)}'")
                reached[axis] += known
            elif known is not None and known[0] == known[1]:
                least, most = reached[axis]
                if not least <= known[0] <= most:
                    raise errors.offset_outside(step.span, known[0], axis, least, most)
    box = Box(tuple(int(min(one)) for one in reached), tuple(int(max(one)) for one in reached))
    return {node: parts for node, _, parts in found}, box


def _reads(scopes: Scopes) -> Iterator[tuple[ast.Subscript, Scope, Steps]]:
    for scope in scopes.all:
        may = partial(scopes.may, scope=scope)
        for node in scope.nodes(ast.Subscript):
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
        if found.parts is None:
            yield _steps(element, found, span, may)
        for place, part in enumerate(found.parts or ()):
            item = ast.Subscript(element, ast.Constant(place), ast.Load())
            yield _steps(ast.copy_location(item, element), part, span, may)


def _steps(node: ast.expr, found: Maybe, span: Span, may: _May) -> tuple[Step, ...]:
    """An offset, or the first and the last of a window."""
    for value in found.known:
        if isinstance(value, slice):
            ends = (value.start, value.stop, value.step)
            node = ast.Slice(*(None if one is None else ast.Constant(one) for one in ends))
        elif isinstance(value, bool) or not isinstance(value, int):
            raise errors.offset_type(span, words(value))
    if not isinstance(node, ast.Slice):
        return (Step(node, span, found.bounds),)
    if node.step is not None and may(node.step) not in (of(1), of(None)):
        raise errors.window_step(span)
    if node.lower is None or node.upper is None:
        raise errors.window_open(span)
    (first,), (stop,) = (_steps(end, may(end), span, may) for end in (node.lower, node.upper))
    low, high = first.reached, stop.reached
    if low and high and low[0] >= high[1]:
        raise errors.window_empty(span, low[0], high[1])
    last = (high[0] - 1, high[1] - 1) if high else None
    return first, Step(stop.node, span, last, stop=True)
