"""Which files a stack is read from, and in which order."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import TypeAlias

from . import tiff
from .among import LIST, absolute
from .errors import MALFORMED, ImageReadError, reason_of
from .foreign import cure_for
from .natural import natural_key

Path: TypeAlias = "str | PathLike[str]"

TIFF_SUFFIXES = (".tif", ".tiff")
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was when the stack was opened.

    `places` are the bytes at which the pages of a TIFF start, and empty for a picture, which
    is one frame.  Size [bytes] and time of the last change [ns] tell whether it is still the same.
    """

    path: str
    size: int
    changed: int
    places: tuple[int, ...]

    @property
    def frames(self) -> int:
        """How many frames the file gives."""
        return len(self.places) or 1


def find_sources(source: Path | Iterable[Path]) -> tuple[list[Source], str]:
    """Find the files of `source`: a pattern, a folder or a file; or of a list, in its order.

    And where they came from, as `Part.found` has it.
    """
    found = ""
    if isinstance(source, (str, os.PathLike)):
        text = _local(source)
        paths = _matching(text)
        if os.path.isdir(text):
            found = absolute(os.path.join(glob.escape(text), "*"))
        elif paths != [text]:
            found = absolute(text)
    elif isinstance(source, bytes) or not isinstance(source, Iterable):
        raise TypeError(
            f"imread takes a pattern, a folder, a file or a list of files, not {source!r}"
        )
    else:
        paths = [_local(path) for path in source]
        if not paths:
            raise ValueError("imread got an empty list of files")
        found = LIST if len(paths) > 1 else ""
    sources: list[Source] = []
    frames = 0
    for path in paths:
        sources.append(_look_at(path, frames))
        frames += sources[-1].frames
    return sources, found


def _local(path: Path) -> str:
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is text, not {path!r}")
    if "\0" in text:
        raise ValueError(f"a path cannot hold a NUL character: {text!r}")
    if "://" in text:
        raise ValueError(f"imread reads local files, not the URL {text!r}; download it first")
    return os.path.expanduser(text)


def _matching(text: str) -> list[str]:
    if os.path.isdir(text):
        if cure := cure_for(text):
            raise ImageReadError(text, 0, cure)
        suffixes = PICTURE_SUFFIXES + TIFF_SUFFIXES
        with os.scandir(text) as entries:
            found = [
                entry.path
                for entry in entries
                if entry.name.lower().endswith(suffixes)
                and not entry.name.startswith(".")
                and not entry.is_dir()
            ]
        if not found:
            raise FileNotFoundError(
                f"the folder {text!r} holds no image ({', '.join(suffixes)}); for other names or "
                "for folders inside it give a pattern such as 'folder/**/*.png'"
            )
    elif os.path.lexists(text) or not glob.has_magic(text):
        return [text]  # a file, also one with [ or * in its name, or a plain mistake
    else:
        found = [path for path in glob.iglob(text, recursive=True) if not os.path.isdir(path)]
        if not found:
            raise FileNotFoundError(f"no file matches {text!r} (in {os.getcwd()!r})")
    return sorted(found, key=natural_key)


def _look_at(path: str, frame: int) -> Source:
    """Note size and time of a file, and where the pages of a TIFF are."""
    status = os.stat(path)
    if cure := cure_for(path):
        raise ImageReadError(path, frame, cure)
    check_regular(path, frame, status)
    if not _is_tiff(path):
        return Source(path, status.st_size, status.st_mtime_ns, ())
    with open(path, "rb") as file:
        try:
            places = tiff.page_places(file, status.st_size)
        except MALFORMED as error:
            raise ImageReadError(path, frame, reason_of(error)) from error
    return Source(path, status.st_size, status.st_mtime_ns, places)


def check_regular(path: str, frame: int, status: os.stat_result) -> None:
    """Raise for a folder or a device: opening a pipe would wait for ever."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{path!r} is a folder, not an image")
    if not stat.S_ISREG(status.st_mode):
        raise ImageReadError(path, frame, "it is a pipe or a device, not a file")


def _is_tiff(path: str) -> bool:
    """Answer by the name, which costs nothing, and by the first bytes for an unusual one."""
    name = path.lower()
    if name.endswith(TIFF_SUFFIXES):
        return True
    if name.endswith(PICTURE_SUFFIXES):
        return False
    with open(path, "rb") as file:
        return file.read(4) in TIFF_SIGNATURES
