"""A frame: one function that is being read, the names it knows, and what it gave so far."""

from __future__ import annotations

import ast
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from .definitions import ArrayFunction, Definition, Function, Unusable, dotted
from .dtypes import Coefficients, Field
from .errors import Span, here, mistake
from .ir import DType, Position, Read, Ref
from .operations import binary, logical, select
from .positions import GREATEST, LEAST
from .values import (
    Buffer,
    Choice,
    Index,
    NotUnderstood,
    Value,
    constant,
    emit,
    is_number,
    reading,
    words,
)

# Stands for a local that has no value on some path.
UNDEFINED: Any = object()


@dataclass(eq=False)
class Frame(ABC):
    """One function being read, with the names it knows.

    `done` is the truth that the function has returned, `result` what it then gave; `left` that
    the turn of the innermost loop has ended before its time, `broken` that the loop has.
    """

    function: Function
    names: dict[str, Any]
    active: tuple[Function, ...] = ()
    # Where a function of this package is called: the user knows no other place of it.
    called: Span | None = None
    done: Any = False
    result: Any = None
    left: Any = False
    broken: Any = False

    def __post_init__(self) -> None:
        self.active = (*self.active, self.function)
        self.returned = self.function.place

    def state(self) -> tuple[Any, ...]:
        """What a path changes."""
        return dict(self.names), self.done, self.result, self.left, self.broken

    def restore(self, state: tuple[Any, ...]) -> None:
        """Begin again from what it was."""
        names, self.done, self.result, self.left, self.broken = state
        self.names = dict(names)

    def at(self, node: ast.AST) -> Span:
        span = self.called or self.function.span(node)
        here.span = span
        return span

    def name(self, node: ast.Name) -> Any:
        self.at(node)
        if self.outside(node):
            return self.usable(node.id)
        value = self.names.get(node.id, UNDEFINED)
        if value is UNDEFINED:
            raise mistake("maybe-undefined", node.id)
        if isinstance(value, Buffer):
            raise NotUnderstood("a buffer as a whole")
        return value

    def outside(self, node: ast.expr) -> str:
        """The name of what was captured from outside, as `np.pi`; empty for anything else."""
        name = dotted(node)
        root = name.partition(".")[0]
        return name if name in self.function.constants and root not in self.names else ""

    def buffer(self, node: ast.expr) -> Buffer | None:
        """The buffer that a name stands for, if it does."""
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(found, Buffer):
            return None
        if found.owner is not self:
            raise NotUnderstood("a buffer of another function", self.at(node))
        return found

    def usable(self, name: str) -> Any:
        value = constant(self.function.constants[name])
        if isinstance(value, Unusable):
            raise mistake("bad-constant", name, value.words)
        if isinstance(value, ArrayFunction):
            raise mistake("ufunc-stage" if reading.axes.pointwise else "stage-use", name)
        return value

    def check_numbers(self, operation: str, *values: Any) -> None:
        """Raise unless every value can take part in arithmetic."""
        for value in values:
            if not isinstance(value, Value | np.ndarray | Coefficients) and not is_number(value):
                raise mistake("bad-operand", operation, words(value))

    def check_truth(self, node: ast.expr, value: Any) -> None:
        """Raise, as NumPy does, for what is neither true nor false as a whole."""
        self.at(node)
        window = isinstance(value, Value) and value.shape
        if window or isinstance(value, Field | Coefficients | np.ndarray):
            raise mistake("bad-operand", "The truth", words(value))

    def merge(self, test: Any, then: Any, other: Any) -> Any:
        if then is other:
            return then
        if then is UNDEFINED or other is UNDEFINED:
            return UNDEFINED
        if isinstance(then, Buffer) and then == other:
            return replace(then, items=select(test, then.items, other.items))
        options = isinstance(then, str | Choice) and isinstance(other, str | Choice)
        if options and any(isinstance(v, ArrayFunction) for v in self.function.constants.values()):
            return Choice(test, then, other)
        for one in (then, other):
            if not is_number(one) and not isinstance(one, Value | tuple | np.ndarray):
                raise NotUnderstood("a name that is one thing or another")
        counts = [len(v) if isinstance(v, tuple) else None for v in (then, other)]
        if counts[0] != counts[1]:
            raise mistake("choice-mismatch", words(then), words(other))
        return select(test, then, other)

    def has_returned(self, done: Any, result: Any) -> None:
        if self.done is False:
            self.done, self.result = done, result
            return
        self.check_counts(self.result, result)
        self.result = select(self.done, self.result, result)
        self.done = logical("|", self.done, done)

    def check_counts(self, one: Any, other: Any) -> None:
        """Raise where two ways to return give another number of values."""
        counts = [len(v) if isinstance(v, tuple) else 1 for v in (one, other)]
        if counts[0] != counts[1]:
            raise mistake("return-mismatch", self.returned, counts[1], counts[0])

    @abstractmethod
    def block(self, statements: list[ast.stmt]) -> None:
        """Follow statements until the function has returned."""

    @abstractmethod
    def split(self, test: Any, then: Callable[[], None]) -> None:
        """Follow a path where a truth holds."""

    @abstractmethod
    def run(self, definition: Definition, place: Span) -> Any:
        """The value that a function returns, which is called at a place."""


# What is asked of the whole array.


def whole_shape(field: Field) -> tuple[Value, ...]:
    """How long the whole array is along each axis of the kernel."""
    axes = reading.axes
    axes.count = axes.count or axes.shown
    reading.stages.read.add(field.name)
    # The names end in digits, as no name of the user's does in a kernel.
    return tuple(Value(Ref(DType.INT, f"length{axis}"), True) for axis in range(axes.count or 1))


def position(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """What `npt.index` gives: a number for each axis, or for one axis that number."""
    axes = reading.axes
    if axes.pointwise:
        raise mistake("ufunc-position")
    if named or len(args) > 1:
        raise mistake("wrong-arguments", "npt.index", "it takes one field, or nothing")
    if args and not isinstance(args[0], Field):
        raise mistake("position-field", words(args[0]))
    reading.stages.read.update(one.name for one in args)
    axes.count = count = axes.count or axes.shown or 1
    found = tuple(_along(axis, count, bool(args)) for axis in range(count))
    return found if len(found) > 1 else found[0]


def _along(axis: int, count: int, element: bool) -> Any:
    """The position along an axis, which is a number of Python's.

    Of several results around an element those of one phase are k * I + r.
    """
    one = Position(axis, "elements" if element else "results", LEAST, GREATEST)
    label = f"{'index' if element else 'place'}{axis}"
    reading.positions[label] = one
    read = Read(DType.INT, label, (0,) * count)
    where, factors = emit(read, weak=True), reading.axes.factors
    if not factors:
        return where
    point = Index(where.atom, True)
    if element:
        return point
    return point * factors[axis] + reading.axes.phase[axis]


def measured(shape: tuple[Any, ...], name: str) -> Any:
    """The `shape`, `ndim`, `len` or `size` of an array that is so long along each axis."""
    match name:
        case "shape":
            return shape
        case "ndim":
            return len(shape)
        case "len":
            return shape[0]
        case _:
            return functools.reduce(partial(binary, "*"), shape or (1,))


# What neither tier runs.
_REFUSED = frozenset(
    "Raise Assert Try TryStar With Import ImportFrom ClassDef Global Nonlocal Delete Match Dict "
    "DictComp Set SetComp Yield YieldFrom AsyncFunctionDef JoinedStr".split()
)


def refuse(function: Function) -> None:
    """Raise for a construct that no tier can run."""
    for node in ast.walk(function.definition):
        if (name := type(node).__name__) in _REFUSED:
            raise mistake("unsupported", function.span(node), f"'{name.lower()}'")


def refuse_node(node: ast.AST) -> NoReturn:
    """Raise for a construct that is not analysed."""
    name = type(node).__name__
    if name in _REFUSED:
        raise mistake("unsupported", f"'{name.lower()}'")
    raise NotUnderstood(f"'{name.lower()}'")
