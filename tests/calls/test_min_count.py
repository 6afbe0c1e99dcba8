"""`min_count=`: filters that leave NaN out, and say NaN where too few values are left."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from ninepoint import filters


def at_rank(q: float) -> Any:
    return lambda v: np.sort(v)[min(int(len(v) * q / 100), len(v) - 1)]


# Name: the filter, and the same of the values that are left.
PAIRS: dict[str, tuple[Any, Any]] = {
    "mean": (filters.mean, np.mean),
    "maximum": (filters.maximum, np.max),
    "minimum": (filters.minimum, np.min),
    "erode": (filters.erode, np.min),
    "dilate": (filters.dilate, np.max),
    "median": (filters.median, at_rank(50)),
    "percentile": (lambda x, **o: filters.percentile(x, 30, **o), at_rank(30)),
    "local_std": (filters.local_std, np.std),
}


def image() -> np.ndarray:
    """Numbers with holes, some of which are larger than a window."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(9, 11))
    x[generator.random(x.shape) < 0.4] = np.nan
    x[2:6, 3:8], x[0, 0] = np.nan, np.inf
    return x


def expected(function: Any, x: np.ndarray, least: int) -> np.ndarray:
    """The same, window by window."""
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1, "symmetric"), (3, 3))
    found = np.full(x.shape, np.nan)
    for place in np.ndindex(x.shape):
        left = views[place][~np.isnan(views[place])]
        if len(left) >= least:
            with np.errstate(invalid="ignore"):
                found[place] = function(left)
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_too_few_values_give_nan(name: str) -> None:
    function, wanted = PAIRS[name]
    x = image()
    np.testing.assert_allclose(function(x, min_count=4), expected(wanted, x, 4), rtol=1e-12)


def test_without_nan_nothing_changes() -> None:
    """A median of an even number of values is still one of them."""
    x = np.random.default_rng(0).random((5, 6))
    cross = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(
        filters.median(x, footprint=cross, min_count=4), filters.median(x, footprint=cross)
    )
    bytes_ = (x * 255).astype("uint8")
    assert filters.median(bytes_, min_count=9).dtype == np.uint8
    np.testing.assert_array_equal(filters.mean(bytes_, min_count=9), filters.mean(bytes_))


def test_it_is_an_option_of_every_kind_of_array() -> None:
    x = image()
    wanted = filters.mean(x, min_count=4)
    chunked = filters.mean(da.from_array(x, chunks=(1, 4)), min_count=4)
    np.testing.assert_array_equal(chunked.compute(scheduler="sync"), wanted)
    labelled = filters.mean(xr.DataArray(x, dims=("y", "x")), min_count=4, dims=("y", "x"))
    np.testing.assert_array_equal(labelled, wanted)
    np.testing.assert_array_equal(filters.mean(npt.lazy(x), min_count=4).compute(), wanted)
    np.testing.assert_array_equal(filters.mean(np.stack([x, x]), min_count=4)[1], wanted)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (10, ValueError, "min_count=10: give a number from 1 to 9, the points of the window."),
        (0, ValueError, "min_count=0: give a number from 1 to 9"),
        (2.0, TypeError, "min_count holds 2.0, which is no whole number."),
    ],
)
def test_counts_that_no_window_can_have(given: Any, error: Any, words: str) -> None:
    for x in (np.zeros((4, 4)), np.zeros((4, 4), "uint8")):
        with pytest.raises(error, match=words):
            filters.median(x, min_count=given)


# The last four values, of which two are enough.
def trailing(x):
    w = x[-3:1]
    enough = np.isfinite(w).sum() >= 2
    mean = np.nanmean(w) if enough else np.nan
    middle = np.nanmedian(w) if enough else np.nan
    return mean, middle, np.nanmax(w) if enough else np.nan


def test_trailing_windows_are_those_of_pandas_and_bottleneck() -> None:
    x = np.random.default_rng(2).normal(size=60)
    x[np.random.default_rng(3).random(60) < 0.5] = np.nan
    found = npt.stencil(boundary="constant", cval=np.nan)(trailing)(x)
    pandas = pytest.importorskip("pandas")
    rolling = pandas.Series(x).rolling(4, min_periods=2)
    for result, wanted in zip(
        found, (rolling.mean(), rolling.median(), rolling.max()), strict=True
    ):
        np.testing.assert_allclose(result, wanted, rtol=1e-10, atol=1e-12)
    bottleneck = pytest.importorskip("bottleneck")
    for result, name in zip(found, ("mean", "median", "max"), strict=True):
        wanted = getattr(bottleneck, f"move_{name}")(x, 4, min_count=2)
        np.testing.assert_allclose(result, wanted, rtol=1e-10, atol=1e-12)
