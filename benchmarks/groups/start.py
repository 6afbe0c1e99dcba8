"""How long a new process takes from nothing to its first result.

Each way is a script of its own, run by a fresh interpreter: cold with an empty cache folder,
warm with what the cold run left there.  The interpreter's own start is given beside them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

GROUP = "start"

_SUM = """(x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9"""

_PRODUCT = """
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a new process runs, and the package that it needs."""

    name: str
    text: str
    needs: str = "numpy"
    group: str = GROUP

    def measure(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The middle of some runs, cold and warm."""
        if not find_spec(self.needs):
            return
        times: dict[str, list[float]] = {"cold": [], "warm": []}
        for _ in range(1 if order["quick"] else 3):
            with tempfile.TemporaryDirectory() as folder:
                script = Path(folder) / "first_call.py"
                script.write_text(self.text)
                for runs in times.values():
                    runs.append(_run(script, Path(folder)))
        middle = {state: round(statistics.median(runs), 3) for state, runs in times.items()}
        yield {"group": self.group, "problem": self.name, "times": middle}


def _run(script: Path, folder: Path) -> float:
    environment = os.environ | {
        "NINEPOINT_CACHE_DIR": str(folder / "ours"),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
    }
    begin = time.perf_counter()
    subprocess.run([sys.executable, str(script)], env=environment, check=True)
    return time.perf_counter() - begin


_NUMPY = "import numpy as np\n"
_X = f"{_NUMPY}x = np.ones((100, 100))\n"

START: tuple[Script, ...] = (
    Script("Python and NumPy alone", _X),
    Script(
        "ninepoint",
        f"""{_X}import ninepoint as npt
@npt.stencil
def smooth(x):
    return {_SUM}
smooth(x)
""",
    ),
    Script(
        "the recipe",
        f"""{_X}import numba
@numba.stencil
def inner(x):
    return {_SUM}
@numba.guvectorize(
    [(numba.float64[:, :], numba.float64[:, :])], "(n,m)->(n,m)", nopython=True, cache=True
)
def smooth(x, out):
    out[:] = inner(x)
smooth(x)
""",
    ),
    Script(
        "ninepoint, a gufunc",
        f"""{_NUMPY}import ninepoint as npt
@npt.gufunc("(n,k),(k,m)->(n,m)")
def product(a, b):
    out = np.zeros((a.shape[0], b.shape[1])){_PRODUCT}    return out
product(np.ones((20, 30)), np.ones((30, 40)))
""",
    ),
    Script(
        "numba.guvectorize, types as they come",
        f"""{_NUMPY}import numba
@numba.guvectorize("(n,k),(k,m)->(n,m)", nopython=True, cache=True)
def product(a, b, out):{_PRODUCT}
product(np.ones((20, 30)), np.ones((30, 40)), np.empty((20, 40)))
""",
    ),
    Script("SciPy", f"{_X}from scipy import ndimage\nndimage.uniform_filter(x, 3)\n", "scipy"),
    Script("OpenCV", f"{_X}import cv2\ncv2.blur(x, (3, 3))\n", "cv2"),
    Script(
        "JAX",
        f"{_X}import jax\n"
        "jax.jit(lambda x: (x[:-2] + x[1:-1] + x[2:]) // 9)(x).block_until_ready()\n",
        "jax",
    ),
)
