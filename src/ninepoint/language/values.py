"""The values that the names of a kernel have while it is read.

    x[0] * 2     ->     t0 = read x +0;  t1 = t0 * 2

Constants are computed at once, as Python's; anything else becomes a `Value`: the name of an
assignment in a `Body`.  A value with a shape is a window, element by element, and is
assigned in the body of windows until a reduction makes a number of it.

w = x[-1:2, -1:2];  cross = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
w[cross]      ->     a window of 5: Read(x, (-1, -1), picked (0, 1), (1, 0), (1, 1), ...)
w[0, 2]       ->     Read(x, (-1, 1))

What is picked of a window, at constant places, is a window of one axis, or a single element; the
order is NumPy's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import starmap
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..base.frozen import frozen
from .definitions import ELEMENT, ArrayFunction, Definition, Function, Line, SelfReference
from .errors import Span, here, mistake
from .ir import (
    FAR,
    Assign,
    Atom,
    Atoms,
    Coefficients,
    Const,
    DType,
    Element,
    Expr,
    Field,
    Lines,
    Neighborhood,
    Noting,
    Offset,
    Position,
    Read,
    Ref,
    Weight,
    at_index,
    needed,
    operands,
    replayed,
    zero_product,
)

# More assignments than this are not worth unrolling: the compiler would take many seconds.
# (Numba 0.68 on straight lines of additions: 1000 take 0.9 s, 4000 take 7 s.)
UNROLLED_LIMIT = 2500

# The most turns of a loop, or items of a tuple, that are followed one by one.
LONGEST = 100_000


class NotUnderstood(Exception):
    """The kernel holds something that is not analysed; the general path may run it."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span or here.span


# What writes operators, by NumPy's functions for them: see `operations`.
OPERATORS: dict[Any, Callable[..., Any]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Value(NDArrayOperatorsMixin):
    """A number known only at run time, or a window of such; a number has no shape.

    A weak value is a Python float: it takes the type of the NumPy float it meets.  Python's
    operators, `==` as well, write operations on it.
    """

    atom: Atom
    weak: bool = False
    shape: Offset = ()

    @property
    def dtype(self) -> DType:
        """The type that it has."""
        return self.atom.dtype

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any) -> Any:
        """What an operator is, which NumPy's class of operators asks for."""
        return OPERATORS[ufunc](*operands)


@dataclass(frozen=True, slots=True, eq=False)
class Index(Value):
    """Where the point is along an axis, as a number and as a line of the elements there."""

    line: Line = ELEMENT


@frozen
class Steps:
    """What `range` gives where an end of it is known at run time only."""

    start: Any
    stop: Any
    step: int


@frozen
class Closure:
    """A function defined inside another, with the names it sees and its defaults."""

    definition: Definition
    function: Function
    names: dict[str, Any]
    defaults: Mapping[str, Any]


@frozen
class Choice:
    """One text or another, as scalars of the kernel tell: an option of a stencil that it calls."""

    test: Any
    then: Any
    other: Any


@frozen
class Buffer:
    """The elements of an array, in order; only the frame that has made it knows it.

    Two are equal if either may stand where the other does.
    """

    dtype: DType
    shape: Offset
    items: tuple[Value, ...] = field(compare=False)
    owner: object = field(compare=False)


@dataclass(eq=False)
class Body(Lines):
    """The assignments of a kernel while it is read.

    That of a loop, which `begins` with names of its own, stands in an `outer` one: there goes what
    is the same in all turns.  It stands in so many loops as its `depth` says.
    """

    span: Span
    limit: int
    depth: int = 0
    outer: Body | None = None
    begins: frozenset[str] = frozenset()

    def emit(self, expr: Expr) -> Ref:
        """The name of the assignment that holds `expr`."""
        if self.outer is not None and not isinstance(expr, Noting):
            used = operands(expr)
            if not any(name in self.values or name in self.begins for name in used):
                return self.outer.emit(expr)
        if len(self.names) >= self.limit and expr not in self.names:
            raise NotUnderstood(f"it unrolls to more than {self.limit} operations", self.span)
        return super().emit(expr)

    def assignments(self, wanted: Atoms, own: bool = False) -> tuple[Assign, ...]:
        """The assignments that `wanted` need, in order; its `own`, or of bodies around too."""
        values, outer = self.values, None if own else self.outer
        while outer is not None:
            values, outer = outer.values | values, outer.outer
        return needed(starmap(Assign, values.items()), wanted)


def constant(value: Any) -> Any:
    """A frozen constant as the builder computes with it: NumPy integers become Python's.

    What applies a function of numbers to arrays is that function, where it is given numbers.
    """
    if isinstance(value, ArrayFunction) and value.definition.pointwise:
        return value.definition.function
    return value.item() if isinstance(value, np.integer | np.bool) else value


def several(value: Any) -> tuple[Any, ...]:
    """The values of a tuple, or one value that is none."""
    return value if isinstance(value, tuple) else (value,)


def is_number(value: Any) -> bool:
    """Whether `value` is a number known while the kernel is read."""
    return isinstance(value, int | float | complex | np.number | np.bool)


def is_single(value: Any) -> bool:
    """Whether it is one number, known or not."""
    return is_number(value) or (isinstance(value, Value) and not value.shape)


def varies_index(index: Any) -> bool:
    """Whether an index, or an end of a slice, is not known while the kernel is read."""
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return any(isinstance(part, Value) for part in parts)


def is_large(value: Any) -> bool:
    """Whether a number of the text is an integer that int64 does not hold."""
    value = constant(value)
    return isinstance(value, int) and wrapped(value) != value


def wrapped(value: int) -> int:
    """An integer as 64 bits hold it."""
    return (value + 2**63) % 2**64 - 2**63


@dataclass(slots=True)
class Met:
    """The calls of stencils that were met, in order, and the fields that the kernel reads itself.

    `known` has the names of what a call made, by a digest of the call: an equal call makes the
    same.  `storages` are the types of the fields that the kernel is given; any other field has the
    type `any_one`.  `taken` are the names that mean something already.
    """

    taken: set[str] = field(default_factory=set)
    any_one: Any = "int64"
    storages: Mapping[str, np.dtype] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def label(self, name: str) -> str:
        """A name like this one that nothing else has."""
        base = label = name if name.isidentifier() else "stage"
        count = 1
        while label in self.taken:
            count += 1
            label = f"{base}_{count}"
        self.taken.add(label)
        return label


class Reading(threading.local):
    """The kernel that is being read, by this thread.

    Every read has so many offsets as `count` says, which the first read tells if nobody else does;
    the text alone shows so many as `shown`, for who asks before the first read.  A kernel that is
    `pointwise` is a function of numbers, to which there are no neighbours.  Around each element
    there are so many results as `factors` say; those of one `phase` are read at a time.
    """

    neighborhood: Neighborhood | None
    count: int | None
    shown: int | None
    pointwise: bool
    factors: Offset
    phase: Offset
    stages: Met
    body: Body
    windows: Body
    # How many of the loops around what is read now are written out.
    written_out: int
    # Whether numbers of uint64 take part.
    unsigned: bool
    # What must be true, or false, for what is read now to be computed at all; since the
    # beginning of the innermost loop.
    path: tuple[tuple[Any, bool], ...]
    # The fields that hold positions, by their names in the kernel.
    positions: dict[str, Position]

    def check_count(self, name: str, offset: Sequence[Any]) -> None:
        """Raise where there is an offset too many, or too few."""
        self.count = self.count or len(offset) or 1
        if len(offset) != self.count:
            raise mistake("offset-count", name, len(offset), self.count)

    def check(self, name: str, low: Offset, high: Offset) -> None:
        """Raise where offsets are of the wrong number, or outside the neighborhood."""
        self.check_count(name, low)
        for offset in (*low, *high):
            if abs(offset) > FAR:
                raise mistake("offset-far", offset, FAR)
        for axis, (least, most) in enumerate(self.neighborhood or ()):
            for offset in (low[axis], high[axis]):
                if not least <= offset <= most:
                    raise mistake("offset-outside", offset, axis, least, most)

    @contextmanager
    def changed(self, **changes: Any) -> Iterator[None]:
        """Read with these changes until the block ends."""
        before = {name: getattr(self, name) for name in changes}
        vars(self).update(changes)
        try:
            yield
        finally:
            vars(self).update(before)


reading = Reading()


def emit(expr: Expr, weak: bool = False, shape: Offset = ()) -> Value:
    """What an operation gives, in a window of that shape if it has one."""
    body = reading.windows if shape else reading.body
    return Value(body.emit(expr), weak, shape)


def words(value: Any) -> str:
    """What a value is, in words."""
    match value:
        case Value():
            return f"a window of shape {value.shape}" if value.shape else "a number"
        case Field():
            return f"the field '{value.name}' itself"
        case Coefficients() | np.ndarray():
            return f"an array of shape {tuple(value.shape)}"
        case None:
            return "None"
        case str():
            return "text"
        case tuple():
            return f"a tuple of {len(value)}" if value else "an empty tuple"
        case _ if is_number(value):
            return f"the number {value}"
        case Function() | SelfReference() | Closure():
            return "a function"
        case _:
            kind = type(value).__name__
            return "a function" if callable(value) else f"a value of type '{kind}'"


def is_known(value: Any) -> bool:
    """Whether a value, or all that a tuple holds, is known and may be given to any function."""
    if isinstance(value, tuple):
        return all(map(is_known, value))
    known = value is None or isinstance(value, str | np.ndarray | slice | type)
    return known or is_number(value)


def settled(value: Any) -> Any:
    """What was computed while the text is read, as the frame keeps it: several are a tuple."""
    if isinstance(value, tuple | list | Iterator):
        return tuple(map(constant, value))
    scalar = isinstance(value, np.ndarray) and value.ndim == 0
    return constant(value[()] if scalar else value)


# Elements of windows.


def picked(window: Value, index: Any, text: str) -> Value:
    """What `window[index]` is.

    Raises
    ------
    StencilError
        If the index is none that NumPy takes.
    NotUnderstood
        If it varies, or what it picks has several axes.
    """
    shape = window.shape
    found = _taken(shape, index, text)
    numbers = found.ravel().tolist()
    if found.shape == shape and numbers == [*range(len(numbers))]:
        return window
    if found.ndim > 1:
        raise NotUnderstood("a part of a window that has several axes")
    at = [tuple(map(int, np.unravel_index(number, shape))) for number in numbers]

    def write(name: str, new: Any) -> Atom:
        match new:
            case _ if not found.ndim:
                zero = zero_product(windows[name], windows, numbers[0])
                new = zero or at_index(new, at[0], numbers[0])
            case Read() | Element():
                # Where in the field's own window, or in the array, the elements lie.
                own = tuple(new.picked[i[0]] for i in at) if new.picked else tuple(at)
                new = replace(new, picked=own)
            case Weight():
                new = replace(new, texts=tuple(new.texts[number] for number in numbers))
        return new if isinstance(new, Const) else emit(new, False, found.shape).atom

    windows, wanted = reading.windows.values, (window.atom,)
    (atom,) = replayed(reading.windows.assignments(wanted), wanted, write)
    return Value(atom, window.weak, found.shape)


def _taken(shape: Offset, index: Any, text: str) -> np.ndarray:
    """The elements of a window that an index takes, by their numbers."""
    for one in several(index):
        if varies_index(one):
            raise NotUnderstood("an element of a window at an index that varies")
        match one:
            case np.ndarray():
                if one.dtype.kind not in "biu":
                    raise mistake("mask-type", text, f"an array of {one.dtype}")
                if one.dtype == bool and one.shape != shape:
                    raise mistake("mask-shape", shape, one.shape)
            case Coefficients():
                raise mistake("mask-type", text, "an array that only the call gives")
            case int() | slice() | EllipsisType() | None if not isinstance(one, bool):
                pass
            case _:
                raise mistake("mask-type", text, words(one))
    try:
        found = np.asarray(np.arange(np.prod(shape)).reshape(shape)[index])
    except IndexError as error:
        raise mistake("window-index", text, str(error)) from error
    if not found.size:
        raise mistake("mask-empty", text)
    return found
