"""Decorators: what `@stencil` and `@ufunc` share is to see what they were given."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..arrays.accepted import is_lazy
from ..base.tracebacks import door
from ..language.definitions import ArrayFunction
from ..language.readable import with_room

# What a decorator makes.
T = TypeVar("T", bound=ArrayFunction)

# What stands for a function that is not given: None is something that a mistake gives.
NOTHING = object()


def decorator(kind: str, function: Any, make: Callable[[types.FunctionType], T]) -> Any:
    """What makes a stencil of a function; or what it makes of this one, if one is given."""

    @door
    def decorate(function: Callable[..., Any]) -> T:
        plain = _python_function(function, kind)
        return with_room(functools.partial(make, plain), plain)

    return decorate if function is NOTHING else decorate(function)


def _python_function(value: Any, kind: str) -> types.FunctionType:
    """What a decorator of some kind was given, if that is a function with a text.

    Raises
    ------
    TypeError
        If it is not; says what it is instead, and what to do.
    """
    plain = getattr(value, "py_func", value)
    if isinstance(value, ArrayFunction):
        raise TypeError(f"'{value.definition.name}' is a {value.definition.kind} already.")
    if not isinstance(plain, types.FunctionType) or _is_filter(plain):
        raise TypeError(f"a {kind} is made from a Python function, {_not_from(value, kind)}.")
    return plain


def _is_filter(function: types.FunctionType) -> bool:
    """Whether it is a function of this package that takes whole arrays."""
    own = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return own and bool(function.__code__.co_flags & inspect.CO_VARARGS)


def _not_from(value: Any, kind: str) -> str:
    """Say what was decorated instead of a function, and what to do."""
    name = getattr(value, "__name__", "")
    if kind == "ufunc" and isinstance(value, str | list):
        words = "text" if isinstance(value, str) else "a list"
        return f"not from {words}; no types are declared, so write @ufunc alone"
    match value:
        case str() if value == "constant":
            return 'not from text; what Numba calls "constant" is @stencil(boundary="fill")'
        case None:
            return "not from None; a function that ends without 'return' gives None"
        case str():
            return f"not from text; write @stencil(boundary={value!r})"
        case type():
            seen = "neighbours" if kind == "stencil" else "elements"
            return f"not from the class '{name}'; decorate a function of the {seen}"
        case types.MethodType():
            return f"not from the method '{name}'; a kernel has no 'self', so define it outside"
        case staticmethod() | classmethod():
            return f"not from a {type(value).__name__}; put @{type(value).__name__} above @{kind}"
        case functools.partial():
            return "not from a partial; pass the values at the call, or give them as defaults"
        case _ if isinstance(value, np.ndarray) or is_lazy(value):
            return "not from an array; decorate a function, and call that with the array"
        case types.ModuleType():
            return f"not from the module '{name}'; name a function of it"
        case np.ufunc() | types.BuiltinFunctionType():
            return f"not from '{name}', which has no source; call it in a function of your own"
        case types.FunctionType():
            return f"not from '{name}', which makes whole arrays; call it with an array"
        case _ if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
            return f"not from what another decorator made of '{name}'; leave that out"
        case _ if callable(value):
            found = type(value).__name__
            return f"not from an object of type '{found}'; write a function that says the same"
        case _:
            return f"not from a value of type '{type(value).__name__}'"
