"""Ends: the first and the last points of every row, computed together.

A block of few columns is slow to compute row by row.  But where rows lie one after the other,
it is also one long row, with as many copies below it as the stencil looks down, which overlap:

    0 1 2         0 1 2 3 4 5
    3 4 5    ->   3 4 5 6 7 8        the neighbour one row on stands below, as it should
    6 7 8         6 7 8 . . .

so that all of it is computed as one row.  What comes out where two rows meet is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ninepoint.arrays.borders import Array
from ninepoint.arrays.layout import Ends
from ninepoint.backends.memory import empty

# A program that keeps rows of stages makes them anew for the one long row: up to this many
# that costs less than to start on a thousand short rows.
FLAT_ROWS = 4

# Up to this many columns are copied one by one: 1.1 us each for 1000 rows, where a copy of
# several at once takes 10 us, its inner loop being so short (Zen 4).
FEW_COLUMNS = 8


def columns_of(field: Array, ends: Ends, cval: Any, dtype: np.dtype[Any]) -> Array:
    """Copy the columns that the ends need into a block of their own, of `dtype`."""
    columns = ends.columns
    shape = (*field.shape[:-1], len(columns))
    block: Array = empty(shape, dtype)
    if field.dtype == dtype and field.flags.c_contiguous and field.flags.aligned:
        # 5 us for 1000 rows of 6 columns; any other way takes longer (Zen 4).
        field.take(ends.index, -1, block, "clip")
        if -1 in columns:
            for k, column in enumerate(columns):
                if column < 0:
                    block[..., k] = cval
        return block
    done = 0
    while done < len(columns):
        column, stop = columns[done], done + 1
        if len(columns) > FEW_COLUMNS:
            while stop < len(columns) and columns[stop] == columns[stop - 1] + 1 and column >= 0:
                stop += 1
        if column < 0:
            block[..., done] = cval
        else:
            block[..., done:stop] = field[..., column : column + stop - done]
        done = stop
    return block


def compute_ends(
    run: Callable[[list[Array], list[Array]], None],
    blocks: Sequence[Array],
    spans: Sequence[int],
    dtypes: Sequence[np.dtype[Any]],
    warm: int,
) -> list[Array]:
    """Give each output at every row of the blocks, as many columns as they have less the span.

    `spans` is by how much the blocks are longer than the results, axis by axis; the first axis
    of a block is the stack.
    """
    blocks, outs, results = long_rows(blocks, spans, dtypes, warm)
    run(blocks, outs)
    return results


def long_rows(
    blocks: Sequence[Array], spans: Sequence[int], dtypes: Sequence[np.dtype[Any]], warm: int
) -> tuple[list[Array], list[Array], list[Array]]:
    """Say what to compute to get the ends: fields, outputs, and the results these lie in."""
    shape = blocks[0].shape
    rows, width, span = shape[-2] - spans[-2], shape[-1], spans[-1]
    lead = shape[:-2]
    if len(lead) > 1:
        lead = (shape[0], *(n - s for n, s in zip(shape[1:-2], spans[:-2], strict=True)))
    if warm > FLAT_ROWS:
        results: list[Array] = [empty((*lead, rows, width - span), d) for d in dtypes]
        return list(blocks), results, results
    long = rows * width
    flat: list[Array] = [
        np.ndarray((*shape[:-2], spans[-2] + 1, long), block.dtype, block, 0, block.strides)
        for block in blocks
    ]
    results = [empty((*lead, rows, width), dtype) for dtype in dtypes]
    outs = [result.reshape(*lead, 1, long)[..., : long - span] for result in results]
    return flat, outs, results
