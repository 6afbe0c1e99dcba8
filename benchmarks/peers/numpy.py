"""NumPy: shifted views of a padded array, summed, compared or sorted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import kernels, peers

giving = partial(peers.giving, "NumPy", "numpy")


def shifted(padded: Any, near: tuple[int, ...]) -> dict[Any, Any]:
    """Views of the neighbours at every offset, each of the size of the array before padding.

    Offsets of one axis are numbers, as in a kernel.
    """
    inner = [length - 2 * reach for length, reach in zip(padded.shape, near, strict=True)]
    views = {
        offset: padded[
            tuple(
                slice(reach + step, reach + step + length)
                for step, reach, length in zip(offset, near, inner, strict=True)
            )
        ]
        for offset in itertools.product(*(range(-reach, reach + 1) for reach in near))
    }
    return views if len(near) > 1 else {offset: view for (offset,), view in views.items()}


def wide(array: Any) -> Any:
    """An array that holds sums of a few."""
    return array.astype(np.int32) if array.dtype.kind in "iu" else array


def views(compute: Callable[[dict[Any, Any]], Any], *near: int, **options: Any) -> peers.Peer:
    """A peer that gives a kernel's text the views of an array padded by "reflect".

    NumPy calls that rule "symmetric".
    """

    def call(numpy: Any, x: np.ndarray) -> Any:
        return compute(shifted(wide(np.pad(x, [(n, n) for n in near], "symmetric")), near))

    return giving(call, **options)


def recipe(numpy: Any, stack: np.ndarray) -> np.ndarray:
    out = np.zeros_like(stack)
    for x, o in zip(stack, out, strict=True):
        rows = x[:-2].astype(np.int16) + x[1:-1] + x[2:]
        o[1:-1, 1:-1] = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) // np.int16(9)
    return out


def bilateral(v: dict[Any, Any]) -> Any:
    centre, total, weights = v[0, 0], 0 * v[0, 0], 0 * v[0, 0]
    for (i, j), view in v.items():
        step = view - centre
        weight = np.exp(-(i * i + j * j) / 8 - step * step * 12.5)
        total += weight * view
        weights += weight
    return total / weights


def branches(v: dict[Any, Any]) -> Any:
    across, down = abs(v[0, 1] - v[0, -1]), abs(v[1, 0] - v[-1, 0])
    rest = np.where(down > 2 * across, v[0, -1] + v[0, 1], 2 * v[0, 0])
    return np.where(across > 2 * down, v[-1, 0] + v[1, 0], rest)


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], kernels.State],
    steps: int,
    near: tuple[int, ...],
) -> peers.Peer:
    """The kernel's own text on shifted views; a call goes on from where the last one ended."""

    def build(numpy: Any, x: np.ndarray, threads: int) -> peers.Work:
        state = [part.copy() for part in start(x)]
        within = kernels.inner(near)

        def work() -> list[np.ndarray]:
            for _ in range(steps):
                made = kernels.results(kernel(*(shifted(part, near) for part in state)))
                # All are made before the first is written to; a view would change with it.
                made = [new if new.base is None else new.copy() for new in made]
                for part, new in zip(state, made, strict=True):
                    part[within] = new
            return state

        return work

    return peers.built("NumPy", "numpy", build)


def life_step(alive: Any, pad: Any = np.pad) -> Any:
    padded = pad(alive, 1)
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    count = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - alive
    return ((count == 3) | ((count == 2) & (alive == 1))).astype(alive.dtype)
