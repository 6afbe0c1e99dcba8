"""Lines of text that a prompt and a notebook show as `print` does."""

from __future__ import annotations


class Page(str):
    """A text of several lines: its `repr` is the text itself, without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
