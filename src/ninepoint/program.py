"""Programs: a graph of calls and what is wanted of it, to be run on whole arrays or on blocks.

    graph on arrays that are cut     ->     programs, each of which is one task a chunk

A program pickles as its calls.  How it is done is planned where it is done, once in a process.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays.borders import Array
from .arrays.keys import device_key
from .arrays.launching import Launches
from .arrays.layout import Region
from .arrays.phases import check_device
from .arrays.recognise import is_cupy
from .arrays.single import NOTHING
from .arrays.work import Block
from .chaining import in_steps
from .device_passes import on_gpu
from .graph import Graph, Node
from .lowering.schedule import Schedule
from .planning import Plan, plan
from .remembered import Remembered

# Bytes of pickles beyond which none is kept.
LARGE = 1 << 20


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

    @staticmethod
    def of_calls(
        graph: Graph, nodes: Sequence[Node], wanted: Sequence[int], schedule: Schedule
    ) -> tuple[Program, list[int]]:
        """Some calls of a graph as a program of their own, and which values that is given."""
        part, numbers = graph.part(nodes)
        own = Program(part, tuple(numbers[value] for value in wanted), schedule, part.token)
        return own, list(numbers)[: part.given]

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
    def held(self) -> int:
        """Bytes of the arrays of coefficients that its calls are given."""
        calls = {id(node.call): node.call for node in self.nodes}
        values = [value for call in calls.values() for value in call.scalars.values()]
        return sum(value.nbytes for value in values if isinstance(value, np.ndarray))

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
