"""NumPy: shifted views of an array, which a kernel's own text is given."""

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


def recipe(numpy: Any, stack: np.ndarray) -> np.ndarray:
    out = np.zeros_like(stack)
    for x, o in zip(stack, out, strict=True):
        rows = x[:-2].astype(np.int16) + x[1:-1] + x[2:]
        o[1:-1, 1:-1] = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) // np.int16(9)
    return out


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
