"""scikit-image, where it has code of its own and does not call SciPy in another name."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import Peer, Tolerance


def _rank(name: str, size: int, **options: Any) -> Peer:
    """A filter of `skimage.filters.rank`, which leaves out what is past the border."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        from skimage.filters import rank

        call, out, box = getattr(rank, name), np.empty_like(x), np.ones((size, size), np.uint8)
        return lambda: call(x, box, out=out)

    # With uint16 its histograms have 65536 bins; that is seconds where uint8 takes milliseconds.
    return Peer("scikit-image", "skimage", prepare, dtypes=("uint8",), interior=True, **options)


def mean(size: int) -> Peer:
    return _rank(
        "mean", size, tolerance=Tolerance(integers=1), why="scikit-image cuts the decimals off"
    )


def median(size: int) -> Peer:
    return _rank("median", size)


def least(size: int) -> Peer:
    return _rank("minimum", size)


def greatest(size: int) -> Peer:
    return _rank("maximum", size)


def sobel() -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        from skimage.filters import sobel_v

        return lambda: sobel_v(x)

    # Its weights are a quarter of the others'.
    return Peer(
        "scikit-image",
        "skimage",
        prepare,
        dtypes=("float32", "float64"),
        interior=True,
        finish=lambda result: 4 * result,
    )
