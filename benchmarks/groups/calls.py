"""Filters, one call each."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import kernels
from ..kernels import alone
from ..peers import (
    Peer,
    Tolerance,
    devito,
    halide,
    jax,
    loops,
    numpy,
    opencv,
    ours,
    pystencils,
    scipy,
    signed,
    skimage,
)
from ..problem import FLOATS, Problem

GROUP = "calls"
HIGHER = "does not round down, so that it is up to 1 of 255 higher"


def _problem(
    name: str,
    own: Any,
    *others: Peer,
    near: tuple[int, ...] = (1, 1),
    boundary: str = "reflect",
    **options: Any,
) -> Problem:
    return Problem(name, GROUP, ours.stencil(own, boundary), others, near, **options)


def _square(size: int) -> np.ndarray:
    return np.ones((size, size), np.uint8)


def _mean(size: int) -> Problem:
    return _problem(
        f"mean {size}x{size}",
        kernels.mean(size),
        # A running sum along each line, which drifts for float32; SciPy sums in float64.
        scipy.writing(
            lambda n, x, out: n.uniform_filter(x, size, output=out),
            tolerance=Tolerance(integers=2, float64=1e-11),
            why=scipy.TRUNCATES,
        ),
        opencv.reflecting(
            lambda cv2, x, **to: cv2.blur(x, (size, size), **to),
            tolerance=Tolerance(integers=1, float64=1e-11),
            why="OpenCV multiplies by a rounded 1/count",
        ),
        halide.mean(size),
        skimage.rank("mean", _square(size)),
        near=(size // 2, size // 2),
    )


def _median(size: int, *more: Peer) -> Problem:
    return _problem(
        f"median {size}x{size}",
        kernels.median(size),
        scipy.writing(lambda n, x, out: n.median_filter(x, size, output=out)),
        opencv.writing(
            lambda cv2, x, out: cv2.medianBlur(x, size, dst=out),
            dtypes=("uint8", "uint16", "float32"),
            interior=True,
        ),
        skimage.rank("median", _square(size)),
        *more,
        near=(size // 2, size // 2),
    )


def _extreme(name: str, short: str, verb: str, size: int) -> Problem:
    return _problem(
        f"{name} {size}x{size} ({verb})",
        kernels.box(getattr(np, short), size // 2),
        scipy.writing(lambda n, x, out: getattr(n, f"{name}_filter")(x, size, output=out)),
        opencv.reflecting(lambda cv2, x, **to: getattr(cv2, verb)(x, _square(size), **to)),
        halide.extreme(short, size),
        skimage.rank(name, _square(size)),
        near=(size // 2, size // 2),
    )


# By how many axes a point is off the centre of a cube: as `kernels.seven` weighs them.
_SEVEN = np.choose(np.abs(np.indices((3, 3, 3)) - 1).sum(0), (0.4, 0.1, 0, 0))


def _slopes(name: str, *orders: int) -> Peer:
    """A filter of OpenCV's whose results have signs."""
    return opencv.reflecting(
        lambda cv2, x, **to: getattr(cv2, name)(x, opencv.depth(cv2, to["dst"]), *orders, **to),
        result=opencv.signed,
    )


def _signal(cv2: Any, x: np.ndarray, out: np.ndarray) -> None:
    cv2.filter2D(x[None], -1, kernels.TAPS[None].astype(x.dtype), dst=out[None])


def _frames(ndimage: Any, x: np.ndarray, out: np.ndarray) -> None:
    for frame, o in zip(x, out, strict=True):
        ndimage.uniform_filter(frame, 3, output=o)


def _bordered(rule: str) -> Problem:
    known = rule not in ("fill", "keep", "valid")

    def call(n: Any, x: np.ndarray) -> Any:
        made = n.uniform_filter(x, 3, mode=rule if known else "reflect")
        return made[1:-1, 1:-1] if rule == "valid" else made

    slack = {"tolerance": Tolerance(integers=2), "why": scipy.TRUNCATES}
    peer = scipy.giving(call, interior=rule in ("fill", "keep"), **slack)
    options = {"dtypes": ("uint8", "float32"), "shapes": ((1000, 1000),)}
    return _problem(f"mean 3x3, {rule}", kernels.mean(3), peer, boundary=rule, **options)


CALLS: tuple[Problem, ...] = (
    _problem(
        "recipe: mean 3x3, 64 frames",
        kernels.recipe,
        loops.by_recipe(kernels.recipe, dtypes=("int8",)),
        loops.stepping(loops.recipe, alone, 1, near=0, interior=True),
        scipy.writing(
            _frames, interior=True, tolerance=Tolerance(integers=2), why=scipy.TRUNCATES
        ),
        opencv.writing(
            opencv.stack,
            dtypes=("int8",),
            interior=True,
            tolerance=Tolerance(integers=1),
            why="OpenCV rounds to nearest, the recipe rounds down",
        ),
        halide.recipe,
        jax.recipe(),
        numpy.giving(numpy.recipe),
        boundary="fill",
        dtypes=("int8",),
        shapes=((64, 1000, 1000),),
        tiny=(2, 40, 45),
        everybody=True,
        share=0.6,
    ),
    _mean(3),
    _problem(
        "gaussian 5x5, sigma 1",
        kernels.gaussian,
        scipy.writing(
            lambda n, x, out: n.gaussian_filter(x, 1, output=out, radius=2),
            # Two steps from the weights of an axis each at most, two from cutting, and rounding.
            tolerance=Tolerance(integers=4),
            why=f"{scipy.TRUNCATES}, with weights of 8 bits for uint8, as OpenCV",
        ),
        opencv.writing(
            opencv.blur,
            tolerance=Tolerance(integers=1),
            why="OpenCV's weights are of 8 or 16 bits",
        ),
        halide.gaussian,
        near=(2, 2),
    ),
    _problem(
        "sobel",
        kernels.sobel,
        scipy.writing(lambda n, x, out: n.sobel(x, axis=1, output=out), signed),
        _slopes("Sobel", 1, 0),
        halide.sobel,
        # Its weights are a quarter of the others'.
        skimage.giving(
            lambda m, x: m.sobel_v(x),
            "filters",
            dtypes=FLOATS,
            interior=True,
            finish=lambda made: 4 * made,
        ),
    ),
    _problem(
        "laplace",
        kernels.laplace,
        loops.by_recipe(kernels.laplace),
        scipy.writing(lambda n, x, out: n.laplace(x, output=out), signed),
        _slopes("Laplacian"),
        halide.linear(np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]]), signed),
    ),
    _median(3, halide.median3),
    _median(5),
    _extreme("minimum", "min", "erode", 3),
    _extreme("maximum", "max", "dilate", 3),
    _extreme("minimum", "min", "erode", 31),
    _extreme("maximum", "max", "dilate", 31),
    _mean(31),
    _problem(
        "local std 7x7",
        kernels.box(np.std, 3),
        scipy.local_std(7),
        opencv.local_std(7),
        near=(3, 3),
    ),
    _problem(
        "bilateral 5x5",
        kernels.bilateral(np.exp),
        loops.by_recipe(kernels.bilateral(np.exp), ("float32",), neighborhood=((-2, 2), (-2, 2))),
        halide.bilateral,
        numpy.stepping(kernels.bilateral(np.exp), alone, 1, (2, 2)),
        near=(2, 2),
        boundary="keep",
        dtypes=("float32",),
    ),
    _problem(
        "3-D, 7 points",
        kernels.seven,
        loops.stepping(loops.seven, alone, 1),
        halide.linear(_SEVEN),
        jax.giving(lambda x: kernels.seven(numpy.shifted(x, (1, 1, 1)))),
        pystencils.stepping(kernels.seven, alone, 1),
        devito.stepping(kernels.seven, alone, 1, (1, 1, 1)),
        numpy.stepping(kernels.seven, alone, 1, (1, 1, 1)),
        near=(1, 1, 1),
        boundary="keep",
        dtypes=FLOATS,
        shapes=((64, 64, 64), (384, 384, 384)),
        tiny=(9, 10, 11),
    ),
    _problem(
        "1-D signal, 25 taps",
        kernels.signal,
        scipy.writing(lambda n, x, out: n.correlate1d(x, kernels.TAPS, output=out), interior=True),
        opencv.writing(_signal, dtypes=FLOATS, interior=True),
        halide.linear(kernels.TAPS),
        numpy.giving(lambda n, x: n.convolve(x, kernels.TAPS.astype(x.dtype), mode="valid")),
        near=(12,),
        boundary="fill",
        dtypes=FLOATS,
        shapes=((1 << 15,), (1 << 24,)),
        tiny=(100,),
    ),
    _problem(
        "one call, 100x100",
        kernels.recipe,
        loops.by_recipe(kernels.recipe),
        scipy.writing(
            lambda n, x, out: n.uniform_filter(x, 3, output=out),
            interior=True,
            tolerance=Tolerance(float64=1 / 200),
            why=f"SciPy {HIGHER}",
        ),
        opencv.writing(
            lambda cv2, x, out: cv2.blur(x, (3, 3), dst=out),
            interior=True,
            tolerance=Tolerance(float64=1 / 200),
            why=f"OpenCV {HIGHER}",
        ),
        boundary="fill",
        dtypes=("float64",),
        shapes=((100, 100),),
        span=255.0,
    ),
    # What is past the border has rules, of which "fill" costs nothing.
    *map(_bordered, ("fill", "keep", "valid", "constant", "nearest", "mirror", "wrap")),
)
