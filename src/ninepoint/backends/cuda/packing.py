"""Packing: two points in one register, where the ranges prove that 16 bits hold all values.

    v = x[0, -1] + x[0, 1], uint8     ->     v of column 0 in the lower half, of column 8 in the
                                             upper one: one addition for both

A thread makes columns in two halves that are done alike.  A lane holds how far a value lies above
its base, which is never negative; so sums and differences are those of whole registers, and no
carry goes from one lane to the other.  The bases of bytes and shorts are the least that their
types hold.  What cannot be done so, as a division, is done for both points one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...analysis.ranges import Interval, ranges
from ...language.dtypes import DType
from ...language.ir import Assign, Atom, Binary, Cast, Const, Kernel, Read, Ref, Unary, atoms
from ...lowering.cost import operation
from ...lowering.exchanges import exchanged
from .functions import Array

# The most that a lane holds.
MOST = 2**16 - 1

# The most that halves of a half float's bits hold, in the order of the floats.
ORDERED = 0x7BFF

# What it costs to take a register apart, or to put one together, in operations.
_APART, _PUT = 2, 1.5


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which values of a kernel are in lanes, and above which base each of them lies.

    `wide` are the others: each is made for both points, one after the other.
    """

    kernel: Kernel
    known: Mapping[str, Interval]
    bases: Mapping[str, int]

    @property
    def taken(self) -> set[str]:
        """The values in lanes that are needed one by one as well."""
        return {
            atom.name
            for assign in self.kernel.body
            if assign.name not in self.bases
            for atom in atoms(assign.value)
            if isinstance(atom, Ref) and atom.name in self.bases
        }

    def work(self, narrow: int) -> float:
        """Operations for both points of all pairs; results have at most so many bytes."""
        total: float = _APART * len(self.taken)
        for assign in self.kernel.body:
            if isinstance(assign.value, Read):
                total += _PUT if assign.name in self.bases else 2
            else:
                total += operation(assign.value) * (1 if assign.name in self.bases else 2)
        return total + narrow * len(self.kernel.outputs)


def lanes_of(kernel: Kernel, arrays: Mapping[str, Array]) -> Lanes | None:
    """The values that fit; None where no operation is done in lanes."""
    kernel = exchanged(kernel, DType.INT)
    known = ranges(kernel)
    bases: dict[str, int] = {}
    for assign in kernel.body:
        base = _base(assign, known, bases, arrays)
        if base is not None:
            bases[assign.name] = base
    done = [a for a in kernel.body if a.name in bases and not isinstance(a.value, Read | Cast)]
    others = [a for a in kernel.body if a.name not in bases and not isinstance(a.value, Read)]
    if len(done) <= 2 * len(others):
        return None
    return Lanes(kernel, known, bases)


def _base(
    assign: Assign,
    known: Mapping[str, Interval],
    bases: Mapping[str, int],
    arrays: Mapping[str, Array],
) -> int | None:
    """The base of a value, if it is done in lanes."""
    expr, range_ = assign.value, known[assign.name]
    match expr:
        case Read():
            dtype = arrays[expr.field].dtype
            return int(np.iinfo(dtype).min) if dtype.kind in "iu" and dtype.itemsize < 4 else None
        case Cast(arg=Ref(name=name)) if name in bases:
            same = known[name].low >= range_.low and known[name].high <= range_.high
            base: int | None = bases[name] if same and expr.dtype.is_integer else None
        case Unary(op="-", arg=Ref(name=name)) if name in bases:
            base = int(range_.low)
        case Binary():
            base = _of_two(expr, range_, known, bases)
        case _:
            return None
    if base is None or range_.nan or not base <= range_.low <= range_.high <= base + MOST:
        return None
    return base


def _of_two(
    expr: Binary, result: Interval, known: Mapping[str, Interval], bases: Mapping[str, int]
) -> int | None:
    """The base of an operation of two."""
    left, right = _given(expr.left, bases), _given(expr.right, bases)
    if left is None or right is None or not expr.dtype.is_integer:
        return None
    numbers = isinstance(expr.left, Const), isinstance(expr.right, Const)
    if all(numbers):
        return None
    match expr.op:
        case "+":
            return left + right
        case "-":
            # What is subtracted may be more than there is.
            return left - right if numbers[1] else int(result.low)
        case "*":
            if not any(numbers):
                return None
            factor, base = (left, right) if numbers[0] else (right, left)
            return factor * base if 0 <= factor <= MOST else None
        case "minimum" | "maximum":
            if any(numbers):
                base, number = (right, left) if numbers[0] else (left, right)
                return base if base <= number <= base + MOST else None
            base = min(left, right)
            highs = [
                known[one.name].high for one in (expr.left, expr.right) if isinstance(one, Ref)
            ]
            return base if max(highs) <= base + MOST else None
        case ">>" | "//":
            step = _power(expr, right) if numbers[1] else None
            return left >> step if step is not None and left % 2**step == 0 else None
        case _:
            return None


def _given(atom: Atom, bases: Mapping[str, int]) -> int | None:
    """The base of an operand, or its number."""
    if isinstance(atom, Const):
        return (
            int(atom.value)
            if atom.dtype.is_integer and not isinstance(atom.value, complex)
            else None
        )
    return bases.get(atom.name)


def _power(expr: Binary, number: int) -> int | None:
    """By how many bits a shift or a division moves."""
    if expr.op == ">>":
        return number if 0 <= number < 16 else None
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


class Packed:
    """The texts of operations on two lanes, each above its base."""

    def __init__(self, lanes: Lanes, names: Mapping[str, str]) -> None:
        self.lanes = lanes
        self.names = names

    def text(self, assign: Assign) -> str:
        """The text of an operation in lanes."""
        expr, base = assign.value, self.lanes.bases[assign.name]
        match expr:
            case Cast(arg=Ref(name=name)):
                return self.names[name]
            case Unary(arg=Ref(name=name)):
                return f"{both(-self.lanes.bases[name] - base)} - {self.names[name]}"
            case Binary():
                return self._two(expr, base)
            case _:
                raise AssertionError(expr)

    def _two(self, expr: Binary, base: int) -> str:
        left, right = expr.left, expr.right
        match expr.op:
            case "+" | "*" if isinstance(left, Const) or isinstance(right, Const):
                other, number = (right, left) if isinstance(left, Const) else (left, right)
                text = self._value(other)
                if expr.op == "+":
                    return text
                return f"{text} * {self._number(number)}u"
            case "+":
                return f"{self._value(left)} + {self._value(right)}"
            case "-" if isinstance(right, Const):
                return self._value(left)
            case "-":
                if isinstance(left, Const):
                    more, first = self._number(left) - self._own(right) - base, ""
                else:
                    more = self._own(left) - self._own(right) - base
                    first = self._value(left)
                first = f"{first} + {both(more)}" if first and more else first or both(more)
                return f"{first} - {self._value(right)}"
            case "minimum" | "maximum":
                texts = [self._above(one, base) for one in (left, right)]
                word = "least" if expr.op == "minimum" else "most"
                short = "" if self._most(expr, base) <= ORDERED else "_16"
                return f"npt_{word}2{short}({', '.join(texts)})"
            case _:
                step = _power(expr, self._number(right))
                assert step is not None
                return f"{self._value(left)} >> {step} & {both(MOST >> step)}"

    def _above(self, atom: Atom, base: int) -> str:
        """An operand, or a number, as it lies above a base."""
        if isinstance(atom, Const):
            return both(self._number(atom) - base)
        more = self._own(atom) - base
        return f"{self._value(atom)} + {both(more)}" if more else self._value(atom)

    def _most(self, expr: Binary, base: int) -> float:
        """The most that lies in a lane of an operand above this base."""
        known = self.lanes.known
        return max(
            self._number(one) - base if isinstance(one, Const) else known[one.name].high - base
            for one in (expr.left, expr.right)
        )

    def _own(self, atom: Atom) -> int:
        assert isinstance(atom, Ref)
        return self.lanes.bases[atom.name]

    def _value(self, atom: Atom) -> str:
        assert isinstance(atom, Ref)
        return self.names[atom.name]

    def _number(self, atom: Atom) -> int:
        assert isinstance(atom, Const)
        value = atom.value
        assert isinstance(value, int)
        return value


def both(number: int) -> str:
    """A number in both lanes; one that is negative borrows, as a sum of such does."""
    return f"0x{number * 0x10001 % 2**32:x}u"


def live(lanes: Lanes, chunks: int) -> int:
    """About how many registers the values take, besides so many of chunks."""
    kernel = lanes.kernel
    taken = lanes.taken
    last = {value.name: len(kernel.body) for value in kernel.outputs if isinstance(value, Ref)}
    for place, assign in reversed(list(enumerate(kernel.body))):
        for atom in atoms(assign.value):
            if isinstance(atom, Ref):
                last.setdefault(atom.name, place)
    ends: dict[int, int] = {}
    now = most = chunks
    for place, assign in enumerate(kernel.body):
        size = 1 if assign.name in lanes.bases and assign.name not in taken else 2
        now += size
        most = max(most, now)
        end = max(place, last.get(assign.name, place))
        ends[end] = ends.get(end, 0) + size
        now -= ends.pop(place, 0)
    return most
