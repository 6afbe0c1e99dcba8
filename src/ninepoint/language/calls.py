"""Calls: helpers are read in place, known functions become operations.

mean3(x)              ->     the text of `mean3`, with x
np.sqrt(t0)           ->     Call(sqrt, t0)
math.sqrt(2.0)        ->     1.4142135623730951
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache, partial
from inspect import Parameter, signature
from typing import Any

import numpy as np

from . import errors
from .callables import FUNCTIONS, is_pure, known_call, strong
from .dtypes import Coefficients, Field
from .errors import Span
from .frame import Frame, holds_value, kind, node_root, settled
from .functions import is_shape
from .positions import Spacing, index
from .reductions import KNOWN, METHODS
from .source import Function, SelfReference
from .values import (
    Closure,
    NotUnderstood,
    Steps,
    Value,
    constant,
    is_number,
    reading,
    words,
)

_STRUCTURE = (range, len, enumerate, zip, tuple, list, reversed)

# What tells how large an array is.
_MEASURES = (len, np.shape, np.ndim, np.size)


class Calls(Frame):
    """A frame that understands `f(...)` and `x.method(...)`."""

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute):
            method = self.method(node, node.func)
            if method is not NotImplemented:
                return method
        function = self.eval(node.func)
        return self.invoke(node, function, *self.arguments(node))

    def arguments(self, node: ast.Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, by position and by name."""
        args, keywords = self.spread(node.args), {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotUnderstood("'**' in a call", self.at(node))
            keywords[keyword.arg] = self.eval(keyword.value)
        return args, keywords

    def spread(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...]:
        """The values of expressions, in place of a starred one those that it holds."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.items(node.value)
            else:
                found.append(self.eval(node))
        return tuple(found)

    def method(self, node: ast.Call, attribute: ast.Attribute) -> Any:
        """A method of a window; NotImplemented where the call is no method."""
        dotted = ast.unparse(attribute)
        if dotted in self.function.constants and node_root(attribute) not in self.names:
            return NotImplemented
        base = self.eval(attribute.value)
        if isinstance(base, Coefficients) and hasattr(np.ndarray, attribute.attr):
            raise NotUnderstood(f"the method '{attribute.attr}' of an array", self.at(node))
        if not isinstance(base, Value | np.ndarray):
            return NotImplemented
        args, keywords = self.arguments(node)
        span = self.at(node)
        if isinstance(base, np.ndarray):
            if any(isinstance(a, Value) for a in [*args, *keywords.values()]):
                raise NotUnderstood("a method of an array", span)
            if not callable(getattr(base, attribute.attr, None)):
                raise errors.unknown_method(span, kind(base), attribute.attr)
            return _tried(getattr(base, attribute.attr), span, dotted, args, keywords)
        if attribute.attr == "conjugate":
            return FUNCTIONS[np.conj](base)
        if not base.shape or attribute.attr not in METHODS:
            if base.shape and hasattr(np.ndarray, attribute.attr):
                raise NotUnderstood(f"the method '{attribute.attr}' of a window", span)
            raise errors.unknown_method(span, kind(base), attribute.attr)
        return self.built(METHODS[attribute.attr], attribute.attr, (base, *args), keywords)

    def invoke(
        self, node: ast.Call, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        span = self.at(node)
        name = ast.unparse(node.func)
        if function is index:
            return self.position(span, args, keywords)
        if isinstance(function, SelfReference):
            raise errors.recursion(span, function.name)
        if isinstance(function, Function):
            if any(f is function for f in self.active):
                raise errors.recursion(span, function.name)
            names = self.bind(span, function, args, keywords)
            called = span if function.own else self.called
            inner = type(self)(function, names, self.axes, self.active, called)
            result = inner.run()
            self.at(node)
            return result
        if isinstance(function, Closure):
            return self._closure(span, name, function, args, keywords)
        everything = [*args, *keywords.values()]
        if not callable(function):
            raise errors.unknown_function(span, name)
        if function in _MEASURES and len(args) == 1 and isinstance(args[0], Field):
            if function is len:
                return self.length(0)
            return self.measured(self.shape(), function.__name__)
        if function in _STRUCTURE:
            return self.arranged(span, function, name, args, keywords)
        if is_shape(function):
            # The shape of a window, made while the kernel is read.
            if holds_value(tuple(everything)):
                raise errors.shape_varies(span, name)
            return _tried(function, span, name, args, keywords)
        known = all(
            is_number(v) or isinstance(v, str | np.ndarray | slice | tuple | type) or v is None
            for v in everything
        )
        if known and not any(holds_value(v) for v in everything) and is_pure(function):
            result = known_call(function, args, keywords)
            if result is not None:
                return settled(result)
        if function not in KNOWN:
            if function is sorted or _from_numpy(function):
                raise NotUnderstood(f"the function '{name}'", span)
            raise errors.unknown_function(span, name)
        for one in everything:
            if isinstance(one, Field):
                raise errors.bad_operand(span, f"'{name}'", words(one))
        result = self.built(KNOWN[function], name, args, keywords)
        numpys = isinstance(function, np.ufunc) or _from_numpy(function)
        # A part of a number of Python's is one.
        return strong(result) if numpys and function not in (np.real, np.imag) else result

    def arranged(
        self, span: Span, function: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """What a builtin gives that arranges values, without looking at them."""
        everything = [*args, *keywords.values()]
        for one in everything:
            if isinstance(one, Field):
                raise errors.bad_operand(span, f"'{name}'", words(one))
            if isinstance(one, Coefficients):
                raise NotUnderstood(f"'{name}' of an array", span)
            if isinstance(one, Steps):
                raise NotUnderstood("a loop whose range is not constant", span)
        if function is range and any(isinstance(one, Value) for one in everything):
            return self.steps(span, name, args, keywords)
        if function is len and any(isinstance(one, Value) for one in args):
            raise NotUnderstood(f"'{name}' of something that varies", span)
        return _tried(partial(_structure, function), span, name, args, keywords)

    def steps(
        self, span: Span, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Steps:
        """A range whose ends are known at run time only."""
        if keywords or not 1 <= len(args) <= 3:
            raise errors.wrong_arguments(span, name, f"it takes 1 to 3 numbers, not {len(args)}")
        for one in args:
            whole = isinstance(one, int)
            if isinstance(one, Value):
                whole = not one.shape and one.dtype.is_integer
            if not whole:
                raise errors.bad_operand(span, f"'{name}'", f"{words(one)} that is not whole")
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        if isinstance(step, Value) or step == 0:
            raise NotUnderstood("a loop whose step is not constant", span)
        return Steps(start, stop, step)

    def built(
        self, builder: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        named = {"a_min": "low", "a_max": "high", "min": "low", "max": "high",
                 "ndigits": "digits"}  # fmt: skip
        span, given = reading.span, tuple(keywords)
        keywords = {named.get(k, k): v for k, v in keywords.items()}
        parameters = _parameters(builder)
        accepted = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
        names = [one.name for one in accepted]
        for one in keywords:
            if one not in [parameter.name for parameter in parameters]:
                if one in ("axis", "keepdims", "dtype", "out", "method"):
                    raise NotUnderstood(f"the argument '{one}'", span)
                raise errors.wrong_arguments(span, name, f"'{one}' is not an argument of it")
        for one in given:
            if named.get(one, one) in names[: len(args)]:
                raise errors.wrong_arguments(span, name, f"'{one}' is given twice")
        needed = sum(one.default is one.empty for one in accepted)
        count = len(args) + sum(one in names for one in keywords)
        variadic = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        if not variadic and not needed <= count <= len(names):
            plural = "argument" if count == 1 else "arguments"
            raise errors.wrong_arguments(span, name, f"{count} {plural} instead of {needed}")
        return builder(*args, **keywords)

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
                default = function.defaults[name]
                if isinstance(default, Spacing):
                    words = f"'{name}' is {default!r}, which only a call of a stencil knows"
                    raise errors.wrong_arguments(span, function.name, words)
                names[name] = constant(default)
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
        definition, arguments = closure.definition, closure.definition.args
        if arguments.vararg or arguments.kwarg:
            raise errors.unsupported(span, f"'*' in the parameters of '{name}'", "Name each one.")
        by_place = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        parameters = [*by_place, *(one.arg for one in arguments.kwonlyargs)]
        # Defaults are those of the last parameters, and of all that are given by name.
        defaults = [*arguments.defaults, *arguments.kw_defaults]
        given = dict(zip(by_place, args, strict=False)) | keywords
        for parameter, default in zip(reversed(parameters), reversed(defaults), strict=False):
            if parameter not in given and default is not None:
                given[parameter] = self.eval(default)
        if given.keys() != set(parameters) or len(args) > len(by_place):
            plural = "argument" if len(parameters) == 1 else "arguments"
            raise errors.wrong_arguments(span, name, f"it takes {len(parameters)} {plural}")
        if len(self.active) > 50:
            raise errors.recursion(span, name)
        names = {**closure.names, **given}
        inner = type(self)(self.function, names, self.axes, self.active)
        if isinstance(definition, ast.Lambda):
            return inner.eval(definition.body)
        inner.block(definition.body)
        if inner.done is not True:
            raise errors.no_return(span, name)
        return inner.result


@cache
def _parameters(builder: Any) -> tuple[Parameter, ...]:
    """What a builder takes; to find out takes up to 70 us."""
    return tuple(signature(builder).parameters.values())


def _tried(
    function: Any, span: Span, name: str, args: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """What a function gives for arguments that it may not take."""
    try:
        return settled(function(*args, **keywords))
    except (TypeError, ValueError) as error:
        raise errors.wrong_arguments(span, name, str(error)) from error


def _structure(function: Any, *args: Any, **keywords: Any) -> Any:
    """Builtins that arrange values without looking at them."""
    made = function(*args, **keywords)
    return made if function in (range, len) else tuple(map(constant, made))


def _from_numpy(function: Any) -> bool:
    """Whether NumPy has it; a method of one of its objects counts."""
    owner = type(getattr(function, "__self__", None)).__module__
    module = getattr(function, "__module__", None) or owner
    return str(module).partition(".")[0] == "numpy"
