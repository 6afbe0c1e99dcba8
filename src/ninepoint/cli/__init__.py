"""The command `ninepoint`: stencils on files, without writing a program.

    parser    the words of the command line       kernels   the kernel that is meant
    commands  what each command does

What a command needs is imported when it runs, so that `--help` is there at once.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from ..language.errors import StencilError
from ..undisturbed import imported
from .parser import make_parser

DONE, FAILED, INTERRUPTED = 0, 1, 130

# What wrong data, a wrong kernel or a full disk raise, each with words for the user.  Anything
# else is a mistake of ours, and its traceback is wanted.
_EXPECTED = (OSError, ValueError, TypeError, ImportError, IndexError, OverflowError, MemoryError)


class UsageError(Exception):
    """The command line is at fault."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and give its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the program's name; by default those it was called with.

    Returns
    -------
    int
        0 if all is done, 1 if data or kernel are at fault, 130 after an interrupt (Ctrl-C).

    Raises
    ------
    SystemExit
        With code 2 if the command line is at fault, with 0 after `--help` and `--version`.
    """
    parser = make_parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit:
        _flush()
        raise
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show
            getattr(imported(".commands", __name__), options.command)(options)
        _flush()
    except UsageError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        _say(options, "ninepoint: interrupted")
        if options.command == "apply":
            print("what is written is whole; --resume goes on after it",
                  file=sys.stderr)  # fmt: skip
        return INTERRUPTED
    except BrokenPipeError:
        _leave_stdout()
        return DONE
    except StencilError as error:
        _say(options, str(error))
        return FAILED
    except _EXPECTED as error:
        words = str(error) or type(error).__name__
        _say(options, f"ninepoint: {words}")
        return FAILED
    return DONE


def _flush() -> None:
    try:
        # None where the program was started without one.
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _leave_stdout()


def _leave_stdout() -> None:
    """Whoever read the output has enough, as `head` has; Python would complain at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"ninepoint: warning: {message}", file=sys.stderr)


def _say(options: Namespace, words: str) -> None:
    """Report what is wrong, after the traceback if that is asked for."""
    if options.debug:
        traceback.print_exc()
    print(words, file=sys.stderr)
