"""Steps that machine code repeats, from the one half of some arrays to the other and back.

    steps 0, 2, ...    the calls from `one` to `other`        steps 1, 3, ...    back

A step of a small array ends within microseconds, and Python would take as long to begin the next.
Machine code hears of no interrupt, so that it does as many steps as end soon, and comes back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

from ninepoint.arrays.arranging import Arrangement
from ninepoint.arrays.borders import Array
from ninepoint.arrays.commands import Part, commands
from ninepoint.arrays.executable import SHARES, Options, machine_of_list
from ninepoint.arrays.layout import layout
from ninepoint.arrays.numpy import check_values
from ninepoint.arrays.parts import (
    SPLIT_POINTS,
    divided,
    has_movable_zones,
    itemsize_of,
)
from ninepoint.backends.backend import Code
from ninepoint.backends.repeated import Held, repeat
from ninepoint.backends.threads import crew_address, thread_count

# How long machine code goes on by itself [s].
SLICE = 0.02

# So many more steps than before are done at once at the most, while their pace is not known well.
GROWTH = 4

# Slices that each way is tried for, and slices after which both are tried again.
TRIALS, AGAIN = 2, 256

# The calls of even steps, and those of odd ones.
Turns: TypeAlias = Sequence[Sequence[Held]]


@dataclass(frozen=True, slots=True)
class Calling:
    """One call on contiguous arrays that are no others' than ours, with its border."""

    program: Code
    fields: Sequence[Array]
    outs: Sequence[Array]
    options: Options


class Repeats:
    """Steps on arrays that stay where they are; the next one is of the turn `turn`."""

    def __init__(self, turns: Sequence[Turns], threads: int) -> None:
        """Take the calls as they are done on this thread, and as several share them, if they can.

        All give the same; what proves to be the fastest is done.
        """
        self.turn = 0
        self._ways, self._threads = turns, threads
        self._paces = [math.inf for _ in turns]
        self._slices, self._count = 0, 1

    @staticmethod
    def of(calls: Sequence[Sequence[Calling]], threads: int | None) -> Repeats | None:
        """The calls of even and odd steps, if machine code can repeat them."""
        alone = _turns(calls, 1)
        if alone is None:
            return None
        points = max(one.outs[0].size for one in calls[0])
        count = thread_count(threads) if points >= SPLIT_POINTS else 1
        shared = _turns(calls, count) if count > 1 and crew_address(count) else None
        return Repeats([alone] if shared is None else [alone, shared], count)

    def __call__(self, most: int) -> int:
        """Do some steps, as many as end soon and `most` at the most; how many they were."""
        way, ways = self._slices // TRIALS, len(self._ways)
        if way >= ways:
            way = min(range(ways), key=self._paces.__getitem__)
        count = min(most, self._count)
        crew = crew_address(self._threads) if way else 0
        began = perf_counter()
        repeat(self._ways[way], self.turn, count, crew, self._threads)
        pace = self._paces[way] = (perf_counter() - began) / count
        self._count = max(1, min(GROWTH * count, int(SLICE / max(pace, 1e-9))))
        self._slices = (self._slices + 1) % AGAIN
        self.turn = (self.turn + count) % 2
        return count


def _turns(calls: Sequence[Sequence[Calling]], threads: int) -> Turns | None:
    """What is kept of all calls; None if one of them cannot be kept."""
    # The same calls on other arrays, which lie alike.
    lists = [_lists(one, threads) for one in calls[0]]
    if not all(lists):
        return None
    turns = [[_held(one, told) for one, told in zip(turn, lists, strict=True)] for turn in calls]
    kept = [[one for one in turn if one is not None] for turn in turns]
    return None if any(len(turn) < len(lists) for turn in kept) else kept


def _lists(one: Calling, threads: int) -> Sequence[Array]:
    """What a call does as lists of commands; none where there is something to do besides."""
    program, fields, outs = one.program, one.fields, one.outs
    shape = fields[0].shape
    if not fields[0].size or not Arrangement(program, fields, None, tuple(outs)).plain:
        return ()
    lead, core = shape[: -program.ndim], shape[-program.ndim :]
    border, cval = one.options.border, one.options.cval
    plan = layout(core, program.reaches, border, itemsize_of(program), every=program.every)
    types = program.field_dtypes, program.out_dtypes
    values = check_values(plan, cval, *types, program.positions)
    machine = machine_of_list(program, plan, values, fields, outs)
    if machine is None or not has_movable_zones(program, plan):
        return ()
    stack = math.prod(lead)
    whole = [Part(0, stack, 0, core[0])]
    parts = divided(plan, stack, threads * SHARES) if threads > 1 else whole
    return [commands(plan, machine, part) for part in parts]


def _held(one: Calling, lists: Sequence[Array]) -> Held | None:
    """A call as machine code keeps it, if it can."""
    fields, outs, ndim = one.fields, one.outs, one.program.ndim
    blocks = [*fields, *outs]
    if fields[0].ndim > ndim + 1:
        # Lists of commands know one axis for the stack.
        blocks = [array.reshape(-1, *array.shape[-ndim:]) for array in blocks]
    return one.program.held(blocks[: len(fields)], blocks[len(fields) :], lists)
