"""Reductions that leave NaN out, or count: by name, as NumPy spells them."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from nightly import only
from seams import interpreted

REDUCTIONS = (
    np.nansum, np.nanprod, np.nanmean, np.nanmin, np.nanmax, np.nanvar, np.nanstd,
    np.count_nonzero, np.average, np.nanmedian,
)  # fmt: skip
DTYPES = ("float64", "float32", "float16", "int16", "uint64", "bool")
WEIGHTS = np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]])


@functools.cache
def over_nine(function: Any) -> Any:
    def kernel(x):
        return function(x[-1:2, -1:2])

    return npt.stencil(boundary="valid")(kernel)


def holes(dtype: str) -> np.ndarray:
    """Numbers with some NaN, an infinity, and a window of nothing but NaN."""
    values = np.random.default_rng(2).normal(size=(6, 8)) * 3
    if np.dtype(dtype).kind not in "fc":
        return np.abs(values).astype(dtype)
    values[2:5, 3:6] = np.nan
    values[0, 0] = np.inf
    values[5, 7] = np.nan
    return values.astype(dtype)


def by_text(stencil: Any, x: np.ndarray, **others: Any) -> Any:
    """What the generated text gives, run as plain Python: to compile takes seconds."""
    with interpreted():
        return stencil(x, **others)


def expected(
    function: Callable[[np.ndarray], Any], x: np.ndarray, shape: tuple[int, int] = (3, 3)
) -> np.ndarray:
    """What NumPy gives for each window by itself."""
    wide = x.astype("float32") if x.dtype == np.float16 else x
    views = np.lib.stride_tricks.sliding_window_view(wide, shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array([[function(view) for view in row] for row in views])


@pytest.mark.parametrize(("function", "dtype"), only(27, itertools.product(REDUCTIONS, DTYPES)))
def test_names_of_numpy_are_understood(function: Any, dtype: str) -> None:
    stencil, x = over_nine(function), holes(dtype)
    assert "understood" in stencil.explain(x.dtype)
    wanted = expected(function, x)
    for result in (by_text(stencil, x), stencil.debug(x)):
        np.testing.assert_allclose(result, wanted, rtol=1e-4 if x.itemsize < 8 else 1e-12)


@pytest.mark.parametrize("function", [np.nansum, np.nanmean, np.nanprod, np.average])
def test_complex_numbers(function: Any) -> None:
    x = holes("complex128")
    x.imag = np.random.default_rng(5).normal(size=x.shape)
    x[0, 0] = 1j
    np.testing.assert_allclose(by_text(over_nine(function), x), expected(function, x))


@pytest.mark.parametrize("function", [np.nanvar, np.nanstd])
def test_degrees_of_freedom(function: Any) -> None:
    @npt.stencil(boundary="valid")
    def kernel(x):
        return function(x[-1:2, -1:2], ddof=2)

    x = holes("float64")
    wanted = expected(functools.partial(function, ddof=2), x)
    np.testing.assert_allclose(by_text(kernel, x), wanted)
    np.testing.assert_allclose(kernel.debug(x), wanted)


def test_variances_keep_their_digits_beside_a_large_mean() -> None:
    x = holes("float64") + 1e8
    np.testing.assert_allclose(by_text(over_nine(np.nanvar), x), expected(np.nanvar, x), rtol=1e-7)


def test_windows_that_are_computed() -> None:
    @npt.stencil(boundary="valid")
    def kernel(x):
        w = x[-1:2, -1:2]
        return np.nanmean(w * WEIGHTS) - x[0, 0], np.isnan(w - x[0, 0]).sum(), np.nanmax(-w)

    x = holes("float64")
    means, counts, greatest = kernel(x)
    centre = x[1:-1, 1:-1]
    np.testing.assert_allclose(means, expected(lambda w: np.nanmean(w * WEIGHTS), x) - centre)
    np.testing.assert_array_equal(counts, expected(lambda w: np.isnan(w - w[1, 1]).sum(), x))
    np.testing.assert_array_equal(greatest, expected(lambda w: np.nanmax(-w), x))
    for one, other in zip((means, counts, greatest), kernel.debug(x), strict=True):
        np.testing.assert_allclose(one, other)


def test_averages_with_weights() -> None:
    @npt.stencil(boundary="valid", standard_indexing=("v",))
    def kernel(x, v):
        w = x[-1:2, -1:2]
        return np.average(w, weights=WEIGHTS), np.average(w, weights=v), np.average(w, None, w * w)

    x = np.random.default_rng(1).normal(size=(6, 7)).astype("float32")
    v = np.arange(9.0).reshape(3, 3)
    for found in (kernel(x, v), kernel.debug(x, v)):
        for result, weights in zip(found[:2], (WEIGHTS, v), strict=True):
            np.testing.assert_allclose(
                result, expected(functools.partial(np.average, weights=weights), x), rtol=1e-6
            )
        np.testing.assert_allclose(
            found[2], expected(lambda w: (w**3).sum() / (w**2).sum(), x), rtol=1e-4, atol=1e-6
        )


def test_weights_whose_sum_is_zero() -> None:
    edge = np.array([-1.0, 0.0, 1.0])

    @npt.stencil
    def kernel(x):
        return np.average(x[-1:2], weights=edge)

    with pytest.raises(npt.StencilError, match="sum of the weights is zero"):
        kernel(np.zeros(5))


def test_larger_windows() -> None:
    @npt.stencil(boundary="valid")
    def kernel(x):
        w = x[-6:7, -1:2]
        return np.nanmean(w), np.nanmax(w), np.nanstd(w)

    x = np.concatenate([holes("float64"), holes("float64")[::-1]])
    for one, other in zip(by_text(kernel, x), kernel.debug(x), strict=True):
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_quantiles_of_what_is_there(dtype: str) -> None:
    @npt.stencil(boundary="valid")
    def kernel(x):
        w = x[-1:2, -1:2]
        return np.nanquantile(w * 2, 0.3), np.nanpercentile(w, 80), np.nanquantile(w, 1.0)

    x = holes(dtype)
    assert "understood" in kernel.explain(x.dtype)
    wanted = [
        expected(lambda w: np.nanquantile(w * 2, 0.3), x),
        expected(lambda w: np.nanpercentile(w, 80), x),
        expected(lambda w: np.nanmax(w), x),
    ]
    for found in (by_text(kernel, x), kernel.debug(x)):
        for result, one in zip(found, wanted, strict=True):
            finite = np.isfinite(one)
            np.testing.assert_allclose(result[finite], one[finite], rtol=1e-5)


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (4, 4), (9, 2), (1, 2), (1, 5), (1, 1)])
def test_medians_are_those_of_numpy_to_the_bit(shape: tuple[int, int]) -> None:
    """Infinities beside what stands for NaN, zeros of two signs, and any number of NaN."""
    height, width = shape

    @npt.stencil(boundary="valid")
    def kernel(x):
        return np.nanmedian(x[0:height, 0:width])

    values = np.array([np.inf, -np.inf, 0.0, -0.0, 1.0, 3.0, -2.5, 1e308, np.nan, np.nan])
    x = np.random.default_rng(3).choice(values, (22, 22))
    x[:height, :width] = np.nan
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = expected(np.nanmedian, x, shape)
        np.testing.assert_array_equal(by_text(kernel, x), wanted)
        found = kernel.debug(x[:10, :9])
        np.testing.assert_array_equal(found, wanted[: found.shape[0], : found.shape[1]])


@pytest.mark.parametrize("q", [0.5, 0.83])
def test_large_windows_put_what_is_there_in_a_buffer(q: float) -> None:
    @npt.stencil(boundary="valid")
    def kernel(x):
        return np.nanquantile(x[0:9, 0:7], q)

    x = np.concatenate([holes("float64"), holes("float64")])
    x[0, 0] = 7.0
    x[1:12, 1:] = np.nan
    views = np.lib.stride_tricks.sliding_window_view(x, (9, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.nanquantile(views, q, axis=(-1, -2))
    np.testing.assert_allclose(by_text(kernel, x), wanted)
    np.testing.assert_allclose(kernel.debug(x), by_text(kernel, x))


def test_counts_beside_means_are_floats_where_nothing_else_is_asked() -> None:
    """As floats of one type, in comparisons, as a result, and in lanes that are narrower."""

    @npt.stencil(boundary="valid")
    def kernel(x, m):
        w, v = x[-1:2, -1:2], m[-1:2, -1:2]
        few = np.isnan(w).sum()
        mean = np.nanmean(w) if (w == w).sum() > 3 else np.nan
        return mean, few / np.float32(9), few, v.mean(where=v > 2)

    x, m = holes("float32"), np.arange(48, dtype="uint8").reshape(6, 8) % 11
    for result, of_reference in zip(kernel(x, m), kernel.debug(x, m), strict=True):
        np.testing.assert_allclose(result, of_reference, rtol=1e-6)
    assert "f32(-0.0)" in over_nine(np.nanmean).source(x)
