"""Follow texts that are deeper than Python's stack: sums of thousands of terms, long chains.

A syntax tree is as deep as the longest sum in it, and is followed by functions that call
themselves.  Only where the stack ends is the work done again with room, on a thread of its own.
"""

from __future__ import annotations

import linecache
import sys
import threading
import types
from collections.abc import Callable
from typing import TypeVar

from . import errors
from .errors import Span
from .source import Function

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
        If that is not enough.
    """
    try:
        return work()
    except RecursionError:
        pass
    try:
        return _elsewhere(work)
    except RecursionError:
        pass
    if isinstance(function, Function):
        raise errors.too_deep(function.place, function.name)
    code, name = function.__code__, function.__name__
    line = linecache.getline(code.co_filename, code.co_firstlineno).rstrip("\n") or name
    place = Span(code.co_filename, code.co_firstlineno, 0, len(line), line)
    raise errors.too_deep(place, name)


def _elsewhere(work: Callable[[], _Result]) -> _Result:
    """What `work` gives on a thread with a deep stack."""
    results: list[_Result] = []
    mistakes: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            mistakes.append(error)

    # Both settings are those of the process: they are changed for as short as can be.
    with _lock:
        calls, stack = sys.getrecursionlimit(), threading.stack_size(_STACK)
        sys.setrecursionlimit(max(calls, _CALLS))
        try:
            thread = threading.Thread(target=run, name="ninepoint-deep")
            thread.start()
            threading.stack_size(stack)
            thread.join()
        finally:
            threading.stack_size(stack)
            sys.setrecursionlimit(calls)
    if mistakes:
        raise mistakes[0]
    return results[0]
