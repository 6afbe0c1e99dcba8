"""Scopes: what a name may be, wherever it stands in a kernel and its helper functions.

    for k in range(-1, 2):        k: an item of range(-1, 2), so -1 .. 1
        s += x[2 * k]             x: the field of that name;  2 * k: -2 .. 2

Every value a name is ever given counts, whatever the order: that is coarse, and always true.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ....language.definitions import Definition, copied
from ....language.source import Function
from ....language.values import constant

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
            parts = tuple(a | b for a, b in zip(self.parts, other.parts, strict=True))
        return Maybe(self.fields | other.fields, self.functions | other.functions, bounds, parts)

    def at(self, place: int | None) -> Maybe:
        """What an item is, or any of them."""
        if not self.parts:
            return ANYTHING
        if place is None:
            return _joined(self.parts)
        return self.parts[place] if -len(self.parts) <= place < len(self.parts) else ANYTHING


ANYTHING = Maybe()

# What a name is given somewhere.
Origin: TypeAlias = Callable[[], Maybe]


def _joined(several: Sequence[Maybe]) -> Maybe:
    found = several[0]
    for one in several[1:]:
        found = found | one
    return found


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
    """A function, the kernel's or a helper's, and where its names come from."""

    function: Function
    definition: Definition
    parent: Scope | None
    origins: dict[str, list[Origin]] = field(default_factory=dict)
    inner: dict[ast.AST, Scope] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        a = self.definition.args
        return [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]

    def lookup(self, name: str) -> list[Origin] | None:
        """Where a name comes from; None for a name from outside the kernel."""
        if name in self.origins:
            return self.origins[name]
        return self.parent.lookup(name) if self.parent is not None else None

    def give(self, target: ast.expr, origin: Origin) -> None:
        """Note what a target is given."""
        match target:
            case ast.Name(id=name):
                self.origins.setdefault(name, []).append(origin)
            case ast.Starred(value=inner):
                self.give(inner, _anything)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for place, one in enumerate(targets):
                    self.give(one, partial(_item, origin, place))
            case _:
                pass

    def constant(self, node: ast.AST) -> tuple[Any, ...]:
        """The value of a name, maybe dotted, from outside; as a tuple of one, else empty."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or self.lookup(root.id) is not None:
            return ()
        constants, dotted = self.function.constants, ast.unparse(node)
        return (constant(constants[dotted]),) if dotted in constants else ()


def _anything() -> Maybe:
    return ANYTHING


def _item(origin: Origin, place: int | None) -> Maybe:
    return origin().at(place)


class Scopes:
    """The kernel's scope and those of all functions that it leads to."""

    def __init__(self, function: Function, given: Mapping[str, Maybe]) -> None:
        self.all: list[Scope] = []
        self.helpers: dict[int, Scope] = {}
        self._following: set[tuple[int, str]] = set()
        self.root = self._helper(function)
        for name in self.root.parameters:
            self.root.origins[name] = [partial(given.__getitem__, name)]
        linked: set[tuple[ast.Call, Scope]] = set()
        before = -1
        while before < len(linked):
            before = len(linked)
            for scope in list(self.all):
                for call in own(scope, ast.Call):
                    for callee in self.may(call.func, scope).functions:
                        if (call, callee) not in linked:
                            linked.add((call, callee))
                            self._pass(call, scope, callee)

    def _helper(self, function: Function) -> Scope:
        if id(function) not in self.helpers:
            definition = copied(function.definition)
            self.helpers[id(function)] = self._scope(function, definition, None)
        return self.helpers[id(function)]

    def _scope(self, function: Function, definition: Definition, parent: Scope | None) -> Scope:
        scope = Scope(function, definition, parent)
        self.all.append(scope)
        scope.origins = {name: [] for name in scope.parameters}
        body = definition.body if isinstance(definition.body, list) else [definition.body]
        for statement in body:
            self._collect(statement, scope)
        return scope

    def _collect(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.Lambda():
                scope.inner[node] = self._scope(scope.function, node, scope)
                if isinstance(node, ast.FunctionDef):
                    scope.give(ast.Name(node.name), partial(self.may, node, scope))
                return
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    scope.give(target, partial(self.may, value, scope))
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                scope.give(target, partial(self.may, value, scope))
            case ast.AugAssign(target=target):
                # It is computed of itself.
                scope.give(target, partial(self.may, target, scope))
            case ast.For(target=target, iter=steps) | ast.comprehension(target=target, iter=steps):
                scope.give(target, partial(_item, partial(self.may, steps, scope), None))
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            self._collect(child, scope)

    def _pass(self, call: ast.Call, scope: Scope, callee: Scope) -> None:
        """Note what parameters are given by a call."""
        given: dict[str, ast.expr] = {}
        if not any(isinstance(one, ast.Starred) for one in call.args):
            given |= zip(callee.parameters, call.args, strict=False)
        given |= {one.arg: one.value for one in call.keywords if one.arg}
        defaults = callee.function.defaults if callee.parent is None else {}
        for name in callee.parameters:
            origin: Origin = partial(of, defaults[name]) if name in defaults else _anything
            if name in given:
                origin = partial(self.may, given[name], scope)
            callee.origins[name].append(origin)

    def may(self, node: ast.AST, scope: Scope) -> Maybe:
        """What an expression may be."""
        for value in scope.constant(node):
            called = isinstance(value, Function)
            return Maybe(functions=frozenset([self._helper(value)])) if called else of(value)
        match node:
            case ast.FunctionDef() | ast.Lambda():
                return Maybe(functions=frozenset([scope.inner[node]]))
            case ast.Constant(value=value):
                return of(value)
            case ast.Name(id=name):
                return self._named(name, scope)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return Maybe(parts=tuple(self.may(one, scope) for one in elements))
            case ast.IfExp(body=body, orelse=orelse):
                return self.may(body, scope) | self.may(orelse, scope)
            case ast.Subscript(value=base, slice=index):
                at = self.may(index, scope)
                return self.may(base, scope).at(at.known[0] if at.bounds and at.known else None)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _computed(operator.sub, of(0), self.may(operand, scope))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _CORNERS:
                both = self.may(left, scope), self.may(right, scope)
                return _computed(_CORNERS[type(op)], *both)
            case ast.BinOp(op=ast.Mod(), right=right):
                size = self.may(right, scope).bounds
                return Maybe(bounds=(0, size[1] - 1)) if size and size[0] > 0 else ANYTHING
            case ast.Call(func=function, args=args, keywords=[]):
                return _called(scope.constant(function), [self.may(a, scope) for a in args])
            case _:
                return ANYTHING

    def _named(self, name: str, scope: Scope) -> Maybe:
        origins = scope.lookup(name)
        key = (id(origins), name)
        if not origins or key in self._following:
            return ANYTHING
        self._following.add(key)
        found = _joined([origin() for origin in origins])
        self._following.discard(key)
        return found


def own(scope: Scope, kind: Any) -> Iterator[Any]:
    """The nodes of a kind in a function, leaving out those of the functions inside it."""
    body = scope.definition.body
    pending: list[ast.AST] = list(body) if isinstance(body, list) else [body]
    while pending:
        node = pending.pop(0)
        if isinstance(node, kind):
            yield node
        if node not in scope.inner:
            pending[:0] = list(ast.iter_child_nodes(node))


_CORNERS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def _computed(function: Callable[[int, int], int], left: Maybe, right: Maybe) -> Maybe:
    a, b = left.bounds, right.bounds
    if not a or not b or (function is operator.floordiv and b[0] <= 0 <= b[1]):
        return ANYTHING
    return _between(function(p, q) for p in a for q in b)


def _between(numbers: Iterable[int]) -> Maybe:
    found = sorted(numbers)
    return Maybe(bounds=(found[0], found[-1]), known=(found[0],) if found[0] == found[-1] else ())


def _called(held: tuple[Any, ...], args: list[Maybe]) -> Maybe:
    """What a function of integers gives; of a range a tuple of one that each of its items is."""
    bounds = [one.bounds for one in args if one.bounds]
    if not held or not args or len(bounds) < len(args):
        return ANYTHING
    function, low, high = held[0], bounds[0][0], bounds[0][1]
    if function is range:
        (start, last), (first, stop) = ((0, 0), bounds[0]) if len(args) == 1 else bounds[:2]
        step = bounds[2] if len(args) == 3 else (1, 1)
        if step[0] <= 0 <= step[1]:
            return ANYTHING
        ends = (start, max(start, stop - 1)) if step[0] > 0 else (min(last, first + 1), last)
        return Maybe(parts=(Maybe(bounds=ends),))
    if function in (min, max, np.minimum, np.maximum) and len(args) > 1:
        pick = min if function in (min, np.minimum) else max
        return _between(pick(b[k] for b in bounds) for k in range(2))
    if function in (abs, np.abs):
        return _between([0 if low <= 0 <= high else min(-low, high, key=abs), max(-low, high)])
    return args[0] if function is int else ANYTHING
