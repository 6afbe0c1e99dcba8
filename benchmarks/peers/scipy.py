"""SciPy: scipy.ndimage, writing into an array that is there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import kernels, stages
from . import Peer, Tolerance

TRUNCATES = "SciPy cuts the decimals off, once for each axis; ours rounds once"


def _filter(
    call: Callable[[Any, np.ndarray, np.ndarray], Any],
    dtype: Callable[[np.dtype], Any] = lambda given: given,
    **options: Any,
) -> Peer:
    """A peer from `call(ndimage, x, out)`, with `dtype` from that of the array."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        from scipy import ndimage

        out = np.empty(x.shape, dtype(x.dtype))

        def work() -> np.ndarray:
            call(ndimage, x, out)
            return out

        return work

    return Peer("SciPy", "scipy", prepare, **options)


def _signed(given: np.dtype) -> Any:
    return {"uint8": np.int16, "uint16": np.int32}.get(given.name, given)


def recipe() -> Peer:
    def stack(ndimage: Any, x: np.ndarray, out: np.ndarray) -> None:
        for frame, o in zip(x, out, strict=True):
            ndimage.uniform_filter(frame, 3, output=o)

    return _filter(stack, interior=True, tolerance=Tolerance(integers=2), why=TRUNCATES)


def nine() -> Peer:
    return _filter(lambda n, x, o: n.uniform_filter(x, 3, output=o), interior=True)


def nine_floor() -> Peer:
    return _filter(
        lambda n, x, o: n.uniform_filter(x, 3, output=o),
        interior=True,
        tolerance=Tolerance(float64=1 / 200),
        why="SciPy does not round down, so that it is up to 1 of 255 higher",
    )


def mean(size: int) -> Peer:
    return _filter(
        lambda n, x, o: n.uniform_filter(x, size, output=o),
        # A running sum along each line, which drifts for float32; SciPy sums in float64.
        tolerance=Tolerance(integers=2, float64=1e-11),
        why=TRUNCATES,
    )


def gaussian() -> Peer:
    return _filter(
        lambda n, x, o: n.gaussian_filter(x, 1, output=o, radius=2),
        # Two steps from the weights of an axis each at most, two from cutting, and the rounding.
        tolerance=Tolerance(integers=4),
        why=f"{TRUNCATES}, with weights of 8 bits for uint8, as OpenCV",
    )


def sobel() -> Peer:
    return _filter(lambda n, x, o: n.sobel(x, axis=1, output=o), _signed)


def laplace() -> Peer:
    return _filter(lambda n, x, o: n.laplace(x, output=o), _signed)


def median(size: int) -> Peer:
    return _filter(lambda n, x, o: n.median_filter(x, size, output=o))


def least(size: int) -> Peer:
    return _filter(lambda n, x, o: n.minimum_filter(x, size, output=o))


def greatest(size: int) -> Peer:
    return _filter(lambda n, x, o: n.maximum_filter(x, size, output=o))


def local_std(size: int) -> Peer:
    """Mean of squares less square of mean; SciPy has no filter of its own for it."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        from scipy import ndimage

        def work() -> np.ndarray:
            wide = x.astype(np.float64)
            first = ndimage.uniform_filter(wide, size)
            second = ndimage.uniform_filter(wide * wide, size)
            return np.sqrt(np.maximum(second - first * first, 0))

        return work

    return Peer(
        "SciPy",
        "scipy",
        prepare,
        tolerance=Tolerance(float64=1e-7),
        why="the difference of two large numbers, which ours must not be",
    )


def cube() -> Peer:
    def call(n: Any, x: np.ndarray, out: np.ndarray) -> None:
        n.correlate(x, kernels.CUBE, output=out)

    return _filter(call, interior=True)


def seven() -> Peer:
    return _filter(lambda n, x, o: n.correlate(x, kernels.SEVEN, output=o), interior=True)


def signal() -> Peer:
    def call(n: Any, x: np.ndarray, out: np.ndarray) -> None:
        n.correlate1d(x, kernels.TAPS, output=out)

    return _filter(call, interior=True)


def life(steps: int) -> Peer:
    """SciPy counts, NumPy decides."""
    around = np.ones((3, 3), np.uint8)
    around[1, 1] = 0

    def prepare(x: np.ndarray, threads: int) -> Any:
        from scipy import ndimage

        count = np.empty_like(x)

        def work() -> np.ndarray:
            alive = x
            for _ in range(steps):
                ndimage.convolve(alive, around, output=count, mode="constant")
                alive = ((count == 3) | ((count == 2) & (alive == 1))).astype(np.uint8)
            return alive

        return work

    return Peer("SciPy", "scipy", prepare)


def harris() -> Peer:
    def call(n: Any, x: np.ndarray, out: np.ndarray) -> None:
        p, q = n.sobel(x, axis=0) / np.float32(12), n.sobel(x, axis=1) / np.float32(12)
        # Means of nine, where OpenCV and ours take sums.
        a, b, c = (9 * n.uniform_filter(product, 3) for product in (p * p, p * q, q * q))
        np.subtract(a * c - b * b, 0.04 * (a + c) * (a + c), out=out)

    return _filter(call)


def unsharp() -> Peer:
    def call(n: Any, x: np.ndarray, out: np.ndarray) -> None:
        n.gaussian_filter(x, 1, output=out, radius=2)
        np.subtract(x, out, out=out)
        np.multiply(out, stages.AMOUNT, out=out)
        np.add(x, out, out=out)

    return _filter(call)


def blurs() -> Peer:
    def call(n: Any, x: np.ndarray, out: np.ndarray) -> None:
        for k in range(4):
            n.gaussian_filter(out if k else x, 1, output=out, radius=2)

    return _filter(call)
