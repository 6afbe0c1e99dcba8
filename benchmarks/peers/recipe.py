"""The recipe: numba.guvectorize around numba.stencil, as on the Dask blog in 2019."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import Peer, Tolerance


def recipe(
    kernel: Callable[[bool], Callable[..., Any]],
    ndim: int = 2,
    neighborhood: tuple[tuple[int, int], ...] | None = None,
    tolerance: Tolerance | None = None,
    dtypes: tuple[str, ...] = ("int8", "float32", "float64"),
) -> Peer:
    """The recipe around `kernel(single)`, where `single` says that the array is float32.

    numba.stencil computes unsigned integers modulo 2**64, so that differences of them are not
    numbers that anybody wants; kernels that have some are given for floats only.
    """

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        options = {} if neighborhood is None else {"neighborhood": neighborhood}
        inner = numba.stencil(**options)(kernel(x.dtype == np.float32))
        kind = numba.from_dtype(x.dtype)[(slice(None),) * ndim]
        axes = "(" + ",".join("nmk"[:ndim]) + ")"

        @numba.guvectorize([(kind, kind)], f"{axes}->{axes}", nopython=True)
        def outer(x: Any, out: Any) -> None:
            out[:] = inner(x)

        out = np.zeros_like(x)
        return lambda: outer(x, out)

    return Peer("the recipe", "numba", prepare, dtypes=dtypes, interior=True, tolerance=tolerance)


def jitted(kernel: Callable[..., Any]) -> Peer:
    """numba.stencil inside `njit`, without the gufunc: the recipe for one array."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        inner = numba.stencil(kernel)

        @numba.njit
        def outer(x: Any) -> Any:
            return inner(x)

        return lambda: outer(x)

    return Peer("njit of numba.stencil", "numba", prepare, interior=True)


def stepping(kernel: Callable[..., Any], steps: int) -> Peer:
    """numba.stencil in a loop over time; the border stays."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        inner = numba.stencil(kernel)

        @numba.njit
        def outer(x: Any) -> Any:
            state = x.copy()
            for _ in range(steps):
                state[1:-1, 1:-1] = inner(state)[1:-1, 1:-1]
            return state

        return lambda: outer(x)

    return Peer("njit of numba.stencil", "numba", prepare)
