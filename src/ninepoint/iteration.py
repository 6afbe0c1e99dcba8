"""`Stencil.iterate`: a state, taken step by step through a stencil."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from .arrays import accepted
from .arrays import numpy as on_numpy
from .arrays.accepted import is_cupy
from .arrays.borders import Border, Boundary
from .arrays.chains import Numbers, Pass, block_length, even_length, plain, stacked
from .arrays.gathering import copied
from .arrays.layout import layout
from .arrays.parts import write
from .arrays.repeating import Repeats
from .backends.compiled import Compiled
from .backends.memory import empty
from .backends.threads import thread_count
from .chaining import chained, step_reach, unfit
from .graph import Graph
from .io.progress import Progress, shown
from .lowering.schedule import Schedule
from .program import positions as positions_beside
from .program import reaching
from .stepping import Record, Recorded, Scalars, Steps

# Bytes of all states that are made, below which no chain is compiled: that takes one to four
# seconds, once on each machine, and as many bytes less than a tenth of a second (Zen 4).
WORTH = 1 << 28

# Elements that are compared at once to see how far a step went.
COMPARED = 1 << 16

# Steps for which it is not worth finding out how machine code could repeat them.
FEW = 8

# Steps that take no longer [s] are done before one wonders how far they are.
_SOON = 1.0


def blocks(
    steps: int,
    every: int | None,
    longest: int,
    apart: bool,
    unit: int,
    done: int = 0,
) -> Iterator[tuple[int, int, bool]]:
    """The first step and the length of each block, and whether one looks at the state then.

    With `apart` the step before a look is done by itself, so that what it changed is known.
    Blocks are as long as they may be; what is left are some units, then single steps.  So many
    steps are `done` before.
    """
    while done < steps:
        stop = steps if every is None else min(steps, (done // every + 1) * every)
        left = stop - done - apart
        length = longest if left >= longest else max(1, left // unit * unit)
        done += length
        yield done - length, length, done == stop


@dataclass(frozen=True, slots=True)
class Iteration:
    """How often, with which border, who looks at the state in between, and where its parts are."""

    boundary: Boundary
    cval: Any
    steps: int
    every: int | None
    until: float | None
    callback: Callable[..., Any] | None
    threads: int | None
    progress: Progress = None
    comm: Any = None
    snapshots: int | None = None

    def __post_init__(self) -> None:
        """Raise for what nobody can do."""
        for name, least, more in (
            ("steps", 0, ""), ("every", 1, ""), ("snapshots", 0, ": steps between two")
        ):  # fmt: skip
            value = getattr(self, name)
            if value is None and name != "steps":
                continue
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < least:
                raise ValueError(
                    f"{name}={value!r} must be a whole number, {least} or more{more}."
                )
            object.__setattr__(self, name, int(value))
        _check_watching(self.callback, self.until, self.progress)
        if self.every is None and self.until is not None:
            object.__setattr__(self, "every", 1)

    def ends(
        self,
        step: int,
        state: Sequence[Any],
        before: Sequence[Any],
        shown: Sequence[Any] | None = None,
        far: Callable[[Any, Any], float] | None = None,
    ) -> bool:
        """Show the state after so many steps, and say whether it is the last.

        What is `shown` is the state as a caller has it, where that is another one.  `far` tells
        how much an array has changed, where that is not for `change` to tell.
        """
        close = self.is_close(state, before, far)
        given = state if shown is None else shown
        return bool(self.callback is not None and self.callback(step, *given)) or close

    def is_close(
        self,
        state: Sequence[Any],
        before: Sequence[Any],
        far: Callable[[Any, Any], float] | None = None,
    ) -> bool:
        """Whether the last step has changed so little that it is the last of all."""
        if self.until is None:
            return False
        far = far or partial(change, enough=self.until)
        return all(far(a, b) <= self.until for a, b in zip(state, before, strict=True))

    @property
    def in_a_row(self) -> int:
        """How many steps are done between two looks, without the one before a look."""
        return min(self.every or self.steps, self.steps) - (self.until is not None)

    def border(self, ndim: int) -> Border:
        """The border rule, which must leave the state as large as it is."""
        border = self.boundary.outline(ndim)
        if border.uses("valid"):
            raise ValueError('boundary="valid" makes the state smaller at each step; use another.')
        return border


def _check_watching(callback: Any, until: Any, progress: Any) -> None:
    """Raise where nobody could look at the state so."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} must be a function of a step and a state.")
    if until is not None:
        if isinstance(until, bool | np.bool_) or not isinstance(
            until, int | float | np.integer | np.floating
        ):
            raise TypeError(f"until={until!r} must be a number: how much an element may change.")
        if not until >= 0:
            raise ValueError(f"until={until!r} must be 0 or more: no change is less than that.")
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress={progress!r} must be True, False or a function of two numbers.")


def change(after: Any, before: Any, enough: float = math.inf) -> float:
    """The greatest change of an element; NaN where one is no number.

    A change of more than `enough` may be the greatest of some elements only: the rest is not
    looked at then, which leaves a step far from its end as fast as one that nobody watches.
    """
    if is_cupy(after):
        return _far(after, before) if after.size else 0.0
    greatest = 0.0
    a, b = after.reshape(-1), before.reshape(-1)
    # In parts: an iteration promises to hold two states and no more.
    for first in range(0, a.size, COMPARED):
        part = _far(a[first : first + COMPARED], b[first : first + COMPARED])
        if not part <= greatest:
            greatest = part
        if not greatest <= enough:
            break
    return greatest


def _far(a: Any, b: Any) -> float:
    kind = a.dtype.kind
    if kind == "b":
        return float(np.any(a != b))
    with np.errstate(all="ignore"):
        if kind not in "iu":
            steps = np.abs(a - b)
            greatest = float(np.max(steps))
            # Equal infinities have not changed.
            return greatest if greatest < math.inf else float(np.max(np.where(a == b, 0, steps)))
        # The difference of two integers may need a bit more than they have: it wraps, and is
        # right as an unsigned number.
        wide = np.maximum(a, b) - np.minimum(a, b)
        return float(np.max(wide.view(wide.dtype.str.replace("i", "u"))))


class Advance(Protocol):
    """A state of one kind of arrays: done in blocks of `longest` steps, of some units, or of one.

    For blocks of another length something would have to be compiled.
    """

    longest: int
    unit: int

    def forward(self, first: int, length: int) -> int:
        """Do so many steps from `first` on, or some of them; how many were done.

        None are where it has ended by itself.
        """

    def ends(self, step: int) -> bool:
        """Show the state after so many steps, and say whether it is the last."""

    def final(self) -> list[Any]:
        """Give the state as the caller gets it."""


def iterate(state: Advance, scalars: Scalars | None, plan: Iteration) -> list[Any]:
    """Do the steps block by block; gives the state after the last.

    What scalars are at steps that are done is forgotten.
    """
    with shown(plan.progress, plan.steps, "steps", _SOON) as advanced:
        before = 0
        for done in advance(state, plan):
            advanced(done - before)
            before = done
            if scalars is not None:
                scalars.forget(done)
    return state.final()


def advance(state: Advance, plan: Iteration, first: int = 0) -> Iterator[int]:
    """Do the steps from the first on, until the state ends; gives how many are done in all."""
    apart = plan.until is not None
    for start, length, looked in blocks(
        plan.steps, plan.every, state.longest, apart, state.unit, first
    ):
        done = 0
        while done < length:
            some = state.forward(start + done, length - done)
            if not some:
                break
            done += some
            yield start + done
        if (looked or done < length) and state.ends(start + done):
            return


def in_memory(
    record: Record,
    schedule: Schedule,
    fields: Sequence[Any],
    scalars: Scalars,
    plan: Iteration,
    out: Any,
) -> InMemory:
    """The state of an iteration as NumPy arrays; in `out` at the end, if it is given."""
    arrays = [accepted.as_field(field) for field in fields]
    recorded, shape = begun(record, arrays, scalars, plan)
    state = InMemory(recorded, shape, schedule, arrays, plan)
    if out is not None:
        state.aim(out, arrays)
    return state


class InMemory:
    """The state of an iteration as NumPy arrays; it has the `shape`, and is the first of these."""

    def __init__(
        self,
        recorded: Recorded,
        shape: tuple[int, ...],
        schedule: Schedule,
        arrays: Sequence[np.ndarray],
        plan: Iteration,
    ) -> None:
        self._recorded, self._shape = recorded, shape
        self._schedule, self._plan = schedule, plan
        count = len(recorded.wanted)
        self._dtypes = [accepted.native(array.dtype) for array in arrays[:count]]
        whole = list(arrays)
        if len(recorded.nodes) == 1:
            # The calls of a graph are given the fields as they are.
            whole = [np.broadcast_to(array, shape) for array in arrays]
        self.longest = 1
        if all(array.shape == shape for array in whole):
            size = math.prod(shape) * sum(dtype.itemsize for dtype in self._dtypes)
            self.longest = _longest(recorded, schedule, size, plan)
        self._chained, self.unit = self.longest > 1, self.longest
        if self._chained:
            whole = self._laid_for_passes(whole)
        else:
            # As many as somebody lets pass by: those that end soon are done in one go.
            self.longest, self.unit = max(1, plan.steps), 1
        given, self._others = whole[:count], whole[count:]
        self._single = Steps(recorded, schedule, plan.threads)
        # What does so many steps in one pass.
        self._passes: dict[int, Pass] = {}
        # What repeats steps, and from which arrays to which; nothing before it was asked for, or
        # where it cannot be.
        self._repeats: Repeats | None = None
        self._turns: list[int] = []
        self._repeatable = True
        self._given = self._states = self._before = given
        # Whether nobody else has the states, and arrays that may be written to.
        self._owned = False
        self._spare: list[np.ndarray] | None = None
        self._target: list[np.ndarray] = []

    def _laid_for_passes(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays as several steps in one pass take them; raises where values do not fit.

        Axes in another order, gaps, other bytes: one copy costs less than single steps.
        """
        recorded = self._recorded
        for node in recorded.nodes:
            one = node.compiled
            geometry = layout(recorded.core, one.reaches, node.border)
            on_numpy.check_values(
                geometry, node.call.cval, one.field_dtypes, one.out_dtypes, len(one.positions)
            )
        placed = len(arrays) - len(recorded.graph.places)
        return [
            array
            if k >= placed or plain(array, accepted.native(array.dtype), len(recorded.core))
            else copied(array, accepted.native(array.dtype))
            for k, array in enumerate(arrays)
        ]

    def aim(self, out: Any, arrays: Sequence[np.ndarray]) -> None:
        """Write the state to `out` at the end, or do the steps there, where nobody sees that."""
        count = len(self._dtypes)
        target = on_numpy.checked_out(out, [self._shape] * count, self._dtypes, None)
        self._target = target
        whole = all(
            plain(array, dtype, len(self._recorded.core))
            for array, dtype in zip(target, self._dtypes, strict=True)
        )
        # What a callback gets is its own, and what steps read must stay.
        if self._plan.callback is None and whole and not _shared(target, arrays[count:]):
            if all(one is other for one, other in zip(target, arrays, strict=False)):
                self._states, self._owned = target, True
            elif not _shared(target, arrays[:count]):
                self._spare = target

    def forward(self, first: int, length: int) -> int:
        """Do steps in one pass over memory, or one by one where they cannot be a chain."""
        if not self._chained:
            done = self._repeat(first, length) if self._owned and length > 1 else 0
            if done:
                return done
            length = 1
        numbers = self._recorded.over(first, length) if length > 1 else None
        if numbers is not None:
            self._pass(length, numbers)
            return length
        for step in range(first, first + length):
            results = self._results()
            self._single(step, [*self._states, *self._others], results)
            self._follow(results)
        return length

    def _repeat(self, first: int, most: int) -> int:
        """Do some steps, `most` at the most, without coming back for each; how many they were."""
        if not self._repeatable or (self._repeats is None and most < FEW):
            return 0
        spare = self._results()
        turns = [self._states, spare], [spare, self._states]
        if self._repeats is not None and self._turns in map(_places, turns):
            self._repeats.turn = int(self._turns == _places(turns[1]))
        else:
            self._repeats = self._single.repeats(first, self._states, spare, self._others)
            self._turns, self._repeatable = _places(turns[0]), self._repeats is not None
        self._spare = spare
        if self._repeats is None:
            return 0
        done = self._repeats(most)
        self._states, self._spare = turns[done % 2]
        self._before = self._spare
        return done

    def _pass(self, length: int, numbers: Numbers) -> None:
        graph, wanted = self._recorded.graph, self._recorded.wanted
        if length not in self._passes:
            chain = chained(graph, wanted, length, self._schedule)
            threads = thread_count(self._plan.threads)
            self._passes[length] = Pass(chain, self._recorded.core, threads)
        run = self._passes[length]
        over = self._owned and run.takes_place
        results = self._states if over else self._results()
        one, two, three = (
            [stacked(array, len(self._recorded.core)) for array in part]
            for part in (self._states, self._others, results)
        )
        run(numbers, [*one, *two], one if over else three)
        if not over:
            self._follow(results)

    def _results(self) -> list[np.ndarray]:
        """Arrays for the next state."""
        return self._spare or [empty(self._shape, dtype) for dtype in self._dtypes]

    def _follow(self, results: list[np.ndarray]) -> None:
        """Go on with the next state."""
        # What the caller gave, or has kept from a callback, is never written to.
        self._spare = self._states if self._owned else None
        self._before, self._states, self._owned = self._states, results, True

    def ends(self, step: int) -> bool:
        """Show the state, which is somebody else's from then on if it is kept."""
        # The first may be of another shape, if calls are given the fields as they are.
        before = [np.broadcast_to(state, self._shape) for state in self._before]
        counts = [sys.getrefcount(state) for state in self._states]
        ended = self._plan.ends(step, self._states, before)
        # A view of an array refers to it as well.
        self._owned = counts == [sys.getrefcount(state) for state in self._states]
        return ended

    def final(self) -> list[np.ndarray]:
        """Give the state: none of the arrays that were given, save for `out`."""
        for array, state in zip(self._target, self._states, strict=False):
            if array is not state:
                write(array, state)
        if self._target or self._states is not self._given:
            return self._target or self._states
        return [np.array(state, accepted.native(state.dtype)) for state in self._states]


def _places(states: Sequence[Sequence[np.ndarray]]) -> list[int]:
    """Which arrays these are; those that repeated steps know are kept by them."""
    return [id(array) for some in states for array in some]


def begun(
    record: Record, arrays: Sequence[Any], scalars: Scalars, plan: Iteration
) -> tuple[Recorded, tuple[int, ...]]:
    """What the steps are on arrays in memory, of the CPU or a GPU, and the shape of the state."""
    recorded = Recorded(record, scalars)
    last = recorded.nodes[-1].compiled
    check(last, record.types, len(last.out_dtypes))
    plan.border(last.ndim)
    shape = state_shape(recorded.graph, recorded.wanted, arrays)
    recorded.on(arrays, shape[len(shape) - last.ndim :])
    return recorded, shape


def check_lengths(graph: Graph) -> None:
    """Raise where a call makes fewer or more points than it is given."""
    for node in graph.nodes:
        if node.thins:
            raise ValueError(
                f"every={node.call.every} of '{node.call.definition.name}' makes the state "
                "smaller at each step; iterate without it."
            )
    for node in graph.nodes:
        if node.factors:
            raise ValueError(
                f"'{node.call.definition.name}' makes more points (upsample={node.factors}), and "
                "iterate takes steps that leave all arrays as large as they are; call it before "
                "or after."
            )


def _shared(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(one, other) for one in some for other in others)


def state_shape(graph: Graph, wanted: Sequence[int], arrays: Sequence[Any]) -> tuple[int, ...]:
    """The shape of the state after a step, which must be that of all steps."""
    shape = on_numpy.broadcast_shape([array.shape for array in arrays])
    ndim = graph.nodes[-1].ndim
    if len(shape) < ndim:
        raise on_numpy.too_few_axes(ndim, shape)
    if len(graph.needed(wanted)) > 1:
        reached = reaching(graph, arrays)
        made = graph.shapes([array.shape for array in reached])[wanted[0]]
        if made != shape:
            raise ValueError(
                f"the state would have shape {made} after a step, and {shape} before; give all "
                'states one shape, and use no boundary="valid" and no every=.'
            )
    return shape


def positions(graph: Graph, wanted: Sequence[int], arrays: Sequence[Any], steps: int) -> list[Any]:
    """The positions that each step asks for, as fields that stay."""
    if not graph.places:
        return []
    graph = graph.along(tuple(range(-graph.nodes[-1].ndim, 0)))
    shape = state_shape(graph, wanted, arrays)
    made = positions_beside(graph, arrays)
    # Several steps in one pass take arrays of one shape.
    whole = is_worth_chains(math.prod(shape) * arrays[0].dtype.itemsize, steps)
    if not whole:
        return made
    read = sum(len(node.compiled.positions) for node in graph.needed(wanted))
    if read < len(made) or any(map(is_cupy, arrays)):
        # A chain takes those that nobody needs for ordinary fields.
        return [np.ascontiguousarray(np.broadcast_to(a, shape)) for a in made]
    return [np.broadcast_to(a, shape) for a in made]


def is_worth_chains(size: int, steps: int) -> bool:
    """Whether so many steps of states of `size` bytes take longer than to compile a chain."""
    return size * steps >= WORTH


def _longest(recorded: Recorded, schedule: Schedule, size: int, plan: Iteration) -> int:
    """How many steps to do in one pass over memory, for states of `size` bytes."""
    worth = schedule.steps or is_worth_chains(size, plan.steps)
    if not worth or unfit(recorded.graph, recorded.wanted, schedule):
        return 1
    reach = step_reach(recorded.graph, recorded.wanted)
    compiled = recorded.nodes[-1].compiled
    itemsize = sum(dtype.itemsize for dtype in compiled.out_dtypes)
    if schedule.steps:
        return block_length(reach, recorded.core, itemsize, schedule.steps)
    return even_length(block_length(reach, recorded.core, itemsize), plan.in_a_row)


def check(compiled: Compiled, dtypes: Sequence[np.dtype], count: int) -> None:
    """Raise where the results cannot be the next state."""
    if count > len(dtypes):
        raise ValueError(
            f"'{compiled.name}' has {count} outputs and {len(dtypes)} fields; each output must "
            "take the place of a field."
        )
    for result, state in zip(compiled.out_dtypes, dtypes, strict=False):
        if result != state:
            raise ValueError(
                f"'{compiled.name}' gives {result} for a state of {state}; convert the state "
                f'first, with .astype("{result}"), or say dtype= in the decorator.'
            )
