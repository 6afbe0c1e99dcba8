"""The table: what is computed, on which arrays, by whom, and how far results may be apart.

Everything else is driven by `PROBLEMS`: the checks, the times, the tests and the tables.
"""

from __future__ import annotations

import numpy as np

from . import kernels
from .cores import CORES
from .elements import ELEMENTS
from .evolution import EVOLUTION
from .peers import (
    Peer,
    devito,
    halide,
    jax,
    loops,
    numpy,
    opencv,
    ours,
    pystencils,
    recipe,
    scipy,
    skimage,
)
from .pipelines import PIPELINES
from .problem import FLOATS, LINES, VOLUMES, Problem
from .solvers import SOLVERS
from .windows import WINDOWS


def _integers(dtype: np.dtype) -> bool:
    return dtype.kind in "iu"


def _bits(dtype: np.dtype) -> int | None:
    return {"uint8": 8, "uint16": 16, "float32": 32}.get(dtype.name)


def _single(dtype: np.dtype) -> bool:
    return dtype == np.float32


def _border(rule: str) -> Peer:
    return ours.ours(lambda dtype: kernels.mean(3, _integers(dtype)), rule, rule, True)


FILTERS: tuple[Problem, ...] = (
    Problem(
        "recipe: mean 3x3, 64 frames",
        ours.ours(lambda dtype: kernels.recipe, "fill"),
        (
            recipe.recipe(lambda single: kernels.recipe),
            loops.recipe(),
            scipy.recipe(),
            opencv.recipe(),
            halide.recipe(),
            jax.recipe(),
            numpy.recipe(),
        ),
        near=(1, 1),
        dtypes=("int8",),
        shapes=((64, 1000, 1000),),
        tiny=(2, 40, 45),
        everybody=True,
    ),
    Problem(
        "mean 3x3",
        ours.ours(lambda dtype: kernels.mean(3, _integers(dtype)), "reflect"),
        (
            recipe.recipe(lambda single: kernels.nine, dtypes=FLOATS),
            scipy.mean(3),
            opencv.mean(3),
            halide.mean(3),
            skimage.mean(3),
            jax.mean(3),
            numpy.mean3(),
        ),
        near=(1, 1),
    ),
    Problem(
        "gaussian 5x5, sigma 1",
        ours.ours(lambda dtype: kernels.gaussian(_bits(dtype)), "reflect"),
        (scipy.gaussian(), opencv.gaussian(), halide.gaussian(), jax.gaussian(), numpy.gaussian()),
        near=(2, 2),
    ),
    Problem(
        "sobel",
        ours.ours(lambda dtype: kernels.sobel, "reflect"),
        (
            recipe.recipe(lambda single: kernels.sobel_terms, dtypes=FLOATS),
            scipy.sobel(),
            opencv.sobel(),
            halide.sobel(),
            skimage.sobel(),
            jax.sobel(),
            numpy.sobel(),
        ),
        near=(1, 1),
    ),
    Problem(
        "laplace",
        ours.ours(lambda dtype: kernels.laplace, "reflect"),
        (
            recipe.recipe(lambda single: kernels.laplace, dtypes=FLOATS),
            scipy.laplace(),
            opencv.laplace(),
            halide.laplace(),
            jax.laplace(),
            numpy.laplace(),
        ),
        near=(1, 1),
    ),
    Problem(
        "median 3x3",
        ours.ours(lambda dtype: kernels.median(3, _integers(dtype)), "reflect"),
        (scipy.median(3), opencv.median(3), halide.median3(), skimage.median(3)),
        near=(1, 1),
    ),
    Problem(
        "median 5x5",
        ours.ours(lambda dtype: kernels.median(5, _integers(dtype)), "reflect"),
        (scipy.median(5), opencv.median(5), skimage.median(5)),
        near=(2, 2),
    ),
    Problem(
        "minimum 3x3 (erode)",
        ours.ours(lambda dtype: kernels.least(3), "reflect"),
        (
            scipy.least(3),
            opencv.least(3),
            halide.extreme(3, "min"),
            skimage.least(3),
            jax.least(3),
            numpy.least3(),
        ),
        near=(1, 1),
    ),
    Problem(
        "maximum 3x3 (dilate)",
        ours.ours(lambda dtype: kernels.greatest(3), "reflect"),
        (
            scipy.greatest(3),
            opencv.greatest(3),
            halide.extreme(3, "max"),
            skimage.greatest(3),
            jax.greatest(3),
            numpy.greatest3(),
        ),
        near=(1, 1),
    ),
    Problem(
        "minimum 31x31 (erode)",
        ours.ours(lambda dtype: kernels.least(31), "reflect"),
        (scipy.least(31), opencv.least(31), halide.extreme(31, "min"), jax.least(31)),
        near=(15, 15),
    ),
    Problem(
        "maximum 31x31 (dilate)",
        ours.ours(lambda dtype: kernels.greatest(31), "reflect"),
        (scipy.greatest(31), opencv.greatest(31), halide.extreme(31, "max"), jax.greatest(31)),
        near=(15, 15),
    ),
    Problem(
        "mean 31x31",
        ours.ours(lambda dtype: kernels.mean(31, _integers(dtype)), "reflect"),
        (scipy.mean(31), opencv.mean(31), halide.mean(31), skimage.mean(31), jax.mean(31)),
        near=(15, 15),
    ),
    Problem(
        "local std 7x7",
        ours.ours(lambda dtype: kernels.local_std, "reflect"),
        (scipy.local_std(7), opencv.local_std(7), jax.local_std(7)),
        near=(3, 3),
    ),
    Problem(
        "bilateral 5x5",
        ours.ours(lambda dtype: kernels.bilateral, "fill"),
        (
            recipe.recipe(
                lambda single: kernels.bilateral,
                neighborhood=((-2, 2), (-2, 2)),
                dtypes=FLOATS,
            ),
            loops.bilateral(),
            halide.bilateral(),
            jax.bilateral(),
            numpy.bilateral(),
        ),
        near=(2, 2),
        dtypes=FLOATS,
    ),
    Problem(
        "branches",
        ours.ours(lambda dtype: kernels.branches, "fill"),
        (
            recipe.recipe(lambda single: kernels.branches, dtypes=FLOATS),
            loops.branches(),
            halide.branches(),
            jax.branches(),
            numpy.branches(),
        ),
        near=(1, 1),
        dtypes=("uint8", "float32", "float64"),
    ),
    Problem(
        "3-D, 7 points",
        ours.ours(lambda dtype: kernels.seven, "fill"),
        (
            recipe.recipe(lambda single: kernels.seven, ndim=3, dtypes=FLOATS),
            loops.seven(),
            scipy.seven(),
            halide.seven(),
            jax.seven(),
            pystencils.seven(),
            devito.seven(),
            numpy.seven(),
        ),
        near=(1, 1, 1),
        dtypes=FLOATS,
        shapes=VOLUMES,
        tiny=(9, 10, 11),
    ),
    Problem(
        "3-D, 27 points",
        ours.ours(lambda dtype: kernels.cube(_single(dtype)), "fill"),
        (
            recipe.recipe(lambda single: kernels.cube_terms, ndim=3, dtypes=FLOATS),
            scipy.cube(),
            halide.cube(),
            jax.cube(),
            pystencils.cube(),
            devito.cube(),
            numpy.cube(),
        ),
        near=(1, 1, 1),
        dtypes=FLOATS,
        shapes=VOLUMES,
        tiny=(9, 10, 11),
    ),
    Problem(
        "1-D signal, 25 taps",
        ours.ours(lambda dtype: kernels.signal(_single(dtype)), "fill"),
        (
            recipe.recipe(kernels.signal_terms, ndim=1, neighborhood=((-12, 12),), dtypes=FLOATS),
            loops.signal(),
            scipy.signal(),
            opencv.signal(),
            halide.signal(),
            jax.signal(),
            numpy.signal(),
        ),
        near=(12,),
        dtypes=FLOATS,
        shapes=LINES,
        tiny=(100,),
    ),
    Problem(
        "one call, 100x100",
        ours.ours(lambda dtype: kernels.recipe, "fill"),
        (
            recipe.recipe(lambda single: kernels.recipe),
            recipe.jitted(kernels.recipe),
            scipy.nine_floor(),
            opencv.nine_floor(),
            jax.nine_floor(),
        ),
        near=(1, 1),
        dtypes=("float64",),
        shapes=((100, 100),),
        span=255.0,
    ),
    Problem(
        "border rules",
        _border("fill"),
        tuple(
            _border(rule)
            for rule in ("keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")
        ),
        near=(1, 1),
        dtypes=("uint8", "float32"),
        shapes=((1000, 1000),),
    ),
)

PROBLEMS = FILTERS + ELEMENTS + EVOLUTION + PIPELINES + CORES + WINDOWS + SOLVERS
