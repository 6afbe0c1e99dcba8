"""imsave: a stack, streamed to files."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..language.colour import coloured_shape
from ..tracebacks import door
from . import dask_saving
from .apart import Work, follow
from .extras import need
from .formats import TIFF, Options, as_grey, check_holds, check_options, encode
from .progress import Progress, shown
from .replacing import replacement, sync_folder, write_all
from .stack_file import StackFile, stack_file
from .targets import Target, parse_pattern


@dataclass(frozen=True, slots=True)
class FrameFiles:
    """A file for each frame; with `resume` a frame whose file is there is left out.

    So are those that are not among its `own`: a chunk may hold some of each.
    """

    target: Target
    options: Options
    resume: bool
    own: range | None = None

    def write(self, frame: NDArray[Any], number: int) -> None:
        """Encode one frame and put it under its name."""
        if self.own is not None and number not in self.own:
            return
        path = self.target.path(number)
        if self.resume and os.path.lexists(path):
            return
        data = encode(frame, self.target.format, self.options)
        with replacement(path) as (descriptor, _):
            write_all(descriptor, memoryview(data), 0)


Files: TypeAlias = "FrameFiles | StackFile"


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes frames and says which one failed."""

    files: Files
    path: str

    def __call__(self, frame: NDArray[Any], number: int) -> None:
        """Write one frame."""
        try:
            self.files.write(frame, number)
        except OSError as error:
            path = (
                self.files.target.path(number) if isinstance(self.files, FrameFiles) else self.path
            )
            raise OSError(
                error.errno,
                f"{error.strerror or error}: frame {number} is not written; the files that are "
                "there are whole, and resume=True goes on after them",
                path,
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
        suffix for the format: .png, .jpg, .bmp or .tif. A folder means ``{:04d}.png`` in it. A
        .tif without braces takes the whole stack, a frame on each page. Another name without
        braces takes one image, (rows, columns) or with 3 or 4 channels. The folder is made.
    overwrite : bool
        Whether files that exist are replaced; if not, nothing is written when there is one.
    resume : bool
        Leave out frames whose file exists, and what only they need. The files are not compared.
    progress : bool, callable or None
        None: a bar on standard error if that is a terminal and Rich is installed, or below the
        cell of a notebook until the frames are written. True or False: always or never. A
        function is called with the numbers of frames done and in all.
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
    return save_frames(
        array, pattern, None, overwrite, resume, progress, Options(compression, quality)
    )


def save_frames(
    array: Any,
    pattern: str | PathLike[str],
    only: Callable[[int], range] | None,
    overwrite: bool,
    resume: bool,
    progress: Progress,
    options: Options,
) -> list[Path]:
    """Do what `imsave` does for some frames: those that `only` gives for their number, or all."""
    target = parse_pattern(pattern)
    need("tifffile" if target.format == TIFF else "PIL")
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
    own = range(len(names)) if only is None else only(len(names))
    existing = [number in own and os.path.lexists(name) for number, name in enumerate(names)]
    if any(existing) and not (overwrite or resume):
        raise FileExistsError(f"{names[existing.index(True)]!r} exists, and overwrite is false")
    paths = [Path(name) for name in names]
    missing = [number for number in own if not (resume and existing[number])]
    if not missing:
        return paths
    _check_folder(target.folder)
    if dask_saving.is_dask(stack):
        to_write = [names[number] for number in missing] if target.numbered else names
        dask_saving.check_not_read(stack, names, to_write)

    numbers = missing if target.numbered else list(range(frames))
    with (
        _writer(target, options, resume, stack, own) as writer,
        shown(progress, len(numbers)) as advance,
    ):
        if dask_saving.is_dask(stack):
            dask_saving.save(stack, numbers, writer, advance)
        else:
            follow(lambda work: _write(stack, numbers, writer, work), advance)
    sync_folder(target.folder)
    return paths


def _as_stack(array: Any, target: Target) -> Any:
    """Give `array` an axis of frames, and refuse what is no stack of images."""
    if type(array).__module__.partition(".")[0] == "xarray":
        array = array.data
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("imsave would lose the mask of this array; use array.filled(value)")
    if not (isinstance(array, np.ndarray) or dask_saving.is_dask(array)):
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


def _check_folder(folder: str) -> None:
    """Make the folder, and find out now that it cannot be written, not after an hour."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder!r} is a file; imsave needs a folder there")
    os.makedirs(folder, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {folder!r} cannot be written")


@contextmanager
def _writer(
    target: Target, options: Options, resume: bool, stack: Any, own: range
) -> Iterator[Writer]:
    path = target.path(0)
    if target.numbered or stack.shape[0] == 1:
        whole = len(own) == stack.shape[0]
        yield Writer(FrameFiles(target, options, resume, None if whole else own), path)
        return
    with stack_file(path, stack.shape, stack.dtype) as file:
        yield Writer(file, path)


def _write(stack: NDArray[Any], numbers: Iterable[int], writer: Writer, work: Work[int]) -> None:
    """Write frames of a NumPy array on all cores, at most two for each core at once."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    running: deque[Future[None]] = deque()

    def wait() -> None:
        running.popleft().result()
        work.tell(1)

    with ThreadPoolExecutor(cores) as pool:
        try:
            for number in numbers:
                running.append(pool.submit(writer, stack[number], number))
                if len(running) == 2 * cores:
                    wait()
            while running:
                wait()
        finally:
            for future in running:
                future.cancel()
