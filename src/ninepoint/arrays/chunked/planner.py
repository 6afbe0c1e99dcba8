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

from ..grid import Chunks, axes_of
from .computation import Computation
from .layer import Field

_WHY = {
    "whole cores": "no axis that it works along is cut",
    "regions": "each task reads its block, and what lies around it, from the source",
    "edges": "each block is made of its chunk and of its neighbours' faces",
    "groups": "chunks are thin for how far it looks, so {} groups of them are computed; results "
    "keep the chunks",
    "put together": "fields are cut in different ways, so chunks are put together first",
}


def _described(given: Computation, one: Computation) -> str:
    """What a plan costs that is on fields as they were `given`, or on groups of their chunks.

    The tasks of a chunk of the result, without what makes the fields; the bytes of all faces,
    which have to move where workers are many; the bytes of a task, which a thread holds.
    """
    rule, groups = one.blocks(), one.chunks
    plan = "whole cores" if given.alone else "regions" if one.sources else "edges"
    pairs = zip(given.arrays, one.arrays, strict=True)
    joined = sum(before.chunks != after.chunks for before, after in pairs)
    blocks, moved, why, tasks = math.prod(map(len, groups)), 0, plan, 1.0 + joined
    axes = [] if plan == "whole cores" else axes_of(one.work, groups)
    thick = [sum(sum(axis.depths(k)) for k in range(len(axis.cuts))) for axis in axes]
    for (array, dtype), field in zip(one.inputs, rule.fields, strict=True):
        if isinstance(field, Field):
            each = zip(array.shape, field.cut, thick[-array.ndim :], strict=False)
            points = math.prod(array.shape)
            faces = sum(points // max(1, n) * far for n, cut, far in each if cut)
            moved += faces * dtype.itemsize
            tasks += faces > 0
    if joined or groups != given.chunks:
        plan, why = "groups", "groups" if groups != given.chunks else "put together"
    read = sum(dtype.itemsize for _, dtype in one.inputs)
    held = sum(output.dtype.itemsize for output in one.outputs) * _largest(groups)
    if plan == "regions":
        held += math.prod(max(b - a for a, b in axis.needs) for axis in axes) * read
    else:
        held += read * _largest(groups) + moved // max(1, blocks)
    tasks *= blocks / max(1, math.prod(map(len, given.chunks)))
    first = one.outputs[0]
    if len(one.outputs) > 1 or repr(first.blocks(groups)) != repr(first.chunks(given.chunks)):
        tasks += len(one.outputs)
    return (
        f"{one.work.name}: {plan}, {tasks:.3g} task{'s' * (tasks != 1)} a chunk, "
        f"{_bytes(moved)} of faces, {_bytes(held)} held a thread\n"
        f"                {_WHY[why].format(blocks)}"
    )


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


_notes: ContextVar[list[str] | None] = ContextVar("plans that somebody asks for", default=None)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Give the plans that are chosen meanwhile, in words."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note(given: Computation, one: Computation) -> None:
    """Tell of a plan, if somebody asks."""
    notes = _notes.get()
    if notes is not None:
        notes.append(_described(given, one))
