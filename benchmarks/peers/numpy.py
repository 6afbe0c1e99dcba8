"""NumPy: shifted views of a padded array, summed, compared or sorted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import kernels
from ..steps import State, inner, results
from . import Peer, Tolerance


def shifted(padded: Any, near: tuple[int, ...]) -> dict[tuple[int, ...], Any]:
    """Views of the neighbours at every offset, each of the size of the array before padding."""
    inner = [length - 2 * reach for length, reach in zip(padded.shape, near, strict=True)]
    return {
        offset: padded[
            tuple(
                slice(reach + step, reach + step + length)
                for step, reach, length in zip(offset, near, inner, strict=True)
            )
        ]
        for offset in itertools.product(*(range(-reach, reach + 1) for reach in near))
    }


def from_views(
    compute: Callable[[dict[tuple[int, ...], np.ndarray]], np.ndarray],
    *near: int,
    interior: bool = False,
    **options: Any,
) -> Peer:
    """A peer that pads by "reflect" (which NumPy calls "symmetric") and computes with views."""

    def prepare(array: np.ndarray, threads: int) -> Any:
        mode = "constant" if interior else "symmetric"
        return lambda: compute(shifted(np.pad(array, [(n, n) for n in near], mode), near))

    return Peer("NumPy", "numpy", prepare, interior=interior, **options)


def recipe() -> Peer:
    def frame(x: np.ndarray) -> np.ndarray:
        rows = x[:-2].astype(np.int16) + x[1:-1] + x[2:]
        return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) // np.int16(9)

    def prepare(stack: np.ndarray, threads: int) -> Any:
        out = np.zeros_like(stack)

        def work() -> np.ndarray:
            for x, o in zip(stack, out, strict=True):
                o[1:-1, 1:-1] = frame(x)
            return out

        return work

    return Peer("NumPy", "numpy", prepare)


def nine() -> Peer:
    return from_views(lambda v: sum(v.values()) / 9, 1, 1, interior=True)


def _wide(view: np.ndarray) -> np.ndarray:
    return view.astype(np.int32) if view.dtype.kind in "iu" else view


def mean3() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        total = _wide(v[0, 0]).copy()
        for offset, view in v.items():
            if offset != (0, 0):
                total += view
        if total.dtype.kind == "i":
            return ((total + 4) // 9).astype(v[0, 0].dtype)
        return total / 9

    return from_views(compute, 1, 1)


def gaussian() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        dtype = v[0, 0].dtype
        weights = kernels.bell().astype(np.float32 if dtype != np.float64 else np.float64)
        total = sum(weights[i + 2] * weights[j + 2] * view for (i, j), view in v.items())
        return np.rint(total).astype(dtype) if dtype.kind == "u" else total

    why = "weights in floats, ours of 8 bits for uint8"
    return from_views(compute, 2, 2, tolerance=Tolerance(integers=2), why=why)


def sobel() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        w = {offset: _wide(view) for offset, view in v.items()}
        return (w[-1, 1] - w[-1, -1]) + 2 * (w[0, 1] - w[0, -1]) + (w[1, 1] - w[1, -1])

    return from_views(compute, 1, 1)


def laplace() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        w = {offset: _wide(view) for offset, view in v.items()}
        return w[-1, 0] + w[1, 0] + w[0, -1] + w[0, 1] - 4 * w[0, 0]

    return from_views(compute, 1, 1)


def least3() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        return np.minimum.reduce(list(v.values()))

    return from_views(compute, 1, 1)


def greatest3() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        return np.maximum.reduce(list(v.values()))

    return from_views(compute, 1, 1)


def bilateral() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        centre = v[0, 0]
        total, weights = np.zeros_like(centre), np.zeros_like(centre)
        for (i, j), view in v.items():
            step = view - centre
            weight = np.exp(-(i * i + j * j) / 8 - step * step * 12.5)
            total += weight * view
            weights += weight
        return total / weights

    return from_views(compute, 2, 2, interior=True)


def branches() -> Peer:
    def compute(v: dict[Any, np.ndarray]) -> np.ndarray:
        w = {offset: _wide(view) for offset, view in v.items()}
        across = np.abs(w[0, 1] - w[0, -1])
        down = np.abs(w[1, 0] - w[-1, 0])
        return np.where(
            across > 2 * down,
            w[-1, 0] + w[1, 0],
            np.where(down > 2 * across, w[0, -1] + w[0, 1], 2 * w[0, 0]),
        )

    return from_views(compute, 1, 1, interior=True)


def seven() -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        def work() -> np.ndarray:
            return x[1:-1, 1:-1, 1:-1] * 0.4 + 0.1 * (
                x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1] + x[1:-1, :-2, 1:-1]
                + x[1:-1, 2:, 1:-1] + x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:]
            )  # fmt: skip

        return work

    return Peer("NumPy", "numpy", prepare)


def cube() -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        def work() -> np.ndarray:
            views = shifted(x, (1, 1, 1)).items()
            weights = kernels.CUBE.astype(x.dtype)
            return sum(weights[i + 1, j + 1, k + 1] * view for (i, j, k), view in views)

        return work

    return Peer("NumPy", "numpy", prepare)


def signal() -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        taps = kernels.TAPS.astype(x.dtype)
        return lambda: np.convolve(x, taps, mode="valid")

    return Peer("NumPy", "numpy", prepare)


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], State],
    steps: int,
    near: tuple[int, ...],
) -> Peer:
    """The kernel's own text on shifted views; a call goes on from where the last one ended."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        state = [part.copy() for part in start(x)]
        within = inner(near)

        def work() -> list[np.ndarray]:
            for _ in range(steps):
                made = results(kernel(*(shifted(part, near) for part in state)))
                # All are made before the first is written to; a view would change with it.
                made = [new if new.base is None else new.copy() for new in made]
                for part, new in zip(state, made, strict=True):
                    part[within] = new
            return state

        return work

    return Peer("NumPy", "numpy", prepare)


def life(steps: int) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        def work() -> np.ndarray:
            alive = x
            for _ in range(steps):
                padded = np.pad(alive, 1)
                rows = padded[:-2] + padded[1:-1] + padded[2:]
                count = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - alive
                alive = ((count == 3) | ((count == 2) & (alive == 1))).astype(np.uint8)
            return alive

        return work

    return Peer("NumPy", "numpy", prepare)
