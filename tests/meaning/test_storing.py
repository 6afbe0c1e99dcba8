"""Floats that are stored as integers, and what a message says of a range."""

from __future__ import annotations

import itertools

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt
from nightly import only

DTYPES = (np.uint8, np.int16, np.int64, np.uint64)
image = np.random.default_rng(3).integers(0, 256, (9, 11), dtype=np.uint8)


@npt.stencil(boundary="reflect")
def blur(x):
    return x[-1:2, -1:2].mean()


@npt.stencil(boundary="reflect")
def halves(x):
    return (x[0, 0] + x[0, 1]) * 0.5 - 100


@npt.stencil(boundary="reflect", neighborhood=((0, 0), (-1, 1)))
def looping(x):
    total, k = 0, 0
    while k < 3:
        total, k = total + x[0, k - 1], k + 1
    return total / 2 - 100


@npt.ufunc
def scaled(x, y):
    return x * 0.25 + y


@npt.stencil(boundary="reflect")
def staged(x):
    s = blur(x, dtype=np.uint8, overflow="saturate")
    return s[0, 1] - s[0, -1]


# What is not analysed takes a second to compile for each type.
@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        *itertools.product((blur, halves), DTYPES),
        *only(2, itertools.product((looping,), DTYPES)),
    ],
)
def test_saturation_rounds_to_nearest(kernel, dtype) -> None:
    """They were cut toward zero, so that images became darker with each pass."""
    info = np.iinfo(dtype)
    floats = kernel(image)
    limits = max(info.min, -(2**53)), min(info.max, 2**53)
    wanted = np.clip(np.rint(floats), *limits).astype(dtype)
    options = {"dtype": dtype, "overflow": "saturate"}
    np.testing.assert_array_equal(kernel(image, **options), wanted)
    np.testing.assert_array_equal(kernel.debug(image, **options), wanted)
    cut = kernel(da.from_array(image, chunks=5), **options)
    np.testing.assert_array_equal(cut.compute(scheduler="sync"), wanted)
    low = kernel(image, dtype=dtype, overflow="wrap")
    np.testing.assert_array_equal(low, np.trunc(floats).astype(np.int64).astype(dtype))
    np.testing.assert_array_equal(low, kernel.debug(image, dtype=dtype, overflow="wrap"))


def test_what_fits_is_rounded_too() -> None:
    """A mean of bytes fits in bytes once it is rounded, and needs no `overflow=`."""
    for made in (blur(image, dtype=np.uint8), npt.filters.mean(image, 3)):
        np.testing.assert_array_equal(made, np.rint(blur(image)).astype(np.uint8))
    np.testing.assert_array_equal(staged(image), staged.debug(image))
    rows = image[0], image[1]
    options = {"dtype": np.uint8, "overflow": "saturate"}
    wanted = np.minimum(np.rint(rows[0] * 0.25 + rows[1]), 255)
    np.testing.assert_array_equal(scaled(*rows, **options), wanted)
    np.testing.assert_array_equal(scaled.debug(*rows, **options), wanted)
    assert blur(image, dtype="int32").dtype == "int32"


def test_plain_casts_cut() -> None:
    @npt.stencil
    def cast(x):
        return int(x[0] * 0.75), np.uint8(x[0] * 0.75)

    for part in cast(np.array([1, 2, 3, 5])):
        assert part.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("call", "span"),
    [
        (lambda: halves(image, dtype="uint8"), r"\(-100 to 155\)"),
        (lambda: halves(image * 1.0, dtype="uint8"), r"\(any float\)"),
        (lambda: looping(image, dtype="uint8"), r"\(-4\.6\S+ to 4\.6\S+\)"),
        (lambda: staged(image, dtype="uint8"), r"\(-255 to 255\)"),
    ],
    ids=["floats", "any", "looping", "integers"],
)
def test_the_error_tells_the_range_that_is_known(call, span) -> None:
    with pytest.raises(ValueError, match=rf"might not hold every result .*{span}"):
        call()
