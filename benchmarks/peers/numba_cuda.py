"""numba.cuda: the blog post's own kernel, started as the post starts it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import peers
from .cupy import fetched


def blog() -> peers.Peer:
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
