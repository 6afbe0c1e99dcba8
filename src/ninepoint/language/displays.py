"""What a notebook shows of an explanation, a measurement and a tuning: tables in place of lines.

    smooth: x uint8 -> uint8                 smooth: x uint8 -> uint8      (the head)
      border      reflect            ->      border | reflect
      looks       offsets -1..1              looks  | offsets -1..1

Colours are the page's own, so that they are read on a dark page too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from .signature import Page

WIDTH = 12  # of a label, which stands behind two blanks

_STYLE = "text-align:left;vertical-align:top;font-family:monospace;white-space:pre-wrap"


class Lines(list[str]):
    """A page, line by line, each with a label or under the last one."""

    def add(self, label: str, *texts: str) -> None:
        """Add lines, of which the first has a label."""
        for text in texts:
            self.append(f"  {label:<{WIDTH}}{text}")
            label = ""


class Explanation(Page):
    """Lines of text, each with a label; a table in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """Give a table with a row for each label."""
        head, *rows = re.split(r"\n  (?=\S)", self)
        under = "\n" + " " * (2 + WIDTH)
        return table(
            head, [(row[:WIDTH].strip(), row[WIDTH:].replace(under, "\n")) for row in rows]
        )


def table(head: str, rows: Iterable[tuple[str, str]]) -> str:
    """Write a table of labels and texts, whose lines and blanks are kept."""
    body = "".join(
        f'<tr><th style="{_STYLE}">{escape(label)}</th>'
        f'<td style="{_STYLE}">{escape(text)}</td></tr>'
        for label, text in rows
    )
    return f"<table><caption><b>{escape(head)}</b></caption><tbody>{body}</tbody></table>"


def time_text(seconds: float) -> str:
    """A time with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def counted(number: float, unit: str) -> str:
    """A number with its unit, and a prefix that suits it."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # 999.9 M is written with three digits, and so is 1 G.
        if number >= 0.9995 * scale:
            return f"{number / scale:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def many(number: float, word: str) -> str:
    """A number with its word: 1 field, 2 fields, 3.7 loads."""
    return f"{number:g} {word}" if number == 1 else f"{round(number, 1):g} {word}s"
