"""Loops by hand in Numba: what somebody writes who has an afternoon and knows the machine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import kernels
from . import Peer, Tolerance

NAME = "Numba by hand"


def _banded(
    build: Callable[[Any, np.dtype], Callable[..., None]],
    near: int,
    dtype: Callable[[np.dtype], Any] = lambda given: given,
    **options: Any,
) -> Peer:
    """A peer from compiled loops `(x, out, first, last)` over bands of the first axis."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        loops = build(numba, x.dtype)
        out = np.zeros(x.shape, dtype(x.dtype))
        ends = np.linspace(near, len(x) - near, threads + 1).astype(int).tolist()
        if threads == 1:

            def alone() -> np.ndarray:
                loops(x, out, *ends)
                return out

            return alone
        pool = ThreadPoolExecutor(threads)

        def work() -> np.ndarray:
            list(pool.map(lambda k: loops(x, out, ends[k], ends[k + 1]), range(threads)))
            return out

        return work

    return Peer(NAME, "numba", prepare, threads=True, interior=True, **options)


def recipe() -> Peer:
    """Sums of columns in an int16 row, then sums along the row."""

    def build(numba: Any, dtype: np.dtype) -> Any:
        short = np.int16

        @numba.njit(nogil=True)
        def frame(x, out):
            rows, columns = x.shape
            sums = np.empty(columns, np.int16)
            for i in range(1, rows - 1):
                above, here, below, o = x[i - 1], x[i], x[i + 1], out[i]
                for j in range(columns):
                    sums[j] = short(above[j]) + short(here[j]) + short(below[j])
                for j in range(columns - 2):
                    o[j + 1] = short(sums[j] + sums[j + 1] + sums[j + 2]) // 9

        @numba.njit(nogil=True)
        def loops(x, out, first, last):
            for k in range(first, last):
                frame(x[k], out[k])

        return loops

    return _banded(build, 0)


def bilateral() -> Peer:
    def build(numba: Any, dtype: np.dtype) -> Any:
        number = dtype.type
        near = number(-12.5)
        space = np.array([[-(i * i + j * j) / 8 for j in range(-2, 3)] for i in range(-2, 3)])
        space = space.astype(dtype)

        @numba.njit(nogil=True, error_model="numpy")
        def loops(x, out, first, last):
            for i in range(first, last):
                for j in range(2, x.shape[1] - 2):
                    centre = x[i, j]
                    total = number(0)
                    weights = number(0)
                    for a in range(5):
                        for b in range(5):
                            value = x[i + a - 2, j + b - 2]
                            step = value - centre
                            weight = np.exp(space[a, b] + near * step * step)
                            total += weight * value
                            weights += weight
                    out[i, j] = total / weights

        return loops

    return _banded(build, 2)


def branches() -> Peer:
    def build(numba: Any, dtype: np.dtype) -> Any:
        wide = np.int16 if dtype == np.uint8 else dtype.type
        two = wide(2)

        @numba.njit(nogil=True)
        def loops(x, out, first, last):
            for i in range(first, last):
                above, here, below, o = x[i - 1], x[i], x[i + 1], out[i]
                for j in range(x.shape[1] - 2):
                    left, right = wide(here[j]), wide(here[j + 2])
                    up, down = wide(above[j + 1]), wide(below[j + 1])
                    across, along = abs(right - left), abs(down - up)
                    if across > two * along:
                        value = up + down
                    elif along > two * across:
                        value = left + right
                    else:
                        value = two * wide(here[j + 1])
                    o[j + 1] = value

        return loops

    return _banded(build, 1, lambda given: np.uint16 if given == np.uint8 else given)


def seven() -> Peer:
    def build(numba: Any, dtype: np.dtype) -> Any:
        centre, side = dtype.type(0.4), dtype.type(0.1)

        @numba.njit(nogil=True)
        def loops(x, out, first, last):
            for i in range(first, last):
                for j in range(1, x.shape[1] - 1):
                    before, after, here = x[i - 1, j], x[i + 1, j], x[i, j]
                    above, below, o = x[i, j - 1], x[i, j + 1], out[i, j]
                    for k in range(x.shape[2] - 2):
                        o[k + 1] = centre * here[k + 1] + side * (
                            before[k + 1] + after[k + 1] + above[k + 1] + below[k + 1]
                            + here[k] + here[k + 2]
                        )  # fmt: skip

        return loops

    return _banded(build, 1)


def signal() -> Peer:
    def build(numba: Any, dtype: np.dtype) -> Any:
        taps = kernels.TAPS.astype(dtype)

        @numba.njit(nogil=True)
        def loops(x, out, first, last):
            for i in range(first, last):
                total = x[i - 12] * taps[0]
                for k in range(1, 25):
                    total += x[i - 12 + k] * taps[k]
                out[i] = total

        return loops

    return _banded(build, 12, tolerance=Tolerance())
