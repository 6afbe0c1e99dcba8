"""Chains: several calls, or several steps of an iteration, in one pass over NumPy arrays.

    pieces    bands of the first axis and tiles of the others, in any order; the first points of an
              axis and the last ones by themselves where it is a ring that the kernel cannot see as
              a whole

An array beyond the cache is read and written once for all of them.  The kernel computes just what
the calls do, one after the other, and puts the borders' rules at the ends of the array itself.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..backends.compiled import Compiled
from ..backends.memory import copied
from ..backends.threads import run_parallel
from ..base import limits
from ..base.frozen import frozen
from ..language.dtypes import computed
from ..language.ir import Box
from ..lowering.chain import Edges
from .accepted import fitting_cval
from .arranging import scattered, stacked
from .layout import Array, Axes, Border, PlainArrays, Rule, Shape, Sides, cut, into, source_indices

# Bytes of the rows that are kept between stages, or steps, beyond which rows are cut into tiles.
# (4096 x 4096 float32, two threads, 0.5 and 2 MB: a wave of order 4, 16 steps, 91 and 80 ms, heat
# of 1024 rows 36 and 33, four blurs 16.6 and 14.1; 512 kB of second-level cache, 32 MB of third.)
KEPT = 1 << 21

# Of arrays of more axes no chain is made: it keeps rows, or planes.
MOST_AXES = 3

# Columns below which a tile is not cut: stages make a few more columns than the result has.
NARROW = 256

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


def spans(reach: Box) -> list[int]:
    """How many neighbours a box holds, axis by axis."""
    return [before + after for before, after in reach.sides]


def usual_length(reach: Box) -> int:
    """How many steps, each of which looks so far, are done in one pass over large arrays."""
    far = max(map(max, reach.sides))
    return max(2, (STEPS if reach.ndim < 3 else STEPS_OF_PLANES) // max(1, far))


def is_worth(reach: Box, length: int, core: Shape, itemsize: int) -> bool:
    """Whether so many steps, each of which looks so far, are better done in one pass."""
    if itemsize * math.prod(core) <= limits.current.chained_bytes:
        return False
    return all(n >= 4 * length * (s + 1) for n, s in zip(core, spans(reach), strict=True))


@frozen
class Chain:
    """What some calls or steps at once are compiled to; borders and constants of these calls.

    Along which axes calls look as along `rings`, all of them do.  `tile` is how many columns are
    done together, 0 for as many as keep rows of stages in cache.

    On a block some sides are `closed`: there an axis ends with the array.  At its other sides the
    results begin, or end, by so much later or earlier as the chain looks.
    """

    compiled: Compiled
    edges: Edges
    borders: Sequence[tuple[Border, Any]]
    rings: tuple[bool, ...]
    tile: int = 0
    closed: tuple[Sides, ...] = ()

    def turned(self, how: int | Axes) -> None:
        """Arrays that lie in another way are copied."""

    def way(self, fields: PlainArrays) -> Passes:
        """How it is done on arrays like these."""
        return Passes(self, fields)

    def counts(self, core: Shape, threads: int) -> list[int]:
        """In how many bands of the first axis, and tiles of the others, to cut."""
        # What is kept for a point of a row, or plane: three, at least.
        each = 3 * sum(dtype.itemsize for dtype in self.compiled.out_dtypes)
        each = max(each, self.compiled.module.kept)
        bands = threads * BANDS if threads > 1 else 1
        # Planes are cut into tiles of rows, and rows only where one of each step is too long.
        tiles = core[-1] / self.tile if self.tile else each * core[-1] / KEPT
        planes = [each * math.prod(core[1:]) / KEPT_PLANES] * (len(core) - 2)
        counts = [bands, *planes, tiles] if len(core) > 1 else [max(bands, tiles)]
        # A part that does not end with the array is long enough to have all that it needs beyond.
        axes = zip(counts, core, spans(self.compiled.reach), strict=True)
        return [max(1, min(math.ceil(k), n // (4 * max(1, span)))) for k, n, span in axes]


@frozen
class _Cut:
    """Some points along an axis: the first of them, and at which sides the array ends there.

    `read` says what of the fields they are made of, and `written` where they are in the results.
    """

    start: int
    ended: Sides
    read: slice | Array
    written: slice


# Cuts of all axes, and what the kernel is told of the ends of the piece.
_Piece: TypeAlias = tuple[Sequence[_Cut], list[Array]]


class Passes:
    """A chain on arrays of one core shape."""

    def __init__(self, chain: Chain, fields: PlainArrays) -> None:
        self._chain, self._core = chain, fields[0].shape[-chain.compiled.ndim :]
        axes = zip(self._core, chain.compiled.reach.sides, chain.closed, strict=True)
        made = tuple(
            n - (0 if low else before) - (0 if high else after)
            for n, (before, after), (low, high) in axes
        )
        # The shapes of results along core axes.
        self.shapes = [made] * len(chain.compiled.out_dtypes)
        self._scattered = scattered(chain.compiled, fields)
        self._entry = chain.compiled.loaded.entry
        self.points, self.handoff = math.prod(self._core), limits.current.handoff_seconds
        # The pieces by how many threads share them, each with what the kernel is told of its ends.
        self._pieces = dict[int, list[_Piece]]()

    def run(
        self, numbers: Sequence[Any], fields: PlainArrays, outs: PlainArrays, threads: int
    ) -> None:
        """Compute on so many threads; `numbers` are coefficients, then scalars, of all calls."""
        compiled = self._chain.compiled
        each = zip(fields, compiled.field_dtypes, self._scattered, strict=True)
        fields = [copied(one, dtype) if copies else one for one, dtype, copies in each]
        fields = [stacked(one, compiled.ndim) for one in fields]
        outs = [stacked(one, compiled.ndim) for one in outs]
        pieces = self._pieces.get(threads)
        if pieces is None:
            pieces = self._pieces[threads] = self._cut(threads)
        count = len(numbers) - len(compiled.scalars)
        tasks: list[Callable[[], object]] = []
        for cuts, told in pieces:
            more = *numbers[:count], *told, *numbers[count:]
            if len(pieces) == 1 and all(all(cut.ended) for cut in cuts):
                # The kernel makes all of the results in one go, of all of the fields.
                self._entry(*fields, *outs, *more)
                return
            written = into(cut.written for cut in cuts)
            arrays = [_read(field, cuts) for field in fields] + [one[written] for one in outs]
            tasks.append(partial(self._entry, *arrays, *more))
        run_parallel(tasks, threads)

    def _cut(self, threads: int) -> list[_Piece]:
        """The pieces that so many threads share, and what the kernel is told of their ends."""
        chain, core, edges = self._chain, self._core, self._chain.edges
        counts, reach = chain.counts(core, threads), chain.compiled.reach.sides
        axes = [
            _cuts(chain, axis, n, count, own)
            for axis, (n, count, own) in enumerate(zip(core, counts, chain.closed, strict=True))
        ]
        rules = [
            (axis, chain.borders[border][0].rules[axis], sum(reach[axis]))
            for axis in edges.axes
            for border in edges.borders
        ]
        # What the borders' rules write that is none of an array's own, in the arrays' types.
        constants, found = [], list[_Piece]()
        for number, dtype, rule in edges.constants:
            border, cval = chain.borders[number]
            what = "the result" if rule == "fill" else "the array"
            value = fitting_cval(cval, dtype, what) if border.uses(rule) else 0
            constants.append(np.full(1, value, dtype).astype(computed(dtype)))
        for cuts in itertools.product(*axes):
            told = [_told(cuts[axis], core[axis], pair, far) for axis, pair, far in rules]
            found.append((cuts, [*told, *constants]))
        return found


def _cuts(chain: Chain, axis: int, n: int, count: int, ended: Sides) -> list[_Cut]:
    """An axis of `n` points in about so many parts, which ends with the array at some sides."""
    before, after = chain.compiled.reach.sides[axis]
    # A ring that the kernel does not see as a whole: it takes it for an axis that goes on.
    ring = chain.rings[axis] and ended[0]
    ring = ring and (count > 1 or axis - chain.compiled.ndim == chain.edges.rolls)
    low, high = (False, False) if ring else ended
    first, last = 0 if low else before, n if high else n - after
    spans = cut((first, last), count)
    if ring:
        # What lies around its seam follows each other, and is gathered.
        spans = [one for one in ((0, first), *spans, (last, n)) if one[0] < one[1]]
        first = 0
    found = []
    for a, b in spans:
        ends = low and a == 0, high and b == n
        begin, end = a - (0 if ends[0] else before), b + (0 if ends[1] else after)
        inside = begin >= 0 and end <= n
        read = slice(begin, end) if inside else np.arange(begin, end) % n
        found.append(_Cut(a, ends, read, slice(a - first, b - first)))
    return found


def _read(field: Array, cuts: Sequence[_Cut]) -> Array:
    """What a piece is made of."""
    around = slice(None)
    field = field[into(one.read if isinstance(one.read, slice) else around for one in cuts)]
    for axis, one in enumerate(cuts, -len(cuts)):
        if not isinstance(one.read, slice):
            field = field.take(one.read, axis)
    return field


# What is done at an end of an axis, as `ninepoint.backends.llvm.library` has it.
_KINDS = {"fill": 2, "keep": 3}


def _told(cut: _Cut, n: int, rules: tuple[Rule, Rule], far: int) -> Array:
    """What a chain is told of a piece's ends: what is done, and where elements beyond are from."""
    ends: Array = np.zeros(2 + 2 * far, np.int64)
    if any(cut.ended):
        pairs = zip(rules, cut.ended, strict=True)
        ends[:2] = [own and _KINDS.get(rule, 1) for rule, own in pairs]
        beyond = [source_indices(*places, n, *rules) for places in ((-far, 0), (n, n + far))]
        sources = np.concatenate(beyond)
        ends[2:] = np.where(sources < 0, -1, sources - cut.start)
    return ends
