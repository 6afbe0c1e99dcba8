"""What the user did wrong, where, and what to do instead; and what is said without stopping.

A mistake in a user's kernel is a `StencilError` that points at the smallest piece of source
that is wrong.  Every message of the compiler is written in `mistakes.toml`, by the code of the
mistake, so that its whole voice can be read in one sitting.  Callers pass facts, never prose.
"""

from __future__ import annotations

import ast
import difflib
import functools
import os
import sys
import threading
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line of the user's source.

    Columns count characters from 0 and `end` is exclusive.  The text of the line travels
    along: an error may be printed in a process that has no such file.
    """

    file: str
    line: int
    start: int
    end: int
    text: str


class _Here(threading.local):
    """Where this thread reads a text: what is wrong there needs to name no place.

    That is a function, and a part of its definition.
    """

    place: tuple[Any, ast.AST]

    def at(self, node: ast.AST) -> None:
        """Go to another part of the definition."""
        self.place = self.place[0], node

    @property
    def span(self) -> Span:
        """Where that stands."""
        function, node = self.place
        span: Span = function.span(node)
        return span


here = _Here()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """The facts of one mistake; `str` lays them out."""

    code: str
    message: str
    span: Span
    label: str
    help: str

    def __str__(self) -> str:
        at, gutter = self.span, len(str(self.span.line))
        # As wide as what is above them; a tab is as wide as the tab above it.
        blank = "\t".join(" " * _width(part) for part in at.text[: at.start].split("\t"))
        carets = blank + "^" * max(1, _width(at.text[at.start : at.end]))
        return "\n".join(
            [
                f"{self.message} [{self.code}]",
                f'  File "{at.file}", line {at.line}',
                f"    {at.line} | {at.text}",
                f"    {'':{gutter}} | {carets} {self.label}",
                f"  Help: {self.help}",
            ]
        )


def _width(text: str) -> int:
    """Count the columns that a terminal gives to `text`: two for a wide letter."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


class StencilError(ValueError):
    """The kernel cannot be compiled as it is written.

    Holds exactly one `Diagnostic` as its only argument, which also makes it picklable.

    Attributes
    ----------
    diagnostic : Diagnostic
        Its `code`, `message`, `span` (the file, the line, the columns and the text of the place),
        `label` and `help`; `str` of the error lays them out.

    Examples
    --------
    >>> import ninepoint as npt
    >>> try:
    ...     npt.stencil(lambda x: x[0.5])
    ... except npt.StencilError as error:
    ...     print(error.diagnostic.span.text.strip())
    npt.stencil(lambda x: x[0.5])
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


@functools.cache
def _words() -> dict[str, Any]:
    """The words for mistakes, by their codes, and those for options of other libraries."""
    # Imported here: only who makes a mistake needs them.
    import tomllib
    from importlib import resources

    text = resources.files(__package__).joinpath("mistakes.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def mistake(code: str, *facts: object) -> StencilError:
    """The error that a kind of mistake is, at a place and with the facts that its words name.

    Without a place the mistake is where the text is being read.
    """
    first = facts[0] if facts else None
    span = first if isinstance(first, Span) else None
    rest = iter(facts[1:] if span else facts)
    known = defaultdict[str, object](lambda: next(rest))
    kind = _words()["mistakes"][code]
    message, label, help = (
        text.format_map(known) for text in (kind["message"], kind["label"], cure(code, *facts))
    )
    assert next(rest, known) is known, facts
    return StencilError(Diagnostic(code, message, span or here.span, label, help))


def cure(code: str, *facts: object) -> str:
    """What helps against a kind of mistake, by the first words of one of the facts."""
    kind = _words()["mistakes"][code]
    for start, told in kind.get("cures", {}).items():
        if any(str(one).startswith(start) for one in facts):
            return str(told)
    return str(kind["help"])


def hint(name: str, known: Iterable[str] = ()) -> str:
    """What to write for an option that has this name elsewhere, as the end of a message.

    Else which of the `known` names it may be, misspelt.
    """
    for names, told in _words()["options"].items():
        if name in names.split():
            return f"; {told}"
    close = alike(name, known)
    return f"; perhaps you mean {close}" if close else ""


def alike(name: str, known: Iterable[str]) -> str:
    """The name that is spelt most like this one; empty where none is."""
    return next(iter(difflib.get_close_matches(name, known, 1)), "")


# Warnings: each of our own is silenced by its class.

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class ChannelWarning(UserWarning):
    """A kernel takes what looks like the channels of colour images for columns.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.ChannelWarning)
    """


class MetadataWarning(UserWarning):
    """What a file says about its frames is not kept: the names of axes, the size of a pixel.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.MetadataWarning)
    """


class PerformanceWarning(UserWarning):
    """A call is right, but takes many times as long as another way to say the same.

    It says why, how many times, and what to write instead: once for each stencil, in the process
    that decorated it.  ``@npt.stencil(performance_warnings=False)`` silences one stencil.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.PerformanceWarning)
    """


class RoundingWarning(UserWarning):
    """A filter rounds what its weights make to the integers of the image.

    Examples
    --------
    >>> import warnings
    >>> import ninepoint as npt
    >>> warnings.simplefilter("ignore", npt.RoundingWarning)
    """


# How many times as long kernels that are not analysed take: the more, the more loops they have,
# and most where they make arrays for each point.
SLOWER = "5 to 500"


def warn(words: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here, however deep in the package this is."""
    level = 2
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
        level += 1
    # Started by `python -m ninepoint` there is no line of the user's.
    warnings.warn(words, category, stacklevel=1 if frame is None else level)
