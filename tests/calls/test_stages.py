"""Kernels that call others: what a stage is, and that to fuse them changes nothing."""

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import most_memory, refuses, same, whole

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

ROWS = npt.Schedule(stages=(("s", "rows"), ("dx", "rows"), ("dy", "rows")))


@npt.stencil(boundary="reflect")
def blur(x):
    return (x[-1, 0] + x[0, -1] + 4 * x[0, 0] + x[0, 1] + x[1, 0]) / 8


@npt.stencil(boundary="mirror")
def gradients(x, step=1.0):
    return (x[1, 0] - x[-1, 0]) / step, (x[0, 1] - x[0, -1]) / step


@npt.stencil
def weighted(x, w):
    return w * x[0, 1] + x[1, -2]


@npt.stencil(boundary="nearest", schedule=ROWS)
def corners(x, k=0.04):
    dx, dy = gradients(x, 2.0)
    s = weighted(dx, 3 * k)
    xx = (dx[-1:2, -1:2] * dx[-1:2, -1:2]).sum()
    return xx - k * dy[0, 0] * s[0, 1]


@npt.stencil(boundary="nearest")
def corners_of(x, dx, dy, s, k=0.04):
    xx = (dx[-1:2, -1:2] * dx[-1:2, -1:2]).sum()
    return xx - k * dy[0, 0] * s[0, 1]


def separately(x, k=0.04, **options):
    dx, dy = gradients(x, 2.0)
    s = weighted(dx, 3 * k)
    return corners_of(x, dx, dy, s, k, **options)


def image(shape=(41, 53), dtype="float32", seed=0):
    return whole(*shape, dtype=dtype, seed=seed)


@npt.stencil(boundary="mirror")
def thrice(x, n=2):
    for k in range(3):
        x = weighted(x, n + k)
    return x[0, 0] - x[-1, 1]


@npt.stencil
def inner(x):
    s = blur(x)
    return s[0, 0] - x[0, 0]


outer = npt.stencil(lambda x: inner(inner(x))[0, 1] + 2 * blur(x)[1, 0], boundary="wrap")


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize("kernel", [thrice, outer])
def test_calls_in_loops_and_in_stages(kernel):
    x = image((6, 7), "float64")
    np.testing.assert_allclose(kernel(x), kernel.debug(x), rtol=1e-12)
    # Of the input, twice inside `inner` and once outside: what several share is done once.
    assert outer.explain("float64").count("blur(x)") == 1


@npt.stencil(boundary="valid")
def narrower(x):
    return x[-1] + x[0] + x[1]


@npt.stencil(boundary="nearest")
def of_narrower(x, y):
    s = narrower(x)
    t = narrower(s)
    return t[-1] - 2 * t[1] + y[0]


@npt.stencil(boundary="nearest")
def beside_itself(x):
    s = narrower(x)
    return s[0] + x[0]


@npt.stencil(boundary="nearest")
def beside_its_length(x):
    s = narrower(x)
    return s[0] * len(x)


def test_stages_that_make_fewer_points():
    x, y = np.arange(20).reshape(2, 10) ** 2, np.arange(6)
    assert "fewer points" in beside_itself.explain("int64")
    refuses(ValueError, "coordinates", beside_itself, xr.DataArray(x))
    for options in ({}, {"boundary": "fill", "cval": 3}):
        made = of_narrower(x, y, **options)
        assert made.shape == (2, 6)
        same(of_narrower.debug(x, y, **options), made)
    x = np.arange(10)
    words = r"'x' of shape \(10,\) and 's' of shape \(8,\).*'narrower' makes 's' smaller"
    for kernel in (beside_itself, beside_its_length):
        for call in (kernel, kernel.debug, npt.stencil(boundary="keep")(kernel.__wrapped__)):
            refuses(ValueError, words, call, x)
        for given in (npt.lazy(x), da.from_array(x, chunks=4)):
            refuses(ValueError, words, kernel, given)


def test_a_loop_can_read_stages():
    def first(x):
        k = 0
        while k < 3 and x[0, k] < 50:
            k += 1
        return k

    @npt.stencil(neighborhood=((0, 0), (0, 3)))
    def of_stage(x):
        s, k = blur(x), 0
        while k < 3 and s[0, k] < 50:
            k += 1
        return k

    same(of_stage(image()), npt.stencil(neighborhood=((0, 0), (0, 3)))(first)(blur(image())))
    assert "it holds a loop with other turns at each point" in of_stage.explain("float32")


@npt.stencil(boundary="mirror")
def moved(x, gain=0.5):
    slope = gain * (x[1, 0] - x[-1, 0])
    peak = x[-1:2, -1:2].max()
    steep = slope if slope > 3 else slope[0, 1]
    return slope[0, 2] - peak[1, 0] * steep[-1, -1] + slope[-1:2, 0].sum()


@npt.stencil(boundary="mirror")
def written_out(x, gain=0.5):
    def slope(i, j):
        return gain * (x[i + 1, j] - x[i - 1, j])

    peak = x[0:3, -1:2].max()
    steep = slope(-1, -1) if slope(-1, -1) > 3 else slope(-1, 0)
    around = slope(-1, 0) + slope(0, 0) + slope(1, 0)
    return slope(0, 2) - peak * steep + around


@pytest.mark.usefixtures("as_python")
def test_an_expression_is_read_as_a_field_is():
    x = image((12, 13), "float64")
    same(moved(x), written_out(x))
    # One branch reads `slope` elsewhere, where another may be taken, and so on without end.
    refuses(RuntimeError, "takes another branch", moved.debug, x)
    assert "looks       offsets -2..2 x -1..2" in moved.explain("float64")
    with pytest.raises(npt.StencilError, match="outside"):

        @npt.stencil(neighborhood=((-1, 1),))
        def kernel(x):
            d = x[1] - x[0]
            return d[1]


def test_it_is_the_array_of_a_separate_call_and_nothing_whole_is_allocated():
    unscheduled = npt.stencil(boundary="nearest")(corners.__wrapped__)
    x = image((1500, 1000))
    wanted = separately(x)
    for threads in (1, 2):
        same(unscheduled(x, threads=threads), wanted)
        same(corners(x, threads=threads), wanted)
    out = np.empty_like(x)
    # Three stages stored whole would take thrice the image; what is needed are the thin ends.
    assert most_memory(lambda: unscheduled(x, out=out, threads=1)) < x.nbytes / 10


def test_what_is_stored_whole_is_said():
    rounded = {"dtype": "uint8", "overflow": "saturate"}

    def of_far(s):
        return s[-700, 0] + s[700, 0]

    @npt.stencil(boundary="reflect")
    def far(x):
        s = blur(x)
        return s[-700, 0] + s[700, 0]

    @npt.stencil(boundary="reflect")
    def ranked(x):
        s = blur(x, dtype="uint8", overflow="saturate")
        return s[-9:10, -9:10].median()

    x, small = image((1600, 40)), image((60, 70), "uint8")
    same(far(x), npt.stencil(of_far, boundary="reflect")(blur(x)))
    stage = npt.filters.median(blur(small, **rounded), 19, boundary="reflect")
    same(ranked(small).astype("uint8"), stage)
    assert "1401 of its rows would have to be kept" in far.explain("float32")
    assert "stored whole" in ranked.explain("uint8")
    # What is looked at beyond the ends of the array is kept, so that it can be copied there.
    for how, words in (("rows", "kept in"), ("whole", "the schedule says so")):
        schedule = npt.Schedule(stages=(("dx", how), ("s", how)), tile=5)
        scheduled = npt.stencil(boundary="nearest", schedule=schedule)(corners.__wrapped__)
        assert words in scheduled.explain("float32")


def test_it_can_be_looked_at_measured_and_sent_to_workers():
    x = image((64, 64))
    for told, words in (
        (corners.explain(x), ("kept in 2 rows, until they are read", "the result", "measured")),
        (corners.ir("float32"), ("s = weighted(dx):", "{w0 = dx[-1+, -1+]; w1 = w0 * w0}")),
        (corners.source("float32"), ("def band(",)),
    ):
        assert [word for word in words if word not in told] == []
    assert corners.bench(x, repeat=3).points == 64 * 64
    x = image((40, 40))
    made = corners(da.from_array(x, chunks=20))
    same(made.compute(scheduler="processes", num_workers=1), separately(x))


alike = npt.stencil(lambda x: x[0, 0])
of_a_constant = npt.stencil(lambda x: alike(x)[0, 0], boundary="constant", cval=0.5)


@npt.stencil
def of_a_constant_inside(x):
    a = alike(x, boundary="constant", cval=0.5)
    return a[0, 0] + x[0, 0]


@npt.stencil(dtype="int16", overflow="saturate", boundary="keep")
def keeping(x):
    y = alike(x)
    return y[0, 0] + y[0, 1]


@pytest.mark.parametrize(("kernel", "dtype", "words"), [
    (of_a_constant, "bool", r"cval=0\.5 does not fit the array, which is bool"),
    (of_a_constant_inside, "int64", r"cval=0\.5 does not fit the array, which is int64"),
    (keeping, "uint16", '"keep" cannot hold uint16 values in a int16 result'),
])  # fmt: skip
def test_what_a_border_cannot_hold_is_refused_beside_stages_too(kernel, dtype, words):
    for call in (kernel, kernel.debug):
        refuses(ValueError, words, call, np.ones((3, 4), dtype))


def test_lazy_calls_are_what_calls_are():
    x = image((300, 200))
    dx, dy = gradients(npt.lazy(x))
    s = weighted(dx, 2.0, boundary="reflect")
    assert (s.shape, s.dtype, s.ndim, len(s)) == (x.shape, x.dtype, 2, 300)
    wanted = weighted(gradients(x)[0], 2.0, boundary="reflect")
    same(s, wanted)
    same(npt.compute(dy, dx, s), (*gradients(x)[::-1], wanted))
    assert "computed" in repr(s)
    same((s - x, np.abs(s), s[3]), (wanted - x, np.abs(wanted), wanted[3]))
    refuses(TypeError, "array of numbers", npt.lazy, "image.png")


def test_the_same_calls_for_several_results_and_for_one_on_dask():
    x = image()
    given = da.from_array(x, chunks=20)

    def calls():
        first = blur(npt.lazy(given))
        return first, blur(first)

    once = blur(x)
    wanted = once, blur(once)
    for order in ((1,), (0, 1), (1, 0), (0,), (1,)):
        pair = calls()
        made = npt.compute(*(pair[k] for k in order))
        assert isinstance(made[0], da.Array)
        same(tuple(made), tuple(wanted[k] for k in order))


@npt.stencil(boundary="nearest")
def d1(u):
    """Dask begins names with what is before a digit."""
    return u[0, 1] - u[0, 0], u[1, 0] - u[0, -1]


def test_several_results_that_dask_optimizes():
    x = image()
    left, right = d1(da.from_array(x, chunks=20))
    (optimized,) = dask.optimize(left)
    for one in (left, optimized):
        same(dask.compute(one, right, optimize_graph=False), d1(x))
        same(dask.compute(right, one, optimize_graph=False), d1(x)[::-1])


doubled = npt.stencil(lambda x: x[0, 0] * 2.0, boundary="nearest")


def of_roots(x):
    s = doubled(x)
    return np.sqrt(s[0, -1]) / np.sqrt(s[-1, -1]) + s[-2, -1]


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize("boundary", ["nearest", "reflect", "mirror", "constant"])
def test_what_is_shared_of_rows_before_the_array(boundary):
    """The roots of the row before the first are made before all rows before it are there."""
    x = np.random.default_rng(0).random((8, 5)) + 1
    made = npt.stencil(boundary=boundary)(of_roots)
    same(made(x), made.debug(x))


lap = npt.stencil(
    lambda u: u[-1, 0] + u[1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0], boundary="reflect"
)


def test_stages_and_parameters_of_any_name():
    @npt.stencil
    def twice(u):
        u = lap(u)
        u = u
        u_2 = u[0, 1]
        u = lap(u)
        return u[0, 0] + u_2

    plane = np.random.default_rng(0).normal(size=(23, 31))
    inner = lap(plane)
    wanted = lap(inner)
    wanted[:, :-1] += inner[:, 1:]
    wanted[:, -1] = 0
    same(twice(plane), wanted)

    def around(x):
        s_0 = lap(x)
        return s_0[1, 0] + s_0[-1, 0] + s_0[0, 2]

    for how in ("rows", "whole"):
        kernel = npt.stencil(schedule=npt.Schedule(stages=(("s_0", how),)))(around)
        assert ("the schedule says so" in kernel.explain("float64")) == (how == "whole")

    @npt.stencil(boundary="keep")
    def half(self, by=0.5):
        return self[0] * by

    x = np.arange(4.0)
    same(half.iterate(self=x, steps=2), x / 4)
    same(half.debug(self=x), half(self=x))
    assert "half" in half.explain("float64", by=0.5)


def test_axes_are_missed_before_rules_are():
    for call in (lap, lap.debug):
        refuses(ValueError, "at least 2 dimensions", call, np.zeros(4), boundary=("wrap",) * 3)


def test_a_literal_that_only_uint64_holds_after_a_stage():
    alike = npt.stencil(lambda x: x[0])
    kernel = npt.stencil(lambda x: np.zeros(2)[alike(x)[0] % 2] + (x[0] < 9223372036854775809))
    x = np.arange(7, dtype="uint64")
    np.testing.assert_array_equal(kernel(x), kernel.debug(x))
