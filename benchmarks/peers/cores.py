"""Functions of core arrays: ours return their results, Numba's write into arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import Peer
from .ours import NAME, IntoResult

# The inputs, from the one array of a problem; results as one array, to be compared.
Inputs = Callable[[np.ndarray], tuple[np.ndarray, ...]]

EAGER, DYNAMIC = "numba.guvectorize", "numba.guvectorize, types as they come"


def flat(results: Any) -> np.ndarray:
    """All results in one row."""
    several = results if isinstance(results, tuple) else (results,)
    return np.concatenate([np.ravel(one) for one in several])


def ours(function: Callable[..., Any], signature: str, inputs: Inputs) -> Peer:
    """Our gufunc."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        gufunc = npt.gufunc(signature)(function)
        # Small calls are not shared, and are written without options.
        options = {"threads": threads} if x.size > 4096 else {}
        return IntoResult(partial(gufunc, *inputs(x), **options))

    return Peer(NAME, "ninepoint", prepare, threads=True, finish=flat)


def numbas(
    function: Callable[..., Any],
    signature: str,
    inputs: Inputs,
    outs: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    eager: bool,
) -> Peer:
    """Numba's gufunc of a function that writes, for types that are declared or that come."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import numba

        arrays, results = inputs(x), outs(x)
        cores = signature.replace("->", ",")[1:-1].split("),(")
        axes = [core.count(",") + bool(core) for core in cores]
        kinds = [
            numba.types.Array(numba.from_dtype(one.dtype), max(1, ndim), "A")
            for one, ndim in zip((*arrays, *results), axes, strict=True)
        ]
        declared = ([numba.void(*kinds)],) if eager else ()
        made = numba.guvectorize(*declared, signature, nopython=True)(function)

        def work() -> Any:
            made(*arrays, *results)
            return results

        return work

    return Peer(EAGER if eager else DYNAMIC, "numba", prepare, finish=flat)


def numpys(function: Callable[..., Any], inputs: Inputs) -> Peer:
    """NumPy's own functions of whole stacks."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        return partial(function, *inputs(x))

    return Peer("NumPy", "numpy", prepare, finish=flat)
