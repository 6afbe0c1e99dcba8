"""`len(x)`, `x.shape`, `x.ndim` and `x.size` are the whole array's, on every target."""

import dask.array as da
import numba
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import same
from compiling import nothing_compiled

FILM = np.random.default_rng(0).integers(0, 99, (3, 14, 11)).astype("int32")


@npt.stencil(boundary="nearest")
def plain(x):
    return x[-1, 0] * len(x) + x[0, 1] * x.shape[1] + x.size - x.ndim


def mean_share(field):
    return field[0, 0] + 3 * len(field)


@numba.njit
def compiled_share(field):
    return field[0, 1] + field.shape[0] + field.shape[1]


@npt.stencil(boundary="keep")
def helped(x):
    d = x[0, 1] * x.shape[1] - x[0, -1]
    return mean_share(x) + compiled_share(x) + d[1, 0] + len((1, 2))


shrunk = npt.stencil(lambda x: x[0, 0] + 100 * len(x) + x.shape[1], boundary="nearest")


@npt.stencil(boundary="valid")
def staged(x):
    s = shrunk(x)
    return s[0, 1] * len(s) - x[0, 0] * x.shape[1]


@npt.stencil(boundary="reflect")
def given_to_a_stage_only(x):
    s = shrunk(x)
    return s[0, 1] * x.shape[0] - len(x)


KERNELS = [plain, helped, staged, given_to_a_stage_only]


@pytest.mark.parametrize("one", KERNELS, ids=lambda one: one.__name__)
def test_every_target_sees_the_whole_array(one):
    x = FILM[0]
    wanted = one.debug(x)
    named = xr.DataArray(x.T, dims=("x", "y")).chunk(x=4)
    film = da.from_array(np.stack([x + 1, x]), chunks=(1, -1, -1))
    for made in (
        one(x),
        one(x, threads=2),
        one(npt.lazy(x)),
        one(np.stack([x + 1, x]))[1],
        one(x.T, axes=(1, 0)).T,
        one(da.from_array(x, chunks=(14, 4))).compute(scheduler="sync"),
        one(da.from_array(x, chunks=(5, 4))).compute(scheduler="sync"),
        one(film).compute(scheduler="sync")[1],
        one(named, dims=("y", "x")).values.T,
    ):
        same(made, wanted)
    # Arrays smaller than the footprint.
    for shape in [(1, 1), (3, 1), (0, 4)]:
        x = np.resize(FILM, shape)
        same(one(x), one.debug(x))
        lazy = da.from_array(x, chunks=1 if x.size else -1)
        same(one(lazy).compute(scheduler="sync"), one.debug(x))


of_two = npt.stencil(lambda x, y: x[0, 0] + 100 * len(y) + y[0, 0] * x.shape[1])


def test_stacks_and_broadcast_fields():
    # Also along axes that are not the last.
    wanted = np.stack([plain.debug(FILM[:, k]) for k in range(14)], axis=1)
    same(plain(da.from_array(FILM, chunks=(2, 3, 4)), axes=(0, 2)), wanted)
    y = np.arange(11)
    wanted = FILM + 1400 + y * 11
    for made in (of_two(FILM, y), of_two.debug(FILM, y), of_two(da.from_array(FILM, chunks=4), y)):
        same(made, wanted)


def test_a_stage_that_is_smaller_has_the_smaller_shape():
    inside = npt.stencil(lambda x: x[-1] + x[1], boundary="valid")

    @npt.stencil(boundary="nearest")
    def outer(x):
        s = inside(x)
        return s[1] * 100 + len(s)

    x = np.arange(9)
    for given in (x, npt.lazy(x), da.from_array(x, chunks=4)):
        same(outer(given), np.append(inside(x)[1:], 14) * 100 + 7)


@npt.stencil(boundary="reflect")
def drift(u, by=0.25):
    return u[0, 0] + by * (u[0, 1] - u[0, -1]) * u.shape[1] / (2 * len(u))


@npt.stencil(boundary="keep")
def drift_staged(u, by=0.25):
    s = drift(u, by)
    return s[0, 0] / u.shape[0] + s[1, 0] / len(s) + u[0, 1]


@pytest.mark.parametrize("one", [drift, drift_staged])
def test_large_arrays_in_one_pass_and_in_bands(one):
    u = np.random.default_rng(0).random((700, 410)).astype("float32")
    wanted = u
    for _ in range(5):
        # Not in one pass: a view of other strides is done stage by stage, step by step.
        wanted = one(np.asfortranarray(wanted))
    for threads in (1, 2):
        same(one.iterate(u, steps=5, threads=threads), wanted)
    same(one.iterate(u, [0.25] * 5, steps=5), wanted)
    same(one.iterate(da.from_array(u, chunks=(300, 205)), steps=5), wanted)


def test_the_machine_code_of_one_shape_serves_all():
    x = FILM[0]
    plain(x)
    for size in (5, 6, 7):
        y = x[:size, :size]
        wanted = plain.debug(y)
        with nothing_compiled():
            for _ in range(2):
                same(plain(y), wanted)


def test_parameters_may_be_called_as_lengths_are():
    @npt.stencil
    def unlucky(length0, length1, shape=3):
        return length0[0, 0] * len(length1) + length1[0, 0] * length0.shape[1] + shape

    same(unlucky(FILM, FILM), np.int64(FILM) * 25 + 3)
