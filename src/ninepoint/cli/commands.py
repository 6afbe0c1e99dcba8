"""The commands: `apply`, of a few frames or blocks in memory; `explain`, `info` and `cache`."""

from __future__ import annotations

import inspect
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays.accepted import native
from ..backends import cache as kernel_cache
from ..backends.cuda import driver
from ..backends.numba import cpu
from ..backends.threads import thread_count
from ..base.undisturbed import imported
from ..inspecting import surroundings
from ..inspecting.asked import Asked, asked
from ..inspecting.displays import counted
from ..inspecting.explaining import explained, intermediate, texts
from ..io.formats import check_options
from ..io.frames import imsave, parse_pattern
from ..io.images import imread
from ..io.opening import open as open_array
from ..io.paths import AmongInputsError, natural_key
from ..io.progress import Bar, seen
from ..io.run import How
from ..io.saving import save
from ..language.errors import StencilError
from ..running.recording import lazy
from . import UsageError
from .kernels import Kernel, find_kernel

# Options of a call, which are given on only if the user gave them.
_OPTIONS = ("boundary", "cval", "dtype", "overflow", "device")

# Options that only images have, and those that only stores and files of arrays have.
_OF_IMAGES = ("compression", "quality")
_OF_STORES = ("part", "chunks", "shards", "variable")

_STORES = (".zarr", ".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf", ".npy")


def apply(options: Namespace) -> None:
    """Run the command: open lazily, apply lazily, and let saving pull all of it through."""
    names = (*options.input, options.output)
    of_store = any(Path(name).suffix.lower() in _STORES for name in names)
    _check_options(options, of_store)
    kernel = find_kernel(options.kernel)
    if not of_store:
        _check_output(options)
    _check_device(options.device)
    threads = thread_count(options.threads)
    if of_store:
        array: Any = open_array(options.input[0], variable=options.variable)
    else:
        array = imread(_sources(options.input))
    result = _one_result(_applied(kernel, array, options, of_store), options.result)
    if not of_store:
        _check_held(result.dtype, array.dtype, options.output)
    progress = _Count(options.quiet)
    try:
        with imported("dask.config").set(scheduler="threads", num_workers=threads):
            text = (_to_store if of_store else _to_images)(result, options, progress)
    except AmongInputsError as error:
        raise UsageError(str(error)) from error
    finally:
        progress.close()
    if not options.quiet:
        print(text)


def _check_options(options: Namespace, of_store: bool) -> None:
    """Refuse what means nothing for stores, or for images."""
    for name in _OF_IMAGES if of_store else _OF_STORES:
        if getattr(options, name) is not None:
            kind = "images, in and out"
            if not of_store:
                kind = "stores and files of arrays, such as out.zarr"
            raise UsageError(f"--{name} is for {kind}")
    if of_store and len(options.input) > 1:
        raise UsageError("there is one INPUT where a store is read or written")
    if options.part and options.overwrite:
        raise UsageError("--overwrite would remove what other parts have written")


def _check_output(options: Namespace) -> None:
    try:
        form = parse_pattern(options.output).format
        how = How(compression=options.compression, quality=options.quality)
        check_options(form, how)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _check_device(device: str | None) -> None:
    """Find out before any file is read that there is no GPU."""
    if device is None:
        return
    try:
        driver.cupy()
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"--device {device}: {error}") from error


def _sources(inputs: list[str]) -> str | list[str]:
    """One word is for imread to understand; several are files, as the shell has listed them."""
    if len(inputs) == 1:
        return inputs[0]
    return sorted(inputs, key=natural_key)


def _applied(kernel: Kernel, array: Any, options: Namespace, of_store: bool) -> Any:
    """What a kernel gives, lazily; what is wrong with it by now stands on the command line."""
    function, params = kernel.function, dict(options.param)
    given = {name: getattr(options, name) for name in _OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if "dtype" in given:
        given["dtype"] = dtype_of(given["dtype"])
    if not kernel.is_filter and len(function.fields) > 1:
        raise UsageError(
            f"'{kernel.name}' takes {len(function.fields)} fields "
            f"({', '.join(function.fields)}), and there is one INPUT; call it from Python"
        )
    kernel.check(params)
    if kernel.is_filter and given.pop("overflow", None) == "wrap":
        raise UsageError("--overflow wrap: a ready-made filter always saturates")
    given = params | given
    if not of_store:
        given = _axes(kernel, array.dtype, params) | given
    try:
        return function(array, **given)
    except StencilError:
        raise
    except (ValueError, TypeError) as error:
        if set(given) <= {"axes"}:
            raise
        raise UsageError(str(error)) from error


def _axes(kernel: Kernel, dtype: Any, params: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Choose axes of (frame, y, x[, channel]): the last ones that are no channel."""
    if kernel.is_filter:
        return {"axes": (1, 2)}
    if kernel.function.pointwise:
        return {}
    ndim = asked(kernel.function.definition, (dtype,), params).last.ndim
    if ndim > 3:
        raise ValueError(
            f"'{kernel.name}' works on {ndim} axes; a stack of images has 3: frame, y, x."
        )
    return {"axes": tuple(range(3 - ndim, 3))}


def dtype_of(text: str) -> np.dtype:
    """Read the name of a dtype."""
    try:
        return np.dtype(text)
    except TypeError as error:
        raise UsageError(f"--dtype {text}: there is no such type; uint8 is one") from error


def _one_result(result: Any, number: int | None) -> Any:
    """Give the result that is to be written."""
    if not isinstance(result, tuple):
        if number not in (None, 0):
            raise UsageError(f"--result {number}: the kernel has one result, 0")
        return result
    if number is None:
        raise UsageError(f"the kernel has {len(result)} results; choose one with --result 0")
    if not 0 <= number < len(result):
        raise UsageError(f"--result {number}: the kernel has results 0 to {len(result) - 1}")
    return result[number]


def _check_held(dtype: np.dtype, source: np.dtype, output: str) -> None:
    """Say what to add where the format cannot hold the result; imsave would say it in Python."""
    form = parse_pattern(output).format
    if dtype.name in form.holds or dtype.kind == "b":
        return
    cure = f"{form.name} cannot hold the kernel's {dtype} result"
    if dtype.kind == "c":
        raise TypeError(f"{cure}; give abs() of it in the kernel, or write .tif files")
    fitting = [name for name in form.holds if name != "bool"]
    if source.name in fitting:
        raise TypeError(
            f"{cure}; add --dtype {source.name} --overflow saturate, or write .tif files"
        )
    raise TypeError(
        f"{cure}; write .tif files, or scale it to 0..255 in the kernel (255 * what lies in 0..1) "
        "and add --dtype uint8 --overflow saturate"
    )


def _to_images(result: Any, options: Namespace, progress: _Count) -> str:
    """Write images, and tell what was done."""
    paths = imsave(
        result,
        options.output,
        overwrite=options.overwrite is not False,
        resume=options.resume,
        progress=progress,
        compression=options.compression,
        quality=options.quality,
    )
    frames, (rows, columns) = progress.done, result.shape[1:3]
    channels = f" x {result.shape[3]}" if result.ndim == 4 else ""
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1].name}"
    left_out = result.shape[0] - frames
    if not frames:
        return f"nothing to do: all {left_out} frames are there, {where}"
    there = f" ({left_out} were there)" if left_out else ""
    speed = counted(frames * rows * columns / progress.seconds, "pixels/s")
    return (
        f"{frames} frame{'s' if frames > 1 else ''}{there} of {rows} x {columns}{channels} "
        f"{result.dtype} in {progress.seconds:.2f} s, {speed}: {where}"
    )


def _to_store(result: Any, options: Namespace, progress: _Count) -> str:
    """Write a store or a file of arrays, and tell what was done."""
    save(
        result,
        options.output,
        chunks=options.chunks,
        shards=options.shards,
        resume=options.resume,
        part=options.part,
        progress=progress,
        overwrite=bool(options.overwrite),
    )
    if not progress.done:
        return f"nothing to do: all of it is there, {options.output}"
    sizes = " x ".join(map(str, result.shape))
    units = counted(progress.done, "unit" if progress.done == 1 else "units")
    took = f"{result.dtype} in {progress.seconds:.2f} s"
    return f"{units} of {sizes} {took}: {options.output}"


class _Count:
    """Counts what is done, frames or units, and shows a bar if a person sees it."""

    def __init__(self, quiet: bool) -> None:
        self._bar = Bar() if not quiet and seen() else None
        self._began, self.done = time.perf_counter(), 0

    def __call__(self, done: int, total: int) -> None:
        """Take the number of frames or units that are done."""
        self.done = done
        if self._bar is not None:
            self._bar.show(done, total)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.clear()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.perf_counter() - self._began


def explain(options: Namespace) -> None:
    """Tell how a kernel is understood; of a ready-made filter, what it does and where it is."""
    kernel, given = find_kernel(options.kernel), dict(options.param)
    stencil, dtypes = kernel.function, [dtype_of(text) for text in options.dtype or ()]
    # What a GPU does is told of one that need not be there.
    place = {} if options.device is None else {"device": options.device}
    if kernel.is_filter:
        if not (dtypes or given or options.ir or options.source or place):
            _show(kernel)
            return
        kernel.check(given)
        _check_count(len(dtypes), 1, f"{kernel.name!r} takes one image")
        dtype = native(dtypes[0] if dtypes else dtype_of("float64"))
        try:
            made = kernel.function(lazy(np.broadcast_to(np.zeros((), dtype), (512, 512))), **given)
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from error
        one = Asked(made._call, (dtype,), (dtype,))
    else:
        kernel.check(given, complete=False)
        fields = stencil.fields
        takes = f"'{kernel.name}' has {len(fields)} fields ({', '.join(fields)})"
        _check_count(len(dtypes), len(fields), takes)
        one = asked(stencil.definition, dtypes, given)
    if options.ir:
        print(intermediate(one))
    elif options.source:
        print(texts(one, options.device or "cpu"), end="")
    else:
        print(explained(stencil, one, place))


def _check_count(count: int, wanted: int, takes: str) -> None:
    """Refuse types that are neither one for all fields nor one for each."""
    if count > 1 and count != wanted:
        raise UsageError(f"{takes}, and --dtype is given {count} times")


def _show(kernel: Kernel) -> None:
    """Print what a filter does, and where its text is."""
    written = inspect.unwrap(kernel.function)
    place = f"{inspect.getsourcefile(written)}, line {inspect.getsourcelines(written)[1]}"
    print(f"{kernel.name} is a ready-made filter, to be read and copied: {place}\n")
    print(f"{kernel.name}{inspect.signature(kernel.function)}\n")
    print(inspect.getdoc(kernel.function))


def info(options: Namespace) -> None:
    """Print what one pastes into a bug report."""
    for name, value in surroundings.facts():
        print(f"{name:<12}{value}")


def cache(options: Namespace) -> None:
    """Print where the compiled kernels are, after removing them if asked."""
    folder = kernel_cache.folder()
    files, size = surroundings.folder_size(folder)
    if options.clear:
        cpu.clear()
        # What is not ours stays.
        left, rest = surroundings.folder_size(folder)
        print(f"removed {files - left} files, {counted(size - rest, 'B')}, from {folder}")
    else:
        print(f"{folder}: {files} files, {counted(size, 'B')}")
