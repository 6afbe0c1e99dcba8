"""What goes wrong in what Numba compiles, or has compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...language.errors import Span
from ...language.source import Function

# What Numba says of which nobody learns anything, and how it says the rest.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FUNCTION = re.compile(r"Function\(<(?:[a-z-]+ )*'?((?!0x)[\w.]+)'?(?: at 0x[0-9a-f]+)?>\)")
_SILENT = ("Failed in", "There are", "Rejected", "Overload", "File", "During:", "Enable logging",
           "Not Enough Information", ">>>")  # fmt: skip
_LINE = re.compile(r'File "([^"]+)", line (\d+)')


class Outside(IndexError):
    """What compiled code raises where an index is outside an array.

    Its arguments say where: the function, the row below its `def`, and the array's name there.
    Object code that is kept on disk names this class.
    """


def plain(error: Exception) -> str:
    """All that Numba says of a mistake."""
    return _COLOURS.sub("", str(error))


def reason(text: str) -> str:
    """The first line that says something."""
    lines = [line.strip(" -") for line in text.splitlines()]
    useful = [line for line in lines if line and not line.startswith(_SILENT)]
    found = useful[0] if useful else "Numba gives no reason"
    found = _FUNCTION.sub(r"'\1'", found)
    found = found.replace("found for signature", "for these arguments")
    return re.sub(r",? (defined )?at /\S*( \(\d+\))?", "", found).rstrip(".:")


def place(function: Function, text: str, error: Exception) -> Span:
    """The first of the user's lines that Numba names, which is where the mistake is."""
    lines = [(file, int(line)) for file, line in _LINE.findall(text)]
    loc = getattr(error, "loc", None)
    lines += [] if loc is None else [(loc.filename, loc.line)]
    known = list(all_functions(function))
    for file, line in lines:
        for one in known:
            row = line - one.first_line
            # Numba shortens paths.
            if one.file.endswith(file.lstrip(".")) and 0 <= row <= one.text.count("\n"):
                return whole_line(one, line)
    return function.place


def all_functions(function: Function) -> Iterator[Function]:
    """A function and all that it calls."""
    yield function
    for value in function.constants.values():
        if isinstance(value, Function):
            yield from all_functions(value)


def whole_line(function: Function, line: int) -> Span:
    """A line of a function's text, by its number in the file."""
    code = function.text.split("\n")[line - function.first_line]
    return Span(function.file, line, len(code) - len(code.lstrip()), len(code), code)
