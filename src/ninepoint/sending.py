"""Programs on arrays of the CPU, done by a GPU: sent there and back, in pieces where they must be.

    fields  |-------|-------|-------|     one piece with its halo after the other: to the GPU,
    result  |-------|-------|-------|     computed as a block with open sides, and back

Several pieces are under way at once, each on a lane of its own: one is copied to the GPU or back
while another is computed.  A piece is as large as is worth it, and as the memory that is free
allows.  Every piece gives what the whole would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from threading import Condition
from typing import Any

import numpy as np

from . import limits
from .arrays.borders import Array
from .arrays.cuda import understood
from .arrays.layout import Region, Shape
from .arrays.numpy import broadcast_shape
from .arrays.regions import Span, fields_span, mixed, needed
from .arrays.work import Block, Domain
from .backends.cuda import driver
from .backends.cuda.lanes import Lane, copied
from .program import Program

# The part of the free memory that all pieces under way may take with all that is made of them.
SHARE = 0.8

# How many pieces are under way: one to the GPU, one on it, one back.
LANES = 3

# One point far from all ends.
_MIDDLE: Span = (1 << 40, (1 << 40) + 1)


class Sent(Program):
    """A program whose blocks are sent to a GPU and back, as a graph of tasks has it.

    Each thread has a stream of its own, so that one frame is computed while others are on their
    way, read from files or written to them.
    """

    __slots__ = ()

    @staticmethod
    def of(program: Program) -> Sent:
        """The same program, on a GPU, whose last places may be others.

        Raises
        ------
        StencilError
            If only the CPU computes a kernel of it.
        """
        for node in program.nodes:
            understood(node.compiled)
        return _sent(program)

    def __reduce__(self) -> Any:
        token = self.token.removesuffix("-cuda")
        return _sent, (Program(self.graph, self.wanted, self.schedule, token),)

    def run(
        self,
        block: Block,
        region: Region | None = None,
        outs: Mapping[int, Array] | None = None,
        threads: int | None = None,
    ) -> list[Array]:
        """Compute the wanted values from a block of the CPU's memory.

        Where blocks of other threads have taken the room for it, it is done once they are gone.
        """
        with suppress(MemoryError), _room(alone=False):
            return self._computed(block, region)
        with _room(alone=True):
            return self._computed(block, region)

    def _computed(self, block: Block, region: Region | None) -> list[Array]:
        with driver.own_stream():
            arrays = tuple(map(driver.uploaded, block.arrays))
            made = super().run(replace(block, arrays=arrays), region)
            return [driver.downloaded(one) for one in made]


def _sent(program: Program) -> Sent:
    return Sent(program.graph, program.wanted, program.schedule, f"{program.token}-cuda")


# Who is on a GPU: blocks of several threads, or one that found no room beside others.
_changed = Condition()
_there = {"inside": 0, "waiting": 0}


@contextmanager
def _room(alone: bool) -> Iterator[None]:
    """Be on the GPU beside others, or `alone` once these are gone; nobody comes meanwhile."""
    with _changed:
        _there["waiting"] += alone
        _changed.wait_for(lambda: not _there["inside" if alone else "waiting"])
        _there["inside"] += 1
    try:
        yield
    finally:
        with _changed:
            _there["inside"] -= 1
            _there["waiting"] -= alone
            _changed.notify_all()


def computed(program: Program, fields: Sequence[Array], targets: Sequence[Array]) -> None:
    """Compute what is wanted on the current GPU, and write it to arrays of nobody else.

    Raises
    ------
    MemoryError
        If a piece of the least size does not fit.
    """
    pieces, lanes = _pieces(program, fields, targets), LANES
    while True:
        try:
            _in_pieces(program, fields, targets, pieces, min(lanes, pieces.count))
            return
        except MemoryError:
            # What else a call needs, such as arrays between launches, shows when it is done; what
            # was computed before the room ended is computed again.
            smallest = pieces.count >= pieces.most
            if smallest and min(lanes, pieces.count) == 1:
                raise
            lanes = 1 if smallest else lanes
            pieces = replace(pieces, count=min(pieces.most, 2 * pieces.count))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Which axis of the fields' shape is cut, counted from the last, and in how many pieces.

    In one it is not cut; where there is no axis that can be, it is 0.
    """

    shape: Shape
    axis: int
    count: int

    @property
    def most(self) -> int:
        """In how many pieces it can be cut."""
        return max(1, self.shape[self.axis]) if self.axis else 1

    def cuts(self, field: Array) -> bool:
        """Whether a field has its own points in each piece."""
        axis = self.axis
        return field.ndim >= -axis and field.shape[axis] == self.shape[axis]

    @property
    def spans(self) -> Iterator[Span]:
        """The pieces."""
        n = self.shape[self.axis]
        for k in range(self.count):
            a, b = n * k // self.count, n * (k + 1) // self.count
            if a < b:
                yield a, b

    def only(self, first: int, last: int) -> tuple[Any, ...]:
        """Give the index of a part of the axis."""
        return (..., slice(first, last), *(slice(None),) * (-self.axis - 1))

    def region(self, span: Span) -> Region:
        """Give the points of a part of the axis."""
        start, stop = [0] * len(self.shape), list(self.shape)
        start[self.axis], stop[self.axis] = span
        return Region(tuple(start), tuple(stop))


def _pieces(program: Program, fields: Sequence[Array], targets: Sequence[Array]) -> _Pieces:
    """Find the pieces for which there is room, as far as that can be told before."""
    graph = program.graph
    shapes = graph.shapes(field.shape for field in fields)
    # Positions along a stage may be shorter than the fields: where stages differ, nothing is cut.
    shape = broadcast_shape([shapes[value] for value in program.nodes[0].fields])
    halos = {
        axis: _halo(program, axis)
        for axis in range(-len(shape), 0)
        if _can_be_cut(program, shapes, shape, axis)
    }
    if not halos:
        return _Pieces(shape, 0, 1)
    # The earlier axes are the longer ones in memory.
    axis = max(halos, key=lambda k: shape[k] / (1 + halos[k]))
    size = sum(
        math.prod(one) * dtype.itemsize for one, dtype in zip(shapes, graph.dtypes, strict=True)
    )
    room = int(SHARE * driver.memory()[0])
    moved = sum(array.nbytes for array in (*fields, *targets))
    worth = min(
        moved // limits.current.sent_bytes,
        shape[axis] // (limits.current.sent_reaches * (1 + halos[axis])),
    )
    if size <= room and worth < 2:
        return _Pieces(shape, axis, 1)
    length = room // LANES * shape[axis] // size - halos[axis]
    return _Pieces(shape, axis, max(worth, -(-shape[axis] // max(1, length))))


def _can_be_cut(program: Program, shapes: Sequence[Shape], shape: Shape, axis: int) -> bool:
    """Whether blocks of an axis are done as the whole is."""
    nodes = program.nodes
    same = all(broadcast_shape([shapes[v] for v in node.fields]) == shape for node in nodes)
    made = {value for node in nodes if node.resizes for value in node.outputs}
    inside = any(not made.isdisjoint(node.fields) or node.thins for node in nodes)
    return shape[axis] > 1 and same and not inside and not mixed(nodes, axis)


def _halo(program: Program, axis: int) -> int:
    """How many points more than one a point depends on along an axis, counted from the end."""
    values, _ = needed(program.nodes, program.wanted, _MIDDLE, 4 * _MIDDLE[0], axis)
    return max(b - a for a, b in values.values()) - 1


def _in_pieces(
    program: Program,
    fields: Sequence[Array],
    targets: Sequence[Array],
    pieces: _Pieces,
    count: int,
) -> None:
    """Compute one piece after the other, `count` of which are under way."""
    if pieces.count == 1:
        made = program.run(Block(tuple(map(driver.uploaded, fields))))
        for target, result in zip(targets, made, strict=True):
            target[...] = driver.downloaded(result)
        return
    firsts = [_first(program, value, pieces.axis) for value in program.wanted]
    lanes = [Lane() for _ in range(count)]
    try:
        # What is the same for all pieces is there before the first.
        shared = {
            k: lanes[0].send(field) for k, field in enumerate(fields) if not pieces.cuts(field)
        }
        lanes[0].wait()
        for lane, span in zip(cycle(lanes), pieces.spans, strict=False):
            lane.finish()
            with lane.current:
                block = _block(program, fields, shared, pieces, span, lane)
                results = program.run(block, pieces.region(span))
                for target, result, first in zip(targets, results, firsts, strict=True):
                    start = max(0, span[0] - first)
                    part = pieces.only(start, start + result.shape[pieces.axis])
                    lane.fetch(result, partial(copied, target[part]))
            # No longer than it is under way is anything of a piece kept.
            del block, results, result
        for lane in lanes:
            lane.finish()
    finally:
        # The GPU must not write to memory that is somebody else's by now.
        for lane in lanes:
            lane.wait()


def _block(
    program: Program,
    fields: Sequence[Array],
    shared: Mapping[int, Any],
    pieces: _Pieces,
    span: Span,
    lane: Lane,
) -> Block:
    """What a piece depends on, on its way to the GPU."""
    axis, n = pieces.axis, pieces.shape[pieces.axis]
    first, last = fields_span(program.nodes, program.wanted, len(fields), span, n, axis)
    inside = first >= 0 and last <= n
    arrays = []
    for k, field in enumerate(fields):
        if k in shared:
            arrays.append(shared[k])
            continue
        # Beyond the ends of a ring it begins again.
        beyond = None if inside else np.arange(first, last) % n
        part = field[pieces.only(first, last)] if beyond is None else field.take(beyond, axis)
        arrays.append(lane.send(part))
    start = [0] * len(pieces.shape)
    start[axis] = first
    return Block(tuple(arrays), tuple(start), Domain(pieces.shape))


def _first(program: Program, value: int, axis: int) -> int:
    """The first point of a result along an axis, which is not 0 under "valid"."""
    for node in program.nodes:
        if value in node.outputs and axis in node.along:
            k = node.along.index(axis)
            if node.border.rules[k][0] == "valid":
                return max(0, -node.reaches[node.outputs.index(value)].lo[k])
    return 0
