"""imsave: a stack, streamed to image files; each task writes one frame.

A frame has its file by number or by name. A whole stack in one TIFF is written by many tasks at
once in any order.  Pages that are not compressed all have the same size, so the file is laid out
first, with every page described and its pixels missing, and each frame is then put at its place.
The layout is written under a temporary name: nobody sees a page without its pixels.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.accepted import is_dask, is_lazy, is_xarray
from ..arrays.channels import coloured_shape
from ..base.frozen import frozen
from ..base.tracebacks import door
from ..base.undisturbed import imported
from .contents import Contents, Variable, lazily
from .formats import (
    FORMATS,
    IMAGES,
    TIFF,
    Format,
    as_grey,
    check_holds,
    check_options,
    encode,
    tiff_layout,
)
from .paths import (
    AnyPath,
    local_path,
    make_folder,
    need,
    replacement,
    write_whole,
)
from .progress import Progress
from .resume import check_not_read
from .run import WHOLE, How, Region, Room, Units, share

# What most systems allow [bytes].
LONGEST_NAME = 255

# A name, in which a whole number may be written, with so many digits at least.
_NAME = re.compile(r"[^{}]*(\{0?(?::0?[0-9]{0,2}d?)?\})?[^{}]*")


@frozen
class Target:
    """A folder, and the template of the names in it, which has a number if `numbered`."""

    folder: str
    name: str
    numbered: bool
    format: Format

    def path(self, frame: int) -> str:
        """Give the file of a frame, without touching the disk."""
        return os.path.join(self.folder, self.name.format(frame))


def parse_pattern(pattern: AnyPath) -> Target:
    """Take a pattern such as "smooth/{:04d}.png" apart.

    A folder, or a name without a suffix, stands for "{:04d}.png" in that folder.
    """
    text = local_path(pattern, "imsave writes local files, not to the URL {!r}")
    if not text:
        raise ValueError("the pattern of imsave is empty; give one such as 'smooth/{:04d}.png'")
    is_folder = text.endswith(("/", os.sep)) or os.path.isdir(text)
    if is_folder or not (Path(text).suffix or "{" in text):
        text = os.path.join(text, "{:04d}.png")
    folder, name = os.path.split(text)
    if "{" in folder or "}" in folder:
        raise ValueError(f"only the name of the file can hold a {{}}, not its folder: {text!r}")
    target = Target(folder or ".", name, _is_numbered(name, text), _format_of(name))
    _check_name(os.path.basename(target.path(0)))
    return target


def _is_numbered(name: str, text: str) -> bool:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(
            f"the pattern {text[:80]!r} should hold one {{}} for the number of the frame, with "
            "how many digits it has at least, such as 'smooth/{:04d}.png'"
        )
    return found[1] is not None


def _check_name(name: str) -> None:
    """Refuse a name that no file can have, or that promises too much."""
    if len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"the name {name[:40]!r}... is too long for a file")
    if name.lower().endswith((".ome.tif", ".ome.tiff")):
        stem = name[: name.lower().rindex(".ome")]
        raise ValueError(
            f"imsave writes no OME-TIFF, as the name {name!r} says; name it {stem + '.tif'!r}, or "
            "use tifffile.imwrite(name, array, metadata={'axes': ...})"
        )


def _format_of(name: str) -> Format:
    suffix = Path(name).suffix.lower()
    for form in FORMATS:
        if suffix in form.suffixes:
            return form
    known = ", ".join(IMAGES)
    raise ValueError(f"imsave cannot tell the format of {name!r}: the name should end in {known}")


def _lay_out(temporary: str, shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, int]:
    """Lay out a TIFF for frames of one shape: where the first one begins, and how long one is.

    `shape` is `(frames, rows, columns[, channels])`.
    """
    from tifffile import TiffFile, imwrite

    frames, rows = shape[:2]
    if len(shape) == 4 and shape[3] == 1:
        shape = shape[:3]
    # tifffile leaves room for whole bytes; bits it has to be given, and does not count them then.
    blank = (np.zeros(shape[1:], bool) for _ in range(frames)) if dtype.kind == "b" else None
    imwrite(
        temporary,
        blank,
        shape=shape,
        dtype=dtype.newbyteorder("="),
        rowsperstrip=rows,
        **tiff_layout(shape[1:]),
    )
    with TiffFile(temporary) as tiff:
        pages = tiff.pages
        assert len(pages) == frames, (len(pages), frames)
        start, second, last = (pages[page].dataoffsets[0] for page in (0, 1, frames - 1))
    step = second - start
    assert last == start + (frames - 1) * step, (start, second, last)
    return start, step


def _put(
    target: Target,
    how: How,
    page: tuple[str, int, int] | None,
    _: str,
    block: np.ndarray,
    region: Region,
) -> None:
    """Write a block, which is one frame.

    In a file of its own, or as a `page` of one that is laid out: its path, the byte at which the
    first page begins, and how long one is.  To do it twice does no harm.
    """
    frame, number = block[0], region[0].start
    if page is None:
        write_whole(target.path(number), encode(frame, target.format, how))
        return
    temporary, start, step = page
    if frame.dtype == bool:
        frame = np.packbits(frame.reshape(frame.shape[:2]), axis=1)
    assert frame.nbytes <= step, (frame.nbytes, step)
    frame = np.ascontiguousarray(frame, frame.dtype.newbyteorder("="))
    # A file that is gone stays so.
    with open(temporary, "rb+") as file:
        file.seek(start + number * step)
        file.write(frame.data)


@door
def imsave(
    array: Any,
    pattern: str | PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = None,
    compression: int | None = None,
    quality: int | None = None,
) -> list[Path]:
    """Write a stack of frames to image files, a few frames at a time.

    A Dask array is computed and written chunk by chunk, by the scheduler in use, so it need not
    fit into memory. Each file is written under a temporary name in its folder and renamed when
    it is whole: whatever happens, a name stands for the old file or for the new one.

    Parameters
    ----------
    array : NumPy or Dask array, shape (frames, rows, columns[, channels]), or one image
        Up to 4 channels: grey, grey + alpha, RGB, RGBA. Dask chunks that cut frames are merged.
        A DataArray and what `lazy` gives of an array are taken for their array.
    pattern : path
        ``"smooth/{:04d}.png"``: the braces stand for the number of the frame, from 0, and the
        suffix for the format: .png, .jpg or .tif. A folder means ``{:04d}.png`` in it. A
        .tif without braces takes the whole stack, a frame on each page. Another name without
        braces takes one image, (rows, columns) or with 3 or 4 channels. The folder is made.
    overwrite : bool
        Whether files that are there are replaced; if not, nothing is written when there is one.
    resume : bool
        Leave out frames whose file exists, and what only they need. The files are not compared.
    progress : bool, callable or None
        None: a bar on standard error if that is a terminal, or below the cell of a notebook, until
        the frames are written. True or False: always or never. A function is called with the
        numbers of frames done and in all.
    compression : int, optional
        Level of zlib, 0 (none) to 9. PNG: 1 by default. TIFF, with braces: 0 by default.
    quality : int, optional
        Of JPEG, 1 to 100; 95 by default.

    Returns
    -------
    list of pathlib.Path
        The files, in the order of the frames.

    Raises
    ------
    TypeError
        If the format cannot hold the dtype: nothing is scaled or rounded to make it fit.
    ValueError
        If the format cannot hold that shape, the pattern is not well formed, the array is empty or
        of unknown size, or a file would be written that the array is still read from, or that
        would lie among those that it is read from.
    ConnectionError
        If the Dask client in use is closed, or its scheduler or all of its workers are gone.
    FileExistsError
        If a file exists, and is neither to be replaced nor left out (`resume`).
    OSError
        If a file cannot be written; the finished ones stay.

    Notes
    -----
    Level 1 because Pillow's own default, 6, takes 2 to 6 times as long for files that are smaller
    by a tenth, or not at all. A stack in one TIFF is not compressed, so that frames can be
    written in any order. Workers on other machines must see the folder under the same name.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> frames = np.zeros((3, 40, 50), "uint8")
    >>> files = npt.imsave(npt.filters.median(frames), "smooth/{:04d}.png")
    >>> [file.name for file in files]
    ['0000.png', '0001.png', '0002.png']
    """
    how = How(resume, None, progress, overwrite, compression, quality)
    given = array.compute() if is_lazy(array) else array
    paths: list[Path] = save_frames(given, pattern, how)
    return paths


def save_frames(array: Any, pattern: str | PathLike[str], how: How) -> Any:
    """Do what `imsave` does, for all frames or a part of them, or tell of it."""
    target = parse_pattern(pattern)
    need("Writing images", "dask.array", "tifffile" if target.format == TIFF else "PIL")
    check_options(target.format, how)
    stack = _as_stack(array, target)
    frames = stack.shape[0]
    if not target.numbered and frames > 1 and how.compression:
        raise ValueError(
            "a stack in one TIFF is not compressed; write a file for each frame, '{:04d}.tif'"
        )
    check_holds(target.format, stack.dtype, stack.shape[1:])

    names = [target.path(number) for number in range(frames if target.numbered else 1)]
    own = share(Units((len(names),), (1,)), how.part)
    there = {number for number in own if os.path.lexists(names[number])}
    paths = [Path(name) for name in names]
    missing = {number for number in own if not (how.resume and number in there)}
    if missing and is_dask(stack):
        check_not_read("imsave", [stack], [names[number] for number in sorted(missing)])
    numbers = missing if target.numbered or not missing else range(frames)
    frame, name = (1, *stack.shape[1:]), os.path.join(target.folder, target.name)
    if how.dry:
        one = Variable("", lazily(stack), chunks=frame, shards=frame)
        return Contents((one,)).told(name, numbers, how)
    if there and not (how.overwrite or how.resume):
        raise FileExistsError(f"{names[min(there)]!r} exists; overwrite=True replaces it")
    if not missing:
        return paths
    make_folder(target.folder, "imsave")
    with ExitStack() as held:
        page = None
        if not target.numbered and frames > 1:
            temporary = held.enter_context(replacement(names[0]))
            page = (temporary, *_lay_out(temporary, stack.shape, stack.dtype))
        if not is_dask(stack):
            # What is in the memory of this machine is written by this machine.
            held.enter_context(imported("dask.config").set(scheduler="threads"))
            stack = imported("dask.array").from_array(stack, chunks=frame, name=False)
        elif all(len(lengths) == 1 for lengths in stack.chunks[1:]):
            # So that a chunk of several frames is computed once, and not a frame at a time.
            stack = stack.rechunk(frame, method="tasks")
        # Who hears of the progress does not go to a worker.
        put = partial(_put, target, replace(how, progress=None), page)
        room = None if how.memory is None else Room.of(how.memory)
        one = Variable("", stack, chunks=frame, shards=frame)
        found = Contents((one,), who="imsave", room=room)
        found.write(numbers, put, name, how.progress, WHOLE)
    return paths


def _as_stack(array: Any, target: Target) -> Any:
    """Give `array` an axis of frames, and refuse what is no stack of images."""
    if is_xarray(array):
        array = array.data
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("imsave would lose the mask of this array; use array.filled(value)")
    if not (isinstance(array, np.ndarray) or is_dask(array)):
        raise TypeError(f"imsave takes a NumPy or Dask array, not {type(array).__name__}")
    if any(length != length for length in array.shape):
        raise ValueError(
            "this Dask array has unknown sizes; call array.compute_chunk_sizes() first"
        )
    if not 2 <= array.ndim <= 4:
        raise ValueError(
            "imsave takes an image or a stack (frames, rows, columns[, channels]), not an array "
            f"of {array.ndim} axes"
        )
    if 0 in array.shape:
        raise ValueError(f"imsave got an empty array, of shape {array.shape}")
    if array.ndim == 3 and target.numbered and coloured_shape(array.shape):
        raise ValueError(
            f"{array.shape[0]} frames of {array.shape[1]} x {array.shape[2]} pixels look like one "
            "colour image; save array[None] if it is one, and array[..., None] if it is not"
        )
    is_colour = array.ndim == 3 and array.shape[2] in (3, 4) and not target.numbered
    if array.ndim == 2 or is_colour:
        array = array[None]
    if not target.numbered and target.format != TIFF and array.shape[0] > 1:
        stem, suffix = os.path.splitext(target.name)
        raise ValueError(
            f"{target.name!r} holds one image, and this array has {array.shape[0]} frames; "
            f"number the files, '{stem}{{:04d}}{suffix}', or save one .tif"
        )
    return as_grey(array, target.format)
