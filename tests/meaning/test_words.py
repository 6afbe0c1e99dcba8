"""uint64, whose differences are int64, what may wrap, and floats that are stored as integers."""

import math
from typing import Any

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt
from compared import agree, alike, refuses

words = np.array([0, 5, 3, 2**63 - 1, 7, 2**40, 2, 9], dtype=np.uint64)
great = words + np.uint64(2**63)
signed = np.array([-3, 5, 0, 2**62, -7, 1, -(2**62), 4])
weights = np.array([-1, 0, 1])
factors = np.array([4, 4])
LARGE = np.uint64(2**63 + 1)


@npt.stencil(boundary="reflect")
def differences(x):
    return x[1] - x[-1], -x[0], x[0] - 7, 7 - x[0], x[1] - 2 * x[0] + x[-1]


def mixed(x, y):
    return x[0] + y[0], x[0] * y[1], x[1] + -3, y[0] - x[0], x[0] if y[0] > 0 else y[1]


def windows(x):
    return (x[-1:2] * weights).sum(), (x[-1:2] - x[0]).max(), abs(x[1] - x[0]), x[-1:2].ptp()


def divided(x, y):
    return x[0] // y[0], x[0] % y[0], y[0] // x[1], y[0] % x[1], (x[1] - x[0]) // x[0]


def modular(x):
    return x[0] + x[1], x[0] * 3 + x[1], (x[-1:2] * abs(weights)).sum(), x[0] ** 2, x[0] // 2 + 1


def extremes(x, y):
    least = min(x[0], y[0])
    return (
        least, least - 5, max(x[0], y[0]), np.minimum(x[0:2], y[0:2]).min(),
        np.maximum(x[0:2], y[0:2]).max(), (x[0:2] > y[0:2]).sum(), x[0] < y[0] <= 5,
        np.clip(x[0], -5, -1), np.clip(y[0], -1, x[0]), y[0] < x[0] - x[0],
    )  # fmt: skip


def at_the_end(x):
    return x[0] + 2**63, max(x[0], 2**64 - 2), x[0] // 2**63, x[0] > 2**63, x[0] == LARGE


def scaled(x):
    """Constants that are not negative leave words words."""
    return (factors * x[-1:1]).max(), (x[-1:1] * factors).min()


@npt.stencil(neighborhood=((-2, 2),))
def looping(x, y):
    total, steps, sums, k = 0, 0, 0, -1
    while k < 2:
        total += x[k + 1] - x[k]
        steps = steps + x[k] * y[k]
        sums += x[k]
        k += 1
    return total, steps, sums, -x[0], x[1] // y[0], y[0] % x[1], x[0] + y[0], x[0] + 3


I, U = "int64", "uint64"  # noqa: E741


@pytest.mark.parametrize(("kernel", "kinds"), [
    (differences, [I] * 5),
    (mixed, [I] * 5),
    (windows, [I, I, I, U]),
    (divided, [I, I, I, U, I]),
    (modular, [U] * 5),
    (extremes, [I, I, U, I, U, "uint8", "bool", "int8", I, "bool"]),
    (at_the_end, [U, U, U, "bool", "bool"]),
    (scaled, [U, U]),
    (looping, [I, I, U, I, I, U, I, U]),
])  # fmt: skip
def test_words_and_signed_numbers(kernel: Any, kinds: list[str]) -> None:
    """sobel(g).max() of a sum of bytes, which NumPy makes uint64, was 18446744073709551615."""
    for x in (words, great):
        fields = [x, signed] if kernel in (mixed, divided, extremes, looping) else [x]
        made = agree(kernel, *fields, boundary="reflect")
        assert [one.dtype.name for one in made] == kinds


def test_explain_tells_what_may_wrap() -> None:
    power = npt.stencil(lambda x: abs(x[0] - x[1]) ** 2)
    window = npt.stencil(lambda x: x[-1:2].sum())
    told = "an operation may wrap beyond 64 bits"
    for kernel, wraps, fits in ((power, "int32", "int16"), (window, "int64", "int32")):
        assert told in kernel.explain(wraps)
        assert "may wrap" not in kernel.explain(fits)
    assert told in differences.explain(words)


def test_whole_numbers_of_words() -> None:
    @npt.stencil
    def kernel(x):
        total = 0
        while True:
            for _ in range(3):
                if x[0] > 2:
                    total += int(x[0])
            return total, math.floor(x[0]), math.trunc(x[0]), 3 - total

    agree(kernel, np.array([2**63 + 1025, 2**53 + 1, 7, 0], np.uint64))


image = np.random.default_rng(3).integers(0, 256, (9, 11), dtype=np.uint8)
blur = npt.stencil(lambda x: x[-1:2, -1:2].mean(), boundary="reflect")
halves = npt.stencil(lambda x: (x[0, 0] + x[0, 1]) * 0.5 - 100, boundary="reflect")


@npt.stencil(boundary="reflect", neighborhood=((0, 0), (-1, 1)))
def looped(x):
    total, k = 0, 0
    while k < 3:
        total, k = total + x[0, k - 1], k + 1
    return total / 2 - 100


added = npt.ufunc(lambda x, y: x * 0.25 + y)


@npt.stencil(boundary="reflect")
def staged(x):
    s = blur(x, dtype=np.uint8, overflow="saturate")
    return s[0, 1] - s[0, -1]


CASES = [(blur, "uint8"), (halves, "int16"), (halves, "uint64"), (halves, "int64")]


@pytest.mark.parametrize(("kernel", "dtype"), [*CASES, (looped, "uint8")])
def test_saturation_rounds_to_nearest(kernel, dtype) -> None:
    """They were cut toward zero, so that images became darker with each pass."""
    info = np.iinfo(dtype)
    floats = kernel(image)
    wanted = np.rint(floats).clip(max(info.min, -(2**53)), min(info.max, 2**53)).astype(dtype)
    options = {"dtype": dtype, "overflow": "saturate"}
    alike(kernel(image, **options), wanted)
    alike(kernel.debug(image, **options), wanted)
    alike(kernel(da.from_array(image, chunks=5), **options).compute(scheduler="sync"), wanted)
    low = kernel(image, dtype=dtype, overflow="wrap")
    alike(low, np.trunc(floats).astype(np.int64).astype(dtype))
    alike(kernel.debug(image, dtype=dtype, overflow="wrap"), low)


def test_what_fits_is_rounded_too() -> None:
    """A mean of bytes fits in bytes once it is rounded, and needs no `overflow=`."""
    alike(blur(image, dtype=np.uint8), np.rint(blur(image)).astype(np.uint8))
    alike(staged(image), staged.debug(image))
    rows = image[0], image[1]
    options = {"dtype": np.uint8, "overflow": "saturate"}
    wanted = np.minimum(np.rint(rows[0] * 0.25 + rows[1]), 255).astype(np.uint8)
    alike(added(*rows, **options), wanted)
    alike(added.debug(*rows, **options), wanted)
    assert blur(image, dtype="int32").dtype == "int32"


def test_the_error_tells_the_range_that_is_known() -> None:
    for kernel, x, span in (
        (halves, image, r"\(-100 to 155\)"), (halves, image * 1.0, r"\(any float\)"),
        (looped, image, r"\(-4\.6\S+ to 4\.6\S+\)"), (staged, image, r"\(-255 to 255\)"),
    ):  # fmt: skip
        refuses(ValueError, rf"might not hold every result .*{span}", kernel, x, dtype="uint8")
