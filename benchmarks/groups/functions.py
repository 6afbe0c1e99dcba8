"""Ufuncs and gufuncs: functions of numbers, and of whole core arrays.

The text is ours and Numba's.  From the one array of a problem another is made: the same numbers in
another order.  Our gufuncs return their results and declare no types, Numba's write into arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..peers import Peer, Tolerance, built, numpy, ours
from ..problem import FLOATS, Problem

GROUP = "functions"

_MOST = 50

_problem = partial(
    Problem, group=GROUP, everybody=True, tolerance=Tolerance(float32=1e-6, float64=1e-14)
)


def escape(x, y):
    c = complex(3 * x - 2, 2 * y - 1)
    z = 0j
    for n in range(_MOST):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return n
    return _MOST


def roots(x, y):
    return np.sqrt(x) + np.sqrt(y)


def _escape_numpy(x: Any, y: Any) -> Any:
    c = (3 * x - 2) + 1j * (2 * y - 1)
    z, found = np.zeros_like(c), np.full(c.shape, _MOST)
    inside = np.ones(c.shape, bool)
    with np.errstate(all="ignore"):
        for n in range(_MOST):
            z = z * z + c
            out = inside & ~(z.real**2 + z.imag**2 < 4)
            found[out], inside = n, inside & ~out
    return found


def _second(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An array and another one, of the same numbers backwards."""
    return x, np.flip(x).copy()


def _vectorized(function: Callable[..., Any], result: str | None) -> Peer:
    """numba.vectorize with types declared, as its fastest calls have them."""

    def build(numba: Any, x: np.ndarray, threads: int) -> Any:
        kind = x.dtype.name
        compiled = numba.vectorize([f"{result or kind}({kind}, {kind})"], nopython=True)(function)
        return partial(compiled, *_second(x), out=np.empty(x.shape, result or x.dtype))

    return built("numba.vectorize", "numba", build)


def _ufunc(
    name: str,
    function: Callable[..., Any],
    by_numpy: Callable[..., Any],
    result: str | None = None,
    **options: Any,
) -> Problem:
    def own(npt: Any, x: np.ndarray, threads: int) -> Any:
        return ours.IntoResult(partial(npt.ufunc(function), *_second(x), threads=threads))

    def in_numpy(numpy: Any, x: np.ndarray, threads: int) -> Any:
        return partial(by_numpy, *_second(x))

    return _problem(
        f"ufunc: {name}",
        ours=ours.calling(own),
        peers=(_vectorized(function, result), built("NumPy", "numpy", in_numpy)),
        **options,
    )


_SIGNATURE = "(n,k),(k,m)->(n,m)"


def product(a, b):
    out = np.empty((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total
    return out


def product_into(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


def _turned(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x, np.swapaxes(x, -1, -2).copy()


def _product(npt: Any, x: np.ndarray, threads: int) -> Any:
    # Small calls are not shared, and are written without options.
    more = {"threads": threads} if x.size > 4096 else {}
    return ours.IntoResult(partial(npt.gufunc(_SIGNATURE)(product), *_turned(x), **more))


def _guvectorized(numba: Any, x: np.ndarray, threads: int) -> Any:
    """Numba's gufunc of a function that writes, for types that are declared."""
    kind = numba.float64[:, :]
    declared = numba.guvectorize([(kind, kind, kind)], _SIGNATURE, nopython=True)
    return partial(declared(product_into), *_turned(x), np.empty((*x.shape[:-1], x.shape[-2])))


FUNCTIONS: tuple[Problem, ...] = (
    _ufunc(
        "Mandelbrot, at most 50 turns",
        escape,
        _escape_numpy,
        dtypes=("float64",),
        shapes=((1000, 1000),),
        result="int64",
    ),
    _ufunc(
        "sum of roots",
        roots,
        roots,
        dtypes=FLOATS,
        shapes=((1 << 15,), (1 << 24,)),
        tiny=(100,),
    ),
    _problem(
        "gufunc: product of matrices",
        ours=ours.calling(_product),
        peers=(
            built("numba.guvectorize", "numba", _guvectorized),
            numpy.giving(lambda n, x: n.matmul(*_turned(x))),
        ),
        dtypes=("float64",),
        shapes=((3, 3), (16, 200, 200)),
        tiny=(3, 5, 4),
    ),
)
