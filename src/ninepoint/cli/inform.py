"""`ninepoint explain`, `info` and `cache`: what there is, in words."""

from __future__ import annotations

import inspect
import os
import platform
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from ..backends.numba import cache as kernel_cache
from ..backends.threads import thread_count
from ..filters.filtering import Typed
from ..inspecting.asked import asked
from .apply import check_params, dtype_of
from .kernels import Filter, find_kernel
from .parser import UsageError
from .progress import counted

_PACKAGES = ("numpy", "numba", "llvmlite", "dask", "distributed", "xarray", "pillow", "tifffile",
             "rich", "scipy")  # fmt: skip

# The features that decide how wide a loop's vectors are, by the names of LLVM.
_VECTORS = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl",
            "avx512vnni", "avx512fp16", "neon", "fullfp16", "sve", "sve2")  # fmt: skip


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
        print(kernel.source(*dtypes), end="")
    else:
        print(kernel.explain(*dtypes, **params))


def _explain_filter(
    kernel: Filter, dtypes: list[Any], params: dict[str, Any], options: Namespace
) -> None:
    """Tell what a filter does; with options, how it is computed."""
    function = kernel.function
    if not (dtypes or params or options.ir or options.source):
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
        print(one.last.module.text, end="")
    else:
        print(use.stencil.explain(image.dtype, **use.given))


def info() -> None:
    """Print what one pastes into a bug report."""
    for name, value in _facts():
        print(f"{name:<12}{value}")


def cache(clear: bool) -> None:
    """Print where the compiled kernels are, after removing them if asked."""
    folder = kernel_cache.folder()
    files, size = _size(folder)
    if clear:
        kernel_cache.clear()
        # What is not ours stays.
        left, rest = _size(folder)
        print(f"removed {files - left} files, {counted(size - rest, 'B')}, from {folder}")
    else:
        print(f"{folder}: {files} files, {counted(size, 'B')}")


def _facts() -> Iterator[tuple[str, str]]:
    from ninepoint import __version__

    yield "ninepoint", f"{__version__} ({Path(__file__).parents[1]})"
    yield "Python", f"{platform.python_version()} ({sys.executable})"
    for package in _PACKAGES:
        yield package, _version(package)
    yield "system", platform.platform()
    yield "processor", _processor()
    yield "vectors", _vectors()
    yield "memory", _memory()
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    yield "cores", f"{os.cpu_count()}, of which this process may use {usable}"
    yield "threads", str(thread_count())
    files, size = _size(kernel_cache.folder())
    yield "cache", f"{kernel_cache.folder()} ({files} files, {counted(size, 'B')})"
    yield "GPU", "not used: kernels run on the CPU"
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("NINEPOINT_", "NUMBA_"))
    ]
    yield "settings", ", ".join(settings) or "none"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Give the name by which the processor is sold, where the system tells it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine()


def _vectors() -> str:
    # Imported here: a fact that only this command wants.
    try:
        from llvmlite import binding
    except ImportError as error:
        return f"unknown ({error})"
    features = binding.get_host_cpu_features()
    found = [name for name in _VECTORS if features.get(name)]
    return f"{binding.get_host_cpu_name()}: {' '.join(found) or 'none that are known'}"


def _memory() -> str:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return "unknown"
    return counted(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "B")


def _output(*command: str) -> str | None:
    """Give what a program prints, or None if it is not there or fails."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        ran = subprocess.run(
            (program, *command[1:]), capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip()


def _size(folder: Path) -> tuple[int, int]:
    """How many files there are in `folder`, and their size [bytes]."""
    sizes = []
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.lstat(os.path.join(path, name)).st_size)
            except FileNotFoundError:
                # Another process is at work in the same cache.
                continue
    return len(sizes), sum(sizes)
