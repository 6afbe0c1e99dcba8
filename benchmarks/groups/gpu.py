"""On a GPU: works on arrays far larger than its cache, but for the rules of borders.

Results are compared first, ours with those of the CPU to the last bit; then all take turns with a
copy on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .. import kernels, measure
from ..peers import Peer, cupy, jax, ours
from ..problem import Problem

GROUP = "gpu"
FLAT = (8192, 8192)
BYTES = (16384, 16384)
_VOLUME: dict[str, Any] = {"near": (1, 1, 1), "shape": (512, 512, 512), "tiny": (9, 10, 11)}


class OnGpu(Problem):
    """A problem of which what a work has begun is waited for."""

    threaded = False

    def measure(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Its cell; a sample takes thousands of times what it takes to wait for a GPU."""
        import cupy as library

        (case,) = self.cases()
        yield measure.solve(
            self,
            replace(case, shape=self.tiny) if order["quick"] else case,
            1,
            order["repeat"],
            beside=cupy.copying,
            sample=1e-4 if order["quick"] else 0.02,
            wait=library.cuda.runtime.deviceSynchronize,
        )


def _problem(
    name: str,
    own: Peer,
    *others: Peer,
    near: tuple[int, ...] = (1, 1),
    dtype: str = "float32",
    shape: tuple[int, ...] = FLAT,
    **options: Any,
) -> OnGpu:
    """Ours on the GPU, with the same on the CPU as the first peer."""
    return OnGpu(
        name,
        GROUP,
        cupy.on_gpu(own),
        (cupy.on_cpu(own), *others),
        near,
        dtypes=(dtype,),
        shapes=(shape,),
        share=1.0,
        **options,
    )


def _mean(dtype: str, *others: Peer, name: str = "mean 3x3", **options: Any) -> OnGpu:
    return _problem(name, ours.stencil(kernels.mean(3)), *others, dtype=dtype, **options)


def _median(size: int, dtype: str, **options: Any) -> OnGpu:
    peer = cupy.filtered(lambda nd, x, out: nd.median_filter(x, size, output=out))
    own, near = ours.stencil(kernels.median(size)), (size // 2, size // 2)
    return _problem(f"median {size}x{size}", own, peer, near=near, dtype=dtype, **options)


_RECIPE = ours.stencil(kernels.recipe, "fill")

GPU = (
    _problem(
        "recipe: mean 3x3, the blog's array",
        _RECIPE,
        cupy.blog(),
        cupy.giving(cupy.recipe),
        dtype="int8",
        shape=(10000, 10000),
    ),
    _problem(
        "recipe: mean 3x3, 256 frames",
        _RECIPE,
        cupy.giving(cupy.recipe),
        jax.recipe(),
        dtype="int8",
        shape=(256, 1000, 1000),
        tiny=(2, 40, 45),
    ),
    _mean("float32", cupy.filtered(lambda nd, x, out: nd.uniform_filter(x, 3, output=out))),
    _mean("float64"),
    _mean("float32", shape=(4096, 16381), name="mean 3x3, rows not aligned"),
    _mean("uint8", shape=BYTES),
    _problem("gaussian 5x5, sigma 1", ours.stencil(kernels.blur), near=(2, 2)),
    _median(3, "uint8", shape=BYTES),
    _median(3, "float32"),
    _median(5, "uint8"),
    _median(7, "uint8"),
    _problem(
        "maximum 31x31",
        ours.stencil(kernels.box(np.max, 15)),
        cupy.filtered(lambda nd, x, out: nd.maximum_filter(x, 31, output=out)),
        near=(15, 15),
        dtype="uint8",
    ),
    _problem("Harris corners", ours.staged(kernels.harris), near=(2, 2)),
    _problem("3-D, 7 points", ours.stencil(kernels.seven), **_VOLUME),
    _problem(
        "heat 2-D, 16 steps",
        ours.stepping(kernels.heat, kernels.alone, 16),
        jax.stepping(kernels.heat, kernels.alone, 16, (1, 1)),
        steps=16,
    ),
    _problem(
        "heat 3-D, 8 steps",
        ours.stepping(kernels.seven, kernels.alone, 8),
        jax.stepping(kernels.seven, kernels.alone, 8, (1, 1, 1)),
        steps=8,
        **_VOLUME,
    ),
    *(
        _problem(f"mean 3x3, {rule}", ours.stencil(kernels.mean(3), rule), shape=(4096, 4096))
        for rule in ("fill", "keep", "valid", "constant", "nearest", "mirror", "wrap")
    ),
)
