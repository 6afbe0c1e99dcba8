"""What applies a function of numbers to arrays: numba.vectorize, numexpr, and NumPy itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import Peer


def second(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An array and another one, of the same numbers backwards."""
    return x, np.flip(x).copy()


def vectorized(function: Callable[..., Any], result: str | None) -> Peer:
    """numba.vectorize with types declared, as its fastest calls have them."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        kind = x.dtype.name
        # Numba computes in doubles what a number of the text takes part in.
        compiled = numba.vectorize([f"{result or kind}({kind}, {kind})"], nopython=True)(function)
        x, y = second(x)
        out = np.empty(x.shape, result or x.dtype)

        def work() -> np.ndarray:
            return compiled(x, y, out=out)

        return work

    return Peer("numba.vectorize", "numba", prepare)


def numexpr(expression: str) -> Peer:
    """numexpr, whose numbers of the text are of the type of the arrays."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numexpr

        numexpr.set_num_threads(threads)
        x, y = second(x)
        out, names = np.empty_like(x), {"x": x, "y": y}

        def work() -> np.ndarray:
            return numexpr.evaluate(expression, names, out=out, casting="same_kind")

        return work

    return Peer("numexpr", "numexpr", prepare, threads=True)


def numpy(function: Callable[..., Any]) -> Peer:
    """NumPy's own functions, one after the other."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        x, y = second(x)
        return lambda: function(x, y)

    return Peer("NumPy", "numpy", prepare)
