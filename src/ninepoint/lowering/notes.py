"""Notes: what the passes chose for each window and sum, and why not otherwise, in words.

    mean over 3 x 3   ->   axis 0: 3 added at once, kept for the neighbours
                           axis 1: 3 added at once, at each point
                           no running sum: up to 8 are added at once

The words come from the passes themselves: `recognising.sums` and `algorithms.ways` run the same
code as the compilation, and the rest compares the kernel before a pass with that after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..analysis.footprint import tap_offsets
from ..analysis.rewrite import bodies, reads
from ..language.ir import RANKED, Kernel, Read, Reduce, Stage
from .algorithms import ways
from .recognising import sums
from .schedule import Refused, Schedule
from .sharing import saving
from .staging import ELEMENT_KEPT, KEPT
from .windows import most, small
from .work import work

# Explicit sums of fewer terms are not worth a word.
_TERMS = 4


@dataclass(frozen=True, slots=True)
class Note:
    """One choice: about what, what was chosen, and why nothing else was."""

    subject: str
    lines: tuple[str, ...]


def sum_notes(stored: Kernel, schedule: Schedule, *, floats: bool) -> tuple[Note, ...]:
    """What became of explicit sums; `floats` says whether those of floats may become windows."""
    found = [*sums(stored, schedule, floats=True).values()]
    if not floats:
        found.sort(key=lambda one: one.dtype.is_float)
    notes: list[Note] = []
    for one in found:
        written = one.dtype.is_float and not floats
        if one.terms < _TERMS or (written and isinstance(one.window, str)):
            continue
        if isinstance(one.window, str):
            lines = [f"computed as written: {one.window}"]
        elif written:
            lines = [
                "computed as written: floats keep the order of the text",
                f"with fastmath=True it is the window of {_shape(one.window)}",
            ]
        else:
            lines = [f"recognised as the window of {_shape(one.window)}"]
        notes.append(Note(f"sum of {one.terms} terms", tuple(lines)))
    return tuple(notes)


def window_notes(
    windowed: Kernel, schedule: Schedule, *, in_place: bool = False
) -> tuple[Note, ...]:
    """How each window is done; nothing is kept of those that are done `in_place`."""
    notes: list[Note] = []
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
