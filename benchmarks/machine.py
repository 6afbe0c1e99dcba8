"""What the figures were taken on, and how fast it copies."""

from __future__ import annotations

import itertools
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .measure import take_times

PACKAGES = (
    "ninepoint", "numpy", "numba", "llvmlite", "scipy", "opencv-python-headless",
    "opencv-python", "halide", "scikit-image", "jax", "jaxlib", "pystencils", "devito",
)  # fmt: skip

# Bytes of the array that is copied: half of it and its copy in the nearest caches, and far beyond.
COPIES = {"in cache": 256 * 1024, "beyond cache": 256 * 1024 * 1024}

# How far behind the beginning of its memory a copy begins [bytes].
SHIFTS = (0, 64, 1088, 2112)


def describe(more: tuple[str, ...] = ()) -> dict[str, Any]:
    """The machine, the versions, of `more` packages too, the date, and how busy it was."""
    versions = {}
    for package in dict.fromkeys((*PACKAGES, *more)):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": cores(),
        "caches": _caches(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.version.split()[0],
        "versions": versions,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":") for line in info.read_text().splitlines()]
        facts = {key.strip(): value.strip() for key, _, value in lines}
        name = facts.get("model name", platform.processor())
        wide = "AVX-512" if "avx512f" in facts.get("flags", "") else ""
        return f"{name}, {wide}".rstrip(", ")
    return platform.processor() or platform.machine()


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind = (folder / "type").read_text().strip()
        if kind != "Instruction":
            level = (folder / "level").read_text().strip()
            found[f"L{level}"] = (folder / "size").read_text().strip()
    return found


def _memory() -> float | None:
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def copy_speed(threads: int, repeat: int) -> dict[str, float]:
    """Bytes a second that `np.copyto` moves, counted once in and once out.

    The fastest of several places in memory: two runs of six gave 0.8 GB/s with one thread where
    the others gave 25, and the arrays lay at other distances.
    """
    speeds = {}
    with ThreadPoolExecutor(threads) as pool:
        for name, size in COPIES.items():
            source, room = np.ones(size, np.uint8), np.zeros(size + max(SHIFTS), np.uint8)
            parts = np.linspace(0, size, threads + 1).astype(int).tolist()
            works = {}
            for shift in SHIFTS:
                target = room[shift : shift + size]
                pieces = [(target[a:b], source[a:b]) for a, b in itertools.pairwise(parts)]

                def copy(pieces=pieces) -> None:
                    if threads == 1:
                        np.copyto(*pieces[0])
                    else:
                        list(pool.map(lambda pair: np.copyto(*pair), pieces))

                works[str(shift)] = copy
            times = take_times(works, repeat).values()
            speeds[name] = 2 * size / min(taken.median for taken in times)
    return speeds
