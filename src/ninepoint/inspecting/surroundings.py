"""Where ninepoint runs: versions, the machine, the cache and the settings, for a report."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from ..backends import cache as kernel_cache
from ..backends.memory import of_machine
from ..backends.threads import cores, thread_count
from ..language.signature import Explanation, counted

_PACKAGES = ("numpy", "numba", "llvmlite", "dask", "distributed", "xarray", "pillow", "tifffile",
             "rich", "scipy")  # fmt: skip

# By what names pip may know CuPy.
_CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")

# How long CUDA may take to say which GPUs there are [s].
_PATIENCE = 20.0

# The features that decide how wide a loop's vectors are, by the names of LLVM.
_VECTORS = ("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl",
            "avx512vnni", "avx512fp16", "neon", "fullfp16", "sve", "sve2")  # fmt: skip


def info() -> str:
    """Tell what belongs into a report of something that is wrong.

    Returns
    -------
    str
        Lines of text, a table in a notebook: versions, the processor and its vectors, memory,
        threads, the GPU or why it is not used, the folder of compiled kernels, and what is set
        by variables.

    Examples
    --------
    >>> import ninepoint as npt
    >>> "numba" in npt.info()
    True
    """
    lines = [f"  {name:<12}{value}" for name, value in facts()]
    return Explanation("\n".join(["What ninepoint runs on", *lines]))


def facts() -> Iterator[tuple[str, str]]:
    """What there is, by names of one word."""
    # This room lies below the package itself, which is there by now.
    package = sys.modules[__name__.partition(".")[0]]
    yield "ninepoint", f"{package.__version__} ({Path(__file__).parents[1]})"
    yield "Python", f"{platform.python_version()} ({sys.executable})"
    for name in _PACKAGES:
        yield name, _version(name)
    yield "system", platform.platform()
    yield "processor", _processor()
    yield "vectors", _vectors()
    memory = of_machine()
    yield "memory", counted(memory, "B") if memory else "unknown"
    yield "cores", f"{os.cpu_count()}, of which this process may use {cores()}"
    yield "threads", str(thread_count())
    files, size = folder_size(kernel_cache.folder())
    yield "cache", f"{kernel_cache.folder()} ({files} files, {counted(size, 'B')})"
    if importlib.util.find_spec("cupy") is None:
        yield "GPU", "not used: CuPy is not installed; pip install 'ninepoint[cuda]' brings it"
    else:
        yield "CuPy", _version(*_CUPY)
        yield "GPU", _devices()
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("NINEPOINT_", "NUMBA_"))
    ]
    yield "settings", ", ".join(settings) or "none"


def _version(*packages: str) -> str:
    """The version of the first of these that is there, with its name where there are several."""
    for package in packages:
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        return found if len(packages) == 1 else f"{found} ({package})"
    return "not installed"


def _devices() -> str:
    """The GPUs; a driver that is broken may not answer at all."""
    found = [f"not used: CUDA has not answered within {_PATIENCE:g} s"]

    def ask() -> None:
        # Imported here: CuPy takes a while, and is optional.
        from ..backends.cuda import driver

        try:
            found[0] = driver.described()
        except (ImportError, RuntimeError) as error:
            found[0] = f"not used: {error}"

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return found[0]


def _processor() -> str:
    """Give the name by which the processor is sold, where the system tells it."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _vectors() -> str:
    # Imported here: a fact that only this command wants.
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    found = [name for name in _VECTORS if features.get(name)]
    return f"{binding.get_host_cpu_name()}: {' '.join(found) or 'none that are known'}"


def folder_size(folder: Path) -> tuple[int, int]:
    """How many files there are in `folder`, and their size [bytes]."""
    sizes = []
    for path in folder.rglob("*"):
        # Another process may be at work in the same cache.
        with suppress(FileNotFoundError):
            if not path.is_dir():
                sizes.append(path.lstat().st_size)
    return len(sizes), sum(sizes)
