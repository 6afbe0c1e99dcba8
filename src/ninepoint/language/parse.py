"""Read a kernel: follow its text once, with names for the numbers that are not yet known.

    def edge(x):                        t0 = read x +1
        d = x[1] - x[-1]        ->      t1 = read x -1
        return d if d > 0 else 0        t2 = t0 - t1;  t3 = t2 > 0;  t4 = t3 ? t2 : 0

Loops over constant ranges unroll, constants fold, helper functions are read in place, and
both sides of a branch become a selection.  A path that has returned is remembered as a truth
(`done`), so a `return` may stand anywhere.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from . import errors, ir
from .callables import FUNCTIONS, METHODS, is_pure, known_call
from .dtypes import value_type
from .errors import Span
from .ir import Kernel, Offset
from .source import Function, SelfReference, Unusable
from .values import (
    Closure,
    Coefficients,
    Field,
    NotUnderstood,
    Operations,
    Value,
    constant,
    is_number,
    scalar_label,
    words,
)

Argument: TypeAlias = Field | Coefficients | Value
Neighborhood: TypeAlias = tuple[tuple[int, int], ...]

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
UNARY: dict[type[ast.unaryop], str] = {
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Not: "not",
}

# What neither tier runs: the construct in words, and what to write instead.
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Raise: ("'raise'", "Return a value for every point; nothing in a kernel raises."),
    ast.Assert: ("'assert'", "Check the arrays before the call; nothing in a kernel raises."),
    ast.Try: ("'try'", "Nothing in a kernel raises, so there is nothing to catch."),
    ast.TryStar: ("'try'", "Nothing in a kernel raises, so there is nothing to catch."),
    ast.With: ("'with'", "Keep to arithmetic, branches and loops."),
    ast.Import: ("'import'", "Import at the top of the file."),
    ast.ImportFrom: ("'import'", "Import at the top of the file."),
    ast.ClassDef: ("a class", "Define it outside the kernel."),
    ast.Global: ("'global'", "Pass the value as a scalar argument."),
    ast.Nonlocal: ("'nonlocal'", "Pass the value as a scalar argument."),
    ast.Delete: ("'del'", "Leave the name as it is."),
    ast.Match: ("'match'", "Write it with if and elif."),
    ast.Dict: ("a dictionary", "Use a tuple."),
    ast.DictComp: ("a dictionary", "Use a tuple."),
    ast.Set: ("a set", "Use a tuple."),
    ast.SetComp: ("a set", "Use a tuple."),
    ast.Yield: ("'yield'", "Make a tuple of the values."),
    ast.YieldFrom: ("'yield'", "Make a tuple of the values."),
    ast.AsyncFunctionDef: ("'async'", "Write a plain function."),
    ast.JoinedStr: ("an f-string", "A kernel computes with numbers only."),
}

# What only the general path runs.
_GENERAL: dict[type[ast.AST], str] = {
    ast.While: "a 'while' loop",
    ast.Break: "'break'",
    ast.Continue: "'continue'",
}


@dataclass(frozen=True, slots=True)
class _Undefined:
    """A local that has no value on some path."""

    name: str


def refuse(function: Function) -> None:
    """Raise for a construct that no tier can run."""
    for node in ast.walk(function.definition):
        if type(node) in _REFUSED:
            raise errors.unsupported(function.span(node), *_REFUSED[type(node)])


def read(
    function: Function,
    arguments: Mapping[str, Argument],
    neighborhood: Neighborhood | None = None,
) -> Kernel:
    """Make the kernel of `function` for arguments of given types.

    Raises
    ------
    StencilError
        If the text holds a mistake.
    NotUnderstood
        If the text holds something that only the general path can run.
    """
    operations = Operations(function.place)
    ndim = Axes(neighborhood)
    names = {n: _labelled(n, argument) for n, argument in arguments.items()}
    frame = _Frame(function, dict(names), operations, ndim, ())
    result = frame.run()
    values = result if isinstance(result, tuple) else (result,)
    outputs = []
    for value in values:
        if isinstance(value, Value | bool | int | float | complex | np.number):
            lifted = operations.lift(value)
            if lifted.shape is None:
                outputs.append(lifted.atom)
                continue
        raise errors.not_a_number(frame.returned, words(value))
    if ndim.count is None:
        raise errors.no_field(function.place, function.name)
    return Kernel(
        ndim=ndim.count,
        fields=tuple((a.label, a.storage) for a in names.values() if isinstance(a, Field)),
        scalars=tuple(
            (a.atom.name, a.atom.dtype)
            for a in names.values()
            if isinstance(a, Value) and isinstance(a.atom, ir.Ref)
        ),
        coefficients=tuple(
            (a.label, a.storage, a.shape) for a in names.values() if isinstance(a, Coefficients)
        ),
        body=operations.body.assignments(tuple(outputs)),
        outputs=tuple(outputs),
    )


def _labelled(name: str, argument: Argument) -> Argument:
    """The argument as the kernel knows it."""
    if isinstance(argument, Value):
        return replace(argument, atom=ir.Ref(argument.atom.dtype, scalar_label(name)))
    return argument


class Axes:
    """How many offsets every read has; learnt from the first."""

    def __init__(self, neighborhood: Neighborhood | None) -> None:
        self.neighborhood = neighborhood
        self.count: int | None = None if neighborhood is None else len(neighborhood)

    def check(self, name: str, low: Offset, high: Offset, span: Span) -> None:
        """Raise where offsets are of the wrong number, or outside the neighborhood."""
        if self.count is None:
            self.count = len(low)
        if len(low) != self.count:
            raise errors.offset_count(span, name, len(low), self.count)
        for axis, (least, most) in enumerate(self.neighborhood or ()):
            for offset in (low[axis], high[axis]):
                if not least <= offset <= most:
                    raise errors.offset_outside(span, offset, axis, least, most)


class _Frame:
    """One function being read, with the names it knows."""

    def __init__(
        self,
        function: Function,
        names: dict[str, Any],
        operations: Operations,
        axes: Axes,
        active: tuple[Function, ...],
    ) -> None:
        self.function = function
        self.names = names
        self.ops = operations
        self.axes = axes
        self.active = (*active, function)
        self.done: Any = False
        self.result: Any = None
        self.returned = function.place

    def run(self) -> Any:
        """The value that the function returns."""
        definition = self.function.definition
        if isinstance(definition, ast.Lambda):
            self._return(definition.body, self.eval(definition.body))
        else:
            self.block(definition.body)
        if self.done is not True:
            raise errors.no_return(self.function.place, self.function.name)
        return self.result

    def _at(self, node: ast.AST) -> Span:
        span = self.function.span(node)
        self.ops.span = span
        return span

    # Statements.

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.done is True:
                return
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        span = self._at(node)
        match node:
            case ast.Return(value=value):
                if value is None:
                    raise errors.no_return(span, self.function.name)
                self._return(value, self.eval(value))
            case ast.Assign(targets=targets, value=value):
                known = self.eval(value)
                for target in targets:
                    self.assign(target, known)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.assign(target, self.eval(value))
            case ast.AugAssign(target=target, op=op, value=value):
                if not isinstance(target, ast.Name):
                    self.assign(target, None)
                    return
                left = self.name(target)
                right = self.eval(value)
                self._at(node)
                self.assign(target, self.binary(BINARY.get(type(op), "@"), left, right))
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(self.truth(test), body, orelse)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse):
                for item in self.items(iterable):
                    self.assign(target, item)
                    self.block(body)
                self.block(orelse)
            case ast.FunctionDef(name=name):
                self.names[name] = Closure(node, self.names)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Expr(value=value):
                if any(isinstance(part, ast.Call) for part in ast.walk(value)):
                    raise NotUnderstood("a call whose result is not used", span)
                self.eval(value)
            case _:
                self._refuse(node, span)

    def _refuse(self, node: ast.AST, span: Span) -> None:
        if type(node) in _REFUSED:
            raise errors.unsupported(span, *_REFUSED[type(node)])
        raise NotUnderstood(_GENERAL.get(type(node), f"'{type(node).__name__.lower()}'"), span)

    def _return(self, node: ast.expr, value: Any) -> None:
        self.returned = self._at(node)
        if len(self.active) == 1:
            self._checked_result(value)
        if self.done is False:
            self.result = value
        else:
            first, second = self.result, value
            counts = [len(v) if isinstance(v, tuple) else 1 for v in (first, second)]
            if counts[0] != counts[1]:
                raise errors.return_mismatch(self.returned, counts[0], counts[1])
            for side in (first, second):
                for item in side if isinstance(side, tuple) else (side,):
                    if item is None or isinstance(item, str | Field):
                        raise errors.not_a_number(self.returned, words(item))
            self.result = self.ops.select(self.done, first, second)
        self.done = True

    def _checked_result(self, value: Any) -> None:
        """Raise for what can never be the value of a point; helpers may return more."""
        for item in value if isinstance(value, tuple) else (value,):
            if item is None or isinstance(item, str | tuple | Field):
                raise errors.not_a_number(self.returned, words(item))
        if value == ():
            raise errors.not_a_number(self.returned, words(value))

    def branch(self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        if isinstance(test, bool):
            self.block(body if test else orelse)
            return
        names, done, result = dict(self.names), self.done, self.result
        with self.ops.assuming(test, True):
            self.block(body)
        then = (self.names, self.done, self.result)
        self.names, self.done, self.result = dict(names), done, result
        with self.ops.assuming(test, False):
            self.block(orelse)
        other = (self.names, self.done, self.result)
        if then[1] is True or other[1] is True:
            # A side that has always returned leaves no names behind.
            self.names = other[0] if then[1] is True else then[0]
        else:
            self.names = self._joined(test, then[0], other[0])
        if then[1] is False and other[1] is False:
            self.done, self.result = False, None
            return
        self.done = (
            True
            if then[1] is True and other[1] is True
            else self.ops.logical(
                "|",
                self.ops.logical("&", test, then[1]),
                self.ops.logical("&", self.ops.unary("not", test), other[1]),
            )
        )
        if then[1] is False or other[1] is False:
            self.result = then[2] if other[1] is False else other[2]
            return
        counts = [len(v) if isinstance(v, tuple) else 1 for v in (then[2], other[2])]
        if counts[0] != counts[1]:
            raise errors.return_mismatch(self.returned, counts[0], counts[1])
        self.result = self._merge(test, then[2], other[2])

    def _joined(self, test: Any, then: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for name in [*then, *(n for n in other if n not in then)]:
            a, b = then.get(name, _Undefined(name)), other.get(name, _Undefined(name))
            if a is b:
                joined[name] = a
            elif isinstance(a, _Undefined) or isinstance(b, _Undefined):
                joined[name] = _Undefined(name)
            else:
                joined[name] = self._merge(test, a, b)
        return joined

    def _merge(self, test: Any, then: Any, other: Any) -> Any:
        plain = (Value, bool, int, float, complex, np.number, tuple, np.ndarray)
        if then is other or (type(then) is type(other) and is_number(then) and then == other):
            return then
        if not isinstance(then, plain) or not isinstance(other, plain):
            raise NotUnderstood("a name that is one thing or another", self.ops.span)
        counts = [len(v) if isinstance(v, tuple) else None for v in (then, other)]
        if counts[0] != counts[1]:
            raise errors.choice_mismatch(self.ops.span, words(then), words(other))
        return self.ops.select(test, then, other)

    def assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                if isinstance(value, np.ndarray):
                    value = tuple(constant(v) for v in value)
                stars = any(isinstance(t, ast.Starred) for t in targets)
                if isinstance(value, Value):
                    if value.shape is None:
                        raise errors.bad_operand(self._at(target), "Unpacking", words(value))
                    if value.shape[0] != len(targets) and not stars:
                        raise errors.unpacking(self._at(target), value.shape[0], len(targets))
                if not isinstance(value, tuple):
                    raise NotUnderstood("unpacking something that is no tuple", self._at(target))
                targets, value = _gathered(targets, value)
                if len(value) != len(targets):
                    raise errors.unpacking(self._at(target), len(value), len(targets))
                for item, one in zip(targets, value, strict=True):
                    self.assign(item, one)
            case ast.Subscript(value=base):
                span = self._at(target)
                held = self.eval(base)
                if isinstance(held, Field | Coefficients):
                    raise errors.assigned_field(span, held.name)
                if isinstance(base, ast.Name) and base.id not in self.names:
                    raise errors.assigned_constant(span, base.id)
                raise NotUnderstood("a buffer that is written to", span)
            case _:
                raise NotUnderstood("an assignment to an attribute", self._at(target))

    def items(self, iterable: ast.expr) -> tuple[Any, ...]:
        value = self.eval(iterable)
        if isinstance(value, range | tuple):
            if len(value) > 100_000:
                raise NotUnderstood("a very long loop", self._at(iterable))
            return tuple(value)
        if isinstance(value, np.ndarray) and value.ndim:
            return tuple(constant(item) for item in value)
        if isinstance(value, Field) or is_number(value):
            raise errors.bad_operand(self._at(iterable), "A loop", words(value))
        raise NotUnderstood("a loop whose range is not constant", self._at(iterable))

    # Expressions.

    def eval(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name():
                return self.name(node)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                items: list[Any] = []
                for element in elements:
                    if isinstance(element, ast.Starred):
                        items.extend(self.items(element.value))
                    else:
                        items.append(self.eval(element))
                return tuple(items)
            case ast.UnaryOp(op=op, operand=operand):
                value = self.eval(operand)
                return self.unary(node, UNARY[type(op)], value)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.eval(left), self.eval(right)
                self._at(node)
                return self.binary(BINARY.get(type(op), "@"), a, b)
            case ast.BoolOp(op=op, values=values):
                return self.bool_op(op, values)
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = self.truth(test)
                if isinstance(truth, bool):
                    return self.eval(body if truth else orelse)
                with self.ops.assuming(truth, True):
                    then = self.eval(body)
                with self.ops.assuming(truth, False):
                    other = self.eval(orelse)
                self._at(node)
                return self._merge(truth, then, other)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Lambda():
                return Closure(node, self.names)
            case (
                ast.ListComp(elt=element, generators=loops)
                | ast.GeneratorExp(elt=element, generators=loops)
            ):
                return self.comprehension(element, loops)
            case ast.NamedExpr(target=target, value=value):
                known = self.eval(value)
                self.assign(target, known)
                return known
            case ast.Slice():
                parts = (node.lower, node.upper, node.step)
                return slice(*(None if p is None else self.eval(p) for p in parts))
            case _:
                self._refuse(node, self._at(node))

    def _number(self, node: ast.expr, operation: str, *values: Any) -> None:
        """Raise unless every value can take part in arithmetic."""
        self._at(node)
        for value in values:
            if not isinstance(value, Value | np.ndarray | Coefficients) and not is_number(value):
                raise errors.bad_operand(self.ops.span, operation, words(value))

    def unary(self, node: ast.expr, op: str, value: Any) -> Any:
        if op == "not":
            self._check_truth(node, value)
            return self.ops.unary(op, value)
        self._number(node, f"'{op}'", value)
        if isinstance(value, np.ndarray):
            try:
                return _frozen(_SIGNS[op](value))
            except TypeError:
                raise errors.bad_operand(self.ops.span, f"'{op}'", words(value)) from None
        return self.ops.unary(op, value)

    def binary(self, op: str, left: Any, right: Any) -> Any:
        if op == "@":
            raise NotUnderstood("a matrix product", self.ops.span)
        if isinstance(left, tuple) and isinstance(right, tuple | int) and op in "+*":
            return left + right if op == "+" else left * right  # type: ignore[operator]
        plain = (np.ndarray, bool, int, float, complex, np.number)
        if isinstance(left, plain) and isinstance(right, plain):
            if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
                return _frozen(self.ops._known(op, left, right))
            return self.ops.binary(op, left, right)
        for value in (left, right):
            if isinstance(value, Field):
                raise errors.bad_operand(self.ops.span, f"'{op}'", words(value))
            if not isinstance(value, Value | Coefficients) and not isinstance(value, plain):
                raise errors.bad_operand(self.ops.span, f"'{op}'", words(value))
        windows = [v for v in (left, right) if isinstance(v, Value) and v.shape is not None]
        arrays = [v for v in (left, right) if isinstance(v, np.ndarray | Coefficients)]
        if arrays and not windows:
            raise NotUnderstood("arithmetic of whole arrays", self.ops.span)
        return self.ops.binary(op, left, right)

    def truth(self, node: ast.expr) -> Any:
        value = self.eval(node)
        self._check_truth(node, value)
        return self.ops.truth(value)

    def _check_truth(self, node: ast.expr, value: Any) -> None:
        """Raise, as NumPy does, for what is neither true nor false as a whole."""
        span = self._at(node)
        window = isinstance(value, Value) and value.shape is not None
        if window or isinstance(value, Field | Coefficients | np.ndarray):
            raise errors.bad_operand(span, "The truth", words(value))

    def bool_op(self, op: ast.boolop, nodes: list[ast.expr]) -> Any:
        value = self.eval(nodes[0])
        for before, node in itertools.pairwise(nodes):
            self._check_truth(before, value)
            truth = self.ops.truth(value)
            if isinstance(truth, bool):
                if truth is isinstance(op, ast.Or):
                    return value
                value = self.eval(node)
                continue
            with self.ops.assuming(truth, isinstance(op, ast.And)):
                other = self.eval(node)
            self._number(node, "'and'" if isinstance(op, ast.And) else "'or'", other)
            both = isinstance(value, Value) and value.atom.dtype is truth.atom.dtype
            other_truth = self.ops.truth(other)
            if both and not isinstance(other_truth, bool) and other_truth is other:
                value = self.ops.logical("&" if isinstance(op, ast.And) else "|", truth, other)
            elif isinstance(op, ast.And):
                value = self.ops.select(truth, other, value)
            else:
                value = self.ops.select(truth, value, other)
        return value

    def compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            self._at(node)
            if isinstance(op, ast.Is | ast.IsNot):
                # A number is never None; two numbers may or may not be one object.
                if isinstance(left, Value) and isinstance(right, Value):
                    raise NotUnderstood("'is' between numbers", self.ops.span)
                one: Any = (left is right) is isinstance(op, ast.Is)
            elif isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, tuple | range):
                    raise NotUnderstood("'in' something that is no tuple", self.ops.span)
                one = False
                for item in right:
                    one = self.ops.logical("|", one, self.ops.binary("==", left, item))
                one = self.ops.unary("not", one) if isinstance(op, ast.NotIn) else one
            elif isinstance(left, str | tuple) and isinstance(right, str | tuple):
                if _holds_value(left) or _holds_value(right):
                    raise NotUnderstood("a comparison of tuples", self.ops.span)
                one = self.ops._known(COMPARE[type(op)], left, right)
            else:
                symbol = COMPARE[type(op)]
                self._number(node, f"'{symbol}'", left, right)
                one = self.binary(symbol, left, right)
            if len(node.ops) > 1:
                self._check_truth(node, one)
            result = one if result is True else self.ops.logical("&", result, one)
            left = right
        return result

    def name(self, node: ast.Name) -> Any:
        span = self._at(node)
        if node.id in self.names:
            value = self.names[node.id]
            if isinstance(value, _Undefined):
                raise errors.maybe_undefined(span, node.id)
            return value
        if node.id not in self.function.constants:
            raise errors.maybe_undefined(span, node.id)
        return self._usable(node.id, span)

    def _usable(self, name: str, span: Span) -> Any:
        value = constant(self.function.constants[name])
        if isinstance(value, Unusable):
            raise errors.bad_constant(span, name, value.words)
        return value

    def attribute(self, node: ast.Attribute) -> Any:
        dotted = ast.unparse(node)
        if dotted in self.function.constants and node_root(node) not in self.names:
            return self._usable(dotted, self._at(node))
        base = self.eval(node.value)
        span = self._at(node)
        if isinstance(base, Value) and node.attr in ("real", "imag"):
            return FUNCTIONS[np.real if node.attr == "real" else np.imag](self.ops, base)
        if isinstance(base, Value) and node.attr in ("size", "shape", "ndim") and base.shape:
            return {
                "size": int(np.prod(base.shape)),
                "shape": base.shape,
                "ndim": len(base.shape),
            }[node.attr]
        if isinstance(base, Coefficients | np.ndarray) and node.attr in ("shape", "size", "ndim"):
            shape = tuple(base.shape)
            return {"size": int(np.prod(shape)), "shape": shape, "ndim": len(shape)}[node.attr]
        if isinstance(base, np.ndarray) and node.attr == "T":
            return base.T
        if isinstance(base, slice) and node.attr in ("start", "stop", "step"):
            return getattr(base, node.attr)
        if is_number(base) and node.attr in ("real", "imag"):
            return getattr(base, node.attr)
        raise errors.unknown_method(span, _kind(base), node.attr)

    def comprehension(self, element: ast.expr, loops: list[ast.comprehension]) -> tuple[Any, ...]:
        saved = dict(self.names)
        found: list[Any] = []

        def nested(depth: int) -> None:
            if depth == len(loops):
                found.append(self.eval(element))
                return
            for item in self.items(loops[depth].iter):
                self.assign(loops[depth].target, item)
                tests = [self.truth(test) for test in loops[depth].ifs]
                if not all(isinstance(test, bool) for test in tests):
                    raise NotUnderstood("a condition that is not constant", self.ops.span)
                if all(tests):
                    nested(depth + 1)

        nested(0)
        self.names = saved
        return tuple(found)

    # Reads.

    def subscript(self, node: ast.Subscript) -> Any:
        base = self.eval(node.value)
        index = self.eval(node.slice)
        span = self._at(node)
        indices = index if isinstance(index, tuple) else (index,)
        match base:
            case Field():
                return self.read_field(base, indices, node)
            case Coefficients():
                return self.ops.emit(
                    ir.Element(
                        value_type(base.storage),
                        base.label,
                        self.bounded(base.name, base.shape, indices, span),
                    )
                )
            case np.ndarray():
                if any(isinstance(i, Value) for i in indices):
                    raise NotUnderstood("a constant array at an index that varies", span)
                text = ast.unparse(node.value)
                if len(indices) > base.ndim:
                    raise errors.index_count(span, text, len(indices), base.ndim)
                if any(not isinstance(i, int) for i in indices):
                    if any(_varies(i) for i in indices):
                        raise NotUnderstood("a part of an array that varies", span)
                    for one in indices:
                        if isinstance(one, float | str | np.floating):
                            raise errors.index_type(span, text, words(one))
                    return _frozen(base[index])
                where = self.bounded(text, base.shape[: len(indices)], indices, span)
                return _frozen(base[where])
            case tuple() | range():
                if isinstance(index, int) and not -len(base) <= index < len(base):
                    raise errors.index_outside(span, ast.unparse(node.value), index, len(base))
                if isinstance(index, float | str | np.floating | tuple):
                    raise errors.index_type(span, ast.unparse(node.value), words(index))
                if not isinstance(index, int | slice) or _varies(index):
                    raise NotUnderstood("a tuple at an index that varies", span)
                return base[index]
            case Value(shape=shape) if shape is not None:
                raise NotUnderstood("an element of a window", span)
            case _:
                raise errors.bad_operand(span, "Indexing", words(base))

    def bounded(
        self, name: str, shape: Offset, indices: tuple[Any, ...], span: Span
    ) -> tuple[int, ...]:
        """Constant absolute indices, checked; negative ones count from the end."""
        if len(indices) > len(shape):
            raise errors.index_count(span, name, len(indices), len(shape))
        if len(indices) < len(shape):
            raise NotUnderstood(f"a part of '{name}'", span)
        known = []
        for index, length in zip(indices, shape, strict=True):
            if isinstance(index, Value):
                raise NotUnderstood(f"'{name}' at an index that varies", span)
            if isinstance(index, slice):
                raise NotUnderstood(f"a part of '{name}'", span)
            if isinstance(index, bool) or not isinstance(index, int):
                raise errors.index_type(span, name, words(index))
            if not -length <= index < length:
                raise errors.index_outside(span, name, index, length)
            known.append(index % length)
        return tuple(known)

    def read_field(self, field: Field, indices: tuple[Any, ...], node: ast.Subscript) -> Value:
        self._at(node)
        low, high = [], []
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        places = nodes if len(nodes) == len(indices) else [node.slice] * len(indices)
        for index, place in zip(indices, places, strict=True):
            start, stop = self.offsets(constant(index), place)
            low.append(start)
            high.append(stop)
        first, last = tuple(low), tuple(high)
        self.axes.check(field.name, first, last, self._at(node))
        dtype = value_type(field.storage)
        if not any(isinstance(i, slice) for i in indices):
            return self.ops.emit(ir.Read(dtype, field.label, first))
        along = tuple(axis for axis, index in enumerate(indices) if isinstance(index, slice))
        shape = tuple(last[axis] - first[axis] + 1 for axis in along)
        return self.ops.emit(ir.Tap(dtype, field.label, first, along), False, shape)

    def offsets(self, index: Any, place: ast.expr) -> tuple[int, int]:
        """The first and the last offset along one axis."""
        span = self._at(place)
        if isinstance(index, slice):
            if index.step is not None and index.step != 1:
                raise errors.window_step(span)
            if index.start is None or index.stop is None:
                raise errors.window_open(span)
            ends = (self.offset(index.start, span, place), self.offset(index.stop, span, place))
            if ends[0] >= ends[1]:
                raise errors.window_empty(span, *ends)
            return ends[0], ends[1] - 1
        where = self.offset(index, span, place)
        return where, where

    def offset(self, index: Any, span: Span, place: ast.expr) -> int:
        index = constant(index)
        if isinstance(index, Value):
            if index.shape is None and index.atom.dtype.is_integer:
                if self.axes.neighborhood is None:
                    raise errors.offset_not_constant(span, f"'{ast.unparse(place)}'")
                raise NotUnderstood("an offset that varies", span)
            raise errors.offset_type(span, words(index) + " that is not whole")
        if isinstance(index, bool) or not isinstance(index, int):
            raise errors.offset_type(span, words(index))
        return index

    # Calls.

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute):
            method = self.method(node, node.func)
            if method is not NotImplemented:
                return method
        function = self.eval(node.func)
        args: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args.extend(self.items(argument.value))
            else:
                args.append(self.eval(argument))
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotUnderstood("'**' in a call", self._at(node))
            keywords[keyword.arg] = self.eval(keyword.value)
        return self.invoke(node, function, tuple(args), keywords)

    def method(self, node: ast.Call, attribute: ast.Attribute) -> Any:
        """A method of a window; NotImplemented where the call is no method."""
        dotted = ast.unparse(attribute)
        if dotted in self.function.constants and node_root(attribute) not in self.names:
            return NotImplemented
        base = self.eval(attribute.value)
        if isinstance(base, Coefficients) and hasattr(np.ndarray, attribute.attr):
            raise NotUnderstood(f"the method '{attribute.attr}' of an array", self._at(node))
        if not isinstance(base, Value | np.ndarray):
            return NotImplemented
        args = [self.eval(argument) for argument in node.args]
        keywords = {k.arg: self.eval(k.value) for k in node.keywords if k.arg}
        span = self._at(node)
        if isinstance(base, np.ndarray):
            if any(isinstance(a, Value) for a in [*args, *keywords.values()]):
                raise NotUnderstood("a method of an array", span)
            if not callable(getattr(base, attribute.attr, None)):
                raise errors.unknown_method(span, _kind(base), attribute.attr)
            try:
                return _frozen(constant(getattr(base, attribute.attr)(*args, **keywords)))
            except (TypeError, ValueError) as error:
                raise errors.wrong_arguments(span, dotted, str(error)) from error
        if attribute.attr == "conjugate":
            return FUNCTIONS[np.conj](self.ops, base)
        if base.shape is None or attribute.attr not in METHODS:
            if base.shape is not None and hasattr(np.ndarray, attribute.attr):
                raise NotUnderstood(f"the method '{attribute.attr}' of a window", span)
            raise errors.unknown_method(span, _kind(base), attribute.attr)
        return self._built(METHODS[attribute.attr], attribute.attr, (base, *args), keywords)

    def invoke(
        self, node: ast.Call, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        span = self._at(node)
        name = ast.unparse(node.func)
        if isinstance(function, SelfReference):
            raise errors.recursion(span, function.name)
        if isinstance(function, Function):
            if any(f is function for f in self.active):
                raise errors.recursion(span, function.name)
            names = self.bind(span, function, args, keywords)
            inner = _Frame(function, names, self.ops, self.axes, self.active)
            result = inner.run()
            self._at(node)
            return result
        if isinstance(function, Closure):
            return self._closure(span, name, function, args, keywords)
        everything = [*args, *keywords.values()]
        if not callable(function):
            raise errors.unknown_function(span, name)
        if function in _STRUCTURE:
            for one in everything:
                if isinstance(one, Field):
                    raise errors.bad_operand(span, f"'{name}'", words(one))
                if isinstance(one, Coefficients):
                    raise NotUnderstood(f"'{name}' of an array", span)
                if isinstance(one, Value) and function in (range, len):
                    raise NotUnderstood(f"'{name}' of something that varies", span)
            try:
                return _structure(function, args, keywords)
            except (TypeError, ValueError) as error:
                raise errors.wrong_arguments(span, name, str(error)) from error
        known = all(
            is_number(v) or isinstance(v, str | np.ndarray | slice | tuple | type) or v is None
            for v in everything
        )
        if known and not any(_holds_value(v) for v in everything) and is_pure(function):
            result = known_call(function, args, keywords)
            if result is not None:
                return _frozen(result)
        if function not in FUNCTIONS:
            if function is sorted or _from_numpy(function):
                raise NotUnderstood(f"the function '{name}'", span)
            raise errors.unknown_function(span, name)
        if any(isinstance(v, Field) for v in everything):
            field = next(v for v in everything if isinstance(v, Field))
            raise errors.bad_operand(span, f"'{name}'", words(field))
        return self._built(FUNCTIONS[function], name, args, keywords)

    def _built(
        self, builder: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        named = {"a_min": "low", "a_max": "high", "min": "low", "max": "high",
                 "ndigits": "digits"}  # fmt: skip
        given = tuple(keywords)
        keywords = {named.get(k, k): v for k, v in keywords.items()}
        code = builder.__code__
        accepted = code.co_varnames[1 : code.co_argcount]
        unknown = [k for k in keywords if k not in accepted]
        needed = len(accepted) - len(builder.__defaults__ or ())
        variadic = bool(code.co_flags & 4)
        if unknown:
            if unknown[0] in ("axis", "keepdims", "dtype", "out", "initial", "where", "method"):
                raise NotUnderstood(f"the argument '{unknown[0]}'", self.ops.span)
            raise errors.wrong_arguments(
                self.ops.span, name, f"'{unknown[0]}' is not an argument of it"
            )
        twice = [k for k in given if named.get(k, k) in accepted[: len(args)]]
        if twice:
            raise errors.wrong_arguments(self.ops.span, name, f"'{twice[0]}' is given twice")
        count = len(args) + len(keywords)
        if not variadic and not needed <= count <= len(accepted):
            raise errors.wrong_arguments(
                self.ops.span,
                name,
                f"{count} {'argument' if count == 1 else 'arguments'} instead of {needed}",
            )
        return builder(self.ops, *args, **keywords)

    def bind(
        self, span: Span, function: Function, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> dict[str, Any]:
        parameters = function.parameters
        if len(args) > len(parameters):
            raise errors.wrong_arguments(
                span, function.name, f"{len(args)} values for {len(parameters)} parameters"
            )
        names = dict(zip(parameters, args, strict=False))
        for name, value in keywords.items():
            if name not in parameters or name in names:
                raise errors.wrong_arguments(span, function.name, f"'{name}' does not fit")
            names[name] = value
        for name in parameters:
            if name not in names:
                if name not in function.defaults:
                    raise errors.wrong_arguments(span, function.name, f"'{name}' is missing")
                names[name] = constant(function.defaults[name])
        return names

    def _closure(
        self,
        span: Span,
        name: str,
        closure: Closure,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        """Call a function that was defined inside the kernel."""
        arguments = closure.definition.args
        if arguments.vararg or arguments.kwarg:
            raise errors.unsupported(span, f"'*' in the parameters of '{name}'", "Name each one.")
        parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        given = dict(zip(parameters, args, strict=False)) | keywords
        defaults = dict(zip(reversed(parameters), reversed(arguments.defaults), strict=False))
        for named, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            parameters.append(named.arg)
            if value is not None:
                defaults[named.arg] = value
        for parameter, default in defaults.items():
            if parameter not in given:
                given[parameter] = self.eval(default)
        positional = len(arguments.posonlyargs) + len(arguments.args)
        if set(given) != set(parameters) or len(args) > positional:
            plural = "argument" if len(parameters) == 1 else "arguments"
            raise errors.wrong_arguments(span, name, f"it takes {len(parameters)} {plural}")
        if len(self.active) > 50:
            raise errors.recursion(span, name)
        inner = _Frame(
            self.function,
            {**closure.names, **given},
            self.ops,
            self.axes,
            self.active,
        )
        definition = closure.definition
        if isinstance(definition, ast.Lambda):
            return inner.eval(definition.body)
        inner.block(definition.body)
        if inner.done is not True:
            raise errors.no_return(span, name)
        return inner.result


_STRUCTURE = (range, len, enumerate, zip, tuple, list, reversed)


# The operators of arrays that are known while the kernel is read.
_SIGNS: dict[str, Any] = {"-": operator.neg, "+": operator.pos, "~": operator.invert}


def _structure(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Builtins that arrange values without looking at them."""
    if function in (range, len):
        return function(*args, **keywords)
    return tuple(
        tuple(item) if isinstance(item, tuple) else constant(item)
        for item in function(*args, **keywords)
    )


def _gathered(
    targets: list[ast.expr], values: tuple[Any, ...]
) -> tuple[list[ast.expr], tuple[Any, ...]]:
    """The targets of an unpacking without a star, which takes what the others leave."""
    for place, target in enumerate(targets):
        if isinstance(target, ast.Starred):
            after = len(targets) - place - 1
            if len(values) < place + after:
                return targets, values
            end = len(values) - after
            taken = (*values[:place], values[place:end], *values[end:])
            return [*targets[:place], target.value, *targets[place + 1 :]], taken
    return targets, values


def _kind(value: Any) -> str:
    """What a value is, without its details, to tell what it has not."""
    if isinstance(value, Field):
        return f"the field '{value.name}'"
    if isinstance(value, Value):
        return "a window" if value.shape else "a number"
    if is_number(value):
        return "a number"
    return words(value)


def _varies(index: Any) -> bool:
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return any(isinstance(part, Value) for part in parts)


def _from_numpy(function: Any) -> bool:
    """Whether NumPy has it; a method of one of its objects counts."""
    owner = type(getattr(function, "__self__", None)).__module__
    module = getattr(function, "__module__", None) or owner
    return str(module).partition(".")[0] == "numpy"


def _holds_value(value: Any) -> bool:
    return isinstance(value, tuple) and any(
        isinstance(v, Value | Field | Coefficients) or _holds_value(v) for v in value
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return constant(value[()])
    if isinstance(value, list):
        return tuple(value)
    return constant(value)


def node_root(node: ast.expr) -> str:
    """The first name of `a.b.c`; empty where it is no name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def indexed_parameters(function: Function) -> set[str]:
    """The parameters that are read with an index, here or in a function they are given to."""
    return _indexed(function, (function,))


def _indexed(function: Function, active: tuple[Function, ...]) -> set[str]:
    parameters = set(function.parameters)
    alias = {p: p for p in parameters}
    found: set[str] = set()
    definition = function.definition
    nodes = list(ast.walk(definition))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id not in parameters:
                    alias[target.id] = alias.get(node.value.id, node.value.id)
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            found.add(alias.get(node.value.id, node.value.id))
        elif isinstance(node, ast.Call):
            helper = function.constants.get(ast.unparse(node.func))
            if isinstance(helper, Function) and helper not in active:
                inner = _indexed(helper, (*active, helper))
                pairs = itertools.chain(
                    zip(helper.parameters, node.args, strict=False),
                    ((k.arg, k.value) for k in node.keywords),
                )
                for parameter, argument in pairs:
                    if parameter in inner and isinstance(argument, ast.Name):
                        found.add(alias.get(argument.id, argument.id))
    return found & parameters
