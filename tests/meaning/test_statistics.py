"""Statistics of windows that NumPy has no name for, by those of SciPy and scikit-image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ninepoint as npt
from nightly import only
from seams import interpreted

DTYPES = ("uint8", "int64", "uint64", "bool", "float16", "float32", "float64")


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


def kernel(name: str, shape: tuple[int, int], mask: np.ndarray | None = None) -> npt.Stencil:
    (rows, columns), mine = shape, STATISTICS[name][0]

    def whole(x):
        return mine(x[0:rows, 0:columns])

    def part(x):
        return mine(x[0:rows, 0:columns][mask])

    return npt.stencil(
        whole if mask is None else part, boundary="valid", performance_warnings=False
    )


def image(dtype: str, shape: tuple[int, int] = (9, 12)) -> np.ndarray:
    values = np.random.default_rng(3).integers(0, 2 if dtype == "bool" else 5, shape)
    return values.astype(dtype) / 4 if np.dtype(dtype).kind == "f" else values.astype(dtype)


def expected(name: str, x: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    views = np.lib.stride_tricks.sliding_window_view(x, shape)
    return np.array([[STATISTICS[name][1](view) for view in row] for row in views])


def alike(name: str, stencil: npt.Stencil, x: np.ndarray, wanted: np.ndarray) -> None:
    floats = np.result_type(x, np.float32) if x.dtype.kind == "f" else np.dtype("float64")
    own = x.dtype if name == "mode" and x.dtype.kind != "f" else floats
    with interpreted():
        text = stencil(x)
    for found in (text, stencil.debug(x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
        assert found.dtype == own


@EACH
@pytest.mark.parametrize("dtype", only(3, DTYPES))
def test_statistics_are_those_of_scipy(name: str, dtype: str) -> None:
    x = image(dtype)
    alike(name, kernel(name, (3, 4)), x, expected(name, x, (3, 4)))


LARGE = pytest.param((11, 11), marks=pytest.mark.nightly)


@EACH
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (6, 1), (4, 5), LARGE])
def test_windows_of_any_size(name: str, shape: tuple[int, int]) -> None:
    x = image("int16", (shape[0] + 2, shape[1] + 2))
    alike(name, kernel(name, shape), x, expected(name, x, shape))


@EACH
@pytest.mark.parametrize("shape", [(3, 3), LARGE])
def test_nan_is_the_result_where_any_element_is(name: str, shape: tuple[int, int]) -> None:
    x = image("float32", (14, 15))
    x[5, 7] = np.nan
    views = np.lib.stride_tricks.sliding_window_view(x, shape)
    for found in (kernel(name, shape)(x), kernel(name, shape).debug(x)):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(views).any((2, 3)))


@EACH
def test_elements_that_a_mask_picks(name: str) -> None:
    x, disk = image("uint8"), npt.shapes.disk(2)
    views = np.lib.stride_tricks.sliding_window_view(x, (5, 5))
    wanted = np.array([[STATISTICS[name][1](view[disk]) for view in row] for row in views])
    alike(name, kernel(name, (5, 5), disk), x, wanted)


def test_what_is_computed_has_a_mode_too() -> None:
    @npt.stencil(boundary="valid")
    def steps(x):
        w = x[0:2, 0:3]
        return npt.mode(abs(w - x[0, 0])), npt.mode(w > 2)

    x = image("uint8")
    views = np.lib.stride_tricks.sliding_window_view(x.astype(int), (2, 3))
    wanted = [[stats.mode(abs(v - v[0, 0]), axis=None).mode for v in row] for row in views]
    many = [[np.count_nonzero(v > 2) > 3 for v in row] for row in views]
    for found in (steps(x), steps.debug(x)):
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_array_equal(found[1], many)
        assert found[1].dtype == bool


@EACH
def test_cubes(name: str) -> None:
    mine, theirs = STATISTICS[name]

    def cube(x):
        return mine(x[0:2, 0:3, 0:2])

    x = np.random.default_rng(1).integers(0, 4, (4, 5, 6), np.uint8)
    views = np.lib.stride_tricks.sliding_window_view(x, (2, 3, 2))
    wanted = np.array([theirs(v) for v in views.reshape(-1, 2, 3, 2)]).reshape(views.shape[:3])
    np.testing.assert_allclose(npt.stencil(cube, boundary="valid")(x), wanted)


@pytest.mark.parametrize("name", only(1, STATISTICS))
def test_kernels_that_are_not_analysed(name: str) -> None:
    mine = STATISTICS[name][0]

    def kernel(x):
        found = mine(x[0:3, 0:3])
        return found if not np.sort(x[0, 0:3])[0] > 100 else found + 1

    x = image("uint8")
    stencil = npt.stencil(kernel, boundary="valid", performance_warnings=False)
    np.testing.assert_allclose(stencil(x), expected(name, x, (3, 3)))


def test_arrays_outside_of_kernels() -> None:
    x = image("float64")
    assert npt.mode(x) == stats.mode(x, axis=None).mode
    np.testing.assert_allclose(npt.entropy(x), entropy(x))
    np.testing.assert_allclose(npt.trimmed_mean(x, 0.2), stats.trim_mean(x, 0.2, axis=None))
    with pytest.raises(ValueError, match="leaves nothing of 4 elements"):
        npt.trimmed_mean(x[0, :4], 0.5)


def test_what_is_no_window_is_refused_where_it_stands() -> None:
    with pytest.raises(npt.StencilError, match=r"'npt\.mode' has no meaning for a single number"):
        npt.stencil(lambda x: npt.mode(x[0]))(np.ones(4))
    with pytest.raises(npt.StencilError, match="complex numbers") as refused:
        npt.stencil(lambda x: npt.entropy(x[0:2]))(np.ones(4, complex))
    assert "test_statistics.py" in str(refused.value)
    for cut in (-0.1, 0.6, 0.5):
        with pytest.raises(npt.StencilError, match=r"npt\.trimmed_mean"):
            npt.stencil(_trimmed(cut))(np.ones(4))


def _trimmed(cut: float) -> Callable[[Any], Any]:
    return lambda x: npt.trimmed_mean(x[0:2], cut)
