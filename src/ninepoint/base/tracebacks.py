"""Tracebacks that end in the user's code, where the mistake is the user's.

    Traceback (most recent call last):
      File "mine.py", line 8, in <module>
        smooth(image, boundary="reflet")
    ValueError: unknown boundary 'reflet'; ...

Every public function is a door: an error that the package raises on purpose, or that the system
gives for a file, leaves it without the frames behind it.  What fails otherwise, an assertion or
an error of another library, keeps them all, and so does everything under
`NINEPOINT_TRACEBACKS=whole`.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

VARIABLE = "NINEPOINT_TRACEBACKS"

_PACKAGE = __name__.partition(".")[0]
_MISTAKES = (ValueError, TypeError, IndexError, ImportError, OSError)
_RAISE = dis.opmap["RAISE_VARARGS"]


def door(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function; what it raises as the mistake of a user shows no frames of this package."""

    @functools.wraps(function)
    def called(*args: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*args, **named)
        except _MISTAKES as error:
            shorten(error)
            raise

    return called


def shorten(error: BaseException) -> None:
    """Take the frames behind a door from an error that is about to leave it by a bare `raise`.

    Called by the door itself.  Nothing is taken where the door's caller is of this package: the
    outermost door does it.
    """
    if _ours(sys._getframe(2)) or not _is_mistake(error):
        return
    error.__traceback__ = None
    cause = error.__cause__
    if cause is not None:
        cause.__traceback__ = None
    # What was being handled in here is no news; what the user was handling is.
    context = error.__context__
    while context is not None and context is not cause:
        found = context.__traceback__
        # Whether it was caught by this package: its frames begin where it was caught.
        if found is not None and not _ours(found.tb_frame):
            break
        context = context.__context__
    error.__context__ = context


def _ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE


def _is_mistake(error: BaseException) -> bool:
    """Whether this package raised the error by a statement of its own, or found no such file."""
    found = error.__traceback__
    if found is None or not isinstance(error, _MISTAKES) or os.environ.get(VARIABLE) == "whole":
        return False
    while found.tb_next is not None:
        found = found.tb_next
    raised = found.tb_frame.f_code.co_code[found.tb_lasti] == _RAISE
    return _ours(found.tb_frame) and (raised or isinstance(error, OSError))
