"""Windows that leave something out: NaN, points outside a shape, every second point.

What is only there for its time, as the same filter without NaN, is named for what it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..kernels import box, disk, shaped
from ..peers import Peer, Tolerance, giving, numpy, opencv, ours, scipy, skimage
from ..problem import Problem

GROUP = "windows"

_problem = partial(Problem, group=GROUP, dtypes=("uint8",), shapes=((2048, 2048),))
_floats = partial(Problem, group=GROUP, dtypes=("float32",), shapes=((512, 512),))
# Windows that end at the point, and know NaN.
_bottleneck = partial(giving, "Bottleneck", "bottleneck", nan=True, interior=True)
_numbagg = partial(giving, "Numbagg", "numbagg", nan=True, interior=True)
_UNLIKE = "knows no NaN: for its time only"


def _generic(function: Callable[[Any], Any], size: Any, origin: Any = 0) -> Peer:
    """SciPy that calls a function of NumPy for each point."""
    return scipy.writing(
        lambda n, x, out: n.generic_filter(x, function, size, output=out, origin=origin), nan=True
    )


def _with_holes(name: str, reach: int) -> Problem:
    """A reduction that leaves out NaN, beside the one that does not."""
    size, known, plain = 2 * reach + 1, getattr(np, f"nan{name}"), getattr(np, name)
    return _floats(
        f"nan{name} {size}x{size}",
        ours=ours.stencil(box(known, reach), nan=True),
        peers=(ours.stencil(box(plain, reach), name=name, unlike=_UNLIKE), _generic(known, size)),
        near=(reach, reach),
    )


def _extreme(name: str, function: Any, radius: int) -> Problem:
    """A minimum or maximum over a disk, which morphology calls erosion and dilation."""
    shape = disk(radius)
    bytes_ = shape.astype(np.uint8)
    verb, scis = {"minimum": ("erode", "erosion"), "maximum": ("dilate", "dilation")}[name]
    return _problem(
        f"{name} over disk({radius})",
        ours=ours.stencil(shaped(function, shape)),
        peers=(
            scipy.writing(
                lambda n, x, out: getattr(n, f"{name}_filter")(x, footprint=shape, output=out)
            ),
            opencv.giving(lambda cv2, x: getattr(cv2, verb)(x, bytes_), interior=True),
            skimage.giving(lambda m, x: getattr(m, scis)(x, bytes_), "morphology", interior=True),
        ),
        near=(radius, radius),
        tiny=(max(40, 2 * radius + 9), max(45, 2 * radius + 12)),
    )


def _rank(name: str, function: Any, radius: int, call: Any) -> Problem:
    shape = disk(radius)
    return _problem(
        f"{name} over disk({radius})",
        ours=ours.stencil(shaped(function, shape)),
        peers=(scipy.writing(lambda n, x, out: call(n, x, shape, out)), skimage.rank(name, shape)),
        near=(radius, radius),
    )


def _scipy_median(n: Any, x: np.ndarray, shape: np.ndarray, out: np.ndarray) -> None:
    n.median_filter(x, footprint=shape, output=out)


def _scipy_mean(n: Any, x: np.ndarray, shape: np.ndarray, out: np.ndarray) -> None:
    sums = n.correlate(x.astype(np.int32), shape.astype(np.int32))
    np.rint(sums / np.count_nonzero(shape), out=out, casting="unsafe")


def _whole_mean(w):
    return (2 * w.sum() + w.size) // (2 * w.size)


def _mean(x):
    return (2 * x[-1:2, -1:2].sum() + 9) // 18


# Every second point.


def _pool(x):
    return x[0:2, 0:2].mean()


WINDOWS: tuple[Problem, ...] = (
    _with_holes("mean", 1),
    _with_holes("mean", 3),
    _with_holes("median", 1),
    _with_holes("median", 2),
    _floats(
        "nanmax 5x5",
        ours=ours.stencil(lambda x: np.nanmax(x[-4:1, -4:1]), nan=True),
        peers=(
            _generic(np.nanmax, 5, 2),
            _bottleneck(lambda bn, x: bn.move_max(bn.move_max(x, 5, 1, axis=0), 5, 1, axis=1)),
        ),
        near=(4, 4),
    ),
    _floats(
        "nanmean of 25 in a row",
        ours=ours.stencil(lambda x: np.nanmean(x[0, -24:1]), nan=True),
        peers=(
            _generic(np.nanmean, (1, 25), (0, 12)),
            _bottleneck(lambda bn, x: bn.move_mean(x, 25, 1, axis=-1)),
            _numbagg(lambda nb, x: nb.move_mean(x, window=25, min_count=1)),
        ),
        near=(0, 24),
        tiny=(9, 60),
    ),
    _extreme("minimum", np.min, 3),
    _extreme("maximum", np.max, 10),
    _extreme("maximum", np.max, 26),
    *(_rank("median", lambda w: int(np.median(w)), radius, _scipy_median) for radius in (2, 5)),
    _rank("mean", _whole_mean, 5, _scipy_mean),
    Problem(
        "mean 3x3, colours last",
        GROUP,
        ours.stencil(_mean, axes=(0, 1)),
        (
            opencv.giving(lambda cv2, x: cv2.blur(x, (3, 3)), interior=True),
            scipy.writing(lambda n, x, out: n.uniform_filter(x, (3, 3, 1), out)),
        ),
        (1, 1, 0),
        dtypes=("uint8",),
        shapes=((1080, 1920, 3),),
        tiny=(24, 33, 3),
        tolerance=Tolerance(integers=1),
    ),
    _floats(
        "mean pool 2x2",
        ours=ours.stencil(_pool, every=(2, 2)),
        peers=(
            skimage.giving(lambda m, x: m.downscale_local_mean(x, (2, 2)), "transform"),
            opencv.giving(
                lambda cv2, x: cv2.resize(x, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
            ),
            numpy.giving(lambda n, x: x.reshape(len(x) // 2, 2, x.shape[1] // 2, 2).mean((1, 3))),
        ),
        near=(1, 1),
        shapes=((512, 512), (2048, 2048)),
        tiny=(40, 44),
    ),
)
