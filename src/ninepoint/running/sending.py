"""Programs on arrays of the CPU, done by a GPU: sent there and back, in pieces where they must be.

    fields  |-------|-------|-------|     one piece with its halo after the other: to the GPU,
    result  |-------|-------|-------|     computed as a block with open sides, and back

A piece is as large as is worth it, and as the memory that is free allows.  Several threads take
them one by one, each with a stream of its own: one piece is copied to the GPU or back while
another is computed.  Every piece gives what the whole would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Condition
from typing import Any

from ..arrays import blocks
from ..arrays.accepted import broadcast_shape, listed, write
from ..arrays.blocks import outputs_of
from ..arrays.cuda.executable import understood
from ..arrays.layout import Array, PlainArrays, Region, Shape, cut
from ..arrays.regions import Block, looking, rings
from ..backends.cuda import driver
from ..backends.threads import run_parallel
from ..base import limits
from ..program.program import Program

# The part of the free memory that all pieces under way may take with all that is made of them.
SHARE = 0.8

# How many pieces are under way: one to the GPU, one on it, one back.
LANES = 3


class Sent(Program):
    """A program whose blocks are sent to a GPU and back, as a graph of tasks has it.

    Each thread has a stream of its own, so that one frame is computed while others are on their
    way, read from files or written to them.
    """

    __slots__ = ()

    @staticmethod
    def from_program(program: Program) -> Sent:
        """The same program, whose blocks are sent to a GPU.

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

    def run(self, block: Block, *others: Any, **named: Any) -> list[Array]:
        """Compute the wanted values from a block of the CPU's memory, which is all that is given.

        Where blocks of other threads have taken the room for it, it is done once they are gone.
        """
        with suppress(MemoryError), _room(alone=False):
            return self._computed(block)
        with _room(alone=True):
            return self._computed(block)

    def _computed(self, block: Block) -> list[Array]:
        with driver.own_stream() as stream:
            try:
                arrays = tuple(map(driver.uploaded, block.arrays))
                made = super().run(replace(block, arrays=arrays))
                return [driver.downloaded(one) for one in made]
            finally:
                # The GPU must not read memory that is somebody else's by now.
                driver.wait_for(stream)


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


def computed(program: Program, fields: PlainArrays, targets: PlainArrays) -> None:
    """Compute what is wanted on the current GPU, and write it to arrays of nobody else.

    Raises
    ------
    MemoryError
        If a piece of the least size does not fit.
    """
    # Pieces are known by the meaning of their program.
    sent = Sent.from_program(replace(program, token=program.graph.token))
    shape, axis, count = _cut(sent, fields, targets)
    job = blocks.Job(sent, shape, tuple(field.shape for field in fields))
    piece = partial(_piece, driver.current(), job, fields, targets)
    most = max(1, shape[axis]) if axis else 1
    while True:
        regions: list[Region | None] = [None]
        if count > 1:
            whole = Region((0, n) for n in shape)
            regions = [whole.along(axis, *span) for span in cut((0, shape[axis]), count)]
        try:
            run_parallel((partial(piece, one) for one in regions), min(LANES, len(regions)))
            return
        except MemoryError:
            # What else a call needs, such as arrays between launches, shows when it is done; what
            # was computed before the room ended is computed again.
            if count >= most:
                raise
            count = min(most, 2 * count)


def _piece(
    device: int, job: blocks.Job, fields: PlainArrays, targets: PlainArrays, region: Region | None
) -> None:
    """Compute the points of a region, or all, and write them to where they are in the targets."""
    # Each thread has a current GPU of its own.
    with driver.on(device):
        if region is None:
            made = job.program.run(Block(tuple(fields)))
        else:
            made = listed(blocks.read_of(job, region, *fields))
            targets = [
                target[region.clip(one.extent).slices(one.extent.start)[1:]]
                for target, one in zip(targets, outputs_of(job.program, job.shape), strict=True)
            ]
        for target, result in zip(targets, made, strict=True):
            write(target, result)


def _cut(program: Program, fields: PlainArrays, targets: PlainArrays) -> tuple[Shape, int, int]:
    """The shape of all fields, and along which axis it is cut in how many pieces.

    The axis is counted from the last, 0 where none can be cut.  There is room for the pieces as
    far as that can be told before.
    """
    graph, nodes = program.graph, program.nodes
    shapes = graph.shapes(field.shape for field in fields)
    # Positions along a stage may be shorter than the fields: where stages differ, nothing is cut.
    read = [broadcast_shape([shapes[value] for value in node.fields]) for node in nodes]
    shape = read[0]
    resized = {value for node in nodes if node.resizes for value in node.outputs}
    alike = all(one == shape for one in read) and not any(
        node.thins or resized.intersection(node.fields) for node in nodes
    )
    axes = [
        k for k in range(-len(shape), 0) if alike and shape[k] > 1 and len(rings(nodes, k)) < 2
    ]
    if not axes:
        return shape, 0, 1
    # The earlier axes are the longer ones in memory.
    halos = {k: one.high - one.low for k in axes for one in [looking(program, k)]}
    axis = max(axes, key=lambda k: shape[k] / (1 + halos[k]))
    n, halo = shape[axis], halos[axis]
    size = sum(
        math.prod(one) * dtype.itemsize for one, dtype in zip(shapes, graph.dtypes, strict=True)
    )
    room = int(SHARE * driver.memory()[0])
    moved = sum(array.nbytes for array in (*fields, *targets))
    least = limits.current.sent_reaches * (1 + halo)
    worth = min(moved // limits.current.sent_bytes, n // least)
    if size <= room and worth < 2:
        return shape, axis, 1
    length = room // LANES * n // size - halo
    return shape, axis, max(worth, -(-n // max(1, length)))
