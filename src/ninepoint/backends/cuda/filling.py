"""Fill a GPU: how many rows a block does, where it may do any number.

few, long rows of blocks                ->     as short as need be, so that no processor idles
more blocks than run at once by far     ->     longer ones, that make less twice
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .source import Launch

# Warps of a processor that are enough for it to compute while some wait for memory; and of all
# that are started, so that those which end first leave little undone.
BUSY, MANY = 8, 32

# Rows of a block: where processors would be idle otherwise, and where there is more than enough.
SHORTEST, LONGEST = 8, 256

# Lanes of a warp.
LANES = 32


def tile_for(
    launch: Launch, points: Sequence[int], frames: int, processors: int
) -> tuple[int, ...]:
    """The points that a block does along each axis, of so many points in so many frames."""
    if not launch.least:
        return launch.tile
    beside = math.prod(-(-n // size) for n, size in zip(points[1:], launch.tile[1:], strict=True))
    warps = max(1, beside * frames * math.prod(launch.threads) // LANES)
    # Rows of a warp so that there are as many warps.
    busy, many = (points[0] * warps // (count * processors) for count in (BUSY, MANY))
    rows = min(LONGEST, max(SHORTEST, many, min(launch.least, busy)))
    return rows, *launch.tile[1:]
