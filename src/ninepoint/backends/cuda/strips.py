"""Strips: a warp rolls down the rows of a strip of columns, and keeps rows in registers.

    v = x[0, 1] - x[0, -1]               for each row i of the warp's part of the strip:
    out = v[-1, 0] + v[1, 0]      ->         load row i + 2 of x, for the next turn
                                             make row i + 1 of v, of row i + 1 of x
                                             make row i of the result, of rows i - 1 and i + 1 of v

A lane has some columns beside each other; what lies beside these it gets from other lanes.  So
stages, calls that read each other's results and steps in time need no memory but the fields and
the results.  There are no barriers, and what neighbouring strips both need is made twice.

Where the rules of borders say what lies beyond the ends of an array between two steps, or where
much is kept, the text has two functions, and each strip that is nowhere near an end leaves at
once the one for strips that are, as these leave the other.

Along the first axis the number of blocks may be any: each does as many rows as are left for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...language.ir import Kernel
from ...lowering.chain import Edges
from ...lowering.cost import operation
from ...lowering.passes import checked
from .bodies import out_arrays
from .memory import Rules
from .rings import rolling
from .source import LANES, Source
from .turns import BYTES, Mode, Strip, StripFunction

# Registers beyond which a lane does fewer columns, or a chain fewer steps: with more than these
# a processor of 65536 has fewer than three blocks.
REGISTERS = 168

# Where a lane needs more than are easy the assembler is told so; by itself it keeps to 96, and
# spills: of 8 steps of heat, in float32, 204 bytes (nvcc 13.0, sm_90).
BLOCKS = 3

# Registers up to which a processor has warps enough to load while others compute: 20 of them.
EASY = 96

# Instructions of a turn besides those for each point: loop, addresses, load, store.
TURN = 40

# Columns of a lane.
COLUMNS = (16, 8, 4, 2, 1)


def strips(
    kernel: Kernel,
    edges: Edges,
    borders: Sequence[Rules],
    name: str,
    outs: Sequence[np.dtype],
) -> Source | None:
    """The text of a kernel with the rules of its borders: of several calls in one pass, or steps.

    None where they do not roll so.
    """
    kernel = checked(kernel)
    if kernel.ndim > 2 or any("valid" in pair for rules in borders for pair in rules):
        return None
    found = rolling(kernel, edges, borders)
    between = None if found is None else found.is_ruled()
    if found is None or between is None or not found.loaded:
        return None
    fit = [one for one in (Strip(found, columns) for columns in COLUMNS) if _fits(one)]
    if not fit:
        return None
    best = min(fit, key=_cost)
    # What loads at the ends needs costs registers everywhere.
    apart, blocks = between or _needed(best) > EASY, BLOCKS if _needed(best) > EASY else 0

    def function(called: str, mode: Mode) -> StripFunction:
        own = out_arrays(outs)
        return StripFunction(kernel, found.known, found.constants, called, own, best, mode)

    first, plain = function(name, "inside" if apart else "all"), f"{name}_plain"
    lines, launches = first.text(blocks, plain), [first.launch(plain)]
    if apart:
        # Strips near an end are few, and need more.
        ends = function(f"{name}_ends", "ends")
        lines, launches = [*lines, *ends.text()], [*launches, ends.launch()]
    return Source("\n".join([*lines, ""]), tuple(launches), (), found.constants)


def _fits(strip: Strip) -> bool:
    """Whether a quarter of the columns are those of the result, and registers are left."""
    largest = max(dtype.itemsize for _, dtype in strip.rolling.kernel.fields)
    if strip.columns * largest > max(BYTES, largest) or 4 * strip.width < LANES * strip.columns:
        return False
    return _needed(strip) <= REGISTERS


def _needed(strip: Strip) -> int:
    """About how many registers a lane needs; the assembler has the last word."""
    found, columns = strip.rolling, strip.columns
    storage = dict(found.kernel.fields)
    total, most = 24.0, 0
    for ring in found.rings.values():
        words = max(1, np.dtype(ring.machine).itemsize // 4)
        # The newest row is made from the others, and what is beside is fetched in its turn.
        total += words * (ring.count - 1) * columns
        most = max(most, words * (columns + ring.before + ring.after))
    for one in found.loaded:
        total += max(1, columns * storage[one.field].itemsize / 4)
    widest = max(len(level.body) for level in found.levels)
    # Operations of several columns are under way at once.
    return int(total + most + min(16, widest) + 2 * columns)


def _cost(strip: Strip) -> float:
    """Instructions of a warp for each column of the result."""
    found = strip.rolling
    work = sum(operation(assign.value) for level in found.levels for assign in level.body)
    beside = sum(ring.before + ring.after for ring in found.rings.values())
    waiting = max(1.0, _needed(strip) / EASY)
    return waiting * LANES * (strip.columns * work + beside + TURN) / strip.width
