"""SciPy: scipy.ndimage, which reflects as we do; and SciPy that counts where NumPy decides."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import kernels, peers

TRUNCATES = "SciPy cuts the decimals off, once for each axis; ours rounds once"

writing = partial(peers.writing, "SciPy", "scipy.ndimage")
giving = partial(peers.giving, "SciPy", "scipy.ndimage")


def local_std(size: int) -> Any:
    """Mean of squares less square of mean; SciPy has no filter of its own for it."""

    def call(ndimage: Any, x: np.ndarray) -> Any:
        wide = x.astype(np.float64)
        first = ndimage.uniform_filter(wide, size)
        second = ndimage.uniform_filter(wide * wide, size)
        return np.sqrt(np.maximum(second - first * first, 0))

    return giving(call, tolerance=peers.Tolerance(float64=1e-7), why=LOST)


LOST = "the difference of two large numbers, which ours must not be"


def harris(n: Any, x: np.ndarray, out: np.ndarray) -> None:
    p, q = n.sobel(x, axis=0) / np.float32(12), n.sobel(x, axis=1) / np.float32(12)
    # Means of nine, where OpenCV and ours take sums.
    a, b, c = (9 * n.uniform_filter(product, 3) for product in (p * p, p * q, q * q))
    np.subtract(a * c - b * b, 0.04 * (a + c) * (a + c), out=out)


def unsharp(n: Any, x: np.ndarray, out: np.ndarray) -> None:
    n.gaussian_filter(x, 1, output=out, radius=2)
    np.subtract(x, out, out=out)
    np.multiply(out, kernels.AMOUNT, out=out)
    np.add(x, out, out=out)


def blurs(n: Any, x: np.ndarray, out: np.ndarray) -> None:
    for k in range(4):
        n.gaussian_filter(out if k else x, 1, output=out, radius=2)
