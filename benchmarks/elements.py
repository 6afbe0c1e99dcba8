"""Functions of numbers: what is done to each element of arrays, without neighbours.

The text is ninepoint's and Numba's.  From the one array of a problem a second one is made: the
same numbers in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .peers import Peer, Tolerance, elementwise
from .peers.ours import applied
from .problem import FLOATS, Problem

_MOST = 50


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


def arithmetic(x, y):
    return 2.5 * x * y + x - 1.5


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


def _problem(
    name: str,
    function: Callable[..., Any],
    numpy: Callable[..., Any],
    expression: str = "",
    **options: Any,
) -> Problem:
    result = options.pop("result", None)
    peers: tuple[Peer, ...] = (
        elementwise.vectorized(function, result),
        elementwise.numpy(numpy),
    )
    if expression:
        peers = (peers[0], elementwise.numexpr(expression), *peers[1:])
    return Problem(
        name,
        applied(function),
        peers,
        near=(),
        group="elements",
        everybody=True,
        tolerance=Tolerance(float32=1e-6, float64=1e-14),
        **options,
    )


ELEMENTS: tuple[Problem, ...] = (
    _problem(
        "ufunc: Mandelbrot, at most 50 turns",
        escape,
        _escape_numpy,
        dtypes=("float64",),
        shapes=((1000, 1000),),
        result="int64",
    ),
    _problem(
        "ufunc: sum of roots",
        roots,
        roots,
        "sqrt(x) + sqrt(y)",
        dtypes=FLOATS,
        shapes=((1 << 15,), (1 << 24,)),
        tiny=(100,),
    ),
    _problem(
        "ufunc: arithmetic",
        arithmetic,
        lambda x, y: x.dtype.type(2.5) * x * y + x - x.dtype.type(1.5),
        "2.5 * x * y + x - 1.5",
        dtypes=FLOATS,
        shapes=((1 << 15,), (1 << 24,)),
        tiny=(100,),
    ),
)
