"""Notes: what the passes chose for each window and sum, and why not otherwise, in words.

    mean over 3 x 3   ->   axis 0: 3 added at once, kept for the neighbours
                           axis 1: 3 added at once, at each point
                           no running sum: up to 8 are added at once

The facts come from the passes themselves: `linear.sums` and `algorithms.ways` run the same
code as the compilation, and the rest compares the kernel before a pass with that after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..analysis.footprint import tap_offsets
from ..analysis.rewrite import bodies, reads
from ..language.dtypes import DType
from ..language.ir import RANKED, Kernel, Read, Reduce, Stage
from .algorithms import ways
from .linear import Sum, sums
from .schedule import Method, Refused, Schedule, Way
from .sharing import saving
from .windows import most, small
from .work import work

# Boxes of a window that are named.
_LISTED = 6

# Explicit sums of fewer terms are not worth a word.
_TERMS = 4


# What a step of each kind does.
_DONE: dict[Method, str] = {
    "at once": "axis {axis}: {length} {verb} at once, {where}",
    "doubling": "axis {axis}: {length} {verb} by doubling, {where}",
    "running": "axis {axis}: running sum of {length}, one row in and one row out",
    "sorted": "axis {axis}: {line}s of {length} sorted once for all windows",
    "merged": "axis {axis}: {length} of them merged as far as the rank needs",
    "histogram": "axis {axis}: a histogram of the {length} elements slides along",
    "placed": "axis {axis}: the places of {length} elements in order slide along",
    "counted": "{length} elements counted below each bit of the result, row by row",
    "boxes": "{length} runs and boxes of elements {verb} at each point{boxes}",
    "element": "elements: computed once, kept for the neighbours",
    "squared": "{kind}: from sums and sums of squares, exact for these integers",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One choice: about what, what was chosen, and why nothing else was."""

    subject: str
    lines: tuple[str, ...]


def sum_notes(stored: Kernel, schedule: Schedule, *, floats: bool) -> tuple[Note, ...]:
    """What became of explicit sums."""
    notes: list[Note] = []
    for one in sums(stored, schedule, floats=floats):
        if isinstance(one.window, str):
            whys = [f"computed as written: {one.window}"]
        else:
            whys = [f"recognised as the window of {_shape(one.window)}"]
        notes += _note(one, whys)
    for one in () if floats else sums(stored, schedule, floats=True):
        if one.dtype.is_float and isinstance(one.window, Reduce):
            whys = [
                "computed as written: floats keep the order of the text",
                f"with fastmath=True it is the window of {_shape(one.window)}",
            ]
            notes += _note(one, whys)
    return tuple(notes)


def _note(one: Sum, whys: Sequence[str]) -> list[Note]:
    """What is said of a sum, if it is worth a word."""
    return [Note(f"sum of {one.terms} terms", tuple(whys))] if one.terms >= _TERMS else []


def window_notes(
    windowed: Kernel, schedule: Schedule, *, in_place: bool = False
) -> tuple[Note, ...]:
    """How each window is done."""
    notes: list[Note] = []
    for assign in windowed.body:
        reduce = assign.value
        if not isinstance(reduce, Reduce):
            continue
        try:
            made = ways(windowed, reduce, schedule, in_place=in_place)
            lines = [_words(step, reduce) for step in made]
            lines += dict.fromkeys(_others(step, windowed.ndim, schedule) for step in made)
        except Refused as why:
            lines = [_at_each_point(reduce, schedule), f"not shared: {why}"]
        notes.append(Note(f"{_name(reduce)} over {_shape(reduce)}", tuple(filter(None, lines))))
    return tuple(notes)


def whole_notes(unrolled: Kernel, wholesome: Kernel) -> tuple[Note, ...]:
    """How many float operations became those of integers."""
    gone = _float_operations(unrolled) - _float_operations(wholesome)
    if gone <= 0:
        return ()
    words = f"{gone} float operations on whole numbers are done in integers, exactly"
    return (Note("whole numbers", (words,)),)


def row_notes(single: Kernel, lowered: Kernel) -> tuple[Note, ...]:
    """How many rows of the result are made at once, and what that saves."""
    if lowered.rows == 1:
        return ()
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
    return (Note("rows", words),)


def shared_notes(before: Kernel, after: Kernel, schedule: Schedule) -> tuple[Note, ...]:
    """What neighbours compute too and is kept for them."""
    if after.rows > 1:
        return ()
    made = after.stages[len(before.stages) :]
    lines = [_kept(stage, after) for stage in made]
    left = saving(after)
    if left > 0:
        lines.append(
            f"{'no more' if made else 'nothing'}: {left:g} operations would be saved, "
            f"and a row is kept from {schedule.shared:g} on"
        )
    return (Note("neighbours share", tuple(lines)),) if lines else ()


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


def _words(step: Way, reduce: Reduce) -> str:
    """What a step does."""
    verb = "compared" if step.idempotent else "added"
    return _DONE[step.method].format(
        axis=step.axis,
        length=step.length,
        verb="weighted and added" if step.weighted else verb,
        where="kept for the neighbours" if step.kept else "at each point",
        line="column" if step.kept else "row",
        boxes=_boxes(step),
        kind=reduce.kind,
    )


def _boxes(step: Way) -> str:
    """Which boxes of a window of any shape are kept."""
    kept = [" x ".join(map(str, box)) for box in dict.fromkeys(step.boxes)]
    more = f" and {len(kept) - _LISTED} more" if len(kept) > _LISTED else ""
    return f", kept for the neighbours: {', '.join(kept[:_LISTED])}{more}" if kept else ""


def _others(step: Way, ndim: int, schedule: Schedule) -> str:
    """Why a step was not done in another way; nothing where there is no other."""
    integer = step.dtype.is_integer and step.dtype is not DType.BOOL
    match step.method:
        case "at once" if step.weighted:
            return "neither running nor doubling: the elements have weights"
        case "at once" if step.axis < ndim - 2:
            return f"axis {step.axis}: stages are kept along the last two axes only"
        case "at once":
            most = max(schedule.direct, schedule.radix)
            return f"neither running nor doubling: up to {most} are taken at once"
        case "doubling" if step.idempotent:
            return "not running: what left the window cannot be taken back"
        case "doubling" if not integer:
            return "not running: a running sum of floats would drift"
        case "doubling" if step.axis != ndim - 2:
            return f"axis {step.axis}: not running: running sums go down the rows"
        case "doubling":
            return "not running: the schedule has running=False"
        case "running":
            return "running, not doubling: sums of integers are exact in any order"
        case "sorted":
            line = "column" if step.kept else "row"
            return f"not a network of its own: a {line} serves all the windows it is in"
        case _:
            return ""
