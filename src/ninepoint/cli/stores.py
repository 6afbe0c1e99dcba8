"""`ninepoint apply` on stores and files of arrays, block by block."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

from ..backends.threads import thread_count
from ..inspecting.displays import counted
from ..io.opening import open as open_array
from ..io.saving import save
from ..undisturbed import imported
from .apply import check_fields, check_params, given_options, one_result, tried
from .kernels import Filter, Kernel, find_kernel
from .parser import UsageError
from .progress import Progress

_ARRAYS = (".zarr", ".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf", ".npy")

# Options that only images have.
_OF_IMAGES = ("compression", "quality")


def are_meant(options: Namespace) -> bool:
    """Whether an input or the output is a store or a file of arrays, by their names."""
    return any(_suffix(name) in _ARRAYS for name in (*options.input, options.output))


def apply_to_store(options: Namespace) -> None:
    """Run the command: open lazily, apply lazily, and let saving pull the blocks through."""
    for name in _OF_IMAGES:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is for images, in and out")
    if len(options.input) > 1:
        raise UsageError("there is one INPUT where a store is read or written")
    if options.part and options.overwrite:
        raise UsageError("--overwrite would remove what other parts have written")
    kernel = find_kernel(options.kernel)
    array = open_array(options.input[0], variable=options.variable)
    result = one_result(_applied(kernel, array, options), options.result)
    progress = Progress(visible=not options.quiet, what="units")
    config: Any = imported("dask.config")
    try:
        with config.set(scheduler="threads", num_workers=thread_count(options.threads)):
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
    finally:
        progress.close()
    if not options.quiet:
        print(_summary(progress, result, options.output))


def _applied(kernel: Kernel, array: Any, options: Namespace) -> Any:
    settings = given_options(options)
    params = dict(options.param)
    if isinstance(kernel, Filter):
        check_params(kernel, params)
        if settings.pop("overflow", None) == "wrap":
            raise UsageError("--overflow wrap: a ready-made filter always saturates")
        return tried(kernel.function, array, {**params, **settings})
    check_fields(kernel)
    check_params(kernel, params)
    return tried(kernel, array, {**params, **settings})


def _summary(progress: Progress, result: Any, path: str) -> str:
    if not progress.done:
        return f"nothing to do: all of it is there, {path}"
    sizes = " x ".join(map(str, result.shape))
    units = counted(progress.done, "unit" if progress.done == 1 else "units")
    return f"{units} of {sizes} {result.dtype} in {progress.seconds:.2f} s: {path}"


def _suffix(name: str) -> str:
    return os.path.splitext(name.rstrip("/" + os.sep))[1].lower()
