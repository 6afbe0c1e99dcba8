"""OpenCV, with as many threads as are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import kernels, peers
from .scipy import LOST

IMAGES = ("uint8", "uint16", "float32", "float64")


def _threads(cv2: Any, threads: int) -> None:
    cv2.setNumThreads(threads)


giving = partial(peers.giving, "OpenCV", "cv2", begin=_threads, threads=True)
writing = partial(peers.writing, "OpenCV", "cv2", begin=_threads, threads=True)


def reflecting(call: Callable[..., Any], **options: Any) -> peers.Peer:
    """OpenCV from `call(cv2, x, **to)`, where what is given says where to, and our border rule."""

    def write(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
        call(cv2, x, dst=out, borderType=cv2.BORDER_REFLECT)

    return writing(write, dtypes=IMAGES, **options)


def signed(given: np.dtype) -> Any:
    # OpenCV has no int32 results here; float32 holds every value of uint16 exactly.
    return {"uint8": np.int16, "uint16": np.float32}.get(given.name, given)


def depth(cv2: Any, out: np.ndarray) -> Any:
    return {"int16": cv2.CV_16S, "float32": cv2.CV_32F, "float64": cv2.CV_64F}[out.dtype.name]


def stack(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
    """`blur` knows no int8; the values lie in 0..127, which are the same as uint8."""
    for frame, o in zip(x.view(np.uint8), out.view(np.uint8), strict=True):
        cv2.blur(frame, (3, 3), dst=o)


def local_std(size: int) -> peers.Peer:
    """Mean of squares less square of mean; OpenCV has no filter of its own for it."""

    def call(cv2: Any, x: np.ndarray) -> Any:
        deep, box = cv2.CV_64F if x.dtype == np.float64 else cv2.CV_32F, (size, size)
        first = cv2.boxFilter(x, deep, box, borderType=cv2.BORDER_REFLECT)
        second = cv2.sqrBoxFilter(x, deep, box, borderType=cv2.BORDER_REFLECT)
        return cv2.sqrt(cv2.max(cv2.subtract(second, cv2.multiply(first, first)), 0))

    # sqrBoxFilter refuses float32 in and out of other types than these.
    known, slack = ("uint8", "float32", "float64"), peers.Tolerance(float32=1e-3, float64=1e-7)
    return giving(call, dtypes=known, tolerance=slack, why=LOST)


def blur(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
    cv2.GaussianBlur(x, (5, 5), 1, dst=out, borderType=cv2.BORDER_REFLECT)


def unsharp(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
    blur(cv2, x, out)
    cv2.addWeighted(x, 1 + kernels.AMOUNT, out, -kernels.AMOUNT, 0, dst=out)


def blurs(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
    for k in range(4):
        blur(cv2, out if k else x, out)
