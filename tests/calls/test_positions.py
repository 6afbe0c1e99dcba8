"""Where the point is, and how long the array is: those of the whole array, on every target."""

import dask.array as da
import numba
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compared import nothing_compiled, refuses, same
from ninepoint import Schedule
from seams import plan_of

FILM = np.random.default_rng(0).integers(0, 99, (3, 9, 11)).astype("int32")
X = FILM[0]


def shifted(field, by):
    i, j = npt.index(field)
    return field[0, 1] * i + j + by


def mean_share(field):
    return field[0, 0] + 3 * len(field)


@numba.njit
def compiled_share(field):
    return field[0, 1] + field.shape[0] + field.shape[1]


@npt.stencil(boundary="mirror")
def elsewhere(x, a=3):
    i, j = npt.index(x)
    d = x[1, 0] + 100 * i + 7 * j
    inside = d[-1:2, 0:2].max()
    return d[1, -1] - a * d[0, 0] + inside + shifted(x, 2)


@npt.stencil(boundary="nearest")
def parity(x):
    i, j = npt.index(x)
    if (i + j) % 2 == 0:
        return x[0, 0]
    return (x[-1, 0] + x[1, 0]) // 2 if i % 2 else -x[0, 1]


@npt.stencil(boundary="valid")
def smaller(x):
    i, j = npt.index(x)
    p, q = npt.index()
    return x[-2, 1] + x[0, -1] + 1000 * i + 100 * j + 10 * p + q


@npt.stencil(boundary="nearest")
def staged(x, a=3):
    s = parity(x)
    t = elsewhere(s, a + 1)
    return s[0, 1] - t[1, 0] + npt.index(t)[0] * x.shape[1]


@npt.stencil(boundary="nearest")
def general(x):
    k = 0
    while k < npt.index(x)[0] % 3:
        k += 1
    return x[0, 1] + k + shifted(x, npt.index()[1])


@npt.stencil(boundary=("nearest", "constant"))
def plain(x):
    return x[-1, 0] * len(x) + x[0, -1] * x.shape[1] + x.size - x.ndim + npt.index(x)[0]


@npt.stencil(boundary="keep")
def helped(x):
    d = x[0, 1] * x.shape[1] - x[0, -1]
    return mean_share(x) + compiled_share(x) + d[1, 0] + len((1, 2))


shrunk = npt.stencil(lambda x: x[0, 0] + 100 * len(x) + x.shape[1], boundary="nearest")


@npt.stencil(boundary="valid")
def of_a_stage(x):
    s = shrunk(x)
    return s[0, 1] * len(s) - x[0, 0] * x.shape[1]


@npt.stencil(boundary="reflect")
def given_to_a_stage_only(x):
    s = shrunk(x)
    return s[0, 1] * x.shape[0] - len(x)


KERNELS = [smaller, staged, general, plain, helped, of_a_stage, given_to_a_stage_only]


@pytest.mark.parametrize("one", KERNELS, ids=lambda one: one.__name__)
def test_every_target_knows_the_whole_array(one):
    """Random programs ask for both too, but of no helper and in no loop."""
    wanted = one.debug(X)
    two = np.stack([X + 1, X])
    named = xr.DataArray(X.T, dims=("x", "y")).chunk(x=4)
    for made in (
        one(X),
        one(X, threads=2),
        one(npt.lazy(X)),
        one(two)[1],
        one(X.T, axes=(1, 0)).T,
        one(np.repeat(X, 2, 1)[:, ::2]),
        one(da.from_array(X, chunks=(4, 3))).compute(scheduler="sync"),
        one(da.from_array(X, chunks=(1, 11))).compute(scheduler="sync"),
        one(da.from_array(two, chunks=(1, 4, -1))).compute(scheduler="sync")[1],
        one(named, dims=("y", "x")).values.T,
    ):
        same(made, wanted)
    # Arrays smaller than the footprint.
    for shape in [(1, 1), (3, 1), (0, 4)]:
        x = np.resize(FILM, shape)
        same(one(x), one.debug(x))
        lazy = da.from_array(x, chunks=1 if x.size else -1)
        same(one(lazy).compute(scheduler="sync"), one.debug(x))


@npt.stencil(boundary="constant", cval=5)
def grid(x):
    i, j = npt.index(x)
    return 10 * i + j


def test_positions_are_numbers_of_64_bits_and_those_that_numpy_has():
    rows, columns = np.indices(X.shape)
    equal(grid(X), 10 * rows + columns)
    assert grid(X.astype("float32")).dtype == np.int64
    assert parity(X.astype("uint8")).dtype == np.int16
    assert grid(np.ones(X.shape), boundary="constant", cval=0.5).max() == 90
    assert "index along axis 1" in grid.explain("int32")
    assert "x uint8 -> int16" in parity.explain("uint8")
    assert "index along axis 0" in staged.explain("int32")


@pytest.mark.parametrize("columns", [8, 300])
def test_positions_along_rows_that_lie_beside_each_other(columns):
    ramp = npt.stencil(lambda x: npt.index(x) * 2.5 - x[2])
    x = np.ones((columns, 3)).T
    equal(ramp(x), ramp.debug(x))


of_two = npt.stencil(lambda x, y: x[0, 0] + 100 * len(y) + y[0, 0] * x.shape[1])


def test_stacks_broadcast_fields_and_a_smaller_stage():
    # Also along axes that are not the last.
    wanted = np.stack([plain.debug(FILM[:, k]) for k in range(9)], axis=1)
    same(plain(da.from_array(FILM, chunks=(2, 3, 4)), axes=(0, 2)), wanted)
    y = np.arange(11)
    wanted = FILM + 900 + y * 11
    for made in (of_two(FILM, y), of_two.debug(FILM, y), of_two(da.from_array(FILM, chunks=4), y)):
        same(made, wanted)
    inside = npt.stencil(lambda x: x[-1] + x[1], boundary="valid")

    @npt.stencil(boundary="nearest")
    def outer(x):
        s = inside(x)
        return s[1] * 100 + len(s)

    x = np.arange(9)
    for given in (x, npt.lazy(x), da.from_array(x, chunks=4)):
        same(outer(given), np.append(inside(x)[1:], 14) * 100 + 7)


def test_debug_names_another_branch_and_parameters_may_be_called_as_lengths_are():
    @npt.stencil(boundary="wrap")
    def odd(x):
        double = 2 * x[0]
        return double[-1] if npt.index(x) % 2 else x[0]

    x = np.array([1, 2, 3, 4])
    assert odd(x).tolist() == [1, 2, 3, 6]
    refuses(RuntimeError, r"another branch, .* read it before the choice", odd.debug, x)

    @npt.stencil
    def unlucky(length0, length1, shape=3):
        return length0[0, 0] * len(length1) + length1[0, 0] * length0.shape[1] + shape

    same(unlucky(FILM, FILM), np.int64(FILM) * 20 + 3)


@npt.stencil(boundary="keep")
def drift(u, by=0.25):
    (i, j), n = npt.index(u), len(u)
    return u[0, 0] + by * (u[0, 1] - u[0, -1]) * u.shape[1] / (2 * n) + (i * 3 + j) % 2


@npt.stencil(boundary="keep")
def drift_staged(u, by=0.25):
    s = drift(u, by)
    return s[0, 0] / u.shape[0] + s[1, 0] / len(s) + u[0, 1]


@pytest.mark.parametrize("one", [drift, drift_staged])
def test_steps_in_one_pass_and_in_bands(one):
    u = np.random.default_rng(0).random((700, 410)).astype("float32")
    wanted = u
    for _ in range(5):
        # Not in one pass: a view of other strides is done stage by stage, step by step.
        wanted = one(np.asfortranarray(wanted))
    for threads in (1, 2):
        same(one.iterate(u, steps=5, threads=threads), wanted)
    same(one.iterate(u, [0.25] * 5, steps=5), wanted)
    same(one.iterate(da.from_array(u, chunks=(300, 205)), steps=5), wanted)


@npt.stencil(boundary="reflect")
def box(x):
    i, j, k = npt.index(x)
    return x[-1, 0, 1] + x[1, -1, 0] + (x[0, 0, 0] if (i + j + k) % 2 else 100 * i + 10 * j + k)


@pytest.mark.parametrize("threads", [1, 2])
def test_positions_of_large_arrays_are_read_where_they_lie(threads):
    # Neither small enough to be copied as a whole, nor done block by block.
    shape = (9, 70, 500)
    x = np.random.default_rng(3).integers(0, 99, shape).astype("int16")
    p = np.pad(x, 1, mode="symmetric")
    i, j, k = np.indices(shape)
    other = np.where((i + j + k) % 2, x, 100 * i + 10 * j + k)
    wanted = p[:-2, 1:-1, 2:] + p[2:, :-2, 1:-1] + other.astype(int)
    # Rows with gaps go through copies, block by block.
    gaps = np.repeat(x, 2, 2)[..., ::2]
    for _ in range(3):
        for one in (x, gaps):
            equal(box(one, threads=threads), wanted)
        equal(box(np.stack([x, x]), threads=threads)[1], wanted)
    equal(box(x.T, axes=(2, 1, 0), threads=threads).T, wanted)


def test_positions_take_one_pass_and_other_shapes_compile_nothing():
    stages = Schedule(stages=(("s", "rows"), ("t", "rows")))
    one = npt.stencil(boundary="nearest", schedule=stages)(staged.__wrapped__)
    x = np.random.default_rng(4).integers(0, 99, (33, 41)).astype("int32")
    assert len(plan_of(one, x).passes) == 1
    for _ in range(3):
        equal(one(np.stack([x, x])[:, None], threads=2)[1, 0], staged(x))
    equal(one(da.from_array(x, chunks=(17, 20))).compute(scheduler="sync"), staged(x))
    for steps in (1, 2):
        elsewhere.iterate(X.astype("int64"), 1, steps=steps)
    wanted, _ = elsewhere(X, 1), plain(X)
    with nothing_compiled():
        for shape in ((4, 6), (1, 1), (2, 3, 5), (3, 70_000)):
            elsewhere(np.resize(X, shape), 2)
            plain(np.resize(X, shape))
        for chunks in ((1, 11), (4, 3), (9, 1)):
            lazy = elsewhere(da.from_array(X, chunks=chunks), 1)
            equal(lazy.compute(scheduler="sync"), wanted)
        elsewhere.iterate(X.astype("int64"), lambda step: step, steps=3)
