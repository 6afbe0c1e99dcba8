"""Devito: C from symbolic equations on a grid, with OpenMP for more than one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import peers
from ..kernels import State, results


def _configured(devito: Any, threads: int) -> None:
    devito.configuration["log-level"] = "ERROR"
    devito.configuration["language"] = "openmp" if threads > 1 else "C"


class _Around:
    """A function of Devito that is asked for a neighbour by its offset."""

    def __init__(self, function: Any, axes: tuple[Any, ...]) -> None:
        self.function, self.axes = function, axes

    def __getitem__(self, offset: tuple[int, ...]) -> Any:
        pairs = zip(self.axes, offset, strict=True)
        return self.function.subs({axis: axis + k * axis.spacing for axis, k in pairs if k})


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], State],
    steps: int,
    near: tuple[int, ...],
    history: bool = False,
) -> peers.Peer:
    """The kernel's own text in equations, and Devito's own loop over time.

    With `history` the second state is what the first was one step before, which is an order
    in time to Devito.  A call goes on from where the last one ended.
    """

    def build(devito: Any, x: np.ndarray, threads: int) -> peers.Work:
        class Inner(devito.SubDomain):  # type: ignore[misc, name-defined]
            name = "inner"

            def define(self, dimensions: Any) -> Any:
                return {d: ("middle", n, n) for d, n in zip(dimensions, near, strict=True)}

        grid = devito.Grid(shape=x.shape, dtype=x.dtype.type)
        inner = Inner(grid=grid)
        fields = []
        for k, part in enumerate(start(x)[: 1 if history else None]):
            field = devito.TimeFunction(
                name=f"u{k}", grid=grid, space_order=2 * near[0], time_order=2 if history else 1
            )
            # All buffers, for the border is in none of them written to.
            field.data[:] = part
            fields.append(field)
        known = [fields[0], fields[0].backward] if history else fields
        made = results(kernel(*(_Around(field, grid.dimensions) for field in known)))
        operator = devito.Operator(
            [
                devito.Eq(field.forward, value, subdomain=inner)
                for field, value in zip(fields, made, strict=False)
            ]
        )
        done = [0]

        def work() -> list[np.ndarray]:
            first, done[0] = done[0], done[0] + steps
            operator.apply(time_m=first, time_M=done[0] - 1)
            last = range(done[0], done[0] - 2, -1) if history else [done[0]]
            return [np.asarray(field.data[k % len(field.data)]) for field in fields for k in last]

        return work

    return peers.built("Devito", "devito", build, begin=_configured, threads=True)
