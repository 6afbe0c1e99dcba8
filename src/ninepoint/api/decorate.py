"""`@stencil`: makes a `Stencil` of a function."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ..arrays.accepted import storage_types
from ..arrays.borders import Boundary
from ..arrays.every import per_axis
from ..base.tracebacks import door
from ..base.undisturbed import Later
from ..language.readable import with_room
from ..language.signature import as_read
from ..language.source import capture
from ..lowering.schedule import Schedule
from ..program.definition import Definition
from ..program.options import (
    Options,
    as_it_is,
    check_grid,
    checked_neighborhood,
    overflow_rule,
    parameter_names,
    refuse_unknown,
)
from .stencil import P, Stencil

if TYPE_CHECKING:
    from ..running import recording
else:
    recording = Later("..running.recording", __package__)

# What a decorated function gives at one point.
R = TypeVar("R")

# What stands for a function that is not given: None is something that a mistake gives.
NOTHING = object()

_OPTIONS = (
    "boundary", "cval", "neighborhood", "standard_indexing", "dtype", "overflow", "every",
    "upsample", "fastmath", "schedule", "performance_warnings",
)  # fmt: skip


@overload
def stencil(function: Callable[P, R], /) -> Stencil[P, R]: ...


@overload
def stencil(
    *,
    boundary: Any = "fill",
    cval: Any = 0,
    upsample: int | Sequence[int] = 1,
    neighborhood: Any = None,
    standard_indexing: Any = (),
    dtype: Any = None,
    overflow: str | None = None,
    every: Any = 1,
    fastmath: bool = False,
    schedule: Schedule | None = None,
    performance_warnings: bool = True,
) -> Callable[[Callable[P, R]], Stencil[P, R]]: ...


@as_read
@door
def stencil(
    function: Any = NOTHING,
    /,
    *,
    boundary: Any = "fill",
    cval: Any = 0,
    upsample: int | Sequence[int] = 1,
    neighborhood: Any = None,
    standard_indexing: Any = (),
    dtype: Any = None,
    overflow: str | None = None,
    every: Any = 1,
    fastmath: bool = False,
    schedule: Schedule | None = None,
    performance_warnings: bool = True,
    **unknown: Any,
) -> Any:
    """Make a function of one point and its neighbours apply to whole arrays.

    The function is read, not run: ``x[-1, 0]`` is the neighbour one step back along the first
    axis.  No types are declared; each combination of types is compiled when it first comes.

    Parameters
    ----------
    function : callable
        What happens at one point.  Parameters that are indexed are fields; the others are
        scalars, or small arrays.
    boundary : str, Condition or sequence, optional
        What a neighbour outside the array is: "fill", "keep", "valid", "constant", "nearest",
        "reflect", "mirror" or "wrap", or a value there (`dirichlet`, `neumann`, `robin`).  One
        for all sides, or for each axis one, or a pair (before, after).  This and the options
        that follow are defaults, which a call may override; `Stencil.__call__` has more.
    cval : number, optional
        The value of "fill" and "constant".
    upsample : int or sequence of int, optional
        How many times as many points the result has, along all axes or along each.
    neighborhood : sequence of (int, int), optional
        For each axis the least and the greatest offset the function reads, where that cannot
        be read off its text.
    standard_indexing : str or sequence of str, optional
        Parameters that are small arrays indexed absolutely.
    dtype : dtype or sequence of dtype, optional
        The type of the result, or of each; by default the smallest that holds every result.
    overflow : {"saturate", "wrap"}, optional
        What happens to an integer that `dtype` cannot hold.
    every : int or sequence of int, optional
        Of how many points along each axis one is made.
    fastmath : bool, optional
        Let floats be reordered, as if their arithmetic were exact.
    schedule : Schedule, optional
        Choices of the compiler, such as `Stencil.schedule` gives; they change the speed only.
    performance_warnings : bool, optional
        Whether a `PerformanceWarning` may tell that this stencil is slow, and what to do.

    Returns
    -------
    Stencil
        Called with arrays.

    Raises
    ------
    StencilError
        If the function cannot be a kernel; the message names the place and the cure.
    TypeError, ValueError
        If an option does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary="wrap")
    ... def smooth(x):
    ...     return (x[-1] + 2 * x[0] + x[1]) / 4
    >>> smooth(np.array([4.0, 0.0, 0.0, 0.0]))
    array([2., 1., 0., 1.])
    """
    refuse_unknown("stencil", unknown, _OPTIONS)
    options = Options(
        Boundary.of(boundary),
        as_it_is(cval),
        checked_neighborhood(neighborhood),
        parameter_names(standard_indexing),
        storage_types(dtype),
        overflow_rule(overflow),
        bool(fastmath),
        schedule or Schedule(),
        performance_warnings=bool(performance_warnings),
        every=per_axis("every", every),
        upsample=per_axis("upsample", upsample),
    )
    check_grid(options.every, options.upsample)

    def make(plain: types.FunctionType) -> Stencil:
        return Stencil(Definition(capture(plain), options, plain))

    return decorator("stencil", function, make)


def decorator(kind: str, function: Any, make: Callable[[types.FunctionType], Stencil]) -> Any:
    """What makes a stencil of a function; or what it makes of this one, if one is given."""

    @door
    def decorate(function: Callable[..., Any]) -> Stencil:
        plain = _python_function(function, kind)
        return with_room(functools.partial(make, plain), plain)

    return decorate if function is NOTHING else decorate(function)


def _python_function(value: Any, kind: str) -> types.FunctionType:
    """What a decorator of some kind was given, if that is a function with a text.

    Raises
    ------
    TypeError
        If it is not; says what it is instead, and what to do.
    """
    plain = getattr(value, "py_func", value)
    if isinstance(value, Stencil):
        raise TypeError(f"'{value.__name__}' is a {value._kind} already.")
    if not isinstance(plain, types.FunctionType) or _is_filter(plain):
        raise TypeError(f"a {kind} is made from a Python function, {_not_from(value, kind)}.")
    return plain


def _is_filter(function: types.FunctionType) -> bool:
    """Whether it is a function of this package that takes whole arrays."""
    own = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return own and bool(function.__code__.co_flags & inspect.CO_VARARGS)


def _not_from(value: Any, kind: str) -> str:
    """Say what was decorated instead of a function, and what to do."""
    name = getattr(value, "__name__", "")
    if kind == "ufunc" and isinstance(value, str | list):
        words = "text" if isinstance(value, str) else "a list"
        return f"not from {words}; no types are declared, so write @ufunc alone"
    match value:
        case str() if value == "constant":
            return 'not from text; what Numba calls "constant" is @stencil(boundary="fill")'
        case None:
            return "not from None; a function that ends without 'return' gives None"
        case str():
            return f"not from text; write @stencil(boundary={value!r})"
        case type():
            seen = "neighbours" if kind == "stencil" else "elements"
            return f"not from the class '{name}'; decorate a function of the {seen}"
        case types.MethodType():
            return f"not from the method '{name}'; a kernel has no 'self', so define it outside"
        case staticmethod() | classmethod():
            return f"not from a {type(value).__name__}; put @{type(value).__name__} above @{kind}"
        case functools.partial():
            return "not from a partial; pass the values at the call, or give them as defaults"
        case np.ndarray() | recording.Lazy():
            return "not from an array; decorate a function, and call that with the array"
        case types.ModuleType():
            return f"not from the module '{name}'; name a function of it"
        case np.ufunc() | types.BuiltinFunctionType():
            return f"not from '{name}', which has no source; call it in a function of your own"
        case types.FunctionType():
            return f"not from '{name}', which makes whole arrays; call it with an array"
        case _ if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
            return f"not from what another decorator made of '{name}'; leave that out"
        case _ if callable(value):
            found = type(value).__name__
            return f"not from an object of type '{found}'; write a function that says the same"
        case _:
            return f"not from a value of type '{type(value).__name__}'"
