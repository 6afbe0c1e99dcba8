"""Calls: what functions give that have no text to be read in place, and attributes of values.

range(3)              ->     0, 1, 2
np.sqrt(t0)           ->     Call(sqrt, t0)
math.sqrt(2.0)        ->     1.4142135623730951
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial, reduce
from inspect import BoundArguments, Signature
from typing import Any, TypeAlias

import numpy as np

from ..base.frozen import frozen
from .definitions import Spacing, index
from .errors import mistake
from .functions import from_numpy, is_shape
from .ir import Coefficients, DType, Field, Position, Read, Ref
from .operations import lift, strong
from .statistics import PRIMITIVE
from .values import (
    Index,
    NotUnderstood,
    Steps,
    Value,
    constant,
    emit,
    is_known,
    is_number,
    is_single,
    reading,
    settled,
    words,
)

# What writes each function that is understood.
Functions: TypeAlias = Mapping[Any, Callable[..., Any]]

# The functions of NumPy that are methods of windows.
_METHODS = frozenset("sum prod mean min max std var median any all argmin argmax ptp".split())

_STRUCTURE = (range, len, enumerate, zip, tuple, list, reversed)

# What tells how large an array is.
_MEASURES = (len, np.shape, np.ndim, np.size)

# What builders call arguments that NumPy or Python has another name for.
_NAMED = {"a_min": "low", "a_max": "high", "min": "low", "max": "high", "ndigits": "digits"}


@frozen
class Given:
    """What a function of this name is called with, by position and by name."""

    name: str
    args: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def all(self) -> tuple[Any, ...]:
        """All arguments."""
        return *self.args, *self.named.values()

    def to(self, function: Any, known: Functions) -> Any:
        """What a function gives that has no text, for those that are `known`."""
        if function is index:
            return self.built(_position)
        if isinstance(function, partial):
            # A method of a value, which is given first.
            return Given(self.name, (*function.args, *self.args), self.named).built(function.func)
        if not callable(function):
            raise mistake("unknown-function", self.name)
        if function in _MEASURES and len(self.args) == 1 and isinstance(self.args[0], Field):
            return _measured(_whole_shape(self.args[0]), function.__name__)
        if function in _STRUCTURE:
            return self._arranged(function)
        shape = is_shape(function)
        if shape or isinstance(getattr(function, "__self__", None), np.ndarray):
            # The shape of a window, or a method of a constant: done while the kernel is read.
            if is_known(self.all):
                return self._tried(function)
            raise (
                mistake("shape-varies", self.name)
                if shape
                else NotUnderstood("a method of an array")
            )
        if is_known(self.all) and _is_pure(function, known):
            with np.errstate(all="ignore"), suppress(TypeError, ValueError, ArithmeticError):
                return settled(function(*self.args, **self.named))
        if function not in known:
            if function is sorted or from_numpy(function):
                raise NotUnderstood(f"the function '{self.name}'")
            raise mistake("unknown-function", self.name)
        self._check_fields()
        result = self.built(known[function])
        numpys = isinstance(function, np.ufunc) or from_numpy(function)
        # A part of a number of Python's is one.
        return strong(result) if numpys and function not in (np.real, np.imag) else result

    def _check_fields(self) -> None:
        """Raise for a field that is given as a whole."""
        for one in self.all:
            if isinstance(one, Field):
                raise mistake("bad-operand", f"'{self.name}'", words(one))

    def _tried(self, function: Any) -> Any:
        """What a function gives for arguments that it may not take."""
        try:
            return settled(function(*self.args, **self.named))
        except (TypeError, ValueError) as error:
            raise mistake("wrong-arguments", self.name, str(error)) from error

    def _arranged(self, function: Any) -> Any:
        """What a builtin gives that arranges values, without looking at them."""
        self._check_fields()
        for one in self.all:
            if isinstance(one, Coefficients):
                raise NotUnderstood(f"'{self.name}' of an array")
            if isinstance(one, Steps):
                raise NotUnderstood("a loop whose range is not constant")
        if any(isinstance(one, Value) for one in self.all):
            if function is range:
                return self._steps()
            if function is len:
                raise NotUnderstood(f"'{self.name}' of something that varies")
        return self._tried(function)

    def _steps(self) -> Steps:
        """A range whose ends are known at run time only."""
        args = self.args
        for one in args:
            if not is_single(one) or not lift(one).dtype.is_integer:
                raise mistake("bad-operand", f"'{self.name}'", f"{words(one)} that is not whole")
        if self.named or not 1 <= len(args) <= 3:
            raise mistake("wrong-arguments", self.name, "it takes 1 to 3 numbers")
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        if isinstance(step, Value) or step == 0:
            raise NotUnderstood("a loop whose step is not constant")
        return Steps(start, stop, step)

    def built(self, builder: Any) -> Any:
        """What a function writes that is read as operations."""
        named = {_NAMED.get(one, one): value for one, value in self.named.items()}
        parameters = _signature(builder)
        for one in ("axis", "keepdims", "dtype", "out", "method"):
            if one in named and one not in parameters.parameters:
                raise NotUnderstood(f"the argument '{one}'")
        given = self._bound(parameters, named)
        return builder(*given.args, **given.kwargs)

    def bound(self, parameters: Signature) -> dict[str, Any]:
        """What the parameters of a function are."""
        given = self._bound(parameters, self.named)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if isinstance(value, Spacing):
                words = f"'{name}' is {value!r}, which only a call of a stencil knows"
                raise mistake("wrong-arguments", self.name, words)
        return {name: constant(value) for name, value in given.arguments.items()}

    def _bound(self, parameters: Signature, named: Mapping[str, Any]) -> BoundArguments:
        try:
            return parameters.bind(*self.args, **named)
        except TypeError as error:
            raise mistake("wrong-arguments", self.name, str(error)) from None


# What a builder takes; to find out takes up to 70 us.
_signature = cache(inspect.signature)


def attribute(base: Any, name: str, known: Functions) -> Any:
    """What an attribute of a value is, for functions that are `known`."""
    shape = getattr(base, "shape", ())
    if name in ("shape", "ndim", "size"):
        if isinstance(base, Field):
            shape = _whole_shape(base)
        if shape or isinstance(base, np.ndarray):
            return _measured(shape, name)
    match base:
        case Value() if name in ("real", "imag"):
            return known[getattr(np, name)](base)
        case Value() if shape and name in _METHODS:
            return partial(known[getattr(np, name)], base)
        case Value() if name == "conjugate":
            return partial(known[np.conj], base)
        case Value() | Coefficients() if shape and hasattr(np.ndarray, name):
            raise NotUnderstood(f"'{name}' of {words(base)}")
        case np.ndarray() if name == "T" or callable(getattr(base, name, None)):
            return getattr(base, name)
        case slice() if name in ("start", "stop", "step"):
            return getattr(base, name)
        case _ if name in ("real", "imag") and is_number(base):
            return getattr(base, name)
    raise mistake("unknown-method", name, words(base))


# Builtins that give the same result for the same arguments, and do nothing else.
_PURE = frozenset((all, any, divmod, sorted, isinstance, issubclass, slice, str, chr, ord, map))
_PURE |= {filter, repr, hash, type}


def _is_pure(function: Any, known: Functions) -> bool:
    """Whether a call with known arguments may be made once, while the kernel is read.

    Not so what reads the world or draws numbers: `input`, `open`, `np.random`, `time.time`.
    """
    if function in PRIMITIVE:
        return False
    if function in known or isinstance(function, np.ufunc) or function in _PURE:
        return True
    module = getattr(function, "__module__", None) or ""
    if module in ("math", "cmath", "operator", "_operator"):
        return True
    return module.partition(".")[0] == "numpy" and not module.startswith("numpy.random")


# What is asked of the whole array.


def _whole_shape(field: Field) -> tuple[Value, ...]:
    """How long the whole array is along each axis of the kernel."""
    reading.count = reading.count or reading.shown
    reading.stages.read.add(field.name)
    # The names end in digits, as no name of the user's does in a kernel.
    return tuple(
        Value(Ref(DType.INT, f"length{axis}"), True) for axis in range(reading.count or 1)
    )


def _position(field: Any = None, /) -> Any:
    """What `npt.index` gives: a number for each axis, or for one axis that number."""
    if reading.pointwise:
        raise mistake("ufunc-position")
    if field is not None:
        if not isinstance(field, Field):
            raise mistake("position-field", words(field))
        reading.stages.read.add(field.name)
    reading.count = count = reading.count or reading.shown or 1
    found: list[Any] = []
    for axis in range(count):
        label = f"{'index' if field else 'place'}{axis}"
        reading.positions[label] = Position(axis, "elements" if field else "results")
        found.append(emit(Read(DType.INT, label, (0,) * count), weak=True))
        if reading.factors:
            found[axis] = Index(found[axis].atom, True)
            if not field:
                # Of several results around an element those of one phase are k * I + r.
                found[axis] = found[axis] * reading.factors[axis] + reading.phase[axis]
    return tuple(found) if count > 1 else found[0]


def _measured(shape: tuple[Any, ...], name: str) -> Any:
    """The `shape`, `ndim`, `len` or `size` of an array that is so long along each axis."""
    match name:
        case "shape":
            return shape
        case "ndim":
            return len(shape)
        case "len":
            return shape[0]
        case _:
            return reduce(operator.mul, shape or (1,))
