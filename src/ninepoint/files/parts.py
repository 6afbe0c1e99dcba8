"""One chunk of a stack: several frames that are read by one task.

A `Part` holds all that its task needs, so a task is a plain call that any worker can run, and a
graph tells by its parts which files it reads.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import pictures, tiff
from .among import LIST
from .errors import MALFORMED, ImageReadError, reason_of
from .header import Header
from .labels import Labels
from .sources import Source, check_regular


@dataclass(frozen=True, slots=True)
class Piece:
    """The frames that a part takes from one file; `first_page` is the page of the first."""

    source: Source
    first_page: int = 0
    in_stack: bool = False

    @property
    def frames(self) -> int:
        """How many frames."""
        return self.source.frames


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive frames of a stack with one header; `first` is the number of the first.

    `found` tells where the files of the stack came from: the absolute pattern that finds them,
    `LIST` for a list of files, and nothing for one file.
    """

    first: int
    frames: int
    header: Header
    pieces: tuple[Piece, ...]
    max_pixels: int | None
    found: str = ""


def read_header(source: Source, max_pixels: int | None) -> tuple[Header, Labels | None]:
    """Read the shape and the dtype of the first frame of `source`, and the labels of its pages."""
    with _opened(source, 0) as file:
        try:
            if source.places:
                with tiff.lines_once(source.path):
                    return tiff.header(file, source.places, max_pixels)
            return pictures.header(file, source.size, max_pixels), None
        except MALFORMED as error:
            raise ImageReadError(source.path, 0, reason_of(error)) from error


def read_part(part: Part) -> NDArray[np.generic]:
    """Read the frames of `part`, as an array `(frames, rows, columns[, channels])`.

    Every file is opened once and every frame is decoded once.

    Raises
    ------
    ImageReadError
        If a file has changed since the stack was opened, is damaged, or differs in shape or
        dtype from the first frame of the stack.
    """
    frames = np.empty((part.frames, *part.header.shape), part.header.dtype)
    done = 0
    for piece in part.pieces:
        read = _read_pages if piece.source.places else _read_picture
        read(piece, part, part.first + done, frames[done : done + piece.frames])
        done += piece.frames
    return frames


def _read_picture(piece: Piece, part: Part, frame: int, into: NDArray[np.generic]) -> None:
    path = piece.source.path
    with _opened(piece.source, frame) as file:
        try:
            into[0] = pictures.decode(file.read(), part.header, part.max_pixels)
        except MALFORMED as error:
            raise ImageReadError(path, frame, reason_of(error)) from error


def _read_pages(piece: Piece, part: Part, frame: int, into: NDArray[np.generic]) -> None:
    from tifffile import TiffFile

    page = 0
    with _opened(piece.source, frame) as file:
        try:
            with tiff.lines_once(piece.source.path), TiffFile(file) as opened:
                for page, place in enumerate(piece.source.places):
                    into[page] = tiff.decode(
                        tiff.opened(opened, place), part.header, part.max_pixels
                    )
        except MALFORMED as error:
            raise ImageReadError(
                piece.source.path,
                frame + page,
                reason_of(error),
                piece.first_page + page if piece.in_stack else None,
            ) from error


@contextmanager
def _opened(source: Source, frame: int) -> Iterator[BufferedReader]:
    """Open the file of `source`, and raise `ImageReadError` if it is no longer the same."""
    check_regular(source.path, frame, os.stat(source.path))
    with open(source.path, "rb") as file:
        status = os.fstat(file.fileno())
        if (status.st_size, status.st_mtime_ns) != (source.size, source.changed):
            raise ImageReadError(
                source.path, frame, "the file has changed since imread; call imread again"
            )
        yield file


def read_paths(graph: Any) -> tuple[set[str], set[str]]:
    """Find the files that the parts in a Dask graph read, as absolute real paths.

    And the absolute patterns that find them, now and at the next time.
    """
    paths: set[str] = set()
    patterns: set[str] = set()
    folders: dict[str, str] = {}
    for part in _parts(graph):
        if part.found and part.found != LIST:
            patterns.add(part.found)
        for piece in part.pieces:
            folder, name = os.path.split(piece.source.path)
            if folder not in folders:
                folders[folder] = os.path.realpath(folder)
            paths.add(os.path.join(folders[folder], name))
            if part.found == LIST:
                suffix = os.path.splitext(name)[1]
                patterns.add(os.path.join(glob.escape(folders[folder]), f"*{suffix}"))
            if os.path.islink(piece.source.path):
                paths.add(os.path.realpath(piece.source.path))
    return paths, patterns


def _parts(graph: Any) -> Iterator[Part]:
    layers = getattr(graph, "layers", None)
    for layer in [graph] if layers is None else layers.values():
        # A layer that describes its tasks by a rule would be written out in full, and a part is
        # never in it, because imread gives its tasks one by one.
        if hasattr(layer, "io_deps") or hasattr(layer, "rule"):
            continue
        for task in layer.values():
            yield from _parts_in(task)


def _parts_in(value: Any) -> Iterator[Part]:
    """Walk a task: a tuple, or a Task object with args and kwargs, which may hold other tasks."""
    if isinstance(value, Part):
        yield value
    elif isinstance(value, (str, bytes, int, float, np.ndarray, np.generic)):
        return
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _parts_in(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _parts_in(inner)
    elif isinstance(args := getattr(value, "args", None), Iterable):
        for inner in args:
            yield from _parts_in(inner)
        yield from _parts_in(getattr(value, "kwargs", None) or {})
