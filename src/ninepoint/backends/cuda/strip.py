"""A strip: what a warp rolls down, in how many columns a lane does it, and what its ends need.

32 lanes of 4 columns            4 | 120 | 4         columns of a result between those that
                                                     are made for what reads beside them
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...analysis.ranges import Interval, of_storage
from ...language.dtypes import value_type
from ...language.ir import Kernel
from ...lowering.chain import Absent, Constant, Edges
from ...lowering.machine import machine_type
from .bodies import Body
from .rings import NOTHING, Rolling, Rules

# Lanes of a warp.
LANES = 32


@dataclass(frozen=True, slots=True)
class Strip:
    """A kernel, what rolls down for it, and in how many columns a lane does it.

    `closed` is what rolls where rules are put between steps, and `inside` where none is.
    """

    kernel: Kernel
    edges: Edges
    borders: tuple[Rules, ...]
    outs: tuple[np.dtype, ...]
    known: dict[str, Interval]
    closed: Rolling
    inside: Rolling
    columns: int

    @property
    def halo(self) -> tuple[int, int]:
        """The columns beside those of the result, a multiple of those of a lane."""
        both = (self.closed, self.inside)
        before = max(-(-one.before // self.columns) for one in both) * self.columns
        after = max(-(-one.after // self.columns) for one in both) * self.columns
        return before, after

    @property
    def width(self) -> int:
        """The columns of the result."""
        return LANES * self.columns - sum(self.halo)

    @property
    def constants(self) -> list[Constant]:
        """The constants that a rule asks for."""
        return [
            one
            for one in self.edges.constants
            if any(one[2] in pair for pair in self.borders[one[0]])
        ]

    def constant(self, number: int) -> str:
        """The name of a constant in the text; empty where no rule asks for it."""
        one = self.edges.constants[number]
        return f"b{self.constants.index(one)}" if one in self.constants else ""

    # The rules, along rows (0) or columns (1).

    def rule(self, border: int, axis: int) -> tuple[str, str]:
        """The rules of a border before and after an axis."""
        at = axis - 2 + self.kernel.ndim
        return self.borders[border][at] if at >= 0 else ("fill", "fill")

    def fallback(self, axis: int) -> tuple[str, str]:
        """A rule for fields beyond whose ends nobody looks: where all else wraps they do too."""
        rules = [self.rule(k, axis) for k in range(len(self.borders))]
        return ("wrap", "wrap") if ("wrap", "wrap") in rules else ("nearest", "nearest")

    def left_out(self, absent: Absent, axis: int) -> tuple[int, int]:
        """How many points at both ends have other values than those inside."""
        at = axis - 2 + self.kernel.ndim
        if at < 0:
            return 0, 0
        before, after = self.rule(absent.border, axis)
        low, high = max(0, -absent.reach.lo[at]), max(0, absent.reach.hi[at])
        return low * (before in NOTHING), high * (after in NOTHING)

    def zones(self, axis: int) -> tuple[int, int]:
        """The most of these of all states and results."""
        found = [edge.absent for edge in self.edges.arrays.values()]
        ends = [self.left_out(one, axis) for one in (*found, *self.edges.results) if one]
        low, high = zip((0, 0), *ends, strict=True)
        return max(low), max(high)

    def margins(self) -> tuple[int, int]:
        """How many rows must lie before and after those of a result that is near no end."""
        inside, warm = self.inside, self.inside.warm
        low, high = self.zones(0)
        rings = inside.rings
        loads = [warm - rings[one.name].newest for one in inside.loaded]
        least = [low - ring.low for ring in rings.values()]
        most = [high + ring.newest for ring in rings.values()]
        return max(0, low, *loads, *least), max(0, high, *most)


def ring_type(kernel: Kernel, found: Rolling, known: dict[str, Interval], name: str) -> str:
    """The machine type of what a ring keeps."""
    storage = dict(kernel.fields)
    for one in found.loaded:
        if one.name == name:
            dtype = storage[one.field]
            return machine_type(value_type(dtype), of_storage(dtype), Body.least)
    (value,) = (
        level.values[level.names.index(name)] for level in found.made if name in level.names
    )
    return machine_type(value.dtype, known[name], Body.least)
