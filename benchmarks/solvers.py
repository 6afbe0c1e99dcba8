"""The table of solvers: NPBench's stencils, written from their formulas as users of each would.

The sizes are its own or near; its Jacobi iterations count two sweeps as one step, ours count one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import steps
from .peers import Peer, jax, numpy, ours, solvers
from .problem import Problem, Shape

GROUP = "solvers"


def _line(u):
    return (u[-1] + u[0] + u[1]) / 3


def _plane(u):
    return (u[0, 0] + u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 5


def _volume(u):
    here = u[0, 0, 0]
    return (
        here
        + (u[-1, 0, 0] - 2 * here + u[1, 0, 0]) / 8
        + (u[0, -1, 0] - 2 * here + u[0, 1, 0]) / 8
        + (u[0, 0, -1] - 2 * here + u[0, 0, 1]) / 8
    )


def _by_tuples(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of one axis, for views whose names are tuples of one offset."""
    return lambda views: kernel({offset: view for (offset,), view in views.items()})


def _jacobi(
    name: str, kernel: Callable[..., Any], by_hand: Peer, shape: Shape, tiny: Shape, count: int
) -> Problem:
    near = (1,) * len(shape)
    by_offset = kernel if len(shape) > 1 else _by_tuples(kernel)
    return Problem(
        f"{name}, {count} sweeps",
        ours.stepping(kernel, steps.alone, count),
        (
            by_hand,
            solvers.exact(jax.stepping(by_offset, steps.alone, count, near)),
            numpy.stepping(by_offset, steps.alone, count, near),
        ),
        near=near,
        group=GROUP,
        steps=count,
        share=2.0,
        dtypes=("float64",),
        shapes=(shape,),
        tiny=tiny,
    )


SOLVERS: tuple[Problem, ...] = (
    _jacobi("jacobi 1-D", _line, solvers.looped(solvers.line_sweep, 200), (32000,), (90,), 200),
    _jacobi(
        "jacobi 2-D", _plane, solvers.looped(solvers.plane_sweep, 40), (1300, 1300), (20, 23), 40
    ),
    _jacobi(
        "heat 3-D",
        _volume,
        solvers.looped(solvers.volume_sweep, 40),
        (120, 120, 120),
        (9, 8, 11),
        40,
    ),
    Problem(
        "fdtd 2-D, 40 steps",
        solvers.waves(40),
        (solvers.waves_call_by_call(40), solvers.waves_by_loops(40), solvers.waves_by_slices(40)),
        near=(1, 1),
        group=GROUP,
        steps=40,
        share=2.0,
        dtypes=("float64",),
        shapes=((1000, 1200),),
        tiny=(20, 23),
    ),
    Problem(
        "horizontal diffusion, levels last",
        solvers.diffusion(),
        (
            solvers.diffusion(levels_first=True),
            solvers.diffusion_by_numba(),
            solvers.diffusion_by_jax(),
            solvers.diffusion_by_slices(),
        ),
        near=(2, 2, 0),
        group=GROUP,
        dtypes=("float64",),
        shapes=((256, 256, 160),),
        tiny=(12, 13, 5),
    ),
)
