"""Expressions: what is known is computed while the text is read, the rest becomes operations.

2 * K + x[0]          ->     t0 = read x 0;  t1 = 6 + t0      where K is 3
mean3(x)              ->     the text of `mean3`, with x
np.sqrt(t0)           ->     Call(sqrt, t0)
math.sqrt(2.0)        ->     1.4142135623730951
"""

from __future__ import annotations

import ast
import inspect
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from inspect import Signature
from typing import Any

import numpy as np

from ..base.frozen import frozen
from .callables import FUNCTIONS, is_pure, strong
from .definitions import ArrayFunction, Function, SelfReference
from .dtypes import Coefficients, Field
from .errors import here, mistake
from .frame import Frame, measured, position, refuse_node, whole_shape
from .functions import SYMBOLS, from_numpy, is_shape
from .operations import binary, folded, logical, select, truth, unary, under
from .positions import Spacing, index
from .reductions import METHODS, REDUCTIONS
from .signature import defaults_of, signature
from .stages import stage
from .subscripts import subscript
from .values import (
    Closure,
    NotUnderstood,
    Steps,
    Value,
    constant,
    is_known,
    is_number,
    reading,
    settled,
    words,
)

# Every function that is understood.
KNOWN = FUNCTIONS | REDUCTIONS

# The most turns of a loop, or items of a tuple, that are followed one by one.
LONGEST = 100_000

_STRUCTURE = (range, len, enumerate, zip, tuple, list, reversed)

# What tells how large an array is.
_MEASURES = (len, np.shape, np.ndim, np.size)


class Expressions(Frame):
    """A frame that understands every expression."""

    def eval(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name():
                return self.name(node)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self.spread(elements)
            case ast.UnaryOp(op=op, operand=operand):
                symbol, value = SYMBOLS[type(op)], self.eval(operand)
                self.at(node)
                if symbol == "not":
                    self.check_truth(node, value)
                else:
                    self.check_numbers(f"'{symbol}'", value)
                return settled(unary(symbol, value))
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.eval(left), self.eval(right)
                self.at(node)
                return self.binary(SYMBOLS.get(type(op), "@"), a, b)
            case ast.BoolOp(op=op, values=values):
                return self.bool_op(op, values)
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self.truth(test)
                if isinstance(holds, bool):
                    return self.eval(body if holds else orelse)
                with under(holds, True):
                    then = self.eval(body)
                with under(holds, False):
                    other = self.eval(orelse)
                self.at(node)
                return self.merge(holds, then, other)
            case ast.Subscript():
                base = self.buffer(node.value) or self.eval(node.value)
                return subscript(base, self.eval(node.slice), node, self.at)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Lambda():
                return self.closure(node)
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
                self.at(node)
                refuse_node(node)

    def items(self, iterable: ast.expr) -> tuple[Any, ...]:
        value = self.eval(iterable)
        self.at(iterable)
        if isinstance(value, range | tuple):
            if len(value) > LONGEST:
                raise NotUnderstood("a very long loop")
            return tuple(value)
        if isinstance(value, np.ndarray) and value.ndim:
            return tuple(map(constant, value))
        if isinstance(value, Field) or is_number(value):
            raise mistake("bad-operand", "A loop", words(value))
        raise NotUnderstood("a loop whose range is not constant")

    def binary(self, op: str, left: Any, right: Any) -> Any:
        if op == "@":
            raise NotUnderstood("a matrix product")
        if isinstance(left, tuple) and isinstance(right, tuple) and op == "+":
            return left + right
        if isinstance(left, tuple) and isinstance(right, int) and op == "*":
            if len(left) * right > LONGEST:
                raise mistake("bad-operand", "'*'", f"{words(left)} and {right}")
            return left * right
        self.check_numbers(f"'{op}'", left, right)
        return settled(binary(op, left, right))

    def truth(self, node: ast.expr) -> Any:
        value = self.eval(node)
        self.check_truth(node, value)
        return truth(value)

    def bool_op(self, op: ast.boolop, nodes: list[ast.expr]) -> Any:
        value = self.eval(nodes[0])
        for before, node in itertools.pairwise(nodes):
            self.check_truth(before, value)
            holds = truth(value)
            if isinstance(holds, bool):
                if holds is isinstance(op, ast.Or):
                    return value
                value = self.eval(node)
                continue
            both = isinstance(op, ast.And)
            with under(holds, both):
                other = self.eval(node)
            self.at(node)
            self.check_numbers("'and'" if both else "'or'", other)
            if holds is value and truth(other) is other and isinstance(other, Value):
                value = logical("&" if both else "|", holds, other)
            else:
                then, value = (other, value) if both else (value, other)
                value = select(holds, then, value)
        return value

    def compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            self.at(node)
            if isinstance(op, ast.Is | ast.IsNot):
                # A number is never None; two numbers may or may not be one object.
                if isinstance(left, Value) and isinstance(right, Value):
                    raise NotUnderstood("'is' between numbers")
                one: Any = (left is right) is isinstance(op, ast.Is)
            elif isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, tuple | range):
                    raise NotUnderstood("'in' something that is no tuple")
                one = False
                for item in right:
                    one = logical("|", one, binary("==", left, item))
                one = unary("not", one) if isinstance(op, ast.NotIn) else one
            elif isinstance(left, str | tuple) and isinstance(right, str | tuple):
                if not is_known((left, right)):
                    raise NotUnderstood("a comparison of tuples")
                one = folded(SYMBOLS[type(op)], left, right)
            else:
                one = self.binary(SYMBOLS[type(op)], left, right)
            if len(node.ops) > 1:
                self.check_truth(node, one)
            result = logical("&", result, one)
            left = right
        return result

    def attribute(self, node: ast.Attribute) -> Any:
        if dotted := self.outside(node):
            self.at(node)
            return self.usable(dotted)
        base = self.eval(node.value)
        self.at(node)
        if node.attr in ("shape", "ndim", "size"):
            shape = getattr(base, "shape", ())
            if isinstance(base, Field):
                shape = whole_shape(base)
            if shape or isinstance(base, np.ndarray):
                return measured(shape, node.attr)
        part = node.attr in ("real", "imag")
        if part and isinstance(base, Value):
            return FUNCTIONS[getattr(np, node.attr)](base)
        known = part and is_number(base)
        known |= isinstance(base, slice) and node.attr in ("start", "stop", "step")
        method = callable(getattr(base, node.attr, None))
        if known or (isinstance(base, np.ndarray) and (method or node.attr == "T")):
            return getattr(base, node.attr)
        window = isinstance(base, Value) and base.shape
        if window and node.attr in METHODS:
            return partial(METHODS[node.attr], base)
        if node.attr == "conjugate" and isinstance(base, Value):
            return partial(FUNCTIONS[np.conj], base)
        if (window or isinstance(base, Coefficients)) and hasattr(np.ndarray, node.attr):
            raise NotUnderstood(f"'{node.attr}' of {words(base)}")
        raise mistake("unknown-method", node.attr, words(base))

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
                    raise NotUnderstood("a condition that is not constant")
                if all(tests):
                    nested(depth + 1)

        nested(0)
        self.names = saved
        return tuple(found)

    @abstractmethod
    def assign(self, target: ast.expr, value: Any) -> None:
        """Give names to a value."""

    # Calls.

    def call(self, node: ast.Call, names: Sequence[str] = ()) -> Any:
        """What a call gives; of a stencil fields, for which `names` wait."""
        found = self.function.constants.get(self.outside(node.func))
        if not isinstance(found, ArrayFunction):
            return self.invoke(node, self.eval(node.func), self.given(node))
        callee, given = found.definition, self.given(node)
        self.at(node)
        if callee.pointwise and not any(isinstance(one, Field) for one in given.all):
            return self.invoke(node, callee.function, given)
        if reading.axes.pointwise:
            raise mistake("ufunc-stage", given.name)
        if self.function is not self.active[0]:
            raise mistake("stage-use", given.name)
        return stage(callee, given.args, given.named, names)

    def given(self, node: ast.Call) -> _Given:
        """The arguments of a call."""
        args, named = self.spread(node.args), {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotUnderstood("'**' in a call", self.at(node))
            named[keyword.arg] = self.eval(keyword.value)
        return _Given(ast.unparse(node.func), args, named)

    def spread(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...]:
        """The values of expressions, in place of a starred one those that it holds."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.items(node.value)
            else:
                found.append(self.eval(node))
        return tuple(found)

    def invoke(self, node: ast.Call, function: Any, given: _Given) -> Any:
        span = self.at(node)
        name, args = given.name, given.args
        if function is index:
            return position(args, given.named)
        if isinstance(function, SelfReference) or any(f is function for f in self.active):
            raise mistake("recursion", function.name)
        if isinstance(function, Function):
            names = given.bound(signature(function.definition, function.defaults))
            called = span if function.own else self.called
            inner = type(self)(function, names, self.active, called)
            result = inner.run(function.definition, function.place)
            self.at(node)
            return result
        if isinstance(function, Closure):
            return self._closure(function, given)
        if isinstance(function, partial):
            # A method of a value, which is given first.
            return replace(given, args=(*function.args, *args)).built(function.func)
        if not callable(function):
            raise mistake("unknown-function", name)
        if function in _MEASURES and len(args) == 1 and isinstance(args[0], Field):
            return measured(whole_shape(args[0]), function.__name__)
        if function in _STRUCTURE:
            return given.arranged(function)
        shape = is_shape(function)
        if shape or isinstance(getattr(function, "__self__", None), np.ndarray):
            # The shape of a window, or a method of a constant: done while the kernel is read.
            if not is_known(given.all):
                raise (
                    mistake("shape-varies", name)
                    if shape
                    else NotUnderstood("a method of an array")
                )
            return given.tried(function)
        if is_known(given.all) and is_pure(function):
            with np.errstate(all="ignore"), suppress(TypeError, ValueError, ArithmeticError):
                return settled(function(*args, **given.named))
        if function not in KNOWN:
            if function is sorted or from_numpy(function):
                raise NotUnderstood(f"the function '{name}'")
            raise mistake("unknown-function", name)
        given.check_fields()
        result = given.built(KNOWN[function])
        numpys = isinstance(function, np.ufunc) or from_numpy(function)
        # A part of a number of Python's is one.
        return strong(result) if numpys and function not in (np.real, np.imag) else result

    def closure(self, node: ast.FunctionDef | ast.Lambda) -> Closure:
        """A function that is defined inside the kernel."""
        defaults = {name: self.eval(one) for name, one in defaults_of(node).items()}
        return Closure(node, self.names, defaults)

    def _closure(self, closure: Closure, given: _Given) -> Any:
        """Call a function that was defined inside the kernel."""
        span, definition = here.span, closure.definition
        if extra := definition.args.vararg or definition.args.kwarg:
            raise mistake("parameter-kind", self.function.span(extra), extra.arg)
        names = given.bound(signature(definition, closure.defaults))
        if len(self.active) > 50:
            raise mistake("recursion", given.name)
        inner = type(self)(self.function, {**closure.names, **names}, self.active)
        return inner.run(definition, span)


# What builders call arguments that NumPy or Python has another name for.
_NAMED = {"a_min": "low", "a_max": "high", "min": "low", "max": "high", "ndigits": "digits"}


@frozen
class _Given:
    """What a function of this name is called with, by position and by name."""

    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def all(self) -> tuple[Any, ...]:
        """All arguments."""
        return *self.args, *self.named.values()

    def check_fields(self) -> None:
        """Raise for a field that is given as a whole."""
        for one in self.all:
            if isinstance(one, Field):
                raise mistake("bad-operand", f"'{self.name}'", words(one))

    def tried(self, function: Any) -> Any:
        """What a function gives for arguments that it may not take."""
        try:
            return settled(function(*self.args, **self.named))
        except (TypeError, ValueError) as error:
            raise mistake("wrong-arguments", self.name, str(error)) from error

    def arranged(self, function: Any) -> Any:
        """What a builtin gives that arranges values, without looking at them."""
        self.check_fields()
        for one in self.all:
            if isinstance(one, Coefficients):
                raise NotUnderstood(f"'{self.name}' of an array")
            if isinstance(one, Steps):
                raise NotUnderstood("a loop whose range is not constant")
        if any(isinstance(one, Value) for one in self.all):
            if function is range:
                return self._steps()
            if function is len:
                raise NotUnderstood(f"'{self.name}' of something that varies")
        return self.tried(function)

    def _steps(self) -> Steps:
        """A range whose ends are known at run time only."""
        args = self.args
        for one in args:
            if not isinstance(one, int) and not (
                isinstance(one, Value) and not one.shape and one.dtype.is_integer
            ):
                raise mistake("bad-operand", f"'{self.name}'", f"{words(one)} that is not whole")
        if self.named or not 1 <= len(args) <= 3:
            raise mistake("wrong-arguments", self.name, "it takes 1 to 3 numbers")
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        if isinstance(step, Value) or step == 0:
            raise NotUnderstood("a loop whose step is not constant")
        return Steps(start, stop, step)

    def built(self, builder: Any) -> Any:
        """What a function writes that is read as operations."""
        named = {_NAMED.get(one, one): value for one, value in self.named.items()}
        parameters = _signature(builder)
        for one in ("axis", "keepdims", "dtype", "out", "method"):
            if one in named and one not in parameters.parameters:
                raise NotUnderstood(f"the argument '{one}'")
        try:
            given = parameters.bind(*self.args, **named)
        except TypeError as error:
            raise mistake("wrong-arguments", self.name, str(error)) from None
        return builder(*given.args, **given.kwargs)

    def bound(self, parameters: Signature) -> dict[str, Any]:
        """What the parameters of a function are."""
        try:
            given = parameters.bind(*self.args, **self.named)
        except TypeError as error:
            raise mistake("wrong-arguments", self.name, str(error)) from None
        given.apply_defaults()
        for name, value in given.arguments.items():
            if isinstance(value, Spacing):
                words = f"'{name}' is {value!r}, which only a call of a stencil knows"
                raise mistake("wrong-arguments", self.name, words)
        return {name: constant(value) for name, value in given.arguments.items()}


# What a builder takes; to find out takes up to 70 us.
_signature = cache(inspect.signature)
