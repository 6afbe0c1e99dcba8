"""The table of states that are stepped through time: each call does all the steps.

"single sweeps" is ninepoint with one step in each pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import steps
from .peers import Peer, devito, jax, loops, numpy, ours, pystencils, recipe, scipy
from .problem import Problem, Shape

GROUP = "time"

# Seconds: of some tenths that a call takes, enough for a median.
SHARE = 2.0


def _problem(
    name: str,
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], steps.State],
    shape: Shape,
    near: tuple[int, ...],
    by_hand: Peer,
    *others: Peer,
    count: int = 16,
    history: bool = False,
    tiny: Shape = (40, 45),
) -> Problem:
    """A kernel whose own text is given to everybody who can read it."""
    return Problem(
        f"{name}, {count} steps",
        ours.stepping(kernel, start, count),
        (
            ours.stepping(kernel, start, count, name=ours.SINGLE),
            by_hand,
            jax.stepping(kernel, start, count, near),
            pystencils.stepping(kernel, start, count, history),
            devito.stepping(kernel, start, count, near, history),
            numpy.stepping(kernel, start, count, near),
            *others,
        ),
        near=near,
        group=GROUP,
        steps=count,
        share=SHARE,
        dtypes=("float32",),
        shapes=(shape,),
        tiny=tiny,
    )


EVOLUTION: tuple[Problem, ...] = (
    _problem(
        "heat 2-D",
        steps.heat,
        steps.alone,
        (4096, 4096),
        (1, 1),
        loops.heat(16),
        recipe.stepping(steps.heat, 16),
    ),
    _problem(
        "heat 2-D",
        steps.heat,
        steps.alone,
        (4096, 4096),
        (1, 1),
        loops.heat(100),
        count=100,
    ),
    _problem(
        "heat 3-D, 7 points",
        steps.heat_3d,
        steps.alone,
        (384, 384, 384),
        (1, 1, 1),
        loops.heat_3d(16),
        tiny=(9, 10, 11),
    ),
    _problem(
        "wave 2-D, order 4",
        steps.wave,
        steps.at_rest,
        (4096, 4096),
        (2, 2),
        loops.wave(16),
        history=True,
    ),
    _problem(
        "Gray-Scott",
        steps.react,
        steps.mixed,
        (2048, 2048),
        (1, 1),
        loops.react(16),
    ),
    Problem(
        "life, 16 steps",
        ours.stepping(steps.life, steps.alone, 16, "constant", dtype="uint8"),
        (
            ours.stepping(steps.life, steps.alone, 16, "constant", ours.SINGLE, "uint8"),
            loops.life(16),
            scipy.life(16),
            jax.life(16),
            pystencils.life(16),
            numpy.life(16),
        ),
        near=(1, 1),
        group=GROUP,
        steps=16,
        share=SHARE,
        dtypes=("uint8",),
        shapes=((4096, 4096),),
        everybody=True,
        greatest=1,
    ),
)
