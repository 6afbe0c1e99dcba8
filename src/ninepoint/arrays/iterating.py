"""Iterate a stencil on NumPy arrays: two buffers, and several steps in one pass over memory.

    for each block of T steps:
        interior   the chain of T steps, in bands of the first axis and tiles, in any order
        ends       T single steps, on thin copies of the array's ends, with the border's rule

An array beyond the cache is read and written once for T steps instead of T times.  The chain
computes just what the steps do, one after the other, and puts the border's rule at the ends of
rows, and of planes, itself; at the ends of other axes the steps are done one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..backends.compiled import Bound, Compiled
from ..backends.memory import empty
from ..backends.threads import run_parallel
from ..language.box import Box
from ..lowering.chain import Edges
from .arranging import Run
from .borders import Array, Border, Rule, fitting_cval, source_indices
from .numpy import apply
from .prepared import Options, prepare
from .views import at, cut

# Bytes of a state below which it stays in a core's cache from step to step.
CACHED = 1 << 20

# Bytes of the rows that the steps of a chain keep: half of a second-level cache.
KEPT = 1 << 19

# Bytes of the planes that they keep, beyond which planes are cut into tiles of rows: a quarter
# of a third-level cache.  (384 x 384 x 384 float32, 4 steps, one thread and two: whole planes,
# 7 MB in all, 2.1 and 3.7 Gpoint/s; tiles that fit into 1 MB 1.9 and 3.5, Zen 4.)
KEPT_PLANES = 1 << 23

# Bands for each thread: the last to begin then ends not much after the others.
BANDS = 2

# Steps in one pass: an eighth of the traffic, at the price of 16 rows more for each band.
# (4096 x 4096 float32, neighbours at distance 1, two threads: 4 steps 6.6, 8 steps 8.9, 16
# steps 8.7 Gpoint/s, Zen 4.)
STEPS = 8

# The same for planes, of which three are kept for each step where a row would be.  (384 x 384 x
# 384 float32, neighbours at distance 1, two threads: single steps 2.7, 2 steps 3.1, 3 steps 3.3,
# 4 steps 3.7 Gpoint/s; 8 steps, whose planes fit into no cache, are slower than 4, Zen 4.)
STEPS_OF_PLANES = 4

# What a pass costs besides its steps, and what a single step costs, in steps of a pass.  (4096 x
# 4096 float32, 16 steps: passes of 4, 8 and 16 steps 86, 72 and 68 ms, single steps 158 ms.)
PASS = 2.0
SINGLE = 2.7

ALL = slice(None)

# Coefficients and scalars.
Numbers: TypeAlias = tuple[tuple[Array, ...], tuple[Any, ...]]

# Does one step, from fields to arrays of their shape.
Single = Callable[[int, Sequence[Array], Sequence[Array]], None]


def block_length(reach: Box, core: tuple[int, ...], itemsize: int, asked: int = 0) -> int:
    """How many steps to do in one pass; 1 where that would not pay, or cannot be done.

    `asked` is `Schedule.steps`: a number is taken as far as the array is long enough for it.
    """
    spans = [max(-lo, 0) + max(hi, 0) for lo, hi in zip(reach.lo, reach.hi, strict=True)]
    if asked:
        # Both ends and a point between them.
        return max(1, min([asked, *((n - 1) // s for n, s in zip(core, spans, strict=True) if s)]))
    if itemsize * int(np.prod(core)) <= CACHED:
        return 1
    far = max(max(-lo, hi) for lo, hi in zip(reach.lo, reach.hi, strict=True))
    length = max(2, (STEPS if len(core) < 3 else STEPS_OF_PLANES) // max(1, far))
    fits = all(n >= 4 * length * (s + 1) for n, s in zip(core, spans, strict=True))
    return length if fits else 1


def even_length(length: int, steps: int) -> int:
    """A length near `length`, so that few of so many steps are left to be done one by one."""
    if length == 1:
        return 1
    near = range(max(2, length // 2), min(length * 5 // 4, steps) + 1)
    return min(near, key=lambda one: (_cost(one, steps), abs(one - length)), default=1)


def _cost(length: int, steps: int) -> float:
    return steps // length * (length + PASS) + steps % length * SINGLE


class Calls:
    """One call after the other on arrays of one shape: after the first, what can is prepared."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._known: dict[int, Run] = {}

    def __call__(self, program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one call, from and to contiguous arrays that are no others' than ours."""
        known = self._known.get(id(program.compiled))
        out = tuple(outs) if len(outs) > 1 else outs[0]
        numbers = (*program.coefficients, *program.scalars)
        if known is not None and known(fields, numbers, out) is not None:
            return
        self.general(program, fields, outs)
        if known is None:
            self._known[id(program.compiled)] = prepare(
                program, program.compiled.entry, fields, self._options, out
            )

    def general(self, program: Bound, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one call, from arrays of any kind."""
        one = self._options
        out = tuple(outs) if len(outs) > 1 else outs[0]
        apply(program, fields, border=one.border, cval=one.cval, out=out, threads=one.threads)


@dataclass(frozen=True, slots=True)
class Chain:
    """What some steps at once are compiled to, and the borders and constants of their calls."""

    compiled: Compiled
    edges: Edges
    borders: Sequence[tuple[Border, Any]]

    def wraps(self, axis: int) -> bool:
        """Whether some call reads at the other end of an axis."""
        return any(border.rules[axis][0] == "wrap" for border, _ in self.borders)


class Passes:
    """Several steps in one pass over arrays, whose shape is the same for all passes."""

    def __init__(self, single: Callable[[], Single], reach: Box, threads: int) -> None:
        """Take what makes single steps on one thread, and where one step looks."""
        self._reach = reach
        self._threads = threads
        self._ends = [_Ends(single(), axis) for axis in range(reach.ndim)]

    def over(self, steps: int, core: tuple[int, ...], itemsize: int) -> bool:
        """Whether results may take the place of the states that they are made from.

        A row of the result is written long after the last row that it was made from was read,
        if no tile beside it needs that row as well.  `itemsize` is that of all states.
        """
        if len(core) < 2:
            return False
        far = self._far(steps)
        each = itemsize * 3 * steps
        return all(n == 1 for n in _counts(core, [a + b for a, b in far], each, 1)[1:])

    def _far(self, steps: int) -> list[tuple[int, int]]:
        """How far so many steps look before and after a point."""
        reach = zip(self._reach.lo, self._reach.hi, strict=True)
        return [(steps * max(-lo, 0), steps * max(hi, 0)) for lo, hi in reach]

    def __call__(
        self,
        chain: Chain,
        numbers: Numbers,
        first: int,
        steps: int,
        states: Sequence[Array],
        others: Sequence[Array],
        results: Sequence[Array],
        over: bool = False,
    ) -> None:
        """Do the steps from `first` on, from `states` to `results`.

        `numbers` are coefficients and scalars of these steps.  All arrays have one shape: a
        stack axis and the core axes.  The results are the states themselves if they go `over`
        them; then what bands need of each other is made before.
        """
        fields = [*states, *others]
        core = states[0].shape[1:]
        far = self._far(steps)
        each = sum(state.itemsize for state in states) * 3 * steps
        counts = _counts(core, [a + b for a, b in far], each, self._threads)
        tasks: list[Callable[[], object]] = []
        cuts: list[list[slice]] = []
        closed: list[bool] = []
        ended: list[_Ends] = []
        for axis, (n, (a, b), count) in enumerate(zip(core, far, counts, strict=True)):
            # A tile does not hold what is at the other end of the array.
            wraps = count > 1 and chain.wraps(axis)
            closed.append(axis - len(core) in chain.edges.axes and not wraps)
            if closed[-1]:
                a = b = 0
            if a or b:
                ended.append(self._ends[axis])
                tasks.append(partial(ended[-1], first, steps, (a, b), fields, len(results)))
            cuts.append(cut((a, n - b), count))
        constants = _constants(chain)

        def inside(region: tuple[slice, ...], outs: Sequence[Array]) -> Callable[[], object]:
            told = [
                _told(
                    region[axis],
                    core[axis],
                    chain.borders[border][0].rules[axis],
                    closed[axis],
                    sum(far[axis]),
                )
                for axis in chain.edges.axes
                for border in chain.edges.borders
            ]
            opened = [
                (
                    lo * (not shut or part.start > 0),
                    hi * (not shut or part.stop < n),
                )
                for part, n, shut, lo, hi in zip(
                    region,
                    core,
                    closed,
                    chain.compiled.reach.lo,
                    chain.compiled.reach.hi,
                    strict=True,
                )
            ]
            source = (
                ALL,
                *(
                    slice(p.start + lo, p.stop + hi)
                    for p, (lo, hi) in zip(region, opened, strict=True)
                ),
            )
            coefficients, scalars = numbers
            bound = Bound(chain.compiled, (*coefficients, *told, *constants), scalars)
            return partial(bound.run, [f[source] for f in fields], outs)

        seams: list[tuple[tuple[slice, ...], list[Array]]] = []
        if over:
            cuts[0], between = _parted(cuts[0], max(far[0]))
            for part in between:
                region = (part, *(one for (one,) in cuts[1:]))
                shape = (states[0].shape[0], *(one.stop - one.start for one in region))
                seams.append((region, [empty(shape, result.dtype) for result in results]))
            run_parallel([*tasks, *(inside(*seam) for seam in seams)], self._threads)
            tasks = []
        regions = itertools.product(*cuts)
        bands = [inside(region, [r[(ALL, *region)] for r in results]) for region in regions]
        # The ends do not run long, but on one thread: they come first.
        run_parallel([*tasks, *bands], self._threads)
        for region, made in seams:
            for result, one in zip(results, made, strict=True):
                result[(ALL, *region)] = one
        for end in ended:
            end.write(results)


def _parted(parts: list[slice], gap: int) -> tuple[list[slice], list[slice]]:
    """Bands so far apart that none reads what another one writes, and what lies between."""
    bands, between = [parts[0]], list[slice]()
    for part in parts[1:]:
        last = bands[-1]
        if part.start + gap >= part.stop:
            bands[-1] = slice(last.start, part.stop)
            continue
        between.append(slice(part.start, part.start + gap))
        bands.append(slice(part.start + gap, part.stop))
    return bands, between if gap else []


def _counts(core: tuple[int, ...], spans: Sequence[int], each: int, threads: int) -> list[int]:
    """In how many bands of the first axis, and tiles of the others, to cut.

    `each` is how many bytes are kept for a point of a row or plane: three rows, or planes, of
    each step, if it looks at the next.
    """
    bands = threads * BANDS if threads > 1 else 1
    if len(core) == 1:
        return [max(bands, -(-core[0] * each // KEPT))]
    counts = [bands]
    for axis in range(1, len(core)):
        # Planes are cut into tiles of rows, and rows only where one of each step is too long.
        if axis < len(core) - 1:
            pieces = each * math.prod(core[1:]) / (math.prod(counts[1:]) * KEPT_PLANES)
        else:
            pieces = each * core[-1] / KEPT
        counts.append(max(1, min(math.ceil(pieces), core[axis] // (4 * max(1, spans[axis])))))
    return counts


# What is done at an end of an axis, as `ninepoint.backends.numba.support` has it.
_KINDS = {"fill": 2, "keep": 3}


def _told(part: slice, n: int, rules: tuple[Rule, Rule], closed: bool, far: int) -> Array:
    """What a chain is told of a tile's ends: what is done, and where elements beyond are from."""
    ends: Array = np.zeros(2 + 2 * far, np.int64)
    if closed:
        ends[0] = _KINDS.get(rules[0], 1) if part.start == 0 else 0
        ends[1] = _KINDS.get(rules[1], 1) if part.stop == n else 0
        beyond = source_indices(-far, 0, n, *rules), source_indices(n, n + far, n, *rules)
        sources = np.concatenate(beyond)
        ends[2:] = np.where(sources < 0, -1, sources - part.start)
    return ends


def _constants(chain: Chain) -> list[Array]:
    """What the borders' rules write that is none of an array's own, in the arrays' types."""
    constants = []
    for number, dtype, rule in chain.edges.constants:
        border, cval = chain.borders[number]
        value = fitting_cval(cval, dtype, "the result") if border.uses(rule) else 0
        constants.append(np.full(1, value, dtype))
    return constants


class _Ends:
    """Both ends of an axis: step by step, on one copy that holds all that they depend on.

        low | high       with the border's rule outside, and a seam between the two

    What is wrong creeps in by one reach a step, and never gets to what is wanted.  The copy
    is made in the same memory for each pass: memory that is new to the process costs as much
    as a step.
    """

    def __init__(self, single: Single, axis: int) -> None:
        self._step = single
        self._axis = axis
        self._held: dict[int, list[Array]] = {}
        self._made: list[Array] = []
        self._lengths = (0, 0)

    def __call__(
        self,
        first: int,
        steps: int,
        lengths: tuple[int, int],
        fields: Sequence[Array],
        count: int,
    ) -> None:
        """Compute so many points at both ends, of `count` states."""
        axis, (before, after) = self._axis, lengths
        n = fields[0].shape[axis + 1]
        length = before + after + 1
        parts = [slice(0, length), slice(n - length, n)]
        held = self._memory(2 * length, fields, count)
        for field, piece in zip(fields, held, strict=False):
            np.concatenate([field[at(axis, part)] for part in parts], axis + 1, piece)
        states, others = held[:count], held[count : len(fields)]
        spare = held[len(fields) :]
        for step in range(first, first + steps):
            self._step(step, [*states, *others], spare)
            states, spare = spare, states
        self._made, self._lengths = states, lengths

    def write(self, results: Sequence[Array]) -> None:
        """Put the points where they belong."""
        axis, (before, after) = self._axis, self._lengths
        n, length = results[0].shape[axis + 1], before + after + 1
        for result, made in zip(results, self._made, strict=True):
            result[at(axis, slice(0, before))] = made[at(axis, slice(0, before))]
            result[at(axis, slice(n - after, n))] = made[at(axis, slice(2 * length - after, None))]

    def _memory(self, length: int, fields: Sequence[Array], states: int) -> list[Array]:
        """Arrays for the pieces of all fields, and for those of the states once more."""
        if length not in self._held:
            self._held[length] = [
                empty(_with_length(field.shape, self._axis + 1, length), field.dtype)
                for field in [*fields, *fields[:states]]
            ]
        return self._held[length]


def _with_length(shape: tuple[int, ...], axis: int, length: int) -> tuple[int, ...]:
    return (*shape[:axis], length, *shape[axis + 1 :])
