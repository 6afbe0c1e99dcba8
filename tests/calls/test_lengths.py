"""`len(x)`, `x.shape`, `x.ndim` and `x.size` are the whole array's, on every target."""

from __future__ import annotations

import itertools
import pickle

import dask.array as da
import numba
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compiling import nothing_compiled
from nightly import only

RULES = ["fill", "keep", "constant", "nearest", "reflect", "wrap", "valid"]
FILM = np.random.default_rng(0).integers(0, 99, (3, 14, 11)).astype("int32")

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")


@npt.stencil(boundary="nearest")
def plain(x):
    return x[-1, 0] * len(x) + x[0, 1] * x.shape[1] + x.size - x.ndim


@npt.stencil(boundary="nearest")
def before_any_read(x, by=2):
    rows, columns = x.shape
    n = np.shape(x)[-1] * np.size(x) + np.ndim(x) + max(x.shape) + len(x.shape)
    return by * rows * x[1, 1] + columns * x[0, 0] + n


def mean_share(field):
    return field[0, 0] + 3 * len(field)


@numba.njit
def compiled_share(field):
    return field[0, 1] + field.shape[0] + field.shape[1]


@npt.stencil(boundary="nearest")
def helped(x):
    d = x[0, 1] * x.shape[1] - x[0, -1]
    return mean_share(x) + compiled_share(x) + d[1, 0] + len((1, 2))


@npt.stencil(boundary="nearest")
def windows(x):
    w = x[-1:2, -1:2]
    return (w * x.shape[1]).max() + w.size * x.size


@npt.stencil(boundary="nearest", neighborhood=((-1, 1), (-1, 1)))
def general(x):
    total = 0
    k = -1
    while k < 2:
        total += x[k, 0] * len(x) + x[0, k] * x.shape[1] + x.size - x.ndim
        k += 1
    return total + np.shape(x)[1] + np.ndim(x) + np.size(x)


@npt.stencil(boundary="nearest")
def shrunk(x):
    return x[0, 0] + 100 * len(x) + x.shape[1]


@npt.stencil(boundary="nearest")
def staged(x):
    s = shrunk(x)
    return s[0, 1] * len(s) - x[0, 0] * x.shape[1]


@npt.stencil(boundary="nearest")
def given_to_a_stage_only(x):
    s = shrunk(x)
    return s[0, 1] * x.shape[0] - len(x)


KERNELS = [
    plain, before_any_read, helped, windows, general, staged, given_to_a_stage_only
]  # fmt: skip


@pytest.mark.parametrize(("one", "rule"), only(11, itertools.product(KERNELS, RULES)))
def test_every_target_sees_the_whole_array(one, rule):
    x = FILM[0]
    wanted = one.debug(x, boundary=rule)
    ways = {
        "call": lambda: one(x, boundary=rule),
        "again": lambda: one(x, boundary=rule),
        "threads": lambda: one(x, boundary=rule, threads=2),
        "out": lambda: one(x, boundary=rule, out=np.empty_like(wanted)),
        "lazy": lambda: one(npt.lazy(x), boundary=rule).compute(),
        "stack": lambda: one(np.stack([x + 1, x]), boundary=rule)[1],
        "axes": lambda: one(x.T, axes=(1, 0), boundary=rule).T,
        "pickled": lambda: pickle.loads(pickle.dumps(one))(x, boundary=rule),
        "a column": lambda: one(da.from_array(x, chunks=(14, 4)), boundary=rule).compute(),
        "blocks": lambda: one(da.from_array(x, chunks=(5, 4)), boundary=rule).compute(),
        "one chunk": lambda: one(da.from_array(x, chunks=-1), boundary=rule).compute(),
        "frames": lambda: one(
            da.from_array(np.stack([x, x]), chunks=(1, -1, -1)), boundary=rule
        ).compute()[0],
        "xarray": lambda: one(xr.DataArray(x, dims=("y", "x")), boundary=rule).values,
        "dims": lambda: (
            one(
                xr.DataArray(x.T, dims=("x", "y")).chunk(x=4), dims=("y", "x"), boundary=rule
            ).values.T
        ),
    }
    for name, way in ways.items():
        made = way()
        assert made.dtype == wanted.dtype, name
        np.testing.assert_array_equal(made, wanted, err_msg=name)


@pytest.mark.parametrize("one", KERNELS, ids=lambda one: one.__name__)
def test_arrays_smaller_than_the_footprint(one):
    for shape in [(1, 1), (3, 1), (0, 4)]:
        x = np.resize(FILM, shape)
        np.testing.assert_array_equal(one(x), one.debug(x))
        lazy = da.from_array(x, chunks=1 if x.size else -1)
        np.testing.assert_array_equal(one(lazy).compute(), one.debug(x))


def test_axes_along_a_film():
    wanted = np.stack([plain.debug(FILM[:, k]) for k in range(14)], axis=1)
    np.testing.assert_array_equal(plain(FILM, axes=(0, 2)), wanted)
    np.testing.assert_array_equal(plain.debug(FILM, axes=(0, 2)), wanted)
    chunked = da.from_array(FILM, chunks=(2, 3, 4))
    np.testing.assert_array_equal(plain(chunked, axes=(0, 2)).compute(), wanted)


@npt.stencil
def of_two(x, y):
    return x[0, 0] + 100 * len(y) + y[0, 0] * x.shape[1]


def test_a_broadcast_field_has_the_shape_of_the_result():
    y = np.arange(11)
    wanted = FILM + 1400 + y * 11
    np.testing.assert_array_equal(of_two(FILM, y), wanted)
    np.testing.assert_array_equal(of_two.debug(FILM, y), wanted)
    np.testing.assert_array_equal(of_two(da.from_array(FILM, chunks=4), y).compute(), wanted)


def test_a_stage_that_is_smaller_has_the_smaller_shape():
    @npt.stencil(boundary="valid")
    def inside(x):
        return x[-1] + x[1]

    @npt.stencil(boundary="nearest")
    def outer(x):
        s = inside(x)
        return s[1] * 100 + len(s)

    x = np.arange(9)
    wanted = np.append(inside(x)[1:], 14) * 100 + 7
    np.testing.assert_array_equal(outer(x), wanted)
    np.testing.assert_array_equal(outer(npt.lazy(x)).compute(), wanted)
    np.testing.assert_array_equal(outer(da.from_array(x, chunks=4)).compute(), wanted)


@npt.stencil(boundary="reflect")
def drift(u, by=0.25):
    return u[0, 0] + by * (u[0, 1] - u[0, -1]) * u.shape[1] / (2 * len(u))


@npt.stencil(boundary="reflect")
def drift_staged(u, by=0.25):
    s = drift(u, by)
    return s[0, 0] / u.shape[0] + s[1, 0] / len(s) + u[0, 1]


@npt.stencil(boundary="reflect")
def counted(x):
    return x[1, 0] + x.size


@npt.stencil(boundary="reflect", dtype="int32", overflow="wrap")
def beside(state, row):
    return state[0, 0] // 2 + counted(row)[0, 1]


@pytest.mark.parametrize("steps", [1, 7])
def test_a_smaller_field_of_steps_has_its_own_shape(steps):
    row = FILM[0, :1]
    wanted = FILM[0]
    for _ in range(steps):
        wanted = beside.debug(wanted, row)
    np.testing.assert_array_equal(beside.iterate(FILM[0], row, steps=steps), wanted)
    lazily = beside.iterate(da.from_array(FILM[0], chunks=(5, 4)), row, steps=steps)
    np.testing.assert_array_equal(lazily.compute(), wanted)


@pytest.mark.parametrize(
    ("one", "rule"), [(drift, "reflect"), (drift, "fill"), (drift_staged, "keep")]
)
def test_large_arrays_in_one_pass_and_in_bands(one, rule):
    u = np.random.default_rng(0).random((700, 410)).astype("float32")
    wanted = u
    for _ in range(5):
        # Not in one pass: a view of other strides is done stage by stage, step by step.
        wanted = one(np.asfortranarray(wanted), boundary=rule)
    for threads in (1, 2):
        made = one.iterate(u, steps=5, boundary=rule, threads=threads)
        np.testing.assert_array_equal(made, wanted)
    changing = [0.25] * 5
    np.testing.assert_array_equal(one.iterate(u, changing, steps=5, boundary=rule), wanted)
    lazy = one.iterate(da.from_array(u, chunks=(300, 205)), steps=5, boundary=rule)
    np.testing.assert_array_equal(lazy.compute(), wanted)


def test_of_coefficients_and_masks_they_are_constants_as_before():
    @npt.stencil(standard_indexing=("w",))
    def kernel(x, w):
        return x[0] * w[0] + len(w) + w.shape[0] + x[-1:2].size

    x = np.arange(5)
    np.testing.assert_array_equal(kernel(x, np.array([2, 3])), kernel.debug(x, np.array([2, 3])))


def test_the_machine_code_of_one_shape_serves_all():
    x = FILM[0]
    plain(x)
    for size in (5, 6, 7):
        y = x[:size, :size]
        wanted = plain.debug(y)
        with nothing_compiled():
            for _ in range(2):
                np.testing.assert_array_equal(plain(y), wanted)


@npt.stencil
def unlucky(length0, length1, shape=3):
    return length0[0, 0] * len(length1) + length1[0, 0] * length0.shape[1] + shape


def test_parameters_may_be_called_so():
    wanted = FILM * 14 + FILM * 11 + 3
    np.testing.assert_array_equal(unlucky(FILM, FILM), wanted)
    np.testing.assert_array_equal(unlucky(FILM, FILM, shape=3), wanted)


def test_a_loop_over_the_whole_array_is_refused_with_the_cure():
    def total(x):
        found = 0
        for k in range(len(x)):
            found += x[k]
        return found

    with pytest.raises(npt.StencilError, match="must be known when the stencil is compiled"):
        npt.stencil(total)
