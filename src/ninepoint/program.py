"""Programs: a graph of calls and what is wanted of it, to be run on whole arrays or on blocks.

    graph on arrays that are cut     ->     programs, each of which is one task a chunk

A program pickles as its calls.  How it is done is planned where it is done, once in a process.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays.borders import Array
from .arrays.keys import device_key
from .arrays.launching import Launches
from .arrays.layout import Region, Shape
from .arrays.numpy import broadcast_shape
from .arrays.phases import check_device, cut_shapes, finer_values
from .arrays.recognise import is_cupy
from .arrays.regions import Span, hull, mixed, needed
from .arrays.single import NOTHING
from .arrays.work import Block
from .chaining import in_steps
from .device_groups import on_gpu
from .graph import Graph, Node
from .lowering.schedule import Schedule
from .planning import Plan, in_sets, plan
from .remembered import Remembered

# Points of one call that may be computed beside those of a chunk for each task that this saves:
# they take about a fifth of the least that a task costs, of the schedulers the threaded one (100
# us for a block of 20x20, Zen 4).
FREE = 1 << 17

# The part by which the work may grow besides: two tasks a chunk and the faces of one more value
# cost less than that.
MORE = 0.15

# Stands for a length that nobody knows.
_LONG = 1 << 20

# Bytes of pickles beyond which none is kept.
LARGE = 1 << 20

# Far from all ends.
_MIDDLE = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """What is wanted of a graph, and the choices with which it is planned.

    `token` names the meaning, for the processes that receive it; a program that stays where it
    is needs none.
    """

    graph: Graph
    wanted: tuple[int, ...]
    schedule: Schedule
    token: str = ""

    def __reduce__(self) -> Any:
        key = self.token, self.wanted, self.schedule
        packed = _packed.get(key) if self.token else b""
        if packed is None:
            packed = _packed[key] = _pack(self)
        if packed:
            return _unpacked, (packed,)
        return Program, (self.graph, self.wanted, self.schedule, self.token)

    @property
    def nodes(self) -> list[Node]:
        """The calls that are needed."""
        return self.graph.needed(self.wanted)

    @property
    def field_dtypes(self) -> list[np.dtype]:
        """The types of the arrays that it is given."""
        return self.graph.dtypes[: self.graph.given]

    @property
    def name(self) -> str:
        """What its last call is called."""
        return self.graph.nodes[-1].call.definition.name.strip("<>")

    @property
    def choices(self) -> Schedule:
        """With what choices it is planned."""
        return self.schedule

    @property
    def held(self) -> int:
        """Bytes of the arrays of coefficients that its calls are given."""
        calls = {id(node.call): node.call for node in self.nodes}
        values = [value for call in calls.values() for value in call.scalars.values()]
        return sum(value.nbytes for value in values if isinstance(value, np.ndarray))

    @property
    def parted(self) -> bool:
        """Whether parts of a block may be computed apart: it is done where the arrays are."""
        return True

    @property
    def plan(self) -> Plan:
        """Which calls are done together, and which steps of an iteration."""
        known = self
        if self.token:
            # Each task has a graph of its own: what was planned for another one is taken.
            key = self.token, self.wanted, self.schedule
            if key not in _known:
                _known[key] = self
            known = _known.get(key, self)
        graph, wanted, schedule = known.graph, known.wanted, known.schedule
        return in_steps(graph, plan(graph, wanted, schedule), wanted, schedule)

    def run(
        self,
        block: Block,
        region: Region | None = None,
        outs: Mapping[int, Array] | None = None,
        threads: int | None = None,
    ) -> list[Array]:
        """Compute the wanted values from a block; see `Launches`."""
        launches = self.bound(block, region, outs, threads)
        with beside(block.arrays):
            return launches(block.arrays, NOTHING, outs)

    def bound(
        self,
        block: Block,
        region: Region | None = None,
        outs: Mapping[int, Array] | None = None,
        threads: int | None = None,
    ) -> Launches:
        """What does blocks like this one, from memory if there was one before."""
        outs = outs or {}
        plan = self.plan_for(block.arrays)
        key = (
            tuple([kind(one) for one in (*block.arrays, *outs.values())]),
            tuple(outs), block.start, block.domain, region, threads,
        )  # fmt: skip
        found = plan.launches.get(key)
        if found is None:
            found = Launches(plan.groups, self.wanted, block, region, threads)
            plan.launches[key] = found
        return found

    def plan_for(self, arrays: Sequence[Any]) -> Plan:
        """The plan for arrays in memory, of the CPU or of a GPU."""
        if not any(map(is_cupy, arrays)):
            return self.plan
        key = self.wanted, self.schedule, "cuda"
        found: Plan | None = self.graph.plans.get(key)
        if found is None:
            check_device(self.nodes)
            found = Plan(tuple(on_gpu(self.graph, self.wanted, self.schedule)), {})
            self.graph.plans[key] = found
        return found


def beside(arrays: Sequence[Any]) -> AbstractContextManager[Any]:
    """Make the GPU on which arrays lie the current one for a while, if they lie on one."""
    if not any(map(is_cupy, arrays)):
        return nullcontext()
    # Imported here: CuPy is optional, and the caller has it.
    from .arrays import cuda

    return cuda.beside(arrays)


def kind(array: Any) -> Any:
    """What a call depends on of an array, save for its elements."""
    if is_cupy(array):
        return device_key(array)
    return array.dtype, array.shape, array.strides, array.flags.aligned


def _pack(program: Program) -> bytes:
    """What a program pickles as, once for all tasks; nothing where only its pickler knows how."""
    parts = program.graph, program.wanted, program.schedule, program.token
    try:
        packed = pickle.dumps(parts, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return b""
    # What is named so is another thing in another process, and is to be pickled by value; and what
    # is large is not kept.
    return b"" if b"__main__" in packed or len(packed) > LARGE else packed


def _unpacked(packed: bytes) -> Program:
    """The program that was packed so; the same one for all tasks of a process."""
    found = _received.get(packed)
    if found is None:
        found = _received[packed] = Program(*pickle.loads(packed))
    return found


# What the programs were packed as that were sent last, and those that were received.
_packed: Remembered[Any, bytes] = Remembered(64)
_received: Remembered[bytes, Program] = Remembered(64)

# The programs that were planned last, by their tokens and what is wanted of them.
_known: Remembered[tuple[str, tuple[int, ...], Schedule], Program] = Remembered(64)


def divided(
    graph: Graph,
    wanted: Sequence[int],
    nodes: Sequence[Node],
    shapes: Sequence[Shape],
    chunks: Mapping[int, Sequence[Sequence[int]]],
) -> list[list[Node]]:
    """Some nodes of a graph, in order, in sets each of which is one task a chunk, in order.

    `shapes` and `chunks` are those of every value.  A node is done with those that read it; it
    is apart from them where

    - it gives fewer points than it is given ("valid", `every`), so that what reads it counts
      from another point,
    - its results are of another shape: they may be there once for many chunks,
    - the axis that it takes as a ring is cut, and another one of the nodes does not: no block
      of neighbours then serves both,
    - more would be computed again, or chunks read again, than tasks saved are worth.
    """

    def apart(node: Node, users: Sequence[Node], homes: Sequence[list[Node]]) -> str:
        joined = sorted([node, *(one for home in homes for one in home)], key=nodes.index)
        if node.resizes and not node.factors:
            return "it gives fewer points than it is given"
        if any(one.factors for one in joined):
            return "it gives more points than it is given"
        if not _together(graph, wanted, joined, [[node], *homes], shapes, chunks):
            return "a task of its own takes less"
        return ""

    sets = in_sets(nodes, apart)[0]

    def fits(some: Sequence[Node], alone: Sequence[Sequence[Node]]) -> bool:
        return _together(graph, wanted, some, alone, shapes, chunks)

    for k in range(len(sets) - 1):
        sets[k : k + 2] = _cut_thin(graph, wanted, sets[k], sets[k + 1], fits)
    return sets


def _cut_thin(
    graph: Graph,
    wanted: Sequence[int],
    before: list[Node],
    after: list[Node],
    fits: Callable[[Sequence[Node], Sequence[Sequence[Node]]], bool],
) -> tuple[list[Node], list[Node]]:
    """Two sets, one of which reads the other, cut anew where the fewest bytes lie between them."""

    def between(first: Sequence[Node], second: Sequence[Node]) -> int:
        made = {value for node in first for value in node.outputs} - set(wanted)
        read = {value for node in second for value in node.fields}
        return sum(graph.dtypes[value].itemsize for value in made & read)

    best = between(before, after)
    found = before, after
    if not best or any(node.resizes for node in (*before, *after)):
        return found
    for k in range(1, len(after)):
        first, second = [*before, *after[:k]], after[k:]
        if between(first, second) < best and fits(first, [before, after[:k]]):
            best, found = between(first, second), (first, second)
    return found


def _together(
    graph: Graph,
    wanted: Sequence[int],
    nodes: Sequence[Node],
    alone: Sequence[Sequence[Node]],
    shapes: Sequence[Shape],
    chunks: Mapping[int, Sequence[Sequence[int]]],
) -> bool:
    """Whether nodes can be done in one task a chunk, and are better done so than `alone`."""
    fine = finer_values(graph.nodes)
    whole = {
        broadcast_shape(cut_shapes([shapes[v] for v in node.fields], node.fields, fine))
        for node in nodes
    }
    if len(whole) > 1:
        return False
    # A length that is not known is that of an axis that no node works along: any will do.
    shape = tuple(_LONG if math.isnan(n) else n for n in next(iter(whole)))
    if not math.prod(shape):
        return True
    counts = [len(sizes) for sizes in chunks[nodes[-1].outputs[0]]]
    counts = [1] * (len(shape) - len(counts)) + counts
    ring = any(count > 1 and mixed(nodes, axis) for axis, count in enumerate(counts, -len(counts)))
    if ring:
        return False
    points, edges, near = _cost(graph, wanted, nodes, shape, counts)
    others = [_cost(graph, wanted, some, shape, counts) for some in alone]
    saved = math.prod(counts) * (len(alone) - 1)
    least = len(nodes) * math.prod(shape)
    return points <= (1 + MORE) * least + FREE * saved and (
        near or edges <= sum(one[1] for one in others)
    )


def _cost(
    graph: Graph,
    wanted: Sequence[int],
    nodes: Sequence[Node],
    shape: Shape,
    counts: Sequence[int],
) -> tuple[float, float, bool]:
    """The points that all tasks compute, the chunks that they read, whether only the next ones."""
    made = {value for node in nodes for value in node.outputs}
    sources = {value for node in nodes for value in node.fields} - made
    outside = set(wanted) | {v for n in graph.nodes if n not in nodes for v in n.fields}
    points = [1.0] * len(nodes)
    edges, near = float(len(sources)), True
    for axis, (n, count) in enumerate(zip(shape, counts, strict=True), -len(shape)):
        size = max(1, n // count)
        span = (_MIDDLE, _MIDDLE + size)
        values, _ = needed(nodes, made & outside, span, 2 * _MIDDLE, axis)
        for k, node in enumerate(nodes):
            read: Span | None = None
            for value in node.outputs:
                if value in values:
                    read = hull(read, values[value])
            if read is not None:
                points[k] *= count * min(n, read[1] - read[0])
        low = max(_MIDDLE - values[value][0] for value in sources)
        high = max(values[value][1] - span[1] for value in sources)
        touched = min(count, 1 + -(-low // size) - (-high // size))
        near = near and (count == 1 or max(low, high) <= size)
        edges *= count * touched
    return sum(points), edges, near
