"""Iterate a stencil on NumPy arrays: two buffers, and several steps in one pass over memory.

    for each block of T steps:
        interior   the chain of T steps, in bands of rows and tiles of columns, in any order
        ends       T single steps, on thin copies of the array's ends, with the border's rule

An array beyond the cache is read and written once for T steps instead of T times.  The chain
computes just what the steps do, one after the other; where a border is near, the steps are
done one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..backends.threads import run_parallel
from ..language.box import Box
from .borders import Array, Border
from .numpy import Program, apply

# Bytes of a state below which it stays in a core's cache from step to step.
CACHED = 1 << 20

# Bytes of the rows that the steps of a chain keep: half of a second-level cache.
KEPT = 1 << 19

# Bands for each thread: the last to begin then ends not much after the others.
BANDS = 2

# A chain of T steps: its program for the scalars of the step it begins with.
Chain = Callable[[int, int], Program]


def block_length(reach: Box, core: tuple[int, ...], itemsize: int) -> int:
    """How many steps to do in one pass; 1 where that would not pay.

    Eight steps with neighbours at distance 1: an eighth of the traffic, at the price of 16
    rows more for each band. (4096 x 4096 float32, two threads: 4 steps 6.6, 8 steps 8.9, 16
    steps 8.7 Gpoint/s, Zen 4.)
    """
    far = max(max(-lo, hi) for lo, hi in zip(reach.lo, reach.hi, strict=True))
    if far == 0 or len(core) > 2 or itemsize * int(np.prod(core)) <= CACHED:
        return 1
    length = max(2, 8 // far)
    fits = all(
        n >= 4 * length * (max(-lo, 0) + max(hi, 0) + 1)
        for n, lo, hi in zip(core, reach.lo, reach.hi, strict=True)
    )
    return length if fits else 1


def advance(
    chain: Program,
    single: Callable[[int], Program],
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
    for axis in range(len(core)):
        ends = partial(
            _ends, single, first, steps, fields, len(states), results, border, cval, axis,
            before[axis], after[axis],
        )  # fmt: skip
        tasks.append(ends)
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
    """Cut the interior into bands of rows and tiles of columns."""
    spans = [(a, n - b) for n, a, b in zip(core, before, after, strict=True)]
    each = sum(state.itemsize for state in states) * 3 * steps
    columns = _cut(spans[-1], max(1, -(-(spans[-1][1] - spans[-1][0]) * each // KEPT)))
    if len(core) == 1:
        pieces = max(threads * BANDS if threads > 1 else 1, len(columns))
        return [(piece,) for piece in _cut(spans[0], pieces)]
    rows = _cut(spans[0], threads * BANDS if threads > 1 else 1)
    return [(row, column) for row in rows for column in columns]


def _cut(span: tuple[int, int], count: int) -> list[slice]:
    first, last = span
    edges = [first + (last - first) * k // count for k in range(count + 1)]
    return [slice(a, b) for a, b in zip(edges, edges[1:], strict=False) if a < b]


def _inside(
    chain: Program,
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
    single: Callable[[int], Program],
    first: int,
    steps: int,
    fields: Sequence[Array],
    count: int,
    results: Sequence[Array],
    border: Border,
    cval: Any,
    axis: int,
    before: int,
    after: int,
) -> None:
    """Both ends of an axis: step by step, on copies that hold all that they depend on.

    What is wrong beyond the cut creeps in by one reach a step, and never gets to the end.
    """
    n = results[0].shape[axis + 1]
    length = before + after + 1
    rules = list(border.rules)
    wrapped = rules[axis][0] == "wrap"
    low, high = slice(0, length), slice(n - length, n)
    if wrapped:
        # The two ends are neighbours: one piece, with the seam in the middle.
        parts = [_joined([f[_at(f, axis, s)] for s in (high, low)], axis) for f in fields]
        rules[axis] = ("nearest", "nearest")
        done = _steps(single, first, steps, parts, count, Border(tuple(rules)), cval)
        for result, one in zip(results, done, strict=True):
            if after:
                result[_at(result, axis, slice(n - after, n))] = one[
                    _at(one, axis, slice(length - after, length))
                ]
            if before:
                result[_at(result, axis, slice(0, before))] = one[
                    _at(one, axis, slice(length, length + before))
                ]
        return
    for side, part, kept in (("low", low, before), ("high", high, after)):
        if not kept:
            continue
        rules[axis] = (
            (border.rules[axis][0], "nearest")
            if side == "low"
            else ("nearest", border.rules[axis][1])
        )
        pieces = [np.ascontiguousarray(f[_at(f, axis, part)]) for f in fields]
        done = _steps(single, first, steps, pieces, count, Border(tuple(rules)), cval)
        place = slice(0, kept) if side == "low" else slice(n - kept, n)
        own = slice(0, kept) if side == "low" else slice(length - kept, length)
        for result, one in zip(results, done, strict=True):
            result[_at(result, axis, place)] = one[_at(one, axis, own)]


def _at(array: Array, axis: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * (axis + 1) + (part,)


def _joined(parts: Sequence[Array], axis: int) -> Array:
    joined: Array = np.concatenate(parts, axis=axis + 1)
    return joined


def _steps(
    single: Callable[[int], Program],
    first: int,
    steps: int,
    pieces: Sequence[Array],
    count: int,
    border: Border,
    cval: Any,
) -> list[Array]:
    """Single steps on small arrays; the first `count` are states, the others stay."""
    states, others = list(pieces[:count]), list(pieces[count:])
    for step in range(first, first + steps):
        made = apply(single(step), [*states, *others], border=border, cval=cval, threads=1)
        states = list(made) if isinstance(made, tuple) else [made]
    return states
