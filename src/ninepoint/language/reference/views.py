"""What the user's function is given: fields, their windows, small tables, and positions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .number import ARITHMETIC, Literal, Natural, Number, Operand, binary, plain, see
from .probe import Probe, probe_among
from .reductions import MASKED, METHODS, PARAMETRIC, masked, reduced


def _in_place(symbol: str) -> Callable[[Any, Any], Any]:
    def operation(self: Any, other: Any) -> Any:
        self[...] = ARITHMETIC[symbol](self, other)
        return self

    return operation


class Table(np.ndarray[Any, Any]):
    """A small array, indexed absolutely, whose elements are numbers of the kernel."""

    # NumPy would not leave these to the other operand.
    __iadd__, __isub__ = _in_place("+"), _in_place("-")
    __imul__, __itruediv__ = _in_place("*"), _in_place("/")
    __ifloordiv__, __imod__ = _in_place("//"), _in_place("%")

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(_index(index))
        return item if isinstance(item, np.ndarray) else see(item)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return see(array[()]) if array.ndim == 0 else array.view(type(self))

    def __setitem__(self, index: Any, value: Any) -> None:
        value = value.array() if isinstance(value, Window) else plain(value)
        super().__setitem__(_index(index), value)

    def __iter__(self) -> Iterator[Any]:
        return (self[position] for position in range(len(self)))


class Constant(Table):
    """A table from the enclosing scope: known at decoration, so its zeros are dropped."""


class Window(Operand):
    """A small array of neighbours, or of what was computed from them.

    `blank` is any number of the type of the elements: it says what zero a dropped element
    leaves behind, and of which type a window without elements is.
    """

    __slots__ = ("blank", "cells")

    def __init__(self, cells: np.ndarray[Any, Any], blank: Any) -> None:
        self.cells, self.blank = cells, blank

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.cells.shape
        return shape

    @property
    def size(self) -> int:
        return self.cells.size

    @property
    def ndim(self) -> int:
        return self.cells.ndim

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, index: Any) -> Any:
        item = self.cells[_index(index)]
        return Window(item, self.blank) if isinstance(item, np.ndarray) else item

    def __setitem__(self, index: Any, value: Any) -> None:
        array = self.array()
        array[index] = value
        self.cells = _cells(array.shape, array)

    def __getattr__(self, name: str) -> Any:
        """Its reductions, and what else only arrays of NumPy have."""
        if name in METHODS:
            return partial(self.reduce, name)
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a window has no attribute {name!r}")
        if not callable(getattr(np.ndarray, name)):
            return whole(lambda array: getattr(array, name), self)

        def method(*arguments: Any, **options: Any) -> Any:
            if name not in ("fill", "partition", "sort"):
                return whole(lambda a, *r, **o: getattr(a, name)(*r, **o), self, *arguments,
                             **options)  # fmt: skip
            array = self.array()
            getattr(array, name)(*map(plain, arguments), **options)
            self.cells = _cells(array.shape, array)
            return None

        return method

    def __matmul__(self, other: Any) -> Any:
        return whole(np.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return whole(np.matmul, other, self)

    def array(self) -> Any:
        """The elements as an array of NumPy's, which holds them exactly."""
        values = [plain(value) for value in self.values()]
        if probe_among(values) is not None:
            return np.ones(self.shape).view(Table)
        kind = np.array(values or [plain(self.blank)]).dtype
        return np.array(values, kind).reshape(self.shape).view(Table)

    def combine(self, symbol: str, left: Any, right: Any, other: Any) -> Any:
        weights = other if symbol == "*" and isinstance(other, Constant) else None
        return elementwise(partial(_operation, symbol), left, right, weights=weights)

    def change(self, symbol: str) -> Window:
        return elementwise(lambda value: value.change(symbol), self)

    def values(self) -> list[Any]:
        """The elements in C order."""
        return list(self.cells.flat)

    def reduce(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Reduce the window to one number, as NumPy's function of that name."""
        own = int(name in PARAMETRIC)
        known = {"ddof", "where", "initial"} if name in MASKED else {"ddof"}
        if len(arguments) > own or set(options) - known or not self.size:
            return whole(getattr(np, name), self, *arguments, **options)
        values, where = self.values(), options.pop("where", None)
        truths = [] if where is None or where is True else self.beside(where)
        initial = options.pop("initial", None)
        others = [*truths, *arguments, *([] if initial is None else [initial])]
        probe = probe_among([*values, self.blank, *others])
        if probe is not None:
            return probe.trace.join(name, *values, *others)
        bare = [plain(value) for value in values]
        taken = [bool(plain(truth)) for truth in truths]
        if any(not isinstance(plain(truth), (bool, np.bool_)) for truth in truths):
            raise TypeError("where= takes truths")
        if truths and initial is None and name.removeprefix("nan") in ("min", "max"):
            raise ValueError(f"{name} of a part of a window needs initial=")
        given = [plain(value) for value in arguments]
        named = {name: plain(value) for name, value in options.items()}
        if truths or initial is not None:
            return masked(name, bare, taken if truths else None, initial, **named)
        return see(reduced(name, bare, *given, **named))

    def beside(self, item: Any) -> list[Any]:
        """A mask's element for each of the window's."""
        shape = np.shape(item.cells if isinstance(item, Window) else item)
        if shape not in ((), self.shape):
            raise ValueError(f"a window of shape {self.shape} meets a mask of shape {shape}")
        return elementwise(lambda _, other: other, self, item).values()


class Field:
    """An array seen from one point: `read(offset)` gives the neighbour there.

    `blank` is any number of the type of its elements.  `array` is the whole array, which is as
    long as the kernel's other fields `beside` them, and `like(other)` another one seen from the
    same point; `shape()` is the whole array's along the axes of the kernel, and `place()` where
    the point is in it, where these are known.
    """

    def __init__(
        self, name: str, read: Callable[[tuple[int, ...]], Any], blank: Any, **known: Any
    ) -> None:
        self._name, self._read, self._blank, self._known = name, read, blank, known
        self.array, self.beside = known.get("array"), known.get("beside")
        self.like: Callable[..., Field] | None = known.get("like")

    def _whole(self, what: str) -> Any:
        if what not in self._known:
            raise TypeError(f"{self._name!r} has no {what}: only a whole field has one")
        return self._known[what]()

    @property
    def shape(self) -> tuple[Any, ...]:
        """How long the whole array is along each axis of the kernel: no stack is seen."""
        shape: tuple[Any, ...] = self._whole("shape")
        return shape

    @property
    def place(self) -> Any:
        """Where the point is in the whole array."""
        return self._whole("place")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return functools.reduce(operator.mul, self.shape)

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        if not any(isinstance(part, slice) for part in parts):
            return self._read(tuple(map(_offset, parts)))
        spans = [_span(part) for part in parts]
        offsets = {
            place: tuple(span[k] for span, k in zip(spans, place, strict=True))
            for place in np.ndindex(*map(len, spans))
        }
        cells = _cells(tuple(map(len, spans)), {p: self._read(o) for p, o in offsets.items()})
        axes = tuple(k for k, part in enumerate(parts) if not isinstance(part, slice))
        return Window(cells.squeeze(axes), self._blank)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(f"a kernel cannot assign to its field {self._name!r}: return the value")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"the field {self._name!r} has no end: index it")


class Position(Literal):
    """A number that grows by `scale` from one element of the array to the next.

    A result of k times the points is read around p // k: there i is p, and `x[i // k]` is the
    element that `x[0]` is.  Where the scale is 1 a position is an index of the array, and says
    how far away that element is, from the point `at`.
    """

    __slots__ = ("at", "scale")

    def __init__(self, value: int, scale: int, at: int) -> None:
        super().__init__(value)
        self.scale, self.at = scale, at

    def combine(self, symbol: str, left: Any, right: Any, other: Any) -> Any:
        made = super().combine(symbol, left, right, other)
        scale = 0 if isinstance(other, Position) else self._grows(symbol, plain(other), right)
        return Position(made.value, scale, self.at) if scale else made

    def change(self, symbol: str) -> Any:
        return Literal(self.value).change(symbol)

    def _grows(self, symbol: str, value: Any, right: Any) -> int:
        """By how much the result grows from element to element; 0 where that differs."""
        match symbol:
            case _ if type(value) is not int:
                return 0
            case "+":
                return self.scale
            case "-" if right is not self:
                return self.scale
            case "*" if value > 0:
                return self.scale * value
            case "//" if right is not self and value > 0 and self.scale % value == 0:
                return self.scale // value
        return 0


def whole(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A function of arrays: NumPy's own, of the elements as they are.

    Of probes only the shape of the result is known, and that it may depend on all of them.
    """
    leaves = [
        one
        for item in flat([*arguments, *options.values()])
        for one in (item.values() if isinstance(item, Window) else [item])
        if isinstance(one, (Number, Probe))
    ]
    result = function(
        *(_array(item) for item in arguments), **{k: _array(v) for k, v in options.items()}
    )
    probe = probe_among(leaves)
    if probe is None:
        return _seen(result)
    name = getattr(function, "__qualname__", "array")
    return _spread(result, probe.trace.join(name, *leaves))


def flat(items: Any) -> Iterator[Any]:
    """Arguments one by one, those in lists too."""
    for item in items:
        yield from flat(item) if isinstance(item, (list, tuple)) else [item]


def bare(item: Any) -> Any:
    """An argument as Python and NumPy have it, without what the kernel sees in its place."""
    if isinstance(item, (list, tuple)):
        return type(item)(bare(one) for one in item)
    if isinstance(item, np.ndarray):
        return item.view(np.ndarray)
    # A function that the kernel names is exchanged for one that knows its numbers; see `world`.
    return plain(getattr(item, "original", item))


def _array(item: Any) -> Any:
    """The same with windows as arrays, and of the type of numbers for what is not known."""
    if isinstance(item, Window):
        return item.array().view(np.ndarray)
    if isinstance(item, (list, tuple)):
        return type(item)(_array(one) for one in item)
    return 1.0 if isinstance(item, Probe) else bare(item)


def _seen(result: Any) -> Any:
    """What NumPy gave, as the kernel sees it."""
    if isinstance(result, tuple):
        return tuple(_seen(one) for one in result)
    if isinstance(result, np.flatiter):
        result = np.array(result)
    if isinstance(result, np.ndarray) and result.ndim:
        return result.view(Table)
    return see(result[()] if isinstance(result, np.ndarray) else result)


def _spread(result: Any, probe: Probe) -> Any:
    """The same probe wherever the result has a number."""
    if isinstance(result, tuple):
        return tuple(_spread(one, probe) for one in result)
    if isinstance(result, np.ndarray) and result.ndim:
        every = dict.fromkeys(np.ndindex(result.shape), probe)
        return Window(_cells(result.shape, every), probe)
    return probe


def _cells(shape: tuple[int, ...], values: Any) -> np.ndarray[Any, Any]:
    """An array of numbers of the kernel, from one value for each place."""
    cells = np.empty(shape, object)
    for place in np.ndindex(shape):
        cells[place] = values[place]
    return cells


def _index(index: Any) -> Any:
    """An index as NumPy takes it: a mask that was computed is an array of truths."""
    if isinstance(index, tuple):
        return tuple(_index(part) for part in index)
    if isinstance(index, Window):
        truths = index.array()
        return truths.astype(bool) if isinstance(index.blank, Probe) else np.asarray(truths)
    return np.asarray(index) if isinstance(index, Table) else index


def elementwise(function: Callable[..., Any], *operands: Any, weights: Any = None) -> Window:
    """`function` of windows, arrays of their shape, and scalars; dropped where `weights` is 0."""
    shape = next(item.cells.shape for item in operands if isinstance(item, Window))
    for item in operands:
        if isinstance(item, (Window, np.ndarray)) and item.shape not in ((), shape):
            raise ValueError(f"a window of shape {shape} meets an array of shape {item.shape}")
    blank = function(*map(_blank, operands))

    def at(place: tuple[int, ...]) -> Any:
        if weights is None or plain(weights[place]) != 0:
            return function(*(_element(item, place) for item in operands))
        return 0 if isinstance(blank, Probe) else Number(type(plain(blank))(0))

    return Window(_cells(shape, {place: at(place) for place in np.ndindex(shape)}), blank)


def _offset(part: Any) -> int:
    """How far away a part of an index is: a number, or a position in the array."""
    if not isinstance(part, Position):
        return operator.index(part)
    if part.scale != 1:
        raise IndexError(f"an index grows by {part.scale} from one element to the next")
    return int(part.value) - part.at


def _span(part: Any) -> range:
    if not isinstance(part, slice):
        offset = _offset(part)
        return range(offset, offset + 1)
    if part.start is None or part.stop is None or part.step not in (None, 1):
        raise ValueError(f"a window needs both ends and no step: {part}")
    span = range(_offset(part.start), _offset(part.stop))
    if not span:
        raise ValueError(f"a window without elements: {part}")
    return span


def _operation(symbol: str, left: Any, right: Any) -> Any:
    probe = probe_among([left, right])
    return binary(symbol, left, right) if probe is None else probe.trace.join(symbol, left, right)


def _blank(item: Any) -> Any:
    if isinstance(item, Window):
        return item.blank
    return _constant(item, item.dtype.type(1)) if isinstance(item, np.ndarray) else item


def _element(item: Any, place: tuple[int, ...]) -> Any:
    if isinstance(item, Window):
        return item.cells[place]
    return _constant(item, item[place]) if isinstance(item, np.ndarray) else item


def _constant(array: Any, value: Any) -> Any:
    """A value of a constant array; one of several integers, all of which are natural, is that."""
    known = isinstance(array, Constant) or not isinstance(array, Table)
    natural = known and array.dtype.kind in "iu" and array.min() >= 0
    return Natural(plain(value)) if natural else see(value)
