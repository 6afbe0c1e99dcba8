"""Views: which part of an array another one is, whose tasks are indices and slices of it.

    y = x[1, 5:33]      ->      y is a part of x: at 1, without this axis; from 5, (15, 13) long

Dask writes such a task for each chunk, and they are the product of those along each axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from dask._task_spec import Alias, TaskRef
from dask.array.chunk import getitem

from .grid import Chunks, cuts_of

# For each axis of an array where a view of it begins, and whether this element alone is taken.
View: TypeAlias = tuple[tuple[int, bool], ...]

# From where to where a task takes elements of an axis, and whether it is one, without its axis.
_Span: TypeAlias = tuple[int, int, bool]


def within(view: View, index: tuple[slice, ...]) -> tuple[int | slice, ...]:
    """An index of an array, for one of a view of it."""
    entries = iter(index)
    full: list[int | slice] = []
    for first, alone in view:
        if alone:
            full.append(first)
        else:
            entry = next(entries)
            full.append(slice(entry.start + first, entry.stop + first, 1))
    return tuple(full)


def parent(name: str, tasks: Mapping[Any, Any]) -> str | None:
    """The name of the array of which these tasks take a part."""
    for key, task in tasks.items():
        taken = _taken(task) if isinstance(key, tuple) and key[0] == name else None
        return None if taken is None else str(taken[0][0])
    return None


def part(
    name: str, tasks: Mapping[Any, Any], chunks: Chunks
) -> list[tuple[int, tuple[int, ...] | None]] | None:
    """Where a part of an array with these chunks begins along each axis, and its own chunks.

    None in their place where one element alone is taken; None where it is no such part.
    """
    if not all(isinstance(key, tuple) and len(key) > 1 and key[0] == name for key in tasks):
        return None
    last = tuple(map(max, zip(*(key[1:] for key in tasks), strict=True)))
    zeros = (0,) * len(last)
    cuts = [cuts_of(sizes) for sizes in chunks]
    origin = _spans(tasks.get((name, *zeros)), cuts)
    corner = _spans(tasks.get((name, *last)), cuts)
    if origin is None or corner is None:
        return None
    found: list[tuple[int, tuple[int, ...] | None]] = []
    kept = 0
    for axis, (start, at, alone) in enumerate(origin):
        if alone:
            found.append((start, None))
            continue
        if kept == len(last):
            return None
        sizes = [at - start]
        for k in range(1, last[kept] + 1):
            place = (*zeros[:kept], k, *zeros[kept + 1 :])
            spans = _spans(tasks.get((name, *place)), cuts)
            if spans is None or spans[axis][0] != at or spans[axis][2]:
                return None
            sizes.append(spans[axis][1] - at)
            at = spans[axis][1]
        if corner[axis][1] != at:
            return None
        found.append((start, tuple(sizes)))
        kept += 1
    return found if kept == len(last) else None


def _taken(task: Any) -> tuple[Any, tuple[Any, ...] | None] | None:
    """The key of the chunk that a task takes a part of, and the index; None for all of it."""
    if isinstance(task, Alias):
        key: Any = getattr(task.target, "key", task.target)
        return (key, None) if isinstance(key, tuple) else None
    if getattr(task, "func", None) is not getitem or task.kwargs or len(task.args) != 2:
        return None
    ref, index = task.args
    if not isinstance(ref, TaskRef) or not isinstance(ref.key, tuple):
        return None
    return (ref.key, index) if isinstance(index, tuple) else None


def _spans(task: Any, cuts: Sequence[Sequence[tuple[int, int]]]) -> list[_Span] | None:
    """What a task takes along each axis of the whole array, which is cut so."""
    taken = _taken(task)
    if taken is None or len(taken[0]) != len(cuts) + 1:
        return None
    index: Sequence[Any] = (slice(None),) * len(cuts) if taken[1] is None else taken[1]
    if len(index) != len(cuts):
        return None
    spans: list[_Span] = []
    for entry, at, cut in zip(index, taken[0][1:], cuts, strict=True):
        start, size = cut[at][0], cut[at][1] - cut[at][0]
        if isinstance(entry, slice):
            first, stop, step = entry.indices(size)
            if step != 1:
                return None
            spans.append((start + first, start + max(first, stop), False))
        elif isinstance(entry, int | np.integer):
            one = start + range(size)[int(entry)]
            spans.append((one, one + 1, True))
        else:
            return None
    return spans
