"""Valid: the element of some rank among those of a window that are no NaN.

    nanmedian of 3      ->      f0 = x0 == x0 ? x0 : inf; ...      s0 <= s1 <= s2 of f
                                n  = (x0 == x0) + (x1 == x1) + (x2 == x2)
                                n == 0 ? nan : n == 1 ? s0 : n == 2 ? (s0 + s1) / 2 : s1

How many there are differs from point to point, so all that may be wanted is put in order, and the
count chooses.  What stands for a NaN is infinite: it comes after all others (before, where the
rank is counted from above), and beside elements that are infinite themselves it makes no
difference which is which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..language.dtypes import DType
from ..language.ir import Atom, Binary, Const, Expr, Offset, Reduce, Select
from .ranks import quantile_position

Emit = Callable[[Expr], Atom]


def valid_position(reduce: Reduce, count: int) -> tuple[int, float]:
    """The element below what is wanted of so many elements, and the fraction towards the next."""
    if reduce.kind == "nanrank":
        return min(int(count * reduce.quantile / 100), count - 1), 0.0
    return quantile_position(count, reduce.quantile)


@dataclass(frozen=True, slots=True)
class Valid:
    """What is wanted: `count` elements from rank `first` on, NaN having become `fill`.

    `places` has for each number of elements that are no NaN, from 1 on, the place of one among
    these, and the fraction towards the next.
    """

    shape: Offset
    dtype: DType
    fill: str
    first: int
    count: int
    places: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, reduce: Reduce) -> Valid:
        """What a window's reduction wants."""
        size = math.prod(reduce.shape)
        above = valid_position(reduce, size)[0] > (size - 1) // 2
        found = []
        for count in range(1, size + 1):
            place, fraction = valid_position(reduce, count)
            found.append((place + (size - count if above else 0), fraction))
        first = min(place for place, _ in found)
        last = max(place + (fraction > 0) for place, fraction in found)
        places = tuple((place - first, fraction) for place, fraction in found)
        fill = "-inf" if above else "inf"
        return cls(reduce.shape, reduce.dtype, fill, first, last - first + 1, places)

    def split(self, items: Sequence[Atom], emit: Emit) -> tuple[list[Atom], list[Atom]]:
        """Elements with something in the place of each NaN, and a one for each that is none."""
        filled: list[Atom] = []
        ones: list[Atom] = []
        for item in items:
            valid = emit(Binary(DType.BOOL, "==", item, item))
            filled.append(emit(Select(item.dtype, valid, item, Const(item.dtype, self.fill))))
            # Counted in lanes of the elements' own width.
            one, zero = Const(item.dtype, "1.0"), Const(item.dtype, "0.0")
            ones.append(emit(Select(item.dtype, valid, one, zero)))
        return filled, ones

    def part(self, ordered: Sequence[Atom]) -> Sequence[Atom]:
        """What is wanted of all elements in order."""
        return ordered[self.first : self.first + self.count]

    def chosen(self, found: Sequence[Atom], count: Atom, emit: Emit) -> Atom:
        """The result, of the elements that are wanted and how many are no NaN."""
        dtype = self.dtype
        tests, below = _bits(count, len(self.places), emit)

        def choose(leaves: Sequence[Atom | None]) -> Atom:
            return _choice(leaves, tests, emit)

        fractions = [fraction for _, fraction in self.places]
        first = choose([found[place] for place, _ in self.places])
        ways: list[Atom | None] = [first] * len(fractions)
        if any(fractions):
            last = choose([found[p + 1] if part else None for p, part in self.places])
            apart = emit(Binary(dtype, "-", last, first))

            def towards(kind: Callable[[float], bool], part: Callable[[float], float]) -> Atom:
                """A step from one of the two, as long as the number of elements asks for."""
                steps = [Const(dtype, repr(part(f))) if kind(f) else None for f in fractions]
                return emit(Binary(dtype, "*", apart, choose(steps)))

            for k, fraction in enumerate(fractions):
                if fraction == 0.5:
                    both = emit(Binary(dtype, "+", first, last))
                    ways[k] = emit(Binary(dtype, "/", both, Const(dtype, "2.0")))
                elif 0 < fraction < 0.5:
                    step = towards(lambda f: 0 < f < 0.5, lambda f: f)
                    ways[k] = emit(Binary(dtype, "+", first, step))
                elif fraction > 0.5:
                    step = towards(lambda f: f > 0.5, lambda f: 1 - f)
                    ways[k] = emit(Binary(dtype, "-", last, step))
        return emit(Select(dtype, below, Const(dtype, "nan"), choose(ways)))


def _bits(count: Atom, most: int, emit: Emit) -> tuple[list[Atom], Atom]:
    """The bits of a count less one, the highest first, and whether the count is zero."""
    dtype = count.dtype
    left = emit(Binary(dtype, "-", count, Const(dtype, "1.0")))
    below = emit(Binary(DType.BOOL, "<", left, Const(dtype, "0.0")))
    tests: list[Atom] = []
    for bit in reversed(range((most - 1).bit_length())):
        power = Const(dtype, repr(float(2**bit)))
        tests.append(emit(Binary(DType.BOOL, ">=", left, power)))
        if bit:
            less = emit(Binary(dtype, "-", left, power))
            left = emit(Select(dtype, tests[-1], less, left))
    return tests, below


def _choice(leaves: Sequence[Atom | None], tests: Sequence[Atom], emit: Emit) -> Atom:
    """The leaf at the number that these bits make; None is one that nobody asks for."""
    level = [*leaves, *[None] * (2 ** len(tests) - len(leaves))]
    for test in reversed(tests):
        level = [
            low if high is None or high == low
            else high if low is None
            else emit(Select(low.dtype, test, high, low))
            for low, high in zip(level[::2], level[1::2], strict=True)
        ]  # fmt: skip
    (found,) = level
    assert found is not None
    return found
