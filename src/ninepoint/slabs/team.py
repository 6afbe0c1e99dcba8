"""The actors that have the parts of a state, as the client has them: begun, driven, read, lost."""

from __future__ import annotations

import importlib.util
import itertools
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dask.array as da
import distributed
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from ..arrays.layout import Shape
from ..arrays.regions import Span
from ..io.cluster import patience
from ..iteration import Iteration
from . import actor
from .actor import Keeper, Lost
from .cut import Cut
from .motion import Motion

# What an exchange between workers costs, as far as more steps between two of them make up for it
# [s].  (Heat equation, float32, 2000x4000 on each of two workers, 480 steps: 16 steps between two
# exchanges 1.5 s, 40 steps 2.3 s, two processes of MPI 1.1 s, Zen 4.)
EXCHANGE = 0.4e-3

# How much of a worker's memory parts may take.
SHARE = 0.7

# How long a scheduler has to notice that a worker is gone, after nobody can reach it [s].
NOTICED = 10.0

# Most of the functions of Dask carry no annotations.
_arrays: Any = da
_layer: Any = MaterializedLayer
_array: Any = da.Array


def axis_of(motion: Motion, shapes: Sequence[Shape], shape: Shape, parts: int) -> int | None:
    """The axis to cut in so many parts, counted from the end; None if there is no such axis.

    One that no step looks along needs no exchange; else it is the first, if it is long enough.
    """

    def fits(axis: int) -> bool:
        return shape[axis] >= 4 * parts * max(map(abs, (1, *motion.steps.looks(axis))))

    stack = [axis for axis in range(-len(shape), -motion.ndim) if shape[axis] >= 4 * parts]
    core = list(range(-motion.ndim, 0))
    longest = max(core, key=shape.__getitem__)
    for axis in (*stack, core[0], longest):
        if fits(axis) and not motion.refusal(shapes, axis):
            return axis
    return None


class Team:
    """Actors, one on each worker, with the state after `step` steps."""

    def __init__(
        self,
        client: Any,
        motion: Motion,
        axis: int,
        fields: Sequence[Any],
        plan: Iteration,
        step: int,
    ) -> None:
        self._client, self._motion, self._plan, self.step = client, motion, plan, step
        workers = workers_of(client)
        shape = np.broadcast_shapes(*(field.shape for field in fields))
        self._addresses = list(workers)[: max(1, shape[axis] // 4)]
        # Those without which there is nothing to be done.
        self._needed = set(self._addresses)
        threads = [workers[address] for address in self._addresses]
        ends = [0, *itertools.accumulate(threads)]
        lengths = [
            shape[axis] * b // ends[-1] - shape[axis] * a // ends[-1]
            for a, b in itertools.pairwise(ends)
        ]
        self.cut = cut = Cut.of(shape, axis, lengths)
        count = motion.states
        fields = [
            *(_arrays.broadcast_to(one, shape) for one in fields[:count]), *fields[count:]
        ]  # fmt: skip
        cut_too = [f.ndim >= -axis and f.shape[axis] == shape[axis] for f in fields]
        self.longest = motion.steps.between(
            [max(lengths), *shape[axis:][1:]], [axis], EXCHANGE, plan.in_a_row
        )
        with self._noticing():
            self._check(shape, lengths)
        token = uuid.uuid4().hex[:12]
        quiet = replace(plan, callback=None, progress=None)
        self._futures = [
            client.submit(
                Keeper, motion, cut, part, self.longest, tuple(cut_too[count:]),
                replace(quiet, threads=plan.threads or threads[part]),
                actor=True, workers=[address], key=f"slab-{token}-{part}",
            )
            for part, address in enumerate(self._addresses)
        ]  # fmt: skip
        self._wait(self._futures)
        with self._noticing():
            self._actors = [future.result() for future in self._futures]
        self._all(
            "room",
            [
                [self._part(f.shape, own, f_cut) for f, f_cut in zip(fields, cut_too, strict=True)]
                for own in cut.owned
            ],
        )
        self._fill(fields, cut_too)
        self._all("begin", [self._actors] * len(self._actors))
        # The step of which there are copies, if there are.
        self.copied: int | None = None

    def go(self, last: int, numbers: Sequence[Mapping[str, Any]], watched: bool) -> bool:
        """Do steps until so many are done in all, or until one changes little, which it tells.

        Raises
        ------
        Lost
            If a worker is gone.
        """
        told = self._all(
            "go", *[[one] * len(self._actors) for one in (self.step, last, numbers, watched)]
        )
        self.step, ended = told[0]
        return bool(ended)

    def copy(self) -> None:
        """Copy each part's state, there and to the next part's worker: two more states.

        Those of before are kept until all parts have theirs, for a worker may end meanwhile.
        """
        steps = [self.step] * len(self._actors)
        self._all("copy", steps)
        self.copied = self.step
        self._all("forget", steps)

    def state(self, chunks: Sequence[Sequence[int]]) -> list[Any]:
        """The state as Dask arrays in these chunks, which lie on the workers."""
        cut = self.cut
        starts = [[0, *itertools.accumulate(sizes)] for sizes in chunks]
        blocks = [list(itertools.pairwise(ends)) for ends in starts]
        wanted = []
        for number in range(self._motion.states):
            pieces: dict[Any, list[tuple[int, tuple[Any, ...]]]] = {}
            for place in itertools.product(*map(range, map(len, chunks))):
                spans = [axis[k] for axis, k in zip(blocks, place, strict=True)]
                found = list(cut.pieces(spans[cut.axis])) or [(0, spans[cut.axis])]
                for part, span in found:
                    own = list(spans)
                    own[cut.axis] = span
                    pieces.setdefault(place, []).append((part, (actor.take, number, tuple(own))))
            wanted.append(pieces)
        return self._read(wanted, chunks)

    def copies(self) -> list[Any] | None:
        """The state that was copied, as Dask arrays on the workers that are left, or nothing."""
        left = set(workers_of(self._client))
        size = len(self._actors)
        holders = []
        for part in range(size):
            near = [k for k in (part, (part + 1) % size) if self._addresses[k] in left]
            if self.copied is None or not near:
                return None
            holders.append(near[0])
        self._needed = {self._addresses[holder] for holder in holders}
        chunks: list[tuple[int, ...]] = [(n,) for n in self.cut.shape]
        chunks[self.cut.axis] = tuple(b - a for a, b in self.cut.owned)
        wanted = []
        for number in range(self._motion.states):
            pieces = {}
            for part, holder in enumerate(holders):
                place = [0] * len(chunks)
                place[self.cut.axis] = part
                task = (actor.copied, part, self.copied, number)
                pieces[tuple(place)] = [(holder, task)]
            wanted.append(pieces)
        return self._read(wanted, chunks)

    def stop(self) -> None:
        """Let actors that wait for others that are gone wait no more."""
        left = set(workers_of(self._client))
        for address, one in zip(self._addresses, self._actors, strict=True):
            if address in left:
                one.stop()

    def _part(self, shape: Shape, own: Span, is_cut: bool) -> Shape:
        """The shape of a part of a field."""
        if not is_cut:
            return shape
        lengths = list(shape)
        lengths[self.cut.axis] = own[1] - own[0]
        return tuple(lengths)

    def _check(self, shape: Shape, lengths: Sequence[int]) -> None:
        """Raise where a worker cannot do its part."""
        client, addresses = self._client, self._addresses
        found = client.run(importlib.util.find_spec, "ninepoint", workers=addresses)
        for address, spec in found.items():
            if spec is None:
                raise ModuleNotFoundError(
                    f"the worker {address} has no ninepoint; install it there, for example with "
                    "client.register_plugin(distributed.PipInstall(['ninepoint']))."
                )
        size = sum(dtype.itemsize for dtype in self._motion.types)
        state = sum(dtype.itemsize for dtype in self._motion.types[: self._motion.states])
        # Two states, and while it begins the fields; with copies two states more.
        size += 2 * state
        if self._plan.snapshots != 0 and len(addresses) > 1:
            size += 2 * state
        points = int(np.prod(shape)) // max(1, shape[self.cut.axis]) if np.prod(shape) else 0
        limits = client.run(actor.limit, workers=addresses)
        for address, length in zip(addresses, lengths, strict=True):
            most = limits[address]
            if most and points * length * size > SHARE * most:
                raise MemoryError(
                    f"the worker {address} would hold {points * length * size / 1e9:.1f} GB of "
                    f"the state, and may have {most / 1e9:.1f} GB; start more workers, give "
                    "snapshots=0, or keep the state in chunks: "
                    'dask.config.set({"ninepoint.actors": False}).'
                )

    def _fill(self, fields: Sequence[Any], cut_too: Sequence[bool]) -> None:
        layers: dict[str, Any] = {}
        dependencies: dict[str, set[str]] = {}
        keys: list[Any] = []
        token = uuid.uuid4().hex[:12]
        for part, own in enumerate(self.cut.owned):
            for number, (field, is_cut) in enumerate(zip(fields, cut_too, strict=True)):
                piece = field
                if is_cut:
                    index = (..., slice(*own), *(slice(None),) * (-self.cut.axis - 1))
                    piece = field[index]
                name = f"slab-put-{token}-{part}-{number}"
                starts = [[0, *itertools.accumulate(sizes)] for sizes in piece.chunks]
                tasks = {}
                for place in itertools.product(*map(range, piece.numblocks)):
                    first = tuple(axis[k] for axis, k in zip(starts, place, strict=True))
                    key = (name, *place)
                    source = TaskRef((piece.name, *place))
                    tasks[key] = Task(
                        key, actor.put, self._futures[part].key, number, first, source
                    )
                layers |= {**piece.dask.layers, name: self._there(tasks, part)}
                dependencies |= {**piece.dask.dependencies, name: {piece.name}}
                keys += tasks
        self._compute(HighLevelGraph(layers, dependencies), keys)

    def _there(self, tasks: dict[Any, Task], part: int) -> Any:
        """Tasks for the worker of a part."""
        return _layer(tasks, annotations={"workers": (self._addresses[part],)})

    def _read(self, wanted: Sequence[Any], chunks: Sequence[Sequence[int]]) -> list[Any]:
        """Arrays whose chunks tasks of the actors' workers make."""
        token = uuid.uuid4().hex[:12]
        axis = self.cut.axis
        results = []
        for number, pieces in enumerate(wanted):
            name = f"state-{number}-{token}"
            there: dict[int, dict[Any, Task]] = {}
            joins: dict[Any, Task] = {}
            for place, found in pieces.items():
                refs = []
                for k, (part, (function, *arguments)) in enumerate(found):
                    key = (name if len(found) == 1 else f"{name}-{k}", *place)
                    task = Task(key, function, self._futures[part].key, *arguments)
                    there.setdefault(part, {})[key] = task
                    refs.append(TaskRef(key))
                if len(found) > 1:
                    joins[(name, *place)] = Task((name, *place), actor.joined, axis, *refs)
            layers = {f"{name}-{part}-there": self._there(t, part) for part, t in there.items()}
            dependencies: dict[str, set[str]] = {layer: set() for layer in layers}
            layers[name] = _layer(joins)
            dependencies[name] = set(layers) - {name}
            dtype = self._motion.types[number]
            graph = HighLevelGraph(layers, dependencies)
            meta = np.empty((0,) * len(chunks), dtype)
            keys = list(pieces)
            futures = self._compute(graph, [(name, *place) for place in keys])
            done = {(name, *place): one for place, one in zip(keys, futures, strict=True)}
            results.append(_array(done, name, tuple(map(tuple, chunks)), meta=meta))
        return results

    def _compute(self, graph: HighLevelGraph, keys: Sequence[Any]) -> list[Any]:
        """Compute tasks where they belong, and wait for them."""
        futures = self._client.get(graph, list(keys), sync=False, optimize_graph=False)
        self._wait(futures)
        return list(futures)

    def _wait(self, futures: Sequence[Any]) -> None:
        wait: Any = distributed.wait
        left = list(futures)
        while left:
            try:
                wait(left, timeout=1.0)
                break
            except TimeoutError:
                self._check_workers()
        for future in futures:
            if future.status != "finished":
                with self._noticing():
                    future.result()

    def _all(self, method: str, *each: Sequence[Any]) -> list[Any]:
        """What a method of all actors gives, each with its own arguments."""
        told: dict[int, Any] = {}
        with self._noticing():
            calls = [
                getattr(one, method)(*arguments)
                for one, arguments in zip(self._actors, zip(*each, strict=True), strict=True)
            ]
            left = list(range(len(calls)))
            while left:
                k = left.pop(0)
                try:
                    told[k] = calls[k].result(timeout=0.5)
                except TimeoutError:
                    left.append(k)
                    self._check_workers()
        return [told[k] for k in range(len(calls))]

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Raise `Lost` in the place of whatever the end of a worker makes Dask raise."""
        try:
            yield
        except Lost:
            raise
        except Exception as error:
            self._check_workers(NOTICED if isinstance(error, OSError) else 0.0)
            raise

    def _check_workers(self, patience: float = 0.0) -> None:
        """Raise where a worker is gone, or will be found to be gone soon."""
        until = time.monotonic() + patience
        while True:
            gone = self._needed - set(workers_of(self._client))
            if gone:
                raise Lost(f"the workers {sorted(gone)} are gone, with parts of a state.")
            if time.monotonic() >= until:
                return
            time.sleep(0.1)


def workers_of(client: Any) -> dict[str, int]:
    """The workers that there are, and how many threads each has; waits for one."""
    until = time.monotonic() + patience()
    while True:
        if client.status in ("closing", "closed"):
            raise ConnectionError(
                "the Dask client was closed before the steps were done; keep it open until then."
            )
        found: dict[str, int] = client.nthreads()
        if found:
            return dict(sorted(found.items()))
        if time.monotonic() > until:
            raise ConnectionError("the Dask cluster has no workers; start some, and try again.")
        time.sleep(0.2)
