"""The command `ninepoint`: stencils on files, without writing a program.

    here      the words of the command line, and what is said of mistakes
    commands  what each command does, and the kernel that is meant

What a command needs is imported when it runs, so that `--help` is there at once.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
import traceback
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Any, TypeAlias

from .. import __version__
from ..base.undisturbed import imported
from ..language.errors import StencilError

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
    finally:
        _flush()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(
                f"ninepoint: warning: {message}", file=sys.stderr
            )
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
        _flush()
    except _EXPECTED as error:
        words = str(error) or type(error).__name__
        _say(options, words if isinstance(error, StencilError) else f"ninepoint: {words}")
        return FAILED
    return DONE


def _flush() -> None:
    """Print what is left, if anybody reads it."""
    try:
        # None where the program was started without one.
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has enough, as `head` has; Python would complain at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(options: Namespace, words: str) -> None:
    """Report what is wrong, after the traceback if that is asked for."""
    if options.debug:
        traceback.print_exc()
    print(words, file=sys.stderr)


_EXAMPLES = """\
examples:
  ninepoint apply median photos/ quiet/ --param size=5
  ninepoint apply median photos/ 'quiet/{stem}.png'
  ninepoint apply kernels.py:smooth 'frames/*.png' 'smooth/{:04d}.tif' --boundary reflect
  ninepoint apply kernels.py:edges photo.jpg edges.tif
  ninepoint apply median volume.zarr out.zarr --param size=3 --resume
  ninepoint explain kernels.py:smooth --dtype uint8
  ninepoint info

exit codes: 0 done, 1 data or kernel at fault, 2 command line at fault, 130 interrupted
"""

_KERNEL = "file.py:name, package.module:name, or a ready-made filter such as median"

_PARAM = "value of a parameter, as Python writes it; may be repeated"
_INPUT = "files, a folder or a pattern such as 'frames/*.png', or a store such as volume.zarr"
_OUTPUT = (
    "a folder, a file or a pattern such as 'smooth/{stem}.png' or '{:04d}.tif', or a store such "
    "as out.zarr"
)

_APPLY = """\
Apply a stencil to images, a few frames at a time, or to a store of arrays, a few blocks at a time:
neither need fit into memory. Colour images are filtered channel by channel. Names that end in
.zarr, .nc, .h5 or .npy are those of arrays.

Images that go to a folder keep their names and formats, and may have several sizes; {name} and
{stem} in OUTPUT stand for the name of a file, with its suffix and without, and {:04d} for the
number of a frame. Images of one size are one stack: a kernel of three indices looks at the frames
before and after.
"""

_APPLY_EXAMPLES = """\
A kernel file holds ordinary Python:

  import ninepoint as npt

  @npt.stencil(boundary="reflect")
  def smooth(x, weight=1):
      return (x[-1, 0] + x[0, -1] + weight * x[0, 0] + x[0, 1] + x[1, 0]) / (4 + weight)

examples:
  ninepoint apply smooth.py:smooth frames/ smooth/ --dtype uint8 --overflow saturate
  ninepoint apply smooth.py:smooth 'scans/**/*.tif' smooth.tif --param weight=2
  ninepoint apply gaussian photo.jpg soft.png --param sigma=2.5 --boundary nearest
  ninepoint apply median frames/ clean/ --param size=5 --resume
  ninepoint apply median volume.zarr out.zarr --param "size=(3, 3, 3)" --shards 64,512,512
  ninepoint apply median volume.zarr out.zarr --param size=3 --part "$SLURM_ARRAY_TASK_ID/8"
"""


_COMMANDS = (
    ("apply", "apply a stencil to images", _APPLY, _APPLY_EXAMPLES),
    ("explain", "tell how a stencil is understood and computed",
     "Tell how a stencil is understood and computed.", ""),
    ("filters", "list the ready-made filters", "List the ready-made filters.", ""),
    ("info", "show versions, processor, threads and cache",
     "Show what one pastes into a bug report.", ""),
    ("cache", "show or clear the folder of compiled kernels",
     "Show the folder of compiled kernels and its size.", ""),
)  # fmt: skip


def make_parser() -> ArgumentParser:
    """Give the parser of the whole command line."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = ArgumentParser(
        prog="ninepoint",
        description="Apply stencils, functions of a point and its neighbours, to images.",
        epilog=_EXAMPLES,
        formatter_class=layout,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"ninepoint {__version__}",
        help="show the version and leave",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {}
    for name, words, description, examples in _COMMANDS:
        made[name] = commands.add_parser(
            name, help=words, description=description, epilog=examples, formatter_class=layout
        )
        made[name].add_argument(
            "--debug", action="store_true", help="show the traceback of an error"
        )
    apply, explain = made["apply"], made["explain"]
    for command in (apply, explain):
        command.add_argument("kernel", metavar="KERNEL", help=_KERNEL)
        command.add_argument("--param", type=param, action="append", default=[],
                             metavar="NAME=VALUE", help=_PARAM)  # fmt: skip
    apply.add_argument("input", metavar="INPUT", nargs="+", help=_INPUT)
    apply.add_argument("output", metavar="OUTPUT", help=_OUTPUT)
    for title, rows in _GROUPS.items():
        _add(apply.add_argument_group(title), rows)
    words = "type of the field, again for each further one"
    explain.add_argument("--dtype", type=dtype, action="append", default=[],
                         metavar="D", help=words)  # fmt: skip
    _add(explain.add_mutually_exclusive_group(), (
        ("--ir", "", None, "show the intermediate form instead"),
        ("--source", "", None, "show the generated code instead"),
    ))  # fmt: skip
    _add(explain, (("--device", "", ("cuda",), "tell what a GPU does, which need not be there"),))
    _add(made["cache"], (("--clear", "", None, "remove everything in it"),))
    return parser


# Options: name, what stands for its value, how that is read or what it may be, or None for those
# without one; help.
_Rows: TypeAlias = "tuple[tuple[str, str, Any, str], ...]"


def _add(parser: Any, rows: _Rows) -> None:
    for name, metavar, kind, words in rows:
        if kind is None:
            parser.add_argument(name, action="store_true", help=words)
        elif isinstance(kind, tuple):
            parser.add_argument(name, choices=kind, help=words)
        else:
            parser.add_argument(name, metavar=metavar, type=kind, help=words)


def param(text: str) -> tuple[str, Any]:
    """Read `name=value`, the value as a Python literal."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name.strip(), literal(value)


def dtype(text: str) -> Any:
    """Read the name of a dtype."""
    try:
        return imported("numpy").dtype(text)
    except TypeError as error:
        raise ArgumentTypeError(f"{text}: there is no such type; uint8 is one") from error


def part(text: str) -> tuple[int, int]:
    """Read `1/8`, the first of eight parts."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found:
        raise ArgumentTypeError(f"{text!r} is no part of many, as 1/8")
    number, parts = map(int, found.groups())
    if not 1 <= number <= parts:
        raise ArgumentTypeError(f"{text!r}: parts are counted from 1 to {parts}")
    return number - 1, parts


def boundary(text: str) -> str | tuple[Any, ...]:
    """Read `reflect`, `reflect,wrap` or `nearest:constant,wrap`; the names are checked later."""
    axes = [tuple(side.strip() for side in axis.split(":")) for axis in text.split(",")]
    entries = tuple(sides[0] if len(sides) == 1 else sides for sides in axes)
    return entries[0] if entries == (text.strip(),) else entries


def literal(text: str) -> Any:
    """Read a value as Python writes it; whether it fits is for those to say who take it."""
    text = text.strip()
    if text.lstrip("+-") in ("inf", "nan"):
        return float(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ArgumentTypeError(
            f'{text!r} is no value as Python writes it, such as 5, 2.5, True, (1, 2) or "text"'
        ) from error


# The options of `apply`, in groups.
_GROUPS: dict[str, _Rows] = {
    "what is computed": (
        ("--boundary", "NAME[,NAME]", boundary,
         "what lies outside an image: fill, keep, valid, constant, nearest, reflect, mirror "
         "or wrap; one name, or one for each axis, where BEFORE:AFTER gives the sides their "
         "own"),
        ("--cval", "V", literal, "value of fill and constant"),
        ("--dtype", "D", dtype,
         "type of the result, such as uint8; floats are rounded to integers"),
        ("--overflow", "", ("saturate", "wrap"),
         "what happens to a number that --dtype cannot hold"),
        ("--result", "N", int, "which result to write, from 0, if the kernel has several"),
    ),
    "files": (
        ("--compression", "0..9", int, "of PNG and TIFF"),
        ("--quality", "1..100", int, "of JPEG"),
        ("--resume", "", None,
         "leave out frames whose file exists; go on with a store that is not complete"),
        ("--overwrite", "", None, "replace what is there"),
    ),
    "stores and files of arrays": (
        ("--variable", "NAME", str, "which array of INPUT, if of several"),
        ("--chunks", "N[,N]", literal, "what is compressed as one piece"),
        ("--shards", "N[,N]", literal, "files of many chunks, each for one task"),
        ("--part", "I/N", part,
         "write only part I, from 1, of N; each may be a job of its own, in any order"),
    ),
    "running": (
        ("--threads", "N", literal,
         "threads to use (default: NINEPOINT_THREADS, or every core)"),
        ("--device", "", ("cuda",), "compute on a GPU of NVIDIA, which needs CuPy"),
        ("--quiet", "", None, "no progress bar and no summary"),
    ),
}  # fmt: skip
