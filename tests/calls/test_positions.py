"""`npt.index` is where the point is in the whole array, on every target."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal as equal

import ninepoint as npt
from compiling import nothing_compiled
from ninepoint import Schedule
from seams import plan_of

X = np.random.default_rng(0).integers(0, 99, (9, 11)).astype("int32")


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


@pytest.mark.parametrize("one", [smaller, staged, general], ids=lambda one: one.__name__)
def test_every_target_knows_the_whole_array(one):
    """Random programs ask for positions too, but of no helper and in no loop."""
    wanted = one.debug(X)
    ways = [
        one(X),
        one(npt.lazy(X)).compute(),
        one(np.stack([X + 1, X]))[1],
        one(X.T, axes=(1, 0)).T,
        one(np.repeat(X, 2, 1)[:, ::2]),
        one(da.from_array(X, chunks=(4, 3))).compute(),
        one(da.from_array(X, chunks=(1, 11))).compute(),
        one(da.from_array(np.stack([X, X]), chunks=(1, 4, -1))).compute()[1],
    ]
    for made in ways:
        equal(made, wanted, strict=True)


def test_positions_are_numbers_of_64_bits_and_those_that_numpy_has():
    rows, columns = np.indices(X.shape)
    equal(grid(X), 10 * rows + columns)
    assert grid(X.astype("float32")).dtype == np.int64
    assert parity(X.astype("uint8")).dtype == np.int16
    assert grid(np.ones(X.shape), boundary="constant", cval=0.5).max() == 90
    assert "index along axis 1" in grid.explain("int32")
    assert "x uint8 -> int16" in parity.explain("uint8")
    assert "index along axis 0" in staged.explain("int32")


ramp = npt.stencil(lambda x: npt.index(x) * 2.5 - x[2])


@pytest.mark.parametrize("columns", [8, 300])
def test_positions_along_rows_that_lie_beside_each_other(columns):
    x = np.ones((columns, 3)).T
    equal(ramp(x), ramp.debug(x))


@npt.stencil(boundary="wrap")
def heat(u, r):
    i, j = npt.index(u)
    return u[0, 0] + r * (u[-1, 0] - 2 * u[0, 0] + u[1, 0]) + (i * 3 + j) % 2


def test_several_steps_in_one_pass():
    u = wanted = np.random.default_rng(1).random((700, 600))
    for _ in range(9):
        wanted = heat(wanted, 0.1)
    equal(heat.iterate(u, 0.1, steps=9), wanted)


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
    # Rows with gaps go through copies, block by block.
    gaps = np.repeat(x, 2, 2)[..., ::2]
    for _ in range(3):
        for one in (x, gaps):
            equal(box(one, threads=threads), wanted)
        equal(box(np.stack([x, x]), threads=threads)[1], wanted)
    equal(box(x.T, axes=(2, 1, 0), threads=threads).T, wanted)


def test_calls_that_ask_for_positions_are_one_pass():
    stages = Schedule(stages=(("s", "rows"), ("t", "rows")))
    one = npt.stencil(boundary="nearest", schedule=stages)(staged.__wrapped__)
    x = np.random.default_rng(4).integers(0, 99, (33, 41)).astype("int32")
    assert len(plan_of(one, x).passes) == 1
    for _ in range(3):
        made = one(np.stack([x, x])[:, None], threads=2)[1, 0]
        equal(made, staged(x))
    lazy = one(da.from_array(x, chunks=(17, 20)))
    equal(lazy.compute(scheduler="sync"), staged(x))


def test_other_shapes_chunks_and_numbers_compile_nothing():
    for steps in (1, 2):
        elsewhere.iterate(X.astype("int64"), 1, steps=steps)
    wanted = elsewhere(X, 1)
    with nothing_compiled():
        for shape in ((4, 6), (1, 1), (2, 3, 5), (3, 70_000)):
            elsewhere(np.resize(X, shape), 2)
        for chunks in ((1, 11), (4, 3), (9, 1)):
            lazy = elsewhere(da.from_array(X, chunks=chunks), 1)
            equal(lazy.compute(scheduler="sync"), wanted)
        elsewhere.iterate(X.astype("int64"), lambda step: step, steps=3)
