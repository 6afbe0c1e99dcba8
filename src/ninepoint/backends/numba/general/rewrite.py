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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ....language import errors
from ....language.box import Box, Neighborhood, joined
from ....language.definitions import ArrayFunction, Function, SelfReference, Unusable, expression
from ....language.dtypes import Argument, Field, computed
from ....language.frame import refuse
from ....language.functions import is_shape
from ....language.positions import index
from ....language.statistics import in_order
from ....language.values import constant, wrapped
from .. import relative
from ..points import plus
from ..users import suffix
from .reads import Scope, Scopes, Step, accesses

# What Numba has for arrays only, or not as NumPy has it; and what it has not along an axis.
_OURS: dict[Any, Any] = {
    np.where: relative.chosen,
    np.clip: relative.clipped,
    np.sort: relative.ordered,
    np.median: relative.middle,
    in_order: relative.in_order,
}
_ALONG = "max min mean median std var prod any all ptp".split()
_MEASURES = ("len", "shape", "ndim", "size")

# What takes memory for each point, besides windows.
_MAKERS = {np.empty, np.zeros, np.ones, np.full, np.array, np.sort, np.median, in_order}


class Rewriter(ast.NodeTransformer):
    """Rewrites the functions of a kernel, one after the other.

    Attributes
    ----------
    pointwise : bool
        Whether fields are numbers.
    box : Box
        How far the kernel looks.
    suffix : str
        How words of ours end, and no name of the user's.
    helpers : dict
        The functions that were rewritten because they are called, by those that they were.
    places : list of str
        Where each read stands that is checked at run time.
    asked : set of str
        The "lengths" and positions (among "elements" and "results") that are asked for, and
        whether there are "loops", and arrays are made ("making").
    """

    def __init__(
        self,
        function: Function,
        arguments: Mapping[str, Argument],
        neighborhood: Neighborhood | None,
    ) -> None:
        self.pointwise = any(isinstance(a, Field) and a.pointwise for a in arguments.values())
        fields = [n for n, a in arguments.items() if isinstance(a, Field) and not a.pointwise]
        self.scopes = scopes = Scopes(function, fields)
        for scope in scopes.all:
            refuse(scope.function)
        self._accesses, self.box = accesses(scopes, neighborhood, self.pointwise)
        if any(one is index for s in scopes.all for one in s.function.constants.values()):
            # A position is read at the point itself.
            self.box = joined((self.box, Box((0,) * self.box.ndim, (0,) * self.box.ndim)))
        self.suffix = suffix(scope.definition for scope in scopes.all)
        self.helpers: dict[int, Function] = {}
        self.places: list[str] = []
        self.asked: set[str] = set()

    def _enter(self, scope: Scope, notes: str | None) -> None:
        """Go on with a function, whose loops look into `notes` if it has no field."""
        self._scope = scope
        # The first field, by which all is reached that a kernel is told at run time.
        fields = (p for p in scope.parameters if self._fields(ast.Name(p)))
        self._field = next(fields, None)
        self._notes = f"{self._field}.outside" if self._field else notes

    def _fields(self, node: ast.expr) -> frozenset[str]:
        """The fields that an expression may be."""
        return self.scopes.may(node, self._scope).fields

    def own(self, word: str) -> str:
        """A word of ours."""
        return word + self.suffix

    # Functions.

    def function(self, scope: Scope) -> Function:
        """The kernel itself, or a function of the user's that it calls, rewritten."""
        function, definition, parameters = scope.function, scope.definition, scope.parameters
        name, outside = function.name.replace("<lambda>", "function"), None
        if scope is self.scopes.root:
            name = "point"
            if self.pointwise:
                outside = self.own("outside")
                parameters = [*parameters, outside]
        self._enter(scope, outside)
        self._known = known = dict[str, Any]()
        body = definition.body
        if not isinstance(body, list):
            body = [ast.copy_location(ast.Return(body), body)]
        body = list(map(self.visit, body))
        tree = ast.FunctionDef(
            name=name,
            args=ast.arguments([], [ast.arg(p) for p in parameters], None, [], [], None, []),
            body=body,
            decorator_list=[],
        )
        ast.fix_missing_locations(ast.copy_location(tree, definition))
        known |= dict(self._outer(function, tree))
        # What has no default behind one that does is given by name.
        at = next((k for k, n in enumerate(parameters) if n in function.defaults), None)
        last = [] if at is None else parameters[at:]
        defaults = {name: _default(function, name) for name in last}
        return replace(function, tree=tree, constants=known, defaults=defaults)

    def _outer(self, function: Function, tree: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
        """What the names from outside mean that are left in a function, as Numba takes it."""
        nodes = [one for one in ast.walk(tree) if isinstance(one, ast.Name | ast.Attribute)]
        uses = {ast.unparse(node): node for node in reversed(nodes)}
        for name, given in function.constants.items():
            if name not in uses:
                continue
            span, value = function.span(uses[name]), constant(given)
            if isinstance(value, SelfReference):
                raise errors.recursion(span, value.name)
            if isinstance(value, Unusable):
                raise errors.bad_constant(span, name, value.words)
            if isinstance(value, ArrayFunction):
                raise (errors.ufunc_stage if self.pointwise else errors.stage_use)(span, name)
            if isinstance(value, Function):
                if id(value) not in self.helpers:
                    self.helpers[id(value)] = self.function(self.scopes.helpers[id(value)])
                yield name, self.helpers[id(value)]
                continue
            named = getattr(value, "__name__", "")
            if named and (value in _MAKERS or named.startswith("nan")):
                self.asked.add("making")
            try:
                yield name, _OURS[value] if named and value in _OURS else _held(value)
            except LookupError:
                raise errors.unknown_function(span, name) from None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        """Rewrite a function inside this one."""
        scope, field, notes = self._scope, self._field, self._notes
        self._enter(scope.inner[node], notes)
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns, node.decorator_list = None, []
        self.generic_visit(node)
        self._scope, self._field, self._notes = scope, field, notes
        return node

    visit_Lambda = visit_FunctionDef

    def _parsed(self, text: str, node: ast.AST) -> ast.expr:
        """An expression in the place of a node."""
        made = expression(text)
        for part in ast.walk(made):
            ast.copy_location(part, node)
        return made

    # How large a field is.

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._measure(node.attr, node.value, node) or self.generic_visit(node)

    def _measure(self, name: str, field: ast.expr, node: ast.expr) -> ast.expr | None:
        if name not in _MEASURES or not self._fields(field):
            return None
        self.asked.add("lengths")
        shape = f"{ast.unparse(self.visit(field))}.shape"
        lengths = [f"{shape}[{axis}]" for axis in range(self.box.ndim)]
        texts = {"len": lengths[0], "ndim": str(len(lengths)), "size": " * ".join(lengths)}
        return self._parsed(texts.get(name, shape), node)

    # Loops.

    def visit_For(self, node: ast.For) -> ast.AST:
        self.asked.add("loops")
        short = self.scopes.may(node.iter, self._scope).parts is not None
        return self.generic_visit(node) if short else self.visit_While(node)

    def visit_While(self, node: ast.While | ast.For) -> ast.AST:
        """Let a loop that may never end look in each turn whether to go on."""
        self.asked.add("loops")
        self.generic_visit(node)
        if self._notes:
            look = ast.Expr(self._parsed(f"{self.own('go_on')}({self._notes})", node))
            node.body.insert(0, ast.copy_location(look, node))
        return node

    # Reads.

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        access = self._accesses.get(node)
        if access is None:
            return self.generic_visit(node)
        base = ast.unparse(self.visit(node.value))
        base = base if base.isidentifier() else f"({base})"
        places = [
            ":".join(self._near(base, axis, step, node) + " + 1" * step.stop for step in steps)
            for axis, steps in enumerate(access)
        ]
        if any(len(steps) > 1 for steps in access):
            self.asked.add("making")
        read = f"{base}.array[{base}.place[0], {', '.join(places)}]"
        return self._parsed(f"{self.own('wide')}({read})", node)

    def _near(self, base: str, axis: int, step: Step, node: ast.AST) -> str:
        """The place of an offset along an axis."""
        low, high = self.box.lo[axis], self.box.hi[axis]
        place, known = f"{base}.place[{axis + 1}]", step.reached
        if known is not None and known[0] == known[1]:
            return plus(place, known[0] - low)
        text = ast.unparse(self.visit(step.node))
        text = f"({text}) - 1" if step.stop else text
        site = len(self.places)
        span = self._scope.function.span(node)
        self.places.append(f"{axis}|{span.file}|{span.line}")
        return f"{self.own('near')}({place}, {text}, {low}, {high}, {base}.outside, {site})"

    # Calls.

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if any(keyword.arg is None for keyword in node.keywords):
            span = self._scope.function.span(node)
            words = "'**' hides which argument is which"
            raise errors.wrong_arguments(span, ast.unparse(node.func), words)
        for function in self._scope.constant(node.func):
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
        if not self._scope.constant(node.func):
            given = [node.func.value, *given]
        name = {"amax": "max", "amin": "min"}.get(name, name)
        if name not in _ALONG or len(given) != 2:
            return None
        values = [ast.Constant(name), *map(self.visit, given)]
        along = ast.Name(self.own("along"), ast.Load())
        return ast.copy_location(ast.Call(along, values, []), node)

    def _shape(self, node: ast.Call, function: Any) -> ast.AST:
        """The shape of a window that constant arguments say."""
        span, name = self._scope.function.span(node), ast.unparse(node.func)

        def known(argument: ast.expr) -> Any:
            held = self._scope.constant(argument)
            try:
                return held[0] if held else ast.literal_eval(argument)
            except ValueError:
                raise errors.shape_varies(span, name) from None

        args, named = [*map(known, node.args)], {str(k.arg): known(k.value) for k in node.keywords}
        own = self.own(f"shape{len(self._known)}")
        try:
            self._known[own] = _held(function(*args, **named))
        except (TypeError, ValueError) as error:
            raise errors.wrong_arguments(span, name, str(error)) from error
        return self._parsed(own, node)

    def _position(self, node: ast.Call) -> ast.AST:
        """`npt.index(x)`, or `npt.index()` for the position among the results."""
        span, base = self._scope.function.span(node), self._field
        if self.pointwise:
            raise errors.ufunc_position(span)
        if node.keywords or len(node.args) > 1:
            raise errors.wrong_arguments(span, "npt.index", "it takes one field, or nothing")
        for argument in node.args:
            base = ast.unparse(self.visit(argument))
            if not self._fields(argument):
                raise errors.position_field(span, f"'{ast.unparse(argument)}'")
        if base is None:
            raise errors.position_helper(span)
        among = "elements" if node.args else "results"
        self.asked.add(among)
        text = f"{base}.{'index' if node.args else 'among'}"
        return self._parsed(text + ("" if self.box.ndim > 1 else "[0]"), node)


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
