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

from ...analysis.ranges import Interval
from ...language.ir import Reduce
from ...loops.nodes import SHORT
from ...lowering.algorithms import ordered_by
from ...lowering.ranks import quantile_position
from ..numba.window_loops import (
    WindowLoops,
    indented,
    of_valid,
    over,
    place_of_valid,
    quantile,
)

# What reads an element of a field, so far along each axis and further along some: the lines that
# come before it, and its text.
Reader = Callable[[str, Sequence[int], Mapping[int, str]], tuple[list[str], str]]


@dataclass
class Windows(WindowLoops):
    """The texts of window loops of a body, whose elements are read as `reader` says."""

    reader: Reader | None = None

    def element(
        self, field: str, origin: Sequence[int], along: Mapping[int, str]
    ) -> tuple[list[str], str]:
        assert self.reader is not None
        return self.reader(field, origin, along)

    def ranked(
        self, name: str, reduce: Reduce, own: str, inner: list[str], item: Interval
    ) -> list[str]:
        result, short = self.expressions.atom(reduce.result), SHORT[own]
        machine = self.expressions.machine(reduce.result)

        def loops(*lines: str) -> list[str]:
            return over(reduce.shape, [*inner, *lines])

        if reduce.kind == "quantile":
            if ordered_by(reduce):
                # As it is stored an element has fewer bits to count by.
                result = reduce.body[0].name
                machine, item = self.expressions.types[result], self.known[result]
            low, fraction = quantile_position(math.prod(reduce.shape), reduce.quantile)
            keys = Keys(machine, item)
            lines, found = _of_rank(name, keys, result, loops, str(low), 2 if fraction else 1)
            if item.nan:
                strange = f"strange_{name}"
                test = f"{strange} = {strange} | ({result} != {result})"
                lines += [f"{strange} = False", *loops(test)]
            return [*lines, *quantile(name, reduce, short, found, item.nan)]
        at = f"at_{name}"
        filled = f"({result} if {result} == {result} else {SHORT[machine]}(inf))"
        wanted = 1 if reduce.kind == "nanrank" else 2
        lines, found = _of_rank(name, Keys(machine, item), filled, loops, f"low_{name}", wanted)
        return [
            f"{at} = 0",
            *loops(f"{at} += 1 if {result} == {result} else 0"),
            *place_of_valid(name, reduce, at),
            *lines,
            *of_valid(name, reduce, short, found, at),
        ]


def _of_rank(
    name: str, keys: Keys, element: str, loops: Callable[..., list[str]], rank: str, wanted: int
) -> tuple[list[str], tuple[str, str]]:
    """Lines that find the element of some rank, and the next one if two are wanted; their texts.

    The bits are found one after the other, by counting the elements below a number.  `loops` puts
    lines where each element is there.
    """
    bit, key, trial, below = (f"{word}_{name}" for word in ("bit", "key", "trial", "below"))
    short, bits, own = keys.short, keys.bits, keys.of(element)
    lines = [
        f"{key} = {short}(0)",
        f"for {bit} in range({bits}):",
        f"    {trial} = {short}({key} | {short}(i64(1) << ({bits - 1} - {bit})))",
        f"    {below} = i32(0)",
        *indented(loops(f"{below} = i32({below} + i32({own} < {trial}))")),
        f"    {key} = {trial} if {below} <= {rank} else {key}",
    ]
    if wanted == 1:
        return lines, (keys.value(key),) * 2
    above, upto, one = (f"{word}_{name}" for word in ("above", "upto", "one"))
    lines += [
        f"{upto} = i32(0)",
        f"{above} = {short}({2**keys.width - 1})",
        *loops(
            f"{one} = {own}",
            f"{upto} = i32({upto} + i32({one} <= {key}))",
            f"{above} = {one} if ({one} > {key}) & ({one} < {above}) else {above}",
        ),
        f"{above} = {key} if {upto} > {rank} + 1 else {above}",
    ]
    return lines, (keys.value(key), keys.value(above))


@dataclass(frozen=True)
class Keys:
    """The elements of a window as numbers that are not negative, in the same order."""

    machine: str
    values: Interval

    @property
    def width(self) -> int:
        """How many bits the type of such a number has."""
        return max(32, np.dtype(self.machine).itemsize * 8)

    @property
    def short(self) -> str:
        """The type, as texts call it."""
        return f"u{self.width}"

    @property
    def bits(self) -> int:
        """How many bits the numbers have."""
        if self._floats:
            return self.width
        return (int(self.values.high) - int(self.values.low)).bit_length()

    def of(self, element: str) -> str:
        """The number of an element."""
        if self._floats:
            return f"key_{self.machine}({element})"
        key = f"{self.short}({element})"
        return f"{self.short}({key} - {self.short}({self._least}))" if self._least else key

    def value(self, key: str) -> str:
        """The element of a number."""
        if self._floats:
            return f"keyed_{self.machine}({key})"
        return f"{SHORT[self.machine]}({key} + {self.short}({self._least}))"

    @property
    def _floats(self) -> bool:
        return self.machine.startswith("float")

    @property
    def _least(self) -> int:
        least: int = int(self.values.low) % 2**self.width
        return least
