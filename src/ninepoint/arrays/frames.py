"""Frames: the points near the border of an array, prepared for calls that come again and again.

The pieces of a layout, each as one step that does only what depends on the data:

    inner        the points inside: from the fields into the outputs
    padded       a slab, or the whole of a small array: a padded block is gathered by machine
                 code and computed from.  The two slabs of one row at both ends of the first
                 axis are one: in their blocks, and in the output, they lie at one distance
    ends         both ends of all rows: gathered, computed as one long row, and scattered

What the steps write on between is made once and kept for the next call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ninepoint.arrays.borders import Array, Index, source_indices
from ninepoint.arrays.ends import long_rows
from ninepoint.arrays.layout import Ends, Layout, Piece, Region
from ninepoint.arrays.moves import AXES, UNITS, Places, lifted, listed, mover
from ninepoint.arrays.numpy import BLOCK
from ninepoint.backends.memory import empty

# fields, the same as bytes, outputs, the same as bytes, scalars
Step: TypeAlias = Callable[
    [Sequence[Array], Sequence[Array], Sequence[Array], Sequence[Array], Sequence[Any]], None
]

# fields, outputs, scalars
Runner: TypeAlias = Callable[[Sequence[Array], Sequence[Array], Sequence[Any]], None]

# Up to this many bytes of a block are kept from call to call: bigger ones are made each time.
KEPT_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class Frame:
    """What a prepared call knows: the machine code, where it works, and on what.

    `entry` computes a block, from fields to outputs; `values` are what stands outside under
    "constant", for each field; `stack` is the length of the axis before the core axes, None if
    there is none; `warm` is how many rows the machine code makes before the first of a result.
    """

    entry: Callable[..., None]
    plan: Layout
    field_dtypes: tuple[np.dtype[Any], ...]
    out_dtypes: tuple[np.dtype[Any], ...]
    values: tuple[Any, ...]
    stack: int | None
    warm: int

    @property
    def fits(self) -> bool:
        """Whether there are steps for all pieces."""
        pieces = self.plan.pieces
        # Of many small images, which are padded as a whole, only so many stay near at a time.
        if self.stack is not None and len(pieces) == 1 and self.stack * self.plan.points > BLOCK:
            return False
        return (
            len(self.plan.shape) <= AXES
            and all(d.itemsize in UNITS for d in (*self.field_dtypes, *self.out_dtypes))
            and any(piece.padded for piece in pieces)
            and not any(self._is_long(piece) for piece in pieces)
            and all(target.scratch is None for piece in pieces for target in piece.targets)
        )

    def _is_long(self, piece: Piece) -> bool:
        """Whether the ends of so many rows are too much to be kept."""
        if piece.ends is None:
            return False
        points = (self.stack or 1) * math.prod(piece.region.shape[:-1]) * len(piece.ends.columns)
        return points * max(dtype.itemsize for dtype in self.field_dtypes) > KEPT_BYTES

    def runner(self) -> Runner:
        """Give all steps as one function, which threads may call at the same time."""
        # The steps of a call are its own until it ends, for the blocks that they write on.
        free = [self._steps()]
        index = lifted(len(self.plan.shape), self.stack is not None)
        units = list(enumerate(UNITS[dtype.itemsize] for dtype in self.field_dtypes))
        # Machine code moves into outputs only what was computed of the ends.
        moved = any(piece.ends is not None for piece in self.plan.pieces)
        out_dtypes = self.out_dtypes if moved else ()
        out_units = list(enumerate(UNITS[dtype.itemsize] for dtype in out_dtypes))

        def run(fields: Sequence[Array], outs: Sequence[Array], scalars: Sequence[Any]) -> None:
            try:
                steps = free.pop()
            except IndexError:
                steps = self._steps()
            raws = [fields[k].view(unit)[index] for k, unit in units]
            raw_outs = [outs[k].view(unit)[index] for k, unit in out_units]
            for step in steps:
                step(fields, raws, outs, raw_outs, scalars)
            free.append(steps)

        return run

    def _steps(self) -> list[Step]:
        """Make the steps, with the blocks that they write on."""
        steps: list[Step] = []
        for piece, twin in _twins(self.plan.pieces, self.stack):
            if piece.ends is not None:
                steps.append(self._ends(piece, piece.ends))
            elif piece.gather is not None:
                steps.append(self._padded(piece, twin))
            else:
                steps.append(self._inner(piece))
        return steps

    def _cut(self, index: Index) -> tuple[Any, ...]:
        """An index for arrays with one stack axis, for arrays as they are."""
        return index if self.stack is not None else (None, *index[1:])

    def _inner(self, piece: Piece) -> Step:
        entry, source = self.entry, self._cut(piece.source)
        places = list(enumerate(self._cut(target.place) for target in piece.targets))

        def step(fields: Any, raws: Any, outs: Any, raw_outs: Any, scalars: Any) -> None:
            inside = [field[source] for field in fields]
            entry(*inside, *[outs[k][at] for k, at in places], *scalars)

        return step

    def _padded(self, piece: Piece, twin: Piece | None) -> Step:
        entry = self.entry
        axes = self._sources(piece.region)
        places = [self._cut(target.place) for target in piece.targets]
        copies = self.stack or 1
        if twin is not None:
            axes[0] = np.concatenate([axes[0], self._sources(twin.region)[0]])
            places = [
                _both(one.place, other.place)
                for one, other in zip(piece.targets, twin.targets, strict=True)
            ]
            copies = 2
        targets = list(enumerate(places))
        present = [np.flatnonzero(sources >= 0) for sources in axes]
        places_of = [(s[at], at) for s, at in zip(axes, present, strict=True)]
        shape = (self.stack or 1, *(len(sources) for sources in axes))
        moves = self._moves(places_of)
        reaches = zip(self.plan.reach.lo, self.plan.reach.hi, strict=True)
        height = [n + b - a for n, (a, b) in zip(piece.region.shape, reaches, strict=True)]
        whole = all(map(len, axes)) and all(
            len(at) == len(sources) for at, sources in zip(present, axes, strict=True)
        )

        def made() -> tuple[list[Array], list[Array]]:
            blocks = [empty(shape, dtype) for dtype in self.field_dtypes]
            if not whole:
                for block, value in zip(blocks, self.values, strict=True):
                    block.fill(value)
            raw = lifted(len(self.plan.shape), True)
            return (
                [block.reshape(copies, *height) for block in blocks],
                [block.view(UNITS[block.itemsize])[raw] for block in blocks],
            )

        size = sum(math.prod(shape) * dtype.itemsize for dtype in self.field_dtypes)
        kept = made() if size <= KEPT_BYTES else None

        def step(fields: Any, raws: Any, outs: Any, raw_outs: Any, scalars: Any) -> None:
            blocks, raw_blocks = kept or made()
            for k, (move, index) in moves:
                move(raws[k], index, raw_blocks[k])
            entry(*blocks, *[outs[k][at] for k, at in targets], *scalars)

        return step

    def _ends(self, piece: Piece, ends: Ends) -> Step:
        entry = self.entry
        rows = [np.arange(cut.start, cut.stop) for cut in piece.source[1:-1]]
        columns = np.array(ends.columns)
        (present,) = np.nonzero(columns >= 0)
        axes = [(one, np.arange(len(one))) for one in rows]
        gathers = self._moves([*axes, (columns[present], present)])
        shape = (self.stack or 1, *map(len, rows), len(columns))
        blocks: list[Array] = [np.empty(shape, dtype) for dtype in self.field_dtypes]
        for block, value in zip(blocks, self.values, strict=True):
            block.fill(value)
        flat, into, results = long_rows(blocks, ends.spans, self.out_dtypes, self.warm)
        raw = lifted(len(shape) - 1, True)
        raw_blocks = [block.view(UNITS[block.itemsize])[raw] for block in blocks]
        scatters = []
        for k, result in enumerate(results):
            moved = [(place, part) for output, place, part in ends.moves if output == k]
            if moved:
                source = result.view(UNITS[result.itemsize])[raw]
                scatters.append((mover(result.itemsize), source, listed(_columns(moved)), k))

        def step(fields: Any, raws: Any, outs: Any, raw_outs: Any, scalars: Any) -> None:
            for k, (move, index) in gathers:
                move(raws[k], index, raw_blocks[k])
            entry(*flat, *into, *scalars)
            for move, source, index, k in scatters:
                move(source, index, raw_outs[k])

        return step

    def _moves(
        self, axes: Sequence[tuple[Places, Places]]
    ) -> list[tuple[int, tuple[Callable[..., None], Places]]]:
        """The machine code and its list for each field."""
        places = listed(axes)
        return [(k, (mover(d.itemsize), places)) for k, d in enumerate(self.field_dtypes)]

    def _sources(self, region: Region) -> list[Places]:
        """For each axis, where the neighbours of a region's points come from."""
        plan = self.plan
        return [
            source_indices(a + low, b + high, n, *rules)
            for a, b, low, high, n, rules in zip(
                region.start,
                region.stop,
                plan.reach.lo,
                plan.reach.hi,
                plan.shape,
                plan.border.rules,
                strict=True,
            )
        ]


def _columns(moved: Sequence[tuple[Index, Index]]) -> list[tuple[Places, Places]]:
    """The places of parts of a result in an output: they differ in their columns only."""
    place, part = moved[0]
    rows = [(_range(b), _range(a)) for a, b in zip(place[1:-1], part[1:-1], strict=True)]
    columns = np.concatenate([_range(part[-1]) for _, part in moved])
    return [*rows, (columns, np.concatenate([_range(place[-1]) for place, _ in moved]))]


def _range(part: slice) -> Places:
    return np.arange(part.start, part.stop)


def _twins(pieces: Sequence[Piece], stack: int | None) -> list[tuple[Piece, Piece | None]]:
    """Each piece, alone or with its twin at the other end of the first axis."""
    slabs = [
        piece
        for piece in pieces
        if piece.gather is not None and stack is None and len(piece.region.start) > 1
    ]
    if len(slabs) >= 2:
        one, other = slabs[0].region, slabs[1].region
        if (
            one.start[1:] == other.start[1:]
            and one.stop[1:] == other.stop[1:]
            and one.shape[0] == other.shape[0] == 1
        ):
            rest = [piece for piece in pieces if piece not in slabs[:2]]
            return [*((piece, None) for piece in rest), (slabs[0], slabs[1])]
    return [(piece, None) for piece in pieces]


def _both(one: Index, other: Index) -> tuple[Any, ...]:
    """The index of two places of one row each, as a stack of two."""
    first, second = one[1].start, other[1].start
    return (slice(first, second + 1, second - first), None, *one[2:])
