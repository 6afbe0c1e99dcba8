"""Notes: what the passes chose for each window and sum, and why not otherwise, in words.

    mean over 3 x 3   ->   axis 0: 3 added at once, kept for the neighbours
                           axis 1: 3 added at once, at each point
                           no doubling: up to 8 are taken at once

The words come from the passes themselves: `algorithms.ways` runs the same code as the compilation,
and the rest compares the kernel before a pass with that after it.

Work: what a lowered kernel does for one point, counted.

    t0 = x[-1] (uint8);  t1 = x[1] (uint8);  t2 = t1 - t0 (int16);  out = t2
        ->      2 loads, 1 store, 1 operation in lanes of int16
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..analysis.footprint import tap_offsets
from ..analysis.ranges import machine_type, of_type, ranges, turn_ranges, working_type
from ..analysis.rewrite import bodies, reads
from ..language.ir import (
    RANKED,
    Body,
    Carried,
    Element,
    Gather,
    Histogram,
    Inside,
    Kernel,
    Loop,
    Read,
    Reduce,
    Stage,
    Tap,
    named,
)
from .abreast import abreast
from .algorithms import ways
from .schedule import Refused, Schedule
from .sharing import best
from .staging import ELEMENT_KEPT, KEPT
from .windows import most, small

# How many words of places lie between a median and the next one, about.
_WORDS = 30


@dataclass(frozen=True, slots=True)
class Note:
    """One choice: about what, what was chosen, and why nothing else was."""

    subject: str
    lines: tuple[str, ...]


def window_notes(
    windowed: Kernel, schedule: Schedule, *, in_place: bool = False
) -> Iterator[Note]:
    """How each window is done; nothing is kept of those that are done `in_place`."""
    for assign in windowed.body:
        reduce = assign.value
        if not isinstance(reduce, Reduce):
            continue
        try:
            made = ways(windowed, reduce, schedule)
            lines = [done for done, _ in made]
            if in_place:
                lines = [line for line in lines if line != ELEMENT_KEPT]
                lines = [line.replace(KEPT, "at each point") for line in lines]
            lines += dict.fromkeys(why for _, why in made)
        except Refused as why:
            lines = [_at_each_point(reduce, schedule), f"not shared: {why}"]
        yield Note(f"{_name(reduce)} over {_shape(reduce)}", tuple(filter(None, lines)))


def whole_notes(unrolled: Kernel, wholesome: Kernel) -> Iterator[Note]:
    """How many float operations became those of integers."""
    gone = _float_operations(unrolled) - _float_operations(wholesome)
    if gone > 0:
        words = f"{gone} float operations on whole numbers are done in integers, exactly"
        yield Note("whole numbers", (words,))


def row_notes(single: Kernel, lowered: Kernel) -> Iterator[Note]:
    """How many rows of the result are made at once, and what that saves."""
    if lowered.rows == 1:
        return
    counts = [
        [f"{round(count, 1):g}" for count in (one.loads, one.stores, one.operations)]
        for one in (work(single), work(lowered))
    ]
    (loads, stores, operations), after = counts
    words = (
        f"{lowered.rows} made at once, which share what they load and compute",
        f"one after the other: {loads} loads, {stores} stores and {operations} operations a "
        f"point, not {', '.join(after[:2])} and {after[2]}",
    )
    yield Note("rows", words)


def shared_notes(before: Kernel, after: Kernel, schedule: Schedule) -> Iterator[Note]:
    """What neighbours compute too and is kept for them."""
    if after.rows > 1:
        return
    made = after.stages[len(before.stages) :]
    lines = [_kept(stage, after) for stage in made]
    left, _ = best(after)
    if left > 0:
        lines.append(
            f"{'no more' if made else 'nothing'}: {left:g} operations would be saved, "
            f"and a row is kept from {schedule.shared:g} on"
        )
    if lines:
        yield Note("neighbours share", tuple(lines))


def _kept(stage: Stage, kernel: Kernel) -> str:
    places = {read.offset for body in bodies(kernel) for read in reads(body, stage.names)}
    operations = len(stage.body) - len(list(reads(stage.body)))
    word = "operation" if operations == 1 else "operations"
    return f"{operations} {word}, done once and read at {len(places)} neighbours"


def _float_operations(kernel: Kernel) -> int:
    return sum(a.value.dtype.is_float and not isinstance(a.value, Read) for a in kernel.body)


def _name(reduce: Reduce) -> str:
    match reduce.kind:
        case "quantile" | "nanquantile":
            name = "median" if reduce.quantile == 0.5 else f"quantile {reduce.quantile:g}"
            return name if reduce.kind == "quantile" else f"nan{name}"
        case "nanrank":
            return f"rank at {reduce.quantile:g} % of what is no NaN"
        case _:
            return reduce.kind


def _shape(reduce: Reduce) -> str:
    return " x ".join(map(str, reduce.shape)) + (" elements" if len(reduce.shape) == 1 else "")


def _at_each_point(reduce: Reduce, schedule: Schedule) -> str:
    count = math.prod(reduce.shape)
    if not small(reduce, schedule):
        limit = most(reduce, schedule)
        return f"a loop over {count} elements at each point: up to {limit} are written out"
    # Elements with the weight 0 are not read.
    count = max((len(offsets) for _, offsets in tap_offsets(reduce)), default=count)
    if reduce.kind in RANKED:
        return f"a sorting network of {count} elements, at each point"
    return f"{count} elements, written out at each point"


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
    """Count the work of a kernel whose stages are made.

    Each stage counts once a point: what its rows have beyond the result's is small for images of
    more than a few rows.
    """
    rows, kernel = kernel.rows, abreast(kernel)
    known, fields = dict(ranges(kernel)), dict(kernel.fields)
    # Operations by their lanes, and loads.
    lanes, load = Counter[str](), "load"

    def count(body: Body) -> None:
        for name, expr in named(body).items():
            match expr:
                case Read() | Gather():
                    lanes[load] += 1
                case Reduce():
                    # A loop at each point.
                    elements = math.prod(expr.shape)
                    for value in (*named(expr.body).values(), expr):
                        tap = isinstance(value, Tap)
                        lane = load if tap else machine_type(value.dtype, of_type(value.dtype))
                        lanes[lane] += elements
                case Loop():
                    known.update(turn_ranges(expr, known))
                    count(expr.body)
                case Inside() | Carried() | Element():
                    pass  # the last is the same at every point
                case _:
                    own = machine_type(expr.dtype, known[name])
                    lane = working_type(name, expr, own, known)
                    lanes[max(own, lane, key=lambda one: np.dtype(one).itemsize)] += 1

    for stage in kernel.stages:
        if isinstance(stage, Histogram):
            # What enters and what leaves, and where the wanted one is found among some words of
            # places.  To put an element in order takes a few steps for each of its bytes.
            size = fields[stage.read.field].itemsize
            moved = 2 * len(stage.runs)
            lanes[load] += moved
            lanes["int64"] += 2 * moved + 6 * size + _WORDS
            continue
        count(stage.body)
    count(kernel.body)
    stores = len(kernel.outputs) + sum(len(stage.names) for stage in kernel.stages)
    loads = lanes.pop(load, 0)
    widths = sorted(lanes.items(), key=lambda pair: (np.dtype(pair[0]).itemsize, pair[0]))
    shares = tuple((name, operations / rows) for name, operations in widths)
    return Work(loads / rows, stores / rows, sum(lanes.values()) / rows, shares)
