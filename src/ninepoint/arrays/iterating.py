"""Iterate a stencil on NumPy arrays: two buffers, and several steps in one pass over memory.

    for each block of T steps:
        interior   the chain of T steps, in bands of rows and tiles of columns, in any order
        ends       T single steps, on thin copies of the array's ends, with the border's rule

An array beyond the cache is read and written once for T steps instead of T times.  The chain
computes just what the steps do, one after the other; where a border is near, the steps are
done one by one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..backends.cpu import Bound
from ..backends.threads import run_parallel
from ..language.box import Box
from .borders import Array, Border
from .numpy import apply
from .prepared import Call, Options, prepare

# Bytes of a state below which it stays in a core's cache from step to step.
CACHED = 1 << 20

# Bytes of the rows that the steps of a chain keep: half of a second-level cache.
KEPT = 1 << 19

# Bytes of the planes that they keep, beyond which planes are cut into tiles of rows: a quarter
# of a third-level cache.  (384 x 384 x 384 float32, 4 steps, one thread: planes of 7 MB in all
# 2.8 Gpoint/s, tiles of 31 rows 2.1, of half the columns 1.3, Zen 4.)
KEPT_PLANES = 1 << 23

# Bands for each thread: the last to begin then ends not much after the others.
BANDS = 2

# Steps in one pass: an eighth of the traffic, at the price of 16 rows more for each band.
# (4096 x 4096 float32, neighbours at distance 1, two threads: 4 steps 6.6, 8 steps 8.9, 16
# steps 8.7 Gpoint/s, Zen 4.)
STEPS = 8

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
    length = max(2, STEPS // max(1, far))
    fits = all(n >= 4 * length * (s + 1) for n, s in zip(core, spans, strict=True))
    return length if fits else 1


class Steps:
    """Single steps on arrays of one shape: after the first, what can be is prepared."""

    def __init__(self, single: Single, border: Border, cval: Any, threads: int | None) -> None:
        self._single = single
        self._options = Options(border, cval, threads)
        self._calls: dict[int, Call] = {}

    def __call__(self, step: int, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Do one step, from and to contiguous arrays that are no others' than ours."""
        program = self._single(step)
        known = self._calls.get(id(program.compiled))
        out = tuple(outs) if len(outs) > 1 else outs[0]
        if known is not None and known([*fields, *program.scalars], out) is not None:
            return
        self.general(step, fields, outs)
        if known is None:
            self._calls[id(program.compiled)] = _prepared(program, fields, out, self._options)

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


def _prepared(program: Bound, fields: Sequence[Array], out: Any, options: Options) -> Call:
    entry = program.compiled.entry
    count = len(fields) + len(program.out_dtypes)
    if program.coefficients:
        between = program.coefficients

        def entry(*values: Any) -> None:
            program.compiled.entry(*values[:count], *between, *values[count:])

    scalars = [(len(fields) + k, value) for k, value in enumerate(program.scalars)]
    args = [*fields, *program.scalars]
    return prepare(program, entry, args, range(len(fields)), scalars, options, out)


def advance(
    chain: Bound,
    single: Single,
    first: int,
    steps: int,
    reach: Box,
    states: Sequence[Array],
    others: Sequence[Array],
    results: Sequence[Array],
    border: Border,
    cval: Any,
    threads: int,
) -> None:
    """Do `steps` steps from `states` to `results`, the ends of the array included.

    All arrays have one shape: a stack axis and the core axes.  `reach` is that of one step.
    """
    fields = [*states, *others]
    core = states[0].shape[1:]
    before = [steps * max(-lo, 0) for lo in reach.lo]
    after = [steps * max(hi, 0) for hi in reach.hi]
    tasks: list[Callable[[], object]] = []
    for axis, (a, b) in enumerate(zip(before, after, strict=True)):
        if a or b:
            tasks.append(
                partial(_ends, single, first, steps, fields, results, border, cval, axis, a, b)
            )
    for region in _regions(core, before, after, states, steps, threads):
        tasks.append(partial(_inside, chain, fields, results, region))
    # The ends do not run long, but on one thread: they come first.
    run_parallel(tasks, threads)


def _regions(
    core: tuple[int, ...],
    before: Sequence[int],
    after: Sequence[int],
    states: Sequence[Array],
    steps: int,
    threads: int,
) -> list[tuple[slice, ...]]:
    """Cut the interior into bands of the first axis and tiles of the others."""
    spans = [(a, n - b) for n, a, b in zip(core, before, after, strict=True)]
    lengths = [last - first for first, last in spans]
    # A step keeps three rows, or three planes, if it looks at the next.
    each = sum(state.itemsize for state in states) * 3 * steps
    bands = threads * BANDS if threads > 1 else 1
    if len(core) == 1:
        return [(piece,) for piece in _cut(spans[0], max(bands, -(-lengths[0] * each // KEPT)))]
    size = each * math.prod(lengths[1:])
    cuts = [_cut(spans[0], bands)]
    for span, length, far in zip(spans[1:], lengths[1:], [*before[1:], 0], strict=False):
        allowed = KEPT_PLANES if len(cuts) < len(core) - 1 else KEPT
        pieces = max(1, min(-(-size // allowed), length // (4 * max(1, far))))
        size = -(-size // pieces)
        cuts.append(_cut(span, pieces))
    return list(itertools.product(*cuts))


def _cut(span: tuple[int, int], count: int) -> list[slice]:
    first, last = span
    edges = [first + (last - first) * k // count for k in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(edges) if a < b]


def _inside(
    chain: Bound,
    fields: Sequence[Array],
    results: Sequence[Array],
    region: tuple[slice, ...],
) -> None:
    reach = chain.reaches[0]
    source = tuple(
        slice(s.start + lo, s.stop + hi)
        for s, lo, hi in zip(region, reach.lo, reach.hi, strict=True)
    )
    whole = slice(None)
    chain.run([f[(whole, *source)] for f in fields], [r[(whole, *region)] for r in results])


def _ends(
    single: Single,
    first: int,
    steps: int,
    fields: Sequence[Array],
    results: Sequence[Array],
    border: Border,
    cval: Any,
    axis: int,
    before: int,
    after: int,
) -> None:
    """Both ends of an axis: step by step, on one copy that holds all that they depend on.

        low | high       with the border's rule outside, and a seam between the two
        high | low       where the array wraps: then the seam is none, and outside is wrong

    What is wrong creeps in by one reach a step, and never gets to what is wanted.
    """
    n = results[0].shape[axis + 1]
    length = before + after + 1
    parts = [slice(0, length), slice(n - length, n)]
    rules = border.rules
    wraps = rules[axis][0] == "wrap"
    if wraps:
        parts.reverse()
        rules = (*rules[:axis], ("nearest", "nearest"), *rules[axis + 1 :])
    pieces = [
        np.concatenate([field[_at(axis, part)] for part in parts], axis=axis + 1)
        for field in fields
    ]
    states, others = pieces[: len(results)], pieces[len(results) :]
    spare = [np.empty_like(state) for state in states]
    step_ = Steps(single, Border(rules), cval, 1)
    for step in range(first, first + steps):
        step_(step, [*states, *others], spare)
        states, spare = spare, states
    at = (length, length) if wraps else (0, 2 * length)
    for result, made in zip(results, states, strict=True):
        result[_at(axis, slice(0, before))] = made[_at(axis, slice(at[0], at[0] + before))]
        result[_at(axis, slice(n - after, n))] = made[_at(axis, slice(at[1] - after, at[1]))]


def _at(axis: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * (axis + 1) + (part,)
