"""The reference: windows as arrays of NumPy, and expressions read at other points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from by_definition import evaluate, footprints
from kernels import compiled
from nightly import only
from ninepoint.language.reference import store

WEIGHTS = np.arange(9.0).reshape(3, 3)
ZERO = 0.0

# A function of a window of 3 x 3, and what it stands in as the kernel.
FUNCTIONS: dict[str, Any] = {
    "sort": lambda w: np.sort(w, axis=0)[1, 2],
    "sort-method": lambda w: np.sort(w.ravel())[4] - np.sort(w.flatten())[0],
    "nanmedian": lambda w: np.nanmedian(w),
    "nanpercentile": lambda w: np.nanpercentile(w, 30),
    "cumsum": lambda w: np.cumsum(w)[5] + w.cumsum()[2],
    "dot": lambda w: np.dot(w, WEIGHTS)[0, 1],
    "matmul": lambda w: (w @ WEIGHTS)[1, 1] + (WEIGHTS @ w)[0, 2],
    "unique": lambda w: np.unique(w).size,
    "element": lambda w: w[1, 2] - w[-1, 0],
    "part": lambda w: w[0].max() - w[:, 1].mean() + w[1:, :2].sum(),
    "truths": lambda w: w[w > 0].sum() + (w > 0).sum(),
    "axis": lambda w: np.sum(w, axis=0).max() + w.mean(axis=1)[0] + np.var(w, 1)[2],
    "transposed": lambda w: w.T[0, 2] - w.reshape(9)[3],
    "joined": lambda w: np.concatenate((w[0], w[:, 1]))[4] + np.diff(w[0])[1],
    "order": lambda w: np.argsort(w.ravel())[2] + np.argmax(w),
    "average": lambda w: np.average(w, weights=WEIGHTS) + np.average(w),
    "copied": lambda w: w.copy()[0, 0] + w.astype(np.float64)[1, 1],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_arrays(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    x = (np.random.default_rng(0).normal(size=(5, 6)) * 50).astype("int16").astype(dtype)

    def kernel(x):
        return function(x[-1:2, -1:2])

    box = ((-1, 1), (-1, 1))
    (values,) = evaluate(kernel, [x], boundary="valid", neighborhood=box)
    wide = x.astype("float64" if dtype == "float64" else "int64")
    views = np.lib.stride_tricks.sliding_window_view(wide, (3, 3))
    wanted = np.array([[function(view) for view in row] for row in views])
    np.testing.assert_allclose(store(values, wanted.dtype), wanted)


@pytest.mark.parametrize("name", only(1, ["dot", "axis"]))
def test_footprints_of_functions_of_arrays(name: str) -> None:
    function = FUNCTIONS[name]

    def kernel(x):
        return function(x[-1:2, -1:2])

    assert footprints(kernel) == (((-1, -1), (1, 1)),)


def test_integers_of_arrays_are_exact() -> None:
    def kernel(x):
        return np.sort(x[-1:2])[1] + np.cumsum(x[-1:2])[0]

    x = np.array([2**62 + 1, 2**53 + 1, 5])
    (values,) = evaluate(kernel, [x], boundary="valid", neighborhood=((-1, 1),))
    assert values[0] == 2**53 + 1 + 2**62 + 1


def test_windows_that_are_written_to() -> None:
    def kernel(x):
        w = x[-1:2].copy()
        v = x[-1:2]
        v.sort()
        w[0] = x[0] * 2
        w[1:] += 1
        return w[0] + 10 * w[1] + 100 * v[0]

    x = np.array([5, 3, 4])
    (values,) = evaluate(kernel, [x], boundary="valid", neighborhood=((-1, 1),))
    assert list(values) == [6 + 10 * 4 + 100 * 3]


def test_expressions_in_loops_are_computed_once_a_point(capsys: Any) -> None:
    """Non-local means: what is read at other points depends on points again."""

    def counted(value):
        print(".")
        return value

    def means(x):
        total, weight = 0.0, 0.0
        for i in range(-1, 2):
            for j in range(-1, 2):
                apart = (x[i, j] - x[0, 0]) ** 2
                near = counted(1 / (1 + apart[-1:2, -1:2].sum()))
                total, weight = total + near * x[i, j], weight + near
        return total / weight

    x = np.arange(12.0).reshape(3, 4) % 5
    (values,) = evaluate(means, [x], boundary="wrap", reaches=[((-2, -2), (2, 2))])
    calls = capsys.readouterr().out.count(".")
    shifted = {(i, j): np.roll(x, (-i, -j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    total, weight = np.zeros_like(x), np.zeros_like(x)
    for moved in shifted.values():
        apart = (moved - x) ** 2
        near = 1 / (1 + sum(np.roll(apart, by, (0, 1)) for by in shifted))
        total, weight = total + near * moved, weight + near
    np.testing.assert_allclose(store(values, "float64"), total / weight)
    assert calls < 200_000


@pytest.mark.parametrize("value", ["0.0", "ZERO", "2", "-ZERO * 2 + 1", "1j"])
def test_a_number_on_one_path_is_read_at_other_points(value: str) -> None:
    text = f"def kernel(x):\n    f = {value} if x[0] > 0 else x[1]\n    return f[-1] + f[1] * 2\n"
    kernel = compiled(text, names={"ZERO": ZERO})
    x = np.array([1.0, -2.0, 3.0, -4.0, -5.0, 6.0])
    (values,) = evaluate(kernel, [x], boundary="wrap")
    f = np.where(x > 0, eval(value, {"ZERO": ZERO}), np.roll(x, -1))
    np.testing.assert_allclose(store(values, f.dtype), np.roll(f, 1) + np.roll(f, -1) * 2)


def test_debug_takes_axes() -> None:
    @npt.stencil(boundary="wrap")
    def kernel(x, y):
        return x[-1, 0] * 10 + y[0, 1]

    x = np.arange(60.0).reshape(3, 5, 4)
    y = np.arange(20.0).reshape(5, 4)
    for axes in ((0, 1), (2, 0), (-2, -1)):
        np.testing.assert_array_equal(
            kernel.debug(x, y, axes=axes), kernel(x, y, axes=axes), strict=True
        )
    assert kernel.debug(x, y, axes=(0, 1), boundary="valid").shape == (2, 4, 4)
    with pytest.raises(TypeError, match="use axes= here"):
        kernel.debug(x, y, dims=("y", "x"))
    with pytest.raises(ValueError, match="names 1 axes"):
        kernel.debug(x, y, axes=(0,))
