"""How long a new process takes from nothing to its first result, and how fast the machine copies.

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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

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

_GPU = """
import numpy as np
import cupy
import ninepoint as npt
x = cupy.ones((100, 100), np.float32)

@npt.stencil
def smooth(x):
    return x[-1:2, -1:2].{reduction}()

smooth(x).get()
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that a new process runs, and the packages that it needs."""

    name: str
    text: str
    needs: tuple[str, ...] = ("numpy",)
    group: str = GROUP

    def measure(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The middle of some runs, cold and warm."""
        if not all(map(find_spec, self.needs)):
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


@dataclass(frozen=True, slots=True)
class Copying:
    """Bytes a second that `np.copyto` moves far beyond any cache, once in and once out."""

    name: str = "np.copyto"
    group: str = GROUP
    threaded: bool = True

    def measure(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The speed of so many threads; each copies a part."""
        from ..measure import take_times

        threads, size = order["threads"], 256 * 1024 * 1024
        source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
        pairs = list(zip(np.split(target, threads), np.split(source, threads), strict=True))
        with ThreadPoolExecutor(threads) as pool:

            def copy() -> None:
                list(pool.map(lambda pair: np.copyto(*pair), pairs))

            took = take_times({"copy": copy}, order["repeat"])["copy"].median
        speed = float(f"{2 * size / took:.3g}")
        yield {"group": GROUP, "problem": self.name, "threads": threads, "speed": speed}


START: tuple[Script | Copying, ...] = (
    Copying(),
    Script("Python and NumPy alone", "import numpy as np\nx = np.ones((100, 100))\n"),
    Script(
        "ninepoint",
        f"""
import numpy as np
import ninepoint as npt
x = np.ones((100, 100))

@npt.stencil
def smooth(x):
    return {_SUM}

smooth(x)
""",
    ),
    Script(
        "the recipe",
        f"""
import numba
import numpy as np
x = np.ones((100, 100))

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
        f"""
import numpy as np
import ninepoint as npt

@npt.gufunc("(n,k),(k,m)->(n,m)")
def product(a, b):
    out = np.zeros((a.shape[0], b.shape[1])){_PRODUCT}    return out

product(np.ones((20, 30)), np.ones((30, 40)))
""",
    ),
    Script(
        "numba.guvectorize, types as they come",
        f"""
import numba
import numpy as np

@numba.guvectorize("(n,k),(k,m)->(n,m)", nopython=True, cache=True)
def product(a, b, out):{_PRODUCT}
product(np.ones((20, 30)), np.ones((30, 40)), np.empty((20, 40)))
""",
    ),
    Script(
        "SciPy",
        "import numpy as np\nfrom scipy import ndimage\n"
        "ndimage.uniform_filter(np.ones((100, 100)), 3)\n",
        ("scipy",),
    ),
    Script(
        "OpenCV",
        "import cv2\nimport numpy as np\ncv2.blur(np.ones((100, 100)), (3, 3))\n",
        ("cv2",),
    ),
    Script(
        "JAX",
        "import jax\nimport numpy as np\n"
        "jax.jit(lambda x: (x[:-2] + x[1:-1] + x[2:]) // 9)(np.ones((100, 100)))"
        ".block_until_ready()\n",
        ("jax",),
    ),
)

ON_GPU = tuple(
    Script(name, text, ("cupy",), "gpu")
    for name, text in {
        "CuPy alone, an array there and back": (
            "import cupy\ncupy.ones((100, 100), cupy.float32).get()\n"
        ),
        "ninepoint, mean 3x3": _GPU.format(reduction="mean"),
        "ninepoint, median 3x3": _GPU.format(reduction="median"),
    }.items()
)
