"""Decorators: how they see what they were given, and what they make of it has in common.

Two things keep a text from being read: that it is too deep, or another package's.

A syntax tree is as deep as the longest sum in it, and is followed by functions that call
themselves: sums of thousands of terms are deeper than Python's stack.  Only where that ends is
the work done again with room, on a thread of its own.

Where a function of another package cannot be compiled, the user's own line is shown,

    pd.isna(x[0])     ->     'pd.isna' cannot be compiled in a kernel: ... line 12 of the user's

not the line of pandas, which the user can neither read at a glance nor change.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import threading
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ..base.remembered import Registry
from ..base.tracebacks import door
from .definitions import Function, dotted, with_helpers
from .errors import Span, StencilError, mistake
from .functions import origin
from .signature import signature, with_options
from .source import package, place_of


class Decorated:
    """What a decorator makes of a function: shown as that, and told apart by its meaning."""

    definition: Any

    def __init__(self, definition: Any, options: Mapping[str, Any], live: Any, words: str) -> None:
        function = definition.function
        text = function.definition
        own = signature(text, definition.defaults)
        self.definition, self.__signature__ = definition, with_options(own, options)
        self.__name__ = function.name
        self.__qualname__ = getattr(live, "__qualname__", function.name)
        # Without one `help` would show the class instead.
        told = None if isinstance(text, ast.Lambda) else ast.get_docstring(text)
        self.__doc__ = told or (
            f"A {words}; help(ninepoint.{type(self).__name__}.__call__) has the options of a call."
        )
        self.__module__ = getattr(live, "__module__", type(self).__module__)
        if live is not None:
            self.__wrapped__ = live
        # Last of all: other threads may find it from here on.
        _made.add(definition.token, self)

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.definition)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {"definition"})

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Give the object itself: `help` takes what has this for a function."""
        return self

    def __dask_tokenize__(self) -> str:
        return str(self.definition.token)


_made: Registry[Decorated] = Registry()


def _restored(kind: Callable[[Any], Decorated], definition: Any) -> Decorated:
    return _made.restored(definition.token, lambda: kind(definition))


# What a decorator makes.
T = TypeVar("T", bound=Decorated)

# The parameters of a method, with and without its object, and the result of it or of other work.
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

# What stands for a function that is not given: None is something that a mistake gives.
NOTHING = object()


def decorator(kind: str, function: Any, make: Callable[[types.FunctionType], T]) -> Any:
    """What makes something of a function; or what it makes of this one, if one is given."""

    @door
    def decorate(function: Callable[..., Any]) -> T:
        # Behind a function of `numba.njit` is one of Python.
        plain = getattr(function, "py_func", function)
        if isinstance(function, Decorated):
            raise TypeError(
                f"'{function.definition.name}' is a {function.definition.kind} already."
            )
        # A filter, or another function of this package, takes whole arrays.
        if not isinstance(plain, types.FunctionType) or (
            origin(plain) == "ninepoint" and plain.__code__.co_flags & inspect.CO_VARARGS
        ):
            raise TypeError(
                f"a {kind} is made from a Python function, {_not_from(function, kind)}."
            )
        return with_room(functools.partial(make, plain), plain)

    return decorate if function is NOTHING else decorate(function)


def _not_from(value: Any, kind: str) -> str:
    """Say what was decorated instead of a function, and what to do."""
    seen = {"stencil": "the neighbours", "ufunc": "the elements"}.get(kind, "core arrays")
    found = type(value).__name__
    name = getattr(value, "__name__", "")
    match value:
        case None:
            return "not from None; a function that ends without 'return' gives None"
        case str() | list() if kind == "ufunc":
            return "not from types, which are not declared; write @ufunc alone"
        case str() if kind == "stencil":
            return "not from text; name the border's rule as @stencil(boundary=...)"
        case staticmethod() | classmethod():
            return f"not from a {found}; put @{found} above @{kind}"
        case _:
            what = f"'{name}', of type '{found}'" if name else f"a value of type '{found}'"
            return f"not from {what}; decorate a function of {seen}"


class Method(Generic[P, R]):
    """A method which has another one, that tells what it would `explain` with these arguments."""

    def __init__(self, do: Callable[P, R], explain: Callable[..., str]) -> None:
        functools.update_wrapper(self, do)
        self._do, self.explain = do, explain

    @door
    def __call__(self, /, *args: P.args, **named: P.kwargs) -> R:
        return self._do(*args, **named)

    def __get__(self: Method[Concatenate[Any, Q], R], one: Any, kind: Any = None) -> Method[Q, R]:
        functions: Any = self._do, self.explain
        return Method(*(each.__get__(one, kind) for each in functions))


# Texts that cannot be read as they are.

# Python's own compiler gives up at a depth of some thousands; a level takes a few calls of ours.
_CALLS = 100_000

# Bytes of the stack; what is not used is not taken from memory. A call from C to Python takes
# half a kilobyte to one.
_STACK = 256 * 1024 * 1024

_lock = threading.Lock()


def with_room(work: Callable[[], R], function: Function | types.FunctionType) -> R:
    """What `work` gives for a function; done again with a deeper stack where the stack ends.

    Raises
    ------
    StencilError
        If that is not enough.  A mistake in a text of another package is one of the line that
        calls it.
    """
    try:
        with suppress(RecursionError):
            return work()
        with suppress(RecursionError):
            return _elsewhere(work)
    except StencilError as error:
        at = error.diagnostic.span
        home = package(at.file)
        call = None
        if home and isinstance(function, Function) and not package(function.file):
            call = _call(function, at.file)
        if call is None:
            raise
        span, name = call
        reason = f"{error.diagnostic.message.rstrip('.')} (line {at.line})"
        raise mistake("foreign-function", span, name, home, reason) from None
    if isinstance(function, Function):
        raise mistake("too-deep", function.place, function.name)
    code, name = function.__code__, function.__name__
    line = linecache.getline(code.co_filename, code.co_firstlineno)
    raise mistake("too-deep", place_of(code, line or name), name)


def _elsewhere(work: Callable[[], R]) -> R:
    """What `work` gives on a thread with a deep stack."""
    from concurrent.futures import ThreadPoolExecutor

    # Both settings are those of the process: they are changed for as short as can be.
    with _lock:
        calls, stack = sys.getrecursionlimit(), threading.stack_size(_STACK)
        sys.setrecursionlimit(max(calls, _CALLS))
        try:
            with ThreadPoolExecutor(1, "ninepoint-deep") as deep:
                found = deep.submit(work)
                threading.stack_size(stack)
        finally:
            threading.stack_size(stack)
            sys.setrecursionlimit(calls)
    return found.result()


def _call(function: Function, file: str) -> tuple[Span, str] | None:
    """Where the user's own text first names a function that leads to a file."""
    for node in ast.walk(function.definition):
        name = dotted(node)
        helper = function.constants.get(name)
        if isinstance(helper, Function) and any(one.file == file for one in with_helpers(helper)):
            inside = None if package(helper.file) else _call(helper, file)
            return inside or (function.span(node), name)
    return None
