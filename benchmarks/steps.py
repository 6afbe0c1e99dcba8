"""Steps in time: what one step does to a state, and the states that are made from one array.

The text of a step is ninepoint's, and by nature that of everybody who can be asked for a
neighbour by its offset: numba.stencil, the fields of pystencils, and a dict of shifted views.
Borders are kept as they are, but for `life`, where nothing lives past them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .kernels import seven

State = tuple[np.ndarray, ...]


def heat(u):
    return u[0, 0] + 0.2 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


heat_3d = seven


def wave(u, before):
    """Second order in time, fourth in space."""
    around = (
        16 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])
        - (u[-2, 0] + u[2, 0] + u[0, -2] + u[0, 2])
        - 60 * u[0, 0]
    )
    return 2 * u[0, 0] - before[0, 0] + 0.01 * around, u[0, 0]


def react(u, v):
    """Gray and Scott: two substances that diffuse, and react with each other."""
    spread_u = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    spread_v = v[-1, 0] + v[1, 0] + v[0, -1] + v[0, 1] - 4 * v[0, 0]
    made = u[0, 0] * v[0, 0] * v[0, 0]
    return (
        u[0, 0] + 0.16 * spread_u - made + 0.037 * (1 - u[0, 0]),
        v[0, 0] + 0.08 * spread_v + made - 0.097 * v[0, 0],
    )


def life(x):
    n = x[-1:2, -1:2].sum() - x[0, 0]
    return 1 if n == 3 or (n == 2 and x[0, 0] == 1) else 0


def alone(x: np.ndarray) -> State:
    return (x,)


def at_rest(x: np.ndarray) -> State:
    """A wave, and the same one step before."""
    return x, x


def mixed(x: np.ndarray) -> State:
    """Two substances that fill the plate together."""
    return 1 - x / 2, x / 2


def inner(near: tuple[int, ...]) -> tuple[slice, ...]:
    """The points that have all their neighbours."""
    return tuple(slice(reach, -reach or None) for reach in near)


def results(made: Any) -> tuple[Any, ...]:
    """What a step gives, as a tuple also where it is one state."""
    return made if isinstance(made, tuple) else (made,)
