"""What the user's function is given: fields, their windows, and positions."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from functools import partial, partialmethod
from typing import Any

import numpy as np

from ..definitions import Line
from .functions import METHODS, PARAMETRIC, reduced
from .number import (
    Array,
    Constant,
    Literal,
    Natural,
    Operation,
    Point,
    Table,
    Text,
    bare,
    computed,
    plain,
    see,
    whole,
)

# The options of reductions that have a meaning for a kernel.
_OPTIONS = {"ddof", "where", "initial"}


class Window(Table):
    """A small array of neighbours, or of what was computed from them.

    Its operators follow the rules of numbers, its methods those of NumPy's arrays.
    """

    rank = 4

    def combine(self, symbol: str, *operands: Any) -> Any:
        made = elementwise(partial(computed, symbol), *operands)
        for one in operands:
            if symbol == "*" and isinstance(one, Constant):
                # A product with a weight that is zero is 0, whatever the other factor is.
                made[np.asarray(one) == 0] = 0
        return made

    @property
    def flat(self) -> Any:
        return self.ravel()

    def reduce(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Reduce the window to one number, as NumPy's function of that name."""
        others = len(arguments) > (name in PARAMETRIC) or set(options) - _OPTIONS
        if others or not self.size:
            return whole(getattr(np, name), self, *arguments, **options)
        where, initial = options.pop("where", None), options.pop("initial", None)
        where = where.value if isinstance(where, Text) else where
        taken = None if where is None or where is True else self._truths(where)
        if taken is not None and initial is None and name.removeprefix("nan") in ("min", "max"):
            raise ValueError(f"{name} of a part of a window needs initial=")
        values = np.asarray(self).ravel()
        named = {name: plain(value) for name, value in options.items()}
        return reduced(name, values, *map(plain, arguments), taken=taken, initial=initial, **named)

    def _truths(self, mask: Any) -> Array:
        """A mask's element for each of the window's."""
        mask = np.asarray(bare(mask))
        if mask.shape not in ((), self.shape):
            raise ValueError(f"a window of shape {self.shape} meets a mask of shape {mask.shape}")
        if mask.dtype != bool:
            raise TypeError("where= takes truths")
        return np.broadcast_to(mask, self.shape).ravel()


class _Weak(Window):
    """A window of floats as Python's are."""

    def number(self, item: Any) -> Any:
        return see(item.item())


def _numpys(name: str) -> Operation:
    return lambda self, *rest, **options: whole(getattr(np.ndarray, name), self, *rest, **options)


for _name in METHODS.union(dir(np.ndarray)):
    if _name in METHODS:
        setattr(Window, _name, partialmethod(Window.reduce, _name))
    elif not _name.startswith("_") and callable(getattr(np.ndarray, _name)):
        setattr(Window, _name, _numpys(_name))


def cut(array: Any, lengths: Sequence[int]) -> Any:
    """An array that is no longer than this along its axes, which are the last of these.

    What a stencil made finer of a field whose length was rounded up may have some points too many.
    """
    return array[..., *map(slice, lengths[max(0, len(lengths) - array.ndim) :])]


class Field:
    """An array seen from the point at which a kernel is called.

    `array` is the whole array, and `seen` the part of it that lies beside the others, in the shape
    of what is computed; it is None if that does not fit.
    """

    seen: Any = None

    def __init__(self, kernel: Any, name: str, array: Any) -> None:
        self.kernel, self.name, self.array = kernel, name, array
        shape = kernel.setting.shape
        with contextlib.suppress(ValueError):
            self.seen = np.broadcast_to(cut(array, shape), shape)

    @property
    def shape(self) -> Any:
        return self.kernel.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        return functools.reduce(operator.mul, self.shape)

    def __getitem__(self, index: Any) -> Any:
        return neighbours(partial(self.kernel.read, self), index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(f"a kernel cannot assign to its field {self.name!r}: return the value")

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"the field {self.name!r} has no end: index it")


def neighbours(read: Operation, index: Any) -> Any:
    """What `read` gives at an offset, or the window of what it gives at several."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(part, slice) for part in parts):
        return read(tuple(map(_offset, parts)))
    spans = [_span(part) for part in parts]
    cells = [read(offset) for offset in itertools.product(*spans)]
    pairs = zip(parts, spans, strict=True)
    return window(cells, [len(span) for part, span in pairs if isinstance(part, slice)])


class Position(Literal):
    """A number that grows by `scale` from one element of the array to the next.

    A result of k times the points is read around p // k: there i is p, and `x[i // k]` is the
    element that `x[0]` is.  Where the scale is 1 a position is an index of the array, and says
    how far away that element is, from the point `at`.
    """

    __slots__ = ("at", "scale")
    rank = 2

    def __init__(self, value: int, scale: int, at: int) -> None:
        super().__init__(value)
        self.scale, self.at = scale, at

    def combine(self, symbol: str, *operands: Any) -> Any:
        if not operands[1:]:
            return computed(symbol, Literal(self.value))
        made = super().combine(symbol, *operands)
        left, right = operands
        other = right if left is self else left
        number, line = plain(other), Line(self.scale, self.value)
        if type(number) is not int or isinstance(other, Position):
            return made
        grown = line.combined(symbol, number, reflected=right is self)
        return Position(made.value, grown.scale, self.at) if isinstance(grown, Line) else made


def flat(items: Any) -> Iterator[Any]:
    """Arguments one by one, those in lists too."""
    for item in items:
        yield from flat(item) if isinstance(item, (list, tuple)) else [item]


def window(cells: Sequence[Any], shape: Sequence[int], like: Any = ()) -> Window:
    """Numbers as a window, of a type that holds them all, and those that it is to be `like`."""
    values = [plain(cell) for cell in cells]
    kinds = {type(value): value for value in (*values, *map(plain, like))}
    array = np.array(values, np.result_type(*kinds.values())).reshape(shape)
    strong = array.dtype.kind not in "fc" or any(issubclass(kind, np.inexact) for kind in kinds)
    return array.view(Window if strong else _Weak)


def elementwise(function: Operation, *operands: Any) -> Window:
    """`function` of windows, arrays of their shape, and scalars."""
    shape = next(item.shape for item in operands if isinstance(item, Window))
    for item in operands:
        if isinstance(item, np.ndarray) and item.shape not in ((), shape):
            raise ValueError(f"a window of shape {shape} meets an array of shape {item.shape}")
    # Of any numbers of these types: it says of which type the result is.
    blank = function(*(_element(item, None) for item in operands))
    cells = [function(*(_element(item, at) for item in operands)) for at in np.ndindex(shape)]
    return window(cells, shape, [blank])


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


def _element(operand: Any, place: Point | None) -> Any:
    """What an operand has at a place of the window; without one, any number of its type.

    One of several constant integers, all of which are natural, is that.
    """
    if not isinstance(operand, np.ndarray):
        return operand
    value = operand.dtype.type(1) if place is None else np.asarray(operand)[place]
    if isinstance(operand, Window):
        return operand.number(value)
    known = isinstance(operand, Constant) or not isinstance(operand, Table)
    natural = known and operand.dtype.kind in "iu" and operand.min() >= 0
    return Natural(plain(value)) if natural else see(value)
