"""Kernels that call others: what a stage is, and that to fuse them changes nothing."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from compared import one_by_one, same

import ninepoint as npt
from ninepoint.cli import main
from weighted import whole

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


# What a stage is.


@pytest.mark.parametrize("boundary", ["fill", "wrap", "constant"])
def test_it_is_the_array_of_a_separate_call(boundary):
    x, options = image(), {"boundary": boundary, "cval": 2}
    wanted = separately(x, **options)
    for threads in (1, 2):
        same(corners(x, threads=threads, **options), wanted)
    made = corners(da.from_array(x, chunks=(17, 23)), **options)
    assert isinstance(made, da.Array)
    same(made, wanted)


@npt.stencil(boundary="mirror")
def thrice(x, n=2):
    for k in range(3):
        x = weighted(x, n + k)
    return x[0, 0] - x[-1, 1]


@npt.stencil
def inner(x):
    s = blur(x)
    return s[0, 0] - x[0, 0]


@npt.stencil(boundary="wrap")
def outer(x):
    return inner(inner(x))[0, 1] + 2 * blur(x)[1, 0]


@npt.stencil(boundary="keep")
def kept(x):
    s = blur(x)
    return s[-1, 0] + s[1, 0]


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize("kernel", [thrice, outer, kept])
def test_calls_in_loops_in_stages_and_beside_kept_values(kernel):
    x = image((6, 7), "float64")
    np.testing.assert_allclose(kernel(x), kernel.debug(x), rtol=1e-12)
    # Of the input, twice inside `inner` and once outside: what several share is done once.
    assert outer.explain("float64").count("blur(x)") == 1
    assert kernel is not kept or (kept(x)[[0, -1]] == x[[0, -1]]).all()


@npt.stencil(boundary="valid")
def narrower(x):
    return x[-1] + x[0] + x[1]


@npt.stencil(boundary="valid")
def twice_narrower(x):
    s = narrower(x)
    return s[-1] + s[0] + s[1]


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
    same(twice_narrower(x), narrower(narrower(x)))
    same(twice_narrower.debug(x), twice_narrower(x))
    assert "fewer points" in twice_narrower.explain("int64")
    with pytest.raises(ValueError, match="coordinates"):
        twice_narrower(xr.DataArray(x))
    for options in ({}, {"boundary": "fill", "cval": 3}):
        made = of_narrower(x, y, **options)
        assert made.shape == (2, 6)
        same(of_narrower.debug(x, y, **options), made)
    x = np.arange(10)
    words = r"'x' of shape \(10,\) and 's' of shape \(8,\).*'narrower' makes 's' smaller"
    for kernel in (beside_itself, beside_its_length):
        for way in (
            lambda kernel=kernel: kernel(x),
            lambda kernel=kernel: kernel.debug(x),
            lambda kernel=kernel: kernel(npt.lazy(x)),
            lambda kernel=kernel: kernel(da.from_array(x, chunks=4)),
            lambda kernel=kernel: kernel(x, boundary="keep"),
        ):
            with pytest.raises(ValueError, match=words):
                way()


def test_a_loop_can_read_stages():
    def first(x):
        k = 0
        while k < 3 and x[0, k] < 50:
            k += 1
        return k

    @npt.stencil(neighborhood=((0, 0), (0, 3)))
    def of_stage(x):
        s = blur(x)
        k = 0
        while k < 3 and s[0, k] < 50:
            k += 1
        return k

    same(of_stage(image()), npt.stencil(neighborhood=((0, 0), (0, 3)))(first)(blur(image())))
    assert "it holds a loop with other turns at each point" in of_stage.explain("float32")


@npt.ufunc
def halved(a, b=2):
    return a / b


def test_a_ufunc_may_be_called_on_an_array_and_on_numbers_in_one_kernel():
    @npt.stencil(boundary="reflect")
    def both(x):
        near = halved(x)
        return near[-1] + halved(x[0], x[1]) + halved(halved(x))[1]

    x = np.arange(1.0, 7.0)
    before, after = x[[0, 0, 1, 2, 3, 4]], x[[1, 2, 3, 4, 5, 5]]
    wanted = before / 2 + x / after + after / 4
    same(both(x), wanted)
    same(both.debug(x), wanted)


# Expressions that are read at other points.


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


@npt.stencil(boundary="wrap", neighborhood=((-3, 3),))
def of_truths(x):
    more = x[0] > x[1]
    both = more & more[1]
    fall = x[0] - x[1]
    return both[-2] + 2 * fall[1] + more[-1:2].any()


@pytest.mark.usefixtures("as_python")
def test_an_expression_is_read_as_a_field_is():
    x, y = image((12, 13), "float64"), image((40,), "uint8")
    same(moved(x), written_out(x))
    # One branch reads `slope` elsewhere, where another may be taken, and so on without end.
    with pytest.raises(RuntimeError, match="takes another branch"):
        moved.debug(x)
    assert "looks       offsets -2..2 x -1..2" in moved.explain("float64")
    same(of_truths(y), of_truths.debug(y))
    with pytest.raises(npt.StencilError, match="outside"):

        @npt.stencil(neighborhood=((-1, 1),))
        def kernel(x):
            d = x[1] - x[0]
            return d[1]


# How it is done.


@npt.stencil(boundary="reflect")
def harris_of(dx, dy, k=0.04):
    xx = (dx[-1:2, -1:2] * dx[-1:2, -1:2]).sum()
    yy = (dy[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
    xy = (dx[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
    return xx * yy - xy * xy - k * (xx + yy) ** 2


@npt.stencil(boundary="reflect")
def harris(x, k=0.04):
    dx, dy = gradients(x)
    xx = (dx[-1:2, -1:2] * dx[-1:2, -1:2]).sum()
    yy = (dy[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
    xy = (dx[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
    return xx * yy - xy * xy - k * (xx + yy) ** 2


def test_large_arrays_are_done_in_one_pass_and_nothing_whole_is_allocated():
    x = image((1500, 1000))
    wanted = harris_of(*gradients(x))
    for threads in (1, 2):
        same(harris(x, threads=threads), wanted)
    out = np.empty_like(x)
    tracemalloc.start()
    harris(x, out=out, threads=1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Two stages stored whole would take twice the image; what is needed are the thin ends.
    assert most < x.nbytes / 10


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize(("how", "tile"), [("inline", 0), ("rows", 5), ("rows", 64), ("whole", 5)])
def test_the_schedule_changes_nothing(how, tile):
    schedule = npt.Schedule(stages=(("dx", how), ("s", how)), tile=tile)
    scheduled = npt.stencil(boundary="nearest", schedule=schedule)(corners.__wrapped__)
    again = npt.stencil(boundary="nearest", schedule=ROWS)(corners.__wrapped__)
    x = image((13, 11))
    same(scheduled(x), again(x))
    # What is looked at beyond the ends of the array is kept, so that it can be copied there.
    words = {"inline": "kept in", "rows": "kept in", "whole": "the schedule says so"}
    assert words[how] in scheduled.explain("float32")


def far_of(s):
    return s[-700, 0] + s[700, 0]


@npt.stencil(boundary="reflect")
def far(x):
    s = blur(x)
    return s[-700, 0] + s[700, 0]


def median_of(s):
    return s[-9:10, -9:10].median()


@npt.stencil(boundary="reflect")
def ranked(x):
    s = blur(x, dtype="uint8", overflow="saturate")
    return s[-9:10, -9:10].median()


def test_what_is_stored_whole_is_said():
    x = image((1600, 40))
    same(far(x), npt.stencil(far_of, boundary="reflect")(blur(x)))
    assert "1401 of its rows would have to be kept" in far.explain("float32")
    x = image((60, 70), "uint8")
    stage = blur(x, dtype="uint8", overflow="saturate")
    same(ranked(x), npt.stencil(median_of, boundary="reflect")(stage))
    assert "stored whole" in ranked.explain("uint8")


def test_it_can_be_looked_at_and_measured(golden):
    text = "\n".join(
        [corners.explain("float32"), "", corners.ir("float32"), "", corners.source("float32")]
    )
    golden(text, Path(__file__).parents[1] / "inside" / "golden" / "stages_float32.txt")
    assert corners.bench(image((64, 64)), repeat=3).points == 64 * 64
    assert "measured" in corners.explain(image((64, 64)))


def test_the_command_line(tmp_path, monkeypatch, capsys):
    text = "import ninepoint as npt\n" + "".join(
        f"@npt.stencil\ndef {name}(x):\n    return {body}\n"
        for name, body in [("low", "min(x[0, 1], x[1, 0])"), ("edge", "x[0, 0] - low(x)[0, 0]")]
    )
    (tmp_path / "kernels.py").write_text(text)
    npt.imsave(image((12, 13), "uint8")[None], tmp_path / "in" / "{:02d}.png", progress=False)
    monkeypatch.chdir(tmp_path)
    options = ["--dtype", "uint8", "--overflow", "saturate"]
    assert main(["apply", "kernels.py:edge", "in", "out", *options]) == 0
    assert len(list((tmp_path / "out").glob("*.png"))) == 1
    assert main(["explain", "kernels.py:edge"]) == 0
    assert "low = low(x)" in capsys.readouterr().out


def test_workers_of_dask_know_what_remains():
    x = image((40, 40))
    made = corners(da.from_array(x, chunks=20))
    same(made.compute(scheduler="processes", num_workers=1), separately(x))


# Calls that are one call: where one border gives what theirs give, and what they give then.


@npt.stencil
def across(x):
    return x[-1, 0] - 2 * x[0, 1] + 3 * x[2, 0]


@npt.stencil(boundary="wrap")
def ring(x, y):
    a = across(x, boundary="wrap")
    b = across(a, boundary="wrap")
    return b[3, 0] + a[0, -1] + y[0, 2]


@npt.stencil(boundary=("reflect", "fill"), cval=7)
def down(x):
    return x[-1, 0] + x[2, 0]


@npt.stencil(boundary=("wrap", "fill"), cval=7)
def down_and_along(x):
    return down(x)[0, -1]


@npt.stencil(boundary=("wrap", "fill"), cval=7)
def down_and_across(x):
    return down(x)[1, -1]


@npt.stencil
def of_two_constants(x):
    a = across(x, boundary="constant", cval=1)
    b = across(x, boundary="constant", cval=2)
    return a[0, 0] + b[0, 0]


@npt.stencil(boundary=("wrap", "mirror"))
def a_ring_and_none(x):
    s = blur(x)
    around = weighted(s, 0.5, boundary="wrap")
    return around[2, -1] - s[0, 1]


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize(
    "kernel", [ring, down_and_along, down_and_across, of_two_constants, a_ring_and_none]
)
def test_rings_and_each_axis_by_itself(kernel):
    fields = np.random.default_rng(1).random((2, 5, 6))[: 2 if kernel is ring else 1]
    wanted = kernel.debug(*fields)
    same(kernel(*fields), wanted)
    for chunks in ((5, 6), (2, 6), (3, 2)):
        lazy = [da.from_array(one, chunks=chunks) for one in fields]
        same(kernel(*lazy).compute(scheduler="sync"), wanted)
    assert "some take it for a ring" in str(a_ring_and_none.explain("float64"))


@npt.stencil(boundary="wrap")
def turned(u, v, r):
    a = across(u, boundary="wrap")
    return u[0, 0] + r * a[0, 0] * v[0, 0], v[0, 0] - r * a[0, 0]


def test_steps_of_rings():
    u, v = np.random.default_rng(4).random((2, 20, 30))
    for threads in (1, 2):
        made = turned.iterate(u, v, 0.01, steps=5, threads=threads)
        same(made, one_by_one(turned, u, v, rest=(0.01,), steps=5))


@npt.stencil
def alike(x):
    return x[0, 0]


@npt.stencil(boundary="constant", cval=0.5)
def of_a_constant(x):
    y = alike(x)
    return y[0, 0]


@npt.stencil
def of_a_constant_inside(x):
    a = alike(x, boundary="constant", cval=0.5)
    return a[0, 0] + x[0, 0]


@npt.stencil(dtype="int16", overflow="saturate", boundary="keep")
def keeping(x):
    y = alike(x)
    return y[0, 0] + y[0, 1]


@pytest.mark.parametrize(
    ("kernel", "dtype", "words"),
    [
        (of_a_constant, "bool", r"cval=0\.5 does not fit the array, which is bool"),
        (of_a_constant_inside, "int64", r"cval=0\.5 does not fit the array, which is int64"),
        (keeping, "uint16", '"keep" cannot hold uint16 values in a int16 result'),
    ],
)
def test_what_a_border_cannot_hold_is_refused_beside_stages_too(kernel, dtype, words):
    for call in (kernel, kernel.debug):
        with pytest.raises(ValueError, match=words):
            call(np.ones((3, 4), dtype))


# Lazy values.


def test_lazy_calls_are_what_calls_are():
    x = image((600, 700))
    dx, dy = gradients(npt.lazy(x))
    s = weighted(dx, 2.0, boundary="reflect")
    assert (s.shape, s.dtype, s.ndim) == (x.shape, x.dtype, 2)
    wanted = weighted(gradients(x)[0], 2.0, boundary="reflect")
    same(s, wanted)
    same(npt.compute(dy, dx, s), (*gradients(x)[::-1], wanted))
    assert "computed" in repr(s)
    x = image()
    s = blur(npt.lazy(x))
    same(s - x, blur(x) - x)
    same(np.sqrt(s), np.sqrt(blur(x)))
    same(s[3], blur(x)[3])
    assert len(s) == 41
    with pytest.raises(TypeError, match="array of numbers"):
        npt.lazy("image.png")


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
    for made in ((left, right), (optimized, right), (right, optimized)):
        wanted = d1(x) if made[1] is right else d1(x)[::-1]
        same(dask.compute(*made, optimize_graph=False), wanted)


@npt.stencil(boundary="nearest")
def doubled(x):
    return x[0, 0] * 2.0


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
