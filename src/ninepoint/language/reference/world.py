"""The world outside the user's function, as the reference lets it see.

The function's own text is run, where it stands, so that breakpoints and prints work.  Only what
its names mean is exchanged (`live`): `math`, NumPy and the conversions of Python by versions that
know the numbers of a kernel, helper functions by the same functions with their own names
exchanged, and stencils by what computes them, at the first point, for whole arrays.
"""

from __future__ import annotations

import math
import pickle
import types
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from ..decorated import with_room
from ..definitions import ArrayFunction, Function, Unusable, index
from ..functions import is_shape
from ..source import rebuild
from ..statistics import ranked
from . import functions
from .number import (
    WRITTEN,
    Constant,
    Literal,
    Number,
    Operation,
    Text,
    bare,
    known,
    literal,
    running,
    see,
    whole,
)
from .views import Field, Window, cut, elementwise, flat


def live(function: Function) -> Any:
    """`function` to be called, with what its names mean exchanged; see the head of this file."""

    def exchanged(value: Any) -> Any:
        if value is index:
            # Not as a function of numbers, which gives literals for literals.
            return lambda *fields: running.get().position(*fields)
        own = _own_version(value)
        if own is not None:
            return _Known(value, own)
        match value:
            case Unusable():
                return exchanged(value.value)
            case Function():
                return made(value)
            case ArrayFunction():
                meaning = value.definition
                return _Stage(value, made(meaning.function) if meaning.pointwise else None)
            case np.ndarray():
                return value.view(Constant)
            case np.generic():
                return known(value)
            case tuple():
                return tuple(map(exchanged, value))
            case _:
                return literal(value)

    def made(one: Function) -> Any:
        constants = {name: exchanged(value) for name, value in one.constants.items()}
        found = rebuild(replace(one, constants=constants))
        found.__code__ = _readable(found.__code__)
        return found

    return with_room(lambda: made(function), function)


def _own_version(value: Any) -> Operation | None:
    """The reference's version of a function; None of any other value."""
    if value is len:
        return _length
    if value is min or value is max:
        return partial(_ordered, value)
    if value is ranked:
        return lambda window, percentage: window.reduce("nanrank", percentage)
    if functions.is_known(value):
        return partial(_called, value)
    if is_shape(value):
        # A shape of a window is an array of constants.
        return lambda *arguments, **options: whole(value, *arguments, **options).view(Constant)
    return None


def _readable(value: Any) -> Any:
    """Code, or a constant of it, whose numbers can be read at other points, and divided by 0.

    A name may hold a number of the text on one path, and an expression of fields on another.
    """
    if isinstance(value, types.CodeType):
        return value.replace(co_consts=_readable(value.co_consts))
    return tuple(map(_readable, value)) if isinstance(value, tuple) else literal(value)


def argument(value: Any) -> Any:
    """A scalar or a small array as the kernel sees it."""
    if type(value) is int:
        return Literal(value)
    return see(value) if isinstance(value, (*WRITTEN, np.generic, np.ndarray)) else value


def _length(value: Any) -> Any:
    """`len(value)`, which may be a number of the kernel: how long a whole array is."""
    shape = getattr(value, "shape", ())
    return shape[0] if shape else len(value)


class _Stage:
    """A stencil: called with fields, it gives fields of what it makes of their arrays.

    A ufunc that is called with numbers is the `plain` function that it was made from.
    """

    def __init__(self, function: Any, plain: Any = None) -> None:
        self._function, self._plain = function, plain
        self._made: dict[Any, Any] = {}

    def __call__(self, /, *arguments: Any, **options: Any) -> Any:
        everything = [*arguments, *options.values()]
        fields = [one for one in everything if isinstance(one, Field)]
        if not fields and self._plain is not None:
            # Given numbers, it is the function that it was made from.
            return self._plain(*arguments, **options)
        # It is the same at every point. Arrays live as long as the kernel that reads them.
        given = (
            id(o.array) if isinstance(o, Field) else pickle.dumps(bare(o)) for o in everything
        )
        key = *given, *options

        if key not in self._made:
            # Each as long as the shortest beside it, but for those of one element.
            shapes = zip_longest(*(one.array.shape[::-1] for one in fields), fillvalue=1)
            lengths = [min({*axis} - {1}, default=1) for axis in shapes][::-1]

            def array(one: Any) -> Any:
                return cut(one.array, lengths) if isinstance(one, Field) else bare(one)

            named = {name: array(one) for name, one in options.items()}
            self._made[key] = self._function.debug(*map(array, arguments), **named)
        made, like = self._made[key], partial(Field, fields[0].kernel, fields[0].name)
        return tuple(map(like, made)) if isinstance(made, tuple) else like(made)


class _Known:
    """A function that the reference has its own version of."""

    def __init__(self, original: Any, call: Operation) -> None:
        self.original, self._call = original, call

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        made = self._call(*arguments, **options)
        everything = [*arguments, *options.values()]
        if isinstance(made, Number) and all(isinstance(v, (Text, *WRITTEN)) for v in everything):
            # Of literals alone: the result is one.
            return known(made.value)
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def _ordered(builtin: Any, *arguments: Any, **options: Any) -> Any:
    """Python's `min` and `max`, of windows element by element."""
    if len(arguments) > 1 and any(isinstance(item, Window) for item in arguments):
        return elementwise(partial(_ordered, builtin, **options), *arguments)
    return functions.ordered(builtin, *arguments, **options)


def _called(function: Any, *arguments: Any, **options: Any) -> Any:
    """`function` of scalars, of windows, or of arrays."""
    name = getattr(function, "__name__", str(function))
    everything = [*arguments, *options.values()]
    if name in ("shape", "ndim", "size") and hasattr(arguments[0], name):
        return getattr(arguments[0], name)
    if any(isinstance(item, Window) for item in flat(everything)):
        reduction = _REDUCTION_NAMES.get(name, name)
        if isinstance(arguments[0], Window):
            if reduction in functions.REDUCTIONS:
                return arguments[0].reduce(reduction, *arguments[1:], **options)
            if name == "average" and not set(options) - {"weights"} and len(arguments) == 1:
                return _average(arguments[0], **options)
        # Of a function of single numbers arrays get that for each element.
        of_numbers = function in functions.EXACT or function in functions.OF_INTEGERS
        of_numbers = of_numbers or isinstance(function, (np.ufunc, type))
        if of_numbers or getattr(function, "__module__", None) == "math":
            return elementwise(partial(_called, function, **options), *arguments)
    elif not any(isinstance(item, (np.ndarray, list, tuple)) for item in arguments) and not (
        name in _MAKERS and getattr(function, "__module__", "") == "numpy"
    ):
        return functions.called(function, *arguments, **options)
    return whole(function, *arguments, **options)


def _average(window: Window, weights: Any = None) -> Any:
    """`np.average`: the sum of the products, by the sum of the weights."""
    if weights is None:
        return window.mean()
    if isinstance(weights, (list, tuple)):
        weights = np.array(bare(weights)).view(Constant)
    if isinstance(weights, Constant):
        items = np.asarray(weights).ravel().tolist()
        total = math.fsum(items) if weights.dtype.kind == "f" else sum(items)
    else:
        total = elementwise(lambda one, weight: weight, window, weights).sum()
    return (window * weights).sum() / total


_MAKERS = {"zeros", "ones", "empty", "full", "arange", "array", "linspace", "eye", "identity"}
_REDUCTION_NAMES = {"amin": "min", "amax": "max"}
