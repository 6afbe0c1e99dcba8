"""Ufuncs and gufuncs: functions of numbers, and of whole core arrays.

The text is ours and Numba's, which declares types.  From the one array of a problem others are
made: the same numbers in another order.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..peers import Tolerance, built, jax, numpy, ours
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


def density(salt, heat, pressure):
    """That of sea water [kg/m3]: TEOS-10 manual, appendix K, as in pyhpc-benchmarks."""
    s, t, p = 35 * salt, 30 * heat, 5000 * pressure
    root = np.sqrt(s)
    above = (
        9.998420897506056e2
        + t * (2.839940833161907 + t * (-3.147759265588511e-2 + t * 1.181805545074306e-3))
        + s * (-6.698001071123802 + t * (-2.986498947203215e-2 + t * 2.327859407479162e-4))
        + s * root * (-3.988822378968490e-2 + t * (5.095422573880500e-4
        + t * (-1.426984671633621e-5 + t * 1.645039373682922e-7)))
        + p * (-2.233269627352527e-2 + t * (-3.436090079851880e-4 + t * 3.726050720345733e-6))
        + p * s * (-1.806789763745328e-4 + t * 6.876837219536232e-7)
        + p * p * (-3.087032500374211e-7 + s * 1.550932729220080e-10
        + t * (-1.988366587925593e-8 - t * 1.061519070296458e-11))
    )  # fmt: skip
    below = (
        1 + t * (2.775927747785646e-3 + t * (-2.349607444135925e-5
        + t * (1.119513357486743e-6 + t * 6.743689325042773e-10)))
        + s * (-7.521448093615448e-3 + s * 5.419326551148740e-6 + t * (-2.764306979894411e-5
        + t * (1.262937315098546e-7 + t * (9.527875081696435e-10 - t * 1.811147201949891e-11))))
        + s * root * (-3.303308871386421e-5 + t * (3.801564588876298e-7
        + t * (-7.672876869259043e-9 + t * (-4.634182341116144e-11 + t * 2.681097235569143e-12))))
        + p * (-2.742185394906099e-5 + t * (-3.212746477974189e-7
        + t * (3.191413910561627e-9 - t * 1.931012931541776e-12)))
        + p * s * (-1.105097577149576e-7 + t * 6.211426728363857e-10)
        + p * p * (-1.119011592875110e-10
        + t * (-1.941660213148725e-11 - t * 1.864826425365600e-14 + s * 1.119522344879478e-14)
        + p * (-1.200507748551599e-15 + t * 6.057902487546866e-17))
    )  # fmt: skip
    return above / below


def _several(x: np.ndarray, count: int) -> list[np.ndarray]:
    """An array and others, of the same numbers backwards, or one element on."""
    return [x, np.flip(x).copy(), np.roll(x, 1, 0)][:count]


def _ufunc(
    name: str,
    function: Any,
    count: int = 2,
    by_numpy: Any = None,
    result: str = "",
    **options: Any,
) -> Problem:
    """A function of so many arrays; without a text for NumPy its own is that, and JAX's."""

    def own(npt: Any, x: np.ndarray, threads: int) -> Any:
        return ours.IntoResult(partial(npt.ufunc(function), *_several(x, count), threads=threads))

    def vectorized(numba: Any, x: np.ndarray, threads: int) -> Any:
        """With types declared, as its fastest calls have them."""
        kind, kinds = result or x.dtype.name, ", ".join([x.dtype.name] * count)
        target = "parallel" if threads > 1 else "cpu"
        made = numba.vectorize([f"{kind}({kinds})"], target=target)(function)
        return partial(made, *_several(x, count), out=np.empty(x.shape, kind))

    def in_numpy(numpy: Any, x: np.ndarray, threads: int) -> Any:
        return partial(by_numpy or function, *_several(x, count))

    peers = [built("numba.vectorize", "numba", vectorized), built("NumPy", "numpy", in_numpy)]
    if by_numpy is None:
        peers.append(jax.same_text(function, lambda x: _several(x, count)))
    return _problem(f"ufunc: {name}", ours=ours.calling(own), peers=tuple(peers), **options)


_SIGNATURE = "(n,k),(k,m)->(n,m)"


def product(a, b, out):
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
    return partial(declared(product), *_turned(x), np.empty((*x.shape[:-1], x.shape[-2])))


FUNCTIONS: tuple[Problem, ...] = (
    _ufunc(
        "Mandelbrot, at most 50 turns",
        escape,
        by_numpy=_escape_numpy,
        dtypes=("float64",),
        shapes=((1000, 1000),),
        result="int64",
    ),
    _ufunc("sum of roots", roots, dtypes=FLOATS, shapes=((1 << 15,), (1 << 24,))),
    _ufunc("sea water's density, 48 terms", density, 3, dtypes=("float64",), shapes=((1 << 22,),)),
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
