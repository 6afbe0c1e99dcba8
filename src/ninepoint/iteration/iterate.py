"""`Stencil.iterate`: how often, who looks at the state in between, and the loop over the steps.

What has the state does the steps: as arrays in memory (`memory_states`), on a GPU, in chunks, or a
part of it in each process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ..arrays.accepted import Arrays, is_chunked, is_cupy, is_whole, library_of, refuse_foreign
from ..base.frozen import frozen
from ..io.progress import SOON, Progress, shown
from ..program.options import ByName

# Elements that are compared at once to see how far a step went.
COMPARED = 1 << 16

# What to do where a cluster has nobody who could go on.
NOBODY = "start workers, or another client that stays open until the end, and iterate again"

# What to say where workers are lost with the first state.
UNMADE = (
    "workers are gone that had what the iteration began with, and nothing else can make it anew; "
    "give fields that can be made again, such as arrays of NumPy or files"
)


@frozen
class Iteration:
    """How often, who looks at the state in between, and where it is; it may `tell` of that."""

    steps: int
    every: int | None = None
    until: float | None = None
    callback: Callable[..., Any] | None = None
    threads: int | None = None
    progress: Progress = None
    comm: Any = None
    snapshots: int | None = None
    out: Any = None
    device: str | None = None
    tell: bool = False

    def __post_init__(self) -> None:
        """Raise for what nobody can do."""
        for name, least, more in (
            ("steps", 0, ""), ("every", 1, ""), ("snapshots", 0, ": steps between two")
        ):  # fmt: skip
            value = getattr(self, name)
            if value is None and name != "steps":
                continue
            if not is_whole(value) or value < least:
                raise ValueError(
                    f"{name}={value!r} must be a whole number, {least} or more{more}."
                )
            object.__setattr__(self, name, int(value))
        callback, until, progress = self.callback, self.until, self.progress
        if callback is not None and not callable(callback):
            raise TypeError(f"callback={callback!r} must be a function of a step and a state.")
        if until is not None:
            if not is_whole(until) and not isinstance(until, float | np.floating):
                raise TypeError(
                    f"until={until!r} must be a number: how much an element may change."
                )
            if not until >= 0:
                raise ValueError(
                    f"until={until!r} must be 0 or more: no change is less than that."
                )
            object.__setattr__(self, "every", self.every or 1)
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(
                f"progress={progress!r} must be True, False or a function of two numbers."
            )

    def ends(self, step: int, state: Arrays, before: Arrays) -> bool:
        """Show the state after so many steps, and say whether it is the last."""
        close = self.is_close(state, before)
        return bool(self.callback is not None and self.callback(step, *state)) or close

    def is_close(self, state: Arrays, before: Arrays) -> bool:
        """Whether the last step has changed so little that it is the last of all."""
        if self.until is None:
            return False
        pairs = zip(state, before, strict=True)
        return all(change(*pair, self.until) <= self.until for pair in pairs)

    @property
    def in_a_row(self) -> int:
        """How many steps are done between two looks, without the one before a look."""
        return min(self.every or self.steps, self.steps) - (self.until is not None)


class Scalars:
    """The arguments that are no fields: some stay the same, some have a value for each step."""

    def __init__(self, fixed: ByName) -> None:
        self.fixed = dict(fixed)
        # Those that vary, and their values for some steps.
        self._varying: dict[str, Callable[[int], Any]] = {}
        self._known: dict[int, ByName] = {}

    @staticmethod
    def of(values: ByName, arrays: Sequence[str], steps: int) -> Scalars:
        """What was given for so many steps, of which `arrays` are small arrays of a step."""
        found = Scalars({})
        for name, value in values.items():
            refuse_foreign(value, f"'{name}'")
            if callable(value):
                found._varying[name] = value
            elif np.ndim(value) == 1 and name not in arrays:
                if len(value) < steps:
                    raise ValueError(
                        f"'{name}' has {len(value)} values, but there are {steps} steps; give one "
                        "for each, or name it in standard_indexing if it is a small array."
                    )
                # Of no values none is asked for, but a type is looked at.  An empty list has none,
                # and a whole number is what most kernels take.
                each = (
                    np.asarray(value) if len(value) else np.zeros(1, getattr(value, "dtype", int))
                )
                found._varying[name] = each.tolist().__getitem__
            else:
                found.fixed[name] = value
        return found

    @property
    def vary(self) -> bool:
        """Whether steps differ in them."""
        return bool(self._varying or self._known)

    def at(self, step: int) -> ByName:
        """The values at one step; a function is called once for each, in their order."""
        if self._varying and step not in self._known:
            # What they are at steps before is forgotten.
            self._known = {step: {name: value(step) for name, value in self._varying.items()}}
        return {**self.fixed, **self._known[step]} if step in self._known else self.fixed

    def know(self, first: int, each: Sequence[ByName]) -> None:
        """Take these for the steps from the first on, and nothing for others."""
        self._known = dict(enumerate(each, first))


def change(after: Any, before: Any, enough: float = math.inf) -> float:
    """The greatest change of an element; NaN where one is no number.

    A change of more than `enough` may be the greatest of some elements only: the rest is not
    looked at then, which leaves a step far from its end as fast as one that nobody watches.
    """
    if not after.size:
        return 0.0
    if is_chunked(after):
        library = library_of(after)
        # The first state may be of another shape, or cut otherwise.
        before = library.broadcast_to(before, after.shape).rechunk(after.chunks)
        chunks = tuple((1,) * len(sizes) for sizes in after.chunks)
        far = library.map_blocks(_far_of_chunk, after, before, dtype="float64", chunks=chunks)
        return float(library.max(far))
    if is_cupy(after):
        return float(_changes(after, before).max())
    return furthest(after, before, enough)[0]


def furthest(after: np.ndarray, before: np.ndarray, enough: float) -> tuple[float, int]:
    """The greatest of these changes, and of which element it is, in order."""
    greatest, place = 0.0, 0
    # The first state may be of another shape, if calls are given the fields as they are.
    a, b = after.reshape(-1), np.broadcast_to(before, after.shape).reshape(-1)
    # In parts: an iteration promises to hold two states and no more.
    for first in range(0, a.size, COMPARED):
        steps = _changes(a[first : first + COMPARED], b[first : first + COMPARED])
        k = int(np.argmax(steps))
        if not steps[k] <= greatest:
            greatest, place = float(steps[k]), first + k
        if not greatest <= enough:
            break
    return greatest, place


def _far_of_chunk(after: Any, before: Any) -> np.ndarray:
    return np.full((1,) * after.ndim, change(after, before))


def _changes(a: Any, b: Any) -> Any:
    """By how much each element changed."""
    kind = a.dtype.kind
    if kind == "b":
        return a != b
    with np.errstate(all="ignore"):
        if kind not in "iu":
            steps = np.abs(a - b)
            # Equal infinities have not changed.
            return steps if float(np.max(steps)) < math.inf else np.where(a == b, 0, steps)
        # The difference of two integers may need a bit more than they have: it wraps, and is
        # right as an unsigned number.
        wide = np.maximum(a, b) - np.minimum(a, b)
        return wide.view(wide.dtype.str.replace("i", "u"))


class Advance(Protocol):
    """A state of one kind of arrays: done in blocks of `longest` steps, of some units, or of one.

    For blocks of another length something would have to be compiled.
    """

    longest: int
    unit: int

    def forward(self, first: int, length: int) -> int:
        """Do so many steps from `first` on, or the first of them; how many were done.

        None are where it has ended by itself.
        """

    def ends(self, step: int) -> bool:
        """Show the state after so many steps, and say whether it is the last."""

    def final(self) -> list[Any]:
        """Give the state as the caller gets it."""

    def told(self) -> list[str]:
        """What the steps take, in lines, before any of them is done."""


def iterate(state: Advance, plan: Iteration) -> list[Any]:
    """Do the steps block by block; gives the state after the last, or what is told of them."""
    if plan.tell:
        return list(state.told())
    with shown(plan.progress, plan.steps, "steps", SOON) as advanced:
        before = 0
        for done in advance(state, plan):
            advanced(done - before)
            before = done
    return state.final()


def advance(state: Advance, plan: Iteration, done: int = 0) -> Iterator[int]:
    """Do the steps that are not done, until the state ends; gives how many are done in all.

    Blocks are as long as they may be; what is left are some units, then single steps.  The step
    before one asks how much has changed is done by itself.
    """
    while done < plan.steps:
        stop = plan.steps
        if plan.every is not None:
            stop = min(stop, (done // plan.every + 1) * plan.every)
        left = stop - done - (plan.until is not None)
        length = min(left, state.longest)
        if length < state.longest:
            length = max(1, length // state.unit * state.unit)
        some = state.forward(done, length)
        done += some
        if some:
            yield done
        if (done == stop or not some) and state.ends(done):
            return
