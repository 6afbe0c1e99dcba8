"""Turns: of which arrays several rows of the result are made in one turn of the loop.

    far = out0.nbytes >= 1048576
    many = 0 if far and 400 < 4 * n < LONG_ROW else out0.shape[1] // 3 * 3

Rows that are made together share loads and operations, which pays where the arrays are in cache.
From memory, one row after the other is one long stream, and three at once are six short ones,
which the processor does not foresee: with Laplace and Sobel operators, extremes and weighted sums
of 3 x 3 one row at a time took 0.75 to 0.95 of the time (1000 to 4000 columns, 8 to 64 bits,
Sapphire Rapids).  What is computed in between hides that, if memory is asked early enough:

    if out0.nbytes >= 1048576:
        fetch(row(x, (b, min(i + 6, x.shape[1] - 1))), n)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...language.ir import Kernel
from ...lowering.abreast import effort

# Bytes of a result from which on it counts as far.
NEAR = 1 << 20

# How many rows after those of this turn memory is asked for: means and sharpening of 3 x 3 took
# 0.7 of the time with 400 and 1000 columns of 8, 16 and 32 bits, medians 0.8 to 1, and all as long
# as before with 4096 columns.  Asked for 4 rows ahead, 400 columns of 32 bits took 1.1 (Zen 5).
AHEAD = 2

# What is computed for each byte that is read or written, from which on memory is fast enough:
# medians of 3 x 3 have 25 to 31 and lost up to a quarter one by one, those above 5 to 21.
HEAVY = 24

# Bytes of a row up to which rows are too short to be foreseen one by one: extremes of 2000 x 40 x
# 40 lost up to two fifths.
NARROW = 400

# Columns below which rows of bytes are made one by one, where the other way keeps rows of stages:
# Sobel lost up to a quarter with 16, all others won with 80.
LEAST = 80


def one_by_one(kernel: Kernel, together: Kernel | None, dtypes: Sequence[np.dtype]) -> str:
    """For which arrays rows are made one after the other, as a condition on `n` and `far`.

    `together` is what makes several rows where the kernel itself does not; the results are stored
    as `dtypes`.
    """
    if together is None and kernel.stages:
        # Stages that several rows share gain by it with all arrays: a Gaussian of 5 x 5 float32
        # took 0.7 to 0.95 of the time, of 1600 x 100 x 100 alone 1.1.
        return ""
    moved = [dtype.itemsize for _, dtype in kernel.fields] + [dtype.itemsize for dtype in dtypes]
    if effort(replace(together or kernel, rows=1)) >= HEAVY * sum(moved):
        return ""
    size = max(dtype.itemsize for _, dtype in kernel.fields)
    row = "n" if size == 1 else f"{size} * n"
    far = f"far and {NARROW} < {row} < LONG_ROW"
    return f"n < {LEAST} or ({far})" if kernel.stages and size == 1 else far
