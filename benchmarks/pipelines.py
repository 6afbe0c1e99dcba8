"""The table of pipelines: stencils of which each reads what another made.

Ours are stencils that call stencils; "separate calls" are the same one by one.
"""

from __future__ import annotations

from . import stages
from .peers import halide_pipelines, jax, opencv, ours, scipy
from .problem import Problem

GROUP = "pipelines"

PIPELINES: tuple[Problem, ...] = (
    Problem(
        "Harris corners",
        ours.staged(stages.harris, "reflect"),
        (
            ours.separate(stages.HARRIS, "reflect"),
            scipy.harris(),
            opencv.harris(),
            halide_pipelines.harris(),
            jax.harris(),
        ),
        near=(2, 2),
        group=GROUP,
        dtypes=("float32",),
        shapes=((2560, 3072),),
    ),
    Problem(
        "unsharp mask",
        ours.staged(stages.unsharp, "reflect"),
        (
            ours.separate(stages.UNSHARP, "reflect"),
            scipy.unsharp(),
            opencv.unsharp(),
            halide_pipelines.unsharp(),
            jax.unsharp(),
        ),
        near=(2, 2),
        group=GROUP,
        dtypes=("float32",),
        shapes=((4096, 4096),),
    ),
    Problem(
        "four Gaussian blurs",
        ours.staged(stages.blurs, "reflect"),
        (
            ours.separate(stages.BLURS, "reflect"),
            scipy.blurs(),
            opencv.blurs(),
            halide_pipelines.blurs(),
            jax.blurs(),
        ),
        near=(8, 8),
        group=GROUP,
        dtypes=("float32",),
        shapes=((4096, 4096),),
    ),
)
