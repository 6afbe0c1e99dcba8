"""Wide averages: what might not fit in 64 bits as a sum of integers is added as floats.

    mean of x over 3, x of int64      ->      mean of float64(x) over 3

A sum of integers wraps, but its mean and its variance are floats, which do not; nor does a sum
that is wanted as a float.  Where the
sum is known to fit it stays one of integers: exact, and in narrow lanes.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..analysis.ranges import Interval, holds, of_storage, ranges, window_ranges
from ..language.dtypes import DType
from ..language.ir import Assign, Cast, Kernel, Reduce, Ref

_AVERAGES = ("mean", "var")


def widened(kernel: Kernel) -> Kernel:
    """Average as floats where the sum of integers might wrap."""
    known = ranges(kernel)
    arrays = {name: of_storage(dtype) for name, dtype in kernel.fields}
    arrays |= {name: of_storage(dtype) for name, dtype, _ in kernel.coefficients}
    body = []
    for assign in kernel.body:
        expr = assign.value
        if (
            isinstance(expr, Reduce)
            and (expr.kind in _AVERAGES or expr.dtype.is_float)
            and expr.result.dtype in (DType.INT, DType.UINT)
        ):
            items = window_ranges(expr, known, arrays)
            count = math.prod(expr.shape)
            largest = max(max(abs(item.low), abs(item.high)) for item in items) * count
            if not holds(expr.result.dtype.numpy, Interval(0, largest)):
                wide = Assign(f"wide_{assign.name}", Cast(expr.dtype, expr.result))
                result = Ref(expr.dtype, wide.name)
                expr = replace(expr, body=(*expr.body, wide), result=result)
        body.append(Assign(assign.name, expr))
    return replace(kernel, body=tuple(body))
