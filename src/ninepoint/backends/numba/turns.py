"""Turns: of which arrays several rows of the result are made in one turn of the loop.

    far = out0.nbytes > 1048576
    many = 0 if far and 30 < n < 500 else out0.shape[1] // 3 * 3

Rows that are made together share loads and operations, which always pays where the arrays are in
cache.  From memory, one row after the other is one long stream where rows follow each other, and
three at once are six short ones, which the processor does not foresee.

All was measured on one core of a Zen 5: sums, means, extremes, Sobel and Laplace operators and
the game of life in windows of 3 x 3, of 8 to 64 bits, images of 16 to 20,000 columns and stacks
of 16 MB with 32 to 1000; what is said to win took 0.5 to 0.95 of the other's time.
"""

from __future__ import annotations

from dataclasses import replace

from ...language.ir import Kernel
from ...lowering.abreast import effort

# Bytes of a result from which on it counts as far.
NEAR = 1 << 20

# Of far arrays, rows of more bytes than these are made one by one (the second number is for what
# stays in bytes: extremes and medians of 600 x 160 x 160 took 0.7 of the time three at once) ...
NARROW, NARROW_BYTES = 120, 200

# ... and of fewer than these: bytes, wider integers and floats.  (Sobel and mean of 16 x 1000 x
# 1000 uint16 took 0.7 and 0.9 of the time three at once, of bytes 1.2.)
SHORT_BYTES, SHORT_INTEGERS, SHORT_FLOATS = 2000, 1500, 1990

# Where hardly less is left of the work, far rows of 8 and 16 bits are made one by one however
# long they are: Laplace operators and life lost up to a fifth, and nothing was won (3000 to 20,000
# columns).  That is the part of the effort from which on; those above have 0.6 to 0.7, these 0.81
# and more.
LIGHT, LIGHT_SIZE = 0.78, 2

# Where the other way keeps rows of stages for rows of bytes, fewer columns are made one by one:
# Sobel lost up to a quarter with 16, all others won with 80.  So are far rows that lie a multiple
# of 4096 bytes apart, which all fall into few sets of the first cache, as long as the other way
# stays in that cache: a mean of 4096 x 4096 lost an eighth, of 8192 x 8192 it took half the time.
LEAST = 80
APART = 4096
LONG = 6000


def one_by_one(kernel: Kernel, together: Kernel | None, field: str) -> str:
    """For which arrays rows are made one after the other, as a condition on `n` and `far`.

    `field` is the name of one of the arrays that are read; `together` is what makes several rows
    where the kernel itself does not.
    """
    if together is None and kernel.stages:
        # Stages that several rows share gain by it with all arrays: a Gaussian of 5 x 5 float32
        # took 0.7 to 0.95 of the time, of 1600 x 100 x 100 alone 1.1.
        return ""
    size = max(dtype.itemsize for _, dtype in kernel.fields)
    several = together or kernel
    light = effort(several) > LIGHT * effort(replace(several, rows=1))
    if light and size <= LIGHT_SIZE:
        return f"far and n > {NARROW // size}"
    if not kernel.outputs[0].dtype.is_integer:
        short = SHORT_FLOATS
    else:
        short = SHORT_BYTES if size == 1 else SHORT_INTEGERS
    if together is None or not kernel.stages or size > 1:
        narrow = NARROW_BYTES if together is None and size == 1 else NARROW // size
        return f"far and {narrow} < n < {short // size}"
    aligned = f"n < {LONG} and {field}.strides[{kernel.ndim - 1}] % {APART} == 0"
    return f"n < {LEAST} or (far and (n < {short} or ({aligned})))"
