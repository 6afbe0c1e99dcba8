"""Generated text: what machine code needs to know of it besides, and its tables of numbers.

The numbers in tables are data, which is no part of what is compiled of a text:

    t2 = x * 0.3, float32     ->     f32_0 = numbers_float32[0]
                                     t2 = x * f32_0

                                     numbers_float32 = np.array([0.3], dtype=np.float32)

Kernels that differ in such numbers share machine code: a Gaussian of another width is compiled
only where it has another reach.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

# Numbers by the name of the table.
Numbers: TypeAlias = Mapping[str, np.ndarray]

_TABLE = re.compile(r"(numbers\d*_(float32|float64)) = np\.array\(\[(.*)\], dtype=.*\)")


@dataclass(frozen=True, slots=True)
class Module:
    """Generated text with one function, `band`, that computes a block.

    `warm` is how many rows (or planes) of stages are made before the first of the result; where
    it is 0, a row costs the same whether it is the first or the hundredth.  `kept` is how many
    bytes of stages are kept for each column.  Text that is `checked` tells in a last argument
    that it read outside its neighborhood; `places` says where each of its reads stands.  It
    takes `shorts`, floats of 16 bits, as they are, or else as float32.  What is `opaque` has a way
    of its own to machine code, from the file of the text and what it is compiled to.
    """

    text: str
    warm: int = 0
    kept: int = 0
    checked: bool = False
    places: tuple[str, ...] = ()
    shorts: bool = False
    opaque: Callable[[Path, Any], Any] | None = field(default=None, compare=False)


# Tables.


def varies(machine: str, value: complex) -> bool:
    """Whether a number is a float that stands in a table: 0 and powers of two are cheaper."""
    if not machine.startswith("float"):
        return False
    with np.errstate(over="ignore"):
        number = float(np.dtype(machine).type(value))
    return math.isfinite(number) and abs(math.frexp(number)[0]) not in (0.0, 0.5)


def is_table(name: str) -> bool:
    """Whether a name may be that of a table; no name of a user's ends so."""
    return name.startswith("numbers") and name.endswith(("_float32", "_float64"))


class Tables:
    """The tables of one text; `fetched` are the lines that a function begins with."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[float]] = {}
        self.fetched: dict[str, str] = {}

    def fetch(self, machine: str, value: float) -> str:
        """The name of a number, which is added to the first table if it is not there."""
        title = f"numbers_{machine}"
        table = self.numbers.setdefault(title, [])
        if value not in table:
            table.append(value)
        place = table.index(value)
        name = f"{machine[0]}{machine[-2:]}_{place}"
        self.fetched[name] = f"{name} = {title}[{place}]"
        return name

    def listed(self, machine: str, values: Iterable[float]) -> str:
        """The name of a table of these numbers alone."""
        # LLVM makes no vectors of loops that look at many places of one table.
        table = list(values)
        for title, known in self.numbers.items():
            if known == table and title[7].isdigit() and title.endswith(machine):
                return title
        title = f"numbers{len(self.numbers)}_{machine}"
        self.numbers[title] = table
        return title

    def lines(self) -> list[str]:
        """The tables as text."""
        return [
            f"{title} = np.array({values}, dtype=np.{title.partition('_')[2]})"
            for title, values in self.numbers.items()
        ]


def separated(text: str) -> tuple[str, Numbers]:
    """A text without what its tables hold, and that."""
    code: list[str] = []
    numbers: dict[str, np.ndarray] = {}
    for line in text.splitlines():
        if found := _TABLE.fullmatch(line):
            title, machine, listed = found.groups()
            numbers[title] = np.array([float(one) for one in listed.split(",")], machine)
            line = f"{title} = {numbers[title].size}"
        code.append(line)
    return "\n".join(code), numbers
