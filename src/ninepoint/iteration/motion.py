"""Motion: what each step of an iteration is, and how many are done at once.

How many steps to do between two exchanges with what lies beside a part:

    cost of a step     points of the part, and those that it does beside it     grows with T
                       an exchange, once for T steps                            falls with T

A part that is to go T steps on by itself needs T times what one step looks at, and does the steps
on ever less of that: on average half of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import numpy as on_numpy
from ..arrays.chains import SINGLE, usual_length
from ..arrays.launching import NOTHING, Given
from ..arrays.layout import Shape
from ..arrays.regions import Looking
from ..base.remembered import Remembered
from ..language.box import Box
from ..lowering.schedule import Schedule
from ..program.calls import Call, leaves_of, numbers_key, options_stay
from ..program.graph import Graph, Node
from ..program.planning import common_margin, unfit
from ..program.program import Program, numbers_in, program_of, reaching, recalled
from .iterate import Scalars

# How long a core takes for a point of a call [s], where several steps are done in one pass.  (Heat
# equation, float32, blocks of 1000x1000 to 4000x4000: 0.2 to 0.4 ns, Zen 4.)
POINT = 0.4e-9

# More steps than this are never done between two exchanges: what is recorded of them grows.
MOST = 64

# Bytes of all states that are made, below which no chain is compiled: that takes one to four
# seconds, once on each machine, and as many bytes less than a tenth of a second (Zen 4).
WORTH_CHAINS = 1 << 28

# Of so many kinds of numbers it is remembered what the calls of steps are.
MANY = 16

# What may be lost by steps that are left to be done one by one, before the length is another.
WORTH = 1.1


@dataclass(frozen=True)
class Motion:
    """What each step is: a call on fields of these types, and how steps are planned.

    The first fields are the state.
    """

    call: Call
    types: tuple[np.dtype, ...]
    schedule: Schedule
    scalars: Scalars
    # The programs of some steps, and how their numbers are told, by what they depend on.
    _programs: Remembered[Any, tuple[Program, Callable[..., Given]]] = field(
        default_factory=lambda: Remembered(MANY), init=False, repr=False, compare=False
    )

    @cached_property
    def step(self) -> Program:
        """The first step; after the fields of the call there may be positions."""
        return self._step(self.call.scalars)

    @property
    def graph(self) -> Graph:
        """The calls of the first step."""
        return self.step.graph

    @property
    def nodes(self) -> list[Node]:
        """Those of them that the next state needs."""
        return self.step.nodes

    def _step(self, scalars: Mapping[str, Any]) -> Program:
        return program_of(replace(self.call, scalars=scalars), self.types)

    def program(self, first: int, count: int) -> tuple[Program, Given]:
        """So many steps from the first on, and their numbers.

        They are recorded anew only where the scalars ask for it.
        """
        each = [self.scalars.at(step) for step in range(first, first + count)]
        vary, definition = self.scalars.vary, self.call.definition
        leaves = [leaf for one in each if vary for leaf in leaves_of(definition, one)]
        numbers = numbers_key(leaves)
        key = (
            (count, numbers)
            if not vary or (options_stay(definition) and numbers is not None)
            else None
        )
        found = self._programs.get(key)
        if found is None:

            def record() -> Program:
                return self.repeated(each) if count > 1 else self._step(each[0])

            known = *self.types, self.call.key, count
            once = count > 1 and not vary
            made = recalled(self.call, known, record) if once else record()
            found = replace(made, schedule=self.schedule), numbers_in(made.graph)
            if key is not None:
                self._programs[key] = found
        program, numbered = found
        given = numbered(leaves) if leaves and key else NOTHING
        return program, Given(given.numbers, first)

    def repeated(self, each: Sequence[Mapping[str, Any]]) -> Program:
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
    def ndim(self) -> int:
        """How many core axes the state has."""
        return self.step.last.ndim

    def check_lengths(self) -> None:
        """Raise where a call makes fewer or more points than it is given."""
        for node in self.graph.nodes:
            if node.thins:
                raise ValueError(
                    f"every={node.call.every} of '{node.call.definition.name}' makes the state "
                    "smaller at each step; iterate without it."
                )
            if node.factors:
                raise ValueError(
                    f"'{node.call.definition.name}' makes more points "
                    f"(upsample={node.factors}), and iterate takes steps that leave all arrays as "
                    "large as they are; call it before or after."
                )

    def sized(self, size: int, steps: int) -> Motion:
        """The same for states of `size` bytes, whose steps are planned one by one if they are few.

        Those that take longer than to compile a chain are not.
        """
        if self.schedule.steps or size * steps >= WORTH_CHAINS:
            return self
        return replace(self, schedule=replace(self.schedule, steps=1))

    def check(self) -> None:
        """Raise where the results cannot be the next state."""
        if self.call.boundary.on(self.ndim).uses("valid"):
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

    def state_shape(self, arrays: Sequence[Any]) -> Shape:
        """The shape of the state after a step, which must be that of all steps."""
        shape = on_numpy.broadcast_shape([array.shape for array in arrays])
        if len(shape) < self.ndim:
            raise on_numpy.too_few_axes(self.ndim, shape)
        if len(self.nodes) > 1:
            reached = reaching(self.graph, arrays)
            made = self.graph.shapes([array.shape for array in reached])[self.step.wanted[0]]
            if made != shape:
                raise ValueError(
                    f"the state would have shape {made} after a step, and {shape} before; give "
                    'all states one shape, and use no boundary="valid" and no every=.'
                )
        return shape

    def looks(self, axis: int) -> tuple[int, int]:
        """How far a step looks along an axis, counted from the end."""
        one = Looking.of(self.nodes, self.step.wanted, self.graph.given, axis)
        return one.low, one.high

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

    def unit(self, longest: int) -> int:
        """The steps of blocks shorter than the longest that need no kernel besides its own."""
        return min(longest, self.together)

    def between(self, part: Sequence[int], cut: Sequence[int], exchange: float, row: int) -> int:
        """How many to do between two exchanges of parts of a shape, cut along some axes.

        An exchange takes so long for each part [s].  So many steps in a `row` are to be done: few
        of them are left to be done one by one.
        """
        looks = [(*self.looks(axis), part[axis]) for axis in cut]
        # Further away than the next part there is nothing to gain.
        far = [n // max(-low, high) for low, high, n in looks if low < high]
        most = min([max(1, min(MOST, row)), *far])
        points = len(self.nodes) * POINT * math.prod(part)
        single = points * (SINGLE if self.together > 1 else 1) + exchange

        def cost(steps: int) -> float:
            grown = (1 + (high - low) * (steps - 1) / (2 * max(1, n)) for low, high, n in looks)
            return points * math.prod(grown) + exchange / steps

        def whole(steps: int) -> float:
            alone = row % self.unit(steps)
            return cost(steps) * (row - alone) + single * alone

        lengths = [k for k in range(1, most + 1) if k <= self.together or k % self.together == 0]
        usual, fewest = min(lengths, key=cost, default=1), min(lengths, key=whole, default=1)
        # Other lengths are other kernels: they have to be worth it.
        return usual if whole(usual) <= WORTH * whole(fewest) else fewest
