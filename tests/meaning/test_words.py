"""uint64, whose differences are int64, and what may wrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ninepoint as npt

words = np.array([0, 5, 3, 2**63 - 1, 7, 2**40, 2, 9], dtype=np.uint64)
signed = np.array([-3, 5, 0, 2**62, -7, 1, -(2**62), 4])
weights = np.array([-1, 0, 1])


@npt.stencil(boundary="reflect")
def differences(x):
    return x[1] - x[-1], -x[0], x[0] - 7, 7 - x[0], x[1] - 2 * x[0] + x[-1]


@npt.stencil(boundary="reflect")
def mixed(x, y):
    return x[0] + y[0], x[0] * y[1], x[1] + -3, y[0] - x[0], x[0] if y[0] > 0 else y[1]


@npt.stencil(boundary="reflect")
def windows(x):
    return (x[-1:2] * weights).sum(), (x[-1:2] - x[0]).max(), abs(x[1] - x[0]), x[-1:2].ptp()


@npt.stencil(boundary="reflect")
def divided(x, y):
    return x[0] // y[0], x[0] % y[0], y[0] // x[1], y[0] % x[1], (x[1] - x[0]) // x[0]


@npt.stencil(boundary="reflect")
def modular(x):
    return x[0] + x[1], x[0] * 3 + x[1], (x[-1:2] * abs(weights)).sum(), x[0] ** 2, x[0] // 2 + 1


def test_differences_are_signed() -> None:
    """sobel(g).max() of a sum of bytes, which NumPy makes uint64, was 18446744073709551615."""
    exact = [int(value) for value in words]
    for kernel, fields, dtype in (
        (differences, (words,), "int64"),
        (mixed, (words, signed), "int64"),
        (windows, (words,), None),
        (divided, (words, signed), None),
        (modular, (words,), "uint64"),
    ):
        for made, wanted in zip(kernel(*fields), kernel.debug(*fields), strict=True):
            assert made.dtype == wanted.dtype
            assert dtype in (None, made.dtype.name)
            np.testing.assert_array_equal(made, wanted)
    assert [made.dtype.name for made in windows(words)] == ["int64"] * 3 + ["uint64"]
    kinds = [made.dtype.name for made in divided(words, signed)]
    assert kinds == ["int64", "int64", "int64", "uint64", "int64"]
    first, negated, *_, second = differences(words)
    assert first[1:-1].tolist() == [b - a for a, b in zip(exact[:-2], exact[2:], strict=True)]
    assert negated.tolist() == [-value for value in exact]
    assert second[1] == -7
    assert differences(words.astype(np.uint64) + np.uint64(2**63))[0][1] == 3


@pytest.mark.parametrize("name", ["sobel", "prewitt", "laplace"])
def test_filters_of_words(name: str) -> None:
    """They are those of the same numbers as int64."""
    image = np.random.default_rng(2).integers(0, 1000, (9, 12))
    made = getattr(npt.filters, name)(image.astype(np.uint64))
    assert made.dtype == np.int64
    np.testing.assert_array_equal(made, getattr(npt.filters, name)(image))


@pytest.mark.parametrize("opaque", [False, True])
def test_comparisons_and_extremes_stay_exact(opaque: bool) -> None:
    @npt.stencil(boundary="wrap")
    def choices(x, y):
        k = 0
        while opaque and k < 2:
            k += 1
        a, b = x[0], y[0]
        return a > b, min(a, b), max(a, b), np.clip(a, -5, 100), b < a - a

    great = words + np.uint64(2**63)
    for x in (words, great):
        for made, wanted in zip(choices(x, signed), choices.debug(x, signed), strict=True):
            assert made.dtype == wanted.dtype
            np.testing.assert_array_equal(made, wanted)


def test_the_general_tier() -> None:
    @npt.stencil(boundary="nearest", neighborhood=((-2, 2),))
    def slopes(x, y):
        total, steps, sums, k = 0, 0, 0, -1
        while k < 2:
            total += x[k + 1] - x[k]
            steps = steps + x[k] * y[k]
            sums += x[k]
            k += 1
        return total, steps, sums, -x[0], x[1] // y[0], y[0] % x[1], x[0] + y[0], x[0] + 3

    made, wanted = slopes(words, signed), slopes.debug(words, signed)
    kinds = ["int64", "int64", "uint64", "int64", "int64", "uint64", "int64", "uint64"]
    for one, other, kind in zip(made, wanted, kinds, strict=True):
        assert one.dtype.name == other.dtype.name == kind
        np.testing.assert_array_equal(one, other)


def test_explain_tells_what_may_wrap() -> None:
    @npt.stencil
    def power(x):
        return abs(x[0] - x[1]) ** 2

    shown = power.explain(np.zeros(4, "int32"))
    assert "an operation may wrap beyond 64 bits" in shown
    assert "may wrap" not in power.explain(np.zeros(4, "int16"))
    shown = differences.explain(words)
    assert "an operation may wrap beyond 64 bits" in shown
    window = npt.stencil(lambda x: x[-1:2].sum())
    assert "an operation may wrap" in window.explain(np.zeros(4, "int64"))
    assert "may wrap" not in window.explain(np.zeros(4, "int32"))


factors = np.array([4, 4])


@npt.stencil(boundary="wrap")
def scaled(x):
    return (factors * x[-1:1]).max(), (x[-1:1] * factors).min()


def test_constants_that_are_not_negative_leave_words_words() -> None:
    x = np.random.default_rng(0).integers(0, 2**64 - 1, 30, dtype=np.uint64)
    product = x * np.uint64(4)
    pair = np.stack([np.roll(product, 1), product])
    for made in (scaled(x), scaled.debug(x)):
        np.testing.assert_array_equal(made[0], pair.max(0))
        np.testing.assert_array_equal(made[1], pair.min(0))


@pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")
def test_whole_numbers_of_words_on_the_general_path() -> None:
    @npt.ufunc
    def kernel(x):
        total = 0
        while True:
            for _ in range(3):
                if x > 2:
                    total += int(x)
            return total, math.floor(x), math.trunc(x), 3 - total

    x = np.array([2**63 + 1025, 2**53 + 1, 7, 0], np.uint64)
    for made, wanted in zip(kernel(x), kernel.debug(x), strict=True):
        assert made.dtype == wanted.dtype
        np.testing.assert_array_equal(made, wanted)
