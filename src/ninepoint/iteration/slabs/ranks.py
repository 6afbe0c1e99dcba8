"""The parts of a state in the processes of MPI: each one has its own, and drives itself.

Of a communicator no more is asked than mpi4py's `Get_rank`, `Get_size`, `allgather`, `Isend` and
`Irecv`, so that nothing has to be imported here.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ...arrays.accepted import write
from ...arrays.layout import Array
from ...arrays.numpy import broadcast_shape
from ...backends.threads import VARIABLE, thread_count
from ...base.tracebacks import door
from ...program.program import reaching, targets
from ..iterate import Iteration, iterate
from ..motion import Motion
from .slab import Parts, Slab, refusal, with_length

T = TypeVar("T")

# What an exchange costs, with the waiting for others that are late [s].  (Two processes on one
# machine: 10 to 30 us for rows of 16 kB.)
EXCHANGE = 100e-6

# Marks our messages among others of the communicator.
_TAG = 9


def on_ranks(motion: Motion, fields: Sequence[Any], plan: Iteration) -> list[Array]:
    """The state after the steps, of which each process has a part: its own part.

    Raises
    ------
    ValueError
        If the parts do not go together, in every process.
    """
    axis = -motion.ndim
    links = _Messages(plan.comm)
    arrays = [
        np.asarray(field, dtype)
        for field, dtype in zip(reaching(motion.graph, fields), motion.types, strict=True)
    ]
    facts = _facts(motion, plan, arrays, axis)
    told = links.together(facts)
    for rank, other in enumerate(told):
        if "wrong" in other:
            raise ValueError(f"process {rank} of {len(told)}: {other['wrong']}")
    shape = broadcast_shape([array.shape for array in arrays])
    for rank, other in enumerate(told):
        for name, value in facts["alike"].items():
            if other["alike"][name] != value:
                raise ValueError(
                    f"process {rank} has {name} {other['alike'][name]}, and process {links.part} "
                    f"has {value}; all of them must do the same, each on its own part."
                )
    lengths, cut = tuple(other["length"] for other in told), _cut_fields(told, arrays, axis)
    n, shapes = sum(lengths), [array.shape for array in arrays]
    refused = refusal(
        motion,
        [with_length(one, axis, n) if own else one for one, own in zip(shapes, cut, strict=True)],
        axis,
    )
    if refused:
        raise ValueError(f"a state cannot be cut along the axis {axis}: {refused}.")
    target = targets(plan.out, [(shape, one) for one in motion.types[: motion.states]], arrays)
    numbers = tuple(k for k, own in enumerate(cut) if own or k < motion.states)
    parts = Parts(
        motion, with_length(shape, axis, n), axis, lengths, numbers, EXCHANGE, plan.in_a_row
    )
    slab = Slab(parts, links, arrays, _threads(links, plan))
    made: list[Array] = iterate(slab, plan)
    for given, own in zip(target, made, strict=False):
        write(given, own)
    return target or made


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
    """What processes of MPI tell each other; see `slab.Links`."""

    def __init__(self, comm: Any) -> None:
        for name in ("Get_rank", "Get_size", "allgather", "Isend", "Irecv"):
            if not hasattr(comm, name):
                raise TypeError(
                    f"comm={comm!r} must be a communicator of mpi4py, such as MPI.COMM_WORLD."
                )
        self._comm = comm
        self.part: int = comm.Get_rank()

    def exchange(self, give: Mapping[int, list[Array]], into: Mapping[int, list[Array]]) -> None:
        """Give arrays to others, and fill arrays with what they give."""
        coming = []
        for other, arrays in into.items():
            for one in arrays:
                room = np.empty(one.nbytes, np.uint8)
                coming.append((self._comm.Irecv(room, other, _TAG), room, one))
        going = []
        for other, arrays in give.items():
            for one in arrays:
                message = np.ascontiguousarray(one).reshape(-1).view(np.uint8)
                going.append((self._comm.Isend(message, other, _TAG), message))
        for request, room, one in coming:
            request.Wait()
            one[...] = room.view(one.dtype).reshape(one.shape)
        for request, _ in going:
            request.Wait()

    def together(self, value: T) -> list[T]:
        """What all processes have to say."""
        told: list[T] = self._comm.allgather(value)
        return told


def _facts(motion: Motion, plan: Iteration, arrays: Sequence[Array], axis: int) -> dict[str, Any]:
    """What others must know of a process, or what is wrong there."""
    try:
        motion.check()
        shape = broadcast_shape([array.shape for array in arrays])
        if len(shape) < -axis:
            raise ValueError(f"the state has {len(shape)} axes, and the stencil {-axis}.")
    except ValueError as error:
        return {"wrong": str(error)}
    rest = list(shape)
    del rest[axis]
    alike = {
        "the stencil and numbers": motion.call.token,
        "steps=": plan.steps,
        "every=": plan.every,
        "until=": plan.until,
        "the types": [dtype.str for dtype in motion.types],
        "axes that are not cut of the lengths": rest,
    }
    lengths = [array.shape[axis] if array.ndim >= -axis else 1 for array in arrays]
    return {"alike": alike, "length": shape[axis], "lengths": lengths}


def _cut_fields(told: Sequence[Any], arrays: Sequence[Array], axis: int) -> list[bool]:
    """Whether each field is cut as the state is; else it is the same all along the axis."""
    found = []
    for k in range(len(arrays)):
        found.append(all(facts["lengths"][k] == facts["length"] for facts in told))
        if not found[-1] and any(facts["lengths"][k] != 1 for facts in told):
            raise ValueError(
                f"field {k} is cut along the axis {axis} otherwise than the state is; "
                "give each process the same points of both."
            )
    return found


def _threads(links: _Messages, plan: Iteration) -> Iteration:
    """The plan, with the threads of a process: those that use the same cores share them."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    place = socket.gethostname(), tuple(cores)
    beside = links.together(place).count(place)
    if plan.threads is not None or os.environ.get(VARIABLE, "").strip():
        return plan
    return replace(plan, threads=max(1, thread_count() // beside))
