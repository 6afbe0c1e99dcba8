"""`npt.index` is where the point is in the whole array, on every target."""

from __future__ import annotations

import itertools
import pickle

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compiling import nothing_compiled
from ninepoint import Schedule
from seams import plan_of

X = np.random.default_rng(0).integers(0, 99, (9, 11)).astype("int32")

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")


def shifted(field, by):
    i, j = npt.index(field)
    return field[0, 1] * i + j + by


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


@npt.stencil(boundary="constant", cval=5)
def grid(x):
    i, j = npt.index(x)
    return 10 * i + j


KERNELS = [elsewhere, parity, smaller, staged, general, grid]


@pytest.mark.parametrize("one", KERNELS, ids=lambda one: one.__name__)
def test_every_target_knows_the_whole_array(one):
    wanted = one.debug(X)
    ways = {
        "call": lambda: one(X),
        "again": lambda: one(X),
        "threads": lambda: one(X, threads=2),
        "out": lambda: one(X, out=np.empty_like(wanted)),
        "lazy": lambda: one(npt.lazy(X)).compute(),
        "lazy again": lambda: one(npt.lazy(X)).compute(),
        "stack": lambda: one(np.stack([X + 1, X]))[1],
        "axes": lambda: one(X.T, axes=(1, 0)).T,
        "axes again": lambda: one(X.T, axes=(1, 0)).T,
        "strides": lambda: one(np.repeat(X, 2, 1)[:, ::2]),
        "pickled": lambda: pickle.loads(pickle.dumps(one))(X),
        "blocks": lambda: one(da.from_array(X, chunks=(4, 3))).compute(),
        "thin": lambda: one(da.from_array(X, chunks=(1, 11))).compute(),
        "frames": lambda: one(da.from_array(np.stack([X, X]), chunks=(1, 4, -1))).compute()[1],
    }
    if one is not staged:
        ways["xarray"] = lambda: one(xr.DataArray(X, dims=("y", "x"))).values
    for name, way in ways.items():
        made = way()
        assert made.dtype == wanted.dtype, name
        np.testing.assert_array_equal(made, wanted, err_msg=name)


def test_numbers_change_nothing_but_the_result():
    for a in (3, 5, 3):
        np.testing.assert_array_equal(elsewhere(X, a), elsewhere.debug(X, a))
        np.testing.assert_array_equal(staged(X, a), staged.debug(X, a))


def test_it_is_what_arrays_of_positions_are():
    rows, columns = np.indices(X.shape)
    np.testing.assert_array_equal(grid(X), 10 * rows + columns)
    assert grid(X.astype("float32")).dtype == np.int64
    assert parity(X.astype("uint8")).dtype == np.int16
    assert grid(np.ones(X.shape), boundary="constant", cval=0.5).max() == 90


@npt.stencil(boundary="wrap")
def heat(u, r):
    i, j = npt.index(u)
    return u[0, 0] + r * (u[-1, 0] - 2 * u[0, 0] + u[1, 0]) + (i * 3 + j) % 2


def test_steps_in_time():
    u = np.random.default_rng(1).random((40, 30))
    wanted = u
    for _ in range(4):
        wanted = heat(wanted, 0.1)
    np.testing.assert_array_equal(heat.iterate(u, 0.1, steps=4), wanted)
    np.testing.assert_array_equal(heat.iterate(u, lambda step: 0.1, steps=4), wanted)
    lazy = heat.iterate(da.from_array(u, chunks=(16, 13)), 0.1, steps=4)
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)


def test_several_steps_in_one_pass():
    u = np.random.default_rng(2).random((700, 600))
    wanted = u
    for _ in range(9):
        wanted = heat(wanted, 0.1)
    np.testing.assert_array_equal(heat.iterate(u, 0.1, steps=9), wanted)


@npt.stencil(neighborhood=((1, 2),))
def declared(x):
    return x[1] * npt.index(x)


@npt.stencil
def ahead(x):
    return x[2] * npt.index(x)


def test_one_axis_gives_a_number():
    for one, shape in itertools.product((declared, ahead), [(5,), (2, 4), (1,)]):
        x = np.resize(X, shape)
        np.testing.assert_array_equal(one(x), one.debug(x))


def test_explain_names_positions():
    assert "index along axis 1" in grid.explain("int32")
    assert "x uint8 -> int16" in parity.explain("uint8")
    assert "index along axis 0" in staged.explain("int32")


@pytest.mark.parametrize("rule", ["nearest", "valid"])
def test_among_the_results_every_second_point_counts(rule):
    for x in (X, X[:, :1], X[:6]):
        made = smaller(x, boundary=rule, every=(2, 3))
        np.testing.assert_array_equal(made, smaller.debug(x, boundary=rule, every=(2, 3)))
    lazy = smaller(da.from_array(X, chunks=(4, 5)), boundary=rule, every=(2, 3))
    np.testing.assert_array_equal(lazy, smaller(X, boundary=rule, every=(2, 3)))
    assert npt.stencil(lambda x: x[0] * 0 + npt.index())(X, every=2)[0].tolist() == [*range(6)]


@npt.stencil(boundary="nearest")
def waves(x, a=2):
    return x[0, 1] * np.cos(npt.index(x)[1] * a / 8) - x[-1, 0]


@npt.stencil(boundary="nearest")
def patterned(x, a=2):
    i, j = npt.index(x)
    d = x[0, 0] * np.cos(i * 0.25) + (3 * i - 2 * j + 5) % 3
    return d[-1, 1] + (i & 1) * ((i * j + 7) & 3) + (i % 2 == j % 2) + a * i % 4


def test_what_depends_on_one_axis_is_computed_once_for_it():
    # What is the same along a row is read before its loop ...
    before, after, *_ = parity.source("uint8").split("for j in range(n):")
    assert "= index0__3[0]" in before
    assert "index0_" not in after.partition("def band")[0]
    # ... and what is the same in all rows is made before them.
    functions, _, loops = waves.source("float32").partition("def band(")
    assert "np.cos" in functions.partition("def band_row")[0]
    assert "np.cos" not in functions.partition("def band_row")[2]
    assert loops.index("v0_row(") < loops.index("for i in range(out0")
    np.testing.assert_allclose(waves(X, 2), waves.debug(X, 2), rtol=1e-12)
    for x in (X.astype("uint8"), X[:1, :3], X[:, :0]):
        for a in (2, 3):
            np.testing.assert_allclose(patterned(x, a), patterned.debug(x, a), rtol=1e-12)
    lazy = patterned(da.from_array(X, chunks=(4, 3)))
    np.testing.assert_array_equal(lazy, patterned(X))


def test_debug_says_that_another_point_takes_another_branch():
    @npt.stencil(boundary="wrap")
    def odd(x):
        double = 2 * x[0]
        return double[-1] if npt.index(x) % 2 else x[0]

    x = np.array([1, 2, 3, 4])
    assert odd(x).tolist() == [1, 2, 3, 6]
    with pytest.raises(RuntimeError, match=r"another branch, .* read it before the choice"):
        odd.debug(x)


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
    stack = np.stack([x, x])
    for _ in range(3):
        np.testing.assert_array_equal(box(x, threads=threads), wanted)
        np.testing.assert_array_equal(box(stack, threads=threads)[1], wanted)
        # Rows with gaps go through copies, block by block.
        np.testing.assert_array_equal(box(np.repeat(x, 2, 2)[..., ::2], threads=threads), wanted)
    np.testing.assert_array_equal(box(x.T, axes=(2, 1, 0), threads=threads).T, wanted)


def test_calls_that_ask_for_positions_are_one_pass():
    stages = Schedule(stages=(("s", "rows"), ("t", "rows")))
    one = npt.stencil(boundary="nearest", schedule=stages)(staged.__wrapped__)
    x = np.random.default_rng(4).integers(0, 99, (33, 41)).astype("int32")
    wanted = staged(x)
    stack = np.stack([x, x])[:, None]
    lazy = da.from_array(x, chunks=(17, 20))
    assert len(plan_of(one, x).passes) == 1
    for _ in range(3):
        np.testing.assert_array_equal(one(x), wanted)
        np.testing.assert_array_equal(one(stack, threads=2)[1, 0], wanted)
    np.testing.assert_array_equal(one(x.T, axes=(1, 0)).T, wanted)
    np.testing.assert_array_equal(one(lazy).compute(scheduler="sync"), wanted)


def test_other_shapes_chunks_and_numbers_compile_nothing():
    for steps in (1, 2):
        elsewhere.iterate(X.astype("int64"), 1, steps=steps)
    wanted = elsewhere(X, 1)

    with nothing_compiled():
        for shape in ((4, 6), (1, 1), (2, 3, 5), (3, 70_000)):
            elsewhere(np.resize(X, shape), 2)
        for chunks in ((1, 11), (4, 3), (9, 1)):
            lazy = elsewhere(da.from_array(X, chunks=chunks), 1)
            np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)
        elsewhere.iterate(X.astype("int64"), lambda step: step, steps=3)


@npt.stencil
def ramp(x):
    return npt.index(x) * 2.5 - x[0]


@pytest.mark.parametrize("columns", [8, 300])
def test_positions_along_rows_that_lie_beside_each_other(columns):
    x = np.ones((columns, 3)).T
    np.testing.assert_array_equal(ramp(x), ramp.debug(x))
