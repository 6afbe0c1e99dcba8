"""Which of four plans a program on Dask arrays gets, and what that costs before anything is run.

whole cores   no axis that the program works along is cut: each task takes its chunks
regions       the fields are views of something that can be sliced: each task reads what it
              needs; chosen where that decodes little more than half more than the blocks alone
edges         each block is made of its chunk and of faces of its neighbours
groups        the same on groups of chunks, where these are thin or fields are cut otherwise
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .edges import axis_of
from .grid import Chunks, aligned
from .groups import grouped
from .job import Job
from .outputs import Output


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan of a program on Dask arrays, and what it takes.

    `tasks` are those of a chunk of the result, without what makes the fields; `moved` are the
    bytes of all faces, which have to move where workers are many; `held` are the bytes of a task,
    which a thread holds.
    """

    name: str
    plan: str
    tasks: float
    moved: int
    held: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.plan}, {self.tasks:.3g} task{'s' * (self.tasks != 1)} a chunk, "
            f"{_bytes(self.moved)} of faces, {_bytes(self.held)} held a thread\n"
            f"                {self.why}"
        )


def chosen(
    plan: str, job: Job, arrays: Sequence[Any], outputs: Sequence[Output], chunks: Chunks
) -> Chosen:
    """What a plan costs."""
    work = job.work
    count = math.prod(map(len, chunks))
    results = len(outputs)
    apart = 1 + results * (results > 1)
    itemsizes = [dtype.itemsize for dtype in job.field_dtypes]
    made = sum(output.dtype.itemsize for output in outputs)
    if plan == "whole cores":
        held = _largest(chunks) * (sum(itemsizes) + made)
        why = "no axis that it works along is cut"
        return Chosen(work.name, plan, apart, 0, held, why)
    axes = [axis_of(work, sizes, k - len(chunks)) for k, sizes in enumerate(chunks)]
    if plan == "regions":
        around = [
            max(
                b - a + before + after
                for (a, b), before, after in zip(one.cuts, one.before, one.after, strict=True)
            )
            for one in axes
        ]
        held = math.prod(around) * sum(itemsizes) + _largest(chunks) * made
        why = "each task reads its block, and what lies around it, from the source"
        return Chosen(work.name, plan, apart, 0, held, why)
    groups = grouped(work, chunks)
    if groups != chunks:
        axes = [axis_of(work, sizes, k - len(groups)) for k, sizes in enumerate(groups)]
    tasks, moved, joined = 1.0, 0, 0
    for array, itemsize in zip(arrays, itemsizes, strict=True):
        own = aligned(array.chunks, len(groups), (1,))
        cut = [sum(mine) == sum(whole) for mine, whole in zip(own, groups, strict=True)]
        joined += any(c and mine != whole for c, mine, whole in zip(cut, own, groups, strict=True))
        shape = [sum(mine) for mine in own]
        faces = 0
        for k, axis in enumerate(axes):
            if cut[k]:
                thick = sum(sum(axis.depths(n)) for n in range(len(axis.cuts)))
                faces += thick * math.prod(shape[:k] + shape[k + 1 :])
        moved += faces * itemsize
        tasks += faces > 0
    blocks = math.prod(map(len, groups))
    picked = results if results > 1 or groups != chunks else 0
    tasks = (tasks + joined) * blocks / max(1, count) + picked
    if groups == chunks and not joined:
        plan, why = "edges", "each block is made of its chunk and of its neighbours' faces"
    elif groups == chunks:
        plan, why = "groups", "fields are cut in different ways, so chunks are put together first"
    else:
        plan = "groups"
        why = (
            f"chunks are thin for how far it looks, so {blocks} groups of them are computed; "
            "results keep the chunks"
        )
    held = _largest(groups) * (sum(itemsizes) + made) + moved // max(1, blocks)
    return Chosen(work.name, plan, tasks, moved, held, why)


def _largest(chunks: Chunks) -> int:
    """The points of the largest block, as far as lengths are known."""
    found = 1
    for sizes in chunks:
        known = [size for size in sizes if not math.isnan(size)]
        found *= max(known, default=1)
    return found


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


_notes: ContextVar[list[Chosen] | None] = ContextVar("plans that somebody asks for", default=None)


@contextmanager
def noted() -> Iterator[list[Chosen]]:
    """Give the plans that are chosen meanwhile."""
    notes: list[Chosen] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note(found: Callable[[], Chosen]) -> None:
    """Tell of a plan, if somebody asks."""
    notes = _notes.get()
    if notes is not None:
        notes.append(found())
