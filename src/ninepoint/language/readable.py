"""Two things that keep a text from being read: that it is too deep, or another package's.

A syntax tree is as deep as the longest sum in it, and is followed by functions that call
themselves: sums of thousands of terms are deeper than Python's stack.  Only where that ends is
the work done again with room, on a thread of its own.

Where a function of another package cannot be compiled, the user's own line is shown,

    pd.isna(x[0])     ->     'pd.isna' cannot be compiled in a kernel: ... line 12 of the user's

not the line of pandas, which the user can neither read at a glance nor change.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from .definitions import Function, Unusable, dotted, with_helpers
from .errors import Span, StencilError, mistake
from .source import package, place_of, rebuild

_Result = TypeVar("_Result")

# Python's own compiler gives up at a depth of some thousands; a level takes a few calls of ours.
_CALLS = 100_000

# Bytes of the stack; what is not used is not taken from memory. A call from C to Python takes
# half a kilobyte to one.
_STACK = 256 * 1024 * 1024

_lock = threading.Lock()


def with_room(work: Callable[[], _Result], function: Function | types.FunctionType) -> _Result:
    """What `work` gives for a function; done again with a deeper stack where the stack ends.

    Raises
    ------
    StencilError
        If that is not enough.  A mistake in a text of another package is one of the line that
        calls it.
    """
    try:
        return _with_room(work, function)
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


def _with_room(work: Callable[[], _Result], function: Function | types.FunctionType) -> _Result:
    with suppress(RecursionError):
        return work()
    with suppress(RecursionError):
        return _elsewhere(work)
    if isinstance(function, Function):
        raise mistake("too-deep", function.place, function.name)
    code, name = function.__code__, function.__name__
    line = linecache.getline(code.co_filename, code.co_firstlineno)
    raise mistake("too-deep", place_of(code, line or name), name)


def frozen(function: Function) -> Any:
    """The function, with the values its names had when it was captured, also those of no kernel.

    It stands where its text does, so that breakpoints and prints work.
    """

    def known(value: Any) -> Any:
        if isinstance(value, Function):
            return frozen(value)
        return value.value if isinstance(value, Unusable) else value

    constants = {name: known(value) for name, value in function.constants.items()}
    return with_room(lambda: rebuild(replace(function, constants=constants)), function)


def _elsewhere(work: Callable[[], _Result]) -> _Result:
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
