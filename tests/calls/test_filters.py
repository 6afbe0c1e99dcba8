"""Filters against scipy.ndimage, which says what each of them is on floats.

SciPy computes in float64 whatever it is given, so results on float64 differ by the order of sums
only: `TINY` is a hundred units in the last place of the greatest value in an image.
"""

from __future__ import annotations

import inspect
import pickle

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from scipy import ndimage

import ninepoint as npt
from nightly import only
from ninepoint import filters

RULES = ["reflect", "nearest", "mirror", "wrap", "constant"]
SHAPES = [(17, 23), (2, 3), (1, 5), (1, 1)]
TINY = 100 * np.finfo(np.float64).eps
KERNEL = np.array([[0.0, 1.5, -2.0], [0.25, 3.0, 0.5]])

# Name: the filter, and the same of SciPy as a function of (image, mode, cval).
PAIRS = {
    "mean": (
        lambda x, **o: filters.mean(x, 3, **o),
        lambda x, **o: ndimage.uniform_filter(x, 3, **o),
    ),
    "mean of an even size": (
        lambda x, **o: filters.mean(x, (4, 3), **o),
        lambda x, **o: ndimage.uniform_filter(x, (4, 3), **o),
    ),
    "gaussian": (
        lambda x, **o: filters.gaussian(x, (0.6, 0.9), 3.0, **o),
        lambda x, **o: ndimage.gaussian_filter(x, (0.6, 0.9), truncate=3.0, **o),
    ),
    "sobel": (
        lambda x, **o: filters.sobel(x, 0, **o),
        lambda x, **o: ndimage.sobel(x, 0, **o),
    ),
    "prewitt": (
        lambda x, **o: filters.prewitt(x, **o),
        lambda x, **o: ndimage.prewitt(x, **o),
    ),
    "laplace": (filters.laplace, ndimage.laplace),
    "correlate": (
        lambda x, **o: filters.correlate(x, KERNEL, **o),
        lambda x, **o: ndimage.correlate(x, KERNEL, **o),
    ),
    "median": (
        lambda x, **o: filters.median(x, 3, **o),
        lambda x, **o: ndimage.median_filter(x, 3, **o),
    ),
    "median of an even size": (
        lambda x, **o: filters.median(x, (2, 3), **o),
        lambda x, **o: ndimage.median_filter(x, (2, 3), **o),
    ),
    "percentile": (
        lambda x, **o: filters.percentile(x, 80, (3, 2), **o),
        lambda x, **o: ndimage.percentile_filter(x, 80, (3, 2), **o),
    ),
    "minimum": (
        lambda x, **o: filters.minimum(x, (3, 4), **o),
        lambda x, **o: ndimage.minimum_filter(x, (3, 4), **o),
    ),
    "maximum": (
        lambda x, **o: filters.maximum(x, (4, 3), **o),
        lambda x, **o: ndimage.maximum_filter(x, (4, 3), **o),
    ),
    "erode": (
        lambda x, **o: filters.erode(x, 4, **o),
        lambda x, **o: ndimage.grey_erosion(x, 4, **o),
    ),
    "dilate": (
        lambda x, **o: filters.dilate(x, 4, **o),
        lambda x, **o: ndimage.grey_dilation(x, 4, **o),
    ),
    "local_std": (
        lambda x, **o: filters.local_std(x, 3, **o),
        lambda x, **o: ndimage.generic_filter(x, np.std, 3, **o),
    ),
}
RANKS = {"median", "percentile", "minimum", "maximum", "erode", "dilate"}


def image(shape, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return random.random(shape) < 0.5
    if kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return random.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("name", only(8, PAIRS))
def test_floats_are_as_scipys_for_every_border(name):
    ours, theirs = PAIRS[name]
    for shape in SHAPES:
        x = image(shape)
        for rule in RULES:
            # SciPy takes cval for the slope along one axis, too, before it sums along the other.
            cval = 0 if name in ("sobel", "prewitt") else 0.5
            got = ours(x, boundary=rule, cval=cval)
            expected = theirs(x, mode=rule, cval=cval)
            assert got.dtype == x.dtype
            if name.split()[0] in RANKS:
                np.testing.assert_array_equal(got, expected, err_msg=f"{shape} {rule}")
            else:
                np.testing.assert_allclose(
                    got, expected, rtol=TINY, atol=10 * TINY, err_msg=f"{shape} {rule}"
                )


# The footprint of SciPy's own tests, of an even length along one axis, and one with a hole.
LEAN = [[1, 0, 1], [1, 1, 0]]
HOLED = np.array([[0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (filters.maximum, ndimage.maximum_filter),
        (filters.minimum, ndimage.minimum_filter),
        (filters.median, ndimage.median_filter),
        (filters.dilate, ndimage.grey_dilation),
        (filters.erode, ndimage.grey_erosion),
        (
            lambda x, **o: filters.percentile(x, 35, **o),
            lambda x, **o: ndimage.percentile_filter(x, 35, **o),
        ),
        (filters.mean, lambda x, **o: ndimage.generic_filter(x, np.mean, **o)),
        (filters.local_std, lambda x, **o: ndimage.generic_filter(x, np.std, **o)),
    ],
)
def test_footprints_are_as_scipys(ours, theirs):
    for shape in SHAPES:
        for rule in RULES:
            x = image(shape)
            got = ours(x, footprint=LEAN, boundary=rule, cval=0.5)
            expected = theirs(x, footprint=LEAN, mode=rule, cval=0.5)
            np.testing.assert_allclose(got, expected, rtol=TINY, atol=10 * TINY)


def test_footprints_of_other_shapes():
    x = image((9, 10), "uint8")
    for footprint in (HOLED, np.ones((2, 3)), [[False, False, True]], npt.shapes.disk(4)):
        got = filters.dilate(x, footprint=footprint)
        np.testing.assert_array_equal(got, ndimage.grey_dilation(x, footprint=footprint))
    volume, cube = image((3, 4, 5)), npt.shapes.cross(1, 3)
    got = filters.minimum(volume, footprint=cube)
    np.testing.assert_array_equal(got, ndimage.minimum_filter(volume, footprint=cube))
    lines = filters.maximum(x, footprint=[1, 0, 1], axes=0)
    wanted = ndimage.maximum_filter(x, footprint=[[1], [0], [1]])
    np.testing.assert_array_equal(lines, wanted)
    lazy = filters.maximum(da.from_array(x, chunks=(2, 3)), footprint=HOLED)
    wanted = ndimage.maximum_filter(x, footprint=HOLED)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)


def test_the_border_is_reflect_by_default():
    x = image((6, 7))
    np.testing.assert_array_equal(filters.mean(x), filters.mean(x, boundary="reflect"))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("mean", "uint8"),
        ("mean", "int16"),
        ("gaussian", "uint8"),
        ("median of an even size", "uint8"),
        ("dilate", "int16"),
    ],
)
def test_integers_are_rounded_to_nearest_and_saturated(name, dtype):
    ours, theirs = PAIRS[name]
    x = image((19, 21), dtype)
    got = ours(x)
    limits = np.iinfo(dtype)
    exact = np.clip(theirs(x.astype("float64")), limits.min, limits.max)
    assert got.dtype == dtype
    # A half may go either way after rounding, so the distance is what is checked.
    # Eight bits are weighted in float32.
    assert np.abs(got - exact).max() <= 0.5 + (1e-4 if name == "gaussian" else 1e-9)
    if name == "mean":
        np.testing.assert_array_equal(got, np.rint(exact))


@pytest.mark.parametrize("name", ["sobel", "prewitt", "laplace"])
def test_slopes_of_integers_are_exact(name):
    ours, theirs = PAIRS[name]
    x = image((19, 21), "uint8")
    got = ours(x)
    assert got.dtype == "int16"
    np.testing.assert_array_equal(got, theirs(x.astype("int64")))


def test_a_dtype_of_ones_own():
    x = image((9, 8), "uint8")
    fractions = filters.mean(x, dtype="float64")
    np.testing.assert_allclose(fractions, ndimage.uniform_filter(x.astype("float64"), 3))
    slope = filters.sobel(x, dtype="uint8")
    np.testing.assert_array_equal(slope, np.clip(ndimage.sobel(x.astype("int64")), 0, 255))
    whole = filters.mean(x / 1.0, dtype="int16")
    np.testing.assert_array_equal(whole, np.rint(fractions))


def test_unsharp_adds_what_gaussian_takes_away():
    x = image((20, 30))
    blurred = ndimage.gaussian_filter(x, 0.5)
    for amount in (0.5, 2):
        got = filters.unsharp(x, 0.5, amount)
        np.testing.assert_allclose(got, x + amount * (x - blurred), atol=1e-13)
    small = x.astype("float32")
    assert filters.unsharp(small, 0.5, np.float64(2)).dtype == "float32"
    bright = image((20, 30), "uint8")
    exact = bright + 2 * (bright - ndimage.gaussian_filter(bright / 1.0, 0.5))
    got = filters.unsharp(bright, 0.5, 2)
    np.testing.assert_array_equal(got, np.rint(np.clip(exact, 0, 255)))


def test_bools():
    x = image((12, 11), "bool")
    for ours, theirs in [
        (filters.minimum, ndimage.minimum_filter),
        (filters.maximum, ndimage.maximum_filter),
        (filters.median, ndimage.median_filter),
    ]:
        got = ours(x)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, theirs(x.astype("uint8"), 3).astype(bool))
    assert filters.mean(x).dtype == "float64"
    np.testing.assert_allclose(filters.mean(x), ndimage.uniform_filter(x / 1.0, 3), atol=1e-15)


def test_float32_stays():
    x = image((15, 14), "float32")
    for got, expected in [
        (filters.mean(x), ndimage.uniform_filter(x, 3)),
        (filters.gaussian(x, 0.4), ndimage.gaussian_filter(x, 0.4)),
        (filters.correlate(x, KERNEL), ndimage.correlate(x, KERNEL)),
        (filters.sobel(x), ndimage.sobel(x)),
    ]:
        assert got.dtype == "float32"
        # Sums of at most 25 terms in float32.
        np.testing.assert_allclose(got, expected, atol=2e-5)


def test_complex_numbers():
    x = image((6, 5)) + 1j * image((6, 5), seed=1)
    np.testing.assert_allclose(
        filters.correlate(x, KERNEL * 1j), ndimage.correlate(x, KERNEL * 1j), atol=1e-13
    )
    assert filters.correlate(x.real, KERNEL * 1j).dtype == "complex128"


def test_a_stack_is_filtered_image_by_image():
    x = image((3, 6, 7))
    expected = ndimage.median_filter(x, (1, 3, 3))
    np.testing.assert_array_equal(filters.median(x), expected)


def test_a_tuple_filters_volumes():
    x = image((5, 6, 7))
    np.testing.assert_array_equal(
        filters.maximum(x, (3, 3, 3)), ndimage.maximum_filter(x, (3, 3, 3))
    )
    np.testing.assert_allclose(
        filters.gaussian(x, (0.4, 0.4, 0.4), 2), ndimage.gaussian_filter(x, 0.4, truncate=2)
    )


def test_axes_name_what_is_filtered():
    x = image((5, 6, 7))
    for axis in (0, -1):
        np.testing.assert_allclose(
            filters.sobel(x, axis, axes=(0, 1, 2)), ndimage.sobel(x, axis), atol=1e-13
        )
    np.testing.assert_allclose(filters.laplace(x, axes=(0, 1, 2)), ndimage.laplace(x), atol=1e-13)
    turned = filters.mean(x, (2, 4), axes=(2, 0))
    np.testing.assert_allclose(turned, ndimage.uniform_filter(x, (4, 1, 2)), atol=1e-14)
    line = filters.maximum(x, 4, axes=0)
    np.testing.assert_array_equal(line, ndimage.maximum_filter1d(x, 4, axis=0))


def test_one_axis():
    x = image(30)
    np.testing.assert_allclose(filters.sobel(x), ndimage.sobel(x))
    np.testing.assert_array_equal(filters.minimum(x), ndimage.minimum_filter(x, 3))
    rows = image((4, 9))
    np.testing.assert_allclose(
        filters.correlate(rows, [1.0, 2.0]), ndimage.correlate1d(rows, [1.0, 2.0])
    )


def test_a_wide_window():
    x = image((40, 37), "uint8")
    np.testing.assert_array_equal(filters.erode(x, 31), ndimage.grey_erosion(x, 31))
    np.testing.assert_array_equal(filters.median(x, 9), ndimage.median_filter(x, 9))
    blurred = filters.gaussian(x / 255, 4.0)
    np.testing.assert_allclose(blurred, ndimage.gaussian_filter(x / 255, 4.0), atol=1e-14)


def test_a_rank_never_mixes_two_values():
    x = np.array([1.0, np.inf, 1.0, np.inf, 1.0, np.inf, 1.0])
    np.testing.assert_array_equal(
        filters.percentile(x, 30, 6), ndimage.percentile_filter(x, 30, 6)
    )


@pytest.mark.parametrize("dtype", ["uint64", "bool"])
def test_a_rank_that_no_quantile_hits_is_counted_from_above(dtype):
    x = image((60,), "bool") if dtype == "bool" else image((60,), "uint64") >> np.uint64(12)
    expected = ndimage.rank_filter(x.astype("float64"), 28, 52)
    got = filters.percentile(x, 100 * 28.5 / 52, 52)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype("float64"), expected)


def test_percentiles_at_the_ends():
    x = image((6, 7))
    np.testing.assert_array_equal(filters.percentile(x, 0), ndimage.minimum_filter(x, 3))
    np.testing.assert_array_equal(filters.percentile(x, 100), ndimage.maximum_filter(x, 3))


def test_a_window_of_one_point():
    x = image((3, 4))
    for name in ("mean", "median", "minimum", "dilate"):
        np.testing.assert_array_equal(getattr(filters, name)(x, 1), x)


def test_empty_images():
    assert filters.mean(np.empty((0, 5))).shape == (0, 5)


def test_weights_of_zero_are_not_read():
    x = np.array([[np.nan, 1.0, 2.0]])
    np.testing.assert_array_equal(
        filters.correlate(x, [0, 1, 1], boundary="constant"), [[np.nan, 3.0, 2.0]]
    )
    np.testing.assert_array_equal(filters.correlate(np.ones((2, 3)), np.zeros((3, 3))), 0)


def test_lists_are_taken():
    np.testing.assert_array_equal(filters.maximum([1, 5, 2]), [5, 5, 5])


def test_out_may_be_the_image():
    x = image((30, 31), "uint8")
    expected = filters.mean(x)
    assert filters.mean(x, out=x, threads=1) is x
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("name", ["mean", "median", "sobel", "unsharp"])
def test_dask_gives_the_same(name):
    x = image((3, 23, 17), "uint8")
    ours = getattr(filters, name)
    for rule in ("reflect", "wrap"):
        lazy = ours(da.from_array(x, chunks=(2, 5, 4)), boundary=rule)
        assert isinstance(lazy, da.Array)
        expected = ours(x, boundary=rule)
        assert lazy.dtype == expected.dtype
        np.testing.assert_array_equal(lazy.compute(scheduler="threads"), expected)


def test_xarray_by_names_of_dimensions():
    x = image((6, 3, 7), "uint8")
    named = xr.DataArray(x, dims=("y", "band", "x"), coords={"x": np.arange(7)})
    got = filters.median(named, dims=("y", "x"))
    assert got.dims == named.dims
    np.testing.assert_array_equal(got, ndimage.median_filter(x, (3, 1, 3)))
    lines = filters.mean(named, 3, dims="band", boundary="nearest")
    exact = ndimage.uniform_filter1d(x / 1.0, 3, axis=1, mode="nearest")
    np.testing.assert_array_equal(lines, np.rint(exact))


def test_lazy_results_pickle():
    x = image((6, 7))
    again = pickle.loads(pickle.dumps(filters.mean(da.from_array(x, chunks=3))))
    np.testing.assert_array_equal(again.compute(scheduler="sync"), filters.mean(x))


def test_every_name_is_a_filter_of_an_image():
    assert filters.__all__ == sorted(filters.__all__)
    for name in filters.__all__:
        assert next(iter(inspect.signature(getattr(filters, name)).parameters)) == "x"


def test_a_very_narrow_bell_changes_nothing():
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(npt.filters.gaussian(x, sigma=1e-200), x)


def test_datasets_need_the_names_of_dimensions():
    with pytest.raises(TypeError, match="Dataset"):
        filters.mean(xr.Dataset({"a": 1}))
