"""Filters against scipy.ndimage, which says what each of them is on floats; and their shapes.

SciPy computes in float64 whatever it is given, so results on float64 differ by the order of sums
only: `TINY` is a hundred units in the last place of the greatest value in an image.
"""

import inspect
import itertools

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal as equal
from scipy import ndimage
from skimage import filters as skimage_filters
from skimage import morphology
from skimage.restoration import denoise_bilateral

import ninepoint as npt
from compared import only, refuses
from ninepoint import filters, shapes

RULES = ["reflect", "nearest", "mirror", "wrap", "constant"]
SHAPES = [(17, 23), (2, 3), (1, 5), (1, 1)]
TINY = 100 * np.finfo(np.float64).eps
KERNEL = np.array([[0.0, 1.5, -2.0], [0.25, 3.0, 0.5]])

# Name: the filter, the same of SciPy, and what both are given.
PAIRS = {
    "mean": (filters.mean, ndimage.uniform_filter, (3,)),
    "mean of an even size": (filters.mean, ndimage.uniform_filter, ((4, 3),)),
    "gaussian": (filters.gaussian, ndimage.gaussian_filter, ((0.6, 0.9),)),
    "sobel": (filters.sobel, ndimage.sobel, (0,)),
    "prewitt": (filters.prewitt, ndimage.prewitt, ()),
    "laplace": (filters.laplace, ndimage.laplace, ()),
    "correlate": (filters.correlate, ndimage.correlate, (KERNEL,)),
    "median": (filters.median, ndimage.median_filter, (3,)),
    "median of an even size": (filters.median, ndimage.median_filter, ((2, 3),)),
    "percentile": (filters.percentile, ndimage.percentile_filter, (80, (3, 2))),
    "minimum": (filters.minimum, ndimage.minimum_filter, ((3, 4),)),
    "maximum": (filters.maximum, ndimage.maximum_filter, ((4, 3),)),
    "erode": (filters.erode, ndimage.grey_erosion, (4,)),
    "dilate": (filters.dilate, ndimage.grey_dilation, (4,)),
    "local_std": (
        filters.local_std, lambda x, *given, **o: ndimage.generic_filter(x, np.std, *given, **o),
        (3,),
    ),
    "sum": (filters.sum, lambda x, *_, **o: ndimage.correlate(x, np.ones((3, 2)), **o), ((3, 2),)),
    **{
        name: (getattr(filters, name), getattr(ndimage, theirs), (4,))
        for name, theirs in (
            ("opening", "grey_opening"), ("closing", "grey_closing"),
            ("white_tophat", "white_tophat"), ("black_tophat", "black_tophat"),
            ("morphological_gradient", "morphological_gradient"),
        )
    },
    "gaussian_laplace": (filters.gaussian_laplace, ndimage.gaussian_laplace, ((0.6, 0.9),)),
    **{
        f"gaussian of order {n}": (
            lambda x, *_, n=n, **o: filters.gaussian(x, (0.6, 0.9), order=n, **o),
            lambda x, *_, n=n, **o: ndimage.gaussian_filter(x, (0.6, 0.9), n, **o), (),
        )
        for n in (1, 3, (2, 0))
    },
    **{
        f"threshold_local, {how}": (
            filters.threshold_local, skimage_filters.threshold_local, ((5, 3), how, 0.25),
        )
        for how in ("gaussian", "mean", "median")
    },
    **{
        f"gradient, {side}": (
            filters.gradient, lambda x, *_, w=w, **o: ndimage.correlate1d(x, w, 0, **o),
            (0, 2.0, side),
        )
        for side, w in (
            ("central", [-0.25, 0, 0.25]), ("forward", [0, -0.5, 0.5]),
            ("backward", [-0.5, 0.5, 0]),
        )
    },
    "bilateral": (
        filters.bilateral, lambda x, *_, **o: ndimage.generic_filter(x, alike, 5, **o),
        (0.7, 0.8, 2),
    ),
}  # fmt: skip

# At a "constant" border SciPy takes cval for the slope along one axis, then goes along others.
SLOPES = {
    name for name in PAIRS if name.startswith(("sobel", "prewitt", "gaussian of", "gaussian_l"))
}


def alike(window):
    """A bilateral filter by its definition, for a window of 5 x 5."""
    window = window.reshape(5, 5)
    distance = np.hypot(*np.ogrid[-2:3, -2:3]) / 0.8
    weights = np.exp(-(distance**2 + ((window - window[2, 2]) / 0.7) ** 2) / 2)
    return (weights * window).sum() / weights.sum()


def image(shape, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return random.random(shape) < 0.5
    if kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return random.normal(size=shape).astype(dtype)


def close(got, expected, words=""):
    np.testing.assert_allclose(got, expected, rtol=TINY, atol=10 * TINY, err_msg=words)


@pytest.mark.parametrize("name", only(8, PAIRS))
def test_floats_are_as_scipys_for_every_border(name):
    ours, theirs, given = PAIRS[name]
    for shape, rule in itertools.product(SHAPES, RULES):
        x = image(shape)
        cval = 0 if name in SLOPES else 0.5
        got = ours(x, *given, boundary=rule, cval=cval)
        expected = theirs(x, *given, mode=rule, cval=cval)
        assert got.dtype == x.dtype
        close(got, expected, f"{shape} {rule}")


# The footprint of SciPy's own tests, of an even length along one axis, and one with a hole.
LEAN = [[1, 0, 1], [1, 1, 0]]
HOLED = np.array([[0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)


@pytest.mark.parametrize(
    "name",
    ["maximum", "minimum", "median", "dilate", "erode", "percentile", "mean", "local_std",
     "closing", "white_tophat", "morphological_gradient"],
)  # fmt: skip
def test_footprints_are_as_scipys(name):
    ours, theirs, given = PAIRS[name]
    if name == "mean":
        theirs = lambda x, **o: ndimage.generic_filter(x, np.mean, **o)  # noqa: E731
    given = given[:1] if name == "percentile" else ()
    for shape, rule in itertools.product(SHAPES, RULES):
        x = image(shape)
        got = ours(x, *given, footprint=LEAN, boundary=rule, cval=0.5)
        close(got, theirs(x, *given, footprint=LEAN, mode=rule, cval=0.5))


def test_footprints_of_other_shapes():
    x = image((9, 10), "uint8")
    for footprint in (HOLED, np.ones((2, 3)), [[False, False, True]], shapes.disk(4)):
        wanted = ndimage.grey_dilation(x, footprint=footprint)
        equal(filters.dilate(x, footprint=footprint), wanted)
    volume, cube = image((3, 4, 5)), shapes.cross(1, 3)
    wanted = ndimage.minimum_filter(volume, footprint=cube)
    equal(filters.minimum(volume, footprint=cube), wanted)
    wanted = ndimage.maximum_filter(x, footprint=[[1], [0], [1]])
    equal(filters.maximum(x, footprint=[1, 0, 1], axes=0), wanted)


@pytest.mark.parametrize(("name", "dtype", "made"), [
    ("mean", "uint8", "uint8"), ("mean", "int16", "int16"), ("gaussian", "uint8", "uint8"),
    ("median of an even size", "uint8", "uint8"), ("sobel", "uint8", "int16"),
    ("laplace", "uint8", "int16"),
])  # fmt: skip
def test_integers_are_rounded_to_nearest_and_saturated_and_slopes_exact(name, dtype, made):
    ours, theirs, given = PAIRS[name]
    x = image((19, 21), dtype)
    got = ours(x, *given)
    exact = np.clip(theirs(x.astype("float64"), *given), np.iinfo(made).min, np.iinfo(made).max)
    assert got.dtype == made
    # A half may go either way after rounding, so the distance is what is checked.
    # Eight bits are weighted in float32.
    assert np.abs(got - exact).max() <= 0.5 + (1e-4 if name == "gaussian" else 1e-9)
    if name != "gaussian":
        equal(got, np.rint(exact))


def test_types_of_results():
    x = image((9, 8), "uint8")
    fractions = filters.mean(x, dtype="float64")
    close(fractions / 255, ndimage.uniform_filter(x / 255, 3))
    equal(filters.mean(x / 1.0, dtype="int16"), np.rint(fractions))
    equal(filters.sobel(x, dtype="uint8"), ndimage.sobel(x.astype("int64")).clip(0, 255))
    x = image((12, 11), "bool")
    for ours, theirs, _ in (PAIRS["minimum"], PAIRS["median"]):
        equal(ours(x), theirs(x.astype("uint8"), 3) > 0, strict=True)
    close(filters.mean(x), ndimage.uniform_filter(x / 1.0, 3))
    x = image((15, 14), "float32")
    for name in ("mean", "gaussian", "correlate", "sobel"):
        ours, theirs, given = PAIRS[name]
        got = ours(x, *given)
        assert got.dtype == "float32"
        # Sums of at most 25 terms in float32.
        np.testing.assert_allclose(got, theirs(x, *given), atol=2e-5)
    x = image((6, 5)) + 1j * image((6, 5), seed=1)
    close(filters.correlate(x, KERNEL * 1j), ndimage.correlate(x, KERNEL * 1j))
    assert filters.correlate(x.real, KERNEL * 1j).dtype == "complex128"


def test_unsharp_adds_what_gaussian_takes_away():
    x = image((20, 30))
    close(filters.unsharp(x, 0.5, 2), x + 2 * (x - ndimage.gaussian_filter(x, 0.5)))
    assert filters.unsharp(x.astype("float32"), 0.5, np.float64(2)).dtype == "float32"
    x = image((20, 30), "uint8")
    exact = x + 2 * (x - ndimage.gaussian_filter(x / 1.0, 0.5))
    equal(filters.unsharp(x, 0.5, 2), np.rint(exact.clip(0, 255)))


@pytest.mark.parametrize(
    ("weights", "dtype"),
    [([[-1, 0, 1]], "uint8"), ([[-1], [2], [-1]], "bool"), ([[0, 3, 0]], "int16"),
     ([[1, 1, 1]], "uint64")],
)  # fmt: skip
def test_whole_weights_are_whole_in_any_dtype(weights, dtype):
    """[[-1., 0., 1.]] gave uint8, and cut at 0."""
    x = image((7, 9), "uint8").astype(dtype)
    made = filters.correlate(x, np.array(weights))
    for kind in ("float32", "float64"):
        same = filters.correlate(x, np.array(weights, kind))
        equal(same, made, strict=True)
    equal(made, filters.correlate(x.astype(np.int64), weights))
    assert np.min(weights) >= 0 or made.dtype.kind == "i"


def test_fractions_and_deviations_are_floats_and_told_where_they_are_lost():
    x = image((7, 9), "uint8")
    weights = np.array([[-1, 0, 1]]) / 2
    made = filters.correlate(x, weights)
    equal(made, filters.correlate(x * 1.0, weights), strict=True)
    equal(filters.correlate(x, weights, dtype="int16"), np.rint(made))
    weights = [[0, 0.25, 0.5, 0.25, 0]]
    with pytest.warns(npt.RoundingWarning, match=r"weight is 0\.25.*rounded to uint8.*dtype="):
        rounded = filters.correlate(x, weights)
    equal(rounded, filters.correlate(x, weights, dtype="uint8"))
    equal(rounded, np.rint(filters.correlate(x, weights, dtype="f8")))
    assert filters.correlate(x > 9, weights).dtype == np.float64
    assert filters.correlate(x.astype("float32"), weights).dtype == np.float32
    # 17.92 was 18, and 0.4 nothing.
    for dtype, made in (("uint8", "float64"), ("bool", "float64"), ("float32", "float32")):
        x = (image((7, 9), "uint8") % 3).astype(dtype)
        found = filters.local_std(x, 3, min_count=2)
        equal(found, filters.local_std(x, 3))
        assert (found.dtype, found[3, 4]) == (made, pytest.approx(x[2:5, 3:6].std(), rel=1e-6))
    assert filters.local_std(image((3, 3), "uint8"), 3, dtype="uint8").dtype == np.uint8


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint64", "float32"])
@pytest.mark.parametrize("name", ["opening", "closing", "white_tophat", "black_tophat"])
def test_morphology_of_every_type(name, dtype):
    ours, theirs, _ = PAIRS[name]
    x = (image((13, 15), "uint8") % 64).astype(dtype)
    for size in ((3, 3), (2, 5)):
        equal(ours(x, size), theirs(x, size), strict=True)
    equal(ours(x, footprint=shapes.disk(2)), theirs(x, footprint=shapes.disk(2)), strict=True)


def test_ranges_of_truths_and_of_what_an_integer_does_not_hold():
    x = image((13, 15), "bool")
    equal(filters.morphological_gradient(x), filters.dilate(x) ^ filters.erode(x), strict=True)
    x = np.array([[-100, 0, 100]], "int8")
    equal(filters.morphological_gradient(x), np.array([[100, 127, 100]], "int8"), strict=True)


@pytest.mark.parametrize("name", ["gaussian of order 1", "gaussian_laplace", "gradient, central"])
def test_derivatives_of_integers_are_floats(name):
    ours, _, given = PAIRS[name]
    x = image((9, 8), "uint8")
    equal(ours(x, *given), ours(x / 1.0, *given), strict=True)


def test_slopes_at_the_ends_are_those_of_numpy_and_alike_values_of_skimage():
    x = image((7, 9))
    for axis in (0, 1):
        got = filters.gradient(x, axis, 0.3, boundary=npt.extrapolate(1))
        close(got, np.gradient(x, 0.3, axis=axis))
    # Of distances its weights are not centred: here all count alike.
    x = np.random.default_rng(0).random((12, 13))
    got = filters.bilateral(x, 0.3, 1e6, 3e-6, boundary="constant")
    wanted = denoise_bilateral(x, 7, 0.3, 1e6, bins=10**6)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


GIVEN = {
    "bilateral": (20.0,), "correlate": (KERNEL,), "percentile": (30,), "threshold_local": (5,),
}  # fmt: skip


@pytest.mark.parametrize("name", filters.__all__)
def test_every_filter_takes_arrays_of_every_kind(name):
    def call(x, **options):
        return getattr(filters, name)(x, *GIVEN.get(name, ()), **options)

    x = image((12, 14), "uint8")
    wanted = call(x, dtype="float32", boundary="mirror")
    options = {"dtype": "float32", "boundary": "mirror"}
    equal(call(da.from_array(x, chunks=(5, 14)), **options).compute(), wanted, strict=True)
    equal(call(npt.lazy(x), **options).compute(), wanted, strict=True)
    named = xr.DataArray(x, dims=("y", "x"), coords={"x": np.arange(14)})
    got = call(named, dims=("y", "x"), **options)
    equal(got.values, wanted, strict=True)
    assert got.coords.equals(named.coords)
    data = call(named.to_dataset(name="a"), dims=("y", "x"), **options)
    equal(data.a.values, wanted, strict=True)
    out = np.empty(x.shape, "float32")
    assert call(x, out=out, **options) is out
    equal(out, wanted)
    equal(call(x.T, axes=(1, 0), **options), wanted.T, strict=True)
    equal(call(x, every=2, **options), wanted[::2, ::2], strict=True)


def test_axes_that_are_filtered():
    x = image((5, 6, 7))
    equal(filters.median(x), ndimage.median_filter(x, (1, 3, 3)))
    cube = filters.maximum(x, (3, 3, 3))
    equal(cube, ndimage.maximum_filter(x, (3, 3, 3)))
    close(filters.gaussian(x, (0.4,) * 3, 2), ndimage.gaussian_filter(x, 0.4, truncate=2))
    for axis in (0, -1):
        close(filters.sobel(x, axis, axes=(0, 1, 2)), ndimage.sobel(x, axis))
    close(filters.laplace(x, axes=(0, 1, 2)), ndimage.laplace(x))
    close(filters.mean(x, (2, 4), axes=(2, 0)), ndimage.uniform_filter(x, (4, 1, 2)))
    line = filters.maximum(x, 4, axes=0)
    equal(line, ndimage.maximum_filter1d(x, 4, axis=0))
    x = image((4, 9))
    close(filters.correlate(x, [1.0, 2.0]), ndimage.correlate1d(x, [1.0, 2.0]))
    close(filters.sobel(x[0]), ndimage.sobel(x[0]))


def test_windows_of_any_size_on_what_may_be_no_image():
    x = image((40, 37), "uint8")
    equal(filters.erode(x, 31), ndimage.grey_erosion(x, 31))
    equal(filters.median(x, 9), ndimage.median_filter(x, 9))
    close(filters.gaussian(x / 255, 4.0), ndimage.gaussian_filter(x / 255, 4.0))
    # A very narrow bell changes nothing.
    for same in (filters.mean(x, 1), filters.median(x, 1), filters.gaussian(x / 1, 1e-200)):
        equal(same, x)
    assert filters.mean(np.empty((0, 5))).shape == (0, 5)
    equal(filters.maximum([1, 5, 2]), [5, 5, 5])
    expected = filters.mean(x, boundary="reflect")
    assert filters.mean(x, out=x, threads=1) is x
    equal(x, expected)


def test_ranks_never_mix_two_values_and_weights_of_zero_are_not_read():
    x = np.array([1.0, np.inf, 1.0, np.inf, 1.0, np.inf, 1.0])
    for q in (0, 30, 100):
        equal(filters.percentile(x, q, 6), ndimage.percentile_filter(x, q, 6))
    for x in (image((60,), "bool"), image((60,), "uint64") >> np.uint64(12)):
        expected = ndimage.rank_filter(x.astype("float64"), 28, 52).astype(x.dtype)
        equal(filters.percentile(x, 100 * 28.5 / 52, 52), expected, strict=True)
    x = np.array([[np.nan, 1.0, 2.0]])
    made = filters.correlate(x, [0, 1, 1], boundary="constant")
    equal(made, [[np.nan, 3.0, 2.0]])
    equal(filters.correlate(np.ones((2, 3)), np.zeros((3, 3))), 0)


def test_every_name_is_a_filter_and_dimensions_have_names():
    x = image((6, 3, 7), "uint8")
    named = xr.DataArray(x, dims=("y", "band", "x"), coords={"x": np.arange(7)})
    got = filters.median(named, dims=("y", "x"))
    assert got.dims == named.dims
    equal(got, ndimage.median_filter(x, (3, 1, 3)))
    exact = ndimage.uniform_filter1d(x / 1.0, 3, axis=1, mode="nearest")
    equal(filters.mean(named, 3, dims="band", boundary="nearest"), np.rint(exact))
    lazy = filters.unsharp(named.chunk(2), dims=("y", "x"))
    equal(lazy.compute(), filters.unsharp(named, dims=("y", "x")), strict=True)
    refuses(TypeError, "Dataset", filters.mean, xr.Dataset({"a": 1}))
    for name in filters.__all__:
        assert next(iter(inspect.signature(getattr(filters, name)).parameters)) == "x"


def at_rank(q):
    return lambda v: np.sort(v)[min(int(len(v) * q / 100), len(v) - 1)]


def holes():
    """Numbers with holes, some of which are larger than a window."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(9, 11))
    x[generator.random(x.shape) < 0.4] = np.nan
    x[2:6, 3:8], x[0, 0] = np.nan, np.inf
    return x


@pytest.mark.parametrize(("function", "of_what_is_left", "q"), [
    (filters.mean, np.mean, ()), (filters.maximum, np.max, ()), (filters.erode, np.min, ()),
    (filters.median, at_rank(50), ()), (filters.percentile, at_rank(30), (30,)),
    (filters.local_std, np.std, ()),
])  # fmt: skip
def test_too_few_values_give_nan(function, of_what_is_left, q):
    x = holes()
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1, "symmetric"), (3, 3))
    wanted = np.full(x.shape, np.nan)
    for place in np.ndindex(x.shape):
        left = views[place][~np.isnan(views[place])]
        if len(left) >= 4:
            with np.errstate(invalid="ignore"):
                wanted[place] = of_what_is_left(left)
    np.testing.assert_allclose(function(x, *q, min_count=4), wanted, rtol=1e-12)


def test_without_nan_nothing_changes_and_an_opening_leaves_holes_out():
    """A median of an even number of values is still one of them."""
    cross = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    for x in (image((5, 6)), image((5, 6), "uint8")):
        for function in (filters.median, filters.minimum):
            counted = function(x, footprint=cross, min_count=4)
            equal(counted, function(x, footprint=cross), strict=True)
    x = holes()
    opened = filters.dilate(filters.erode(x, min_count=2), min_count=2)
    equal(filters.opening(x, min_count=2), opened)
    equal(filters.white_tophat(x, 3, min_count=2), x - opened)


def test_shapes_are_those_of_other_packages_also_in_kernels():
    for radius in range(5):
        for name in ("disk", "ball", "diamond"):
            equal(getattr(shapes, name)(radius), getattr(morphology, name)(radius) > 0)
        equal(shapes.diamond(radius, ndim=3), morphology.octahedron(radius) > 0)
    for ndim in (1, 2, 3):
        equal(shapes.cross(1, ndim), ndimage.generate_binary_structure(ndim, 1))
    equal(shapes.ring(4, 2), shapes.disk(4) & ~np.pad(shapes.disk(2), 2))
    assert shapes.box(2, 3).shape == (2, 3)
    assert all(getattr(shapes, name)(2, 1).dtype == bool for name in ("box", "cross", "ring"))
    assert shapes.disk(2.9).shape == (5, 5)
    largest = npt.stencil(lambda x: x[-2:3, -2:3][npt.shapes.disk(2)].max())

    @npt.stencil
    def slow(x):
        while True:
            return x[-2:3, -2:3][npt.shapes.disk(radius=2)].max()

    x = np.arange(30).reshape(5, 6) * 7 % 31
    wanted = ndimage.maximum_filter(x, footprint=npt.shapes.disk(2))
    for call in (largest, largest.debug, slow):
        equal(call(x, boundary="reflect"), wanted)
