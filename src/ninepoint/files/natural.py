"""The order in which a person counts: frame2 before frame10."""

from __future__ import annotations

import re

NUMBER = re.compile(r"([0-9]+)")


def natural_key(path: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key of `path`: its runs of digits compare as numbers, the rest without case.

    The path itself comes last, so that `a1` and `a01` have one order on every machine.

    Examples
    --------
    >>> sorted(["f10.png", "f2.png", "F1.png"], key=natural_key)
    ['F1.png', 'f2.png', 'f10.png']
    """
    # split() with a group alternates text, number, text, ...: positions of one kind meet.
    pieces = NUMBER.split(path.replace("\\", "/").casefold())
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces)), path
