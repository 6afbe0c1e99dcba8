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
    name: str,
    own: Any,
    calls: Any,
    *others: Peer,
    near: int = 2,
    shape: Shape = (4096, 4096),
    **options: Any,
) -> Problem:
    return Problem(
        name,
        GROUP,
        ours.staged(own),
        (ours.separate(calls), *others),
        (near, near),
        dtypes=("float32",),
        shapes=(shape,),
        share=0.6,
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


# Of an ocean model: mixing along surfaces of equal density, by how that changes with temperature
# at a depth, and with salt.

_BY_SALT = 0.78e-3 * 1024


def _isoneutral(t, s, k, z):
    falls = -1024 * (1e-5 * (t[0, 0, 0] - 9.85) + 1.67e-4 * (1 + 1.105e-4 * z[0, 0, 0]))
    heat, salt = t[1, 0, 0] - t[0, 0, 0], s[1, 0, 0] - s[0, 0, 0]
    most = 0.25 * (k[0, 0, 0] + k[0, 0, -1] + k[1, 0, 0] + k[1, 0, -1])

    def at(i, n):
        fall = falls[i, 0, 0]
        rise = fall * (t[i, 0, n] - t[i, 0, n - 1]) + _BY_SALT * (s[i, 0, n] - s[i, 0, n - 1])
        slope = -(fall * heat + _BY_SALT * salt) / (min(0.0, rise) - 1e-20)
        taper = 0.5 * (1 + np.tanh((1e-3 - abs(slope)) / 1e-3))
        return max(50.0, most * taper), taper * slope

    (a, p), (b, q), (c, r), (d, o) = at(0, 0), at(1, 0), at(0, 1), at(1, 1)
    return (a + b + c + d) / 4, p, q, r, o


def _isoneutral_slices(t, s, k, z):
    t, s, k, z = t[1:], s[1:], k[1:], z[1:]  # as if the faces were on both sides
    falls = -1024 * (1e-5 * (t - 9.85) + 1.67e-4 * (1 + 1.105e-4 * z))
    heat, salt = (t[1:] - t[:-1])[:, :, 1:-1], (s[1:] - s[:-1])[:, :, 1:-1]
    rise_heat, rise_salt = t[:, :, 1:] - t[:, :, :-1], s[:, :, 1:] - s[:, :, :-1]
    most = 0.25 * (k[:-1, :, 1:-1] + k[:-1, :, :-2] + k[1:, :, 1:-1] + k[1:, :, :-2])
    total, made, rows, levels = 0 * most, [most], len(t) - 1, t.shape[2] - 2
    for n in range(2):
        for i in range(2):
            fall = falls[i : rows + i, :, 1:-1]
            rise = fall * rise_heat[i : rows + i, :, n : levels + n]
            rise = rise + _BY_SALT * rise_salt[i : rows + i, :, n : levels + n]
            slope = -(fall * heat + _BY_SALT * salt) / (np.minimum(0.0, rise) - 1e-20)
            taper = 0.5 * (1 + np.tanh((1e-3 - np.abs(slope)) / 1e-3))
            total = total + np.maximum(50.0, most * taper)
            made.append(taper * slope)
    made[0] = total / 4
    return made


def _ocean(x: np.ndarray) -> kernels.State:
    """Temperature, salt, mixing and depth: warm above, and hardly noisy."""
    level = np.broadcast_to(np.arange(x.shape[2]) * 20.0, x.shape).copy()
    return 2 + level / 200 + x / 2000, 35 + x[::-1] / 20000, 1000 * x[:, ::-1], level[..., ::-1]


def _published(name: str, kernel: Any, slices: Any, fields: Any, **options: Any) -> Problem:
    """A kernel of several arrays, beside a text of NumPy's that leaves out the border."""

    def compiled(numba: Any, x: np.ndarray, threads: int) -> Any:
        return partial(numba.njit(slices, parallel=True), *fields(x))

    own = ours.staged(lambda stencil: stencil(kernel), "nearest", fields)
    by_numba = built("Numba, of NumPy's text", "numba", compiled, threads=True)
    by_numpy = numpy.giving(lambda _, x: slices(*fields(x)))
    peers = (by_numba, jax.same_text(slices, fields), by_numpy)
    return Problem(name, GROUP, own, peers, dtypes=("float64",), tiny=(9, 8, 7), **options)


PIPELINES: tuple[Problem, ...] = (
    _published(
        "horizontal diffusion, limited",
        _diffusion,
        _diffusion_slices,
        lambda x: (x, x[::-1].copy()),
        near=(2, 2, 0),
        shapes=((260, 260, 160),),
    ),
    _published(
        "isoneutral mixing, east faces",
        _isoneutral,
        _isoneutral_slices,
        _ocean,
        near=(1, 0, 1),
        shapes=((163, 160, 160),),
    ),
    _problem(
        "Harris corners",
        kernels.harris,
        ((kernels.gradients, "x", "p q"), (kernels.response, "p q", "out")),
        scipy.writing(scipy.harris),
        opencv.reflecting(lambda cv2, x, **to: cv2.cornerHarris(x, 3, 3, 0.04, **to)),
        halide.harris,
        shape=(2560, 3072),
    ),
    _problem(
        "unsharp mask",
        kernels.unsharp,
        ((kernels.blur, "x", "soft"), (kernels.sharpen, "x soft", "out")),
        scipy.writing(scipy.unsharp),
        opencv.writing(opencv.unsharp),
        halide.unsharp,
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
        halide.blurs,
        near=8,
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
