"""Ranks as the filters of images count them: a function that only kernels call.

    ranked(x[-1:2], 30)     ->     of the n elements that are no NaN, that at int(n * 30 / 100)

NumPy has no name for this rule: it is that of `scipy.ndimage.percentile_filter`.
"""

from __future__ import annotations

from typing import Any


def ranked(window: Any, percentage: float) -> Any:
    """Give the element at `int(n * percentage / 100)` of the n that are no NaN, or the last.

    Raises
    ------
    TypeError
        Outside of a kernel: the kernel's reading, and the reference, have it of their own.
    """
    raise TypeError("ranked() stands for an operation of kernels; nothing else calls it.")
