"""Loops over a window, at one point: for what is neither staged nor written out.

median of x over 31 x 31   ->   for (int bit = 0; bit < 8; bit++)
                                  for (int d0 = 0; d0 < 31; d0++)
                                    for (int d1 = 0; d1 < 31; d1++)
                                      below += x[i0 + d0][i1 + d1] < trial; ...

They are those of the CPU, and add floats in the same order.  Only an element of some rank is
found bit by bit: a thread has no memory for all elements, but can count those below a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...analysis.ranges import Interval, of_storage
from ...language.ir import Reduce
from ...loops.nodes import SHORT
from ...lowering.ranks import quantile_position
from ..numba.window_loops import WindowLoops, of_valid, over, place_of_valid, quantile
from .bodies import Body

# What reads an element of a field, so far along each axis and further along some: the lines that
# come before it, and its text.
Reader = Callable[[str, Sequence[int], Mapping[int, str]], tuple[list[str], str]]


@dataclass
class Windows(WindowLoops):
    """The texts of window loops of a body, whose elements are read as `reader` says."""

    reader: Reader | None = None

    def known_storage(self, array: str) -> Interval:
        return self.known[array] if array in self.known else of_storage(self.storage[array])

    def element(
        self, field: str, origin: Sequence[int], along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        assert self.reader is not None
        return self.reader(field, origin, along)

    def ranked(
        self, name: str, reduce: Reduce, own: str, inner: list[str], item: Interval
    ) -> list[str]:
        body = self.expressions
        assert isinstance(body, Body)
        machine, result = body.machine(reduce.result), body.atom(reduce.result)
        short, count = SHORT[own], math.prod(reduce.shape)

        def loops(lines: Sequence[str]) -> list[str]:
            return over(reduce.shape, [*inner, *lines])

        if reduce.kind == "quantile":
            low, fraction = quantile_position(count, reduce.quantile)
            ranks = Ranks(body, machine, result, item)
            lines, found = ranks.of_numbers(loops, low, 2 if fraction else 1)
            return [*lines, *quantile(name, reduce, short, (found[0], found[-1]), False)]
        at = f"at_{name}"
        filled = f"({result} if {result} == {result} else {SHORT[machine]}(inf))"
        wanted = 1 if reduce.kind == "nanrank" else 2
        ranks = Ranks(body, machine, filled, item)
        lines, found = ranks.lines(loops, f"low_{name}", wanted)
        return [
            f"{at} = 0",
            *loops([f"{at} += 1 if {result} == {result} else 0"]),
            *place_of_valid(name, reduce, at),
            *lines,
            *of_valid(name, reduce, short, (found[0], found[-1]), at),
        ]


@dataclass(frozen=True)
class Ranks:
    """The elements of some rank, found bit by bit by counting those below a number."""

    body: Body
    machine: str
    element: str
    values: Interval

    def lines(
        self, loops: Callable[[Sequence[str]], list[str]], rank: int | str, wanted: int
    ) -> tuple[list[str], list[str]]:
        """The lines, and the texts of `wanted` elements from `rank` on.

        `loops` puts lines where each element is there.
        """
        bit, key, trial, below = map(self.body.new, ("bit", "key", "trial", "below"))
        short, bits = self._short, self._bits
        lines = [
            f"{key} = {short}(0)",
            f"for {bit} in range({bits}):",
            f"    {trial} = {short}({key} | {short}(i64(1) << ({bits - 1} - {bit})))",
            f"    {below} = i32(0)",
            *("    " + s for s in loops([f"{below} = i32({below} + i32({self._key} < {trial}))"])),
            f"    {key} = {trial} if {below} <= {rank} else {key}",
        ]
        keys = [key]
        if wanted > 1:
            above, upto, one = map(self.body.new, ("above", "upto", "one"))
            lines += [
                f"{upto} = i32(0)",
                f"{above} = {short}({2**self._width - 1})",
                *loops(
                    [
                        f"{one} = {self._key}",
                        f"{upto} = i32({upto} + i32({one} <= {key}))",
                        f"{above} = {one} if ({one} > {key}) & ({one} < {above}) else {above}",
                    ]
                ),
                f"{above} = {key} if {upto} > {rank} + 1 else {above}",
            ]
            keys.append(above)
        return lines, [self._value(one) for one in keys]

    def of_numbers(
        self, loops: Callable[[Sequence[str]], list[str]], rank: int, wanted: int
    ) -> tuple[list[str], list[str]]:
        """The same; all are NaN where any element is."""
        lines, found = self.lines(loops, rank, wanted)
        if self.values.nan:
            strange = self.body.new("strange")
            test = f"{strange} = {strange} | ({self.element} != {self.element})"
            lines += [f"{strange} = False", *loops([test])]
            found = [f"{SHORT[self.machine]}(nan) if {strange} else {one}" for one in found]
        return lines, found

    @property
    def _floats(self) -> bool:
        return self.machine.startswith("float")

    @property
    def _width(self) -> int:
        return max(32, np.dtype(self.machine).itemsize * 8)

    @property
    def _short(self) -> str:
        return f"u{self._width}"

    @property
    def _bits(self) -> int:
        if self._floats:
            return self._width
        return (int(self.values.high) - int(self.values.low)).bit_length()

    @property
    def _key(self) -> str:
        """An element as a number that is not negative, in the same order."""
        if self._floats:
            return f"key_{self.machine}({self.element})"
        low = int(self.values.low) % 2**self._width
        key = f"{self._short}({self.element})"
        return f"{self._short}({key} - {self._short}({low}))" if low else key

    def _value(self, key: str) -> str:
        if self._floats:
            return f"keyed_{self.machine}({key})"
        low = int(self.values.low) % 2**self._width
        return f"{SHORT[self.machine]}({key} + {self._short}({low}))"
