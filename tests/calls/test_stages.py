"""Kernels that call others: what a stage is, and that to fuse them changes nothing."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from ninepoint.cli import main

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
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def same(made, wanted):
    made = made if isinstance(made, tuple) else (made,)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for one, other in zip(made, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


# What a stage is.


@pytest.mark.parametrize("boundary", ["fill", "wrap", "constant"])
def test_it_is_the_array_of_a_separate_call(boundary):
    x, options = image(), {"boundary": boundary, "cval": 2}
    wanted = separately(x, **options)
    for threads in (1, 2):
        same(corners(x, threads=threads, **options), wanted)
    made = corners(da.from_array(x, chunks=(17, 23)), **options)
    assert isinstance(made, da.Array)
    same(made.compute(), wanted)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, 30), (2, 3, 12, 13), (0, 5, 6)])
def test_small_arrays_and_stacks(shape):
    x = image(shape)
    same(corners(x), separately(x))


def test_its_meaning_is_the_reference():
    x = image((5, 4), "float64")
    np.testing.assert_allclose(corners(x), corners.debug(x), rtol=1e-12)


@npt.stencil(boundary="mirror")
def thrice(x, n=2):
    for k in range(3):
        x = weighted(x, n + k)
    return x[0, 0] - x[-1, 1]


def test_loops_and_names_that_are_bound_again():
    x = image()
    y = weighted(weighted(weighted(x, 2), 3), 4)

    @npt.stencil(boundary="mirror")
    def last(y):
        return y[0, 0] - y[-1, 1]

    same(thrice(x), last(y))
    np.testing.assert_allclose(thrice(x[:5, :4]), thrice.debug(x[:5, :4]), rtol=1e-5)


def test_a_loop_around_calls_whose_length_is_computed_of_a_scalar():
    with pytest.raises(npt.StencilError, match="cannot depend on how often"):

        @npt.stencil
        def repeated(x, n=2):
            twice = 2 * n
            for _ in range(twice):
                x = blur(x)
            return x[0, 0]


@npt.stencil
def inner(x):
    s = blur(x)
    return s[0, 0] - x[0, 0]


@npt.stencil(boundary="wrap")
def outer(x):
    return inner(inner(x))[0, 1] + 2 * blur(x)[1, 0]


def test_stages_of_stages():
    x = image()

    @npt.stencil(boundary="wrap")
    def last(a, b):
        return a[0, 1] + 2 * b[1, 0]

    def one(x):
        @npt.stencil
        def rest(s, x):
            return s[0, 0] - x[0, 0]

        return rest(blur(x), x)

    same(outer(x), last(one(one(x)), blur(x)))


def test_what_several_share_is_done_once():
    text = outer.explain("float32")
    # Of the input, twice inside `inner` and once outside.
    assert text.count("blur(x)") == 1


def test_the_rule_keep_keeps_the_kernels_own_field():
    @npt.stencil(boundary="keep")
    def kept(x):
        s = blur(x)
        return s[-1, 0] + s[1, 0]

    x = image()
    made = kept(x)
    np.testing.assert_array_equal(made[[0, -1]], x[[0, -1]])
    np.testing.assert_array_equal(made[1:-1], blur(x)[:-2] + blur(x)[2:])


def test_valid_inside_a_kernel():
    @npt.stencil(boundary="valid")
    def smaller(x):
        return x[-1, 0] + x[1, 0]

    @npt.stencil(boundary="valid")
    def twice(x):
        s = smaller(x)
        return s[-1, 0] + s[1, 0]

    x = image((12, 5))
    same(twice(x), smaller(smaller(x)))
    same(twice.debug(x), twice(x))
    assert "fewer points" in twice.explain("float32")
    with pytest.raises(ValueError, match="coordinates"):
        twice(xr.DataArray(x))


@npt.stencil(boundary="valid")
def narrower(x):
    return x[-1] + x[0] + x[1]


@npt.stencil(boundary="nearest")
def of_narrower(x, y):
    s = narrower(x)
    t = narrower(s)
    return t[-1] - 2 * t[1] + y[0]


def test_the_definition_of_what_stages_make_smaller():
    x, y = np.arange(20).reshape(2, 10) ** 2, np.arange(6)
    made = of_narrower(x, y)
    assert made.shape == (2, 6)
    np.testing.assert_array_equal(of_narrower.debug(x, y), made)
    kept = of_narrower(x, y, boundary="fill", cval=3)
    np.testing.assert_array_equal(of_narrower.debug(x, y, boundary="fill", cval=3), kept)


@npt.stencil(boundary="nearest")
def beside_itself(x):
    s = narrower(x)
    return s[0] + x[0]


@npt.stencil(boundary="nearest")
def beside_its_length(x):
    s = narrower(x)
    return s[0] * len(x)


@pytest.mark.parametrize("kernel", [beside_itself, beside_its_length])
@pytest.mark.parametrize(
    "way",
    [
        lambda kernel, x: kernel(x),
        lambda kernel, x: kernel.debug(x),
        lambda kernel, x: kernel(npt.lazy(x)),
        lambda kernel, x: kernel(da.from_array(x, chunks=4)),
        lambda kernel, x: kernel(x, boundary="keep"),
    ],
    ids=["call", "debug", "lazy", "dask", "keep"],
)
def test_a_smaller_stage_beside_its_field_is_named(kernel, way):
    words = r"'x' of shape \(10,\) and 's' of shape \(8,\).*'narrower' makes 's' smaller"
    with pytest.raises(ValueError, match=words):
        way(kernel, np.arange(10))


def test_a_loop_can_read_stages():
    @npt.stencil(neighborhood=((0, 0), (0, 3)))
    def first(x):
        s = blur(x)
        k = 0
        while k < 3 and s[0, k] < 50:
            k += 1
        return k

    @npt.stencil(neighborhood=((0, 0), (0, 3)))
    def rest(s):
        k = 0
        while k < 3 and s[0, k] < 50:
            k += 1
        return k

    x = image()
    same(first(x), rest(blur(x)))
    assert "it holds a loop with other turns at each point" in first.explain("float32")


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


def test_an_expression_is_read_as_a_field_is():
    x = image((12, 13))
    same(moved(x), written_out(x))
    assert "looks       offsets -2..2 x -1..2" in moved.explain("float32")


def test_the_reference_reads_expressions_too():
    @npt.stencil(boundary="mirror")
    def kernel(x, gain=0.5):
        slope = gain * (x[1, 0] - x[-1, 0])
        steep = slope if slope > 3 else -slope
        return steep[-1, -1] + slope[0, 1] * slope[-1:2, 0].sum()

    x = image((12, 13), "float64")
    np.testing.assert_allclose(kernel(x), kernel.debug(x), rtol=1e-12)


def test_expressions_of_integers_and_truths():
    @npt.stencil(boundary="wrap", neighborhood=((-3, 3),))
    def kernel(x):
        more = x[0] > x[1]
        both = more & more[1]
        fall = x[0] - x[1]
        return both[-2] + 2 * fall[1] + more[-1:2].any()

    x = image((40,), "uint8")
    same(kernel(x), kernel.debug(x))


def test_expressions_outside_the_neighborhood():
    with pytest.raises(npt.StencilError, match="outside"):

        @npt.stencil(neighborhood=((-1, 1),))
        def kernel(x):
            d = x[1] - x[0]
            return d[1]


# Where it runs.


def test_inputs_of_any_kind():
    x = image()
    others = x.T, x[::2, ::-1], x.astype(">f4"), np.broadcast_to(x[0], (30, 53)), x.tolist()
    for one in others:
        same(corners(one), separately(one))


def test_axes_and_out():
    x = image((41, 3, 53))
    wanted = np.moveaxis(separately(np.moveaxis(x, 1, 0)), 0, 1)
    same(corners(x, axes=(0, 2)), wanted)
    out = np.empty_like(x)
    assert corners(x, axes=(0, 2), out=out) is out
    same(out, wanted)
    y = image()
    wanted = separately(y)
    assert corners(y, out=y) is y
    same(y, wanted)


def test_dask_distributed_workers_know_what_remains():
    x = image((40, 40))
    made = corners(da.from_array(x, chunks=20))
    same(made.compute(scheduler="processes", num_workers=1), separately(x))


def test_xarray():
    x = xr.DataArray(image((3, 41, 53)), dims=("time", "lat", "lon"), name="t")
    made = corners(x)
    assert made.dims == x.dims
    same(made.values, separately(x.values))
    moved = corners(x.transpose("lat", "lon", "time"), dims=("lat", "lon"))
    same(moved.transpose(*x.dims).values, separately(x.values))


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


@pytest.mark.parametrize("boundary", ["keep", "wrap"])
def test_iterate(boundary):
    @npt.stencil(boundary=boundary)
    def step(u, rate=0.5):
        s = blur(u)
        return u[0, 0] + rate * (s[0, 0] - u[0, 0])

    x = image()
    wanted = x
    for rate in (0.5, 0.25, 0.125):
        wanted = step(wanted, rate)
    rates = [0.5, 0.25, 0.125]
    same(step.iterate(x, rates, steps=3), wanted)
    lazily = step.iterate(da.from_array(x, chunks=20), np.array(rates), steps=3)
    same(lazily.compute(), wanted)


# How it is done.


@npt.stencil(boundary="reflect")
def harris(x, k=0.04):
    dx, dy = gradients(x)
    xx = (dx[-1:2, -1:2] * dx[-1:2, -1:2]).sum()
    yy = (dy[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
    xy = (dx[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
    return xx * yy - xy * xy - k * (xx + yy) ** 2


def test_nothing_whole_is_allocated_between_stages():
    x = image((1500, 1000))
    harris(x)
    out = np.empty_like(x)
    tracemalloc.start()
    harris(x, out=out, threads=1)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Two stages stored whole would take twice the image; what is needed are the thin ends.
    assert most < x.nbytes / 10


def test_large_arrays_are_done_in_one_pass_and_equal():
    x = image((700, 900))

    @npt.stencil(boundary="reflect")
    def rest(dx, dy, k=0.04):
        xx = (dx[-1:2, -1:2] * dx[-1:2, -1:2]).sum()
        yy = (dy[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
        xy = (dx[-1:2, -1:2] * dy[-1:2, -1:2]).sum()
        return xx * yy - xy * xy - k * (xx + yy) ** 2

    for threads in (1, 2):
        same(harris(x, threads=threads), rest(*gradients(x)))


@pytest.mark.parametrize(("how", "tile"), [("inline", 0), ("rows", 5), ("rows", 64), ("whole", 5)])
def test_the_schedule_changes_nothing(how, tile):
    schedule = npt.Schedule(stages=(("dx", how), ("s", how)), tile=tile)
    scheduled = npt.stencil(boundary="nearest", schedule=schedule)(corners.__wrapped__)
    x = image()
    same(scheduled(x), separately(x))
    text = scheduled.explain("float32")
    # What is looked at beyond the ends of the array is kept, so that it can be copied there.
    words = {"inline": "kept in", "rows": "kept in", "whole": "the schedule says so"}
    assert words[how] in text


def test_a_far_stage_is_stored_whole_and_said_so():
    @npt.stencil(boundary="reflect")
    def far(x):
        s = blur(x)
        return s[-700, 0] + s[700, 0]

    @npt.stencil(boundary="reflect")
    def rest(s):
        return s[-700, 0] + s[700, 0]

    x = image((1600, 400))
    same(far(x), rest(blur(x)))
    assert "1401 of its rows would have to be kept" in far.explain("float32")


def test_a_large_window_is_stored_whole_and_said_so():
    @npt.stencil(boundary="reflect")
    def ranked(x):
        s = blur(x, dtype="uint8", overflow="saturate")
        return s[-9:10, -9:10].median()

    @npt.stencil(boundary="reflect")
    def rest(s):
        return s[-9:10, -9:10].median()

    x = image((60, 70), "uint8")
    same(ranked(x), rest(blur(x, dtype="uint8", overflow="saturate")))
    assert "stored whole" in ranked.explain("uint8")


def test_it_can_be_looked_at(golden):
    text = "\n".join(
        [corners.explain("float32"), "", corners.ir("float32"), "", corners.source("float32")]
    )
    golden(text, Path(__file__).parents[1] / "inside" / "golden" / "stages_float32.txt")


def test_it_can_be_measured():
    found = corners.bench(image((64, 64)), repeat=3)
    assert found.points == 64 * 64
    assert "measured" in corners.explain(image((64, 64)))


# Lazy values.


def test_lazy_calls_are_what_calls_are():
    x = image((600, 700))
    dx, dy = gradients(npt.lazy(x))
    s = weighted(dx, 2.0, boundary="reflect")
    assert (s.shape, s.dtype, s.ndim) == (x.shape, x.dtype, 2)
    wanted = weighted(gradients(x)[0], 2.0, boundary="reflect")
    same(np.asarray(s), wanted)
    same(npt.compute(dy, dx, s), (*gradients(x)[::-1], wanted))
    assert "computed" in repr(s)


def test_lazy_values_are_arrays_to_everybody_else():
    x = image()
    s = blur(npt.lazy(x))
    same(s - x, blur(x) - x)
    same(np.sqrt(s), np.sqrt(blur(x)))
    same(s[3], blur(x)[3])
    assert len(s) == 41
    same(blur(s, axes=(1, 0)), blur(blur(x), axes=(1, 0)))


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
        for one, k in zip(made, order, strict=True):
            same(one.compute(), wanted[k])


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


def test_lazy_values_of_other_kinds():
    x = image()
    smaller = blur(npt.lazy(x), boundary="valid")
    assert smaller.shape == (39, 51)
    same(smaller.compute(), blur(x, boundary="valid"))
    lazily = blur(blur(npt.lazy(da.from_array(x, chunks=20)))).compute()
    assert isinstance(lazily, da.Array)
    same(lazily.compute(), blur(blur(x)))
    named = corners(npt.lazy(xr.DataArray(x, dims=("lat", "lon")))).compute()
    assert named.dims == ("lat", "lon")
    same(named.values, corners(x))
    with pytest.raises(TypeError, match="array of numbers"):
        npt.lazy("image.png")


@pytest.mark.parametrize("boundary", ["wrap", "fill", ("wrap", "mirror"), ("reflect", "wrap")])
def test_some_calls_take_an_axis_for_a_ring_and_others_do_not(boundary):
    @npt.stencil(boundary=boundary)
    def mixed(x):
        s = blur(x)
        ring = weighted(s, 0.5, boundary="wrap")
        return ring[2, -1] - s[0, 1]

    @npt.stencil(boundary=boundary)
    def last(s, ring):
        return ring[2, -1] - s[0, 1]

    x = image()
    s = blur(x)
    same(mixed(x), last(s, weighted(s, 0.5, boundary="wrap")))
    assert "some take it for a ring" in str(mixed.explain("float32"))


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
    np.testing.assert_array_equal(both(x), wanted)
    np.testing.assert_array_equal(both.debug(x), wanted)


def test_a_constant_has_to_fit_beside_stages_too():
    @npt.stencil
    def alike(x):
        return x[0, 0]

    @npt.stencil(boundary="constant", cval=0.5)
    def staged(x):
        y = alike(x)
        return y[0, 0]

    for call in (staged, staged.debug):
        with pytest.raises(ValueError, match=r"cval=0\.5 does not fit the array, which is bool"):
            call(np.ones((3, 4), bool))


@npt.stencil(boundary="nearest")
def doubled(x):
    return x[0, 0] * 2.0


def of_roots(x):
    s = doubled(x)
    return np.sqrt(s[0, -1]) / np.sqrt(s[-1, -1]) + s[-2, -1]


@pytest.mark.parametrize("boundary", ["nearest", "reflect", "mirror", "constant"])
def test_what_is_shared_of_rows_before_the_array(boundary):
    """The roots of the row before the first are made before all rows before it are there."""
    x = np.random.default_rng(0).random((8, 5)) + 1
    made = npt.stencil(boundary=boundary)(of_roots)
    np.testing.assert_array_equal(made(x), made.debug(x))
