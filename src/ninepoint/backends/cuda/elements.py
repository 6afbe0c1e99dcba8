"""Elements of the arrays of a text: where they are, and how they are read and written.

x[i0, i1] of float16     ->     npt_as<float>::from(f0[i0 * f0_0 + i1 * f0_1])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...language.dtypes import computed, short
from .printing import C_TYPES, Local, stored_type


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a text: its name in launches, its parameter, and what its elements are."""

    name: str
    parameter: str
    dtype: np.dtype

    @property
    def kept(self) -> bool:
        """Whether it is the result of a launch before, and has no border."""
        return self.name.startswith("scratch")

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

    def load(self, machine: str, places: Sequence[str]) -> str:
        """An element as a value of a machine type."""
        return loaded(machine, self.dtype, self.at(places))

    def store(self, machine: str, places: Sequence[str], value: str) -> str:
        """Write a value of a machine type, which the element holds."""
        return f"{self.at(places)} = {stored(self.dtype, machine, value)};"


@dataclass(frozen=True, slots=True)
class Coefficients(Local):
    """An array of coefficients, contiguous, whose elements are of `dtype`."""

    dtype: np.dtype

    def load(self, machine: str, places: Sequence[str]) -> str:
        """An element as a value of a machine type."""
        return loaded(machine, self.dtype, Local.load(self, machine, places))


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


def copied(dtype: np.dtype, before: np.dtype, text: str) -> str:
    """An element of an array that is `before`, as one that is `dtype` has it."""
    if dtype == before:
        return text
    machine = computed(before).name
    return stored(dtype, machine, loaded(machine, before, text))
