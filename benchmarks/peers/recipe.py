"""The recipe: numba.guvectorize around numba.stencil, as on the Dask blog in 2019."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import peers


def recipe(
    kernel: Callable[..., Any],
    dtypes: tuple[str, ...] = ("float32", "float64"),
    **options: Any,
) -> peers.Peer:
    """The recipe around a kernel, with options of numba.stencil.

    numba.stencil computes unsigned integers modulo 2**64, so that differences of them are not
    numbers that anybody wants; kernels that have some are given for floats only.
    """

    def build(numba: Any, x: np.ndarray, threads: int) -> peers.Work:
        inner = numba.stencil(**options)(kernel)
        kind = numba.from_dtype(x.dtype)[:, :]

        @numba.guvectorize([(kind, kind)], "(n,m)->(n,m)", nopython=True)
        def outer(x: Any, out: Any) -> None:
            out[:] = inner(x)

        return partial(outer, x, np.zeros_like(x))

    return peers.built("the recipe", "numba", build, dtypes=dtypes, interior=True)
