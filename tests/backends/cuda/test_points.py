"""What a GPU's text computes, by the emulator, is what the reference says.

A longer run over other seeds is `python tests/backends/cuda/test_points.py FIRST LAST`.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import agreement
import emulator
import launching
import ninepoint as npt
from launching import Given
from ninepoint.arrays.borders import RULES
from ninepoint.lowering.schedule import Schedule

pytestmark = pytest.mark.skipif(emulator.GXX is None, reason="needs g++")

SEEDS = range(700_000, 700_024)

# Nothing is written out, or done in stages.
LOOPS = Schedule(unrolled=0, network=0, sorted_columns=0)


def drawn_numbers(dtype, shape, seed=0):
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return random.integers(info.min, info.max, shape, kind, endpoint=True)
    values = random.normal(0, 3, shape)
    if kind.kind == "c":
        values = values + 1j * random.normal(0, 3, shape)
    return values.astype(kind)


def wrong(first, last, define=()):
    """The seeds of kernels that differ from the reference."""
    drawn = [agreement.draw(seed) for seed in range(first, last)]
    found = []
    programs = launching.emulated(drawn, define, longest=0)
    for seed, one, program in zip(range(first, last), drawn, programs, strict=True):
        if program is None:
            continue  # the general path
        try:
            with np.errstate(all="ignore"):
                made = program(launching.fields_of(one))
                agreement.compare(one, made, agreement.expected(one))
        except AssertionError as error:
            found.append((seed, str(error)))
    return found


def test_random_kernels_agree_with_the_reference():
    assert wrong(SEEDS.start, SEEDS.stop) == []


def test_distances_of_64_bits_give_the_same():
    assert wrong(710_000, 710_008, ["NPT_INDEX=long long"]) == []


def skew(x):
    return x[-2, 1] + 2 * x[1, -1] - 3 * x[0, 3], x[0, 0] - x[0, 1]


def wide(x):
    return (x[-3:4, -2:3] * np.arange(35.0).reshape(7, 5)).sum()


def pairs_of_rules():
    """Every pair of rules along one of two axes, on arrays smaller than the reach."""
    pairs = [p for p in itertools.product(RULES, RULES) if (p[0] == "wrap") == (p[1] == "wrap")]
    for k, pair in enumerate(pairs):
        other = pairs[(7 * k + 3) % len(pairs)]
        boundary = (pair, other) if k % 4 < 2 else (other, pair)
        # There is a field to keep for one output only.
        two = k % 3 == 0 and "keep" not in (*pair, *other)
        one = npt.stencil(skew if two else wide if k % 3 == 1 else (lambda x: skew(x)[0]))
        shapes = ((1, 1), (2, 5), (6, 4))
        arrays = [drawn_numbers("int16", shape, k) for shape in shapes]
        yield [Given(one, {"x": x}, boundary) for x in arrays]


KINDS = {
    "sum": lambda x: x[-1:2, -1:2].sum(),
    "prod": lambda x: x[-1:2, -1:2].prod(),
    "mean": lambda x: x[-1:2, -1:2].mean(),
    "var": lambda x: x[-1:2, -20:20].var(),
    "min": lambda x: x[-1:2, -1:2].min(),
    "max": lambda x: x[-1:2, -1:2].max(),
    "any": lambda x: (x[-1:2, -1:2] > 40).any(),
    "all": lambda x: (x[-1:2, -1:2] > -40).all(),
    "argmin": lambda x: x[-1:2, -1:2].argmin(),
    "argmax": lambda x: x[-1:2, -1:2].argmax(),
    "median": lambda x: np.median(x[-1:2, -1:2]),
    "low": lambda x: np.quantile(x[-2:3, -1:2], 0.2),
    "high": lambda x: np.percentile(x[-2:2, -1:2], 90),
    "nanmedian": lambda x: np.nanmedian(x[-1:2, -1:2] / 3),
    "nanhigh": lambda x: np.nanpercentile(x[-1:2, -1:2] / 3, 90),
    "part": lambda x: x[-1:2, -1:2].mean(where=x[-1:2, -1:2] > 3),
    "weighed": lambda x: (x[-1:2, -1:2] * np.array([[1, 2.5, 0], [0, 7, 1], [1 / 3, 0, 9]])).sum(),
}


def windows_that_are_loops(dtype):
    for name, function in KINDS.items():
        x = drawn_numbers(dtype, (5, 7), len(name))
        if x.dtype.kind == "f" and name != "var":
            x[1, 2], x[4, 4] = np.nan, -np.inf
        yield [Given(npt.stencil(schedule=LOOPS)(function), {"x": x}, "reflect")]


def large_windows_by_ranks():
    """The CPU slides histograms along a row, and sums down the rows."""
    median = npt.stencil(lambda x: np.median(x[-4:5, -3:4]))
    yield [Given(median, {"x": drawn_numbers("uint8", (9, 11))}, "mirror")]
    yield [Given(median, {"x": drawn_numbers("int16", (7, 6))}, "constant")]
    ball = npt.shapes.ball(1)
    around = npt.stencil(schedule=LOOPS)(lambda x: np.quantile(x[-1:2, -1:2, -1:2][ball], 0.3))
    volume = drawn_numbers("float32", (4, 5, 6))
    volume[1, 2, 3] = np.nan
    yield [Given(around, {"x": volume}, "mirror")]
    quarter = npt.stencil(lambda x: np.quantile(x[-35:25], 0.25))
    yield [Given(quarter, {"x": drawn_numbers("int8", (90,))}, "wrap")]
    mean = npt.stencil(lambda x: np.uint8(x[-15:16, -9:10].mean()))
    yield [Given(mean, {"x": drawn_numbers("uint8", (20, 13))}, "nearest")]


def stacks_that_are_broadcast():
    def kernel(a, b):
        return a[-1, 0] - b[0, 1]

    def volume(a):
        return a[-1, 0, 1] + a[1, 1, -1]

    a, b = drawn_numbers("float32", (2, 3, 2, 5, 6)), drawn_numbers("int8", (3, 1, 5, 6))
    one = npt.stencil(kernel)
    yield [
        Given(one, {"a": a, "b": b}, "reflect"),
        Given(one, {"a": a[:0], "b": b}, "reflect"),
        Given(one, {"a": a[0], "b": b[0, :, :1, :1]}, "reflect"),
    ]
    yield [Given(one, {"a": a[0, 0], "b": b}, "valid")]
    yield [Given(one, {"a": a[0], "b": b[0, :, :1, :1]}, ("fill", "constant"))]
    yield [Given(one, {"a": a[..., :1, :], "b": b[..., :1]}, "keep")]
    yield [Given(npt.stencil(volume), {"a": a}, "mirror")]


def lengths_scalars_and_arrays_that_are_read_absolutely():
    def middle(x, int, double=2, *, threadIdx=1.5):
        return x[-1] * int + len(x) * double + threadIdx

    def weighted(x, w, M_PI, __syncthreads):
        return (x[-1:2] * w).sum() + M_PI[2] * __syncthreads

    x = drawn_numbers("int32", (2, 9))
    arrays = {
        "x": x,
        "w": np.array([0.5, 1.5, 2.5], "float16"),
        "M_PI": np.array([True, False, True]),
    }
    one = npt.stencil(standard_indexing=("w", "M_PI"))(weighted)
    yield [Given(npt.stencil(middle), {"x": x}, "nearest", {"int": 3, "double": 5})]
    yield [Given(one, arrays, "wrap", {"__syncthreads": math.pi})]


def numbers_of_odd_types():
    def casts(x):
        return np.uint8(x[0]), np.int16(x[0] * 1.7), np.float16(x[1]), np.uint64(x[0]), x[0] != 0

    def whole(x, k):
        return x[-1] // k, x[1] % k, x[0] // -5, x[0] % 12, x[0] << (k & 77), x[0] >> k, x[0] ** 3

    def complex_numbers(z):
        return z[-1] * np.conj(z[0]) - 2j / z[1], abs(z[0]), z[0] == z[1], np.exp(z[0] / 50)

    for dtype in ("int64", "uint64", "float16", "bool"):
        yield [Given(npt.stencil(casts), {"x": drawn_numbers(dtype, (9,))}, "mirror")]
    for k, dtype in enumerate(("int64", "uint64", "uint8", "int32")):
        x = drawn_numbers(dtype, (9,))
        yield [Given(npt.stencil(whole), {"x": x}, "fill", {"k": v}) for v in (k, 7, -1, 0)]
    z = drawn_numbers("complex64", (9,))
    yield [Given(npt.stencil(complex_numbers), {"z": z}, "constant")]
    half = npt.stencil(lambda x: (1.5, np.median(x[-40:41])), dtype=("float16", "float16"))
    yield [Given(half, {"x": drawn_numbers("float16", (50,))}, "reflect")]
    far = npt.stencil(lambda x: x[-1, 0, 0, 100, 0] - x[0, 0, 2, 0, -3])
    yield [Given(far, {"x": drawn_numbers("int16", (2, 3, 2, 3, 4))}, "mirror")]


def values_that_are_kept():
    """What "keep" keeps, as it is and of another type."""
    for before in ("float16", "float32", "int8", "bool"):
        for after in ("float16", "float64", "complex64"):
            one = npt.stencil(lambda x: x[-1, 0] - x[0, 1] * 1.0, dtype=after)
            yield [Given(one, {"x": drawn_numbers(before, (4, 5))}, "keep")]


def test_kernels_by_hand_give_the_bits_of_the_cpu():
    """All in one run of g++; those of a group are one text for several arrays."""
    groups = [
        *pairs_of_rules(),
        *(group for d in ("float32", "int8", "uint64") for group in windows_that_are_loops(d)),
        *large_windows_by_ranks(),
        *stacks_that_are_broadcast(),
        *values_that_are_kept(),
        *numbers_of_odd_types(),
        *lengths_scalars_and_arrays_that_are_read_absolutely(),
    ]
    programs = launching.emulated([group[0] for group in groups], longest=0)
    for group, program in zip(groups, programs, strict=True):
        for one in group:
            program.values = {**program.values, **one.values}
            with np.errstate(all="ignore"):
                made = program(launching.fields_of(one), 4)
                agreement.compare_exactly(made, agreement.by_text(one, 4))


def main(first, last):
    """Compare many kernels, a hundred at a time, and say which differ."""
    found = []
    for start in range(first, last, 100):
        found += wrong(start, min(start + 100, last))
        print(f"{start}: {found}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
