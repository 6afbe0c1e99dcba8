"""What the analysis of ranges promises: a range holds every value, and a type fits."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import interpret
import numpy as np
import pytest
from test_passes import arguments, drawn

import ninepoint as npt
from nightly import only
from ninepoint.analysis.ranges import I64, Interval, holds, interval, ranges, smallest_integer
from ninepoint.language.ir import DType
from seams import passes_of

KERNELS = 200
BATCH = 25
POINTS = 8


def extreme(rng: Random, dtype: np.dtype) -> Any:
    """A number of a storage type, more often than not one at the end of something."""
    if dtype.kind == "b":
        return rng.random() < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        near = rng.randint(max(low, -3), 3)
        return rng.choice([low, high, low + 1, high - 1, near, rng.randint(low, high)])
    number = rng.choice([0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 3e4, -7.25])
    number = number if rng.random() < 0.5 else rng.gauss(0, 30)
    return dtype.type(complex(number, rng.gauss(0, 3)) if dtype.kind == "c" else number)


class Around:
    """Fields that are drawn while they are looked at."""

    def __init__(self, rng: Random, dtypes: dict[str, np.dtype], same: bool) -> None:
        self.rng, self.dtypes, self.same = rng, dtypes, same
        self.known: dict[Any, Any] = {}

    def __call__(self, name: str, offset: tuple[int, ...]) -> Any:
        key = name if self.same else (name, offset)
        if key not in self.known:
            self.known[key] = extreme(self.rng, self.dtypes[name])
        return self.known[key]


def inside(value: Any, one: Any, dtype: DType) -> bool:
    if dtype.is_complex:
        return True
    if value != value:
        return one.nan
    return one.low <= value <= one.high


@pytest.mark.parametrize("first", only(2, range(200_000, 200_000 + KERNELS, BATCH)))
def test_every_value_is_in_its_range(first):
    for seed in range(first, first + BATCH):
        stencil, passes, case, given = drawn(seed)
        kernels = [passes.kernels[name] for name in ("simplified", "lowered")]
        # What depends on positions is computed before, from those that there can be.
        if kernels[0].positions:
            continue
        rng = Random(seed)
        dtypes = dict(kernels[0].fields)
        scalars, tables = arguments(stencil, case, given)
        scalars += [rng.choice([0, 1, 9, 2**31, 2**63 - 1]) for _ in kernels[0].lengths]
        numbers = dict(zip([name for name, _ in kernels[0].scalars], scalars, strict=True))
        arrays = dict(zip([name for name, *_ in kernels[0].coefficients], tables, strict=True))
        for point in range(POINTS):
            look = Around(rng, dtypes, same=point == 0)
            for kernel in kernels:
                known = ranges(kernel)
                values, _ = interpret.Point(kernel, look, numbers, arrays).run()
                for assign in kernel.body:
                    name, dtype = assign.name, assign.value.dtype
                    message = f"{name} = {values[name]!r}, not in {known[name]}\n{case}"
                    assert inside(values[name], known[name], dtype), message


# The type of the result.


def limited(x):
    return max(-5, min(x[0] * 3, 100))


def clamped(x):
    v = x[1] - x[-1]
    return v if v > 0 else 0


CORNERS = {
    "difference": (lambda x: x[1] - x[-1], True),
    "sum": (lambda x: x[0] + x[1] + x[2], True),
    "product": (lambda x: x[0] * x[1], True),
    "square": (lambda x: x[0] * x[0], True),
    "scaled": (lambda x: 3 * x[0] - 2 * x[1], True),
    "average": (lambda x: (x[0] + x[1]) // 2, True),
    "shifted": (lambda x: (x[0] << 2) + 1, True),
    "halved": (lambda x: x[0] >> 1, True),
    "negative": (lambda x: -x[0], True),
    "inverted": (lambda x: ~x[0], True),
    "distance": (lambda x: abs(x[0] - x[1]), True),
    "greater": (lambda x: max(x[0], x[1] // 4), True),
    "rest": (lambda x: x[0] % 11, False),
    "limited": (limited, True),
    "clamped": (clamped, True),
    "counted": (lambda x: (x[0] > 3) + (x[1] > 5) + (x[2] > 7), True),
    "window": (lambda x: x[-1:2].sum(), True),
    "weighted": (lambda x: (x[-1:2] * np.array([1, -2, 1])).sum(), True),
    "power": (lambda x: x[0] ** 3, True),
    "bits": (lambda x: x[0] & 12, False),
    "rounded": (lambda x: round((x[0] + x[1]) / 3), True),
    "constant": (lambda x: x[0] * 0 + 300, True),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int32", "bool"])
@pytest.mark.parametrize("name", list(CORNERS))
def test_the_result_has_the_smallest_type(name, dtype):
    """The type holds what every corner gives; where no corner is missing, none is smaller."""
    function, tight = CORNERS[name]
    storage = np.dtype(dtype)
    if storage.kind == "b" and name in ("negative", "shifted", "halved", "inverted"):
        return
    passes = passes_of(npt.stencil(function), storage)
    kernel = passes.kernels["simplified"]
    (found,) = passes.dtypes
    (output,) = kernel.outputs
    ends = [0, 1] if storage.kind == "b" else [np.iinfo(storage).min, np.iinfo(storage).max, 0]
    values = []
    for corner in itertools.product([int(e) for e in ends], repeat=3):
        _, (value,) = interpret.Point(
            kernel, lambda _, offset, corner=corner: corner[offset[0] % 3], {}, {}
        ).run()
        values.append(int(value))
    reached = Interval(min(values), max(values))
    known = interval(output, ranges(kernel))
    assert holds(found, reached) or found.kind == "b"
    if known == I64:
        return  # it wraps, and so reaches anything
    if tight and found not in (storage, np.dtype("bool")):
        assert found == smallest_integer(reached)
    if found != storage and storage.kind in "iu":
        assert not holds(storage, known)
