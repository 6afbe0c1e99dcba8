"""Run calls that are compiled together in one pass over NumPy arrays.

    interior   the compiled kernel, in bands of the first axis and tiles of the others
    ends       the calls one after the other, on thin copies of the array's ends

The kernel computes just what the calls do: several that read each other's results, or several
steps of an iteration.  Where an end of the array is near, they are done one by one, each with its
own rule, save along axes at whose ends the kernel puts the rules itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from ..backends.compiled import Bound
from ..backends.memory import empty
from ..backends.threads import run_parallel
from ..language.box import Box
from .borders import Array
from .views import at, cut

# Whether an axis ends before, and after, with the whole array.
Sides: TypeAlias = tuple[bool, bool]

# One part of each core axis.
Region: TypeAlias = tuple[slice, ...]

# Makes what all calls give of pieces of the fields, one after the other, with the borders' rules.
OneByOne: TypeAlias = Callable[[list[Array]], Sequence[Array]]

# Bytes of the rows that are kept between stages, or steps: half of a second-level cache.
KEPT = 1 << 19

# Columns below which a tile is not cut: stages make a few more columns than the result has.
NARROW = 256

ALL = slice(None)


def sides(reach: Box) -> list[tuple[int, int]]:
    """How many neighbours a box holds before and after the point, axis by axis."""
    pairs = zip(reach.lo, reach.hi, strict=True)
    return [(max(-lo, 0), max(hi, 0)) for lo, hi in pairs]


def fits(core: Sequence[int], margin: Box) -> bool:
    """Whether points are left whose neighbours all exist."""
    return all(n > a + b for n, (a, b) in zip(core, sides(margin), strict=True))


def run_in_bands(
    inside: Callable[[Region], Bound],
    ends: Callable[[int], Ends],
    reach: Box,
    closed: Sequence[bool],
    counts: Sequence[int],
    fields: Sequence[Array],
    results: Sequence[Array],
    threads: int,
    over: bool = False,
    ended: Sequence[Sides] | None = None,
) -> None:
    """Compute `results` from `fields`, arrays of one shape: a stack axis and the core axes.

    `inside` gives what computes a region, and `ends` what computes those of an axis, if it is
    not `closed`.  An axis is cut into as many parts as `counts` says.  The results may be the
    first fields themselves, `over` which they go; then what bands need of each other is made
    before.  `ended` says where an axis ends with the whole array, as all do by default; at its
    other sides the results begin, or end, by so much later or earlier as the kernel looks, and
    the kernel puts no rules.
    """
    core = fields[0].shape[1:]
    tasks: list[Callable[[], object]] = []
    cuts: list[list[slice]] = []
    made_apart: list[Ends] = []
    origin: list[int] = []
    for axis, (n, (a, b)) in enumerate(zip(core, sides(reach), strict=True)):
        low, high = ended[axis] if ended is not None else (True, True)
        open_sides = (0 if closed[axis] and low else a, 0 if closed[axis] and high else b)
        # What wraps needs both ends, even to look to one side only.
        apart = (low and high and (a or b)) or (low and a) or (high and b)
        if apart and not closed[axis]:
            made_apart.append(ends(axis))
            tasks.append(partial(made_apart[-1], open_sides, fields))
        cuts.append(cut((open_sides[0], n - open_sides[1]), counts[axis]))
        origin.append(0 if low else open_sides[0])

    def band(region: Region, outs: Sequence[Array]) -> Callable[[], object]:
        source = [ALL]
        for axis, part in enumerate(region):
            low, high = ended[axis] if ended is not None else (True, True)
            before = 0 if closed[axis] and low and part.start == 0 else reach.lo[axis]
            after = 0 if closed[axis] and high and part.stop == core[axis] else reach.hi[axis]
            source.append(slice(part.start + before, part.stop + after))
        return partial(inside(region).run, [field[tuple(source)] for field in fields], outs)

    seams: list[tuple[Region, list[Array]]] = []
    if over:
        cuts[0], between = _parted(cuts[0], max(sides(reach)[0]))
        for part in between:
            region = (part, *(one for (one,) in cuts[1:]))
            shape = (fields[0].shape[0], *(one.stop - one.start for one in region))
            seams.append((region, [empty(shape, result.dtype) for result in results]))
        run_parallel([*tasks, *(band(*seam) for seam in seams)], threads)
        tasks = []
    regions = itertools.product(*cuts)
    # The ends do not run long, but on one thread: they come first.
    for region in regions:
        place = (slice(s.start - o, s.stop - o) for s, o in zip(region, origin, strict=True))
        target = (ALL, *place)
        tasks.append(band(region, [result[target] for result in results]))
    run_parallel(tasks, threads)
    for region, made in seams:
        for result, one in zip(results, made, strict=True):
            result[(ALL, *region)] = one
    for end in made_apart:
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


class Ends:
    """The ends of an axis: one call after the other, on a copy that holds all they depend on.

        low | high       with the borders' rules outside, and a seam between the two

    What is wrong at the seam creeps in by one reach a call, and never gets to what is wanted.
    The copy is made in the same memory each time: memory that is new to the process costs as
    much as a call.  Of the last fields, `positions`, it is one of a line.
    """

    def __init__(
        self,
        one_by_one: OneByOne,
        axis: int,
        ended: Sides = (True, True),
        lanes: int = 1,
        positions: int = 0,
    ) -> None:
        self._one_by_one = one_by_one
        self._axis = axis
        self._ended = ended
        self._lanes = lanes
        self._positions = positions
        self._held: dict[int, list[Array]] = {}
        self._made: Sequence[Array] = ()
        self._lengths = (0, 0)

    def __call__(self, lengths: tuple[int, int], fields: Sequence[Array]) -> None:
        """Compute so many points at both ends, or at the one that there is."""
        axis, length = self._axis, sum(lengths) + self._lanes
        n, (low, high) = fields[0].shape[axis + 1], self._ended
        parts = [slice(0, length)] * low + [slice(n - length, n)] * high
        held = list(self._memory(len(parts) * length, fields))
        for field, piece in zip(fields, held, strict=False):
            np.concatenate([field[at(axis, part)] for part in parts], axis + 1, piece)
        for field in fields[len(held) :]:
            line = _line(field)
            if line.shape[axis + 1] > 1:
                line = np.concatenate([line[at(axis, part)] for part in parts], axis + 1)
            held.append(np.broadcast_to(line, held[0].shape))
        self._made, self._lengths = self._one_by_one(held), lengths

    def write(self, results: Sequence[Array]) -> None:
        """Put the points where they belong."""
        axis, (before, after) = self._axis, self._lengths
        low, high = self._ended
        for result, made in zip(results, self._made, strict=True):
            if low:
                result[at(axis, slice(0, before))] = made[at(axis, slice(0, before))]
            if high:
                n, length = result.shape[axis + 1], made.shape[axis + 1]
                last = made[at(axis, slice(length - after, length))]
                result[at(axis, slice(n - after, n))] = last

    def _memory(self, length: int, fields: Sequence[Array]) -> list[Array]:
        """Arrays for the pieces of all fields but positions."""
        if length not in self._held:
            before, given = self._axis + 1, fields[: len(fields) - self._positions]
            self._held[length] = [
                empty((*f.shape[:before], length, *f.shape[before + 1 :]), f.dtype) for f in given
            ]
        return self._held[length]


def _line(positions: Array) -> Array:
    """Positions with one element along axes along which all elements are the same ones."""
    steps = zip(positions.strides, positions.shape, strict=True)
    return positions[tuple(slice(1) if step == 0 and n > 1 else ALL for step, n in steps)]


# Bands for each thread: the last to begin then ends not much after the others.
BANDS = 4


def run_fused(
    program: Bound,
    one_by_one: Callable[[int, list[Array]], Sequence[Array]],
    fields: Sequence[Array],
    results: Sequence[Array],
    threads: int,
    tile: int,
    ended: Sequence[Sides],
    lanes: int = 1,
) -> None:
    """Compute `results` by a kernel whose stages are calls, and at the ends by the calls.

    `program` looks as far as all calls together, and `one_by_one` makes the ends of an axis.
    `tile` is how many columns are done together, 0 for as many as keep the rows of stages in
    cache.  `ended` is said of `run_in_bands`.  A column may be several `lanes`, side by side.
    """
    core, reach = fields[0].shape[1:], program.reaches[0]
    (a, b), width = sides(reach)[-1], core[-1]
    columns = tile
    if not tile:
        # Of volumes whole planes may be kept: to cut these gained nothing (heat, 384^3, Zen 4).
        kept = max(1, program.compiled.module.kept)
        columns = width if len(core) > 2 else max(NARROW, KEPT // kept)
    bands = threads * BANDS if threads > 1 else 1
    tiles = max(1, -(-(width - a - b) // columns))
    counts = [bands, *(1 for _ in core[1:-1]), tiles] if len(core) > 1 else [max(bands, tiles)]
    run_in_bands(
        lambda region: program,
        lambda axis: Ends(
            partial(one_by_one, axis),
            axis,
            ended[axis],
            lanes if axis == len(core) - 1 else 1,
            program.positions,
        ),
        reach,
        [False] * len(core),
        counts,
        fields,
        results,
        threads,
        ended=ended,
    )
