"""imread: a folder of images as one lazy array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..language.colour import stack_name
from ..language.warned import MetadataWarning, warn
from ..tracebacks import door
from ..undisturbed import imported
from .extras import need
from .header import Header
from .parts import Part, Piece, read_header, read_part
from .sources import Source, find_sources

if TYPE_CHECKING:
    import dask.array as da

# Several small frames share a task, up to this size [bytes]: decoding it takes some 0.1 s, a
# thousand times what Dask spends on a task, and two cores hold a few of them in memory.
CHUNK_BYTES = 2**24
# A stack is cut into at least so many chunks, so that every core has work until the end.
LEAST_CHUNKS = 64


@door
def imread(
    source: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    chunks: int | Literal["auto"] = "auto",
    max_pixels: int | None = 2**28,
) -> da.Array:
    """Open images as a lazy stack of frames, without decoding any of them.

    Only the header of the first frame is read, to learn shape and dtype, and the table of pages
    of every TIFF, to count them. Each frame is decoded once when the array is computed, and
    checked against the first one then.

    Parameters
    ----------
    source : path, or iterable of paths
        A pattern such as ``"frames/*.png"`` or ``"scans/**/*.tif"``; a folder (its PNG, JPEG, BMP
        and TIFF files); or a file. They are sorted as a person counts: ``f2`` before
        ``f10``. The files of a list are taken in its order.
    chunks : int or "auto"
        Frames that one task reads. By default as many as fit into 16 MiB, fewer for a short stack.
    max_pixels : int or None
        Largest number of pixels that a frame may claim to have, checked before any memory is
        taken for it. By default 2**28, that is 16384 x 16384; None for no limit.

    Returns
    -------
    dask.array.Array, shape (frames, rows, columns[, channels])
        Every page of a TIFF is a frame, also of several files one after another, save for smaller
        copies of others (overviews, thumbnails) and masks. A picture of
        1 bit is bool; a palette becomes RGB, or RGBA with transparency; the rest keeps its dtype.
        Stencils know the axis of the channels, and work on the axes before it.

    Raises
    ------
    FileNotFoundError
        If nothing matches, a folder holds no image, or a file is missing.
    ImageReadError
        If a file is damaged or no image: here for the first one, for the others when the array
        is computed. Then also if a file differs from the first frame in shape or dtype, or has
        changed in the meantime.

    Warns
    -----
    MetadataWarning
        If the first file is OME-TIFF, of ImageJ or their like, and what it says about axes or the
        size of a pixel is dropped.

    Notes
    -----
    The name of the array covers the size and the time of the last change of every file, so a
    rewritten file never meets results that were cached for the old one. EXIF rotation, gamma and
    the transparent colour of an unpaletted PNG are ignored: the numbers are those in the file.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> files = npt.imsave(np.zeros((3, 40, 50), "uint8"), "frames/{:04d}.png")
    >>> frames = npt.imread("frames/*.png")
    >>> frames.shape, frames.dtype, frames.chunks[0]
    ((3, 40, 50), dtype('uint8'), (1, 1, 1))
    """
    need("dask.array", "PIL", "tifffile")
    if max_pixels is not None and max_pixels < 1:
        raise ValueError(f"max_pixels is a positive number or None, not {max_pixels!r}")
    sources, found = find_sources(source)
    header, labels = read_header(sources[0], max_pixels)
    frames = sum(one.frames for one in sources)
    dropped = None if labels is None else labels.dropped(sources[0].path, sources[0].frames)
    if dropped is not None:
        warn(dropped, MetadataWarning)
    step = _frames_per_chunk(chunks, frames, header)

    name = stack_name(header.shape, _token(sources, step, max_pixels))
    parts = list(_cut(sources, step, header, max_pixels, found))
    zeros = (0,) * len(header.shape)
    tasks = {(name, number, *zeros): (read_part, part) for number, part in enumerate(parts)}
    lengths = (tuple(part.frames for part in parts), *((length,) for length in header.shape))
    return _dask_array(name, tasks, lengths, header.dtype)


def _dask_array(name: str, tasks: Any, chunks: Any, dtype: np.dtype[np.generic]) -> da.Array:
    dask_array: Any = imported("dask.array")  # partly typed: Any, or mypy finds gaps in it
    highlevelgraph: Any = imported("dask.highlevelgraph")
    graph = highlevelgraph.HighLevelGraph.from_collections(name, tasks)
    array: da.Array = dask_array.Array(graph, name, chunks=chunks, dtype=dtype)
    return array


def _frames_per_chunk(chunks: int | str, frames: int, header: Header) -> int:
    if chunks == "auto":
        fitting = CHUNK_BYTES // header.nbytes
        return max(1, min(fitting, -(-frames // LEAST_CHUNKS)))
    if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1:
        raise ValueError(f"chunks is a number of frames or 'auto', not {chunks!r}")
    return chunks


def _cut(
    sources: list[Source], step: int, header: Header, max_pixels: int | None, found: str
) -> Iterator[Part]:
    """Cut the frames of `sources` into parts of `step` frames; the last may be shorter."""
    first = held = 0
    pieces: list[Piece] = []
    for source in sources:
        page = 0
        while page < source.frames:
            take = min(step - held, source.frames - page)
            places = source.places[page : page + take]
            pieces.append(Piece(replace(source, places=places), page, source.frames > 1))
            held += take
            page += take
            if held == step:
                yield Part(first, held, header, tuple(pieces), max_pixels, found)
                first, held, pieces = first + held, 0, []
    if pieces:
        yield Part(first, held, header, tuple(pieces), max_pixels, found)


def _token(sources: list[Source], step: int, max_pixels: int | None) -> str:
    """Name the stack by its files, their sizes and times, and the way it is cut."""
    digest = hashlib.blake2b(f"{step} {max_pixels}".encode(), digest_size=16)
    for source in sources:
        digest.update(f"\0{source}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
