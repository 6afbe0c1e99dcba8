"""A state in parts, each of which goes several steps on, then is given what lies beside it.

    owned     |-- 0 --|-- 1 --|-- 2 --|
    frame of part 1 |=============|   its points, and room on both sides for others'
    exchange  the others' points come into the room; of fields that are no states once
    steps     the part's own points go into a second frame, which then is the first

Along a ring positions count on beyond the ends.  The border's rules hold where the whole array
ends, and nowhere else.

Parts are linked by actors of a Dask cluster (`Keeper`), or by messages of MPI, where each process
has its own part and drives itself.  Of a communicator no more is asked than mpi4py's `Get_rank`,
`Get_size`, `allgather`, `isend` and `recv`, so that nothing has to be imported here.
"""

from __future__ import annotations

import copy
import math
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ...arrays.accepted import Arrays, broadcast_shape, checked_out, write
from ...arrays.blocks import pieces_of
from ...arrays.launching import cut
from ...arrays.layout import Array, Region, Shape, Span, hull
from ...arrays.regions import Block, Domain, Looking, rings, spans_of
from ...backends.memory import empty
from ...backends.threads import VARIABLE, thread_count
from ...base.remembered import cached_property
from ...base.tracebacks import door
from ...language.signature import Lines, counted
from ..iterate import Iteration, Scalars, advance, iterate

# What each step is (`iteration.motion.Motion`, which knows nothing of slabs): a `call` on fields
# of some `types`, the first `states` of which are the state, with `scalars` of their own.  Its
# `nodes` look along each axis as far as `looking` says, and work along the last `ndim`; `program`
# makes one of some steps with their numbers, `repeated` of given scalars.  `between` says how many
# steps to do between two exchanges, and `together` how many are one pass over memory.
Motion: TypeAlias = Any

# Marks our messages among others of the communicator.
_TAG = 9


def refusal(motion: Motion, shapes: Sequence[Shape], axis: int) -> str:
    """Why states of these shapes cannot be cut along an axis; empty where they can be."""
    nodes = motion.nodes
    whole = broadcast_shape(shapes)
    found = motion.graph.shapes(shapes)
    for node in nodes:
        if node.resizes:
            return f"'{node.label}' gives fewer points than it is given"
        if broadcast_shape([found[value] for value in node.fields]) != whole:
            return f"'{node.label}' is given fields that are smaller than the state"
    if len(rings(nodes, axis)) > 1:
        return 'some calls take the axis as a ring, by boundary="wrap", and others do not'
    return ""


def with_length(shape: Shape, axis: int, n: int) -> Shape:
    """A shape with another length along an axis."""
    lengths = list(shape)
    lengths[axis] = n
    return tuple(lengths)


@dataclass(frozen=True)
class Parts:
    """A state of this shape, cut along an axis, counted from the end, in parts of these lengths.

    The fields of some numbers are `cut`, the states among them; others are the same all along the
    axis.  So many steps in a `row` are to be done.
    """

    motion: Motion
    shape: Shape
    axis: int
    lengths: tuple[int, ...]
    cut: tuple[int, ...]
    row: int

    @cached_property
    def longest(self) -> int:
        """How many steps are done between two exchanges, at the most."""
        part = with_length(self.shape, self.axis, max(self.lengths))[self.axis :]
        return int(self.motion.between([max(1, n) for n in part], [self.axis], self.row))

    @property
    def owned(self) -> list[Span]:
        """What each part has."""
        return spans_of(self.lengths)

    def held(self, copies: bool) -> list[int]:
        """The bytes of each part: its fields, two states, and maybe as many copies of these."""
        each = sum(dtype.itemsize for dtype in self.motion.types)
        size = each + (4 if copies and len(self.lengths) > 1 else 2) * self.motion.state_bytes
        return [math.prod(self.shape_of(length)) * size for length in self.lengths]

    def told(self, who: str, steps: int, copies: bool) -> Lines:
        """What so many steps take of each of those who have the parts."""
        most, exchanges = max(self.held(copies)), -(-steps // self.longest)
        points = sum(b - a for part, owner, (a, b), _ in self.moves if part != owner)
        moved = points * math.prod(self.shape_of(1)) * self.motion.state_bytes
        page = Lines([f"Give each {who} {counted(most, 'B')} for its part of the state."])
        page.add("steps", f"{exchanges} exchanges, of up to {self.longest} steps each")
        page.add("exchange", f"{counted(moved, 'B')} in all, between {len(self.lengths)} parts")
        return page

    def shape_of(self, length: int) -> Shape:
        """The shape of a part of the state."""
        return with_length(self.shape, self.axis, length)

    @cached_property
    def frames(self) -> list[Span]:
        """What each part has room for: what any number of steps up to the longest needs."""
        motion, n, axis = self.motion, self.shape[self.axis], self.axis
        program = motion.repeated([motion.call.scalars] * self.longest)
        one = Looking(program.nodes, program.wanted, program.graph.given, axis)
        found = []
        for a, b in self.owned:
            frame = one.needs((a, b), n)
            if one.ring and a < b:
                # Fewer steps need less than a ring that all of them need as a whole, or more.
                frame = hull([frame, (a + one.low, b + one.high)])
            found.append(frame)
        return found

    @cached_property
    def moves(self) -> list[tuple[int, int, Span, Span]]:
        """What parts take: a part, whose points those are, and where they are here and there."""
        found = []
        for part, frame in enumerate(self.frames):
            found += [(part, *piece) for piece in pieces_of(self.lengths, frame)]
        return found


class Slab:
    """A part of a state, which goes on with others'; see `iteration.Advance`.

    `fields` are its own points of them.  By `links` the parts tell each other what they have, by
    their numbers: all do the same in order.
    """

    def __init__(
        self, parts: Parts, links: Keeper | _Messages, fields: Sequence[Array], plan: Iteration
    ) -> None:
        self.longest, self.unit = parts.longest, min(parts.longest, parts.motion.together)
        self._parts, self._links, self._plan = parts, links, plan
        self._count, self.ended = parts.motion.states, False
        # Whether some steps are left over before a look, or at the end.
        stretches = plan.steps, plan.every or 0
        self._odd = plan.until is not None or any(n % self.unit for n in stretches)
        self._own, frame = parts.owned[links.part], parts.frames[links.part]
        self._has = Region((0, n) for n in parts.shape).along(parts.axis, *frame)
        self._fields = [
            self._framed(k, field) if k in parts.cut else np.asarray(field, parts.motion.types[k])
            for k, field in enumerate(fields)
        ]
        # Frames into which the next state goes.
        self._spare = [empty(one.shape, one.dtype) for one in self._fields[: self._count]]
        # What others have to give before the next steps: of fields that are no states once.
        self._due = [self._fields[k] for k in parts.cut]

    def forward(self, first: int, length: int) -> int:
        """Do so many steps from `first` on."""
        self._exchange(self._due)
        if self._own[0] == self._own[1]:
            return length
        parts, own, shape = self._parts, self._own, self._parts.shape
        views = [self._view(one, own) for one in self._spare]
        domain = Domain(shape, self._has, self._has.along(parts.axis, *own))
        block = Block(tuple(self._fields), domain)
        # The kernel of single steps is compiled before the first of many are done, and nobody
        # waits for it at the end.
        for count in (1, length) if self._odd and length > 1 else (length,):
            program, given = parts.motion.program(first, count)
            outs = dict(zip(program.wanted, views, strict=True))
            made = program.run(block, outs, self._plan.threads, given)
        self._odd = False
        for target, result in zip(views, made, strict=True):
            if not np.may_share_memory(target, result):
                target[...] = result
        self._fields[: self._count], self._spare = self._spare, self._fields[: self._count]
        self._due = self._fields[: self._count]
        return length

    def ends(self, step: int) -> bool:
        """Show the state, and say whether it is the last for any of the parts."""
        states, plan = self.own(), self._plan
        looked = step == plan.steps or not step % (plan.every or plan.steps)
        if not looked or (plan.until is None and plan.callback is None):
            return False
        before = [self._view(one, self._own) for one in self._spare]
        close, ended = plan.is_close(states, before), False
        if plan.callback is not None:
            # It may keep what it is shown, or write to it.
            shown = [one.copy() for one in states]
            ended = bool(plan.callback(step, *shown))
            for one, other in zip(states, shown, strict=True):
                one[...] = other
        told = self._links.together((ended, close))
        self.ended = any(one for one, _ in told) or all(one for _, one in told)
        return self.ended

    def final(self) -> list[Array]:
        """Give the part's own points of the state."""
        return [one.copy() for one in self.own()]

    def told(self) -> list[str]:
        """What the steps take of each process."""
        return self._parts.told("process", self._plan.steps, copies=False)

    def own(self) -> list[Array]:
        """The part's own points of the state, where they are."""
        return [self._view(one, self._own) for one in self._fields[: self._count]]

    def _view(self, array: Array, span: Span) -> Array:
        """The part of a frame that stands so along the axis."""
        return cut(array, self._has, self._has.along(self._parts.axis, *span))

    def _framed(self, number: int, field: Array) -> Array:
        """A frame with the part's own points of a field; a state has all axes of the shape."""
        shape = self._parts.shape if number < self._count else field.shape
        shape = with_length(shape, self._parts.axis, self._has.shape[self._parts.axis])
        made = empty(shape, self._parts.motion.types[number])
        self._view(made, self._own)[...] = field
        return made

    def _exchange(self, arrays: Sequence[Array]) -> None:
        """Fill the frames of all parts, of arrays of which each has its own points."""
        me = self._links.part
        give: dict[int, list[Array]] = defaultdict(list)
        into: dict[int, list[Array]] = defaultdict(list)
        for part, owner, here, there in self._parts.moves:
            for one in arrays:
                if part == owner == me:
                    # Along a ring a part may have the same points twice.
                    if here != there:
                        self._view(one, there)[...] = self._view(one, here)
                elif owner == me:
                    give[part].append(self._view(one, here))
                elif part == me:
                    into[owner].append(self._view(one, there))
        come = self._links.exchange(give, into)
        for owner, views in into.items():
            for view, points in zip(views, come[owner], strict=True):
                view[...] = points


class Lost(OSError):
    """A part that others wait for is gone."""


class Keeper:
    """The actor that has a part of a state; to that it is its links to the other actors.

    `plan` has the threads of its kernels.  Of each field it is given the part's own points, in
    lists of lists of pieces, as `numpy.block` takes them.
    """

    def __init__(self, parts: Parts, part: int, plan: Iteration, *fields: Any) -> None:
        self.part, self._plan = part, plan
        # Its own scalars, which others of this process do not change.
        self._scalars = Scalars(parts.motion.call.scalars)
        own = replace(parts, motion=replace(parts.motion, scalars=self._scalars))
        self._others: Sequence[Any] = ()
        # What others said, by the turn, of which all have as many, and the number of the part.
        self._turn = 0
        self._heard: dict[tuple[int, int], Any] = {}
        self._news = threading.Condition()
        self._stopped = False
        self._going: list[Any] = []
        self.slab = Slab(own, self, [np.block(pieces) for pieces in fields], plan)

    def go(
        self, actors: Arrays, first: int, last: int, numbers: Sequence[Mapping[str, Any]]
    ) -> tuple[int, bool]:
        """Do the steps from the one to before the other; `numbers` are the scalars of each.

        The `actors` have the parts.  Gives how many steps are done then, and whether the last of
        them changed so little that the iteration ends.
        """
        self._others = list(map(_proxy, actors))
        self._scalars.know(first, numbers)
        *_, step = first, *advance(self.slab, replace(self._plan, steps=last), first)
        return step, self.slab.ended

    async def push(self, turn: int, sender: int, message: Any) -> None:
        """Hear what another part says."""
        with self._news:
            self._heard[turn, sender] = message
            self._news.notify_all()

    async def stop(self) -> None:
        """Wait for nobody any more."""
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def exchange(self, give: Mapping[int, Arrays], others: Iterable[int]) -> dict[int, Arrays]:
        """Give arrays to some others; what some give."""
        self._turn += 1
        for other, arrays in give.items():
            # Copies: the points may be others before they have left.
            self._say(other, [one.copy() for one in arrays])
        return {other: self._wait(other) for other in others}

    def together(self, value: Any) -> list[Any]:
        """What all parts have to say."""
        self._turn += 1
        parts = range(len(self._others))
        for other in parts:
            if other != self.part:
                self._say(other, value)
        return [value if part == self.part else self._wait(part) for part in parts]

    def _say(self, other: int, message: Any) -> None:
        # Raises where what was said before has not come in.
        going = [one for one in self._going if not (one.done() and one.result() is None)]
        going.append(self._others[other].push(self._turn, self.part, message))
        self._going = going

    def _wait(self, other: int) -> Any:
        key = self._turn, other
        with self._news:
            while key not in self._heard:
                if self._stopped:
                    raise Lost("another part of the state is gone.")
                self._news.wait(1.0)
            return self._heard.pop(key)


def _proxy(other: Any) -> Any:
    """Give a proxy of an actor that is this worker's own.

    Workers of one process are given the same proxies.  One belongs to one worker, and keeps what
    it stands for, by a future of the client: actors would keep each other for ever.
    """
    own: Any = copy.copy(other)
    own._future = None
    return own


def take(key: str) -> list[Array]:
    """Give the states of the part that an actor of this worker has; a task that runs where it is.

    Raises
    ------
    OSError
        If it is not here: Dask makes a result anew, or has moved the task.
    """
    # Imported here: MPI needs no Dask.
    import distributed

    get_worker: Any = distributed.get_worker
    found: Keeper | None = get_worker().state.actors.get(key)
    if found is None:
        raise OSError(
            "the state that an iteration has left lay on a worker that is gone, with the steps "
            "that led there; iterate again, and have a callback save what must outlive a worker."
        )
    return found.slab.final()


# Processes of MPI.


def on_ranks(motion: Motion, fields: Sequence[Any], plan: Iteration) -> list[Any]:
    """The state after the steps, of which each process has a part: its own part.

    Raises
    ------
    ValueError
        If the parts do not go together, in every process.
    """
    axis, links = -motion.ndim, _Messages(plan.comm)
    arrays = [np.asarray(field, dtype) for field, dtype in zip(fields, motion.types, strict=True)]
    alike = {
        "the stencil and numbers": motion.call.token,
        "steps=": plan.steps,
        "every=": plan.every,
        "until=": plan.until,
        "the types": [dtype.str for dtype in motion.types],
    }
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    place = socket.gethostname(), cores
    told = links.together((alike, [array.shape for array in arrays], place))
    wholes = _alike(told, axis, links.part)
    motion.check()
    lengths, along_it = tuple(whole[axis] for whole in wholes), list[bool]()
    for k in range(len(arrays)):
        own = tuple(shapes[k][axis] if len(shapes[k]) >= -axis else 1 for _, shapes, _ in told)
        # Else it is the same all along the axis.
        along_it.append(own == lengths)
        if own != lengths and set(own) != {1}:
            raise ValueError(
                f"field {k} is cut along the axis {axis} otherwise than the state is; "
                "give each process the same points of both."
            )
    whole, n, count = wholes[links.part], sum(lengths), motion.states
    shapes = [
        with_length(array.shape, axis, n) if own else array.shape
        for array, own in zip(arrays, along_it, strict=True)
    ]
    if refused := refusal(motion, shapes, axis):
        raise ValueError(f"a state cannot be cut along the axis {axis}: {refused}.")
    target = list[Array]()
    if plan.out is not None:
        target = checked_out(plan.out, [whole] * count, motion.types[:count])
    numbers = tuple(k for k, own in enumerate(along_it) if own or k < count)
    parts = Parts(motion, with_length(whole, axis, n), axis, lengths, numbers, plan.in_a_row)
    if plan.threads is None and not os.environ.get(VARIABLE, "").strip():
        # Those that use the same cores share them.
        beside = [place for *_, place in told].count(place)
        plan = replace(plan, threads=max(1, thread_count() // beside))
    made = iterate(Slab(parts, links, arrays, plan), plan)
    for given, own in zip(target, made, strict=False):
        write(given, own)
    return target or made


def _alike(told: Sequence[Any], axis: int, part: int) -> list[Shape]:
    """The shapes of the parts of all processes, which are alike but along the axis."""
    wholes = []
    for rank, (facts, shapes, _) in enumerate(told):
        try:
            whole = broadcast_shape(shapes)
            if len(whole) < -axis:
                raise ValueError(f"the state has {len(whole)} axes, and the stencil {-axis}.")
        except ValueError as error:
            raise ValueError(f"process {rank} of {len(told)}: {error}") from None
        wholes.append(whole)
        rest = list(whole)
        del rest[axis]
        facts["axes that are not cut of the lengths"] = rest
    for rank, (facts, *_) in enumerate(told):
        for name, value in told[part][0].items():
            if facts[name] != value:
                raise ValueError(
                    f"process {rank} has {name} {facts[name]}, and process {part} has {value}; "
                    "all of them must do the same, each on its own part."
                )
    return wholes


@door
def distribute(array: Any, comm: Any, *, axis: int = 0) -> Array:
    """Take this process's part of an array, for `Stencil.iterate` with `comm=`.

    Parameters
    ----------
    array : array
        The whole array, the same in each process: of NumPy, a memory map, or what is sliced as
        one is, such as a dataset of Zarr or HDF5, of which no more than the part is read.
    comm : mpi4py.MPI.Comm
        The processes, each of which gets a part, in their order and of nearly one size.
    axis : int, optional
        The axis that is cut: the first of those that the stencil works along.

    Returns
    -------
    array
        The part, of NumPy.

    Raises
    ------
    ValueError
        If the array has no such axis.

    Notes
    -----
    A program that is run by ``mpiexec -n 4 python heat.py``::

        local = npt.distribute(np.load("plate.npy", mmap_mode="r"), MPI.COMM_WORLD)
        local = heat.iterate(local, steps=1000, comm=MPI.COMM_WORLD)

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> class Second:  # what MPI.COMM_WORLD says in the second of two processes
    ...     def Get_rank(self):
    ...         return 1
    ...     def Get_size(self):
    ...         return 2
    >>> npt.distribute(np.arange(5), Second())
    array([2, 3, 4])
    """
    shape = np.shape(array)
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis={axis} does not exist: the array has {len(shape)} axes.")
    axis %= len(shape)
    n, rank, size = shape[axis], comm.Get_rank(), comm.Get_size()
    part = slice(n * rank // size, n * (rank + 1) // size)
    index: tuple[Any, ...] = (*(slice(None),) * axis, part)
    return np.array(array[index])


class _Messages:
    """What processes of MPI tell each other; see `Slab`."""

    def __init__(self, comm: Any) -> None:
        for name in ("Get_rank", "Get_size", "allgather", "isend", "recv"):
            if not hasattr(comm, name):
                raise TypeError(
                    f"comm={comm!r} must be a communicator of mpi4py, such as MPI.COMM_WORLD."
                )
        self._comm = comm
        self.part: int = comm.Get_rank()

    def exchange(self, give: Mapping[int, Arrays], others: Iterable[int]) -> dict[int, Arrays]:
        """Give arrays to some others; what some give."""
        going = [self._comm.isend(arrays, other, _TAG) for other, arrays in give.items()]
        come = {other: self._comm.recv(None, other, _TAG) for other in others}
        for one in going:
            one.wait()
        return come

    def together(self, value: Any) -> list[Any]:
        """What all processes have to say."""
        told: list[Any] = self._comm.allgather(value)
        return told
