"""Steps of an iteration, and the states that they are done on: in memory, on a GPU, in chunks.

A part that is to go T steps on by itself needs T times what one step looks at, and does the steps
on ever less of that.  So many steps as are done in one pass over memory are done between two
exchanges with what lies beside it.

in memory   several steps are done in one pass over memory where that is worth it; steps that are
            alike are repeated by their calls
on a GPU    step by step: arrays of a GPU stay there, those of the CPU are taken there and back
            once, and nothing waits for it save where somebody looks at the state
in chunks   T steps are one task a chunk, which takes its neighbours' points once for all of them;
            a look computes the state where it is, and the next steps go on from there
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ..arrays import cuda
from ..arrays.accepted import (
    Arrays,
    as_field,
    is_cupy,
    is_dask,
    listed,
    native,
    too_few_axes,
    whole_shape,
    write,
)
from ..arrays.arranging import plain
from ..arrays.blocks import grid_of
from ..arrays.chains import STEPS, is_worth, spans, usual_length
from ..arrays.chunked import check
from ..arrays.executable import Given
from ..arrays.launching import cut
from ..arrays.layout import PlainArrays, Region, Shape
from ..arrays.regions import Block, Domain, Looking
from ..backends.cuda import driver
from ..backends.memory import copied, empty
from ..base import limits
from ..base.remembered import Remembered, cached_property
from ..io.progress import wait_for, workers_of
from ..language.ir import Box
from ..language.signature import Lines, counted
from ..lowering.schedule import Schedule
from ..program.definition import Call, leaves_of, numbers_key, options_stay
from ..program.graph import Graph, Node
from ..program.options import ByName, Place
from ..program.program import (
    Bound,
    Program,
    bound,
    common_margin,
    program_of,
    recalled,
    targets,
    unfit,
)
from .iterate import NOBODY, UNMADE, Iteration, Scalars, change, furthest

# Bytes of all states that are made, below which no chain is compiled: that takes one to four
# seconds, once on each machine, and as many bytes less than a tenth of a second (Zen 4).
WORTH_CHAINS = 1 << 28

# Of so many kinds of numbers it is remembered what the calls of steps are.
MANY = 16

# How long steps are done before one wonders how far they are [s].
SLICE = 0.02


# How many points beside the element are looked at as well, on each side.
AROUND = 8


@dataclass(frozen=True)
class Motion:
    """What each step is: a call on fields of these types, and how steps are planned.

    The first fields are the state.
    """

    call: Call
    types: tuple[np.dtype, ...]
    schedule: Schedule
    scalars: Scalars

    @cached_property
    def _programs(self) -> Remembered[Program]:
        """The programs of some steps, by what they depend on."""
        return Remembered(MANY)

    @cached_property
    def step(self) -> Program:
        """The first step."""
        return self._step(self.call.scalars)

    @property
    def graph(self) -> Graph:
        """The calls of the first step."""
        return self.step.graph

    @property
    def nodes(self) -> list[Node]:
        """Those of them that the next state needs."""
        return self.step.nodes

    def _step(self, scalars: ByName) -> Program:
        return program_of(replace(self.call, scalars=scalars), self.types)

    def program(self, first: int, count: int) -> tuple[Program, Given]:
        """So many steps from the first on, and their numbers.

        They are recorded anew only where the scalars ask for it.
        """
        each = [self.scalars.at(step) for step in range(first, first + count)]
        vary, definition = self.scalars.vary, self.call.definition
        leaves = [leaf for one in each if vary for leaf in leaves_of(definition, one)]
        # Some programs are others for other numbers: they have no key.
        numbers = numbers_key(leaves) if options_stay(definition) or not vary else None
        key = None if numbers is None else (count, *numbers)
        found = self._programs.get(key)
        if found is None:
            known = *self.types, self.call.key, self.schedule, count
            record = partial(self.repeated, each)
            found = record() if vary else recalled(self.call, known, record)
            if key is not None:
                self._programs[key] = found
        return found, Given(leaves if leaves and key else None, first)

    def repeated(self, each: Sequence[ByName]) -> Program:
        """Several steps, for the scalars of each: the results of one are fields of the next.

        They take the place of the first fields.  What a step gives is stored whole.
        """
        first, count = self.graph, self.states
        graph = Graph(first.names[: first.given], first.dtypes[: first.given])
        fields = list(range(first.given))
        step, before = self.step, self.call.scalars
        for scalars in each:
            if scalars is not before:
                step, before = self._step(scalars), scalars
            numbers = graph.append(step.graph, dict(enumerate(fields)))
            fields[:count] = [numbers[value] for value in step.wanted]
            graph.stored.update(fields[:count])
        return Program(graph, tuple(fields[:count]), self.schedule)

    @property
    def states(self) -> int:
        """How many of the fields are the state."""
        return len(self.step.wanted)

    @property
    def state_bytes(self) -> int:
        """The bytes of a point of the state."""
        return sum(dtype.itemsize for dtype in self.types[: self.states])

    @property
    def ndim(self) -> int:
        """How many core axes the state has."""
        return self.step.last.ndim

    def sized(self, size: int, steps: int) -> Motion:
        """The same for states of `size` bytes, whose steps are planned one by one if they are few.

        Those that take longer than to compile a chain are not.
        """
        if self.schedule.steps or size * steps >= WORTH_CHAINS:
            return self
        return replace(self, schedule=replace(self.schedule, steps=1))

    def check(self) -> None:
        """Raise where the results cannot be the next state."""
        for node in self.graph.nodes:
            if node.thins:
                raise ValueError(
                    f"every={node.call.options.every} of '{node.call.definition.name}' makes the "
                    "state smaller at each step; iterate without it."
                )
            if node.factors:
                raise ValueError(
                    f"'{node.call.definition.name}' makes more points "
                    f"(upsample={node.factors}), and iterate takes steps that leave all arrays as "
                    "large as they are; call it before or after."
                )
        if self.call.options.boundary.on(self.ndim).uses("valid"):
            raise ValueError('boundary="valid" makes the state smaller at each step; use another.')
        compiled, dtypes, count = self.graph.nodes[-1].compiled, self.types, self.states
        if count > len(dtypes):
            raise ValueError(
                f"'{compiled.name}' has {count} outputs and {len(dtypes)} fields; each output "
                "must take the place of a field."
            )
        for result, state in zip(compiled.out_dtypes, dtypes, strict=False):
            if result != state:
                raise ValueError(
                    f"'{compiled.name}' gives {result} for a state of {state}; convert the state "
                    f'first, with .astype("{result}"), or say dtype= in the decorator.'
                )

    def state_shape(self, arrays: Arrays) -> Shape:
        """The shape of the state after a step, which must be that of all steps."""
        shape = whole_shape(arrays)
        if len(shape) < self.ndim:
            raise too_few_axes(self.ndim, shape)
        if len(self.nodes) > 1:
            made = self.graph.shapes([array.shape for array in arrays])[self.step.wanted[0]]
            if made != shape:
                raise ValueError(
                    f"the state would have shape {made} after a step, and {shape} before; give "
                    'all states one shape, and use no boundary="valid" and no every=.'
                )
        return shape

    def looking(self, axis: int) -> Looking:
        """How far a step looks along an axis, counted from the end."""
        return Looking(self.nodes, self.step.wanted, self.graph.given, axis)

    @cached_property
    def together(self) -> int:
        """How many steps are done in one pass over memory."""
        if self.schedule.steps == 1 or unfit(self.nodes, self.step.wanted, self.schedule):
            return 1
        return self.schedule.steps or usual_length(self.margin)

    @property
    def margin(self) -> Box:
        """Where one step looks, and the point itself; the calls must be fit for several."""
        return common_margin(self.nodes, self.step.wanted)

    def between(self, part: Sequence[int], cut: Sequence[int], row: int) -> int:
        """How many to do between two exchanges of parts of a shape, cut along some axes.

        As many as in one pass over memory, also where they are done one by one, but no more than
        there are in a `row`.
        """
        asked = self.schedule.steps
        # Further away than the next part there is nothing to gain.
        looks = [(part[axis], self.looking(axis)) for axis in cut]
        far = [n // max(-one.low, one.high) for n, one in looks if one.low < one.high]
        return max(1, min([asked if asked > 1 else STEPS, row, *far]))


class Ahead:
    """Steps that are known not to be the last, which `until` would have looked at.

    To see that a step is not the last it is enough to find one element that it changes by more.
    So steps are done ahead, on a small part of the state around an element that has just changed
    much.  While it goes on to do so, the whole state is taken as many steps on in one pass.
    """

    def __init__(self, motion: Motion, plan: Iteration, shape: Shape) -> None:
        self._motion, self._plan, self._shape = motion, plan, shape
        assert plan.until is not None
        self._until = plan.until
        self._place: Sequence[Any] | None = None
        self._axes = [motion.looking(axis) for axis in range(-len(shape), 0)]

    @staticmethod
    def helps(motion: Motion, plan: Iteration) -> bool:
        """Whether only the size of changes is asked for, and steps on a part are as on the whole.

        Functions are asked for scalars once for each step, in their order.
        """
        asks = plan.until is not None and plan.callback is None
        return asks and not motion.scalars.vary and not motion.graph.has_conditions

    def notice(self, states: PlainArrays, before: PlainArrays) -> None:
        """Note where the last step, which was not the last of all, changed much."""
        for pair in zip(states, before, strict=True):
            greatest, place = furthest(*pair, self._until)
            if not greatest <= self._until:
                self._place = np.unravel_index(place, self._shape)
                return
        self._place = None

    def sure(self, first: int, arrays: PlainArrays, steps: int) -> bool:
        """Whether none of so many steps is the last; the first of the arrays are the state."""
        if self._place is None or first + steps > self._plan.steps:
            return False
        points = zip(self._place, self._shape, strict=True)
        # The points around the place after the steps, and those that they depend on.
        regions = [Region((max(0, k - AROUND), min(n, k + AROUND + 1)) for k, n in points)]
        for _ in range(steps):
            axes = zip(self._axes, regions[-1], self._shape, strict=True)
            regions.append(Region(one.needs(span, n) for one, span, n in axes))
        has = Region((0, n) for n in self._shape)
        if not regions[-1].inside(has):
            # Some are beyond the ends of a ring.
            return False
        for k, region in enumerate(reversed(regions)):
            old = [cut(one, has, region) for one in arrays]
            if k:
                program, given = self._motion.program(first + k - 1, 1)
                block = Block(tuple(arrays), Domain(self._shape, has, region))
                made = program.run(block, threads=1, given=given)
                pairs = zip(made, old, strict=False)
                if all(change(a, b) <= self._until for a, b in pairs):
                    self._place = None
                    return False
                old[: len(made)] = made
            arrays, has = old, region
        return True


class InMemory:
    """The state of an iteration as NumPy arrays: the first of the fields, in the shape of all."""

    unit = 1
    # Whether they lie on a GPU, and what makes others there.
    there = False
    _empty: Callable[..., Any] = staticmethod(empty)

    def __init__(self, motion: Motion, fields: Arrays, plan: Iteration) -> None:
        self._motion, self._plan = motion, plan
        arrays = self._taken(fields)
        self._shape = motion.state_shape(arrays)
        count = motion.states
        self._dtypes = [native(array.dtype) for array in arrays[:count]]
        self._target = targets(plan.out, [(self._shape, one) for one in self._dtypes], fields)
        fields = arrays
        if len(motion.nodes) == 1 and not self.there:
            # The calls of a graph are given the fields as they are.
            fields = [np.broadcast_to(array, self._shape) for array in arrays]
        # How many steps are done in one pass over memory: a GPU would save little.
        self._together = 1
        if not self.there and all(field.shape == self._shape for field in fields):
            self._together = self._in_one_pass()
        # Where each step is done by itself, as many follow each other as nobody looks between.
        self.longest = max(1, plan.steps)
        self._ahead: Ahead | None = None
        if self._together > 1:
            self.longest = self._together
            # Axes in another order, gaps, other bytes: one copy costs less than single steps.
            dtypes = [native(field.dtype) for field in fields]
            fields = [
                field if plain(field, dtype, motion.ndim) else copied(field, dtype)
                for field, dtype in zip(fields, dtypes, strict=True)
            ]
            schedule = replace(motion.schedule, steps=self.longest)
            self._motion = replace(motion, schedule=schedule)
            if Ahead.helps(motion, plan):
                self._ahead = Ahead(motion, plan, self._shape)
        self._given = self._states = self._before = list(fields[:count])
        self._others = list(fields[count:])
        # Whether nobody else has the states, and arrays that may be written to.
        self._owned = False
        self._spare: list[Any] | None = None
        # What does steps, by their program, and whether from the arrays that were given.
        self._known: Remembered[Bound] = Remembered(4)

    # What is done with arrays of one kind or another.

    def _taken(self, fields: Arrays) -> list[Any]:
        """The fields as arrays of this kind."""
        return [as_field(field) for field in fields]

    def _in_one_pass(self) -> int:
        """How many steps to do in one pass over memory."""
        plan, size = self._plan, self._motion.state_bytes
        motion = self._motion.sized(math.prod(self._shape) * size, plan.steps)
        length = motion.together
        if length == 1:
            return 1
        core = self._shape[len(self._shape) - motion.ndim :]
        if motion.schedule.steps:
            # A number is taken as far as the array has both ends and a point between them.
            far = zip(core, spans(motion.margin), strict=True)
            return max(1, min([length, *((n - 1) // span for n, span in far if span)]))
        if not is_worth(motion.margin, length, core, size):
            return 1
        # Where only the size of changes is asked for, some steps are known not to be the last.
        row = plan.steps if Ahead.helps(motion, plan) else plan.in_a_row
        return max(1, min(length, row))

    # Steps.

    def forward(self, first: int, length: int) -> int:
        """Do the steps in one pass over memory, or as many of them as end soon, one by one."""
        arrays = [*self._states, *self._others]
        if self._ahead and self._ahead.sure(first, arrays, self.longest):
            length = self.longest
        count = length if length == self._together else 1
        program, given = self._motion.program(first, count)
        # The arrays that were given may lie in another way than those that are made here.
        key = program, self._states is self._given
        self._spare = results = self._results()
        run = self._known.made(key, lambda: self._bound(program, arrays, results))
        # From arrays of its own to others and back: what does one step does the next ones.
        alike = self._owned and self._together == 1 and not self._motion.scalars.vary
        done, end = 0, perf_counter() + SLICE
        while not done or (alike and done < length and perf_counter() < end):
            results = self._results()
            run([*self._states, *self._others], Given(given.leaves, first + done), results)
            # What the caller gave, or has kept from a callback, is never written to.
            self._spare = self._states if self._owned else None
            self._before, self._states, self._owned = self._states, results, True
            done += count
        return done

    def _bound(self, program: Program, arrays: Arrays, results: Arrays) -> Bound:
        """What does steps from arrays like some to others."""
        return bound(program, arrays, results, self._plan.threads)

    def _results(self) -> list[Any]:
        """Arrays for the next state."""
        return self._spare or [self._empty(self._shape, dtype) for dtype in self._dtypes]

    # Looks.

    def told(self) -> list[str]:
        """What the steps take: two states, and passes over memory."""
        plan, motion = self._plan, self._motion
        size = 2 * math.prod(self._shape) * motion.state_bytes
        how = f"up to {self.longest} in a pass over memory"
        if self._together == 1:
            reason = unfit(motion.nodes, motion.step.wanted, motion.schedule)
            how = f"one after the other: {reason or 'to do several at once would save nothing'}"
        return [
            f"Give {counted(size, 'B')} beside the fields for two states: "
            f"{plan.steps} steps, {how}."
        ]

    def ends(self, step: int) -> bool:
        """Show the state, which is somebody else's from then on if it is kept."""
        counts = [sys.getrefcount(state) for state in self._states]
        ended = self._plan.ends(step, self._states, self._before)
        # A view of an array refers to it as well.
        self._owned = counts == [sys.getrefcount(state) for state in self._states]
        if self._ahead is not None and not ended:
            self._ahead.notice(self._states, self._before)
        return ended

    def final(self) -> list[Any]:
        """Give the state: none of the arrays that were given, save for `out`."""
        states = self._apart()
        for target, state in zip(self._target, states, strict=False):
            if target is not state:
                write(target, state)
        return listed(self._plan.out) or states

    def _apart(self) -> list[Any]:
        """The state as the caller's arrays, none of which was given."""
        if self._states is not self._given:
            return self._states
        return [np.array(state, native(state.dtype)) for state in self._states]


class OnDevice(InMemory):
    """The state of an iteration as arrays of one GPU.

    Arrays of NumPy are on the current GPU in between.  What is shown is a copy of them then; what
    is written there goes to the GPU before the next step.
    """

    there = True
    _empty = staticmethod(driver.empty)

    def __init__(self, motion: Motion, fields: Arrays, plan: Iteration) -> None:
        self._sent = not any(map(is_cupy, fields))
        self._shown = list[Any]()
        if self._sent and plan.callback is not None:
            plan = replace(plan, callback=partial(self._show, plan.callback))
        super().__init__(motion, fields, plan)
        # What the caller gave is never written to, nor what a callback may have kept.
        self._owned = self._sent and all(one.shape == self._shape for one in self._states)

    def _taken(self, fields: Arrays) -> list[Any]:
        if self._sent:
            return [driver.uploaded(as_field(field)) for field in fields]
        return list(fields)

    def _bound(self, program: Program, arrays: Arrays, results: Arrays) -> Bound:
        # Nobody has to look for memory that arrays made here share.
        outs = dict(zip(program.wanted, results, strict=True))
        launches = program.bound(Block(tuple(arrays)), outs)

        def run(fields: Arrays, given: Given, results: Arrays) -> Arrays:
            return launches(fields, given, dict(zip(program.wanted, results, strict=True)))

        return run

    def forward(self, first: int, length: int) -> int:
        """Do some steps; they go on from what was shown of a state that was sent."""
        with cuda.beside(self._states):
            for state, shown in zip(self._states, self._shown, strict=False):
                driver.refill(state, shown)
            self._shown = []
            return super().forward(first, length)

    def _show(self, callback: Callable[..., Any], step: int, *states: Any) -> Any:
        self._shown = [driver.downloaded(state) for state in states]
        return callback(step, *self._shown)

    def _apart(self) -> list[Any]:
        if self._sent:
            return self._shown or [driver.downloaded(state) for state in self._states]
        if self._states is not self._given:
            return self._states
        return [state.copy() for state in self._states]


class InChunks:
    """The state of an iteration as lazy arrays; `evaluate` does a program on them."""

    def __init__(
        self, motion: Motion, fields: Arrays, plan: Iteration, evaluate: Callable[..., list[Any]]
    ) -> None:
        self._motion, self._plan, self._evaluate = motion, plan, evaluate
        check(fields)
        self._states = self._before = list(fields)
        motion.state_shape(fields)
        self.chunks = chunks = grid_of(fields)[1]
        self._tasks = 2 * motion.states * math.prod(map(len, chunks))
        self._later = 0
        part = [max(sizes) for sizes in chunks]
        cut = [axis for axis in range(-motion.ndim, 0) if len(chunks[axis]) > 1]
        self.longest = motion.between(part, cut, plan.in_a_row)
        # Shorter blocks of whole passes need no kernel besides its own.
        self.unit = min(self.longest, motion.together)

    def forward(self, first: int, length: int) -> int:
        """Do the steps in as few tasks as can be."""
        if self._later >= max(
            limits.current.later_tasks, limits.current.later_steps * self._tasks
        ):
            self._states = _held(self._states)
            self._later = 0
        motion = self._motion
        each = [motion.scalars.at(step) for step in range(first, first + length)]
        program = motion.repeated(each)
        if length == 1:
            # Steps that are left over would need kernels of their own if they were joined.
            program = replace(program, schedule=replace(motion.schedule, steps=1))
        # Whether these are colour images was asked before: the axes are the last ones.
        place = Place(tuple(range(-motion.ndim, 0)), device=self._plan.device)
        made = self._evaluate(program, self._states, place)
        self._before, self._states = self._states, [*made, *self._states[len(made) :]]
        self._later += self._tasks
        return length

    def ends(self, step: int) -> bool:
        """Show the state, which is computed for it; the next steps go on from there."""
        if self._plan.until is None and self._plan.callback is None:
            return False
        count = self._motion.states
        before = self._before[:count] if self._plan.until is not None else []
        held = _held([*self._states[:count], *before])
        self._states[:count] = held[:count]
        self._before = held[count:] or self._states
        self._later = 0
        return self._plan.ends(step, self.final(), self._before[:count])

    def told(self) -> list[str]:
        """What the steps take: exchanges, and the tasks up to the first one."""
        steps, later = self._plan.steps, limits.current.later_tasks // self._tasks
        if steps:
            self.forward(0, min(steps, self.longest))
        page = Lines([f"Give each thread room for some chunks: {steps} steps are a graph."])
        arrays = list(filter(is_dask, self.final()))
        if arrays:
            # Imported here: it is optional, and the caller has it.
            from ..arrays.chunked.computation import told

            page = told(arrays) or page
        exchanges = -(-steps // self.longest)
        page.add("steps", f"{exchanges} exchanges like that, of up to {self.longest} each")
        if later < exchanges:
            page.add("state", f"computed, and held, after {max(1, later)} exchanges at the latest")
        page.add("lost worker", "what it had is computed again, from what was held last")
        return page

    def final(self) -> list[Any]:
        """Give the state without the fields beside it."""
        # Where no step was done these are the arrays that were given.
        return [
            one if one.dtype.isnative else one.astype(native(one.dtype))
            for one in self._states[: self._motion.states]
        ]


def _held(arrays: Arrays) -> list[Any]:
    """The arrays, computed where their chunks are, once that is done."""
    # Imported here: it is optional, and the caller has it.
    import dask.base

    base: Any = dask.base
    held = list(base.persist(*arrays))
    distributed: Any = sys.modules.get("distributed")
    futures = [] if distributed is None else distributed.futures_of(held)
    if futures:
        # Raises what a task has raised, and where nobody is left who could do one.
        try:
            wait_for(futures, partial(workers_of, futures[0].client, NOBODY))
        except CancelledError as error:
            raise ConnectionError(f"{UNMADE}.") from error
    return held
