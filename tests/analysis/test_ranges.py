"""What the analyses promise: a range holds every value, a pass changes none, a type fits."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import numpy as np
import pytest

import agreement
import interpret
import ninepoint as npt
from ninepoint.analysis.ranges import I64, Interval, holds, interval, ranges, smallest_integer
from ninepoint.arrays import accepted
from ninepoint.language.dtypes import DType
from ninepoint.language.ir import Length
from thorough import only

KERNELS = 350
BATCH = 50
POINTS = 12


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


def compiled_stages(drawn: agreement.Drawn) -> Any:
    stencil = drawn.stencil
    dtypes = [accepted.native(drawn.arrays[name].dtype) for name in stencil.fields]
    defaults = stencil.defaults
    others = {n: drawn.values.get(n, defaults.get(n)) for n in stencil.scalars}
    _, stages, _ = stencil.definition.compiled(dtypes, others)
    return stages, others


def named(items: Any, parameters: Any, values: dict[Any, Any]) -> dict[str, Any]:
    """Values by the names that the kernel has for its parameters."""
    return {i[0]: values[p] for i, p in zip(items, parameters, strict=True)}


def inside(value: Any, one: Any, dtype: DType) -> bool:
    if dtype.is_complex:
        return True
    if value != value:
        return one.nan
    return one.low <= value <= one.high


def assigned(kernel: Any) -> dict[str, DType]:
    return {a.name: a.value.dtype for a in kernel.body}


@pytest.mark.parametrize("first", only(3, range(200_000, 200_000 + KERNELS, BATCH)))
def test_every_value_is_in_its_range_and_no_pass_changes_the_result(first):
    for seed in range(first, first + BATCH):
        drawn = agreement.draw(seed)
        stages, others = compiled_stages(drawn)
        # What depends on positions is computed before, from those that there can be.
        if stages is None or stages.simplified.positions:
            continue
        rng = Random(seed)
        dtypes = dict(stages.simplified.fields)
        one = stages.compiled
        others |= {Length(k): rng.choice([0, 1, 9, 2**31, 2**63 - 1]) for k in range(one.ndim)}
        scalars = named(stages.simplified.scalars, one.scalars, others)
        arrays = named(stages.simplified.coefficients, one.coefficients, others)
        for point in range(POINTS):
            look = Around(rng, dtypes, same=point == 0)
            results = []
            for kernel in (stages.simplified, stages.lowered):
                known = ranges(kernel)
                values, outputs = interpret.Point(kernel, look, scalars, arrays).run()
                results.append(outputs)
                for name, dtype in assigned(kernel).items():
                    message = f"{name} = {values[name]!r}, not in {known[name]}\n{drawn.case}"
                    assert inside(values[name], known[name], dtype), message
            for before, after in zip(*results, strict=True):
                if isinstance(before, int):
                    assert before == after, f"{before} becomes {after}\n{drawn.case}"


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
    _, stages, _ = npt.stencil(function).definition.compiled([storage], {})
    kernel = stages.simplified
    (found,) = stages.compiled.out_dtypes
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
