"""Where a kernel is: what `npt.index()` gives at a point, and what is still an index of an array.

A result of k times the points is read around p // k: there i is p, and `x[i // k]` is the element
that `x[0]` is.  So a number remembers by how much it grows from one element of the array to the
next, its `scale`; where that is 1 it is an index of the array, and says how far away it is.
"""

from __future__ import annotations

from typing import Any

from .number import Literal, binary, literal, plain
from .probe import Probe, Trace


class Position(Literal):
    """A number that grows by `scale` from one element of the array to the next."""

    __slots__ = ("at", "scale")

    def __init__(self, value: int, scale: int, at: int) -> None:
        super().__init__(value)
        self.scale, self.at = scale, at

    def combine(self, symbol: str, left: Any, right: Any, other: Any) -> Any:
        made = super().combine(symbol, left, right, other)
        scale = _grows(symbol, self.scale, other, right is self)
        if not scale or made is NotImplemented:
            return made
        return Position(made.value, scale, self.at)

    def change(self, symbol: str) -> Any:
        return Literal(self.value).change(symbol)


class Unplaced(Probe):
    """The same where nobody knows which element it is: `first` is the number at element 0."""

    __slots__ = ("axis", "first", "scale")

    def __init__(self, trace: Trace, axis: int, first: int, scale: int) -> None:
        known = trace.probe("position", axis, first, scale)
        super().__init__(trace, known.id, frozenset(), None)
        self.axis, self.first, self.scale = axis, first, scale

    def combine(self, symbol: str, left: Any, right: Any, other: Any) -> Any:
        value = plain(other)
        if type(value) is int and not isinstance(other, Probe):
            ends = (self.first, value) if left is self else (value, self.first)
            scale = _grows(symbol, self.scale, other, right is self)
            if scale:
                first = int(plain(binary(symbol, *ends)))
                return Unplaced(self.trace, self.axis, first, scale)
            if symbol == "%" and left is self and value > 0 and self.scale % value == 0:
                return literal(self.first % value)
        return super().combine(symbol, left, right, other)


def distance(index: Position | Unplaced) -> int:
    """How far from the point the element is that a number is the index of."""
    if index.scale != 1:
        raise IndexError(f"an index grows by {index.scale} from one element to the next")
    return index.first if isinstance(index, Unplaced) else int(index.value) - index.at


def _grows(symbol: str, scale: int, other: Any, reflected: bool) -> int:
    """By how much an operation's result grows from element to element; 0 where that differs."""
    value = plain(other)
    if type(value) is not int or isinstance(other, (Probe, Position)):
        return 0
    match symbol:
        case "+":
            return scale
        case "-" if not reflected:
            return scale
        case "*" if value > 0:
            return scale * value
        case "//" if not reflected and value > 0 and scale % value == 0:
            return scale // value
    return 0
