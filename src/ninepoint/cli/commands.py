"""The commands: `apply`, of a few frames or blocks in memory; what tells of kernels; the cache."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import runpy
import sys
import time
import traceback
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..arrays.accepted import listed, native
from ..backends import cache as kernel_cache
from ..backends.cuda import driver
from ..backends.threads import thread_count
from ..base.undisturbed import imported
from ..inspecting import surroundings
from ..inspecting.measuring import Asked, asked
from ..io.formats import ARRAYS, check_options, format_of
from ..io.opening import alike_images, matching
from ..io.opening import open as open_array
from ..io.paths import AmongInputsError, natural_key, nth
from ..io.progress import Progress, bar_of, seen
from ..io.saving import imsave, parse_pattern, save
from ..language.errors import StencilError, alike
from ..language.signature import counted, many
from ..running.calling import OnArrays
from ..running.calls import lazy
from . import UsageError

# Options of a call, which are given on only if the user gave them.
_OPTIONS = ("boundary", "cval", "dtype", "overflow", "device")

# Options that only stores and files of arrays have, and those that only images have.
_ONLY = {True: ("part", "chunks", "shards"), False: ("compression", "quality")}


@contextmanager
def _at_fault(*kinds: type[Exception], words: str = "") -> Iterator[None]:
    """Say of some errors that the command line is at fault; of none that a kernel has."""
    try:
        yield
    except StencilError:
        raise
    except kinds as error:
        raise UsageError(f"{words}{error}") from error


def apply(options: Namespace) -> None:
    """Run the command: open lazily, apply lazily, and let saving pull all of it through."""
    _check_options(options)
    kernel = _find_kernel(options.kernel)
    if options.device is not None:
        # Before any file is read.
        with _at_fault(ImportError, RuntimeError, words=f"--device {options.device}: "):
            driver.cupy()
    with _at_fault(ValueError, TypeError, words="--threads: "):
        threads = thread_count(options.threads)
    progress = False if options.quiet else None
    begun, count = time.monotonic(), 0
    paths: list[Path] = []
    for source, target in _jobs(options, progress):
        array = open_array(source, variable=options.variable, progress=progress)
        result = _one_result(_applied(kernel, array, options), options.result)
        bar = None if options.quiet or not seen() else bar_of("saving")

        def told(done: int, total: int, bar: Any = bar, before: int = count) -> None:
            nonlocal count
            count = before + done
            if bar is not None:
                bar.total = total
                bar.update(done - bar.n)

        with (
            nullcontext() if bar is None else bar,
            _at_fault(AmongInputsError),
            imported("dask.config").set(scheduler="threads", num_workers=threads),
        ):
            paths += _written(result, target, options, told)
    if options.quiet:
        return
    where = f"{paths[0]} to {paths[-1].name}" if len(paths) > 1 else paths[0]
    if not count:
        print(f"nothing to do: all of it is there, {where}")
        return
    unit = "frame" if len(paths) > 1 else "unit"
    print(f"{many(count, unit)} in {time.monotonic() - begun:.2f} s: {where}")


def _is_store(name: str) -> bool:
    return Path(name).suffix.lower() in ARRAYS


def _check_options(options: Namespace) -> None:
    """Refuse what means nothing for what is written, or what a format does not have."""
    output = options.output
    is_store = _is_store(output)
    kind = "images" if is_store else "stores and files of arrays, such as out.zarr"
    for name in _ONLY[not is_store]:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is for {kind}")
    if not is_store and not _NAMED.search(output):
        with _at_fault(ValueError):
            form = format_of(nth(parse_pattern(output), 0))
            check_options(form, options.compression, options.quality)
    if options.part and options.overwrite:
        raise UsageError("--overwrite would remove what other parts have written")


# What stands in OUTPUT for the name of a file of INPUT, and for that without its suffix.
_NAMED = re.compile(r"\{(name|stem)\}")


def _jobs(options: Namespace, progress: Progress) -> list[tuple[Any, Any]]:
    """What is opened, and where its result goes: all of INPUT, or files by their names."""
    words, output = sorted(options.input, key=natural_key), options.output
    is_folder = output.endswith(("/", os.sep)) or os.path.isdir(output)
    if not _is_store(output) and (is_folder or not (Path(output).suffix or "{" in output)):
        output = os.path.join(output, "{name}")
    if not _NAMED.search(output):
        # One word is for `open` to understand; several are files, as the shell has listed them.
        return [(words if len(words) > 1 else words[0], output)]
    names: dict[str, str] = {}
    for word in words:
        for path in [word] if _is_store(word) else matching(os.path.expanduser(word)):
            file = Path(path)
            names[path] = output.replace("{name}", file.name).replace("{stem}", file.stem)
    if len(set(names.values())) < len(names):
        raise UsageError("several files of INPUT have the same name, which OUTPUT holds once")
    if "{" in _NAMED.sub("", output) or any(map(_is_store, (output, *names))):
        return list(names.items())
    groups = alike_images(list(names), progress)
    return [(paths[0] if len(paths) == 1 else paths, [names[path] for path in paths])
            for paths in groups]  # fmt: skip


def _applied(kernel: Any, array: Any, options: Namespace) -> Any:
    """What a kernel gives, lazily; what is wrong with it by now stands on the command line."""
    is_filter = not isinstance(kernel, OnArrays)
    given = {name: value for name in _OPTIONS if (value := getattr(options, name)) is not None}
    if not is_filter and len(kernel.fields) > 1:
        raise UsageError(
            f"'{kernel.__name__}' takes {len(kernel.fields)} fields ({', '.join(kernel.fields)}), "
            "and there is one INPUT; call it from Python"
        )
    if is_filter and given.pop("overflow", None) == "wrap":
        raise UsageError("--overflow wrap: a ready-made filter always saturates")
    with _at_fault(ValueError, TypeError):
        made = kernel(array, **(dict(options.param) | given))
    return made


def _one_result(result: Any, number: int | None) -> Any:
    """Give the result that is to be written."""
    results = listed(result)
    count = len(results)
    if number is None and count > 1:
        raise UsageError(f"the kernel has {count} results; choose one with --result 0")
    if not 0 <= (number or 0) < count:
        has = f"results 0 to {count - 1}" if count > 1 else "one result, 0"
        raise UsageError(f"--result {number}: the kernel has {has}")
    return results[number or 0]


def _written(result: Any, target: Any, options: Namespace, told: Progress) -> list[Path]:
    """Write images, a store or a file of arrays."""
    name = nth(target, 0)
    is_store = _is_store(name)
    given = {one: getattr(options, one) for one in ("resume", "overwrite", *_ONLY[is_store])}
    if is_store:
        return [save(result, name, progress=told, **given)]
    form, dtype = format_of(name), result.dtype
    if dtype.name not in form.holds and dtype.kind != "b":
        # imsave would say what to add in Python.
        raise TypeError(
            f"{form.name} cannot hold the kernel's {dtype} result; add --dtype uint8 --overflow "
            "saturate (of what lies elsewhere, scale it to 0..255 in the kernel), or write .tif "
            "files"
        )
    return imsave(result, target, progress=told, **given)


def filters(options: Namespace) -> None:
    """Print the ready-made filters, with a line each."""
    names = _filters().__all__
    width = max(map(len, names)) + 2
    for name in names:
        words = inspect.getdoc(getattr(_filters(), name)) or name
        print(f"{name:<{width}}{words.splitlines()[0]}")


def _filters() -> Any:
    return importlib.import_module("ninepoint.filters")


def explain(options: Namespace) -> None:
    """Tell how a kernel is understood; of a ready-made filter, what it does and where it is."""
    kernel, given = _find_kernel(options.kernel), dict(options.param)
    dtypes = options.dtype
    # What a GPU does is told of one that need not be there.
    place = {} if options.device is None else {"device": options.device}
    if isinstance(kernel, OnArrays):
        with _at_fault(TypeError, ValueError):
            one = asked(kernel.definition, dtypes, given | place)
    elif not (dtypes or given or options.ir or options.source or place):
        name, written = kernel.__name__, inspect.unwrap(kernel)
        where = f"{inspect.getsourcefile(written)}, line {inspect.getsourcelines(written)[1]}"
        print(f"{name} is a ready-made filter, to be read and copied: {where}\n")
        print(f"{name}{inspect.signature(kernel)}\n")
        print(inspect.getdoc(kernel))
        return
    elif len(dtypes) > 1:
        raise UsageError(f"{kernel.__name__!r} takes one image, and --dtype is given once")
    else:
        dtype = native(dtypes[0] if dtypes else np.dtype("float64"))
        with _at_fault(ValueError, TypeError):
            made = kernel(lazy(np.broadcast_to(np.zeros((), dtype), (512, 512))), **given)
        # Of a filter that is several ones the last.
        call = made._node.made.call
        types = (dtype,) * len(call.fields)
        one = Asked(call, types, types, place)
    explaining = imported("..inspecting.explaining", __package__)
    if options.ir:
        print(explaining.intermediate(one))
    elif options.source:
        print(explaining.texts(one, options.device or "cpu"), end="")
    else:
        print(explaining.explained(kernel, one))


def info(options: Namespace) -> None:
    """Print what one pastes into a bug report."""
    for name, value in surroundings.facts():
        print(f"{name:<12}{value}")


def cache(options: Namespace) -> None:
    """Print where the compiled kernels are, after removing them if asked."""
    folder = kernel_cache.folder()
    files, size = surroundings.folder_size(folder)
    if options.clear:
        kernel_cache.clear()
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


def _find_kernel(text: str) -> Any:
    """Find the kernel that `text` names: a stencil, or the function that is a ready-made filter.

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
    return _member(held, where, name)


def _ready_made(name: str) -> Any:
    known = _filters().__all__
    if name not in known:
        close = alike(name, known)
        guess = f"did you mean {close}? " if close else ""
        raise UsageError(
            f"there is no ready-made filter {name!r}; {guess}A kernel of yours is named "
            f"file.py:name or package.module:name; ready-made are {', '.join(known)}"
        )
    return getattr(_filters(), name)


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
        raise ImportError(f"{what} cannot be imported: {_where(error, folder)}") from error


def _where(error: BaseException, folder: str) -> str:
    """Say what happened, and in which line of a file in the user's folder."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        # Its text names the file and the line itself.
        return words
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    return f"line {own[-1].lineno} of {own[-1].filename}: {words}" if own else words


def _member(held: dict[str, Any], where: str, name: str) -> OnArrays:
    """Give the stencil of that name, or the only one of a file that is named without one."""
    names = [name for name, value in held.items() if isinstance(value, OnArrays)]
    known = ", ".join(names)
    if not name and not names:
        raise UsageError(f"{where} holds no stencil; put @npt.stencil above a function")
    if not name and len(names) > 1:
        raise UsageError(f"{where} holds several stencils; choose {where}:NAME from {known}")
    name = name or names[0]
    try:
        found = attrgetter(name)(SimpleNamespace(**held))
    except AttributeError as error:
        raise UsageError(f"{where} has no {name!r}; it has {known or 'no stencil'}") from error
    if isinstance(found, OnArrays):
        return found
    cure = "; put @npt.stencil above it" if callable(found) else f" but {type(found).__name__}"
    raise UsageError(f"{name!r} of {where} is no stencil{cure}")
