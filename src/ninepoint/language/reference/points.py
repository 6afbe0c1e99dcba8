"""A function of numbers, called with one element of each array at a time.

This is all that a ufunc means: the arrays broadcast as NumPy's do, and the result at a point is
what the user's function gives for the elements that stand there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arguments import argument, call_arguments, results
from .borders import Array
from .evaluate import results_if_any
from .number import elsewhere, see
from .world import rebound


def points(
    function: Callable[..., Any],
    arrays: Mapping[str, Array],
    *,
    scalars: Mapping[str, Any] | None = None,
) -> tuple[Array, ...]:
    """Call `function` for every point of the arrays, which broadcast.

    Parameters
    ----------
    function : callable
        The user's function, undecorated.
    arrays : mapping of arrays
        One for each parameter that is an element.
    scalars : mapping, optional
        Values of other parameters, numbers or small arrays; those left out take their defaults.

    Returns
    -------
    tuple of arrays of object
        One for each result, as `evaluate` gives them.
    """
    called = rebound(function)
    whole = np.broadcast_arrays(*map(np.asarray, arrays.values()))
    others = {name: argument(value) for name, value in (scalars or {}).items()}

    def at(point: tuple[int, ...]) -> tuple[Any, ...] | None:
        elements = {name: see(array[point]) for name, array in zip(arrays, whole, strict=True)}
        positional, named = call_arguments(function, others | elements)
        return results_if_any(called, positional, named, function)

    shape = whole[0].shape
    token = elsewhere.set(_nowhere)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            known = {point: at(point) for point in np.ndindex(shape)}
            if not known:
                # Only how many results there are can be told, by elements of any value.
                blank = {name: see(array.dtype.type(1)) for name, array in arrays.items()}
                positional, named = call_arguments(function, others | blank)
                count = len(results(called(*positional, **named)))
                return tuple(np.empty(shape, object) for _ in range(count))
    finally:
        elsewhere.reset(token)
    count = max(len(values) for values in known.values() if values) if any(known.values()) else 1
    undefined = (np.float64(np.nan),) * count
    outputs = np.empty((count, *shape), object)
    for point, values in known.items():
        outputs[(slice(None), *point)] = values or undefined
    # Not `outputs` itself, of which a result without axes would be a bare number.
    return tuple(outputs[k, ...] for k in range(count))


def _nowhere(value: Any, index: Any) -> Any:
    raise IndexError("a function of numbers has no neighbours")
