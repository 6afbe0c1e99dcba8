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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, pairwise
from threading import Condition
from typing import Any

import numpy as np

from . import limits
from .arrays.blocks import Job, bound, put_together
from .arrays.borders import Array
from .arrays.cuda import understood
from .arrays.grid import looks, outputs_of
from .arrays.launching import NOTHING, Given
from .arrays.layout import Region, Shape
from .arrays.numpy import broadcast_shape
from .arrays.regions import along, mixed
from .arrays.work import Block
from .backends.cuda import driver
from .backends.cuda.driver import DeviceArray
from .backends.memory import empty
from .backends.threads import run_parallel, thread_count
from .program import Program

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

    @property
    def regions(self) -> list[Region]:
        """The points of each piece."""
        n = self.job.shape[self.axis]
        ends = [n * k // self.count for k in range(self.count + 1)]
        spans = [(a, b) for a, b in pairwise(ends) if a < b]
        return [along(self.job.shape, self.axis, span) for span in spans]

    def cuts(self, field: Array) -> bool:
        """Whether a field has its own points in each piece."""
        return field.ndim >= -self.axis and field.shape[self.axis] == self.job.shape[self.axis]

    def compute(self, fields: Sequence[Array], targets: Sequence[Array], count: int) -> None:
        """Compute one piece after the other, `count` of which are under way."""
        if self.count == 1:
            made = self.job.work.run(Block(tuple(map(driver.uploaded, fields))))
            for target, result in zip(targets, made, strict=True):
                target[...] = driver.downloaded(result)
            return
        lanes = [Lane() for _ in range(count)]
        try:
            # What is the same for all pieces is there before the first.
            shared = {
                k: lanes[0].send(field) for k, field in enumerate(fields) if not self.cuts(field)
            }
            lanes[0].wait()
            for lane, region in zip(cycle(lanes), self.regions, strict=False):
                lane.finish()
                with lane.current:
                    self._begin(lane, region, fields, shared, targets)
            for lane in lanes:
                lane.finish()
        finally:
            # The GPU must not write to memory that is somebody else's by now.
            for lane in lanes:
                lane.wait()

    def _begin(
        self,
        lane: Lane,
        region: Region,
        fields: Sequence[Array],
        shared: Mapping[int, DeviceArray],
        targets: Sequence[Array],
    ) -> None:
        """Send what a piece depends on, compute it, and begin to fetch it."""
        block, work = bound(self.job, region), self.job.work
        cuts = [tuple([(n,) for n in field.shape]) for field in fields]
        reads = block.reads(region.start, cuts)
        arrays = [
            shared[k]
            if k in shared
            else lane.send(put_together(reads[k], [field], partial(empty, dtype=field.dtype)))
            for k, field in enumerate(fields)
        ]
        outputs = outputs_of(work, self.job.shape)
        for target, result, one in zip(targets, block.run(work, arrays), outputs, strict=True):
            place = region.clip(one.extent).index(one.extent.start)[1:]
            lane.fetch(result, partial(copied, target[place]))


def _pieces(program: Program, fields: Sequence[Array], targets: Sequence[Array]) -> _Pieces:
    """Find the pieces for which there is room, as far as that can be told before."""
    graph = program.graph
    shapes = graph.shapes(field.shape for field in fields)
    # Positions along a stage may be shorter than the fields: where stages differ, nothing is cut.
    shape = broadcast_shape([shapes[value] for value in program.nodes[0].fields])
    whole = _Pieces(Job(program, shape, tuple([field.shape for field in fields])), 0, 1)
    axes = [k for k in range(-len(shape), 0) if _can_be_cut(program, shapes, shape, k)]
    if not axes:
        return whole
    # The earlier axes are the longer ones in memory.
    halos = [high - low for low, high, _ in looks(program, len(shape))]
    axis = max(axes, key=lambda k: shape[k] / (1 + halos[k]))
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
        return replace(whole, axis=axis)
    length = room // LANES * shape[axis] // size - halos[axis]
    return replace(whole, axis=axis, count=max(worth, -(-shape[axis] // max(1, length))))


def _can_be_cut(program: Program, shapes: Sequence[Shape], shape: Shape, axis: int) -> bool:
    """Whether blocks of an axis are done as the whole is."""
    nodes = program.nodes
    same = all(broadcast_shape([shapes[v] for v in node.fields]) == shape for node in nodes)
    made = {value for node in nodes if node.resizes for value in node.outputs}
    inside = any(not made.isdisjoint(node.fields) or node.thins for node in nodes)
    return shape[axis] > 1 and same and not inside and not mixed(nodes, axis)


class Lane:
    """A stream of the current GPU, and memory for what goes there and what comes back.

    The memory is pinned, which a GPU reads by itself; it is used again once the stream was waited
    for.
    """

    def __init__(self) -> None:
        self._stream = driver.new_stream()
        self._memory: list[Array] = []
        self._taken = 0
        # What is on its way back, and who takes it.
        self._coming: list[tuple[Array, Callable[[Any], None]]] = []

    @property
    def current(self) -> AbstractContextManager[Any]:
        """Makes the stream the current one for a while."""
        found: AbstractContextManager[Any] = self._stream
        return found

    def send(self, array: Array) -> DeviceArray:
        """Begin to copy an array to the GPU; what it was given may change from then on."""
        dtype = array.dtype.newbyteorder("=")
        pinned = self._pinned(array.shape, dtype)
        copied(pinned, array)
        there = driver.empty(array.shape, dtype)
        driver.refill(there, pinned, self._stream)
        return there

    def fetch(self, array: DeviceArray, take: Callable[[Any], None]) -> None:
        """Begin to copy an array back; `take` is given it once it is there."""
        array = driver.contiguous(array)
        pinned = self._pinned(array.shape, array.dtype)
        driver.begin_download(array, pinned, self._stream)
        self._coming.append((pinned, take))

    def finish(self) -> None:
        """Wait for all that was begun, and give away what came."""
        self.wait()
        coming, self._coming = self._coming, []
        for pinned, take in coming:
            take(pinned)
        self._taken = 0

    def wait(self) -> None:
        """Wait for all that was begun: till then its memory must stay."""
        driver.wait_for(self._stream)

    def _pinned(self, shape: Shape, dtype: np.dtype) -> Array:
        """Give memory that nothing of this lane's piece uses; that of the piece before again."""
        size = math.prod(shape) * dtype.itemsize
        if self._taken == len(self._memory):
            self._memory.append(np.empty(0, np.uint8))
        if self._memory[self._taken].nbytes < size:
            # The next piece may be a little longer.
            self._memory[self._taken] = driver.pinned(size + size // 8 + 512)
        found = self._memory[self._taken][:size].view(dtype).reshape(shape)
        self._taken += 1
        return found


def copied(target: Array, source: Array) -> None:
    """Copy between arrays of the CPU, the larger ones by all threads."""
    count = min(thread_count(None), target.nbytes // SPREAD)
    if count < 2:
        _copy(target, source)
        return
    axis = int(np.argmax(target.shape))
    parts = (np.array_split(one, count, axis) for one in (target, source))
    run_parallel((partial(_copy, *pair) for pair in zip(*parts, strict=True)), count)


def _copy(target: Array, source: Array) -> None:
    """Copy; floats that the target's type does not hold are infinite there, without a word."""
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = source
