"""Parts of windows: by a mask, by `where=`, without NaN; and statistics that SciPy has."""

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import kernels
import ninepoint as npt
from compared import agree, by_text, of_windows, only, refuses, views
from seams import plan_of

CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
DISK = npt.shapes.disk(3)
ASIDE = np.array([[0, 0, 0], [0, 1, 1], [0, 0, 0]], dtype=bool)
WHOLE = np.ones((3, 3), dtype=bool)
NINE = np.arange(9.0).reshape(3, 3)
FIVE = NINE[CROSS]
ENDS = np.array([True, False, True])
CUBE = np.zeros((3, 3, 3), dtype=bool)
CUBE[1, 1] = CUBE[0, 1, 1] = True
ORDER = np.array([2, 0, 0])


def nine(x):
    return x[-1:2, -1:2]


KERNELS: dict[str, Any] = {
    "extremes": lambda x: (x[-3:4, -3:4][DISK].max(), x[-3:4, -3:4][DISK].min()),
    "sum": lambda x: (nine(x)[CROSS].sum(), nine(x)[~CROSS].sum(), nine(x)[ASIDE].prod()),
    "median-of-a-disk": lambda x: np.median(x[-3:4, -3:4][DISK]),
    "spread": lambda x: (np.percentile(nine(x)[CROSS], 30), np.var(nine(x)[CROSS], ddof=1)),
    "any-all": lambda x: 1 * (nine(x)[CROSS] > 20).any() + 2 * (nine(x)[CROSS] > -5).all(),
    "places": lambda x: nine(x)[CROSS].argmax() - nine(x)[CROSS].argmin(),
    "difference": lambda x: np.abs(nine(x)[CROSS] - x[0, 0]).sum(),
    "weights": lambda x: (nine(x) * NINE)[CROSS].sum() + (nine(x)[CROSS] * FIVE).sum(),
    "two": lambda x: (nine(x)[CROSS] * x[-2:3, 0]).sum(),
    "line": lambda x: x[0, -1:2][ENDS].sum() - x[-1:2, 0][ORDER].sum(),
    "element": lambda x: nine(x)[1, 2] - nine(x)[-1, 0] + (nine(x) * NINE)[0, 1],
    "row": lambda x: nine(x)[0].max() - nine(x)[:, 1].min() + nine(x)[::2, 1].sum(),
    "twice": lambda x: nine(x)[CROSS][1:4].sum() + nine(x)[WHOLE][2] * nine(x)[CROSS].size,
    "where": lambda x: np.where(CROSS, nine(x), 0).max() + np.where(CROSS, 0, nine(x)).sum(),
}


def reals(dtype: str, shape: tuple[int, ...] = (5, 6)) -> np.ndarray:
    values = np.random.default_rng(4).normal(size=shape) * 50
    return abs(values).astype(dtype) if dtype[0] == "u" else values.astype(dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_masks_are_windows(name: str) -> None:
    """The result, its dtype, and where the footprint ends: `cval` stands beyond."""
    first = list(KERNELS).index(name)
    schedules = (npt.Schedule(), npt.Schedule(unrolled=0, network=0))
    for k, dtype in enumerate((("float64", "uint8"), ("float32", "int16"))[first % 2]):
        assert plan_of(npt.stencil(KERNELS[name]), dtype).reason == ""
        options = {"schedule": schedules[k - first // 2 & 1], "boundary": "fill", "cval": 1}
        close = 1e-4 if dtype == "float32" else 1e-12
        agree(KERNELS[name], reals(dtype), close=close, **options)


def test_the_definition_is_that_of_numpy_and_the_reach_of_what_is_picked() -> None:
    x = reals("float64", (9, 10))
    found = npt.stencil(boundary="valid")(KERNELS["median-of-a-disk"]).debug(x)
    np.testing.assert_array_equal(found, of_windows(lambda w: np.median(w[DISK]), x, 7, 7))
    for function, reach in (
        (lambda x: x[-1:2, -1:2][ASIDE].sum(), ((0, 0), (0, 1))),
        (lambda x: x[-1:2, -1:2][0, 2], ((-1, 1), (-1, 1))),
        (lambda x: x[-3:4, -3:4][DISK].max(), ((-3, -3), (3, 3))),
    ):
        assert plan_of(npt.stencil(function), "float64").reaches == (reach,)


@pytest.mark.parametrize(("function", "words"), [
    (lambda x, mask: nine(x)[mask].sum(), "an array that only the call gives"),
    (lambda x, mask: nine(x)[0.5, mask[0, 0]], "mask-type"),
])  # fmt: skip
def test_what_is_no_mask(function: Any, words: str) -> None:
    with pytest.raises(npt.StencilError, match=words):
        npt.stencil(standard_indexing="mask")(function)(np.zeros((5, 5)), CROSS)


def test_what_is_divided_by_no_truths_is_positive() -> None:
    """Truths are counted as floats, of which no number is a negative zero."""

    @npt.stencil(boundary="nearest")
    def kernel(x):
        some = np.count_nonzero(x[0:1, 0] + x[-1, 0])
        return np.sqrt(abs(x[1, 0])) / some, 1.0 / np.count_nonzero(x[-1:2, 0:1])

    x = np.zeros((6, 7))
    x[4] = 2.0
    for made in agree(kernel, x):
        assert not (made < 0).any()


REDUCTIONS = (
    np.nansum, np.nanprod, np.nanmean, np.nanmin, np.nanmax, np.nanvar, np.nanstd,
    np.count_nonzero, np.average, np.nanmedian,
)  # fmt: skip
DTYPES = ("float64", "float32", "float16", "int16", "uint64", "bool")
WEIGHTS = np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]])


@functools.cache
def over_nine(function: Any) -> npt.Stencil:
    return npt.stencil(boundary="valid")(lambda x: function(x[-1:2, -1:2]))


def holes(dtype: str) -> np.ndarray:
    """Numbers with some NaN, an infinity, and a window of nothing but NaN."""
    values = np.random.default_rng(2).normal(size=(6, 8)) * 3
    if np.dtype(dtype).kind not in "fc":
        return np.abs(values).astype(dtype)
    values[2:5, 3:6] = np.nan
    values[0, 0] = np.inf
    values[5, 7] = np.nan
    return values.astype(dtype)


def both(stencil: Any, *fields: np.ndarray) -> tuple[Any, Any]:
    """What the generated text gives, and the definition."""
    return by_text(stencil, *fields), stencil.debug(*fields)


# Of complex numbers some functions are told.
PAIRS = [*itertools.product(REDUCTIONS, DTYPES)]
PAIRS += [(one, "complex128") for one in (np.nansum, np.nanmean, np.nanprod, np.average)]


@pytest.mark.parametrize(("function", "dtype"), only(22, PAIRS))
def test_names_of_numpy_are_understood(function: Any, dtype: str) -> None:
    stencil, x = over_nine(function), holes(dtype)
    if dtype == "complex128":
        x.imag = np.random.default_rng(5).normal(size=x.shape)
        x[0, 0] = 1j
    assert "understood" in stencil.explain(x.dtype)
    wanted = of_windows(function, x.astype("float32") if dtype == "float16" else x, 3, 3)
    for result in both(stencil, x):
        np.testing.assert_allclose(result, wanted, rtol=1e-4 if x.itemsize < 8 else 1e-12)


def test_variances_and_averages_with_weights() -> None:
    """Degrees of freedom; and digits that are kept beside a large mean."""
    x = holes("float64")
    for function in (np.nanvar, np.nanstd):
        wanted = of_windows(functools.partial(function, ddof=2), x, 3, 3)
        kernel = npt.stencil(lambda x: function(x[-1:2, -1:2], ddof=2), boundary="valid")  # noqa: B023
        for result in both(kernel, x):
            np.testing.assert_allclose(result, wanted)
    x += 1e8
    wanted = of_windows(np.nanvar, x, 3, 3)
    np.testing.assert_allclose(by_text(over_nine(np.nanvar), x), wanted, rtol=1e-7)

    @npt.stencil(boundary="valid", standard_indexing=("v",))
    def kernel(x, v):
        w = x[-1:2, -1:2]
        return np.average(w, weights=WEIGHTS), np.average(w, weights=v), np.average(w, None, w * w)

    x = np.random.default_rng(1).normal(size=(6, 7))
    weighed = [lambda w: np.average(w, weights=WEIGHTS), lambda w: np.average(w, weights=NINE),
               lambda w: np.average(w, weights=w * w)]  # fmt: skip
    for found in both(kernel, x, NINE):
        for result, function in zip(found, weighed, strict=True):
            np.testing.assert_allclose(result, of_windows(function, x, 3, 3))
    edge = np.array([-1.0, 0.0, 1.0])
    with pytest.raises(npt.StencilError, match="sum of the weights is zero"):
        npt.stencil(lambda x: np.average(x[-1:2], weights=edge))(np.zeros(5))


@pytest.mark.parametrize("shape", [(3, 3), (4, 4), (9, 2), (1, 2), (1, 5), (1, 1)])
def test_medians_are_those_of_numpy_to_the_bit(shape: tuple[int, int]) -> None:
    """Infinities beside what stands for NaN, zeros of two signs, and any number of NaN."""
    height, width = shape
    kernel = npt.stencil(boundary="valid")(lambda x: np.nanmedian(x[0:height, 0:width]))
    values = np.array([np.inf, -np.inf, 0.0, -0.0, 1.0, 3.0, -2.5, 1e308, np.nan, np.nan])
    x = np.random.default_rng(3).choice(values, (16, 16))
    x[:height, :width] = np.nan
    with np.errstate(over="ignore", invalid="ignore"):
        for found in both(kernel, x):
            np.testing.assert_array_equal(found, of_windows(np.nanmedian, x, *shape))


@pytest.mark.parametrize("q", [0.5, 0.83])
def test_large_windows_put_what_is_there_in_a_buffer(q: float) -> None:
    kernel = npt.stencil(boundary="valid")(lambda x: np.nanquantile(x[0:9, 0:7], q))
    x = np.concatenate([holes("float64"), holes("float64")])
    x[0, 0] = 7.0
    x[1:12, 1:] = np.nan
    wanted = of_windows(lambda w: np.nanquantile(w, q), x, 9, 7)
    for found in both(kernel, x):
        np.testing.assert_allclose(found, wanted)


NONE = np.zeros((3, 3), bool)
NAMES = {"np": np, "CROSS": CROSS, "NONE": NONE}

# Of a window `w` and the mask `t`.
PARTS = (
    "w.sum(where=t)", "np.sum(w, where=t, initial=3)", "np.prod(w * 0.25, where=t)",
    "w.mean(where=t)", "w.min(where=t, initial=30)", "np.max(w, where=t, initial=-5)",
    "np.any(w > 20, where=t)", "(w > 20).all(where=t)", "w.var(where=t)",
    "np.std(w, ddof=1, where=t)", "np.nansum(w, where=t)", "np.nanmean(w, where=t)",
    "np.nanmin(w, where=t, initial=60)", "np.nanmax(w, where=t, initial=-1)",
    "np.nanstd(w, where=t)", "np.nanprod(w * 0.25, where=t)", "w.var(ddof=2.5, where=t)",
)  # fmt: skip
MASKS = ("m[-1:2, -1:2]", "CROSS", "NONE", "m[-1:2, -1:2] & (w > 20)", "m[0, 0]")


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_takes_elements(mask: str) -> None:
    dtype = ("float64", "int16")[MASKS.index(mask) % 2]
    generator = np.random.default_rng(4)
    x = (generator.random((6, 8)) * 50).astype(dtype)
    if dtype == "float64":
        x[1:4, 3:6], x[5, 7] = np.nan, np.inf
    m = generator.random(x.shape) < 0.5
    m[:4, :4] = False
    text = f"def kernel(x, m):\n    w = x[-1:2, -1:2]\n    t = {mask}\n"
    text += f"    return {', '.join(PARTS)}, m[0, 0]\n"
    kernel = npt.stencil(boundary="valid")(kernels.compiled(text, names=NAMES))
    assert "understood" in kernel.explain(x.dtype, m.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(kernel, x, m, close=1e-12)


def test_means_of_large_integers_do_not_wrap_and_nan_is_the_result_of_any() -> None:
    kernel = npt.stencil(boundary="valid")(lambda x, m: x[-1:2].mean(where=m[-1:2]))
    for found in both(kernel, np.full(3, 2**62 + 2**40), np.array([True, True, True])):
        assert found[0] == 2.0**62 + 2.0**40

    @npt.stencil(boundary="valid")
    def each(x):
        w = x[0:3, 0:3]
        return npt.mode(w), npt.entropy(w), npt.trimmed_mean(w, 0.15)

    x = image("float32", 9, 9)
    x[5, 7] = np.nan
    for found in (*each(x), *each.debug(x)):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(views(x, 3, 3)).any((2, 3)))


def entropy(values: np.ndarray) -> float:
    return float(stats.entropy(np.unique(values, return_counts=True)[1], base=2))


STATISTICS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "mode": (npt.mode, lambda v: stats.mode(v * 1, axis=None).mode),
    "entropy": (npt.entropy, entropy),
    "trimmed_mean": (
        lambda window: npt.trimmed_mean(window, 0.15),
        lambda v: stats.trim_mean(v.astype(float), 0.15, axis=None),
    ),
}
EACH = pytest.mark.parametrize("name", STATISTICS)


def over(name: str, *shape: int) -> npt.Stencil:
    mine, part = STATISTICS[name][0], tuple(slice(0, n) for n in shape)
    if len(shape) != 2:
        return npt.stencil(lambda x: mine(x[part]), boundary="valid")
    # Large windows take the general path, to which slices are no constants.
    rows, columns = shape
    return npt.stencil(lambda x: mine(x[0:rows, 0:columns]), boundary="valid")


def image(dtype: str, *shape: int) -> np.ndarray:
    values = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 5, shape or (9, 12))
    return values.astype(dtype) / 4 if np.dtype(dtype).kind == "f" else values.astype(dtype)


def like_scipy(name: str, stencil: npt.Stencil, x: np.ndarray, wanted: np.ndarray) -> None:
    floats = np.result_type(x, np.float32) if x.dtype.kind == "f" else np.dtype("float64")
    own = x.dtype if name == "mode" and x.dtype.kind != "f" else floats
    for found in (by_text(stencil, x), stencil.debug(x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
        assert found.dtype == own


@EACH
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("uint8", (3, 4)), ("bool", (3, 4)), ("float32", (1, 1)), ("int64", (6, 1)),
     ("uint64", (2, 3, 2)), pytest.param("float64", (11, 11), marks=pytest.mark.nightly)],
)  # fmt: skip
def test_statistics_are_those_of_scipy(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = image(dtype, *(n + 2 for n in shape))
    like_scipy(name, over(name, *shape), x, of_windows(STATISTICS[name][1], x, *shape))


@EACH
def test_elements_that_a_mask_picks(name: str) -> None:
    (mine, theirs), disk, x = STATISTICS[name], npt.shapes.disk(2), image("uint8", 6, 8)
    picked = npt.stencil(lambda x: mine(x[0:5, 0:5][disk]), boundary="valid")
    like_scipy(name, picked, x, of_windows(lambda v: theirs(v[disk]), x, 5, 5))


def test_what_is_computed_has_a_mode_too() -> None:
    @npt.stencil(boundary="valid")
    def steps(x):
        w = x[0:2, 0:3]
        return npt.mode(abs(w - x[0, 0])), npt.mode(w > 2)

    x = image("int16", 5, 6)
    wanted = of_windows(lambda v: stats.mode(abs(v - v[0, 0]), axis=None).mode, x, 2, 3)
    many = of_windows(lambda v: np.count_nonzero(v > 2) > 3, x, 2, 3)
    for found in (by_text(steps, x), steps.debug(x)):
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_array_equal(found[1], many)
        assert found[1].dtype == bool


@pytest.mark.parametrize("name", only(1, STATISTICS))
def test_kernels_that_are_not_analysed(name: str) -> None:
    mine = STATISTICS[name][0]

    def kernel(x):
        found = []
        found.append(mine(x[0:3]))
        return found[0]

    x = image("uint8", 12)
    stencil = npt.stencil(kernel, boundary="valid", performance_warnings=False)
    np.testing.assert_allclose(stencil(x), of_windows(STATISTICS[name][1], x, 3))


def test_arrays_outside_of_kernels_and_what_is_no_window() -> None:
    x = image("float64")
    assert npt.mode(x) == stats.mode(x, axis=None).mode
    np.testing.assert_allclose(npt.entropy(x), entropy(x))
    np.testing.assert_allclose(npt.trimmed_mean(x, 0.2), stats.trim_mean(x, 0.2, axis=None))
    refuses(ValueError, "leaves nothing of 4 elements", npt.trimmed_mean, x[0, :4], 0.5)
    for kernel, x, words in (
        (lambda x: npt.mode(x[0]), np.ones(4), r"'npt\.mode' has no meaning for a single number"),
        (lambda x: npt.entropy(x[0:2]), np.ones(4, complex), "complex numbers"),
        (lambda x: npt.trimmed_mean(x[0:2], -0.1), np.ones(4), r"npt\.trimmed_mean"),
        (lambda x: npt.trimmed_mean(x[0:2], 0.5), np.ones(4), r"npt\.trimmed_mean"),
    ):
        with pytest.raises(npt.StencilError, match=words) as refused:
            npt.stencil(kernel)(x)
        assert "test_windows.py" in str(refused.value)
