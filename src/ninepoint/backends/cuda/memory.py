"""Memory: the arrays of a text, how their elements are read and written, and what is at borders.

x[i0, i1] of float16, as float32     ->     npt_as<float>::from(f0[i0 * f0_0 + i1 * f0_1])
c[2, 1] of 3 x 4 bytes               ->     c0[2 * 4 + 1]

mirror      at1(i1 - 1, n1)                     the position that stands there
constant    a1m1 < 0 ? b0 : f0[a1m1 * f0_1]     no position: a constant of the text
fill        o0[...] = i1 < 1 ? b1 : t4          where a result has no neighbour
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...language.box import Box
from ...language.dtypes import SHORT_FLOATS, short
from ...language.ir import Offset
from ...lowering.chain import Constant

# The rules before and after an array along each core axis.
Rules: TypeAlias = tuple[tuple[str, str], ...]

# Rules under which there is nothing beyond the ends: an output without neighbours is left out.
ABSENT = ("fill", "keep", "valid")

# How the machine types are called in C++: those of values, and those that only storage has.
C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "npt_int64",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "uint64": "npt_uint64",
    "float32": "float",
    "float64": "double",
    "complex64": "npt_complex64",
    "complex128": "npt_complex128",
} | {name: one.device for name, one in SHORT_FLOATS.items()}


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a text: its name in launches, its parameter, and what its elements are.

    What a launch before has made has no border, but reaches beyond the ends by a `region`.
    """

    name: str
    parameter: str
    dtype: np.dtype
    region: tuple[Offset, Offset] | None = None

    @property
    def stored(self) -> str:
        """How its elements are called."""
        return stored_type(self.dtype)

    def steps(self, places: Sequence[str]) -> list[str]:
        """How far a position is, along each of the first axes."""
        return [
            f"{f'({place})' if ' ' in place else place} * {self.parameter}_{axis}"
            for axis, place in enumerate(places)
        ]

    def at(self, places: Sequence[str]) -> str:
        """The element at a position along each core axis."""
        return f"{self.parameter}[{' + '.join(self.steps(places))}]"

    def row(self, places: Sequence[str], rules: Rules) -> tuple[list[str], str]:
        """Lines that find a row, whose place along each axis but the last is told by its rule.

        With them comes whether there is such a row.
        """
        lines = [f"const npt_index a{axis} = {place};" for axis, place in enumerate(places)]
        names = [f"a{axis}" for axis in range(len(places))]
        row = " + ".join([self.parameter, *self.steps(names)])
        absent = [name for name, pair in zip(names, rules, strict=False) if "constant" in pair]
        there = f"({' | '.join(absent)}) >= 0" if absent else "true"
        return [*lines, f"const {self.stored} *const row = {row};"], there


@dataclass(frozen=True, slots=True)
class Local:
    """A contiguous array of known lengths: coefficients, a table, or memory of a thread."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    def at(self, places: Sequence[str]) -> str:
        """An element."""
        text = places[0]
        for place, length in zip(places[1:], self.shape[1:], strict=True):
            first = f"({text})" if " " in text else text
            text = f"{first} * {length} + {place}"
        return f"{self.name}[{text}]"


Memory: TypeAlias = Array | Local


def stored_type(dtype: np.dtype) -> str:
    """How the elements of an array are called; of a bool whatever byte there is."""
    return "unsigned char" if dtype == np.bool_ else C_TYPES[dtype.name]


def loaded(machine: str, dtype: np.dtype, text: str) -> str:
    """A stored element as it is computed with, of that type in C++ as well."""
    if dtype == np.bool_ and machine == "bool":
        return f"({text} != 0)"
    return text if machine == dtype.name else f"npt_as<{C_TYPES[machine]}>::from({text})"


def stored(dtype: np.dtype, machine: str, text: str) -> str:
    """A value as it is stored, which holds it."""
    # C++ takes integers of one type for those of another, if that holds them.
    whole = dtype.kind in "iu" and machine.startswith(("int", "uint"))
    same = whole or machine == dtype.name or (machine == "bool" and not short(dtype))
    return text if same else f"npt_as<{stored_type(dtype)}>::from({text})"


# Borders.


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


def asked(constants: Iterable[Constant], borders: Sequence[Rules]) -> tuple[Constant, ...]:
    """The constants that a rule of their border asks for, each once."""
    rules = [{side for pair in one for side in pair} for one in borders]
    return tuple(one for one in dict.fromkeys(constants) if one[2] in rules[one[0]])
