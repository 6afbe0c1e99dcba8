"""`ninepoint explain`, `info` and `cache`: what there is, in words."""

from __future__ import annotations

import inspect
from argparse import Namespace
from typing import Any

from ..backends import cache as kernel_cache
from ..backends.numba import cpu
from ..filters.filtering import Typed
from ..inspecting import surroundings
from ..inspecting.asked import asked
from ..inspecting.device import texts
from ..inspecting.displays import counted
from .apply import check_params, dtype_of
from .kernels import Filter, find_kernel
from .parser import UsageError


def explain(options: Namespace) -> None:
    """Tell how a kernel is understood; of a ready-made filter, what it does and where it is."""
    kernel = find_kernel(options.kernel)
    params = dict(options.param)
    dtypes = [dtype_of(text) for text in options.dtype or ()]
    if isinstance(kernel, Filter):
        _explain_filter(kernel, dtypes, params, options)
        return
    check_params(kernel, {**dict.fromkeys(kernel.scalars), **params})
    if len(dtypes) > 1 and len(dtypes) != len(kernel.fields):
        raise UsageError(
            f"'{kernel.__name__}' has {len(kernel.fields)} fields ({', '.join(kernel.fields)}), "
            f"and --dtype is given {len(dtypes)} times"
        )
    if options.ir:
        print(kernel.ir(*dtypes))
    elif options.source:
        print(kernel.source(*dtypes, target=options.device or "cpu"), end="")
    else:
        print(kernel.explain(*dtypes, **params, **_device(options)))


def _device(options: Namespace) -> dict[str, str]:
    """The option of a call that says where it is computed, if it is given."""
    return {} if options.device is None else {"device": options.device}


def _explain_filter(
    kernel: Filter, dtypes: list[Any], params: dict[str, Any], options: Namespace
) -> None:
    """Tell what a filter does; with options, how it is computed."""
    function = kernel.function
    if not (dtypes or params or options.ir or options.source or options.device):
        written = inspect.unwrap(function)
        place = f"{inspect.getsourcefile(written)}, line {inspect.getsourcelines(written)[1]}"
        print(f"{kernel.name} is a ready-made filter, to be read and copied: {place}\n")
        print(f"{kernel.name}{inspect.signature(function)}\n\n{inspect.getdoc(function)}")
        return
    check_params(kernel, params)
    if len(dtypes) > 1:
        raise UsageError(
            f"{kernel.name!r} takes one image, and --dtype is given {len(dtypes)} times"
        )
    image = Typed(dtypes[0] if dtypes else dtype_of("float64"))
    try:
        use = function(image, **params)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    if options.ir:
        print(use.stencil.ir(image.dtype))
    elif options.source:
        one = asked(use.stencil.definition, (image.dtype,), use.given)
        print(texts(one) if options.device else one.last.module.text, end="")
    else:
        print(use.stencil.explain(image.dtype, **use.given, **_device(options)))


def info() -> None:
    """Print what one pastes into a bug report."""
    _, *lines = surroundings.info().split("\n")
    for line in lines:
        print(line.removeprefix("  "))


def cache(clear: bool) -> None:
    """Print where the compiled kernels are, after removing them if asked."""
    folder = kernel_cache.folder()
    files, size = surroundings.folder_size(folder)
    if clear:
        cpu.clear()
        # What is not ours stays.
        left, rest = surroundings.folder_size(folder)
        print(f"removed {files - left} files, {counted(size - rest, 'B')}, from {folder}")
    else:
        print(f"{folder}: {files} files, {counted(size, 'B')}")
