"""Loops over a window, at one point: for what is neither staged nor written out.

median of x over 31 x 31   ->   for (int bit = 0; bit < 8; bit++)
                                  for (int d0 = 0; d0 < 31; d0++)
                                    for (int d1 = 0; d1 < 31; d1++)
                                      below += x[i0 + d0][i1 + d1] < trial; ...

They are those of the CPU, and add floats in the same order.  Only an element of some rank is
found bit by bit: a thread has no memory for all elements, but can count those below a number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...analysis.ranges import Interval
from ...loops.nodes import SHORT
from ...lowering.windows import ordered_by, quantile_position
from ..numba.points import Point, Window

# The element of some rank, found bit by bit, by counting the elements below a number.
_OF_RANK = """
$key = $word(0)
for $bit in range($bits):
    $trial = $word($key | $word(i64(1) << ($last - $bit)))
    $below = i32(0)
    for all:
        $below = i32($below + i32($element < $trial))
    $key = $trial if $below <= $rank else $key
"""

# The next one.
_AND_NEXT = """
$upto = i32(0)
$above = $word($most)
for all:
    $one = $element
    $upto = i32($upto + i32($one <= $key))
    $above = $one if ($one > $key) & ($one < $above) else $above
$above = $key if $upto > $rank + 1 else $above
"""

_STRANGE = """
$strange = False
for all:
    $strange = $strange | ($item != $item)
"""

_VALID = """
$at = 0
for all:
    $at += 1 if $item == $item else 0
"""


class Windows(Point):
    """The texts of window loops of a body."""

    def ranked(self, window: Window) -> list[str]:
        reduce = window.reduce
        machine = self.machine(reduce.result)
        if reduce.kind == "quantile":
            if ordered_by(reduce):
                # As it is stored an element has fewer bits to count by.
                item = reduce.body[0].name
                machine = self.types[item]
                window = replace(window, item=item, known=self.known[item])
            low, fraction = quantile_position(window.count, reduce.quantile)
            lines, found = _of_rank(window, machine, window.item, str(low), fraction > 0)
            lines += window.lines(_STRANGE) if window.known.nan else []
            return [*lines, *window.between(found)]
        filled = f"({window.item} if {window.item} == {window.item} else {SHORT[machine]}(inf))"
        two = reduce.kind != "nanrank"
        lines, found = _of_rank(window, machine, filled, f"low_{window.name}", two)
        return [*window.lines(_VALID), *window.places(), *lines, *window.valid(found)]


def _of_rank(
    window: Window, machine: str, element: str, rank: str, two: bool
) -> tuple[list[str], tuple[str, str]]:
    """Lines that find the element of some rank, and the next one if `two` are wanted; both."""
    keys = Keys(machine, window.known)
    words = {"word": keys.short, "bits": keys.bits, "last": keys.bits - 1, "rank": rank}
    program = _OF_RANK + _AND_NEXT.lstrip() * two
    most, key = 2**keys.width - 1, f"key_{window.name}"
    lines = window.lines(program, **words, most=most, element=keys.of(element))
    above = f"above_{window.name}" if two else key
    return lines, (keys.value(key), keys.value(above))


class Keys:
    """The elements of a window as numbers that are not negative, in the same order.

    The type of such a number is called `short` in texts and has `width` bits, of which the last
    `bits` are all that count.
    """

    def __init__(self, machine: str, values: Interval) -> None:
        self._machine, self._floats = machine, machine.startswith("float")
        self.width = self.bits = max(32, np.dtype(machine).itemsize * 8)
        self.short, self._least = f"u{self.width}", 0
        if not self._floats:
            low, high = int(values.low), int(values.high)
            self.bits, self._least = (high - low).bit_length(), low % 2**self.width

    def of(self, element: str) -> str:
        """The number of an element."""
        if self._floats:
            return f"key_{self._machine}({element})"
        key = f"{self.short}({element})"
        return f"{self.short}({key} - {self.short}({self._least}))" if self._least else key

    def value(self, key: str) -> str:
        """The element of a number."""
        if self._floats:
            return f"keyed_{self._machine}({key})"
        return f"{SHORT[self._machine]}({key} + {self.short}({self._least}))"
