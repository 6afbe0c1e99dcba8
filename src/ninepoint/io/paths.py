"""Paths of this machine: what they may be, their order, whether a file is still the same.

What is wrong with a file is one error, which names the file.

A file, or a folder, appears under its name when it is whole, or not at all.

What is being written has a name that starts with a dot and ends in .tmp, so that no pattern for
images finds it if the process is killed.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import struct
import tokenize
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from secrets import token_hex
from typing import Any, TypeAlias

from ..base.frozen import frozen
from ..base.undisturbed import imported

# What libraries raise on damaged files: found by cutting and by flipping bytes of valid ones
# (tests/io/test_damage.py).  The last is NumPy's, for the header of a .npy file.  MemoryError is
# left out: that is about the machine.
DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    EOFError,
    AssertionError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
)

# Characters of a reason; what is longer lists the numbers of a damaged file.
_LONGEST = 400


class ImageReadError(OSError):
    """An image cannot be read as a frame of the stack.

    A file that is missing, a folder or forbidden raises Python's own `FileNotFoundError`,
    `IsADirectoryError` or `PermissionError` instead.

    Parameters
    ----------
    path : str
        The file.
    frame : int
        Number of the frame in the stack, from 0.
    reason : str
        What is wrong, as a fragment of a sentence.
    page : int, optional
        Number of the page in the file, from 0, if the file has several.

    Examples
    --------
    >>> import ninepoint as npt
    >>> with open("broken.png", "wb") as file:
    ...     file.write(b"no picture")
    10
    >>> try:
    ...     npt.imread("broken.png")
    ... except npt.ImageReadError as error:
    ...     print(error.frame, error.path)
    0 broken.png
    """

    def __init__(self, path: str, frame: int, reason: str, page: int | None = None) -> None:
        where = path if page is None else f"{path}, page {page}"
        super().__init__(f"cannot read frame {frame} from {where}: {reason}")
        self.path = path
        self.frame = frame
        self.reason = reason
        self.page = page

    def __reduce__(self) -> tuple[type[ImageReadError], tuple[str, int, str, int | None]]:
        """Pickle by the facts: `OSError` would pass the message alone to `__init__`."""
        return type(self), (self.path, self.frame, self.reason, self.page)


class AmongInputsError(ValueError):
    """Results would be written over, or among, the files that they are computed from."""


# These name their file, and say what to do.
CLEAR = (
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ImageReadError,
)


@contextmanager
def opening(path: str, frame: int | None = None) -> Iterator[None]:
    """Raise what is wrong with a file or a store, or with an image that is a frame of a stack."""
    try:
        yield
    except DAMAGE as error:
        # Our own words begin with the name, others' may hold all of it.
        is_named = repr(path)[:-1] in str(error) or os.path.abspath(path) in str(error)
        if is_named or isinstance(error, CLEAR):
            raise
        reason = said(error)
        if frame is not None:
            raise ImageReadError(path, frame, reason) from error
        raise ValueError(f"{path!r} cannot be opened: {reason}") from error


def said(error: BaseException) -> str:
    """What an error says, in one short line; with its name where that is half of what it says."""
    text = " ".join(str(error).split())
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} ..."
    if text and isinstance(error, OSError | ValueError | SyntaxError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def spans(box: Iterable[slice]) -> str:
    """Where elements lie, as they are sliced."""
    return ", ".join(f"{one.start}:{one.stop}" for one in box)


@contextmanager
def replacement(path: str) -> Iterator[str]:
    """Give the temporary name of a new file, which is renamed to `path` at the end.

    The new file lies in the same folder, is on the disk before it gets its name, and is removed
    if anything fails; then whatever was at `path` is as it was.
    """
    temporary = _hidden(path)
    # Never write through something that somebody else put there.
    open(temporary, "xb").close()
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_whole(path: str, data: bytes) -> None:
    """Write a file, which is there when all of it is."""
    with replacement(path) as temporary, open(temporary, "rb+") as file:
        file.write(data)


@contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Give a name beside `path`, and remove what is left there."""
    name = _hidden(path)
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


def _hidden(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".ninepoint-{token_hex(8)}.tmp")


AnyPath: TypeAlias = "str | PathLike[str]"

# Files by their numbers: a template such as frames/{:04d}.png, or a list.
Names: TypeAlias = "str | Sequence[str]"

# The files that describe an array or a group of Zarr, of version 3 and 2.
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup", ".zmetadata")

_NUMBER = re.compile(r"([0-9]+)")

# The names by which pip knows packages.
_PACKAGES = {"PIL": "pillow", "dask.array": "'dask[array]'", "zarr": "'zarr>=3'"}


def need(what: str, *modules: str) -> Any:
    """Import what one needs for `what`, or say which module is missing and how to get it.

    Gives the last one; others are partly typed, so nobody looks at how.
    """
    for module in modules:
        try:
            found = imported(module)
        except ImportError as error:
            raise ImportError(
                f"{what} needs '{module}', which cannot be imported ({error}). "
                f"Install it, on every machine that computes, with: "
                f"pip install {_PACKAGES.get(module, module)}"
            ) from error
    return found


def local_path(path: AnyPath, urls: str = "") -> str:
    """Give a path as text; `urls` is what is said of one that is no place on this machine."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is text, not {path!r}")
    if "\0" in text:
        raise ValueError(f"a path cannot hold a NUL character: {text!r}")
    if "://" not in text:
        return os.path.expanduser(text)
    if urls:
        raise ValueError(urls.format(text))
    return text


def nth(names: Names, number: int) -> str:
    """The file of that number."""
    return names.format(number) if isinstance(names, str) else names[number]


def zarr_files(path: str) -> list[str]:
    """The files by which a folder is an array or a group of Zarr; none if it is neither."""
    names = [os.path.join(path, name) for name in ZARR_FILES]
    return [name for name in names if os.path.lexists(name)]


def make_folder(folder: str) -> None:
    """Make the folder, and find out now that it cannot be written, not after an hour."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder!r} is a file, where a folder is needed")
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


@frozen
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
