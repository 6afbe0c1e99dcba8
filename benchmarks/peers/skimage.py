"""scikit-image, where it has code of its own and does not call SciPy in another name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import peers

CUTS = "scikit-image cuts the decimals off"


def giving(call: Callable[[Any, np.ndarray], Any], module: str, **options: Any) -> peers.Peer:
    """scikit-image from `call(module, x)`."""
    return peers.giving("scikit-image", f"skimage.{module}", call, **options)


def rank(name: str, shape: np.ndarray) -> peers.Peer:
    """A filter of `skimage.filters.rank`, which leaves out what is past the border."""
    own = {"tolerance": peers.Tolerance(integers=1), "why": CUTS} if name == "mean" else {}
    box = shape.astype(np.uint8)
    # With uint16 its histograms have 65536 bins; that is seconds where uint8 takes milliseconds.
    return peers.writing(
        "scikit-image",
        "skimage.filters.rank",
        lambda rank, x, out: getattr(rank, name)(x, box, out=out),
        dtypes=("uint8",),
        interior=True,
        **own,
    )
