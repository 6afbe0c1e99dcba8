"""Work: what a lowered kernel does for one point, counted.

    t0 = x[-1] (uint8);  t1 = x[1] (uint8);  t2 = t1 - t0 (int16);  out = t2
        ->      2 loads, 1 store, 1 operation in lanes of int16

Each stage counts once a point: what its rows have beyond the result's is small for images of
more than a few rows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from ..analysis.ranges import Interval, machine_type, of_type, ranges, turn_ranges, working_type
from ..language.ir import (
    Assign,
    Carried,
    Element,
    Expr,
    Gather,
    Histogram,
    Inside,
    Kernel,
    Loop,
    Read,
    Reduce,
    RunningSum,
    Stage,
    State,
    Tap,
    Values,
)
from .abreast import abreast

# How many words of places lie between a median and the next one, about.
_WORDS = 30


@dataclass(frozen=True, slots=True)
class Work:
    """Loads, stores and operations for each point.

    `lanes` pairs each machine type with the operations done in it.  What several rows share
    counts in part for each of them.
    """

    loads: float
    stores: float
    operations: float
    lanes: tuple[tuple[str, float], ...]

    @property
    def widest(self) -> int:
        """The bits of the widest lane."""
        return max((np.dtype(name).itemsize * 8 for name, _ in self.lanes), default=0)


def work(kernel: Kernel) -> Work:
    """Count the work of a kernel whose stages are made."""
    rows, kernel = kernel.rows, abreast(kernel)
    count = _Count(kernel)
    for stage in kernel.stages:
        count.stage(stage)
    count.body(kernel.body)
    lanes = sorted(count.lanes.items(), key=lambda pair: (np.dtype(pair[0]).itemsize, pair[0]))
    return Work(
        count.loads / rows,
        (count.stores + len(kernel.outputs)) / rows,
        sum(count.lanes.values()) / rows,
        tuple((name, operations / rows) for name, operations in lanes),
    )


class _Count:
    def __init__(self, kernel: Kernel) -> None:
        self.known: dict[str, Interval] = ranges(kernel)
        self.fields = dict(kernel.fields)
        self.loads = self.stores = 0
        self.lanes: Counter[str] = Counter()

    def stage(self, stage: Stage) -> None:
        self.stores += len(stage.names)
        match stage:
            case Values() | State():
                self.body(stage.body)
            case RunningSum():
                # The row that comes and the one that leaves, and the sum before.
                self.body(stage.body)
                self.body(stage.body)
                self.lanes[machine_type(stage.value.dtype, self.known[stage.name])] += 2
                self.loads += 1
            case Histogram():
                self._histogram(stage)
            case _:
                assert_never(stage)

    def _histogram(self, stage: Histogram) -> None:
        """What enters and what leaves, and where the wanted one is found.

        That is among half the coarse and the fine bins, or some words of places; and to put an
        element in order takes a few steps for each of its bytes.
        """
        size = self.fields[stage.read.field].itemsize
        short = size == 1 and stage.values[0].dtype.is_integer
        moved, found = 2 * len(stage.lines), 16 if short else 6 * size + _WORDS
        self.loads += moved
        self.lanes["int64"] += 2 * moved + found

    def body(self, body: tuple[Assign, ...]) -> None:
        for assign in body:
            self._expression(assign.name, assign.value)

    def _expression(self, name: str, expr: Expr) -> None:
        match expr:
            case Read() | Gather():
                self.loads += 1
            case Reduce():
                self._loop(expr)
            case Loop():
                self.known |= turn_ranges(expr, self.known)
                self.body(expr.body)
            case Inside() | Carried() | Element():
                pass  # the last is the same at every point
            case _:
                own = machine_type(expr.dtype, self.known[name])
                lane = working_type(name, expr, own, self.known)
                self.lanes[max(own, lane, key=lambda one: np.dtype(one).itemsize)] += 1

    def _loop(self, reduce: Reduce) -> None:
        """A loop at each point."""
        count = math.prod(reduce.shape)
        for assign in reduce.body:
            if isinstance(assign.value, Tap):
                self.loads += count
            else:
                self._scalars(assign.value, count)
        self._scalars(reduce, count)

    def _scalars(self, expr: Expr, count: int) -> None:
        self.lanes[machine_type(expr.dtype, of_type(expr.dtype))] += count
