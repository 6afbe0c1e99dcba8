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
from contextlib import contextmanager
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
from .graph import Node
from .lowering.schedule import Schedule
from .program import Program

# The part of the free memory that all pieces under way may take with all that is made of them.
SHARE = 0.8

# How many pieces are under way: one to the GPU, one on it, one back.
LANES = 3

# One point far from all ends.
_MIDDLE: Span = (1 << 40, (1 << 40) + 1)


def computed(program: Program, fields: Sequence[Array], targets: Sequence[Array]) -> None:
    """Compute what is wanted on the current GPU, and write it to arrays of nobody else.

    Raises
    ------
    MemoryError
        If a piece of the least size does not fit.
    """
    pieces, lanes = _pieces(program, fields, targets), LANES
    while not _done(program, fields, targets, pieces, lanes):
        # What else a call needs, such as arrays between launches, shows when it is done.
        if pieces.count >= pieces.most:
            lanes = 1
        pieces = _Pieces(pieces.shape, pieces.axis, min(pieces.most, 2 * pieces.count))


class _Room:
    """Who is on a GPU: blocks of several threads, or one that found no room beside others."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside, self._waiting = 0, 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be there beside others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be there once all others are gone; nobody comes meanwhile."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._waiting -= 1
                self._changed.notify_all()


_room = _Room()


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """A program whose blocks are sent to a GPU and back, as a graph of tasks has it.

    Each thread has a stream of its own, so that one frame is computed while others are on their
    way, read from files or written to them.
    """

    program: Program

    @staticmethod
    def of(program: Program) -> Sent:
        """The same program, on a GPU.

        Raises
        ------
        StencilError
            If only the CPU computes a kernel of it.
        """
        for node in program.nodes:
            understood(node.compiled)
        return Sent(program)

    @property
    def nodes(self) -> list[Node]:
        """The calls that are needed."""
        return self.program.nodes

    @property
    def wanted(self) -> tuple[int, ...]:
        """What is wanted of them."""
        return self.program.wanted

    @property
    def field_dtypes(self) -> list[np.dtype]:
        """The types of the arrays that it is given."""
        return self.program.field_dtypes

    @property
    def token(self) -> str:
        """The meaning, and that a GPU does it, whose last places may be others."""
        return f"{self.program.token}-cuda"

    @property
    def name(self) -> str:
        """What its last call is called."""
        return self.program.name

    @property
    def choices(self) -> Schedule:
        """With what choices it is planned."""
        return self.program.schedule

    @property
    def held(self) -> int:
        """Bytes of the arrays of coefficients that its calls are given."""
        return self.program.held

    def run(self, block: Block, region: Region | None = None) -> list[Array]:
        """Compute the wanted values from a block of the CPU's memory."""
        with _room.shared():
            made = self._sent(block, region)
        if made is None:
            # Blocks of other threads had taken it: by itself this one may fit.
            with _room.alone():
                made = self._sent(block, region, last=True)
        assert made is not None
        return made

    def _sent(self, block: Block, region: Region | None, last: bool = False) -> list[Array] | None:
        """What a block gives; None where there is no room for it, unless it is the `last` try."""
        try:
            return self._computed(block, region)
        except MemoryError:
            if last:
                raise
        return None

    def _computed(self, block: Block, region: Region | None) -> list[Array]:
        with driver.own_stream():
            arrays = tuple(map(driver.uploaded, block.arrays))
            results = self.program.run(replace(block, arrays=arrays), region)
            return [driver.downloaded(one) for one in results]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Which axis of the fields' shape is cut, and in how many pieces; in one, it is not."""

    shape: Shape
    axis: int
    count: int

    @property
    def most(self) -> int:
        """In how many pieces it can be cut."""
        return max(1, self.shape[self.axis]) if self.axis >= 0 else 1

    def cuts(self, field: Array) -> bool:
        """Whether a field has its own points in each piece."""
        axis = self.axis - len(self.shape)
        return field.ndim >= -axis and field.shape[axis] == self.shape[self.axis]

    @property
    def spans(self) -> Iterator[Span]:
        n = self.shape[self.axis]
        for k in range(self.count):
            a, b = n * k // self.count, n * (k + 1) // self.count
            if a < b:
                yield a, b

    def only(self, part: slice) -> tuple[slice, ...]:
        """Give the index of a part of the axis."""
        return (*(slice(None),) * self.axis, part)

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
    free = [axis for axis in range(len(shape)) if _can_be_cut(program, shapes, shape, axis)]
    if not free:
        return _Pieces(shape, -1, 1)
    halos = {axis: _halo(program, axis - len(shape)) for axis in free}
    # The earlier axes are the longer ones in memory.
    axis = max(free, key=lambda k: shape[k] / (1 + halos[k]))
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
    inside = any(not made.isdisjoint(node.fields) for node in nodes)
    inside = inside or any(node.thins for node in nodes)
    return shape[axis] > 1 and same and not inside and not mixed(nodes, axis - len(shape))


def _halo(program: Program, axis: int) -> int:
    """How many points more than one a point depends on along an axis, counted from the end."""
    values, _ = needed(program.nodes, program.wanted, _MIDDLE, 4 * _MIDDLE[0], axis)
    return max(b - a for a, b in values.values()) - 1


def _done(
    program: Program,
    fields: Sequence[Array],
    targets: Sequence[Array],
    pieces: _Pieces,
    lanes: int,
) -> bool:
    """Compute in these pieces, and tell whether there was room; if they cannot be more, there is.

    What was computed before the room ended is computed again.
    """
    try:
        if pieces.count < 2:
            block = Block(tuple(map(driver.uploaded, fields)))
            for target, result in zip(targets, program.run(block), strict=True):
                target[...] = driver.downloaded(result)
        else:
            _piece_by_piece(program, fields, targets, pieces, min(lanes, pieces.count))
    except MemoryError:
        if pieces.count >= pieces.most and (lanes == 1 or pieces.count < 2):
            raise
        return False
    return True


def _piece_by_piece(
    program: Program,
    fields: Sequence[Array],
    targets: Sequence[Array],
    pieces: _Pieces,
    count: int,
) -> None:
    """Compute one piece after the other, `count` of which are under way."""
    axis = pieces.axis - len(pieces.shape)
    firsts = [_first(program, value, axis) for value in program.wanted]
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
                    part = slice(start, start + result.shape[axis])
                    lane.fetch(result, partial(copied, target[pieces.only(part)]))
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
    rank, n = len(pieces.shape), pieces.shape[pieces.axis]
    axis = pieces.axis - rank
    first, last = fields_span(program.nodes, program.wanted, len(fields), span, n, axis)
    arrays = []
    for k, field in enumerate(fields):
        if k in shared:
            arrays.append(shared[k])
            continue
        if first >= 0 and last <= n:
            where: tuple[Any, ...] = (..., slice(first, last), *(slice(None),) * (-axis - 1))
            part = field[where]
        else:
            # Beyond the ends of a ring it begins again.
            part = field.take(np.arange(first, last) % n, axis)
        arrays.append(lane.send(part))
    start = [0] * rank
    start[pieces.axis] = first
    return Block(tuple(arrays), tuple(start), Domain(pieces.shape))


def _first(program: Program, value: int, axis: int) -> int:
    """The first point of a result along an axis, which is not 0 under "valid"."""
    for node in program.nodes:
        if value in node.outputs and axis in node.along:
            k = node.along.index(axis)
            if node.border.rules[k][0] == "valid":
                return max(0, -node.reaches[node.outputs.index(value)].lo[k])
    return 0
