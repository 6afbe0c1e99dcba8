"""Programs on arrays of the CPU, done by a GPU: sent there and back, in pieces where they must be.

    fields  |-------|-------|-------|     one piece with its halo after the other: to the GPU,
    result  |-------|-------|-------|     computed as a block with open sides, and back

A piece is as large as the memory that is free allows.  Every piece gives what the whole would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays.again import Again
from .arrays.borders import Array
from .arrays.cuda import understood
from .arrays.layout import Region, Shape
from .arrays.numpy import broadcast_shape
from .arrays.regions import Span, mixed, needed
from .arrays.run import Block, Domain
from .backends.cuda import driver
from .graph import Node
from .program import Program

# The part of the free memory that a piece may take with all that is made of it.
SHARE = 0.8

# One point far from all ends.
_MIDDLE: Span = (1 << 40, (1 << 40) + 1)


def computed(program: Program, fields: Sequence[Array], targets: Sequence[Array]) -> None:
    """Compute what is wanted on the current GPU, and write it to arrays of nobody else.

    Raises
    ------
    MemoryError
        If a piece of the least size does not fit.
    """
    pieces = _pieces(program, fields)
    while not _done(program, fields, targets, pieces):
        # What else a call needs, such as arrays between launches, shows when it is done.
        pieces = _Pieces(pieces.shape, pieces.axis, min(pieces.most, 2 * pieces.count))


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
    def parted(self) -> bool:
        """Whether parts of a block may be computed apart: they are better sent at once."""
        return False

    def run(
        self,
        block: Block,
        region: Region | None = None,
        outs: Mapping[int, Array] | None = None,
        noted: Again | None = None,
    ) -> list[Array]:
        """Compute the wanted values from a block of the CPU's memory."""
        assert not outs
        if noted is not None:
            noted.otherwise()
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


def _pieces(program: Program, fields: Sequence[Array]) -> _Pieces:
    """Find the pieces for which there is room, as far as that can be told before."""
    graph = program.graph
    shapes = graph.shapes(field.shape for field in fields)
    shape = broadcast_shape([field.shape for field in fields])
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
    if size <= room:
        return _Pieces(shape, axis, 1)
    length = room * shape[axis] // size - halos[axis]
    return _Pieces(shape, axis, -(-shape[axis] // max(1, length)))


def _can_be_cut(program: Program, shapes: Sequence[Shape], shape: Shape, axis: int) -> bool:
    """Whether blocks of an axis are done as the whole is."""
    nodes = program.nodes
    same = all(broadcast_shape([shapes[v] for v in node.fields]) == shape for node in nodes)
    made = {value for node in nodes if node.border.uses("valid") for value in node.outputs}
    inside = any(not made.isdisjoint(node.fields) for node in nodes)
    return shape[axis] > 1 and same and not inside and not mixed(nodes, axis - len(shape))


def _halo(program: Program, axis: int) -> int:
    """How many points more than one a point depends on along an axis, counted from the end."""
    values, _ = needed(program.nodes, program.wanted, _MIDDLE, 4 * _MIDDLE[0], axis)
    return max(b - a for a, b in values.values()) - 1


def _done(
    program: Program, fields: Sequence[Array], targets: Sequence[Array], pieces: _Pieces
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
            _piece_by_piece(program, fields, targets, pieces)
    except MemoryError:
        if pieces.count >= pieces.most:
            raise
        return False
    return True


def _piece_by_piece(
    program: Program, fields: Sequence[Array], targets: Sequence[Array], pieces: _Pieces
) -> None:
    axis = pieces.axis - len(pieces.shape)
    firsts = [_first(program, value, axis) for value in program.wanted]
    for span in pieces.spans:
        results = program.run(_block(program, fields, pieces, span), pieces.region(span))
        for target, result, first in zip(targets, results, firsts, strict=True):
            start = max(0, span[0] - first)
            part = slice(start, start + result.shape[axis])
            target[pieces.only(part)] = driver.downloaded(result)


def _block(program: Program, fields: Sequence[Array], pieces: _Pieces, span: Span) -> Block:
    """What a piece depends on, on the GPU."""
    rank, n = len(pieces.shape), pieces.shape[pieces.axis]
    axis = pieces.axis - rank
    values, _ = needed(program.nodes, program.wanted, span, n, axis)
    spans = [values[k] for k in range(len(fields)) if k in values]
    first, last = min(a for a, _ in spans), max(b for _, b in spans)
    arrays = []
    for field in fields:
        part = field
        if field.ndim >= -axis and field.shape[axis] == n:
            if first >= 0 and last <= n:
                where: tuple[Any, ...] = (..., slice(first, last), *(slice(None),) * (-axis - 1))
                part = field[where]
            else:
                # Beyond the ends of a ring it begins again.
                part = field.take(np.arange(first, last) % n, axis)
        arrays.append(driver.uploaded(part))
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
