"""What the user's function is called with, and what it gives back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dtypes import kind_of
from .number import Literal, plain, see
from .views import Table


def python_function(function: Any) -> Any:
    """The Python function in a `numba.njit` function, or the function itself."""
    return getattr(function, "py_func", function)


def call_arguments(function: Any, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to call `function` with; defaults are numbers of the kernel too."""
    positional, named = [], {}
    for name, parameter in inspect.signature(python_function(function)).parameters.items():
        if name in given:
            value = given[name]
        elif parameter.default is not parameter.empty:
            value = argument(parameter.default)
        else:
            raise TypeError(f"no value for the parameter {name!r}")
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return positional, named


def argument(value: Any) -> Any:
    """A scalar or a small array as the kernel sees it."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.view(Table)
    number = isinstance(value, (bool, int, float, complex, np.number, np.bool_, np.ndarray))
    number = number or (isinstance(value, np.generic) and kind_of(value.dtype) == "f")
    if type(value) is int:
        return Literal(value)
    return see(value[()] if isinstance(value, np.ndarray) else value) if number else value


def results(returned: Any) -> tuple[Any, ...]:
    """What the user's function returned, one exact number for each output."""
    outputs = returned if isinstance(returned, tuple) else (returned,)
    return tuple(number(output) for output in outputs)


def number(output: Any) -> Any:
    """A Python integer or truth value, or a float or complex scalar of NumPy."""
    value = plain(output)
    if isinstance(value, (bool, np.inexact)):
        return value
    if isinstance(value, (int, np.uint64)):
        return int(value)
    if isinstance(value, (float, complex)):
        return np.float64(value) if isinstance(value, float) else np.complex128(value)
    raise TypeError(f"a kernel returns numbers, not {type(value).__name__}")
