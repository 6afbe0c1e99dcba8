"""imsave: a stack, streamed to image files; each task computes some frames and writes them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays.recognise import is_dask, is_xarray
from ..language.colour import coloured_shape
from ..tracebacks import door
from .atomic import sync_folder
from .errors import AmongInputsError
from .formats import TIFF, Options, as_grey, check_holds, check_options
from .images import files_of, parts_in
from .paths import found_by, make_folder, need
from .progress import Progress, shown
from .run import How, Item, Work, Writer, follow, write
from .targets import FrameFiles, Target, parse_pattern, stack_file
from .units import Region, Shape, Units, share

# Where chunks cut the frames they are merged to whole frames, as many as fit [bytes].
MERGED_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Frames:
    """Writes frames one by one and says which one failed."""

    target: Target
    write: Callable[[NDArray[Any], int], None]

    def __call__(self, block: NDArray[Any], place: Shape, region: Region) -> None:
        """Write the frames of a block."""
        for number, frame in enumerate(block, region[0].start):
            self.put(frame, number)

    def put(self, frame: NDArray[Any], number: int) -> None:
        """Write one frame."""
        try:
            self.write(frame, number)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror or error}: frame {number} is not written; the files that are "
                "there are whole, and resume=True goes on after them",
                self.target.path(number),
            ) from error


@door
def imsave(
    array: Any,
    pattern: str | PathLike[str],
    *,
    overwrite: bool = True,
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
    pattern : path
        ``"smooth/{:04d}.png"``: the braces stand for the number of the frame, from 0, and the
        suffix for the format: .png, .jpg or .tif. A folder means ``{:04d}.png`` in it. A
        .tif without braces takes the whole stack, a frame on each page. Another name without
        braces takes one image, (rows, columns) or with 3 or 4 channels. The folder is made.
    overwrite : bool
        Whether files that exist are replaced; if not, nothing is written when there is one.
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
        If `overwrite` is false and a file exists.
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
    options = Options(compression, quality)
    return save_frames(array, pattern, How(resume, None, progress, overwrite), options)


def save_frames(
    array: Any, pattern: str | PathLike[str], how: How, options: Options
) -> list[Path]:
    """Do what `imsave` does, for all frames or a part of them."""
    target = parse_pattern(pattern)
    need("Writing images", "tifffile" if target.format == TIFF else "PIL")
    check_options(target.format, options)
    stack = _as_stack(array, target)
    frames = stack.shape[0]
    if not target.numbered and frames > 1 and options.compression:
        raise ValueError(
            "a stack in one TIFF is not compressed; write a file for each frame, '{:04d}.tif'"
        )
    check_holds(target.format, stack.dtype, stack.shape[1:])

    names = [target.path(number) for number in range(frames if target.numbered else 1)]
    if len(set(names)) < len(names):
        raise ValueError(f"the pattern {os.fspath(pattern)!r} gives two frames the same name")
    own = share(len(names), how.part)
    existing = [number in own and os.path.lexists(name) for number, name in enumerate(names)]
    if any(existing) and not (how.overwrite or how.resume):
        raise FileExistsError(f"{names[existing.index(True)]!r} exists, and overwrite is false")
    paths = [Path(name) for name in names]
    missing = [number for number in own if not (how.resume and existing[number])]
    if not missing:
        return paths
    make_folder(target.folder, "imsave")
    if is_dask(stack):
        _check_not_read(stack, names, [names[number] for number in missing])

    numbers = missing if target.numbered else range(frames)
    with ExitStack() as held:
        one: Any = FrameFiles(target, options, how.resume, own)
        if not target.numbered and frames > 1:
            one = held.enter_context(stack_file(names[0], stack.shape, stack.dtype))
        writer = Frames(target, one)
        advance = held.enter_context(shown(how.progress, len(numbers)))
        if is_dask(stack):
            write([_item(stack, writer, numbers)], advance)
        else:
            follow(lambda work: _write(stack, numbers, writer, work), advance)
    sync_folder(target.folder)
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


def _item(array: Any, writer: Frames, numbers: Sequence[int]) -> Item:
    """Divide a stack into whole frames: as a chunk has, or as fit where chunks cut them."""
    depth = max(array.chunks[0])
    if any(len(lengths) > 1 for lengths in array.chunks[1:]):
        frame = int(np.prod(array.shape[1:])) * array.dtype.itemsize
        depth = min(depth, max(1, MERGED_BYTES // frame))
    units = Units(array.shape, (depth, *array.shape[1:]))
    task = Writer(units, writer, array.dtype, "imsave")
    return Item(array, task, Counter(number // depth for number in numbers))


def _write(stack: NDArray[Any], numbers: Sequence[int], writer: Frames, work: Work[int]) -> None:
    """Write frames of a NumPy array on all cores."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1

    def one(number: int) -> None:
        writer.put(stack[number], number)

    # What closes the results, as an error or an interrupt does, cancels what has not begun.
    with ThreadPoolExecutor(cores) as pool:
        written: Any = pool.map(one, numbers)
        with closing(written):
            for _ in written:
                work.tell(1)


def _check_not_read(array: Any, targets: Sequence[str], missing: Sequence[str]) -> None:
    """Raise `ValueError` if `targets` lie among the files that `array` is read from.

    Those of `targets` that are `missing` are to be written; they are not even to be sources.
    """
    layers = getattr(array.dask, "layers", {"": array.dask})
    # A layer that describes its tasks by a rule would be written out in full, and a part is never
    # in it, because imread gives its tasks one by one.
    written = [
        layer
        for layer in layers.values()
        if not (hasattr(layer, "io_deps") or hasattr(layer, "rule"))
    ]
    paths, patterns = files_of(parts_in(written))
    folder = os.path.realpath(os.path.dirname(targets[0]) or ".")
    for target in missing:
        if os.path.join(folder, os.path.basename(target)) in paths:
            raise AmongInputsError(
                f"imsave would overwrite {target!r}, from which the array is still to be read; "
                "save into another folder"
            )
    for target in targets:
        path = os.path.join(folder, os.path.basename(target))
        pattern = next((one for one in patterns if found_by(one, path)), None)
        if pattern is not None:
            raise AmongInputsError(
                f"imsave would write {target!r} among the files that the array is read from "
                f"({pattern}), where the next run would take it for one of them; save into "
                "another folder"
            )
