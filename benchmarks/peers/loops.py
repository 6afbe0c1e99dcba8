"""Numba: the recipe, and loops by hand, as somebody writes who has an afternoon and knows
the machine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from .. import peers
from ..kernels import State, inner

NAME = "Numba by hand"


def by_recipe(
    kernel: Callable[..., Any], dtypes: tuple[str, ...] = ("float32", "float64"), **options: Any
) -> peers.Peer:
    """numba.guvectorize around numba.stencil, as on the Dask blog in 2019.

    numba.stencil computes unsigned integers modulo 2**64, so that differences of them are not
    numbers that anybody wants; kernels that have some are given for floats only.
    """

    def build(numba: Any, x: np.ndarray, threads: int) -> peers.Work:
        inner = numba.stencil(**options)(kernel)
        kind = numba.from_dtype(x.dtype)[:, :]

        @numba.guvectorize([(kind, kind)], "(n,m)->(n,m)", nopython=True)
        def outer(x: Any, out: Any) -> None:
            out[:] = inner(x)

        return partial(outer, x, np.zeros_like(x))

    return peers.built("the recipe", "numba", build, dtypes=dtypes, interior=True)


# From the type of the array: loops `(state, out, first, last)` over a band of the first axis.
Build = Callable[[Any], Callable[..., None]]


def stepping(
    build: Build,
    start: Callable[[np.ndarray], State],
    steps: int,
    near: int = 1,
    ring: int = 0,
    history: bool = False,
    interior: bool = False,
) -> peers.Peer:
    """A peer from compiled loops of states.

    They step to and fro between two sets of arrays, with `ring` dead points around; a call
    goes on from where the last one ended.  With `history` the second state is what the first
    was one step before, and the new one is written over it.
    """

    def make(numba: Any, x: np.ndarray, threads: int) -> peers.Work:
        buffers = [tuple(np.pad(part, ring) for part in start(x)) for _ in range(2)]
        if history:
            buffers[1] = buffers[0][::-1]
        loops = numba.njit(nogil=True)(build(x.dtype.type))
        length, pool = len(buffers[0][0]), ThreadPoolExecutor(threads)
        ends = np.linspace(near, length - near, threads + 1).astype(int).tolist()

        def work() -> list[np.ndarray]:
            for _ in range(steps):
                if threads == 1:
                    loops(*buffers, *ends)
                else:
                    list(pool.map(lambda a, b: loops(*buffers, a, b), ends[:-1], ends[1:]))
                buffers.reverse()
            return [part[inner((ring,) * x.ndim)] for part in buffers[0]]

        return work

    return peers.built(NAME, "numba", make, threads=True, interior=interior)


def recipe(number: Any) -> Any:
    """Sums of columns in an int16 row, then sums along the row."""
    short = np.int16

    def loops(state, out, first, last):
        (frames,), (smooth,) = state, out
        sums = np.empty(frames.shape[2], np.int16)
        for k in range(first, last):
            for i in range(1, frames.shape[1] - 1):
                above, here, below = frames[k, i - 1], frames[k, i], frames[k, i + 1]
                o = smooth[k, i]
                for j in range(len(sums)):
                    sums[j] = short(above[j]) + short(here[j]) + short(below[j])
                for j in range(len(sums) - 2):
                    o[j + 1] = short(sums[j] + sums[j + 1] + sums[j + 2]) // 9

    return loops


def seven(number: Any) -> Any:
    centre, side = number(0.4), number(0.1)

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


def heat(number: Any) -> Any:
    four, rate = number(4), number(0.2)

    def loops(state, out, first, last):
        (u,), (new,) = state, out
        for i in range(first, last):
            above, here, below, o = u[i - 1], u[i], u[i + 1], new[i]
            for j in range(u.shape[1] - 2):
                o[j + 1] = here[j + 1] + rate * (
                    above[j + 1] + below[j + 1] + here[j] + here[j + 2] - four * here[j + 1]
                )

    return loops


def wave(number: Any) -> Any:
    two, near, centre, rate = (number(value) for value in (2, 16, 60, 0.01))

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


def react(number: Any) -> Any:
    one, four, fast, slow = (number(value) for value in (1, 4, 0.16, 0.08))
    feed, fade = number(0.037), number(0.097)

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


def life(number: Any) -> Any:
    byte = np.uint8

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


def line_mean(number: Any) -> Any:
    def loops(state, out, first, last):
        (u,), (new,) = state, out
        for i in range(first, last):
            new[i] = (u[i - 1] + u[i] + u[i + 1]) / 3

    return loops
