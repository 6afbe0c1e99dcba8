"""`ninepoint apply` on images: images in, images out, and a few frames in memory."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..api import Stencil
from ..backends.cuda import driver
from ..backends.threads import thread_count
from ..inspecting.asked import asked
from ..inspecting.displays import counted
from ..io.errors import AmongInputsError
from ..io.formats import Options, check_options
from ..io.frames import imsave
from ..io.images import imread
from ..io.paths import natural_key
from ..io.targets import parse_pattern
from ..language.errors import StencilError
from ..undisturbed import imported
from .kernels import Filter, Kernel, find_kernel
from .parser import UsageError
from .progress import Progress

# Options of a call, which are given on only if the user gave them.
_OPTIONS = ("boundary", "cval", "dtype", "overflow", "device")


def apply(options: Namespace) -> None:
    """Run the command: open lazily, apply lazily, and let saving pull the frames through."""
    for name in ("part", "chunks", "shards", "variable"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is for stores and files of arrays, such as out.zarr")
    kernel = find_kernel(options.kernel)
    _check_output(options)
    _check_device(options.device)
    threads = thread_count(options.threads)
    stack = imread(_sources(options.input))
    result = one_result(_applied(kernel, stack, options), options.result)
    _check_held(result.dtype, stack.dtype, options.output)
    progress = Progress(visible=not options.quiet)
    config: Any = imported("dask.config")
    try:
        with config.set(scheduler="threads", num_workers=threads):
            paths = _saved(result, options, progress)
    finally:
        progress.close()
    if not options.quiet:
        print(_summary(progress, result, paths))


def _saved(result: Any, options: Namespace, progress: Progress) -> list[Path]:
    try:
        return imsave(
            result,
            options.output,
            overwrite=options.overwrite is not False,
            resume=options.resume,
            progress=progress,
            compression=options.compression,
            quality=options.quality,
        )
    except AmongInputsError as error:
        raise UsageError(str(error)) from error


def _check_output(options: Namespace) -> None:
    try:
        form = parse_pattern(options.output).format
        check_options(form, Options(options.compression, options.quality))
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


def _applied(kernel: Kernel, stack: Any, options: Namespace) -> Any:
    settings = given_options(options)
    params = dict(options.param)
    if isinstance(kernel, Filter):
        check_params(kernel, params)
        if settings.pop("overflow", None) == "wrap":
            raise UsageError("--overflow wrap: a ready-made filter always saturates")
        return tried(kernel.function, stack, {"axes": (1, 2), **params, **settings})
    check_fields(kernel)
    check_params(kernel, params)
    if kernel.pointwise:
        return tried(kernel, stack, {**params, **settings})
    axes = _axes(kernel, stack.dtype, params)
    return tried(kernel, stack, {"axes": axes, **params, **settings})


def given_options(options: Namespace) -> dict[str, Any]:
    """The options of a call that the user gave."""
    given = {name: getattr(options, name) for name in _OPTIONS}
    settings = {name: value for name, value in given.items() if value is not None}
    if "dtype" in settings:
        settings["dtype"] = dtype_of(settings["dtype"])
    return settings


def tried(function: Callable[..., Any], stack: Any, given: dict[str, Any]) -> Any:
    """Apply a kernel, lazily; what is wrong with it by now stands on the command line."""
    try:
        return function(stack, **given)
    except StencilError:
        raise
    except (ValueError, TypeError) as error:
        if set(given) <= {"axes"}:
            raise
        raise UsageError(str(error)) from error


def _axes(kernel: Stencil, dtype: Any, params: dict[str, Any]) -> tuple[int, ...]:
    """Choose axes of (frame, y, x[, channel]): the last ones that are no channel."""
    ndim = asked(kernel.definition, (dtype,), params).last.ndim
    if ndim > 3:
        raise ValueError(
            f"'{kernel.__name__}' works on {ndim} axes; a stack of images has 3: frame, y, x."
        )
    return tuple(range(3 - ndim, 3))


def dtype_of(text: str) -> np.dtype[Any]:
    """Read the name of a dtype."""
    try:
        return np.dtype(text)
    except TypeError as error:
        raise UsageError(f"--dtype {text}: there is no such type; uint8 is one") from error


def check_fields(kernel: Stencil) -> None:
    """Refuse a kernel of several fields: there is one input."""
    if len(kernel.fields) > 1:
        raise UsageError(
            f"'{kernel.__name__}' takes {len(kernel.fields)} fields "
            f"({', '.join(kernel.fields)}), and there is one INPUT; call it from Python"
        )


def check_params(kernel: Kernel, params: dict[str, Any]) -> None:
    """Refuse a parameter that the kernel does not have, and miss one that it needs."""
    if isinstance(kernel, Filter):
        name, known, needed = kernel.name, *_parameters(kernel)
    else:
        name, known = kernel.__name__, list(kernel.scalars)
        needed = [one for one in known if one not in kernel.defaults]
    has = f"it has {', '.join(known)}" if known else "it has none"
    for param in params:
        if param not in known:
            raise UsageError(f"--param {param}: {name!r} has no such parameter; {has}")
    for param in needed:
        if param not in params:
            raise UsageError(f"{name!r} needs a value: --param {param}=VALUE")


def _parameters(kernel: Filter) -> tuple[list[str], list[str]]:
    """Give the parameters of a filter, and those of them that have no default."""
    parameters = list(inspect.signature(kernel.function).parameters.values())
    own = [one for one in parameters[1:] if one.kind is not one.VAR_KEYWORD]
    needed = [one.name for one in own if one.default is one.empty]
    return [*(one.name for one in own), "axes"], needed


def one_result(result: Any, number: int | None) -> Any:
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


def _check_held(dtype: np.dtype[Any], source: np.dtype[Any], output: str) -> None:
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


def _summary(progress: Progress, result: Any, paths: list[Path]) -> str:
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
