"""Calls: what functions give that have no text to be read in place, attributes, and stages.

    range(3)              ->     0, 1, 2
    np.sqrt(t0)           ->     Call(sqrt, t0)
    math.sqrt(2.0)        ->     1.4142135623730951

Stages are the stencils that a kernel calls on its fields.

    def corners(x, k):             StageCall: xx is square of x, for the number 2 * k
        xx = square(x, 2 * k)  ->
        return xx[0, 1] - k        t0 = read xx 0 1;  t1 = t0 - k

A call is done once for whole arrays, before the kernel is done at any point.  So what it makes is
a field of the kernel from there on, and equal calls make the same one.

What looks at no neighbour may be called on numbers as well, as in `f(x[0], x[1])`.  That is no
stage, but a helper function.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from inspect import BoundArguments, Signature
from operator import itemgetter
from typing import Any

import numpy as np

from ..base.frozen import frozen
from ..base.remembered import digest
from .callables import FUNCTIONS
from .definitions import Spacing, index
from .errors import Span, here, hint, mistake
from .functions import PYTHON, UNARY, from_numpy, is_shape
from .ir import (
    Atom,
    Binary,
    Body,
    Call,
    Cast,
    Coefficients,
    Const,
    DType,
    Element,
    Field,
    Position,
    Read,
    Ref,
    Select,
    Unary,
    atoms,
    names_of,
    operands,
)
from .operations import lift, strong
from .signature import OPTIONS, signature, with_options
from .statistics import PRIMITIVE
from .values import (
    Choice,
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

# The functions of NumPy that are methods of windows.
_METHODS = frozenset("sum prod mean min max std var median any all argmin argmax ptp".split())

# What tells how large an array is, and what that is of how long it is along each axis.
_MEASURES = (len, np.shape, np.ndim, np.size)
_MEASURED: dict[str, Any] = {"shape": tuple, "ndim": len, "len": itemgetter(0), "size": math.prod}

# NumPy's older names of arguments.
_NAMED = {"a_min": "min", "a_max": "max"}


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

    def to(self, function: Any) -> Any:
        """What a function gives that has no text."""
        if function is index:
            return self.built(_position)
        if isinstance(function, partial):
            # A method of a value, which is given first.
            return Given(self.name, (*function.args, *self.args), self.named).built(function.func)
        if not callable(function):
            raise mistake("unknown-function", self.name)
        if function in _MEASURES and len(self.args) == 1 and isinstance(self.args[0], Field):
            return _MEASURED[function.__name__](_whole_shape(self.args[0]))
        if function in (range, len, enumerate, zip, tuple, list, reversed):
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
        if is_known(self.all) and _is_pure(function):
            with np.errstate(all="ignore"), suppress(TypeError, ValueError, ArithmeticError):
                return settled(function(*self.args, **self.named))
        if function not in FUNCTIONS:
            if function is sorted or from_numpy(function):
                raise NotUnderstood(f"the function '{self.name}'")
            raise mistake("unknown-function", self.name)
        self._check_fields()
        result = self.built(FUNCTIONS[function])
        # A part of a number of Python's is one.
        keeps = function in (np.real, np.imag) or not from_numpy(function)
        return result if keeps else strong(result)

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
        self._bound(parameters, named)
        return builder(*self.args, **named)

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


def attribute(base: Any, name: str) -> Any:
    """What an attribute of a value is."""
    shape = getattr(base, "shape", ())
    if name in ("shape", "ndim", "size"):
        if isinstance(base, Field):
            shape = _whole_shape(base)
        if shape or isinstance(base, np.ndarray):
            return _MEASURED[name](shape)
    match base:
        case Value() if name in ("real", "imag"):
            return FUNCTIONS[getattr(np, name)](base)
        case Value() if name == "conjugate" or (shape and name in _METHODS):
            return partial(FUNCTIONS[getattr(np, name)], base)
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
_PURE = frozenset((
    all, any, divmod, sorted, isinstance, issubclass, slice, str, chr, ord, map, filter, repr,
    hash, type,
))  # fmt: skip


def _is_pure(function: Any) -> bool:
    """Whether a call with known arguments may be made once, while the kernel is read.

    Not so what reads the world or draws numbers: `input`, `open`, `np.random`, `time.time`.
    """
    if function in FUNCTIONS or function in _PURE:
        return function not in PRIMITIVE
    module = f"{getattr(function, '__module__', None)}."
    pure = module.startswith(("math.", "cmath.", "operator.", "_operator.", "numpy."))
    return pure and not module.startswith("numpy.random.")


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
        place: Any = emit(Read(DType.INT, label, (0,) * count), weak=True)
        if reading.factors:
            place = Index(place.atom, True)
            if not field:
                # Of several results around an element those of one phase are k * I + r.
                place = place * reading.factors[axis] + reading.phase[axis]
        found.append(place)
    return tuple(found) if count > 1 else found[0]


# Stages.


@frozen
class Told:
    """A number that a kernel computes of its scalars, for all points alike."""

    atom: Atom
    weak: bool
    body: Body


@frozen
class StageCall:
    """One call: of what, on which arrays and numbers, and what its results are called.

    `callee` is the definition of a stencil.  `fields` names an array for each field of it: a
    parameter of the kernel, or what an earlier call made.  `scalars`, of which there are all, and
    `options` are known, or told by the kernel's scalars.
    """

    callee: Any
    span: Span
    fields: tuple[str, ...]
    scalars: Mapping[str, Any]
    options: Mapping[str, Any]
    made: tuple[str, ...]

    def given(self, scalars: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Its numbers and its options, for values of the kernel's scalars."""
        return _evaluated(self.scalars, scalars), _evaluated(self.options, scalars)

    @property
    def tells(self) -> bool:
        """Whether an option depends on the kernel's scalars."""
        return any(map(_is_told, self.options.values()))


def stage(callee: Any, args: Sequence[Any], named: Mapping[str, Any], names: Sequence[str]) -> Any:
    """What a stencil makes of fields: a field, or several where so many `names` wait for them."""
    own = signature(callee.function.definition, callee.defaults)
    whole = with_options(own, dict.fromkeys(OPTIONS))
    try:
        given = whole.bind(*args, **named).arguments
    except TypeError as error:
        hints = (hint(name, OPTIONS) for name in named if name not in whole.parameters)
        raise mistake("stage-arguments", callee.name, f"{error}{''.join(hints)}") from None
    fields: tuple[str, ...] = ()
    for name in callee.fields:
        if isinstance(given.get(name), Field):
            fields += (given.pop(name).name,)
        elif not callee.pointwise:
            # A ufunc may be given numbers for arrays.
            raise mistake("stage-field", callee.name, name)
    if reading.body.depth:
        raise mistake("stage-place", callee.name)
    given = {**callee.defaults, **given}
    told = {name: _told(callee.name, name, value) for name, value in given.items()}
    options = {name: told.pop(name) for name in OPTIONS if name in told}
    met, key = reading.stages, digest((callee, fields, told, options))
    made = met.known.get(key)
    if made is None:
        made = met.known[key] = tuple(map(met.label, names or (callee.name,)))
        met.calls.append(StageCall(callee, here.span, fields, told, options, made))
    found = tuple(Field(n, met.storages.get(n, met.any_one)) for n in made)
    return found if len(found) > 1 else found[0]


def _told(callee: str, parameter: str, value: Any) -> Any:
    """An argument that is the same at every point."""
    match value:
        case tuple():
            return tuple(_told(callee, parameter, one) for one in value)
        case Spacing():
            reason = f"'{parameter}' is {value!r}, which only calls outside know"
            raise mistake("stage-arguments", callee, reason)
        case Choice(test, then, other):
            return Choice(*(_told(callee, parameter, one) for one in (test, then, other)))
        case Value(atom, weak, shape=()):
            body = reading.body.assignments((atom,))
            used = [*names_of([atom]), *(name for one in body for name in operands(one.value))]
            # Lengths of arrays are known where the calls are done only.
            length = any(name.startswith("length") for name in used)
            # The operations that give the same at every point.
            plain = Unary | Binary | Select | Cast | Call | Element
            if not length and all(isinstance(one.value, plain) for one in body):
                return Told(atom, weak, body)
    if isinstance(value, Value | Field):
        raise mistake("stage-scalar", parameter, callee)
    return value


def _is_told(value: Any) -> bool:
    """Whether an argument depends on the kernel's scalars."""
    if isinstance(value, tuple):
        return any(map(_is_told, value))
    return isinstance(value, Told | Coefficients | Choice)


def _evaluated(value: Any, scalars: Mapping[str, Any]) -> Any:
    """The arguments of a call, or one of them, for values of the kernel's scalars."""
    match value:
        case dict():
            return {name: _evaluated(one, scalars) for name, one in value.items()}
        case tuple():
            return tuple(_evaluated(one, scalars) for one in value)
        case Choice(test, then, other):
            return _evaluated(then if _evaluated(test, scalars) else other, scalars)
        case Coefficients(name=name):
            return scalars[name]
    if not isinstance(value, Told):
        return value
    # By their names in the kernel.
    known = {f"{name}_": one for name, one in scalars.items()}

    def number(atom: Atom) -> Any:
        return atom.value if isinstance(atom, Const) else known[atom.name]

    with np.errstate(all="ignore"):
        for assign in value.body:
            expr = assign.value
            args = [*map(number, atoms(expr))]
            match expr:
                case Binary(op="round"):
                    made = np.rint(args[0] / args[1]) * args[1]
                case Unary(op=name) | Binary(op=name) | Call(function=name):
                    own = (UNARY if len(args) == 1 else PYTHON).get(name)
                    made = (own or getattr(np if hasattr(np, name) else math, name))(*args)
                case Select():
                    made = args[1] if args[0] else args[2]
                case Cast(storage=storage):
                    made = np.asarray(args[0]).astype(storage or expr.dtype.numpy)
                case Element(array=array, index=index):
                    made = known[array][index]
                case _:
                    raise AssertionError(expr)
            known[assign.name] = expr.dtype.numpy.type(made)
    found = number(value.atom)
    return found.item() if value.weak and value.body else found
