"""OpenCV: writing into an array that is there before, with as many threads as are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import kernels, stages
from . import Peer, Tolerance

IMAGES = ("uint8", "uint16", "float32", "float64")
ROUNDS = "OpenCV rounds to nearest, the recipe rounds down"


def _filter(
    call: Callable[[Any, np.ndarray, np.ndarray], Any],
    dtype: Callable[[np.dtype], Any] = lambda given: given,
    dtypes: tuple[str, ...] = IMAGES,
    **options: Any,
) -> Peer:
    """A peer from `call(cv2, x, out)`, with `dtype` from that of the array."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import cv2

        cv2.setNumThreads(threads)
        out = np.empty(x.shape, dtype(x.dtype))

        def work() -> np.ndarray:
            call(cv2, x, out)
            return out

        return work

    return Peer("OpenCV", "cv2", prepare, dtypes=dtypes, threads=True, **options)


def _signed(given: np.dtype) -> Any:
    # OpenCV has no int32 results here; float32 holds every value of uint16 exactly.
    return {"uint8": np.int16, "uint16": np.float32}.get(given.name, given)


def _depth(cv2: Any, out: np.ndarray) -> Any:
    return {"int16": cv2.CV_16S, "float32": cv2.CV_32F, "float64": cv2.CV_64F}[out.dtype.name]


def recipe() -> Peer:
    """`blur` knows no int8; the values lie in 0..127, which are the same as uint8."""

    def stack(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        for frame, o in zip(x.view(np.uint8), out.view(np.uint8), strict=True):
            cv2.blur(frame, (3, 3), dst=o)

    return _filter(
        stack, dtypes=("int8",), interior=True, tolerance=Tolerance(integers=1), why=ROUNDS
    )


def nine() -> Peer:
    return _filter(lambda cv2, x, o: cv2.blur(x, (3, 3), dst=o), interior=True)


def nine_floor() -> Peer:
    return _filter(
        lambda cv2, x, o: cv2.blur(x, (3, 3), dst=o),
        interior=True,
        tolerance=Tolerance(float64=1 / 200),
        why="OpenCV does not round down, so that it is up to 1 of 255 higher",
    )


def mean(size: int) -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        cv2.blur(x, (size, size), dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(
        call,
        tolerance=Tolerance(integers=1, float64=1e-11),
        why="OpenCV multiplies by a rounded 1/count",
    )


def gaussian() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        cv2.GaussianBlur(x, (5, 5), 1, dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(
        call, tolerance=Tolerance(integers=1), why="OpenCV's weights are of 8 or 16 bits"
    )


def sobel() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        cv2.Sobel(x, _depth(cv2, out), 1, 0, dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(call, _signed)


def laplace() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        cv2.Laplacian(x, _depth(cv2, out), dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(call, _signed)


def median(size: int) -> Peer:
    return _filter(
        lambda cv2, x, o: cv2.medianBlur(x, size, dst=o),
        dtypes=("uint8", "uint16", "float32"),
        interior=True,
    )


def least(size: int) -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        box = np.ones((size, size), np.uint8)
        cv2.erode(x, box, dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(call)


def greatest(size: int) -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        box = np.ones((size, size), np.uint8)
        cv2.dilate(x, box, dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(call)


def local_std(size: int) -> Peer:
    """Mean of squares less square of mean; OpenCV has no filter of its own for it."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import cv2

        cv2.setNumThreads(threads)
        depth = cv2.CV_64F if x.dtype == np.float64 else cv2.CV_32F

        def work() -> np.ndarray:
            box = (size, size)
            first = cv2.boxFilter(x, depth, box, borderType=cv2.BORDER_REFLECT)
            second = cv2.sqrBoxFilter(x, depth, box, borderType=cv2.BORDER_REFLECT)
            return cv2.sqrt(cv2.max(cv2.subtract(second, cv2.multiply(first, first)), 0))

        return work

    return Peer(
        "OpenCV",
        "cv2",
        prepare,
        # sqrBoxFilter refuses float32 in and out of other types than these.
        dtypes=("uint8", "float32", "float64"),
        threads=True,
        tolerance=Tolerance(float32=1e-3, float64=1e-7),
        why="the difference of two large numbers, which ours must not be",
    )


def signal() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        taps = kernels.TAPS[None].astype(x.dtype)
        cv2.filter2D(x[None], -1, taps, dst=out[None])

    return _filter(call, dtypes=("float32", "float64"), interior=True)


def harris() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        cv2.cornerHarris(x, 3, 3, 0.04, dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(call, dtypes=("float32",))


def unsharp() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        cv2.GaussianBlur(x, (5, 5), 1, dst=out, borderType=cv2.BORDER_REFLECT)
        cv2.addWeighted(x, 1 + stages.AMOUNT, out, -stages.AMOUNT, 0, dst=out)

    return _filter(call)


def blurs() -> Peer:
    def call(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        for k in range(4):
            source = out if k else x
            cv2.GaussianBlur(source, (5, 5), 1, dst=out, borderType=cv2.BORDER_REFLECT)

    return _filter(call)
