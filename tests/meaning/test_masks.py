"""Windows of any shape: the elements of a window that a constant array picks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from seams import interpreted, plan_of

CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
ROWS, COLUMNS = np.mgrid[-3:4, -3:4]
DISK = ROWS**2 + COLUMNS**2 <= 9
ASIDE = np.array([[0, 0, 0], [0, 1, 1], [0, 0, 0]], dtype=bool)
WHOLE = np.ones((3, 3), dtype=bool)
WEIGHTS = np.arange(9.0).reshape(3, 3)
ENDS = np.array([True, False, True])
CUBE = np.zeros((3, 3, 3), dtype=bool)
CUBE[1, 1] = CUBE[0, 1, 1] = True
ORDER = np.array([2, 0, 0])


def nine(x):
    return x[-1:2, -1:2]


KERNELS: dict[str, Any] = {
    "max": lambda x: x[-3:4, -3:4][DISK].max(),
    "min": lambda x: x[-3:4, -3:4][DISK].min(),
    "sum": lambda x: nine(x)[CROSS].sum(),
    "prod": lambda x: nine(x)[ASIDE].prod(),
    "mean": lambda x: nine(x)[ASIDE].mean(),
    "median": lambda x: np.median(nine(x)[CROSS]),
    "median-of-a-disk": lambda x: np.median(x[-3:4, -3:4][DISK]),
    "percentile": lambda x: np.percentile(nine(x)[CROSS], 30),
    "std": lambda x: nine(x)[CROSS].std(),
    "var": lambda x: np.var(nine(x)[CROSS], ddof=1),
    "any-all": lambda x: 1 * (nine(x)[CROSS] > 20).any() + 2 * (nine(x)[CROSS] > -5).all(),
    "argmax": lambda x: nine(x)[CROSS].argmax() - nine(x)[CROSS].argmin(),
    "difference": lambda x: np.abs(nine(x)[CROSS] - x[0, 0]).sum(),
    "weighted": lambda x: (nine(x) * WEIGHTS)[CROSS].sum(),
    "weights": lambda x: (nine(x)[CROSS] * WEIGHTS[CROSS]).sum(),
    "whole": lambda x: nine(x)[WHOLE].mean() + nine(x)[WHOLE].max(),
    "rest": lambda x: nine(x)[~CROSS].sum(),
    "two": lambda x: (nine(x)[CROSS] * x[-2:3, 0]).sum(),
    "without-nan": lambda x: np.nanmean(nine(x)[CROSS]),
    "line": lambda x: x[0, -1:2][ENDS].sum() - x[-1:2, 0][ORDER].sum(),
    "element": lambda x: nine(x)[1, 2] - nine(x)[-1, 0] + (nine(x) * WEIGHTS)[0, 1],
    "row": lambda x: nine(x)[0].max() - nine(x)[:, 1].min() + nine(x)[::2, 1].sum(),
    "twice": lambda x: nine(x)[CROSS][1:4].sum() + nine(x)[CROSS][2],
    "size": lambda x: nine(x)[CROSS].size * x[0, 0] + len(WEIGHTS[CROSS]),
    "where": lambda x: np.where(CROSS, nine(x), 0).max() + np.where(CROSS, 0, nine(x)).sum(),
}


def fields(dtype: str, shape: tuple[int, ...] = (5, 6)) -> np.ndarray:
    rng = np.random.default_rng(4)
    if np.dtype(dtype).kind == "u":
        return rng.integers(0, 256, shape).astype(dtype)
    values = rng.normal(size=shape) * 50
    return values.round().astype(dtype) if dtype[0] == "i" else values.astype(dtype)


def by_text(stencil: Any, x: np.ndarray, **others: Any) -> Any:
    """What the generated text gives, run as plain Python."""
    assert plan_of(stencil, x, **others).reason == ""
    with interpreted():
        return stencil(x, **others)


@pytest.mark.parametrize("name", KERNELS)
def test_masks_are_windows(name: str) -> None:
    """The result, its dtype, and where the footprint ends: `cval` stands beyond."""
    looping = npt.Schedule(unrolled=0, network=0)
    first = list(KERNELS).index(name)
    for k, dtype in enumerate(("float64", "float32", "uint8", "int16"), first):
        schedule = looping if k % 2 else npt.Schedule()
        stencil, x = npt.stencil(schedule=schedule, cval=1)(KERNELS[name]), fields(dtype)
        result, wanted = by_text(stencil, x), stencil.debug(x)
        assert result.dtype == wanted.dtype
        if result.dtype.kind == "f":
            np.testing.assert_allclose(result, wanted, rtol=1e-4 if x.itemsize == 4 else 1e-12)
        else:
            np.testing.assert_array_equal(result, wanted)


def test_the_definition_is_that_of_numpy() -> None:
    x = fields("float64", (9, 10))
    views = np.lib.stride_tricks.sliding_window_view(x, (7, 7))
    wanted = np.array([[view[DISK].max() for view in row] for row in views])
    found = npt.stencil(boundary="valid")(KERNELS["max"]).debug(x)
    np.testing.assert_array_equal(found, wanted)


def test_compiled_masks_of_several_shapes() -> None:
    @npt.stencil(boundary="reflect", standard_indexing=("w",))
    def kernel(x, w):
        near = x[-1:2, -1:2, -1:2]
        edge = x[0, 0, 1] - x[0, 0, 0]
        return near[CUBE].max(), (near * w)[CUBE].sum(), edge[0, -1:2, -1:2][CROSS].min()

    x, w = fields("float32", (4, 5, 6)), np.arange(27.0).reshape(3, 3, 3)
    for one, other in zip(kernel(x, w), kernel.debug(x, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_reach_is_that_of_the_picked_elements() -> None:
    def looks(function: Any) -> Any:
        return plan_of(npt.stencil(function), "float64").reaches[0]

    assert looks(lambda x: x[-1:2, -1:2][ASIDE].sum()) == ((0, 0), (0, 1))
    assert looks(lambda x: x[-1:2, -1:2][0, 2]) == ((-1, 1), (-1, 1))
    assert looks(lambda x: x[-3:4, -3:4][DISK].max()) == ((-3, -3), (3, 3))


EMPTY, SMALL = np.zeros((3, 3), dtype=bool), np.ones((2, 2), dtype=bool)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda x: nine(x)[EMPTY].sum(), "mask-empty"),
        (lambda x: nine(x)[SMALL].sum(), "mask-shape"),
        (lambda x: nine(x)[WEIGHTS].sum(), "mask-type"),
        (lambda x: nine(x)[0.5, 0], "mask-type"),
        (lambda x: nine(x)[3, 0], "window-index"),
        (lambda x: nine(x)[0, 0, 0], "window-index"),
        (lambda x: x[CROSS], "offset-type"),
        (lambda x: (nine(x)[CROSS] * np.array([1, 2, 3])).sum(), "window-shape"),
    ],
)
def test_mistakes_are_explained(function: Any, code: str) -> None:
    with pytest.raises(npt.StencilError, match=code):
        npt.stencil(function)(np.zeros((5, 5)))


def test_a_mask_that_the_call_gives() -> None:
    @npt.stencil(standard_indexing=("mask",))
    def kernel(x, mask):
        return x[-1:2, -1:2][mask].sum()

    with pytest.raises(npt.StencilError, match="an array that only the call gives"):
        kernel(np.zeros((5, 5)), CROSS)


@pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")
def test_masks_that_are_computed_take_the_general_path() -> None:
    @npt.stencil(boundary="wrap")
    def kernel(x):
        w = x[-1:2, -1:2]
        above = w > x[0, 0]
        return w[w > 0].sum() + w[above].size + w[CROSS][1]

    x = fields("int16")
    np.testing.assert_array_equal(kernel(x), kernel.debug(x))


def test_what_is_divided_by_no_truths_is_positive() -> None:
    """Truths are counted as floats, of which no number is a negative zero."""

    @npt.stencil(boundary="nearest")
    def kernel(x):
        some = np.count_nonzero(x[0:1, 0] + x[-1, 0])
        return np.sqrt(abs(x[1, 0])) / some, 1.0 / np.count_nonzero(x[-1:2, 0:1])

    x = np.zeros((6, 7))
    x[4] = 2.0
    for made, wanted in zip(kernel(x), kernel.debug(x), strict=True):
        np.testing.assert_array_equal(made, wanted)
        assert not (made < 0).any()
