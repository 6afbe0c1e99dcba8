"""Ranks in large windows: what slides along the row, and finds the elements of some rank.

For bytes it is a histogram:

    median of x over 31 x 31, x of uint8:
        one column of 31 elements leaves the histogram and one enters it; the element of the
        wanted rank is found by counting, first in 16 coarse bins, then in 16 fine ones

Source: T. S. Huang, G. J. Yang and G. Y. Tang, "A fast two-dimensional median filtering
algorithm", IEEE Transactions on Acoustics, Speech and Signal Processing 27 (1), 1979.

For all other types it is a set of places:

    median of x over 11 x 11, x of float32:
        the elements of some rows and columns are put in order once, so that each has a place among
        them; along a row, 11 places leave the window's set and 11 enter it, and the wanted one is
        found from where the last one was

So what a point costs grows with the runs that the window has along the row, whatever type the
elements have.  The results of several rows are found together, and kept until their turn comes.

Source: J. Suomela, "Median filtering is equivalent to sorting", arXiv:1406.1717, 2014.

Compared with histograms, places took 2 to 4 times as long for bytes, and a half to a fifth of the
time for 16 bits (windows of 15 x 15 to 3 x 101, one thread).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ...base import limits
from ...language.dtypes import computed
from ...language.ir import Histogram, Offset
from ...lowering.rolling import Kept
from .points import filled, plus
from .rows import Layout, RowFunction, as_tuple

# A program, in which `$word` stands for a name of the function's own; the texts of what is made
# once for all rows, and tables with their types.
_Parts: TypeAlias = tuple[str, Mapping[str, str], Mapping[str, tuple[Sequence[object], str]]]


def sliding_function(name: str, kept: Kept, layout: Layout) -> RowFunction:
    """Write the function that finds the element of a rank at each point of a stage's row."""
    stage = kept.stage
    assert isinstance(stage, Histogram)
    storage = dict(layout.kernel.fields)[stage.read.field]
    # How far the window's first element is from where the block begins and from the row's column.
    steps = [o - least for o, least in zip(stage.read.offset, layout.reach.lo, strict=True)]
    steps[-1] += kept.low[-1]
    # Where each value has a bin of its own, and the window lies in a plane.
    in_plane = not any(any(run[:-3]) for run in stage.runs)
    if storage.kind in "iu" and storage.itemsize == 1 and in_plane:
        program, buffers, tables = _bins(stage, layout, steps, -128 if storage.kind == "i" else 0)
    else:
        program, buffers, tables = _places(kept, stage, layout, steps)
    own = {filled(f"${word}", name, {}): text for word, text in buffers.items()}
    return RowFunction(
        name,
        (*layout.whole, *filter(str.isidentifier, own), "o0", "n"),
        tuple(filled(program, name, {}).strip().split("\n")),
        tuple(
            f"{word}_{name} = np.array({held}, dtype=np.{dtype})"
            for word, (held, dtype) in tables.items()
        ),
        {},
        own,
    )


def _bins(stage: Histogram, layout: Layout, steps: Sequence[int], low: int) -> _Parts:
    """What finds the elements by counting, of values from `low` on."""
    rows = [run[-3] for run in stage.runs]
    begins = [steps[-1] + run[-2] for run in stage.runs]
    ends = [start + run[-1] for start, run in zip(begins, stage.runs, strict=True)]
    down, begin, end = "$rows[d]", "$begins[d]", "$ends[d]"
    tables = {"rows": (rows, "int64"), "begins": (begins, "int64"), "ends": (ends, "int64")}
    if len({*begins}) == len({*ends}) == 1 and rows == [*range(len(rows))]:
        # A box needs no tables.  (Medians of 15 x 15 and 31 x 31 bytes took 1.4 and 1.6 times as
        # long with them, 512 x 512, Zen 5.)
        down, begin, end, tables = "d", str(begins[0]), str(ends[0]), {}
    outer = [plus(f"i{axis}", step) for axis, step in enumerate(steps[:-2])]
    outer += [f"{plus('i', step)} + {down}" for step in steps[-2:-1]]

    def element(place: str) -> str:
        index = ", ".join(["b", *outer, place])
        return plus(f"i64({stage.read.field}[{index}])", -low)

    program = f"""
for k in range(256):
    $fine[k] = 0
for k in range(16):
    $coarse[k] = 0
for d in range({len(stage.runs)}):
    for k in range({begin}, {end}):
        value = {element("k")}
        $fine[value] += 1
        $coarse[value >> 4] += 1
for j in range(n):
    rest = {stage.rank}
    value = 0
    while $coarse[value] <= rest:
        rest -= $coarse[value]
        value += 1
    value = value << 4
    while $fine[value] <= rest:
        rest -= $fine[value]
        value += 1
    o0[j] = {plus("value", low)}
    if j + 1 < n:
        for d in range({len(stage.runs)}):
            value = {element(f"j + {begin}")}
            $fine[value] -= 1
            $coarse[value >> 4] -= 1
            value = {element(f"j + {end}")}
            $fine[value] += 1
            $coarse[value >> 4] += 1
"""
    buffers = {"fine": "np.empty(256, dtype=np.int32)", "coarse": "np.empty(16, dtype=np.int32)"}
    return program, buffers, tables


# Places.


class _Tile:
    """What is put in order together, for a window of these runs: rows and columns of results.

    A run is the steps to its row, its first column and its length.  The window's `planes` are
    steps along the axes before the last two; it begins at row `top` and column `left`.
    """

    def __init__(self, lines: Sequence[Offset]) -> None:
        self.planes = sorted({line[:-3] for line in lines})
        self.top, self.left = min(line[-3] for line in lines), min(line[-2] for line in lines)
        height = self.height = max(line[-3] for line in lines) - self.top + 1
        width = self.width = max(line[-2] + line[-1] for line in lines) - self.left
        known = limits.current
        if height == 1:
            self.rows, columns = 1, max(known.sorted_columns, known.sorted_windows * width)
        else:
            side = math.sqrt(known.sorted_elements / len(self.planes))
            self.rows = max(1, int(side / 2) - height + 1, (known.sorted_windows - 1) * height + 1)
            columns = max(int(2 * side), known.sorted_windows * width)
        self.columns = max(1, columns - width + 1)
        # How many elements its windows have together.
        self.elements = len(self.planes) * (self.rows + height - 1) * (self.columns + width - 1)
        # Of each run its plane and its row, where it begins and what comes after it.
        self.runs: list[int] = []
        for *steps, row, column, length in lines:
            first = column - self.left
            plane = self.planes.index(tuple(steps))
            self.runs += [plane, row - self.top, first, first + length]


def _places(kept: Kept, stage: Histogram, layout: Layout, steps: Sequence[int]) -> _Parts:
    """What finds the elements by places in a tile, and keeps those of its rows."""
    machine = computed(dict(layout.kernel.fields)[stage.read.field])
    ndim, unsigned = layout.kernel.ndim, f"uint{8 * machine.itemsize}"
    tile = _Tile(stage.runs)
    short = tile.elements <= limits.current.sorted_elements
    buffers = {
        "held": f"np.empty({2 + max(1, ndim - 1)}, dtype=np.int64)",
        # No rows are held at first.
        "held[0]": "0",
        "held[1]": "0",
        "made": f"np.empty({tile.rows} * ({layout.columns(kept)}), dtype=np.{unsigned})",
        "keys": f"np.empty((2, {tile.elements}), dtype=np.{unsigned})",
        "order": f"np.empty((2, {tile.elements}), dtype=np.uint32)",
        "counts": f"np.empty({256 * machine.itemsize}, dtype=np.int64)",
        "ranks": f"np.empty({tile.elements}, dtype=np.{'uint16' if short else 'uint32'})",
        "inside": f"np.empty({(tile.elements + 63) // 64}, dtype=np.uint64)",
        "starts": f"np.empty({2 * len(stage.runs)}, dtype=np.int64)",
        # Up to which row the stage is made, counted as those of the result.
        "rows": "1" if ndim == 1 else layout.limits(kept, -2)[1],
    }
    tables: dict[str, tuple[Sequence[object], str]] = {
        "masks": (_masks(machine), "uint64"),
        "runs": (tile.runs, "int64"),
    }
    if len(tile.planes) > 1:
        tables["planes"] = [list(plane) for plane in tile.planes], "int64"
    return _selection(stage, layout, tile, steps), buffers, tables


def _selection(stage: Histogram, layout: Layout, tile: _Tile, steps: Sequence[int]) -> str:
    ndim = layout.kernel.ndim
    # Rows are counted from the first of the window.
    begins = [*steps[:-2], *(step + tile.top for step in steps[-2:-1])]
    further = [f" + $planes[d0, {k}]" if len(tile.planes) > 1 else "" for k in range(ndim - 2)]
    further += [" + d"] * (ndim > 1)
    pairs, start = zip(layout.indices, further, begins, strict=True), steps[-1] + tile.left
    line = as_tuple(["b", *(plus(f"{index}{more}", step) for index, more, step in pairs)])
    array, row = stage.read.field, "i" if ndim > 1 else "0"
    here = {f"$held[{k + 2}]": place for k, place in enumerate(["b", *layout.indices[:-1]])}
    known = [f"$held[0] <= {row} < $held[1]", *(f"{one} == {here[one]}" for one in here)]
    return f"""
if not ({" and ".join(known)}):
    $held[0], $held[1] = {row}, min({row} + {tile.rows}, $rows)
    {"; ".join(f"{one} = {place}" for one, place in here.items())}
    depth0 = $held[1] - $held[0] + {tile.height - 1}
    for first0 in range(0, n, {tile.columns}):
        width0 = min({tile.columns}, n - first0)
        wide0 = {plus("width0", tile.width - 1)}
        at0, valid0, front0 = 0, 0, row($keys, (0,))
        for d0 in range({len(tile.planes)}):
            for d in range(depth0):
                bits0 = same_bits(row({array}, {line}), front0)
                valid0 += keyed(bits0, {plus("first0", start)}, wide0, front0, at0, $masks)
                at0 += wide0
        turn0 = ordered($keys, $order, $counts, at0)
        keys0, order0 = row($keys, (turn0,)), row($order, (turn0,))
        for k in range(at0):
            $ranks[order0[k]] = k
        words0 = (at0 + 63) // 64
        for d in range($held[1] - $held[0]):
            at0 = d * n + first0
            slid(
                keys0, $masks, $ranks, $inside, words0, $runs, $starts, depth0, d, wide0, width0,
                {stage.rank}, valid0, $made, at0,
            )
at0 = ({row} - $held[0]) * n
found0 = same_bits($made, row({array}, {as_tuple(["b"] + ["0"] * (ndim - 1))}))
for j in range(n):
    o0[j] = found0[at0 + j]
"""


def _masks(machine: np.dtype) -> list[int]:
    """What `keyed` needs to know of a type, and the bits of NaN."""
    bits = np.dtype(f"uint{8 * machine.itemsize}")
    full = int(np.iinfo(bits).max)
    top = full // 2 + 1
    if machine.kind == "f":
        infinite, nan = np.array([math.inf, math.nan], machine).view(bits).tolist()
        return [top, top, full, infinite ^ top, nan]
    flipped = top if machine.kind == "i" else 0
    return [top, flipped, flipped, full, 0]
