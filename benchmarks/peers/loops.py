"""Loops by hand in Numba: what somebody writes who has an afternoon and knows the machine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .. import kernels
from ..steps import State, alone, at_rest, inner, mixed
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


def _stepping(
    build: Callable[[Any], Callable[..., None]],
    start: Callable[[np.ndarray], State],
    steps: int,
    near: int = 1,
    ring: int = 0,
    history: bool = False,
) -> Peer:
    """A peer from compiled loops `(state, out, first, last)` over bands of the first axis.

    They step to and fro between two sets of arrays, with `ring` dead points around; a call
    goes on from where the last one ended.  With `history` the second state is what the first
    was one step before, and the new one is written over it.
    """

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        loops = build(numba)
        buffers = [tuple(np.pad(part, ring) for part in start(x)) for _ in range(2)]
        if history:
            buffers[1] = buffers[0][::-1]
        ends = np.linspace(near, len(buffers[0][0]) - near, threads + 1).astype(int).tolist()
        pool = ThreadPoolExecutor(threads) if threads > 1 else None

        def work() -> list[np.ndarray]:
            for _ in range(steps):
                now, then = buffers
                if pool is None:
                    loops(now, then, *ends)
                else:
                    parts = pool.map(loops, [now] * threads, [then] * threads, ends[:-1], ends[1:])
                    list(parts)
                buffers.reverse()
            return [part[inner((ring,) * x.ndim)] for part in buffers[0]]

        return work

    return Peer(NAME, "numba", prepare, threads=True)


def heat(steps: int) -> Peer:
    def build(numba: Any) -> Any:
        four, rate = np.float32(4), np.float32(0.2)

        @numba.njit(nogil=True)
        def loops(state, out, first, last):
            (u,), (new,) = state, out
            for i in range(first, last):
                above, here, below, o = u[i - 1], u[i], u[i + 1], new[i]
                for j in range(u.shape[1] - 2):
                    o[j + 1] = here[j + 1] + rate * (
                        above[j + 1] + below[j + 1] + here[j] + here[j + 2] - four * here[j + 1]
                    )

        return loops

    return _stepping(build, alone, steps)


def heat_3d(steps: int) -> Peer:
    def build(numba: Any) -> Any:
        centre, side = np.float32(0.4), np.float32(0.1)

        @numba.njit(nogil=True)
        def loops(state, out, first, last):
            (u,), (new,) = state, out
            for i in range(first, last):
                for j in range(1, u.shape[1] - 1):
                    before, after, here = u[i - 1, j], u[i + 1, j], u[i, j]
                    above, below, o = u[i, j - 1], u[i, j + 1], new[i, j]
                    for k in range(u.shape[2] - 2):
                        o[k + 1] = centre * here[k + 1] + side * (
                            before[k + 1] + after[k + 1] + above[k + 1] + below[k + 1]
                            + here[k] + here[k + 2]
                        )  # fmt: skip

        return loops

    return _stepping(build, alone, steps)


def wave(steps: int) -> Peer:
    def build(numba: Any) -> Any:
        two, near, centre, rate = (np.float32(value) for value in (2, 16, 60, 0.01))

        @numba.njit(nogil=True)
        def loops(state, out, first, last):
            u, new = state[0], out[0]
            for i in range(first, last):
                a, b, c, d, e = u[i - 2], u[i - 1], u[i], u[i + 1], u[i + 2]
                # One row for what was and what will be: of two, LLVM would have to fear that
                # they overlap, as they do.
                o = new[i]
                for j in range(u.shape[1] - 4):
                    around = (
                        near * (b[j + 2] + d[j + 2] + c[j + 1] + c[j + 3])
                        - (a[j + 2] + e[j + 2] + c[j] + c[j + 4])
                        - centre * c[j + 2]
                    )
                    o[j + 2] = two * c[j + 2] - o[j + 2] + rate * around

        return loops

    return _stepping(build, at_rest, steps, near=2, history=True)


def react(steps: int) -> Peer:
    def build(numba: Any) -> Any:
        one, four, fast, slow, feed, fade = (
            np.float32(value) for value in (1, 4, 0.16, 0.08, 0.037, 0.097)
        )

        @numba.njit(nogil=True)
        def loops(state, out, first, last):
            (u, v), (new_u, new_v) = state, out
            for i in range(first, last):
                above_u, here_u, below_u, out_u = u[i - 1], u[i], u[i + 1], new_u[i]
                above_v, here_v, below_v, out_v = v[i - 1], v[i], v[i + 1], new_v[i]
                for j in range(u.shape[1] - 2):
                    p, q = here_u[j + 1], here_v[j + 1]
                    spread = above_u[j + 1] + below_u[j + 1] + here_u[j] + here_u[j + 2] - four * p
                    other = above_v[j + 1] + below_v[j + 1] + here_v[j] + here_v[j + 2] - four * q
                    made = p * q * q
                    out_u[j + 1] = p + fast * spread - made + feed * (one - p)
                    out_v[j + 1] = q + slow * other + made - fade * q

        return loops

    return _stepping(build, mixed, steps)


def life(steps: int) -> Peer:
    def build(numba: Any) -> Any:
        byte = np.uint8

        @numba.njit(nogil=True)
        def loops(state, out, first, last):
            (x,), (new,) = state, out
            sums = np.empty(x.shape[1], np.uint8)
            for i in range(first, last):
                above, here, below, o = x[i - 1], x[i], x[i + 1], new[i]
                for j in range(x.shape[1]):
                    sums[j] = byte(byte(above[j] + here[j]) + below[j])
                for j in range(x.shape[1] - 2):
                    count = byte(byte(byte(sums[j] + sums[j + 1]) + sums[j + 2]) - here[j + 1])
                    # Three make a cell, and with one that is there two are enough.
                    o[j + 1] = byte(byte(count | here[j + 1]) == byte(3))

        return loops

    return _stepping(build, alone, steps, ring=1)
