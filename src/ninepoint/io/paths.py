"""Paths of this machine: what they may be, their order, whether a file is still the same."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any, TypeAlias

from ..undisturbed import imported

AnyPath: TypeAlias = "str | PathLike[str]"

_NUMBER = re.compile(r"([0-9]+)")

# What is imported of a package beside itself, and the name by which pip knows it.
_PARTS = {"PIL": ("PIL.Image", "PIL.JpegImagePlugin", "PIL.PngImagePlugin")}
_PACKAGES = {"PIL": "pillow", "dask.array": "'dask[array]'", "zarr": "'zarr>=3'"}


def need(what: str, *modules: str) -> Any:
    """Import what one needs for `what`, or say which module is missing and how to get it.

    Gives the last one; others are partly typed, so nobody looks at how.
    """
    for module in modules:
        try:
            for one in (module, *_PARTS.get(module, ())):
                found = imported(one)
        except ImportError as error:
            raise ImportError(
                f"{what} needs '{module}', which cannot be imported ({error}). "
                f"Install it, on every machine that computes, with: "
                f"pip install {_PACKAGES.get(module, module)}"
            ) from error
    return found


def local_path(path: AnyPath, urls: str) -> str:
    """Give a path as text; `urls` is what is said of one that is no place on this machine."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is text, not {path!r}")
    if "\0" in text:
        raise ValueError(f"a path cannot hold a NUL character: {text!r}")
    if "://" in text:
        raise ValueError(urls.format(text))
    return os.path.expanduser(text)


def make_folder(folder: str, who: str) -> None:
    """Make the folder, and find out now that it cannot be written, not after an hour."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder!r} is a file; {who} needs a folder there")
    os.makedirs(folder, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {folder!r} cannot be written")


def natural_key(path: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key of `path`: its runs of digits compare as numbers, the rest without case.

    The path itself comes last, so that `a1` and `a01` have one order on every machine.

    Examples
    --------
    >>> sorted(["f10.png", "f2.png", "F1.png"], key=natural_key)
    ['F1.png', 'f2.png', 'f10.png']
    """
    # split() with a group alternates text, number, text, ...: positions of one kind meet.
    pieces = _NUMBER.split(path.replace("\\", "/").casefold())
    return tuple(int(p) if i % 2 else p for i, p in enumerate(pieces)), path


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was: size [bytes] and time of the last change [ns]; or another `sign`.

    What lies on other machines is told by what describes it.
    """

    path: str
    size: int = 0
    changed: int = 0
    sign: str = ""

    @property
    def is_true(self) -> bool:
        """Whether the file is still the same; raises what Python says of one that is gone."""
        return bool(self.sign) or stamp(self.path) == self


def stamp(path: str) -> Stamp:
    """Take the stamp of a file."""
    status = os.stat(path)
    return Stamp(path, status.st_size, status.st_mtime_ns)


def readable(path: str) -> Stamp:
    """Take the stamp of a file that may be read, else raise what Python says of it."""
    with open(path, "rb"):
        return stamp(os.path.abspath(path))


def absolute(pattern: str) -> str:
    """Give a pattern that means the same from every folder, without links where it is literal."""
    parts = os.path.abspath(pattern).split(os.sep)
    literal = next((k for k, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    head = os.path.realpath(os.sep.join(parts[:literal]) or os.sep)
    return os.path.join(head, *parts[literal:])


def found_by(pattern: str, path: str) -> bool:
    """Whether `pattern` finds `path`, which need not be there; both are absolute.

    Examples
    --------
    >>> found_by("/in/**/*.png", "/in/0000.png"), found_by("/in/*.png", "/in/0000.tif")
    (True, False)
    """
    return _matches(path.split(os.sep), pattern.split(os.sep))


def _matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not parts or not names:
        return not names and all(part == "**" for part in parts)
    if parts[0] == "**":
        # As many folders as there are, or none.
        return _matches(names, parts[1:]) or _matches(names[1:], parts)
    return fnmatchcase(names[0], parts[0]) and _matches(names[1:], parts[1:])
