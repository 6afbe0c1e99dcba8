"""Scopes: what a name may be, wherever it stands in a kernel and its helper functions.

    for k in range(-1, 2):        k: an item of range(-1, 2), so -1 .. 1
        s += x[2 * k]             x: the field of that name;  2 * k: -2 .. 2

Every value a name is ever given counts, whatever the order: that is coarse, and always true.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ....language.definitions import Definition
from ....language.source import Function, bound_names
from ....language.trees import copied
from ....language.values import constant

Bounds: TypeAlias = tuple[int, int]

_MANY = 10_000

# A loop of so many turns is short.
_SHORT = 100_000


@dataclass(frozen=True, slots=True)
class Given:
    """A name is given the value of an expression, or (`item`) each item of one in turn.

    `path` leads into the value, as unpacking does.
    """

    node: ast.expr
    scope: Scope
    item: bool = False
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """A name is given a constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A name is a field of the kernel."""

    name: str


@dataclass(frozen=True, slots=True)
class Anything:
    """A name is given something that is not followed."""


Origin: TypeAlias = Given | Known | FieldOf | Anything


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

    def constant(self, node: ast.expr) -> tuple[Any] | None:
        """The value of a name, maybe dotted, from outside; as a tuple of one."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or self.lookup(root.id) is not None:
            return None
        dotted = ast.unparse(node)
        if dotted not in self.function.constants:
            return None
        return (constant(self.function.constants[dotted]),)


class Scopes:
    """The kernel's scope and those of all functions that it leads to."""

    def __init__(self, function: Function, kinds: Mapping[str, Origin]) -> None:
        self.all: list[Scope] = []
        self.helpers: dict[int, Scope] = {}
        self.root = self._helper(function)
        for name in self.root.parameters:
            self.root.origins[name] = [kinds.get(name, Anything())]
        self._linked: set[tuple[int, int]] = set()
        self._active: set[tuple[int, str]] = set()
        while self._link():
            pass

    def _helper(self, function: Function) -> Scope:
        if id(function) not in self.helpers:
            definition = copied(function.definition)
            self.helpers[id(function)] = self._scope(function, definition, None)
        return self.helpers[id(function)]

    def _scope(self, function: Function, definition: Definition, parent: Scope | None) -> Scope:
        scope = Scope(function, definition, parent)
        self.all.append(scope)
        for name in scope.parameters:
            scope.origins[name] = []
        body = definition.body if isinstance(definition.body, list) else [definition.body]
        for statement in body:
            self._collect(statement, scope)
        return scope

    def _collect(self, node: ast.AST, scope: Scope) -> None:
        match node:
            case ast.FunctionDef(name=name):
                scope.inner[node] = self._scope(scope.function, node, scope)
                scope.origins.setdefault(name, []).append(
                    Given(ast.copy_location(_Inner(node), node), scope)
                )
                return
            case ast.Lambda():
                scope.inner[node] = self._scope(scope.function, node, scope)
                return
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._give(target, value, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._give(target, value, scope)
            case ast.NamedExpr(target=target, value=value):
                self._give(target, value, scope)
            case ast.AugAssign(target=ast.Name(id=name)):
                scope.origins.setdefault(name, []).append(Anything())
            case (
                ast.For(target=target, iter=iterable)
                | ast.comprehension(target=target, iter=iterable)
            ):
                self._give(target, iterable, scope, item=True)
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            self._collect(child, scope)

    def _give(
        self,
        target: ast.expr,
        value: ast.expr,
        scope: Scope,
        item: bool = False,
        path: tuple[int, ...] = (),
    ) -> None:
        match target:
            case ast.Name(id=name):
                scope.origins.setdefault(name, []).append(Given(value, scope, item, path))
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                pairs = (
                    value.elts
                    if isinstance(value, ast.Tuple | ast.List) and not item and not path
                    else None
                )
                for k, one in enumerate(targets):
                    if isinstance(one, ast.Starred):
                        for name in bound_names(one):
                            scope.origins.setdefault(name, []).append(Anything())
                    elif pairs is not None and len(pairs) == len(targets):
                        self._give(one, pairs[k], scope)
                    else:
                        self._give(one, value, scope, item, (*path, k))
            case _:
                pass

    # Calls: what parameters are given.

    def _link(self) -> bool:
        """Follow every call once more; True if a parameter was given something new."""
        found = False
        for scope in list(self.all):
            for call in own(scope, ast.Call):
                for callee in self.callees(call.func, scope):
                    key = (id(call), id(callee))
                    if key not in self._linked:
                        self._linked.add(key)
                        self._pass(call, scope, callee)
                        found = True
        return found

    def callees(self, node: ast.expr, scope: Scope) -> list[Scope]:
        """The functions of the user that an expression may be."""
        if isinstance(node, ast.Lambda):
            return [scope.inner[node]]
        if isinstance(node, _Inner):
            return [scope.inner[node.definition]]
        held = scope.constant(node)
        if held is not None:
            return [self._helper(held[0])] if isinstance(held[0], Function) else []
        if isinstance(node, ast.IfExp):
            return self.callees(node.body, scope) + self.callees(node.orelse, scope)
        found: list[Scope] = []
        for origin in self._origins(node, scope):
            if isinstance(origin, Given) and not origin.item and not origin.path:
                found += self.callees(origin.node, origin.scope)
            elif isinstance(origin, Known) and isinstance(origin.value, Function):
                found.append(self._helper(origin.value))
        return found

    def _pass(self, call: ast.Call, scope: Scope, callee: Scope) -> None:
        given: dict[str, Origin] = {}
        parameters = callee.parameters
        starred = any(isinstance(a, ast.Starred) for a in call.args)
        for name, argument in zip(parameters, call.args, strict=False):
            given[name] = Anything() if starred else Given(argument, scope)
        for keyword in call.keywords:
            if keyword.arg is not None:
                given[keyword.arg] = Given(keyword.value, scope)
        for name in parameters:
            if name in given:
                origin = given[name]
            elif callee.parent is None and name in callee.function.defaults:
                origin = Known(constant(callee.function.defaults[name]))
            else:
                origin = Anything()
            callee.origins[name].append(origin)

    def _origins(self, node: ast.expr, scope: Scope) -> Iterator[Origin]:
        """Where the value of a name comes from; nothing while it is being followed already."""
        if not isinstance(node, ast.Name):
            return
        key = (id(scope.lookup(node.id)), node.id)
        if key in self._active:
            yield Anything()
            return
        self._active.add(key)
        try:
            yield from list(scope.lookup(node.id) or ())
        finally:
            self._active.discard(key)

    # What an expression may be.

    def fields(self, node: ast.expr, scope: Scope) -> set[str]:
        """The fields that an expression may be."""
        if isinstance(node, ast.IfExp):
            return self.fields(node.body, scope) | self.fields(node.orelse, scope)
        found: set[str] = set()
        for origin in self._origins(node, scope):
            if isinstance(origin, FieldOf):
                found.add(origin.name)
            elif isinstance(origin, Given) and not origin.item and not origin.path:
                found |= self.fields(origin.node, origin.scope)
        return found

    def values(self, node: ast.expr, scope: Scope) -> list[Any] | None:
        """All the constants that an expression may be; None where it may be anything else."""
        match node:
            case ast.Constant(value=value):
                return [value]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return [-value]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                items = [self.values(e, scope) for e in elements]
                if all(i is not None and len(i) == 1 for i in items):
                    return [tuple(i[0] for i in items if i is not None)]
                return None
            case ast.Subscript(value=base, slice=index):
                return self._items(self.values(base, scope), self.bounds(index, scope))
            case ast.Name() | ast.Attribute():
                held = scope.constant(node)
                if held is not None:
                    return [held[0]]
                return self._named(node, scope)
            case _:
                return None

    def _named(self, node: ast.expr, scope: Scope) -> list[Any] | None:
        found: list[Any] = []
        for origin in self._origins(node, scope):
            if isinstance(origin, Known):
                held: list[Any] | None = [origin.value]
            elif isinstance(origin, Given):
                held = self.values(origin.node, origin.scope)
                if origin.item:
                    held = self._items(held, None)
                for k in origin.path:
                    held = self._items(held, (k, k))
            else:
                held = None
            if held is None:
                return None
            found += held
        return found or None

    def elements(self, node: ast.expr, scope: Scope) -> list[Given] | None:
        """The tuples, all of one length, that a local may be; None where it may be another."""
        found = list(self._origins(node, scope))
        lengths = set()
        for origin in found:
            if not isinstance(origin, Given) or origin.item or origin.path:
                return None
            if not isinstance(origin.node, ast.Tuple):
                return None
            lengths.add(len(origin.node.elts))
        return [o for o in found if isinstance(o, Given)] if len(lengths) == 1 else None

    def _items(self, values: list[Any] | None, index: Bounds | None) -> list[Any] | None:
        """The items of tuples and arrays, or those at one index."""
        found: list[Any] = []
        for value in values or ():
            if not isinstance(value, tuple | np.ndarray):
                return None
            if index is not None and index[0] == index[1]:
                if not -len(value) <= index[0] < len(value):
                    return None
                found.append(constant(value[index[0]]))
            else:
                found += [constant(item) for item in value]
            if len(found) > _MANY:
                return None
        return found or None

    def bounds(self, node: ast.expr, scope: Scope) -> Bounds | None:
        """The least and the greatest integer that an expression may be, from constants only."""
        known = self.values(node, scope)
        if known is not None:
            if all(isinstance(v, int) and not isinstance(v, bool) for v in known):
                return min(known), max(known)
            return None
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.bounds(operand, scope)
                return None if inner is None else (-inner[1], -inner[0])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _CORNERS:
                a, b = self.bounds(left, scope), self.bounds(right, scope)
                if a is None or b is None:
                    return None
                if isinstance(op, ast.FloorDiv) and b[0] <= 0 <= b[1]:
                    return None
                corners = [_CORNERS[type(op)](p, q) for p in a for q in b]
                return min(corners), max(corners)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                a, b = self.bounds(left, scope), self.bounds(right, scope)
                if a is None or b is None or b[0] <= 0:
                    return None
                return 0, b[1] - 1
            case ast.IfExp(body=body, orelse=orelse):
                return _joined([self.bounds(body, scope), self.bounds(orelse, scope)])
            case ast.Call(func=function, args=args, keywords=[]):
                held = scope.constant(function)
                inner_bounds = [self.bounds(a, scope) for a in args]
                if held is None or None in inner_bounds:
                    return None
                return _called(held[0], [b for b in inner_bounds if b is not None])
            case ast.Subscript(value=base, slice=ast.Constant(value=int() as k)):
                tuples = self.elements(base, scope) or []
                parts = [
                    self.bounds(t.node.elts[k], t.scope)
                    for t in tuples
                    if isinstance(t.node, ast.Tuple) and 0 <= k < len(t.node.elts)
                ]
                return _joined(parts)
            case ast.Name():
                return self._named_bounds(node, scope)
            case _:
                return None

    def _named_bounds(self, node: ast.Name, scope: Scope) -> Bounds | None:
        parts: list[Bounds | None] = []
        for origin in self._origins(node, scope):
            if isinstance(origin, Known) and type(origin.value) is int:
                parts.append((origin.value, origin.value))
            elif not isinstance(origin, Given):
                return None
            elif origin.item and not origin.path and isinstance(origin.node, ast.Call):
                parts.append(self._range(origin.node, origin.scope))
            elif origin.item or origin.path:
                one = ast.Name(node.id, ast.Load())
                known = self.values(one, _only(scope, node.id, origin))
                if known is None or not all(type(v) is int for v in known):
                    return None
                parts.append((min(known), max(known)))
            else:
                parts.append(self.bounds(origin.node, origin.scope))
        return _joined(parts)

    def is_field(self, name: str, scope: Scope) -> bool:
        """Whether a parameter is a field in each call."""
        origins = scope.origins.get(name, [])
        return bool(origins) and all(
            isinstance(origin, FieldOf)
            or (
                isinstance(origin, Given)
                and not (origin.item or origin.path)
                and bool(self.fields(origin.node, origin.scope))
            )
            for origin in origins
        )

    def finite(self, node: ast.expr, scope: Scope) -> bool:
        """Whether what a loop goes through is known to be short."""
        if isinstance(node, ast.Call):
            bounds = self._range(node, scope)
            return bounds is not None and bounds[1] - bounds[0] < _SHORT
        return True

    def _range(self, call: ast.Call, scope: Scope) -> Bounds | None:
        held = scope.constant(call.func)
        ends = [self.bounds(a, scope) for a in call.args]
        if held is None or held[0] is not range or not ends or None in ends:
            return None
        known = [e for e in ends if e is not None]
        start, stop = ((0, 0), known[0]) if len(known) == 1 else (known[0], known[1])
        step = known[2] if len(known) == 3 else (1, 1)
        if step[0] > 0:
            return (start[0], max(start[0], stop[1] - 1))
        if step[1] < 0:
            return (min(start[1], stop[0] + 1), start[1])
        return None


class _Inner(ast.expr):
    """A function defined inside the kernel, where an expression is expected."""

    _fields = ()

    def __init__(self, definition: ast.FunctionDef) -> None:
        super().__init__()
        self.definition = definition


def own(scope: Scope, kind: Any) -> Iterator[Any]:
    """The nodes of a kind in a function, leaving out those of the functions inside it."""
    pending: list[ast.AST] = list(
        scope.definition.body
        if isinstance(scope.definition.body, list)
        else [scope.definition.body]
    )
    while pending:
        node = pending.pop(0)
        if isinstance(node, kind):
            yield node
        if node not in scope.inner:
            pending[:0] = list(ast.iter_child_nodes(node))


def _only(scope: Scope, name: str, origin: Origin) -> Scope:
    return Scope(scope.function, scope.definition, scope, {name: [origin]})


def _joined(parts: list[Bounds | None]) -> Bounds | None:
    known = [p for p in parts if p is not None]
    if not known or len(known) < len(parts):
        return None
    return min(p[0] for p in known), max(p[1] for p in known)


_CORNERS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
}


def _called(function: Any, args: list[Bounds]) -> Bounds | None:
    if function in (min, max, np.minimum, np.maximum) and len(args) > 1:
        pick = min if function in (min, np.minimum) else max
        return pick(a[0] for a in args), pick(a[1] for a in args)
    if function in (abs, np.abs) and len(args) == 1:
        low, high = args[0]
        return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    if function is int and len(args) == 1:
        return args[0]
    return None
