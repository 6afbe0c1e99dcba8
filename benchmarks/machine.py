"""What the figures were taken on."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "ninepoint", "numpy", "numba", "scipy", "opencv-python-headless", "opencv-python", "halide",
    "scikit-image", "jax", "jaxlib", "pystencils", "devito", "bottleneck", "numbagg",
    "dask", "distributed", "zarr", "cupy-cuda13x", "cupy-cuda12x",
    "nvidia-cuda-nvrtc", "numba-cuda",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """The machine, what was measured when, and how busy it was."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.version.split()[0],
        "versions": versions,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def gpu() -> str:
    """The GPU, and what compiles for it; nothing where there is no CuPy."""
    if importlib.util.find_spec("cupy") is None:
        return ""
    import cupy

    from ninepoint.backends.cuda import driver

    return f"{driver.described()}; NVRTC {driver.compiler()}, CuPy {cupy.__version__}"


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _commit() -> str:
    """The commit, with a + where files differ from it; nothing outside of a checkout."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return ""
    return found.stdout.strip()


def _cpu() -> str:
    """The processor's name, and what the system tells of its caches."""
    info, shown = Path("/proc/cpuinfo"), platform.processor() or platform.machine()
    if info.exists():
        lines = [line.partition(":") for line in info.read_text().splitlines()]
        facts = {key.strip(): value.strip() for key, _, value in lines}
        shown = facts.get("model name", shown)
        shown += ", AVX-512" if "avx512f" in facts.get("flags", "") else ""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = ((folder / n).read_text().strip() for n in ("type", "level", "size"))
        shown += f", L{level} {size}" if kind != "Instruction" else ""
    return shown
