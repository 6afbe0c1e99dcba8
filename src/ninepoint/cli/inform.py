"""`ninepoint explain`, `info` and `cache`: what there is, in words."""

from __future__ import annotations

import inspect
from argparse import Namespace

import numpy as np

from ..arrays.accepted import native
from ..backends import cache as kernel_cache
from ..backends.numba import cpu
from ..inspecting import surroundings
from ..inspecting.asked import Asked, asked
from ..inspecting.displays import counted
from ..inspecting.explaining import explained, intermediate, texts
from ..recording import lazy
from . import UsageError
from .apply import dtype_of
from .kernels import Kernel, find_kernel


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
