"""What is computed on a GPU: CuPy and its copy of scipy.ndimage, Numba, and ours there.

What is made before, copies to the GPU among it, is not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .. import peers
from ..machine import cores

COPY = "device copy"
CPU = "ninepoint on the CPU"


def fetched(result: Any) -> np.ndarray:
    """A result as an array of NumPy; a state of several fields becomes a stack of them."""
    if isinstance(result, tuple | list):
        return peers.as_array([fetched(one) for one in result])
    for method in ("get", "cpu", "copy_to_host"):
        if hasattr(result, method):
            return np.asarray(getattr(result, method)())
    return np.asarray(result)


def on_gpu(peer: peers.Peer) -> peers.Peer:
    """The same, given an array of CuPy."""

    def prepare(x: np.ndarray, threads: int) -> peers.Work:
        import cupy

        return peer.prepare(cupy.asarray(x), threads)

    return replace(peer, prepare=prepare, finish=fetched)


def on_cpu(peer: peers.Peer) -> peers.Peer:
    """Ours on the CPU, from which the GPU may not differ in any bit."""

    def prepare(x: np.ndarray, threads: int) -> peers.Work:
        return peer.prepare(x, cores())

    return replace(peer, name=CPU, prepare=prepare, tolerance=peers.Tolerance(0, 0.0, 0.0))


def copying(x: np.ndarray, mine: np.ndarray) -> Mapping[str, peers.Work]:
    """A copy on the GPU that moves as many bytes as an array and its result have."""
    import cupy

    source = cupy.ones((x.nbytes + mine.nbytes) // 2, np.uint8)
    return {COPY: partial(cupy.copyto, cupy.empty_like(source), source)}


def filtered(call: Callable[[Any, Any, Any], Any]) -> peers.Peer:
    """`call(cupyx.scipy.ndimage, x, out)`, which reflects as we do."""

    def build(ndimage: Any, x: np.ndarray, threads: int) -> peers.Work:
        import cupy

        there, out = cupy.asarray(x), cupy.empty(x.shape, x.dtype)

        def work() -> Any:
            call(ndimage, there, out)
            return out

        return work

    return peers.built("cupyx", "cupyx.scipy.ndimage", build, finish=fetched)


def giving(call: Callable[[Any], Any]) -> peers.Peer:
    """CuPy, from a function of an array there."""

    def build(cupy: Any, x: np.ndarray, threads: int) -> peers.Work:
        return partial(call, cupy.asarray(x))

    return peers.built("CuPy", "cupy", build, finish=fetched)


def recipe(x: Any) -> Any:
    """The sum of nine shifted arrays."""
    wide = x.astype(np.int16)
    rows = wide[..., :-2] + wide[..., 1:-1] + wide[..., 2:]
    return ((rows[..., :-2, :] + rows[..., 1:-1, :] + rows[..., 2:, :]) // 9).astype(np.int8)


def blog() -> peers.Peer:
    """numba.cuda: the blog post's own kernel, started as the post starts it."""

    def build(cuda: Any, x: np.ndarray, threads: int) -> peers.Work:
        @cuda.jit
        def smooth_gpu(x: Any, out: Any) -> None:
            i, j = cuda.grid(2)
            n, m = x.shape
            if 1 <= i < n - 1 and 1 <= j < m - 1:
                out[i, j] = (
                    x[i - 1, j - 1] + x[i - 1, j] + x[i - 1, j + 1]
                    + x[i, j - 1] + x[i, j] + x[i, j + 1]
                    + x[i + 1, j - 1] + x[i + 1, j] + x[i + 1, j + 1]
                ) // 9  # fmt: skip

        there, out = cuda.to_device(x), cuda.to_device(np.zeros_like(x))
        block = (16, 16)
        grid = tuple(math.ceil(n / t) for n, t in zip(x.shape, block, strict=True))
        begin = smooth_gpu[grid, block]

        def work() -> Any:
            begin(there, out)
            return out

        return work

    return peers.built("the blog's kernel", "numba.cuda", build, finish=fetched)
