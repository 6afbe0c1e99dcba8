"""The peers on a GPU, one function for each thing that one can do, given an array of NumPy.

What is made before, copies to the GPU among it, is not timed.  Nothing is imported before it is
used, so that a library which is missing costs its column only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .. import kernels
from ..peers import Peer, Tolerance, Work

COPY = "device copy"
CPU = "ninepoint on the CPU"
BLOG = "the blog's kernel"


def fetched(result: Any) -> np.ndarray:
    """A result as an array of NumPy; a state of several fields becomes a stack of them."""
    if isinstance(result, tuple | list):
        parts = [fetched(one) for one in result]
        return np.stack(parts) if len(parts) > 1 else parts[0]
    if hasattr(result, "get"):
        host: np.ndarray = result.get()
        return host
    if hasattr(result, "cpu"):
        return np.asarray(result.cpu())
    return np.asarray(result)


def on_gpu(peer: Peer) -> Peer:
    """The same, given an array of CuPy."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import cupy

        return peer.prepare(cupy.asarray(x), threads)

    return replace(peer, prepare=prepare, finish=fetched)


def on_cpu(peer: Peer) -> Peer:
    """Ours on the CPU, from which the GPU may not differ in any bit."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        from ..machine import cores

        return peer.prepare(x, cores())

    return replace(peer, name=CPU, prepare=prepare, tolerance=Tolerance(0, 0.0, 0.0))


def copying(x: np.ndarray, mine: np.ndarray) -> Mapping[str, Work]:
    """A copy on the GPU that moves as many bytes as an array and its result have."""
    import cupy

    source = cupy.ones((x.nbytes + mine.nbytes) // 2, np.uint8)
    target = cupy.empty_like(source)
    return {COPY: lambda: cupy.copyto(target, source)}


# CuPy and its copy of scipy.ndimage.


def _cupyx(
    compute: Callable[[Any, Any, Any], Any], result: Callable[[Any], Any] = lambda x: x.dtype
) -> Peer:
    """A filter that writes `compute(ndimage, array, output)` into an array that is there."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import cupy
        from cupyx.scipy import ndimage

        there = cupy.asarray(x)
        out = cupy.empty(x.shape, result(x))

        def work() -> Any:
            compute(ndimage, there, out)
            return out

        return work

    return Peer("cupyx", "cupyx", prepare, finish=fetched)


def cupyx_mean(size: int) -> Peer:
    return _cupyx(lambda nd, x, out: nd.uniform_filter(x, size, output=out, mode="reflect"))


def cupyx_weights(weights: np.ndarray) -> Peer:
    """Any weights, along all axes at once."""

    def compute(nd: Any, x: Any, out: Any) -> None:
        import cupy

        nd.correlate(x, cupy.asarray(weights, x.dtype), output=out, mode="reflect")

    return _cupyx(compute)


def cupyx_median(size: int) -> Peer:
    return _cupyx(lambda nd, x, out: nd.median_filter(x, size, output=out, mode="reflect"))


def cupyx_greatest(size: int) -> Peer:
    return _cupyx(lambda nd, x, out: nd.maximum_filter(x, size, output=out, mode="reflect"))


def cupy_heat(steps: int) -> Peer:
    """Steps as one writes them with whole arrays, borders kept."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import cupy

        start = cupy.asarray(x)

        def work() -> Any:
            u = start
            for _ in range(steps):
                new = u.copy()
                around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
                inner = u[1:-1, 1:-1]
                new[1:-1, 1:-1] = inner + inner.dtype.type(0.2) * (around - 4 * inner)
                u = new
            return u

        return work

    return Peer("CuPy", "cupy", prepare, finish=fetched)


def cupy_recipe() -> Peer:
    """The sum of nine shifted arrays."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import cupy

        there = cupy.asarray(x)

        def work() -> Any:
            wide = there.astype(np.int16)
            rows = wide[..., :-2] + wide[..., 1:-1] + wide[..., 2:]
            total = rows[..., :-2, :] + rows[..., 1:-1, :] + rows[..., 2:, :]
            return (total // 9).astype(np.int8)

        return work

    return Peer("CuPy", "cupy", prepare, finish=fetched)


# torch, without the border.


def _torch(compute: Callable[[Any, Any], Any], **options: Any) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Work:
        import torch

        # Else convolutions are of numbers with 10 bits.
        torch.backends.cudnn.allow_tf32 = False
        there = torch.from_numpy(x).cuda()

        def work() -> Any:
            return compute(torch, there)

        return work

    return Peer("torch", "torch", prepare, finish=fetched, **options)


def torch_mean(size: int) -> Peer:
    def compute(torch: Any, x: Any) -> Any:
        return torch.nn.functional.avg_pool2d(x[None, None], size, 1)[0, 0]

    return _torch(compute)


def torch_weights(weights: np.ndarray) -> Peer:
    """Any weights along two axes."""

    def compute(torch: Any, x: Any) -> Any:
        kernel = torch.as_tensor(weights, dtype=x.dtype, device=x.device)[None, None]
        return torch.nn.functional.conv2d(x[None, None], kernel)[0, 0]

    return _torch(compute)


def torch_heat(steps: int) -> Peer:
    """Steps that torch compiles, one after the other, borders kept."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import torch

        start = torch.from_numpy(x).cuda()

        @torch.compile
        def step(u: Any) -> Any:
            new = u.clone()
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.2 * (around - 4 * u[1:-1, 1:-1])
            return new

        def work() -> Any:
            u = start
            for _ in range(steps):
                u = step(u)
            return u

        return work

    return Peer("torch", "torch", prepare, finish=fetched)


# Triton.


def triton_mean() -> Peer:
    """Mean 3x3, in the fastest of four shapes of blocks; the nearest point past the border."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import torch
        import triton

        from .triton_mean import mean

        there = torch.from_numpy(x).cuda()
        out = torch.empty_like(there)
        n, m = x.shape

        def blocks(rows: int, columns: int) -> Work:
            grid = triton.cdiv(m, columns), triton.cdiv(n, rows)

            def work() -> Any:
                mean[grid](there, out, n, m, BLOCK=columns, ROWS=rows)
                return out

            return work

        def seconds(work: Work) -> float:
            work()
            return float(triton.testing.do_bench(work, warmup=5, rep=30, return_mode="median"))

        shapes = ((1, 1024), (4, 256), (8, 128), (16, 128))
        return min((blocks(*one) for one in shapes), key=seconds)

    return Peer("Triton", "triton", prepare, interior=True, finish=fetched)


# Numba.


def blog() -> Peer:
    """The post's own kernel, started as the post starts it."""

    def prepare(x: np.ndarray, threads: int) -> Work:
        import math

        from numba import cuda

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
        threads_of_block = (16, 16)
        grid = tuple(math.ceil(n / t) for n, t in zip(x.shape, threads_of_block, strict=True))
        begin = smooth_gpu[grid, threads_of_block]

        def work() -> Any:
            begin(there, out)
            return out

        return work

    return Peer(BLOG, "numba_cuda", prepare, finish=lambda out: np.asarray(out.copy_to_host()))


# The weights that several of them are given.
BELL = np.outer(kernels.bell(), kernels.bell())
