"""Notes: what the passes chose for each window, and why not otherwise, in words.

    mean over 31 x 31     ->     in parts that neighbours share: 5 kept for each point

Work: what a lowered kernel does for one point, counted.

    t0 = x[-1] (uint8);  t1 = x[1] (uint8);  t2 = t1 - t0 (int16);  out = t2
        ->      2 loads, 1 store, 1 operation in lanes of int16
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ..analysis.ranges import machine_type, ranges, turn_ranges, working_type
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
    named,
)
from ..language.signature import many
from .rolling import abreast
from .schedule import Refused, Schedule
from .staging import stages_of
from .windows import small

# One choice: about what, and what was chosen, with why nothing else was.
Note: TypeAlias = tuple[str, Sequence[str]]


def notes(stored: Kernel, wholesome: Kernel, lowered: Kernel, schedule: Schedule) -> list[Note]:
    """What was chosen for the windows of a `stored` kernel, of its rows, and of what they share.

    Stages for windows are those of a `wholesome` kernel; what is `lowered` has others after them.
    """
    found: list[Note] = [
        (_name(one.value), _window(stored, one.value, schedule, lowered.rows))
        for one in stored.body
        if isinstance(one.value, Reduce)
    ]
    if lowered.rows > 1:
        words = f"{lowered.rows} made at once, which share what they load and compute"
        found.append(("rows", [words]))
    elif made := lowered.stages[len(wholesome.stages) :]:
        found.append(("neighbours share", [_kept(stage, lowered) for stage in made]))
    return found


def _window(kernel: Kernel, reduce: Reduce, schedule: Schedule, rows: int) -> tuple[str, ...]:
    """How a window is done, and why nothing of it is shared where nothing is."""
    try:
        made = stages_of(kernel, reduce, schedule)
    except Refused as why:
        how = "written out" if small(reduce, schedule) else "a loop over its elements"
        return f"{how} at each point", f"not shared: {why}"
    if rows > 1:
        return ("written out at each point",)
    if any(isinstance(stage, Histogram) for stage in made):
        return ("its elements, bytes by a histogram, slide along the row in order",)
    count = sum(len(stage.names) for stage in made)
    return (f"in parts that neighbours share: {count} kept for each point",)


def _kept(stage: Stage, kernel: Kernel) -> str:
    places = {read.offset for body in bodies(kernel) for read in reads(body, stage.names)}
    operations = len(stage.body) - len(list(reads(stage.body)))
    return f"{many(operations, 'operation')}, done once and read at {len(places)} neighbours"


def _name(reduce: Reduce) -> str:
    name: str = reduce.kind
    if name == "nanrank":
        name = f"rank at {reduce.quantile:g} % of what is no NaN"
    elif name in RANKED:
        rank = "median" if reduce.quantile == 0.5 else f"quantile {reduce.quantile:g}"
        name = name.replace("quantile", rank)
    shape = " x ".join(map(str, reduce.shape))
    return f"{name} over {shape}{' elements' * (len(reduce.shape) == 1)}"


def work(kernel: Kernel) -> tuple[float, float, dict[str, float]]:
    """Loads and stores for each point, and operations by their machine types, the widest last.

    Each stage counts once a point: what its rows have beyond the result's is small for images of
    more than a few rows.  What several rows share counts in part for each of them.
    """
    rows, kernel = kernel.rows, abreast(kernel)
    known = ranges(kernel)
    # Operations by their lanes, and loads.
    lanes, load = Counter[str](), "load"

    def count(body: Body) -> None:
        for name, expr in named(body).items():
            match expr:
                case Read() | Gather():
                    lanes[load] += 1
                case Reduce():
                    # A loop at each point.
                    for value in (*named(expr.body).values(), expr):
                        lane = load if isinstance(value, Read) else value.dtype.numpy.name
                        lanes[lane] += math.prod(expr.shape)
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
            # What enters and what leaves, each of which is put in order.
            moved = 2 * len(stage.runs)
            lanes[load] += moved
            lanes["int64"] += moved
            continue
        count(stage.body)
    count(kernel.body)
    stores = len(kernel.outputs) + len(kernel.stage_names)
    loads = lanes.pop(load, 0)
    widths = sorted(lanes, key=lambda name: (np.dtype(name).itemsize, name))
    return loads / rows, stores / rows, {name: lanes[name] / rows for name in widths}
