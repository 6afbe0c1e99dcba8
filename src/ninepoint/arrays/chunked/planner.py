"""Which of four plans a program on Dask arrays gets, and what that costs before anything is run.

whole cores   no axis that the program works along is cut: each task takes its chunks
regions       the fields are views of something that can be sliced: each task reads what it
              needs; chosen where that decodes little more than half more than the blocks alone
edges         each block is made of its chunk and of faces of its neighbours
groups        the same on groups of chunks, where these are thin or fields are cut otherwise
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from .computation import Computation
from .grid import Chunks
from .halos import axes_of
from .rules import Blocks, Rules


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


def _chosen(plan: str, one: Computation, rules: Rules) -> Chosen:
    """What a plan costs."""
    recut, rule, results = rules
    work, groups = one.work, rule.chunks
    blocks, moved = math.prod(map(len, groups)), 0
    read = sum(dtype.itemsize for dtype in work.field_dtypes)
    made = sum(output.dtype.itemsize for output in one.outputs)
    why, tasks = _WHY[plan], 1.0 + len(recut)
    if plan == "edges":
        assert isinstance(rule, Blocks), rule
        axes = axes_of(work, groups)
        thick = [sum(sum(axis.depths(k)) for k in range(len(axis.cuts))) for axis in axes]
        for array, field, dtype in zip(one.arrays, rule.fields, work.field_dtypes, strict=True):
            whole = (1,) * (len(groups) - array.ndim) + array.shape
            each = enumerate(zip(field.cut, thick, strict=True))
            faces = [math.prod(whole[:k] + whole[k + 1 :]) * n for k, (cut, n) in each if cut]
            moved += sum(faces) * dtype.itemsize
            tasks += any(faces)
        if groups != one.chunks:
            plan, why = "groups", _WHY["groups"].format(blocks)
        elif recut:
            plan, why = "groups", _WHY["put together"]
    held = _largest(groups) * (read + made) + moved // max(1, blocks)
    if plan == "regions":
        around = [max(b - a for a, b in axis.spans) for axis in axes_of(work, one.chunks)]
        held = math.prod(around) * read + _largest(groups) * made
    tasks = tasks * blocks / max(1, math.prod(map(len, one.chunks))) + len(results)
    return Chosen(work.name, plan, tasks, moved, held, why)


_WHY = {
    "whole cores": "no axis that it works along is cut",
    "regions": "each task reads its block, and what lies around it, from the source",
    "edges": "each block is made of its chunk and of its neighbours' faces",
    "groups": "chunks are thin for how far it looks, so {} groups of them are computed; results "
    "keep the chunks",
    "put together": "fields are cut in different ways, so chunks are put together first",
}


def _largest(chunks: Chunks) -> int:
    """The points of the largest block, as far as lengths are known."""
    known = [[size for size in sizes if not math.isnan(size)] for sizes in chunks]
    return math.prod(max(sizes, default=1) for sizes in known)


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


def note(plan: str, one: Computation, rules: Rules) -> None:
    """Tell of a plan, if somebody asks."""
    notes = _notes.get()
    if notes is not None:
        notes.append(_chosen(plan, one, rules))
