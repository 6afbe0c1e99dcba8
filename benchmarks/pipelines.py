"""The table of pipelines: stencils of which each reads what another made.

"separate calls" stands beside ninepoint where one call does all of them.
"""

from __future__ import annotations

from . import stages
from .peers import halide_pipelines, jax, opencv, ours, scipy
from .problem import Problem

GROUP = "pipelines"

PIPELINES: tuple[Problem, ...] = (
    Problem(
        "Harris corners",
        ours.separate(stages.HARRIS, "reflect", ours.NAME),
        (scipy.harris(), opencv.harris(), halide_pipelines.harris(), jax.harris()),
        near=(2, 2),
        group=GROUP,
        dtypes=("float32",),
        shapes=((2560, 3072),),
    ),
    Problem(
        "unsharp mask",
        ours.separate(stages.UNSHARP, "reflect", ours.NAME),
        (scipy.unsharp(), opencv.unsharp(), halide_pipelines.unsharp(), jax.unsharp()),
        near=(2, 2),
        group=GROUP,
        dtypes=("float32",),
        shapes=((4096, 4096),),
    ),
    Problem(
        "four Gaussian blurs",
        ours.separate(stages.BLURS, "reflect", ours.NAME),
        (scipy.blurs(), opencv.blurs(), halide_pipelines.blurs(), jax.blurs()),
        near=(8, 8),
        group=GROUP,
        dtypes=("float32",),
        shapes=((4096, 4096),),
    ),
)
