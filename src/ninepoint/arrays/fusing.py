"""Run several kernels in one pass over NumPy arrays.

    interior   the fused kernel, in bands of rows and tiles of columns, in any order
    ends       one kernel after the other, on thin copies of the array's ends

The fused kernel computes just what the kernels do, one after the other; where a border is
near, they are done one by one, each with its own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from ..backends.compiled import Bound
from ..backends.threads import run_parallel
from ..language.box import Box
from .borders import Array
from .views import at, cut

# What makes the results of all kernels, one after the other, with the rules of their borders.
OneByOne: TypeAlias = Callable[[list[Array]], list[Array]]

# Bands for each thread: the last to begin then ends not much after the others.
BANDS = 4

# Bytes of the rows that are kept between stages: half of a second-level cache.
KEPT = 1 << 19

# Columns below which a tile is not cut: stages make a few more columns than the result has.
NARROW = 256


def fits(core: Sequence[int], margin: Box) -> bool:
    """Whether points are left whose neighbours all exist."""
    sides = zip(core, margin.lo, margin.hi, strict=True)
    return all(n > max(-lo, 0) + max(hi, 0) for n, lo, hi in sides)


def run_fused(
    program: Bound,
    one_by_one: OneByOne,
    fields: Sequence[Array],
    results: Sequence[Array],
    threads: int,
    tile: int,
) -> None:
    """Compute `results` from `fields`, arrays of one shape: a stack axis and the core axes.

    `program` looks as far as all kernels together.  `tile` is how many columns are done
    together, 0 for as many as keep the rows of stages in cache.
    """
    core = fields[0].shape[1:]
    margin = program.reaches[0]
    before = [max(-lo, 0) for lo in margin.lo]
    after = [max(hi, 0) for hi in margin.hi]
    tasks: list[Callable[[], object]] = []
    for axis, (a, b) in enumerate(zip(before, after, strict=True)):
        if a or b:
            tasks.append(partial(_ends, one_by_one, fields, results, axis, a, b))
    columns = tile
    if not tile:
        # Of volumes whole planes may be kept: to cut these gained nothing (heat, 384^3, Zen 4).
        kept = max(1, program.compiled.module.kept)
        columns = core[-1] if len(core) > 2 else max(NARROW, KEPT // kept)
    for region in _regions(core, before, after, columns, threads):
        tasks.append(partial(_inside, program, fields, results, region))
    # The ends do not run long, but on one thread: they come first.
    run_parallel(tasks, threads)


def _regions(
    core: tuple[int, ...], before: Sequence[int], after: Sequence[int], tile: int, threads: int
) -> list[tuple[slice, ...]]:
    """Cut the interior into bands of the first axis and tiles of columns."""
    spans = [(a, n - b) for n, a, b in zip(core, before, after, strict=True)]
    bands = threads * BANDS if threads > 1 else 1
    if len(core) == 1:
        pieces = max(bands, -(-(spans[0][1] - spans[0][0]) // tile))
        return [(piece,) for piece in cut(spans[0], pieces)]
    columns = cut(spans[-1], -(-(spans[-1][1] - spans[-1][0]) // tile))
    middle = [slice(a, b) for a, b in spans[1:-1]]
    return [(rows, *middle, part) for rows in cut(spans[0], bands) for part in columns]


def _inside(
    program: Bound, fields: Sequence[Array], results: Sequence[Array], region: tuple[slice, ...]
) -> None:
    margin = program.reaches[0]
    source = tuple(
        slice(s.start + lo, s.stop + hi)
        for s, lo, hi in zip(region, margin.lo, margin.hi, strict=True)
    )
    whole = slice(None)
    program.run([f[(whole, *source)] for f in fields], [r[(whole, *region)] for r in results])


def _ends(
    one_by_one: OneByOne,
    fields: Sequence[Array],
    results: Sequence[Array],
    axis: int,
    before: int,
    after: int,
) -> None:
    """Both ends of an axis, kernel by kernel, on one copy that holds all they depend on.

        low | high       with the rules of the borders outside, and a seam between the two

    What is wrong at the seam creeps in by one reach a kernel, and never gets to what is wanted.
    """
    n = fields[0].shape[axis + 1]
    length = before + after + 1
    parts = [slice(0, length), slice(n - length, n)]
    made = one_by_one(
        [
            np.concatenate([field[at(axis, part)] for part in parts], axis=axis + 1)
            for field in fields
        ]
    )
    for result, end in zip(results, made, strict=True):
        result[at(axis, slice(0, before))] = end[at(axis, slice(0, before))]
        result[at(axis, slice(n - after, n))] = end[at(axis, slice(2 * length - after, None))]
