"""How many steps of an iteration to do between two exchanges with what lies beside a part.

    cost of a step     points of the part, and those that it does beside it     grows with T
                       an exchange, once for T steps                            falls with T

A part that is to go T steps on by itself needs T times what one step looks at, and does the steps
on ever less of that: on average half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .arrays.chains import SINGLE, usual_length
from .arrays.regions import reach
from .chaining import step_reach, unfit
from .graph import Graph
from .lowering.schedule import Schedule

# How long a core takes for a point of a call [s], where several steps are done in one pass.  (Heat
# equation, float32, blocks of 1000x1000 to 4000x4000: 0.2 to 0.4 ns, Zen 4.)
POINT = 0.4e-9

# More steps than this are never done between two exchanges: what is recorded of them grows.
MOST = 64

# What may be lost by steps that are left to be done one by one, before the length is another.
WORTH = 1.1


@dataclass(frozen=True, slots=True)
class Steps:
    """What one step is, as far as it matters here: calls, and steps in one pass over memory."""

    graph: Graph
    wanted: Sequence[int]
    together: int

    @staticmethod
    def of(graph: Graph, wanted: Sequence[int], schedule: Schedule) -> Steps:
        """Those of a graph that takes one step."""
        if schedule.steps == 1 or unfit(graph, wanted, schedule):
            return Steps(graph, wanted, 1)
        return Steps(graph, wanted, schedule.steps or usual_length(step_reach(graph, wanted)))

    def looks(self, axis: int) -> tuple[int, int]:
        """How far a step looks along an axis, counted from the end."""
        nodes = self.graph.needed(self.wanted)
        return reach(nodes, self.wanted, range(self.graph.given), axis)

    def unit(self, longest: int) -> int:
        """The steps of blocks shorter than the longest that need no kernel besides its own."""
        return min(longest, self.together)

    def between(
        self, part: Sequence[int], cut: Sequence[int], exchange: float, row: int, most: int = MOST
    ) -> int:
        """How many to do between two exchanges of parts of a shape, cut along some axes.

        An exchange takes so long for each part [s].  So many steps in a `row` are to be done: few
        of them are left to be done one by one.
        """
        most = max(1, min(most, row))
        looks = [(self.looks(axis), part[axis]) for axis in cut]
        for (low, high), length in looks:
            # Further away than the next part there is nothing to gain.
            far = max(-low, high)
            most = min(most, length // far if far else most)
        points = len(self.graph.needed(self.wanted)) * POINT
        for length in part:
            points *= length

        single = points * (SINGLE if self.together > 1 else 1) + exchange

        def cost(steps: int) -> float:
            beside = 1.0
            for (low, high), length in looks:
                beside *= 1 + (high - low) * (steps - 1) / (2 * max(1, length))
            return points * beside + exchange / steps

        def whole(steps: int) -> float:
            alone = row % self.unit(steps)
            return cost(steps) * (row - alone) + single * alone

        lengths = [k for k in range(1, most + 1) if k <= self.together or k % self.together == 0]
        usual, fewest = min(lengths, key=cost, default=1), min(lengths, key=whole, default=1)
        # Other lengths are other kernels: they have to be worth it.
        return usual if whole(usual) <= WORTH * whole(fewest) else fewest
