"""The commands: `apply`, of a few frames or blocks in memory; `explain`, `info` and `cache`."""

from __future__ import annotations

import importlib
import inspect
import math
import os
import runpy
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..api.stencil import Stencil
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
from ..language.errors import StencilError, alike
from ..running.recording import lazy
from . import UsageError

# Options of a call, which are given on only if the user gave them.
_OPTIONS = ("boundary", "cval", "dtype", "overflow", "device")

# Options that only images have, and those that only stores and files of arrays have.
_OF_IMAGES = ("compression", "quality")
_OF_STORES = ("part", "chunks", "shards", "variable")

_STORES = (".zarr", ".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".hdf", ".npy")


@contextmanager
def _at_fault(*kinds: type[Exception], words: str = "") -> Iterator[None]:
    """Say of some errors that the command line is at fault."""
    try:
        yield
    except kinds as error:
        raise UsageError(f"{words}{error}") from error


def apply(options: Namespace) -> None:
    """Run the command: open lazily, apply lazily, and let saving pull all of it through."""
    names = (*options.input, options.output)
    of_store = any(Path(name).suffix.lower() in _STORES for name in names)
    _check_options(options, of_store)
    kernel = _find_kernel(options.kernel)
    if options.device is not None:
        # Before any file is read.
        with _at_fault(ImportError, RuntimeError, words=f"--device {options.device}: "):
            driver.cupy()
    threads = thread_count(options.threads)
    paths: list[str] = sorted(options.input, key=natural_key)
    if of_store:
        array: Any = open_array(paths[0], variable=options.variable)
    else:
        # One word is for imread to understand; several are files, as the shell has listed them.
        array = imread(paths if len(paths) > 1 else paths[0])
    result = _one_result(_applied(kernel, array, options, of_store), options.result)
    if not of_store:
        _check_held(result.dtype, array.dtype, options.output)
    after = math.inf if options.quiet or not seen() else 0.0
    bar, to_files = Bar(after=after), _to_store if of_store else _to_images
    try:
        with (
            _at_fault(AmongInputsError),
            imported("dask.config").set(scheduler="threads", num_workers=threads),
        ):
            text = to_files(result, options, bar)
    finally:
        bar.clear()
    if not options.quiet:
        print(text)


def _check_options(options: Namespace, of_store: bool) -> None:
    """Refuse what means nothing for stores, or for images, and what a format does not have."""
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
    if not of_store:
        how = How(compression=options.compression, quality=options.quality)
        with _at_fault(ValueError):
            check_options(parse_pattern(options.output).format, how)


def _applied(kernel: Kernel, array: Any, options: Namespace, of_store: bool) -> Any:
    """What a kernel gives, lazily; what is wrong with it by now stands on the command line."""
    function, params = kernel.function, dict(options.param)
    given = {name: getattr(options, name) for name in _OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if "dtype" in given:
        given["dtype"] = _dtype_of(given["dtype"])
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


def _dtype_of(text: str) -> np.dtype:
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


def _to_images(result: Any, options: Namespace, bar: Bar) -> str:
    """Write images, and tell what was done."""
    paths = imsave(
        result,
        options.output,
        overwrite=options.overwrite is not False,
        resume=options.resume,
        progress=bar.show,
        compression=options.compression,
        quality=options.quality,
    )
    frames, (rows, columns) = bar.done, result.shape[1:3]
    channels = f" x {result.shape[3]}" if result.ndim == 4 else ""
    where = str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1].name}"
    left_out = result.shape[0] - frames
    if not frames:
        return f"nothing to do: all {left_out} frames are there, {where}"
    there = f" ({left_out} were there)" if left_out else ""
    speed = counted(frames * rows * columns / bar.seconds, "pixels/s")
    return (
        f"{frames} frame{'s' if frames > 1 else ''}{there} of {rows} x {columns}{channels} "
        f"{result.dtype} in {bar.seconds:.2f} s, {speed}: {where}"
    )


def _to_store(result: Any, options: Namespace, bar: Bar) -> str:
    """Write a store or a file of arrays, and tell what was done."""
    save(
        result,
        options.output,
        chunks=options.chunks,
        shards=options.shards,
        resume=options.resume,
        part=options.part,
        progress=bar.show,
        overwrite=bool(options.overwrite),
    )
    if not bar.done:
        return f"nothing to do: all of it is there, {options.output}"
    sizes = " x ".join(map(str, result.shape))
    units = counted(bar.done, "unit" if bar.done == 1 else "units")
    took = f"{result.dtype} in {bar.seconds:.2f} s"
    return f"{units} of {sizes} {took}: {options.output}"


def explain(options: Namespace) -> None:
    """Tell how a kernel is understood; of a ready-made filter, what it does and where it is."""
    kernel, given = _find_kernel(options.kernel), dict(options.param)
    stencil, dtypes = kernel.function, [_dtype_of(text) for text in options.dtype or ()]
    # What a GPU does is told of one that need not be there.
    place = {} if options.device is None else {"device": options.device}
    if kernel.is_filter:
        if not (dtypes or given or options.ir or options.source or place):
            _show(kernel)
            return
        kernel.check(given)
        _check_count(len(dtypes), 1, f"{kernel.name!r} takes one image")
        dtype = native(dtypes[0] if dtypes else np.dtype("float64"))
        with _at_fault(ValueError, TypeError):
            made = kernel.function(lazy(np.broadcast_to(np.zeros((), dtype), (512, 512))), **given)
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


# Which kernel is meant: a file's, a module's or a ready-made one.

# What running a user's file raises. Errors of the user's own classes keep their traceback, as
# only the user knows what they mean.
_RAISED = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
           OSError, RuntimeError, SyntaxError, TypeError, ValueError)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel:
    """A stencil, or a ready-made filter: a function of the array, then of options by name.

    Of its parameters `known` can be given, and those `needed` have no default.
    """

    name: str
    function: Any
    known: tuple[str, ...]
    needed: tuple[str, ...]

    @property
    def is_filter(self) -> bool:
        """Whether it is a ready-made filter."""
        return not isinstance(self.function, Stencil)

    def check(self, params: dict[str, Any], complete: bool = True) -> None:
        """Refuse a parameter that it does not have, and miss one that it needs."""
        has = f"it has {', '.join(self.known)}" if self.known else "it has none"
        for param in params:
            if param not in self.known:
                raise UsageError(f"--param {param}: {self.name!r} has no such parameter; {has}")
        for param in self.needed if complete else ():
            if param not in params:
                raise UsageError(f"{self.name!r} needs a value: --param {param}=VALUE")


def _find_kernel(text: str) -> Kernel:
    """Find the kernel that `text` names.

    Raises
    ------
    UsageError
        If nothing has that name, or what has it is no stencil.
    StencilError
        If the function is no stencil that can be compiled.
    ImportError
        If the file or module that holds it cannot be imported.
    """
    where, colon, name = text.rpartition(":")
    if text.endswith(".py"):
        where, name = text, ""
    elif not colon or where in ("ninepoint.filters", "npt.filters"):
        return _ready_made(name)
    elif not name or not where:
        raise UsageError(f"{text!r} is not of the form file.py:name or package.module:name")
    if where.endswith(".py"):
        path = os.path.expanduser(where)
        if not os.path.isfile(path):
            raise UsageError(f"there is no file {path!r}")
        # As when Python runs the file: it can import its neighbours.
        with _imports_from(os.path.dirname(os.path.abspath(path)), path):
            held = runpy.run_path(os.path.abspath(path), run_name="_ninepoint_kernel")
    else:
        with _imports_from(os.getcwd(), where):
            held = vars(importlib.import_module(where))
    found = _member(held, where, name)
    needed = (name for name in found.scalars if name not in found.defaults)
    return Kernel(found.__name__, found, found.scalars, tuple(needed))


def _ready_made(name: str) -> Kernel:
    filters = importlib.import_module("ninepoint.filters")
    if name not in filters.__all__:
        close = alike(name, filters.__all__)
        guess = f"did you mean {close}? " if close else ""
        raise UsageError(
            f"there is no ready-made filter {name!r}; {guess}A kernel of yours is named "
            f"file.py:name or package.module:name; ready-made are {', '.join(filters.__all__)}"
        )
    function = getattr(filters, name)
    _, *parameters = inspect.signature(function).parameters.values()
    own = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    needed = (one.name for one in own if one.default is one.empty)
    return Kernel(name, function, (*(one.name for one in own), "axes"), tuple(needed))


@contextmanager
def _imports_from(folder: str, what: str) -> Iterator[None]:
    """Let the block import from `folder`, and say in a line what went wrong in it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        yield
    except StencilError:
        raise
    except _RAISED as error:
        raise ImportError(f"{what} cannot be imported: {_where(error)}") from error


def _where(error: BaseException) -> str:
    """Say what happened, and in which line of the user's."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        # Its text names the file and the line itself.
        return words
    ours = (str(Path(__file__).parents[1]), os.path.dirname(importlib.__file__), "<frozen")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(ours)]
    return f"line {own[-1].lineno} of {own[-1].filename}: {words}" if own else words


def _member(held: dict[str, Any], where: str, name: str) -> Stencil:
    """Give the stencil of that name, or the only one of a file that is named without one."""
    names = [name for name, value in held.items() if isinstance(value, Stencil)]
    if not name and not names:
        raise UsageError(f"{where} holds no stencil; put @npt.stencil above a function")
    if not name and len(names) > 1:
        several = ", ".join(names)
        raise UsageError(f"{where} holds several stencils; choose {where}:NAME from {several}")
    name = name or names[0]
    found: Any = SimpleNamespace(**held)
    for part in name.split("."):
        if not hasattr(found, part):
            has = f"it has {', '.join(names)}" if names else "it has no stencil"
            raise UsageError(f"{where} has no {name!r}; {has}")
        found = getattr(found, part)
    if isinstance(found, Stencil):
        return found
    cure = "; put @npt.stencil above it" if callable(found) else f" but {type(found).__name__}"
    raise UsageError(f"{name!r} of {where} is no stencil{cure}")
