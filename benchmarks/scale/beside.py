"""Stencils on Dask arrays beside the same ones given to map_blocks and map_overlap."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ninepoint as npt

from .kernels import blur4
from .row import Row
from .watching import equal, made, varied


@npt.stencil(boundary="nearest")
def slope_down(x):
    """The slope along the first axis."""
    return (x[1, 1] + 2 * x[1, 0] + x[1, -1] - x[-1, 1] - 2 * x[-1, 0] - x[-1, -1]) * 0.125


@npt.stencil(boundary="nearest")
def slope_right(x):
    """The slope along the last axis."""
    return (x[1, 1] + 2 * x[0, 1] + x[-1, 1] - x[1, -1] - 2 * x[0, -1] - x[-1, -1]) * 0.125


@npt.stencil(boundary="nearest")
def corners(x):
    """Where the slopes around a point differ in all directions."""
    p = slope_down(x)
    q = slope_right(x)
    a = (p[-1:2, -1:2] * p[-1:2, -1:2]).sum()
    b = (q[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    c = (p[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    return a * b - c * c - 0.04 * (a + b) * (a + b)


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    for stencil in (corners, blur4):
        equal(stencil, varied((60, 50), 17, "f4"))
    side = 2000 if quick else 8000
    plate = made((side, side), side // 4, "f4")
    stack = made((16 if quick else 64, 1000, 1000), (4, -1, -1), "f4")
    flat, deep = np.empty((0, 0), "f4"), np.empty((0, 0, 0), "f4")
    for name, stencil, far in (("corners", corners, 2), ("four blurs", blur4, 4)):
        options = {"depth": far, "boundary": "nearest", "dtype": "f4", "meta": flat}
        cut = _ratio(
            lambda s=stencil: s(plate), lambda s=stencil, o=options: plate.map_overlap(s, **o)
        )
        yield Row(f"{name}, cut: time over map_overlap", cut, 1.0)
        whole = _ratio(
            lambda s=stencil: s(stack),
            lambda s=stencil: stack.map_blocks(s, dtype="f4", meta=deep),
        )
        yield Row(f"{name}, a stack: time over map_blocks", whole, 1.0)


def _ratio(ours: Callable[[], Any], other: Callable[[], Any]) -> float:
    """The middle of the ratios of computations that take turns, on two threads."""
    found = []
    for _ in range(8):
        took = []
        for lazy in (ours, other):
            result = lazy().max()
            begin = time.perf_counter()
            result.compute(scheduler="threads", num_workers=2)
            took.append(time.perf_counter() - begin)
        found.append(took[0] / took[1])
    return statistics.median(found[1:])
