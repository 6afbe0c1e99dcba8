"""Iterate a stencil on NumPy arrays: two buffers, and several steps in one pass over memory.

    for each block of T steps:
        interior   the chain of T steps, in bands of the first axis and tiles, in any order
        ends       T single steps, on thin copies of the array's ends, with the border's rule

An array beyond the cache is read and written once for T steps instead of T times.  The chain
computes just what the steps do, one after the other, and puts the border's rule at the ends of
rows, and of planes, itself; at the ends of other axes the steps are done one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .. import limits
from ..backends.compiled import Bound, Compiled
from ..backends.memory import empty
from ..language.box import Box
from ..language.dtypes import computed
from ..lowering.chain import Edges
from .bands import KEPT, Ends, Region, Sides, run_in_bands, sides
from .borders import Array, Border, Rule
from .fitting import fitting_cval
from .gathering import source_indices

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

# Coefficients and scalars.
Numbers: TypeAlias = tuple[tuple[Array, ...], tuple[Any, ...]]

# Does one step, from fields to arrays of their shape.
Single: TypeAlias = Callable[[int, Sequence[Array], Sequence[Array]], None]


def block_length(reach: Box, core: tuple[int, ...], itemsize: int, asked: int = 0) -> int:
    """How many steps to do in one pass; 1 where that would not pay, or cannot be done.

    `asked` is `Schedule.steps`: a number is taken as far as the array is long enough for it.
    """
    spans = _spans(reach)
    if asked:
        # Both ends and a point between them.
        return max(1, min([asked, *((n - 1) // s for n, s in zip(core, spans, strict=True) if s)]))
    length = usual_length(reach)
    return length if is_worth(reach, length, core, itemsize) else 1


def usual_length(reach: Box) -> int:
    """How many steps, each of which looks so far, are done in one pass over large arrays."""
    far = max(max(-lo, hi) for lo, hi in zip(reach.lo, reach.hi, strict=True))
    return max(2, (STEPS if reach.ndim < 3 else STEPS_OF_PLANES) // max(1, far))


def is_worth(reach: Box, length: int, core: tuple[int, ...], itemsize: int) -> bool:
    """Whether so many steps, each of which looks so far, are better done in one pass."""
    if itemsize * int(np.prod(core)) <= limits.current.chained_bytes:
        return False
    return all(n >= 4 * length * (s + 1) for n, s in zip(core, _spans(reach), strict=True))


def even_length(length: int, steps: int) -> int:
    """A length near `length`, so that few of so many steps are left to be done one by one."""
    if length == 1:
        return 1
    near = range(max(2, length // 2), min(length * 5 // 4, steps) + 1)
    return min(near, key=lambda one: (_cost(one, steps), abs(one - length)), default=1)


def _cost(length: int, steps: int) -> float:
    return steps // length * (length + PASS) + steps % length * SINGLE


@dataclass(frozen=True, slots=True)
class Chain:
    """What some steps at once are compiled to, and the borders and constants of their calls."""

    compiled: Compiled
    edges: Edges
    borders: Sequence[tuple[Border, Any]]
    steps: int

    def wraps(self, axis: int) -> bool:
        """Whether some call reads at the other end of an axis."""
        return any(border.rules[axis][0] == "wrap" for border, _ in self.borders)

    def pays(self, core: tuple[int, ...], asked: bool) -> bool:
        """Whether arrays are long enough for it, and large enough if nobody has asked for it."""
        reach = self.compiled.reach
        if asked:
            return all(n > span for n, span in zip(core, _spans(reach), strict=True))
        itemsize = sum(dtype.itemsize for dtype in self.compiled.out_dtypes)
        return is_worth(reach, 1, core, itemsize)

    def counts(self, core: tuple[int, ...], threads: int) -> list[int]:
        """In how many bands of the first axis, and tiles of the others, to cut."""
        # Three rows, or planes, of each step, if it looks at the next.
        kept = 3 * self.steps * sum(dtype.itemsize for dtype in self.compiled.out_dtypes)
        kept = max(kept, self.compiled.module.kept)
        return _counts(core, _spans(self.compiled.reach), kept, threads)


class Passes:
    """Several steps in one pass over arrays, whose shape is the same for all passes."""

    def __init__(
        self,
        single: Callable[[], Single],
        ndim: int,
        states: int,
        threads: int,
        positions: int = 0,
    ) -> None:
        """Take what makes single steps on one thread.

        The first fields are the states, and the last ones `positions`.
        """
        self._threads = threads
        self._turns = [_Turns(single(), states) for _ in range(ndim)]
        self._ends = [
            Ends(turns, axis, positions=positions) for axis, turns in enumerate(self._turns)
        ]

    def over(self, chain: Chain, core: tuple[int, ...]) -> bool:
        """Whether results may take the place of the states that they are made from.

        A row of the result is written long after the last row that it was made from was read,
        if no tile beside it needs that row as well.
        """
        return len(core) > 1 and all(n == 1 for n in chain.counts(core, self._threads)[1:])

    def __call__(
        self,
        chain: Chain,
        numbers: Numbers,
        first: int,
        fields: Sequence[Array],
        results: Sequence[Array],
    ) -> None:
        """Do the steps from `first` on, from fields, the states first, to `results`.

        `numbers` are coefficients and scalars of these steps.  All arrays have one shape: a
        stack axis and the core axes.  The results may be the states themselves.
        """
        for turns in self._turns:
            turns.first, turns.steps = first, chain.steps
        over = results[0] is fields[0]
        ends = self._ends.__getitem__
        run_chain(chain, numbers, ends, fields, results, self._threads, over=over)


def run_chain(
    chain: Chain,
    numbers: Numbers,
    ends: Callable[[int], Ends],
    fields: Sequence[Array],
    results: Sequence[Array],
    threads: int,
    *,
    over: bool = False,
    ended: Sequence[Sides] | None = None,
) -> None:
    """Do the steps of a chain, from fields, the states first, to `results`.

    `ends` does them step by step at the ends of an axis; `over` and `ended` are said of
    `run_in_bands`.
    """
    core = fields[0].shape[1:]
    counts = chain.counts(core, threads)
    where = ended or [(True, True)] * len(core)
    # A tile does not hold what is at the other end of the array.
    closed = [
        axis - len(core) in chain.edges.axes and not (count > 1 and chain.wraps(axis))
        for axis, count in enumerate(counts)
    ]
    spans = _spans(chain.compiled.reach)
    coefficients, scalars = numbers
    constants = _constants(chain)

    def inside(region: Region) -> Bound:
        told = [
            _told(
                region[axis],
                core[axis],
                chain.borders[border][0].rules[axis],
                where[axis] if closed[axis] else (False, False),
                spans[axis],
            )
            for axis in chain.edges.axes
            for border in chain.edges.borders
        ]
        return Bound(chain.compiled, (*coefficients, *told, *constants), scalars)

    run_in_bands(
        inside,
        ends,
        chain.compiled.reach,
        closed,
        counts,
        fields,
        results,
        threads,
        over=over,
        ended=ended,
    )


def _spans(reach: Box) -> list[int]:
    return [before + after for before, after in sides(reach)]


class _Turns:
    """Steps one after the other, from the one half of some memory to the other and back."""

    def __init__(self, single: Single, states: int) -> None:
        self._single = single
        self._states = states
        self._spare: dict[tuple[int, ...], list[Array]] = {}
        self.first = 0
        self.steps = 0

    def __call__(self, fields: list[Array]) -> Sequence[Array]:
        states, others = fields[: self._states], fields[self._states :]
        shape = states[0].shape
        if shape not in self._spare:
            self._spare[shape] = [empty(shape, state.dtype) for state in states]
        spare = self._spare[shape]
        for step in range(self.first, self.first + self.steps):
            self._single(step, [*states, *others], spare)
            states, spare = spare, states
        return states


def _counts(core: tuple[int, ...], spans: Sequence[int], each: int, threads: int) -> list[int]:
    """In how many bands of the first axis, and tiles of the others, to cut.

    `each` is how many bytes are kept for a point of a row or plane.
    """
    bands = threads * BANDS if threads > 1 else 1
    # A part that does not end with the array is long enough to have all that it needs beyond.
    most = [max(1, n // (4 * max(1, span))) for n, span in zip(core, spans, strict=True)]
    if len(core) == 1:
        return [min(most[0], max(bands, -(-core[0] * each // KEPT)))]
    counts = [min(most[0], bands)]
    for axis in range(1, len(core)):
        # Planes are cut into tiles of rows, and rows only where one of each step is too long.
        if axis < len(core) - 1:
            pieces = each * math.prod(core[1:]) / (math.prod(counts[1:]) * KEPT_PLANES)
        else:
            pieces = each * core[-1] / KEPT
        counts.append(max(1, min(math.ceil(pieces), most[axis])))
    return counts


# What is done at an end of an axis, as `ninepoint.backends.llvm.library` has it.
_KINDS = {"fill": 2, "keep": 3}


def _told(part: slice, n: int, rules: tuple[Rule, Rule], ended: Sides, far: int) -> Array:
    """What a chain is told of a tile's ends: what is done, and where elements beyond are from."""
    ends: Array = np.zeros(2 + 2 * far, np.int64)
    if any(ended):
        ends[0] = _KINDS.get(rules[0], 1) if ended[0] and part.start == 0 else 0
        ends[1] = _KINDS.get(rules[1], 1) if ended[1] and part.stop == n else 0
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
        constants.append(np.full(1, value, dtype).astype(computed(dtype)))
    return constants
