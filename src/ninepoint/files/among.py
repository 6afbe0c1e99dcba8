"""Whether a file would lie among those that a pattern finds: a result among its own inputs."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

# What stands for the pattern of files that were given one by one.
LIST = "a list of files"


def absolute(pattern: str) -> str:
    """Give a pattern that means the same from every folder, without links where it is literal."""
    parts = os.path.abspath(pattern).split(os.sep)
    literal = next((k for k, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    head = os.path.realpath(os.sep.join(parts[:literal]) or os.sep)
    return os.path.join(head, *parts[literal:])


def found_by(pattern: str, path: str) -> bool:
    """Whether `pattern` finds `path`; both are absolute.

    Examples
    --------
    >>> found_by("/in/**/*.png", "/in/0000.png"), found_by("/in/*.png", "/in/0000.tif")
    (True, False)
    """
    return _matches(path.split(os.sep), pattern.split(os.sep))


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        # As many folders as there are, or none; two in a row mean no more than one.
        rest = [part for k, part in enumerate(parts) if part != "**" or parts[:k].count("**") != k]
        return any(_matches(names[k:], rest) for k in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _matches(names[1:], parts[1:])
