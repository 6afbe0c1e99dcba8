"""TIFF, through tifffile: any number of pages in a file, each one a frame.

The chain of pages is walked here, with a few reads for each page, because a folder of stacks
has to be counted before its shape is known.  Only the place of each page is kept; tifffile
reads a page from its place without following the chain again.
"""

from __future__ import annotations

import logging
import math
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from .errors import MALFORMED
from .header import BEST_DEFLATE_RATIO, Header, check_claim
from .labels import Labels, labels

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage

# tifffile's own bound: more tags than this are taken for damage.
MOST_TAGS = 4096
# Tags are sorted by their numbers, and those that are looked for come first.
FIRST_TAGS = 16
DEFLATE = (8, 32946)


# NewSubfileType, a set of bits: 1 for a smaller copy of another page, 4 for a mask of one. And the
# older SubfileType, of which 2 is a smaller copy (TIFF 6.0, pages 36 and 40).
NEW_SUBFILE_TYPE, SUBFILE_TYPE = 254, 255
SHORT, LONG = 3, 4


def page_places(file: BinaryIO, size: int) -> tuple[int, ...]:
    """Find the byte at which each page of `file` is described, in order.

    Smaller copies of other pages, as overviews and thumbnails are, and masks are left out.

    Raises
    ------
    ValueError
        If the file is no TIFF, has no page, or its chain leaves the file or turns in a circle.
    """
    head = file.read(16)
    order = {b"II": "<", b"MM": ">"}.get(head[:2])
    version = 0 if order is None or len(head) < 8 else struct.unpack(f"{order}H", head[2:4])[0]
    if version == 42:
        count, entry, following, at = f"{order}H", 12, f"{order}I", 4
    elif version == 43 and len(head) == 16:
        count, entry, following, at = f"{order}Q", 20, f"{order}Q", 8
    else:
        raise ValueError("it is empty" if not head else "it is no TIFF")

    places: dict[int, None] = {}
    frames: list[int] = []
    while True:
        place = _number(file, following, at)
        if place == 0:
            break
        if place in places:
            raise ValueError(f"its chain of pages turns back to page {list(places).index(place)}")
        if place >= size:
            raise ValueError(f"page {len(places)} lies at byte {place} of {size}: truncated")
        tags = _number(file, count, place)
        if not 0 < tags <= MOST_TAGS:
            raise ValueError(f"page {len(places)} claims {tags} tags")
        places[place] = None
        if _is_frame(file, order, place + struct.calcsize(count), min(tags, FIRST_TAGS), entry):
            frames.append(place)
        at = place + struct.calcsize(count) + tags * entry
    if not places:
        raise ValueError("it holds no page")
    if not frames:
        raise ValueError("its pages are smaller copies or masks of pages that it does not hold")
    return tuple(frames)


def _is_frame(file: BinaryIO, order: str | None, at: int, tags: int, entry: int) -> bool:
    """Answer by the tags at byte `at` whether a page is an image of its own."""
    file.seek(at)
    data = file.read(tags * entry)
    for start in range(0, len(data) - entry + 1, entry):
        tag, kind = struct.unpack_from(f"{order}HH", data, start)
        if tag not in (NEW_SUBFILE_TYPE, SUBFILE_TYPE) or kind not in (SHORT, LONG):
            continue
        # A number that fits stands at the beginning of the field for it.
        form = "H" if kind == SHORT else "I"
        value = struct.unpack_from(f"{order}{form}", data, start + entry - (entry - 4) // 2)[0]
        if (tag == NEW_SUBFILE_TYPE and value & 5) or (tag == SUBFILE_TYPE and value == 2):
            return False
    return True


def _number(file: BinaryIO, form: str, at: int) -> int:
    file.seek(at)
    data = file.read(struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise ValueError(f"it is truncated: a page description should be at byte {at}")
    number: int = struct.unpack(form, data)[0]
    return number


class _Lines(logging.Filter):
    """Keeps what tifffile logs in this thread while it works for us."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()
        self.shown: dict[tuple[str, str], None] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kept = getattr(self.here, "kept", None)
        if kept is None:
            return True
        kept.append(record)
        return False


_lines = _Lines()


@contextmanager
def lines_once(path: str) -> Iterator[None]:
    """Let tifffile log each line about a file once; what goes with an error becomes its notes."""
    logger = logging.getLogger("tifffile")
    if _lines not in logger.filters:
        logger.addFilter(_lines)
    kept: list[logging.LogRecord] = []
    _lines.here.kept = kept
    try:
        yield
    except MALFORMED as error:
        for text in dict.fromkeys(record.getMessage() for record in kept):
            error.add_note(f"tifffile: {text}")
        kept.clear()
        raise
    finally:
        _lines.here.kept = None
        for record in kept:
            line = path, record.getMessage()
            if line not in _lines.shown:
                _lines.shown[line] = None
                logger.callHandlers(record)


def header(
    file: BinaryIO, places: tuple[int, ...], max_pixels: int | None
) -> tuple[Header, Labels | None]:
    """Read what the first page of `file` claims to hold, without decoding it; and its labels."""
    from tifffile import TiffFile

    with TiffFile(file) as tiff:
        images = _imagej_images(tiff)
        if images > len(places):
            raise ValueError(
                f"it is an ImageJ hyperstack of {images} images described as {len(places)} pages; "
                "write it anew with tifffile.imwrite(path, tifffile.imread(path), bigtiff=True)"
            )
        page = opened(tiff, places[0])
        found = _header(page)
        check_claim(found, max_pixels)
        return found, labels(tiff, page)


def _imagej_images(tiff: TiffFile) -> int:
    """Count the images that ImageJ's note claims; above 4 GB it describes only the first."""
    metadata = tiff.imagej_metadata if tiff.is_imagej else None
    return int((metadata or {}).get("images", 1))


def opened(tiff: TiffFile, place: int) -> TiffPage:
    """Read the description of the page at byte `place`."""
    from tifffile import TiffPage

    tiff.filehandle.seek(place)
    return TiffPage(tiff, index=0)


def decode(page: TiffPage, expected: Header, max_pixels: int | None) -> NDArray[np.generic]:
    """Decode one page, after a check that it holds an image like `expected`."""
    found = _header(page)
    check_claim(found, max_pixels)
    if found != expected:
        raise ValueError(f"it is {found}, but the first frame is {expected}")
    _check_segments(page)
    # One worker: the chunks already fill the cores.
    data = page.asarray(maxworkers=1)
    if page.photometric == 3:
        assert page.colormap is not None, "a palette was promised by _header"
        return np.moveaxis((page.colormap >> 8).astype(np.uint8)[:, data], 0, -1)
    separate, _, rows, columns, contiguous = page.shaped
    data = data.reshape(separate, rows, columns, contiguous)
    return (data[0] if separate == 1 else np.moveaxis(data[..., 0], 0, -1)).reshape(found.shape)


def _header(page: TiffPage) -> Header:
    if page.dtype is None:
        raise ValueError(f"its numbers of {page.bitspersample} bits have no NumPy dtype")
    separate, depth, rows, columns, contiguous = page.shaped
    if depth != 1:
        raise ValueError(f"its page is a volume of depth {depth}")
    if page.photometric == 5:
        raise ValueError("its colours are CMYK; convert it to grey or RGB first")
    samples = separate * contiguous
    if page.photometric == 3 and page.colormap is not None:
        return Header((rows, columns, 3), np.dtype(np.uint8))
    shape = (rows, columns) if samples == 1 else (rows, columns, samples)
    return Header(shape, np.dtype(page.dtype).newbyteorder("="))


def _check_segments(page: TiffPage) -> None:
    """Raise `ValueError` unless every strip or tile is there, whole and of a credible size.

    tifffile gives zeros for a strip that is absent.
    """
    size = page.parent.filehandle.size
    wanted = math.prod(page.chunked)
    if min(len(page.dataoffsets), len(page.databytecounts)) < wanted:
        raise ValueError(f"it has {len(page.dataoffsets)} strips or tiles of {wanted}")
    for number, (start, count) in enumerate(
        zip(page.dataoffsets[:wanted], page.databytecounts[:wanted], strict=True)
    ):
        if start == 0 or count == 0:
            raise ValueError(f"its strip or tile {number} is missing")
        if start + count > size:
            raise ValueError(
                f"the file is truncated: strip or tile {number} ends at byte {start + count} "
                f"of {size}"
            )
    nbytes = (page.size * page.bitspersample + 7) // 8
    stored = sum(page.databytecounts[:wanted])
    ratio = {1: 1, **dict.fromkeys(DEFLATE, BEST_DEFLATE_RATIO)}.get(int(page.compression))
    if ratio is not None and stored * ratio < nbytes:
        raise ValueError(f"it claims {nbytes} bytes of pixels, which its {stored} cannot hold")
    tile = math.prod(page.chunks)
    if tile > max(4 * page.size, 2**24):
        raise ValueError(f"one of its tiles claims {tile} numbers, the image has {page.size}")
