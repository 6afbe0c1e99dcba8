"""Filters of which each reads what another made, in one call, beside the same one by one.

Small ones stand beside their own calls: what joining them costs and saves where a call is short.
"""

from __future__ import annotations

from typing import Any

from .. import kernels
from ..peers import Peer, halide, opencv, ours, scipy
from ..problem import Problem, Shape

GROUP = "pipelines"

_BLURS = (
    (kernels.blur, "x", "first"),
    (kernels.blur, "first", "second"),
    (kernels.blur, "second", "first"),
    (kernels.blur, "first", "out"),
)


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


PIPELINES: tuple[Problem, ...] = (
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
        _BLURS,
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
    _problem(
        "four Gaussian blurs, 512x512",
        kernels.blurs,
        _BLURS,
        scipy.writing(scipy.blurs),
        opencv.writing(opencv.blurs),
        halide.blurs(halide.SCHEDULES),
        near=8,
        shape=(512, 512),
    ),
)
