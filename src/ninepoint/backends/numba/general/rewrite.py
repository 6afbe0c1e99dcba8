"""Rewrite: the user's functions with their reads mapped to places in a block.

x[0, k]           ->     relative.wide(x.array[x.place[0], x.place[1] + 1,
                                relative.near(x.place[2], k, -1, 1, x.outside, 0)])
while test: ...   ->     while test: relative.go_on(x.outside); ...
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....language import errors
from ....language.box import Box
from ....language.definitions import expression, parsed
from ....language.dtypes import computed
from ....language.positions import index
from ....language.source import ArrayFunction, Function, SelfReference, Unusable
from ....language.statistics import in_order
from ....language.values import constant, wrapped
from ....shapes import is_shape
from .. import relative
from ..window_loops import plus
from .reads import Accesses, Step
from .scopes import Scope, Scopes

# What Numba has for arrays only, or not as NumPy has it; and what it has not along an axis.
_OURS: dict[Any, Any] = {
    np.where: relative.chosen,
    np.clip: relative.clipped,
    np.sort: relative.ordered,
    np.median: relative.middle,
    in_order: relative.in_order,
}
_MEASURES = ("len", "shape", "ndim", "size")
_ALONG = "max min mean median std var prod any all ptp".split()


@dataclass(frozen=True, slots=True)
class Context:
    """What the rewriting of every function of one kernel shares.

    It is `pointwise` if its fields are numbers.  No name in it begins with `relative`, which the
    module of that name is called in the text.  What lengths and positions it `asked` for is known
    once it is rewritten.
    """

    scopes: Scopes
    accesses: Accesses
    box: Box
    pointwise: bool
    relative: str
    places: list[str]
    asked: set[str]


class Rewriter(ast.NodeTransformer):
    """Rewrites one function in place, and the functions inside it.

    `constants` are what the names from outside that it then holds mean.
    """

    def __init__(self, context: Context, scope: Scope, outer: Rewriter | None = None) -> None:
        self.context = context
        self.scope = scope
        self.constants: dict[str, Any] = outer.constants if outer else {}
        # The first field, by which all is reached that a kernel is told at run time.
        fields = (p for p in scope.parameters if context.scopes.may(ast.Name(p), scope).fields)
        self.field = next(fields, None)
        # Where loops look whether to go on.
        self.notes: str | None = outer.notes if outer else None
        if self.field:
            self.notes = f"{self.field}.outside"
        if context.pointwise and scope is context.scopes.root:
            self.notes = f"{context.relative}_notes"

    def function(self, given: Collection[str] = ()) -> Function:
        """The function, with the defaults of parameters that are not always given."""
        function, definition = self.scope.function, self.scope.definition
        name = function.name if function.name.isidentifier() else "function"
        tree = parsed(f"def {name}(): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        tree.args = definition.args
        if isinstance(definition, ast.Lambda):
            value = self.visit(definition.body)
            tree.body = [ast.copy_location(ast.Return(value), definition.body)]
        else:
            tree.body = [self.visit(statement) for statement in definition.body]
        tree = ast.fix_missing_locations(ast.copy_location(tree, definition))
        defaults = {n: _default(v) for n, v in function.defaults.items() if n not in given}
        self.constants[self.context.relative] = relative
        return replace(
            function, name=name, columns=None, constants=self.constants, defaults=defaults,
            tree=tree,
        )  # fmt: skip

    def held(self, value: Any) -> ast.expr:
        """A name of a value that the text has not."""
        name = f"{self.context.relative}{len(self.constants)}"
        self.constants[name] = value
        return ast.Name(name, ast.Load())

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
        """A value from outside the kernel."""
        span = self.scope.function.span(node)
        name = ast.unparse(node)
        if isinstance(value, SelfReference):
            raise errors.recursion(span, value.name)
        if isinstance(value, Unusable):
            raise errors.bad_constant(span, name, value.words)
        if isinstance(value, ArrayFunction):
            raise (errors.ufunc_stage if self.context.pointwise else errors.stage_use)(span, name)
        if not isinstance(value, Function):
            try:
                value = _OURS.get(value, value) if callable(value) else value
                value = usable(value)
            except LookupError:
                raise errors.unknown_function(span, name) from None
        self.constants[name] = value
        return node

    def _parsed(self, text: str, node: ast.AST) -> ast.expr:
        """An expression in the place of a node."""
        made = expression(text)
        for part in ast.walk(made):
            ast.copy_location(part, node)
        return made

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.copy_location(ast.arg(node.arg), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inner = Rewriter(self.context, self.scope.inner[node], self)
        node.args = self.visit(node.args)
        node.body = [inner.visit(statement) for statement in node.body]
        node.returns, node.decorator_list = None, []
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        inner = Rewriter(self.context, self.scope.inner[node], self)
        node.args, node.body = self.visit(node.args), inner.visit(node.body)
        return node

    # Loops.

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._looking(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        short = self.context.scopes.may(node.iter, self.scope).parts is not None
        return self.generic_visit(node) if short else self._looking(node)

    def _looking(self, node: ast.While | ast.For) -> ast.AST:
        """A loop that may never end, which looks in each turn whether to go on."""
        self.generic_visit(node)
        if self.notes:
            look = ast.Expr(self._parsed(f"{self.context.relative}.go_on({self.notes})", node))
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
        element = f"{base}.array[{base}.place[0], {', '.join(places)}]"
        return self._parsed(f"{self.context.relative}.wide({element})", node)

    def _near(self, base: str, axis: int, step: Step, node: ast.AST) -> str:
        """The place of an offset along an axis."""
        low, high = self.context.box.lo[axis], self.context.box.hi[axis]
        place, known = f"{base}.place[{axis + 1}]", step.reached
        if known is not None and known[0] == known[1]:
            return plus(place, known[0] - low)
        text = f"({ast.unparse(self.visit(step.node))}) - 1" if step.stop else ""
        text = text or ast.unparse(self.visit(step.node))
        site = len(self.context.places)
        span = self.scope.function.span(node)
        self.context.places.append(f"{axis}|{span.file}|{span.line}")
        near = f"{self.context.relative}.near"
        return f"{near}({place}, {text}, {low}, {high}, {base}.outside, {site})"

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
        along = self._parsed(f"{self.context.relative}.along", node)
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
        try:
            shape = function(*args, **named)
        except (TypeError, ValueError) as error:
            raise errors.wrong_arguments(span, name, str(error)) from error
        return ast.copy_location(self.held(usable(shape)), node)

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


def _default(value: Any) -> Any:
    try:
        return usable(value)
    except LookupError:
        return None


def usable(value: Any) -> Any:
    """A constant as Numba computes with it: integers of arrays are exact.

    Raises
    ------
    LookupError
        For what no compiled kernel can hold.
    """
    value = constant(value)
    match value:
        case bool() | None | float() | complex() | str() | np.generic():
            return value
        case int():
            return value if -(2**63) <= value < 2**64 else wrapped(value)
        case tuple():
            return tuple(map(usable, value))
        case np.ndarray():
            dtype = computed(value.dtype)
            exact = dtype.kind in "iu" and dtype != np.uint64
            return value.astype("int64" if exact else dtype, order="C")
    name = getattr(value, "__name__", "")
    known = (np, np.linalg, math, builtins)
    if value in _OURS.values() or any(getattr(one, name, None) is value for one in known):
        return value
    raise LookupError(value)
