"""The actors that have the parts of a state, as the client has them: begun, driven, read, lost."""

from __future__ import annotations

import importlib.util
import itertools
import math
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

from ..arrays.blocks import spans_of
from ..arrays.layout import Shape
from ..io.cluster import patience
from ..iteration import Iteration
from . import actor
from .actor import Keeper
from .motion import Motion, Parts
from .on_cluster import Lost

# What an exchange between workers costs, as far as more steps between two of them make up for it
# [s].  (Heat equation, float32, 2000x4000 on each of two workers, 480 steps: 16 steps between two
# exchanges 1.5 s, 40 steps 2.3 s, two processes of MPI 1.1 s, Zen 4.)
EXCHANGE = 0.4e-3

# How much of a worker's memory parts may take.
SHARE = 0.7

# How long a scheduler has to notice that a worker is gone, after nobody can reach it [s].
NOTICED = 10.0

# Most of the functions of Dask carry no annotations.
_dask: Any = dask
_arrays: Any = da
_distributed: Any = distributed


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
        self._client, self._plan, self.step = client, plan, step
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
        count = motion.states
        fields = [
            *(_arrays.broadcast_to(one, shape) for one in fields[:count]), *fields[count:]
        ]  # fmt: skip
        cut = [f.ndim >= -axis and f.shape[axis] == shape[axis] for f in fields]
        shapes = [(field.shape, own) for field, own in zip(fields, cut, strict=True)]
        self.parts = parts = Parts.of(motion, axis, lengths, shapes, EXCHANGE, plan)
        with self._noticing():
            self._check()
        token = uuid.uuid4().hex[:12]
        quiet = replace(plan, callback=None, progress=None)
        self._futures = [
            client.submit(
                Keeper, parts, part, replace(quiet, threads=plan.threads or threads[part]),
                actor=True, workers=[address], key=f"slab-{token}-{part}",
            )
            for part, address in enumerate(self._addresses)
        ]  # fmt: skip
        self._wait(self._futures)
        with self._noticing():
            self._actors = [future.result() for future in self._futures]
        self._fill(fields)
        self._all("begin", self._actors)
        # The step of which there are copies, if there are.
        self.copied: int | None = None

    def go(self, last: int, numbers: Sequence[Mapping[str, Any]]) -> bool:
        """Do steps until so many are done in all, or until one changes little, which it tells.

        Raises
        ------
        Lost
            If a worker is gone.
        """
        self.step, ended = self._all("go", self.step, last, numbers)[0]
        return bool(ended)

    def copy(self) -> None:
        """Copy each part's state, there and to the next part's worker: two more states.

        Those of before are kept until all parts have theirs, for a worker may end meanwhile.
        """
        self._all("copy", self.step)
        self.copied = self.step
        self._all("forget", self.step)

    def state(self, chunks: Sequence[Sequence[int]]) -> list[Any]:
        """The state as Dask arrays in these chunks, which lie on the workers."""
        return self._read(chunks, range(len(self._actors)), None)

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
        chunks: list[tuple[int, ...]] = [(n,) for n in self.parts.shape]
        chunks[self.parts.axis] = self.parts.lengths
        return self._read(chunks, holders, self.copied)

    def stop(self) -> None:
        """Let actors that wait for others that are gone wait no more."""
        left = set(workers_of(self._client))
        for address, one in zip(self._addresses, self._actors, strict=True):
            if address in left:
                one.stop()

    def _check(self) -> None:
        """Raise where a worker cannot do its part."""
        motion, shape, lengths = self.parts.motion, self.parts.shape, self.parts.lengths
        client, addresses = self._client, self._addresses
        found = client.run(importlib.util.find_spec, "ninepoint", workers=addresses)
        for address, spec in found.items():
            if spec is None:
                raise ModuleNotFoundError(
                    f"the worker {address} has no ninepoint; install it there, for example with "
                    "client.register_plugin(distributed.PipInstall(['ninepoint']))."
                )
        size = sum(dtype.itemsize for dtype in motion.types)
        state = sum(dtype.itemsize for dtype in motion.types[: motion.states])
        # Two states, and while it begins the fields; with copies two states more.
        size += 2 * state
        if self._plan.snapshots != 0 and len(addresses) > 1:
            size += 2 * state
        points = math.prod(self.parts.shape_of(shape, 1))
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

    def _fill(self, fields: Sequence[Any]) -> None:
        """Have each part's points of the fields where the part is."""
        filled = []
        after = (slice(None),) * (-self.parts.axis - 1)
        for future, address, own in zip(
            self._futures, self._addresses, self.parts.owned, strict=True
        ):
            for number, field in enumerate(fields):
                piece = field[(..., slice(*own), *after)] if number in self.parts.cut else field
                with _dask.annotate(workers=(address,)):
                    filled.append(
                        piece.map_blocks(
                            actor.put, future.key, number, dtype=bool, name=f"put-{uuid.uuid4()}",
                            chunks=tuple((1,) * n for n in piece.numblocks),
                            meta=np.empty((0,) * piece.ndim, bool),
                        )
                    )  # fmt: skip
        self._wait(_distributed.futures_of(self._client.persist(filled, optimize_graph=False)))

    def _read(
        self, chunks: Sequence[Sequence[int]], holders: Sequence[int], step: int | None
    ) -> list[Any]:
        """The state in these chunks, of which holders have each part, or had it after a step."""
        axis, blocks = self.parts.axis, [spans_of(sizes) for sizes in chunks]
        along = self.parts.pieces(blocks[axis])
        # Of each part what is to be taken, and for which chunk that is.
        taken: dict[int, list[tuple[Any, Any]]] = defaultdict(list)
        numbers = range(self.parts.motion.states)
        for number, *place in itertools.product(numbers, *map(range, map(len, chunks))):
            index = [slice(*spans[k]) for spans, k in zip(blocks, place, strict=True)]
            for part, _, own in along[place[axis]]:
                index[axis] = own
                taken[part].append(((number, *place), (part, step, number, tuple(index))))
        found: dict[Any, list[Any]] = defaultdict(list)
        for part, some in sorted(taken.items()):
            holder = holders[part]
            futures = self._client.map(
                partial(actor.take, self._futures[holder].key), [what for _, what in some],
                workers=[self._addresses[holder]], pure=False,
            )  # fmt: skip
            for (where, _), future in zip(some, futures, strict=True):
                found[where].append(future)
        done = {
            where: pieces[0]
            if len(pieces) == 1
            else self._client.submit(actor.joined, axis, *pieces, pure=False)
            for where, pieces in found.items()
        }
        self._wait(list(done.values()))
        names = [f"state-{number}-{uuid.uuid4()}" for number in numbers]
        return [
            _arrays.Array(
                {(name, *where[1:]): one for where, one in done.items() if where[0] == number},
                name,
                tuple(map(tuple, chunks)),
                meta=np.empty((0,) * len(chunks), self.parts.motion.types[number]),
            )
            for number, name in enumerate(names)
        ]

    def _wait(self, futures: Sequence[Any]) -> None:
        waiting = True
        while waiting:
            try:
                _distributed.wait(futures, timeout=1.0)
                waiting = False
            except TimeoutError:
                self._check_workers()
        for future in futures:
            if future.status != "finished":
                with self._noticing():
                    future.result()

    def _all(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of all actors gives."""
        told: dict[int, Any] = {}
        with self._noticing():
            calls = [getattr(one, method)(*arguments) for one in self._actors]
            # One that waits for another, which raises, must not be waited for alone.
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
