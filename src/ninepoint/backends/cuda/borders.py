"""Borders in a kernel's text: where a neighbour beyond the ends comes from, and what is written.

mirror      at1(i1 - 1, n1)                     the position that stands there
constant    a1m1 < 0 ? b0 : f0[a1m1 * f0_1]     no position: a constant of the text
fill        o0[...] = i1 < 1 ? b1 : t4          where a result has no neighbour
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ...language.box import Box
from ...lowering.chain import Constant

# The rules before and after an array along each core axis.
Rules: TypeAlias = tuple[tuple[str, str], ...]

# Rules under which there is nothing beyond the ends: an output without neighbours is left out.
ABSENT = ("fill", "keep", "valid")


def finders(pair: tuple[str, str]) -> str:
    """What finds the places of what stands before and after an axis: a template's arguments."""
    return ", ".join(f"npt_{'nearest' if rule in ABSENT else rule}" for rule in pair)


def maps(rules: Rules) -> list[str]:
    """The functions at0, at1, ... that find what stands at a position along each axis."""
    return [
        f"NPT npt_index at{axis}(npt_index i, npt_index n) "
        f"{{ return npt_at<{finders(pair)}>(i, n); }}"
        for axis, pair in enumerate(rules)
    ]


def left_out(rules: Rules, reach: Box) -> list[tuple[int, int]]:
    """How many points at both ends of each axis have no neighbour, and none instead."""
    return [
        (low * (before in ABSENT), high * (after in ABSENT))
        for (before, after), (low, high) in zip(rules, reach.sides, strict=True)
    ]


def ends(rules: Rules, reach: Box, places: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Tests whether a point is left out at an end, and the rule that says so.

    `places` are its position and the length along each axis.  At a corner the first axis decides,
    and its beginning over its end.
    """
    found: list[tuple[str, str]] = []
    counts = left_out(rules, reach)
    for (before, after), (low, high), (place, length) in zip(rules, counts, places, strict=True):
        if low:
            found.append((f"{place} < {low}", before))
        if high:
            found.append((f"{place} >= {length} - {high}", after))
    return found


def instead(tests: Sequence[tuple[str, str]], value: str, other: Callable[[str], str]) -> str:
    """The value of a point, or what the rule of an end has `other` than it."""
    for test, rule in reversed(tests):
        value = f"{test} ? {other(rule)} : {value}"
    return value


def constants_of(
    rules: Rules, fields: Sequence[np.dtype], outs: Sequence[np.dtype]
) -> tuple[Constant, ...]:
    """The constants of a kernel by itself: one for each type that needs one."""
    sides = {side for pair in rules for side in pair}
    found: list[Constant] = []
    if "constant" in sides:
        found += [(0, dtype, "constant") for dtype in dict.fromkeys(fields)]
    if "fill" in sides:
        found += [(0, dtype, "fill") for dtype in dict.fromkeys(outs)]
    return tuple(found)
