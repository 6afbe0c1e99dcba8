"""Groups: chunks that are put together for a while, where they are thin or lie otherwise.

    chunks  |.|.|.|.|.|.|      chunks thinner than a program looks far are computed in groups;
    groups  |  .  |  .  |      what is computed is cut as the chunks were
    result  |.|.|.|.|.|.|

Nothing is rechunked for good: a group lives for as long as it is computed with.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask._task_spec import Task, TaskRef

from ..blocks import Part, assemble, parts
from ..borders import Array
from .edges import axis_of
from .grid import Chunks, cuts_of
from .job import Work
from .layer import Key, Place
from .places import in_memory

# A block is at least so many times as long as the program looks far: shorter ones would be
# little but faces.
LONG = 4


def grouped(work: Work, chunks: Chunks) -> Chunks:
    """Cuts as near to the chunks as can be with which blocks need the next ones only."""
    found: list[tuple[int, ...]] = []
    for axis, sizes in enumerate(chunks, -len(chunks)):
        found.append(_grouped(work, sizes, axis))
    return tuple(found)


def _grouped(work: Work, sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    if len(sizes) == 1:
        return sizes
    own = axis_of(work, sizes, axis)
    far = max(*own.before, *own.after)
    if not far:
        return sizes
    least = LONG * far
    while True:
        groups = _filled(sizes, least)
        if axis_of(work, groups, axis).fits:
            return tuple(groups)
        least *= 2


def _filled(sizes: Sequence[int], least: int) -> list[int]:
    """Put chunks together, one after the other, until each group is long enough."""
    groups = [0]
    for size in sizes:
        if groups[-1] >= least:
            groups.append(0)
        groups[-1] += size
    if len(groups) > 1 and groups[-1] < least:
        last = groups.pop()
        groups[-1] += last
    return groups


@dataclass(frozen=True, slots=True)
class Joined:
    """The rule of an array in other chunks, each put together from those that have its points."""

    name: str
    source: str
    dtype: np.dtype[Any]
    chunks: Chunks
    groups: Chunks

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(map(len, self.groups))

    def _parts(self) -> list[list[Part]]:
        return [
            parts(chunks, cuts_of(groups), sum(groups))
            for chunks, groups in zip(self.chunks, self.groups, strict=True)
        ]

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The blocks at these places."""
        axes = self._parts()
        made: dict[Any, Any] = {}
        for place in places:
            own = tuple([axis[k] for axis, k in zip(axes, place, strict=True)])
            needed = itertools.product(*[part.chunks for part in own])
            refs = [TaskRef((self.source, *at)) for at in needed]
            key = (self.name, *place)
            made[key] = Task(key, join, own, self.dtype, *refs)
        return made

    def sources(self, places: Iterable[Place]) -> dict[Key, set[Key]]:
        """The chunks that the blocks are put together from."""
        axes = self._parts()
        found: dict[Key, set[Key]] = {}
        for place in places:
            own = [axis[k].chunks for axis, k in zip(axes, place, strict=True)]
            found[self.name, *place] = {(self.source, *at) for at in itertools.product(*own)}
        return found


def join(own: Sequence[Part], dtype: np.dtype[Any], *chunks: Any) -> Array:
    """Put a block together."""
    return assemble(own, list(map(in_memory, chunks)), dtype)


@dataclass(frozen=True, slots=True)
class Picked:
    """The rule of an output in its chunks, taken from blocks.

    `kept` has for each axis the chunks that the output has something of; it begins at `start`, and
    has so many times as many points as the fields (`factors`).
    A block gives all outputs, of which this is number `number`, or this one alone.
    """

    name: str
    source: str
    number: int | None
    chunks: Chunks
    groups: Chunks
    kept: tuple[tuple[int, ...], ...]
    start: tuple[int, ...]
    stop: tuple[int, ...]
    factors: tuple[int, ...] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(map(len, self.kept))

    def _axes(self) -> list[list[tuple[int, slice]]]:
        """For each axis the block of every chunk, and where in what it gives."""
        axes: list[list[tuple[int, slice]]] = []
        factors = self.factors or (1,) * len(self.chunks)
        ends = zip(self.start, self.stop, factors, strict=True)
        bounds = zip(self.chunks, self.groups, self.kept, ends, strict=True)
        for chunks, groups, kept, (start, stop, factor) in bounds:
            cuts, blocks = cuts_of(chunks), cuts_of(groups)
            starts = [a for a, _ in blocks]
            found: list[tuple[int, slice]] = []
            for k in kept:
                if chunks == groups:
                    found.append((k, slice(None)))
                    continue
                a, b = (min(max(at, start), stop) for at in cuts[k])
                # An empty chunk may stand between two blocks, or behind the last one.
                block = max(0, bisect_right(starts, a) - 1) if a < b else 0
                first = max(blocks[block][0], start)
                own = slice((a - first) * factor, (b - first) * factor) if a < b else slice(0, 0)
                found.append((block, own))
            axes.append(found)
        return axes

    def tasks(self, places: Iterable[Place]) -> dict[Any, Any]:
        """The chunks at these places."""
        axes = self._axes()
        whole = self.chunks == self.groups
        made: dict[Any, Any] = {}
        for place in places:
            own = [axis[k] for axis, k in zip(axes, place, strict=True)]
            key = (self.name, *place)
            ref = TaskRef((self.source, *[block for block, _ in own]))
            if whole:
                made[key] = Task(key, operator.getitem, ref, self.number)
            else:
                made[key] = Task(key, pick, ref, self.number, tuple([part for _, part in own]))
        return made

    def sources(self, places: Iterable[Place]) -> dict[Key, set[Key]]:
        """The blocks that have these chunks."""
        axes = self._axes()
        return {
            (self.name, *place): {
                (self.source, *[axis[k][0] for axis, k in zip(axes, place, strict=True)])
            }
            for place in places
        }


def pick(made: Any, number: int | None, part: tuple[slice, ...]) -> Array:
    """Take a chunk from what a block gives."""
    array: Array = (made if number is None else made[number])[part]
    return array
