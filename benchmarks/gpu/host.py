"""What the processor does: for a call, which a GPU then does by itself, and for the first call."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .. import kernels, start

_KERNEL = """
import numpy as np
import cupy
import ninepoint as npt
x = cupy.ones((100, 100), np.float32)

@npt.stencil
def smooth(x):
    return x[-1:2, -1:2].{reduction}()

smooth(x).get()
"""

SCRIPTS = {
    "CuPy alone, an array there and back": """
import cupy
cupy.ones((100, 100), cupy.float32).get()
""",
    "ninepoint, mean 3x3": _KERNEL.format(reduction="mean"),
    "ninepoint, median 3x3": _KERNEL.format(reduction="median"),
}


def call_seconds(repeat: int = 7, calls: int = 2000) -> dict[str, float]:
    """Seconds that a call of a small array takes the processor: the least of some runs each."""
    import cupy

    import ninepoint as npt

    small = cupy.ones((32, 32), np.float32)
    out = cupy.empty_like(small)
    smooth = npt.stencil(boundary="reflect")(kernels.nine)
    ways: dict[str, Any] = {
        "smooth(x, out=out)": lambda: smooth(small, out=out),
        "smooth(x)": lambda: smooth(small),
        "cupy.add(x, x, out=out)": lambda: cupy.add(small, small, out=out),
    }
    found = {name: float("inf") for name in ways}
    for _ in range(repeat):
        for name, call in ways.items():
            call()
            cupy.cuda.runtime.deviceSynchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            found[name] = min(found[name], (time.perf_counter() - begin) / calls)
            cupy.cuda.runtime.deviceSynchronize()
    return found


def first_seconds(repeat: int) -> dict[str, dict[str, float]]:
    """Seconds from the start of a process to the first result: cold, and warm from disk."""
    return start.start_times(repeat, SCRIPTS)
