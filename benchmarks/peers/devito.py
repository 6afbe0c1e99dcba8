"""Devito: C from symbolic equations on a grid, with OpenMP for more than one thread."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import kernels
from . import Peer


def _volume(weights: np.ndarray) -> Peer:
    def prepare(x: np.ndarray, threads: int) -> Any:
        import devito

        devito.configuration["log-level"] = "ERROR"
        devito.configuration["language"] = "openmp" if threads > 1 else "C"
        grid = devito.Grid(shape=x.shape, dtype=x.dtype.type)
        given = devito.Function(name="given", grid=grid, space_order=2)
        out = devito.Function(name="out", grid=grid, space_order=0)
        given.data[:] = x
        axes = grid.dimensions
        total = sum(
            float(weights[tuple(step + 1 for step in steps)])
            * given.subs({a: a + s * a.spacing for a, s in zip(axes, steps, strict=True) if s})
            for steps in itertools.product((-1, 0, 1), repeat=3)
            if weights[tuple(step + 1 for step in steps)]
        )
        operator = devito.Operator(devito.Eq(out, total))

        def work() -> np.ndarray:
            operator.apply()
            return out.data

        return work

    return Peer("Devito", "devito", prepare, threads=True, interior=True)


def seven() -> Peer:
    return _volume(kernels.SEVEN)


def cube() -> Peer:
    return _volume(kernels.CUBE)
