"""How long a new process takes from nothing to its first result, imports included.

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
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from .peers import Peer

_SUM = """(x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9"""

SCRIPTS = {
    "Python and NumPy alone": """
import numpy as np
x = np.ones((100, 100))
""",
    "ninepoint": f"""
import numpy as np
import ninepoint as npt
x = np.ones((100, 100))

@npt.stencil
def smooth(x):
    return {_SUM}

smooth(x)
""",
    "the recipe": f"""
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
    "ninepoint, a gufunc": """
import numpy as np
import ninepoint as npt

@npt.gufunc("(n,k),(k,m)->(n,m)")
def product(a, b):
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out

product(np.ones((20, 30)), np.ones((30, 40)))
""",
    "numba.guvectorize, types as they come": """
import numba
import numpy as np

@numba.guvectorize("(n,k),(k,m)->(n,m)", nopython=True, cache=True)
def product(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]

product(np.ones((20, 30)), np.ones((30, 40)), np.empty((20, 40)))
""",
    "SciPy": """
import numpy as np
from scipy import ndimage
ndimage.uniform_filter(np.ones((100, 100)), 3)
""",
    "OpenCV": """
import cv2
import numpy as np
cv2.blur(np.ones((100, 100)), (3, 3))
""",
    "JAX": """
import jax
import numpy as np
jax.jit(lambda x: (x[:-2] + x[1:-1] + x[2:]) // 9)(np.ones((100, 100))).block_until_ready()
""",
}

_NEEDS = {
    "the recipe": "numba",
    "numba.guvectorize, types as they come": "numba",
    "SciPy": "scipy",
    "OpenCV": "cv2",
    "JAX": "jax",
}


def start_times(
    repeat: int, scripts: Mapping[str, str] = MappingProxyType(SCRIPTS)
) -> dict[str, dict[str, float]]:
    """Seconds for each script, cold and warm, medians of runs taken in turn."""
    taken: dict[str, dict[str, list[float]]] = {}
    for _ in range(repeat):
        for name, text in scripts.items():
            needs = _NEEDS.get(name, "numpy")
            if not Peer(name, needs, prepare=lambda x, threads: lambda: x).installed:
                continue
            with tempfile.TemporaryDirectory() as folder:
                script = Path(folder) / "first_call.py"
                script.write_text(text)
                times = taken.setdefault(name, {"cold": [], "warm": []})
                for runs in times.values():
                    runs.append(_run(script, Path(folder)))
    return {
        name: {state: statistics.median(runs) for state, runs in times.items()}
        for name, times in taken.items()
    }


def _run(script: Path, folder: Path) -> float:
    environment = os.environ | {
        "NINEPOINT_CACHE_DIR": str(folder / "ours"),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
    }
    begin = time.perf_counter()
    ended = subprocess.run([sys.executable, str(script)], env=environment)
    # The others' times, and all that were taken before, are worth having still.
    return time.perf_counter() - begin if ended.returncode == 0 else float("nan")
