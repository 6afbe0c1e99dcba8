"""The world outside the user's function, as the reference lets it see.

The function itself is called, its own code object, so that breakpoints and prints work.
Only what it finds under its global and closed-over names is exchanged (`rebound`): `math`,
NumPy and the conversions of Python by versions that know the numbers of a kernel, helper
functions by the same functions with their own names exchanged, `numba.njit` functions by
the Python functions that they were made from, and stencils by what computes them, at the
first point, for whole arrays.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...shapes import is_shape
from ..definitions import codes_in
from ..dtypes import kind_of
from ..positions import index
from ..readable import frozen
from ..source import ArrayFunction
from ..statistics import REFERENCE, is_own
from . import functions
from .number import Literal, Number, literal, place, plain, see
from .probe import probe_among
from .reductions import REDUCTIONS
from .views import Constant, Field, Table, Window, bare, elementwise, flat, whole


def rebound(function: Any) -> Any:
    """`function` with the names that it looks up exchanged; see the head of this file."""
    memo: dict[int, Any] = {}
    # What is made here stays here: nothing else may get its identity, by which copies are known.
    made: list[Any] = []
    inverts = _inverts(function, set())

    def exchanged(value: Any) -> Any:
        if value is len:
            return _Known(value, _length)
        if value is index:
            # Not as a function of numbers, which gives literals for literals.
            return _position
        if is_own(value):
            return _Known(value, lambda w, *a: w.reduce(REFERENCE[value.__name__], *a))
        if value is min or value is max:
            return _Known(value, partial(_ordered, value))
        if isinstance(value, (bool, np.bool_)) and inverts:
            return Literal(bool(value))
        if isinstance(value, ArrayFunction):
            if not value.pointwise:
                return _Stage(value)
            made.append(frozen(value.definition.function))
            return _Stage(value, clone(made[-1]))
        if isinstance(value, (types.ModuleType, types.SimpleNamespace)):
            return _Names(value, exchanged)
        if isinstance(value, np.ndarray):
            return value.view(Constant)
        if isinstance(value, np.generic):
            # Integers and truth values are literals, floats are strong.
            value = plain(value)
            value = int(value) if isinstance(value, np.uint64) else value
            return literal(value) if isinstance(value, int) else Number(value)
        if type(value) in (int, float, complex):
            return literal(value)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(exchanged(item) for item in value)
        if hasattr(value, "py_func"):
            return exchanged(value.py_func)
        if functions.is_known(value):
            return _Known(value, partial(_called, value))
        if is_shape(value):
            return _Known(value, partial(_shape, value))
        return clone(value) if isinstance(value, types.FunctionType) else value

    def clone(original: types.FunctionType) -> types.FunctionType:
        if id(original) in memo:
            return memo[id(original)]  # type: ignore[no-any-return]
        names: dict[str, Any] = {"__builtins__": builtins, "__name__": original.__module__}
        cells = tuple(types.CellType() for _ in original.__closure__ or ())
        code = _readable(original.__code__, inverts)
        copy = types.FunctionType(code, names, original.__name__, original.__defaults__, cells)
        copy.__kwdefaults__ = original.__kwdefaults__
        memo[id(original)] = copy
        for name in _names(original.__code__):
            if name in original.__globals__:
                names[name] = exchanged(original.__globals__[name])
            elif hasattr(builtins, name):
                names[name] = exchanged(getattr(builtins, name))
        for cell, source in zip(cells, original.__closure__ or (), strict=True):
            if source != types.CellType():
                cell.cell_contents = exchanged(source.cell_contents)
        return copy

    return exchanged(function)


def _readable(value: Any, truths: bool) -> Any:
    """Code, or a constant of it, whose numbers can be read at other points, and divided by 0.

    A name may hold a number of the text on one path, and an expression of fields on another.
    """
    if isinstance(value, types.CodeType):
        return value.replace(co_consts=_readable(value.co_consts, truths))
    if isinstance(value, tuple):
        return tuple(_readable(one, truths) for one in value)
    return Literal(value) if truths and isinstance(value, bool) else literal(value)


def python_function(function: Any) -> Any:
    """The Python function in a `numba.njit` function, or the function itself."""
    return getattr(function, "py_func", function)


def call_arguments(function: Any, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to call `function` with; defaults are numbers of the kernel too."""
    positional, named = [], {}
    for name, parameter in inspect.signature(python_function(function)).parameters.items():
        if name in given:
            value = given[name]
        elif parameter.default is not parameter.empty:
            value = argument(parameter.default)
        else:
            raise TypeError(f"no value for the parameter {name!r}")
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return positional, named


def argument(value: Any) -> Any:
    """A scalar or a small array as the kernel sees it."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.view(Table)
    number = isinstance(value, (bool, int, float, complex, np.number, np.bool_, np.ndarray))
    number = number or (isinstance(value, np.generic) and kind_of(value.dtype) == "f")
    if type(value) is int:
        return Literal(value)
    return see(value[()] if isinstance(value, np.ndarray) else value) if number else value


def _length(value: Any) -> Any:
    """`len(value)`, which may be a number of the kernel: how long a whole array is."""
    shape = getattr(value, "shape", ())
    return shape[0] if shape else len(value)


def _position(*fields: Any) -> Any:
    """`npt.index(x)`, or `npt.index()` for the position among the results."""
    if len(fields) > 1:
        raise TypeError("npt.index takes one field, or nothing")
    return fields[0].place if fields else place.get()()


class _Stage:
    """A stencil: called with fields, it gives fields of what it makes of their arrays.

    A ufunc that is called with numbers is the `plain` function that it was made from.
    """

    def __init__(self, function: ArrayFunction, plain: Any = None) -> None:
        self._function = function
        self._plain = plain
        self._made: dict[Any, Any] = {}

    def __call__(self, /, *arguments: Any, **options: Any) -> Any:
        everything = [*arguments, *options.values()]
        if probe_among(everything) is not None:
            raise TypeError("a kernel that calls stencils needs its footprints")
        field = next((item for item in everything if isinstance(item, Field)), None)
        if field is None and self._function.pointwise:
            # Given numbers, it is the function that it was made from.
            return self._plain(*arguments, **options)
        assert field is not None
        fields = [one for one in everything if isinstance(one, Field) and one.array is not None]
        values = [
            _among(one, fields) if isinstance(one, Field) else bare(one) for one in everything
        ]
        key = (len(arguments), *options, *map(_identity, everything))
        if key not in self._made:
            named = dict(zip(options, values[len(arguments) :], strict=True))
            # The arrays are kept as well, so that nothing else gets their identity.
            self._made[key] = self._function.debug(*values[: len(arguments)], **named), values
        made, _ = self._made[key]
        assert field.like is not None
        like = partial(field.like, finer=self._factors(options))
        return tuple(map(like, made)) if isinstance(made, tuple) else like(made)

    def _factors(self, options: dict[str, Any]) -> tuple[int, ...]:
        """By how much longer its results are than its fields."""
        definition = self._function.definition
        given = options.get("upsample")
        given = definition.options.upsample if given is None else given
        return (plain(given),) * definition.rank if not isinstance(given, tuple) else given


def _among(field: Field, others: Sequence[Field]) -> Any:
    """The array of a field, as long as those of others if it is the longer for being finer."""
    whole, cut = field.array, field.beside
    if cut is None:
        return whole
    for axis in range(-whole.ndim, 0):
        lengths = {other.array.shape[axis] for other in others if other.array.ndim >= -axis}
        if whole.shape[axis] != cut.shape[axis] and cut.shape[axis] in lengths - {1}:
            return cut
    return whole


def _shape(function: Any, *arguments: Any, **options: Any) -> Any:
    """A shape of a window, which is an array of constants."""
    options = {name: bare(value) for name, value in options.items()}
    return function(*map(bare, arguments), **options).view(Constant)


def _identity(argument: Any) -> Any:
    """What tells an argument from others: a field is told by its array, which is not copied."""
    if isinstance(argument, Field):
        return id(argument.array)
    value = bare(argument)
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return type(value), repr(value)


class _Known:
    """A function that the reference has its own version of."""

    def __init__(self, original: Any, call: Callable[..., Any]) -> None:
        self.original, self._call = original, call
        self.__doc__ = getattr(original, "__doc__", None)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        made = self._call(*arguments, **options)
        everything = [*arguments, *options.values()]
        if isinstance(made, Number) and all(isinstance(v, _WRITTEN) for v in everything):
            # Of literals alone: the result is one.
            value = made.value
            if isinstance(value, bool):
                return Literal(value)
            return literal(int(value)) if isinstance(value, (int, np.uint64)) else made
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __repr__(self) -> str:
        return repr(self.original)


_WRITTEN = (bool, int, float)


def _ordered(builtin: Any, *arguments: Any, **options: Any) -> Any:
    """Python's `min` and `max`, of windows element by element, and of probes."""
    leaves = list(flat(arguments))
    probe = probe_among(leaves)
    if probe is not None:
        return probe.trace.join(builtin.__name__, *leaves)
    if len(arguments) > 1 and any(isinstance(item, Window) for item in arguments):
        return elementwise(partial(_ordered, builtin, **options), *arguments)
    return functions.ordered(builtin, *arguments, **options)


def _inverts(function: Any, seen: set[int]) -> bool:
    """Whether `~` stands in a function, or in one that it may call.

    There Python's own True and False are exchanged as well: its `~True` is -2.
    """
    function = python_function(function)
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return False
    seen.add(id(function))
    cells = [cell for cell in function.__closure__ or () if cell != types.CellType()]
    found = [cell.cell_contents for cell in cells]
    found += [function.__globals__.get(name) for name in _names(function.__code__)]
    steps = (step for one in codes_in(function.__code__) for step in dis.get_instructions(one))
    if any(step.opname == "UNARY_INVERT" for step in steps):
        return True
    return any(_inverts(one, seen) for one in found)


class _Names:
    """A module whose functions are exchanged as they are looked up."""

    def __init__(self, module: Any, exchanged: Callable[[Any], Any]) -> None:
        self._module, self._exchanged = module, exchanged

    def __getattr__(self, name: str) -> Any:
        return self._exchanged(getattr(self._module, name))

    def __repr__(self) -> str:
        return repr(self._module)


def _called(function: Any, *arguments: Any, **options: Any) -> Any:
    """`function` of scalars, of windows, of probes, or of arrays."""
    name = getattr(function, "__name__", str(function))
    everything = [*arguments, *options.values()]
    if name in ("shape", "ndim", "size") and hasattr(arguments[0], name):
        return getattr(arguments[0], name)
    if any(isinstance(item, Window) for item in flat(everything)):
        reduction = _REDUCTION_NAMES.get(name, name)
        if isinstance(arguments[0], Window):
            if reduction in REDUCTIONS:
                return arguments[0].reduce(reduction, *arguments[1:], **options)
            if name == "average" and not set(options) - {"weights"} and len(arguments) == 1:
                return _average(arguments[0], **options)
        if not _elementwise(function):
            return whole(function, *arguments, **options)
        return elementwise(partial(_called, function, **options), *arguments)
    probe = probe_among(flat(everything))
    if probe is not None:
        return probe.trace.join(name, *flat(everything))
    if any(isinstance(item, (np.ndarray, list, tuple)) for item in arguments) or (
        name in _MAKERS and getattr(function, "__module__", "") == "numpy"
    ):
        result = function(*map(bare, arguments), **{k: bare(v) for k, v in options.items()})
        return result.view(Table) if isinstance(result, np.ndarray) else see(result)
    return functions.called(function, *arguments, **options)


def _elementwise(function: Any) -> bool:
    """Whether it is a function of single numbers, that arrays get for each element."""
    of_numbers = isinstance(function, (np.ufunc, type)) or function in functions.EXACT
    return of_numbers or getattr(function, "__module__", None) == "math"


def _average(window: Window, weights: Any = None) -> Any:
    """`np.average`: the sum of the products, by the sum of the weights."""
    if weights is None:
        return window.mean()
    if isinstance(weights, (list, tuple)):
        weights = np.array(bare(weights)).view(Constant)
    if isinstance(weights, Constant):
        items = np.asarray(weights).ravel().tolist()
        total = math.fsum(items) if weights.dtype.kind == "f" else sum(items)
        return (window * weights).sum() / total
    if isinstance(weights, Table):
        ones = elementwise(lambda one, weight: weight, window, weights)
        return (window * weights).sum() / ones.sum()
    return (window * weights).sum() / weights.sum()


_MAKERS = {"zeros", "ones", "empty", "full", "arange", "array", "linspace", "eye", "identity"}
_REDUCTION_NAMES = {"amin": "min", "amax": "max"}


def _names(code: types.CodeType) -> set[str]:
    return set[str]().union(*(one.co_names for one in codes_in(code)))
