"""Rewrite: the user's functions with their reads mapped to places in a block.

x[0, k]           ->     wide(x.array[x.place[0], x.place[1] + 1,
                                      near(x.place[2], k, -1, 1, x.outside, 0)])
while test: ...   ->     while test: go_on(x.outside); ...
"""

from __future__ import annotations

import ast
import builtins
import math
from dataclasses import dataclass, field
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
from ..window_loops import plus
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
_MEASURES = ("len", "shape", "ndim", "size")
_ALONG = "max min mean median std var prod any all ptp".split()


@dataclass(slots=True)
class Globals:
    """The constants and the names of functions of the generated module."""

    reserved: frozenset[str]
    taken: frozenset[str]
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)

    def fresh(self, name: str) -> str:
        """A name that nothing in the generated text has."""
        new = name if name.isidentifier() else "function"
        used = {*self.reserved, *self.taken, *self.names.values()}
        while new in used:
            new += "_"
        return new

    def constant(self, name: str, value: Any, text: str) -> str:
        """The name of a constant of the module."""
        if id(value) not in self.names:
            self.names[id(value)] = self.fresh(name)
            self.held.append(value)
            self.lines.append(f"{self.names[id(value)]} = {text}")
        return self.names[id(value)]


@dataclass(frozen=True, slots=True)
class Context:
    """What the rewriting of every function of one kernel shares.

    It is `pointwise` if its fields are numbers.  What lengths and positions it `asked` for is
    known once it is rewritten.
    """

    scopes: Scopes
    accesses: Accesses
    box: Box
    pointwise: bool
    globals: Globals
    places: list[str]
    asked: set[str]


class Rewriter(ast.NodeTransformer):
    """Rewrites one function in place, and the functions inside it."""

    def __init__(self, context: Context, scope: Scope, notes: str | None = None) -> None:
        self.context = context
        self.scope = scope
        # The first field, by which all is reached that a kernel is told at run time.
        fields = (p for p in scope.parameters if context.scopes.may(ast.Name(p), scope).fields)
        self.field = next((self.local(name) for name in fields), None)
        # Where loops look whether to go on.
        self.notes = f"{self.field}.outside" if self.field else notes
        if context.pointwise and scope is context.scopes.root:
            self.notes = "outside"

    def body(self) -> list[ast.stmt]:
        """The statements of the function."""
        definition = self.scope.definition
        if isinstance(definition, ast.Lambda):
            value = self.visit(definition.body)
            return [ast.copy_location(ast.Return(value), definition.body)]
        return [self.visit(statement) for statement in definition.body]

    # Names.

    def local(self, name: str) -> str:
        """A name of the user's own in the generated text."""
        while name in self.context.globals.reserved:
            name += "_"
        return name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        for value in self.scope.constant(node):
            return self._outer(node, value)
        return ast.copy_location(ast.Name(self.local(node.id), node.ctx), node)

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
        text: str | None
        if isinstance(value, Function):
            text = self.context.globals.names[id(value)]
        else:
            text = _OURS.get(value) if callable(value) else None
            text = text or text_of(value)
            if text is None:
                raise errors.unknown_function(span, name)
            if isinstance(value, np.ndarray | tuple):
                text = self.context.globals.constant(name.replace(".", "_"), value, text)
        return self._parsed(text, node)

    def _parsed(self, text: str, node: ast.AST) -> ast.expr:
        """An expression in the place of a node."""
        made = expression(text)
        for part in ast.walk(made):
            ast.copy_location(part, node)
        return made

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.copy_location(ast.arg(self.local(node.arg)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inner = Rewriter(self.context, self.scope.inner[node], self.notes)
        node.args = self.visit(node.args)
        node.name, node.body = self.local(node.name), inner.body()
        node.returns, node.decorator_list = None, []
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        inner = Rewriter(self.context, self.scope.inner[node], self.notes)
        node.args, node.body = self.visit(node.args), inner.visit(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.Assign([self.visit(node.target)], self.visit(node.value))
        return ast.copy_location(plain, node)

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
            look = ast.Expr(self._parsed(f"go_on({self.notes})", node))
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
        return self._parsed(f"wide({base}.array[{base}.place[0], {', '.join(places)}])", node)

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
        return f"near({place}, {text}, {low}, {high}, {base}.outside, {site})"

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
        return ast.copy_location(ast.Call(ast.Name("along", ast.Load()), values, []), node)

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
        text = str(text_of(shape))
        return self._parsed(self.context.globals.constant("shape", shape, text), node)

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


# Texts of the values that a kernel finds outside itself: numbers, arrays, functions.
#
#     0.25     ->  0.25                    np.sqrt           ->  np.sqrt
#     (1, 2)   ->  (1, 2)                  array([1, 2])     ->  np.array([1, 2], dtype=np.int64)


def text_of(value: Any) -> str | None:
    """A constant as an expression; None for what no compiled kernel can hold."""
    value = constant(value)
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(value if -(2**63) <= value < 2**64 else wrapped(value))
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({_number(value.item())})"
    if isinstance(value, float | complex):
        return _number(value)
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, tuple):
        items = [text_of(item) for item in value]
        if any(item is None for item in items):
            return None
        return f"({', '.join(str(i) for i in items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, np.ndarray):
        return _array(value)
    return function_text(value)


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return f"({value!r})" if value < 0 else repr(value)


def _array(value: np.ndarray) -> str:
    """An array; its integers are exact, so they become int64 unless they are uint64."""
    dtype = computed(value.dtype)
    if dtype.kind in "iu" and dtype != np.uint64:
        dtype = np.dtype("int64")
    text = str if dtype.kind == "b" else _number
    numbers = [text(item) for item in value.ravel().tolist()]
    rows = [", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
    inner = ",\n    ".join(rows)
    return f"np.array([\n    {inner},\n], dtype=np.{dtype.name}).reshape({value.shape})"


def function_text(value: Any) -> str | None:
    """Where a function or a type of Python or NumPy is found."""
    name = getattr(value, "__name__", "")
    if value is np.bool:
        return "np.bool_"
    for module, prefix in (
        (np, "np."),
        (np.linalg, "np.linalg."),
        (math, "math."),
        (builtins, ""),
    ):
        if name and getattr(module, name, None) is value:
            return prefix + name
    return None
