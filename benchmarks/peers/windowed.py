"""Windows with a shape, with NaN, with colours beside them, or at every second point.

`ours...` are ninepoint's in other words than `peers/ours.py` has them; the others are named for
the library that they call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import Peer, Tolerance, as_array
from .ours import NAME, IntoResult

# A peer that is there for its time: it computes something else, of the same reads.
UNLIKE = Tolerance(10**9, math.inf, math.inf)

Build = Callable[[np.ndarray, int], Callable[[], Any]]


def disk(radius: int) -> np.ndarray:
    """The points that are not farther than this."""
    steps = np.arange(-radius, radius + 1)
    near: np.ndarray = steps[:, None] ** 2 + steps**2 <= radius**2
    return near


def holes(x: np.ndarray) -> np.ndarray:
    """The same array, a hundredth of which is NaN."""
    random = np.random.default_rng(5)
    return np.where(random.random(x.shape) < 0.01, np.nan, x).astype(x.dtype)


def filled(result: Any) -> np.ndarray:
    """A result whose NaN are numbers, so that it can be compared."""
    return np.nan_to_num(as_array(result), nan=-1.0)


def calling(name: str, package: str, build: Build, nan: bool = False, **options: Any) -> Peer:
    """A peer from `build(x, threads)`; with `nan` for an array with holes."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        return build(holes(x) if nan else x, threads)

    if nan:
        options["finish"] = filled
    return Peer(name, package, prepare, **options)


def stencil(
    kernel: Callable[..., Any],
    boundary: str = "reflect",
    name: str = NAME,
    move: Callable[[np.ndarray], np.ndarray] = np.asarray,
    unlike: str = "",
    back: Callable[[Any], np.ndarray] = as_array,
    nan: bool = False,
    **options: Any,
) -> Peer:
    """Ours, with options of a call; of the array that `move` makes of the given one.

    With `unlike`, which says why, it is there for its time; `back` undoes what `move` does.
    """

    def build(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        made = npt.stencil(boundary=boundary)(kernel)
        return IntoResult(partial(made, move(x), threads=threads, **options))

    more: dict[str, Any] = {"tolerance": UNLIKE, "why": unlike} if unlike else {}
    return calling(name, "ninepoint", build, nan, threads=True, finish=back, **more)


def filtered(call: Callable[[Any, np.ndarray, np.ndarray], Any], nan: bool = False) -> Peer:
    """SciPy, from `call(ndimage, x, out)`; it reflects as we do."""

    def build(x: np.ndarray, threads: int) -> Any:
        from scipy import ndimage

        out = np.empty_like(x)

        def work() -> np.ndarray:
            call(ndimage, x, out)
            return out

        return work

    return calling("SciPy", "scipy", build, nan)


def opencv(call: Callable[[Any, np.ndarray], Any], **options: Any) -> Peer:
    """OpenCV, from `call(cv2, x)`."""

    def build(x: np.ndarray, threads: int) -> Any:
        import cv2

        cv2.setNumThreads(threads)
        return lambda: call(cv2, x)

    return calling("OpenCV", "cv2", build, threads=True, **options)


def skimage(call: Callable[[Any, np.ndarray], Any], module: str, **options: Any) -> Peer:
    """scikit-image, from `call(module, x)`."""

    def build(x: np.ndarray, threads: int) -> Any:
        from importlib import import_module

        return partial(call, import_module(f"skimage.{module}"), x)

    return calling("scikit-image", "skimage", build, **options)


def bottleneck(call: Callable[[Any, np.ndarray], Any], **options: Any) -> Peer:
    """Bottleneck, from `call(bottleneck, x)`: moving windows that end at the point."""

    def build(x: np.ndarray, threads: int) -> Any:
        import bottleneck as bn

        return lambda: call(bn, x)

    return calling("Bottleneck", "bottleneck", build, nan=True, interior=True, **options)


def numbagg(call: Callable[[Any, np.ndarray], Any], **options: Any) -> Peer:
    """Numbagg, from `call(numbagg, x)`: moving windows that end at the point."""

    def build(x: np.ndarray, threads: int) -> Any:
        import numbagg

        return lambda: call(numbagg, x)

    return calling("Numbagg", "numbagg", build, nan=True, interior=True, **options)


def plain(call: Callable[[np.ndarray], Any], nan: bool = False, **options: Any) -> Peer:
    """NumPy, from `call(x)`."""
    return calling("NumPy", "numpy", lambda x, threads: partial(call, x), nan, **options)
