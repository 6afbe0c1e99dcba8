"""Filters of which each reads what another made, in one call, beside the same one by one.

Small ones stand beside their own calls: what joining them costs and saves where a call is short.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import kernels
from ..peers import Peer, built, halide, jax, numpy, opencv, ours, scipy
from ..problem import Problem, Shape

GROUP = "pipelines"


def _problem(
    name: str, own: Any, calls: Any, *others: Peer, near: int, shape: Shape, **options: Any
) -> Problem:
    return Problem(
        name,
        GROUP,
        ours.staged(own),
        (ours.separate(calls), *others),
        (near, near),
        dtypes=("float32",),
        shapes=(shape,),
        **options,
    )


# A mean of nine and what is left without it: a pipeline of two.


def _mean(x):
    return x[-1:2, -1:2].mean()


def _left(x, soft):
    return x[0, 0] - soft[0, 0]


def _detail(stencil: Any) -> Any:
    soften = stencil(_mean)
    return stencil(lambda x: x[0, 0] - soften(x)[0, 0])


# Of a weather model: what NumPy is given is given to JAX and to Numba as well.


def _limited(step, rise):
    return 0.0 if step * rise > 0 else step


def _diffusion(x, c):
    v = 4 * x[0, 0, 0] - (x[1, 0, 0] + x[-1, 0, 0] + x[0, 1, 0] + x[0, -1, 0])
    u = x[0, 0, 0]
    down = _limited(v[1, 0, 0] - v[0, 0, 0], x[1, 0, 0] - u)
    up = _limited(v[0, 0, 0] - v[-1, 0, 0], u - x[-1, 0, 0])
    right = _limited(v[0, 1, 0] - v[0, 0, 0], x[0, 1, 0] - u)
    left = _limited(v[0, 0, 0] - v[0, -1, 0], u - x[0, -1, 0])
    return u - c[0, 0, 0] * (down - up + right - left)


def _diffusion_slices(x, c):
    v = 4 * x[1:-1, 1:-1] - (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
    step = v[1:, 1:-1] - v[:-1, 1:-1]
    down = np.where(step * (x[2:-1, 2:-2] - x[1:-2, 2:-2]) > 0, 0, step)
    step = v[1:-1, 1:] - v[1:-1, :-1]
    right = np.where(step * (x[2:-2, 2:-1] - x[2:-2, 1:-2]) > 0, 0, step)
    total = down[1:] - down[:-1] + right[:, 1:] - right[:, :-1]
    return x[2:-2, 2:-2] - c[2:-2, 2:-2] * total


def _fields(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x, x[::-1].copy()


def _diffused(npt: Any, x: np.ndarray, threads: int) -> Any:
    made = npt.stencil(boundary="nearest")(_diffusion)
    return ours.IntoResult(partial(made, *_fields(x), threads=threads))


def _by_numba(numba: Any, x: np.ndarray, threads: int) -> Any:
    return partial(numba.njit(_diffusion_slices, parallel=True), *_fields(x))


PIPELINES: tuple[Problem, ...] = (
    Problem(
        "horizontal diffusion, limited",
        GROUP,
        ours.calling(_diffused),
        (
            built("Numba, of NumPy's text", "numba", _by_numba, threads=True),
            jax.same_text(_diffusion_slices, _fields),
            numpy.giving(lambda _, x: _diffusion_slices(*_fields(x))),
        ),
        near=(2, 2, 0),
        dtypes=("float64",),
        shapes=((260, 260, 160),),
        tiny=(9, 8, 7),
    ),
    _problem(
        "Harris corners",
        kernels.harris,
        ((kernels.gradients, "x", "p q"), (kernels.response, "p q", "out")),
        scipy.writing(scipy.harris),
        opencv.reflecting(lambda cv2, x, **to: cv2.cornerHarris(x, 3, 3, 0.04, **to)),
        halide.harris(),
        near=2,
        shape=(2560, 3072),
        share=0.6,
    ),
    _problem(
        "unsharp mask",
        kernels.unsharp,
        ((kernels.blur, "x", "soft"), (kernels.sharpen, "x soft", "out")),
        scipy.writing(scipy.unsharp(kernels.AMOUNT)),
        opencv.writing(opencv.unsharp(kernels.AMOUNT)),
        halide.unsharp(),
        near=2,
        shape=(4096, 4096),
        share=0.6,
    ),
    _problem(
        "four Gaussian blurs",
        kernels.blurs,
        (
            (kernels.blur, "x", "first"),
            (kernels.blur, "first", "second"),
            (kernels.blur, "second", "first"),
            (kernels.blur, "first", "out"),
        ),
        scipy.writing(scipy.blurs),
        opencv.writing(opencv.blurs),
        halide.blurs(),
        near=8,
        shape=(4096, 4096),
        share=0.6,
    ),
    _problem(
        "two stages, 100x100",
        _detail,
        ((_mean, "x", "soft"), (_left, "x soft", "out")),
        ours.stencil(_mean, name="one call", unlike="one of the two stencils: for its time only"),
        scipy.giving(lambda n, x: x - n.uniform_filter(x, 3)),
        near=1,
        shape=(100, 100),
        everybody=True,
    ),
)
