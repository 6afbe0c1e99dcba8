"""Looping: what every back end asks of a window that it loops over at each point.

sum of x * w over 31 x 31, w with zeros    ->    which elements matter, what they can be, and
                                                 which type holds their sum
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping

from ..analysis.footprint import alike, zero_product
from ..analysis.ranges import Interval, bound, interval
from ..language.dtypes import DType
from ..language.ir import Const, Reduce, Weight
from .machine import machine_type

# Different weights of a window, from which on each is no longer looked at by itself.
MANY = 512

# Elements of a line that are added one to the other, where a line is longer than two such pieces.
PIECE = 16


def bounds_inside(
    reduce: Reduce, known: Mapping[str, Interval], arrays: Mapping[str, Interval]
) -> dict[str, Interval]:
    """Bound the assignments inside a window over all of its positions."""
    values = {assign.name: assign.value for assign in reduce.body}
    joined: dict[str, Interval] = {}
    positions = alike(reduce)[0]
    weights: dict[str, Interval] = {}
    if len(positions) > MANY:
        # All weights at once: what follows from their range holds for each.
        weights = {name: of_weights(w) for name, w in values.items() if isinstance(w, Weight)}
        positions = positions[:1]
    for position in positions:
        inner = dict(known)
        for assign in reduce.body:
            one = weights.get(assign.name)
            one = one or bound(assign.value, inner, arrays, values, position)
            inner[assign.name] = one
            joined[assign.name] = joined.get(assign.name, one) | one
    return joined


def of_weights(weight: Weight) -> Interval:
    """The range of constant weights."""
    found = {text: interval(Const(weight.dtype, text), {}) for text in set(weight.texts)}
    return functools.reduce(operator.or_, found.values())


def live(reduce: Reduce) -> list[bool]:
    """Which positions have reads that matter; empty where all do.

    Others are of elements that constant weights make zero.
    """
    values = {assign.name: assign.value for assign in reduce.body}
    first, kinds = alike(reduce)
    found = [
        not any(zero_product(value, values, position) for value in values.values())
        for position in first
    ]
    return [] if all(found) else [found[kind] for kind in kinds]


def total_type(reduce: Reduce, item: Interval, least: int = 8) -> str:
    """The type of the sum that a mean is made of, for elements that lie in `item`."""
    if not reduce.result.dtype.is_integer:
        return str(reduce.dtype.value)
    count = math.prod(reduce.shape)
    dtype = DType.UINT if reduce.result.dtype is DType.UINT else DType.INT
    total = Interval(min(0, item.low * count), max(0, item.high * count))
    if total.low < -(2**63) or total.high >= 2**63:
        return "uint64" if dtype is DType.UINT else "int64"
    return machine_type(dtype, total, least)
