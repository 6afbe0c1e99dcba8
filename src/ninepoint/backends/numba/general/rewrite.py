"""Rewrite: the user's functions with their reads mapped to places in a block.

x[0, k]           ->     wide_(x.array[x.place[0], x.place[1] + 1,
                                       near_(x.place[2], k, -1, 1, x.outside, 0)])
while test: ...   ->     while test: go_on_(x.outside); ...

All other names stay the user's, and mean what they did.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....language import errors
from ....language.box import Box
from ....language.definitions import expression
from ....language.dtypes import computed
from ....language.positions import index
from ....language.source import ArrayFunction, Function, SelfReference, Unusable
from ....language.statistics import in_order
from ....language.values import constant, wrapped
from ....shapes import is_shape
from ..points import plus
from .reads import Accesses, Step
from .scopes import Scope, Scopes

# What Numba has for arrays only, or not as NumPy has it; and what it has not along an axis.
_OURS: dict[Any, str] = {
    np.where: "chosen",
    np.clip: "clipped",
    np.sort: "ordered",
    np.median: "middle",
    in_order: "in_order",
}
_ALONG = "max min mean median std var prod any all ptp".split()
_MEASURES = ("len", "shape", "ndim", "size")

# What takes memory for each point, besides windows.
_MAKERS = {np.empty, np.zeros, np.ones, np.full, np.array, np.sort, np.median, in_order}


@dataclass(frozen=True, slots=True)
class Context:
    """What the rewriting of every function of one kernel shares.

    It is `pointwise` if its fields are numbers.  Words of ours end as no name of the user's does:
    in the `suffix`.  What lengths and positions it `asked` for, whether it has "loops" and makes
    arrays ("making") is known once it is rewritten.
    """

    scopes: Scopes
    accesses: Accesses
    box: Box
    pointwise: bool
    suffix: str
    places: list[str]
    asked: set[str]
    helpers: dict[int, Function]

    def helper(self, function: Function) -> Function:
        """A function of the user's that is called, rewritten."""
        if id(function) not in self.helpers:
            rewriter = Rewriter(self, self.scopes.helpers[id(function)], {})
            self.helpers[id(function)] = rewriter.function(rewriter.scope.parameters)
        return self.helpers[id(function)]


class Rewriter(ast.NodeTransformer):
    """Rewrites one function in place, and the functions inside it.

    It gathers the values of the names from outside that it keeps, as Numba takes them.
    """

    def __init__(
        self, context: Context, scope: Scope, known: dict[str, Any], notes: str | None = None
    ) -> None:
        self.context, self.scope, self.known = context, scope, known
        # The first field, by which all is reached that a kernel is told at run time.
        fields = (p for p in scope.parameters if context.scopes.may(ast.Name(p), scope).fields)
        self.field = next(fields, None)
        # Where loops look whether to go on.
        self.notes = f"{self.field}.outside" if self.field else notes
        if context.pointwise and scope is context.scopes.root:
            self.notes = self.own("outside")

    def function(self, given: Container[str]) -> Function:
        """The function, called with these of its parameters: all others are their defaults."""
        definition, function, body = self.scope.definition, self.scope.function, self.body()
        root = self.scope is self.context.scopes.root
        parameters = [name for name in self.scope.parameters if name in given]
        for name in self.scope.parameters:
            if name not in given:
                # At the top, for it may be assigned to.
                self.known[self.own(name)] = _default(function, name)
                fixed = ast.Assign([ast.Name(name, ast.Store())], expression(self.own(name)))
                body.insert(0, ast.copy_location(fixed, body[0]))
        parameters += [self.own("outside")] if self.notes == self.own("outside") else []
        tree = ast.FunctionDef(
            name="point" if root else function.name.replace("<lambda>", "function"),
            args=ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, []),
            body=body,
            decorator_list=[],
        )
        ast.fix_missing_locations(ast.copy_location(tree, definition))
        at = next((k for k, n in enumerate(parameters) if n in function.defaults), len(parameters))
        # All arguments of a point are given; what has no default behind one that does, by name.
        last = [] if root else parameters[at:]
        defaults = {name: _default(function, name) for name in last}
        return replace(function, tree=tree, constants=self.known, defaults=defaults)

    def body(self) -> list[ast.stmt]:
        """The statements of the function."""
        definition = self.scope.definition
        if isinstance(definition, ast.Lambda):
            value = self.visit(definition.body)
            return [ast.copy_location(ast.Return(value), definition.body)]
        return [self.visit(statement) for statement in definition.body]

    def own(self, word: str) -> str:
        """A word of ours."""
        return word + self.context.suffix

    # Names.

    def visit_Name(self, node: ast.Name) -> ast.AST:
        for value in self.scope.constant(node):
            return self._outer(node, value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        for value in self.scope.constant(node):
            return self._outer(node, value)
        return self._measure(node.attr, node.value, node) or self.generic_visit(node)

    def _measure(self, name: str, field: ast.expr, node: ast.expr) -> ast.expr | None:
        """How large a field is."""
        if name not in _MEASURES or not self.context.scopes.may(field, self.scope).fields:
            return None
        self.context.asked.add("lengths")
        shape = f"{ast.unparse(self.visit(field))}.shape"
        lengths = [f"{shape}[{axis}]" for axis in range(self.context.box.ndim)]
        texts = {"len": lengths[0], "ndim": str(len(lengths)), "size": " * ".join(lengths)}
        return self._parsed(texts.get(name, shape), node)

    def _outer(self, node: ast.expr, value: Any) -> ast.AST:
        """A name from outside the kernel, and what it means there."""
        span, name = self.scope.function.span(node), ast.unparse(node)
        if isinstance(value, SelfReference):
            raise errors.recursion(span, value.name)
        if isinstance(value, Unusable):
            raise errors.bad_constant(span, name, value.words)
        if isinstance(value, ArrayFunction):
            raise (errors.ufunc_stage if self.context.pointwise else errors.stage_use)(span, name)
        if isinstance(value, Function):
            self.known[name] = self.context.helper(value)
            return node
        if callable(value):
            if value in _MAKERS or getattr(value, "__name__", "").startswith("nan"):
                self.context.asked.add("making")
            if value in _OURS:
                return self._parsed(self.own(_OURS[value]), node)
        try:
            self.known[name] = _held(value)
        except LookupError:
            raise errors.unknown_function(span, name) from None
        return node

    def _parsed(self, text: str, node: ast.AST) -> ast.expr:
        """An expression in the place of a node."""
        made = expression(text)
        for part in ast.walk(made):
            ast.copy_location(part, node)
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self._inner(node).body()
        node.returns, node.decorator_list = None, []
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = self._inner(node).visit(node.body)
        return node

    def _inner(self, node: ast.FunctionDef | ast.Lambda) -> Rewriter:
        """What rewrites the body of a function inside this one."""
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        node.args = self.visit(node.args)
        return Rewriter(self.context, self.scope.inner[node], self.known, self.notes)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    # Loops.

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._looking(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.context.asked.add("loops")
        short = self.context.scopes.may(node.iter, self.scope).parts is not None
        return self.generic_visit(node) if short else self._looking(node)

    def _looking(self, node: ast.While | ast.For) -> ast.AST:
        """A loop that may never end, which looks in each turn whether to go on."""
        self.context.asked.add("loops")
        self.generic_visit(node)
        if self.notes:
            look = ast.Expr(self._parsed(f"{self.own('go_on')}({self.notes})", node))
            node.body.insert(0, ast.copy_location(look, node))
        return node

    # Reads.

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        access = self.context.accesses.get(node)
        if access is None:
            return self.generic_visit(node)
        base = ast.unparse(self.visit(node.value))
        base = base if base.isidentifier() else f"({base})"
        places = [
            ":".join(self._near(base, axis, step, node) + " + 1" * step.stop for step in steps)
            for axis, steps in enumerate(access)
        ]
        if any(len(steps) > 1 for steps in access):
            self.context.asked.add("making")
        read = f"{base}.array[{base}.place[0], {', '.join(places)}]"
        return self._parsed(f"{self.own('wide')}({read})", node)

    def _near(self, base: str, axis: int, step: Step, node: ast.AST) -> str:
        """The place of an offset along an axis."""
        low, high = self.context.box.lo[axis], self.context.box.hi[axis]
        place, known = f"{base}.place[{axis + 1}]", step.reached
        if known is not None and known[0] == known[1]:
            return plus(place, known[0] - low)
        text = ast.unparse(self.visit(step.node))
        text = f"({text}) - 1" if step.stop else text
        site = len(self.context.places)
        span = self.scope.function.span(node)
        self.context.places.append(f"{axis}|{span.file}|{span.line}")
        return f"{self.own('near')}({place}, {text}, {low}, {high}, {base}.outside, {site})"

    # Calls.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if any(keyword.arg is None for keyword in node.keywords):
            span = self.scope.function.span(node)
            raise errors.unsupported(span, "'**' in a call", "Name each argument.")
        for function in self.scope.constant(node.func):
            if is_shape(function):
                return self._shape(node, function)
            if function is index:
                return self._position(node)
            name = getattr(function, "__name__", "")
            found = self._measure(name, node.args[0], node) if len(node.args) == 1 else None
            if found is not None:
                return found
        return self._along(node) or self.generic_visit(node)

    def _along(self, node: ast.Call) -> ast.AST | None:
        """What reduces a window along one axis, as a function or a method."""
        options = [one.value for one in node.keywords if one.arg == "axis"]
        if not isinstance(node.func, ast.Attribute) or len(options) < len(node.keywords):
            return None
        name, given = node.func.attr, [*node.args, *options]
        if not self.scope.constant(node.func):
            given = [node.func.value, *given]
        name = {"amax": "max", "amin": "min"}.get(name, name)
        if name not in _ALONG or len(given) != 2:
            return None
        values = [ast.Constant(name), *map(self.visit, given)]
        along = ast.Name(self.own("along"), ast.Load())
        return ast.copy_location(ast.Call(along, values, []), node)

    def _shape(self, node: ast.Call, function: Any) -> ast.AST:
        """The shape of a window that constant arguments say."""
        span, name = self.scope.function.span(node), ast.unparse(node.func)

        def known(argument: ast.expr) -> Any:
            held = self.scope.constant(argument)
            try:
                return held[0] if held else ast.literal_eval(argument)
            except ValueError:
                raise errors.shape_varies(span, name) from None

        args, named = [*map(known, node.args)], {str(k.arg): known(k.value) for k in node.keywords}
        own = self.own(f"shape{len(self.known)}")
        try:
            self.known[own] = _held(function(*args, **named))
        except (TypeError, ValueError) as error:
            raise errors.wrong_arguments(span, name, str(error)) from error
        return self._parsed(own, node)

    def _position(self, node: ast.Call) -> ast.AST:
        """`npt.index(x)`, or `npt.index()` for the position among the results."""
        span, scopes, base = self.scope.function.span(node), self.context.scopes, self.field
        if self.context.pointwise:
            raise errors.ufunc_position(span)
        if node.keywords or len(node.args) > 1:
            raise errors.wrong_arguments(span, "npt.index", "it takes one field, or nothing")
        for argument in node.args:
            base = ast.unparse(self.visit(argument))
            if not scopes.may(argument, self.scope).fields:
                raise errors.position_field(span, f"'{ast.unparse(argument)}'")
        if base is None:
            raise errors.position_helper(span)
        among = "elements" if node.args else "results"
        self.context.asked.add(among)
        text = f"{base}.{'index' if node.args else 'among'}"
        return self._parsed(text + ("" if self.context.box.ndim > 1 else "[0]"), node)


def _default(function: Function, name: str) -> Any:
    """The default of a parameter, as Numba is given it; None where there is none that it takes."""
    with suppress(LookupError):
        return _held(function.defaults[name])
    return None


def _held(value: Any) -> Any:
    """A value from outside as Numba is given it: integers are exact, so those of arrays are int64.

    Raises
    ------
    LookupError
        If it is no number, and no function of Python's or NumPy's.
    """
    value = constant(value)
    match value:
        case bool() | float() | complex() | str() | None | np.generic():
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else wrapped(value)
        case tuple():
            return tuple(map(_held, value))
        case np.ndarray():
            dtype = computed(value.dtype)
            exact = dtype.kind in "iu" and dtype != np.uint64
            return value.astype(np.int64 if exact else dtype)
    name = getattr(value, "__name__", "")
    if name and any(getattr(m, name, None) is value for m in (np, np.linalg, math, builtins)):
        return value
    raise LookupError(name)
