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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..backends.compiled import Bound, Compiled
from ..backends.memory import empty
from ..backends.threads import run_parallel
from ..language.box import Box
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

# What one step is compiled to, with the scalars of that step.
Single = Callable[[int], Bound]


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


class Steps:
    """Single steps on arrays of one shape: after the first, what can be is prepared."""

    def __init__(self, single: Single, border: Border, cval: Any, threads: int | None) -> None:
        self._single = single
        self._options = Options(border, cval, threads)
        self._calls: dict[int, Run] = {}

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from and to contiguous arrays that are no others' than ours."""
        program = self._single(step)
        known = self._calls.get(id(program.compiled))
        out = tuple(outs) if len(outs) > 1 else outs[0]
        numbers = (*program.coefficients, *program.scalars)
        if known is not None and known(fields, numbers, out) is not None:
            return
        self.general(step, fields, outs)
        if known is None:
            self._calls[id(program.compiled)] = prepare(
                program, program.compiled.entry, fields, self._options, out
            )

    def general(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from arrays of any kind."""
        border, cval, threads = (
            self._options.border,
            self._options.cval,
            self._options.threads,
        )
        out = tuple(outs) if len(outs) > 1 else outs[0]
        program = self._single(step)
        apply(program, fields, border=border, cval=cval, out=out, threads=threads)


@dataclass(frozen=True, slots=True)
class Chain:
    """What some steps at once are compiled to, their scalars, and the shape of the state."""

    compiled: Compiled
    values: Mapping[str, Any]
    core: tuple[int, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes, counted from the last, at whose ends it applies the border's rule itself."""
        return tuple(axis for axis in (-1, -2) if f".ends{-axis}" in self.compiled.coefficients)


class Passes:
    """Several steps in one pass over arrays, whose shape is the same for all passes."""

    def __init__(
        self, single: Single, reach: Box, border: Border, cval: Any, threads: int
    ) -> None:
        self._reach = reach
        self._border = border
        self._cval = cval
        self._threads = threads
        self._ends = [_Ends(single, border, cval, axis) for axis in range(border.ndim)]

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
        first: int,
        steps: int,
        states: Sequence[Array],
        others: Sequence[Array],
        results: Sequence[Array],
        over: bool = False,
    ) -> None:
        """Do the steps from `first` on, from `states` to `results`.

        All arrays have one shape: a stack axis and the core axes.  The results are the states
        themselves if they go `over` them; then what bands need of each other is made before.
        """
        fields = [*states, *others]
        core = states[0].shape[1:]
        rules = self._border.rules
        far = self._far(steps)
        each = sum(state.itemsize for state in states) * 3 * steps
        counts = _counts(core, [a + b for a, b in far], each, self._threads)
        tasks: list[Callable[[], object]] = []
        cuts: list[list[slice]] = []
        closed: list[bool] = []
        ended: list[_Ends] = []
        for axis, (n, (a, b), count) in enumerate(zip(core, far, counts, strict=True)):
            # A tile does not hold what is at the other end of the array.
            wraps = rules[axis][0] == "wrap" and count > 1
            closed.append(axis - len(core) in chain.axes and not wraps)
            if closed[-1]:
                a = b = 0
            if a or b:
                ended.append(self._ends[axis])
                tasks.append(partial(ended[-1], first, steps, (a, b), fields, len(results)))
            cuts.append(cut((a, n - b), count))
        constants = _constants(self._border, self._cval, fields, len(results))

        def inside(region: tuple[slice, ...], outs: Sequence[Array]) -> Callable[[], object]:
            told = {
                f".ends{len(core) - axis}": _told(
                    part, n, rules[axis], closed[axis], sum(far[axis])
                )
                for axis, (part, n) in enumerate(zip(region, core, strict=True))
            }
            return partial(_inside, chain, fields, outs, region, constants | told)

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


def _constants(
    border: Border, cval: Any, fields: Sequence[Array], states: int
) -> dict[str, Array]:
    """The constant of each field, as its type holds it, where some rule asks for one."""
    constants = {}
    for k, field in enumerate(fields):
        asked = border.uses("constant") or (border.uses("fill") and k < states)
        value = fitting_cval(cval, field.dtype, f"field {k + 1}") if asked else 0
        constants[f".constant{k}"] = np.full(1, value, field.dtype)
    return constants


def _inside(
    chain: Chain,
    fields: Sequence[Array],
    results: Sequence[Array],
    region: tuple[slice, ...],
    ends: Mapping[str, Array],
) -> None:
    """Make `results`, which are those of a region."""
    reach = chain.compiled.reach
    source = []
    for axis, (part, lo, hi) in enumerate(zip(region, reach.lo, reach.hi, strict=True)):
        kinds = ends[f".ends{len(region) - axis}"]
        before, after = lo * (kinds[0] == 0), hi * (kinds[1] == 0)
        source.append(slice(part.start + before, part.stop + after))
    bound = chain.compiled.bind({**chain.values, **ends}).within(chain.core)
    bound.run([f[(ALL, *source)] for f in fields], results)


class _Ends:
    """Both ends of an axis: step by step, on one copy that holds all that they depend on.

        low | high       with the border's rule outside, and a seam between the two
        high | low       where the array wraps: then the seam is none, and outside is wrong

    What is wrong creeps in by one reach a step, and never gets to what is wanted.  The copy
    is made in the same memory for each pass: memory that is new to the process costs as much
    as a step.
    """

    def __init__(self, single: Single, border: Border, cval: Any, axis: int) -> None:
        rules = border.rules
        self._axis = axis
        self._wraps = rules[axis][0] == "wrap"
        if self._wraps:
            rules = (*rules[:axis], ("nearest", "nearest"), *rules[axis + 1 :])
        self._step = Steps(single, Border(rules), cval, 1)
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
        if self._wraps:
            parts.reverse()
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
        begin, end = (length, length) if self._wraps else (0, 2 * length)
        for result, made in zip(results, self._made, strict=True):
            result[at(axis, slice(0, before))] = made[at(axis, slice(begin, begin + before))]
            result[at(axis, slice(n - after, n))] = made[at(axis, slice(end - after, end))]

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
