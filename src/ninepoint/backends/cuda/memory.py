"""Memory: the arrays of a text, and how their elements are read and written.

x[i0, i1] of float16, as float32     ->     npt_as<float>::from(f0[i0 * f0_0 + i1 * f0_1])
c[2, 1] of 3 x 4 bytes               ->     c0[2 * 4 + 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...language.dtypes import SHORT_FLOATS, short
from ...language.ir import Offset
from .borders import Rules

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

    def at(self, places: Sequence[str]) -> str:
        """The element at a position along each core axis."""
        steps = (
            f"{f'({place})' if ' ' in place else place} * {self.parameter}_{axis}"
            for axis, place in enumerate(places)
        )
        return f"{self.parameter}[{' + '.join(steps)}]"

    def row(self, places: Sequence[str], rules: Rules) -> tuple[list[str], str]:
        """Lines that find a row, whose place along each axis but the last is told by its rule.

        With them comes whether there is such a row.
        """
        lines = [f"const npt_index a{axis} = {place};" for axis, place in enumerate(places)]
        steps = [f"a{axis} * {self.parameter}_{axis}" for axis in range(len(places))]
        row = " + ".join([self.parameter, *steps])
        absent = [f"a{axis}" for axis in range(len(places)) if "constant" in rules[axis]]
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
    """A stored element as it is computed with."""
    if dtype == np.bool_ and machine == "bool":
        return f"{text} != 0"
    same = machine == dtype.name or (dtype.kind in "iu" and machine.startswith(("int", "uint")))
    return text if same else f"npt_as<{C_TYPES[machine]}>::from({text})"


def stored(dtype: np.dtype, machine: str, text: str) -> str:
    """A value as it is stored, which holds it."""
    same = machine == dtype.name or (machine == "bool" and not short(dtype))
    same = same or (dtype.kind in "iu" and machine.startswith(("int", "uint")))
    return text if same else f"npt_as<{stored_type(dtype)}>::from({text})"
