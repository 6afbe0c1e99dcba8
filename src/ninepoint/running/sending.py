"""Programs on arrays of the CPU, done by a GPU: sent there and back, in pieces where they must be.

    fields  |-------|-------|-------|     one piece with its halo after the other: to the GPU,
    result  |-------|-------|-------|     computed as a block with open sides, and back

Several pieces are under way at once, each on a lane of its own: one is copied to the GPU or back
while another is computed.  A piece is as large as is worth it, and as the memory that is free
allows.  Every piece gives what the whole would.

    host -> pinned memory        by the calling thread
    pinned memory -> GPU         by the GPU, in the order of the lane's stream
    kernels, GPU -> pinned       likewise
    wait for the stream          and what came is read
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, pairwise
from threading import Condition
from typing import Any

import numpy as np

from ..arrays.accepted import is_cupy, write
from ..arrays.blocks import Job, put_together
from ..arrays.cuda import understood
from ..arrays.grid import outputs_of
from ..arrays.launching import NOTHING, Given
from ..arrays.layout import Array, Region
from ..arrays.numpy import broadcast_shape
from ..arrays.regions import Block, along, looking, rings
from ..backends.cuda import driver
from ..backends.cuda.driver import DeviceArray
from ..backends.memory import empty
from ..backends.threads import run_parallel, thread_count
from ..base import limits
from ..program.program import Program

# The part of the free memory that all pieces under way may take with all that is made of them.
SHARE = 0.8

# How many pieces are under way: one to the GPU, one on it, one back.
LANES = 3

# Bytes from which on several threads copy: one reads and writes some 10 GB/s, and a bus moves
# several times as much.
SPREAD = 1 << 22


class Sent(Program):
    """A program whose blocks are sent to a GPU and back, as a graph of tasks has it.

    Each thread has a stream of its own, so that one frame is computed while others are on their
    way, read from files or written to them.
    """

    __slots__ = ()

    @staticmethod
    def from_program(program: Program) -> Sent:
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
        outs: Mapping[int, Array] | None = None,
        threads: int | None = None,
        given: Given = NOTHING,
    ) -> list[Array]:
        """Compute the wanted values from a block of the CPU's memory.

        Where blocks of other threads have taken the room for it, it is done once they are gone.
        """
        with suppress(MemoryError), _room(alone=False):
            return self._computed(block)
        with _room(alone=True):
            return self._computed(block)

    def _computed(self, block: Block) -> list[Array]:
        with driver.own_stream():
            arrays = tuple(map(driver.uploaded, block.arrays))
            made = super().run(replace(block, arrays=arrays))
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
    # Pieces are known by the meaning of their program.
    program = replace(program, token=program.graph.token)
    pieces, lanes = _pieces(program, fields, targets), LANES
    while True:
        try:
            pieces.compute(fields, targets, min(lanes, pieces.count))
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
    """A job of which an axis is cut, counted from the last, in so many pieces.

    In one it is not cut; where there is no axis that can be, it is 0.
    """

    job: Job
    axis: int
    count: int

    @property
    def most(self) -> int:
        """In how many pieces it can be cut."""
        return max(1, self.job.shape[self.axis]) if self.axis else 1

    def compute(self, fields: Sequence[Array], targets: Sequence[Array], count: int) -> None:
        """Compute one piece after the other, `count` of which are under way."""
        if self.count == 1:
            made = self.job.program.run(Block(tuple(map(driver.uploaded, fields))))
            for target, result in zip(targets, made, strict=True):
                target[...] = driver.downloaded(result)
            return
        axis, n = self.axis, self.job.shape[self.axis]
        spans = pairwise([n * k // self.count for k in range(self.count + 1)])
        lanes = [Lane() for _ in range(count)]
        try:
            # What is the same for all pieces is there before the first.
            given = [
                field if field.ndim >= -axis and field.shape[axis] == n else lanes[0].send(field)
                for field in fields
            ]
            lanes[0].finish()
            for lane, span in zip(cycle(lanes), spans, strict=False):
                lane.finish()
                with lane.stream:
                    self._begin(lane, along(self.job.shape, axis, span), given, targets)
            for lane in lanes:
                lane.finish()
        finally:
            # The GPU must not write to memory that is somebody else's by now.
            for lane in lanes:
                driver.wait_for(lane.stream)

    def _begin(
        self,
        lane: Lane,
        region: Region,
        given: Sequence[Any],
        targets: Sequence[Array],
    ) -> None:
        """Send what a piece depends on that is not there, compute it, and begin to fetch it."""
        job, domain = self.job, self.job.domain(region)
        cuts = [tuple([(n,) for n in field.shape]) for field in given]
        reads = zip(given, job.reads(domain, region.start, cuts), strict=True)
        arrays = [
            field
            if is_cupy(field)
            else lane.send(put_together(own, [field], partial(empty, dtype=field.dtype)))
            for field, own in reads
        ]
        outputs = outputs_of(job.program, job.shape)
        for target, result, one in zip(targets, job.run(domain, arrays), outputs, strict=True):
            place = region.clip(one.extent).index(one.extent.start)[1:]
            lane.fetch(result, target[place])


def _pieces(program: Program, fields: Sequence[Array], targets: Sequence[Array]) -> _Pieces:
    """Find the pieces for which there is room, as far as that can be told before."""
    graph, nodes = program.graph, program.nodes
    shapes = graph.shapes(field.shape for field in fields)
    # Positions along a stage may be shorter than the fields: where stages differ, nothing is cut.
    read = [broadcast_shape([shapes[value] for value in node.fields]) for node in nodes]
    shape = read[0]
    whole = _Pieces(Job(program, shape, tuple([field.shape for field in fields])), 0, 1)
    resized = {value for node in nodes if node.resizes for value in node.outputs}
    alike = all(one == shape for one in read) and not any(
        node.thins or resized.intersection(node.fields) for node in nodes
    )
    axes = [
        k for k in range(-len(shape), 0) if alike and shape[k] > 1 and len(rings(nodes, k)) < 2
    ]
    if not axes:
        return whole
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
        return replace(whole, axis=axis)
    length = room // LANES * n // size - halo
    return replace(whole, axis=axis, count=max(worth, -(-n // max(1, length))))


class Lane:
    """A stream of the current GPU, with what goes there and what comes back.

    Either is in pinned memory meanwhile, which a GPU reads and writes by itself.
    """

    def __init__(self) -> None:
        self.stream = driver.new_stream()
        self._going: list[Array] = []
        # What is on its way back, and where it goes.
        self._coming: list[tuple[Array, Array]] = []

    def send(self, array: Array) -> DeviceArray:
        """Begin to copy an array to the GPU; what it was given may change from then on."""
        pinned = driver.pinned(array.shape, array.dtype.newbyteorder("="))
        copied(pinned, array)
        self._going.append(pinned)
        there = driver.empty(pinned.shape, pinned.dtype)
        driver.refill(there, pinned, self.stream)
        return there

    def fetch(self, array: DeviceArray, target: Array) -> None:
        """Begin to copy an array back, to be written to a target."""
        pinned = driver.pinned(array.shape, array.dtype)
        driver.begin_download(driver.contiguous(array), pinned, self.stream)
        self._coming.append((pinned, target))

    def finish(self) -> None:
        """Wait for all that was begun, and write what came."""
        driver.wait_for(self.stream)
        for pinned, target in self._coming:
            copied(target, pinned)
        self._going, self._coming = [], []


def copied(target: Array, source: Array) -> None:
    """Copy between arrays of the CPU, the larger ones by all threads."""
    count = min(thread_count(None), target.nbytes // SPREAD)
    if count < 2:
        write(target, source)
        return
    axis = int(np.argmax(target.shape))
    parts = (np.array_split(one, count, axis) for one in (target, source))
    run_parallel((partial(write, *pair) for pair in zip(*parts, strict=True)), count)
