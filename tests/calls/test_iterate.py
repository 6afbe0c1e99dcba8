"""`Stencil.iterate` is so many calls, each on the result of the one before."""

from __future__ import annotations

import tracemalloc

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from nightly import only
from ninepoint import Schedule
from seams import plan_of

FOUR = Schedule(steps=4)
ONE = Schedule(steps=1)


@npt.stencil(schedule=FOUR)
def heat(u, r=0.25):
    return u[0, 0] + r * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


@npt.stencil(schedule=FOUR, boundary="wrap")
def wave(u, before, speed):
    around = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]
    return 2 * u[0, 0] - before[0, 0] + speed[0, 0] * (around - 4 * u[0, 0]), u[0, 0]


@npt.stencil(schedule=FOUR, boundary="wrap")
def life(x):
    n = x[-1:2, -1:2].sum() - x[0, 0]
    return (n == 3) | ((n == 2) & (x[0, 0] == 1))


@npt.stencil(schedule=FOUR, boundary="nearest")
def driven(u, amplitude=0.0):
    return (u[-1] + u[0] + u[1]) / 3 + amplitude


@npt.stencil(schedule=FOUR)
def ahead(u, c):
    return u[1] * 0.5 + u[2] * 0.25 + c[1]


@npt.stencil(schedule=Schedule(steps=3))
def cube(u):
    return u[0, 0, 0] / 2 + (u[-1, 0, 0] + u[1, 1, 0] + u[0, -1, 1] + u[0, 0, -1]) / 8


@npt.stencil(schedule=Schedule(steps=3))
def star(u):
    return u[0, 0, 0] / 2 + (u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 1] + u[0, 1, -1]) / 8


def image(dtype="float32", shape=(41, 53), seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def one_by_one(stencil, *state, steps, rest=(), **options):
    """What iterate promises."""
    for _ in range(steps):
        made = stencil(*state, *rest, **options)
        state = made if isinstance(made, tuple) else (made,)
    return state


def same(made, wanted):
    made = made if isinstance(made, tuple) else (made,)
    for one, other in zip(made, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


SIDES = [
    "keep",
    "wrap",
    ("keep", "wrap"),
    (("fill", "keep"), ("mirror", "constant")),
    (("nearest", "fill"), ("keep", "reflect")),
]


@pytest.mark.parametrize("boundary", SIDES, ids=str)
def test_borders(boundary):
    options = {"boundary": boundary, "cval": 3}
    x = image(shape=(130, 150))
    wanted = one_by_one(heat, x, steps=7, **options)
    for threads in (1, 2, 3):
        same(heat.iterate(x, steps=7, threads=threads, **options), wanted)
    lazy = da.from_array(x, chunks=((60, 40, 30), (90, 60)))
    made = heat.iterate(lazy, steps=7, **options)
    assert isinstance(made, da.Array)
    assert made.chunks == lazy.chunks
    # One layer serves several steps.
    assert len(made.dask.layers) < 6
    same(made.compute(), wanted)


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 5, 8, 15])
def test_any_number_of_steps(steps):
    x = image()
    made = heat.iterate(x, steps=steps)
    same(made, one_by_one(heat, x, steps=steps))
    assert not np.may_share_memory(made, x)


@pytest.mark.parametrize("shape", [(3, 41, 53), (2, 3, 41, 53), (0, 41, 53), (3, 2), (1, 90)])
def test_stacks_and_small_arrays(shape):
    x = image(shape=shape)
    same(heat.iterate(x, steps=6), one_by_one(heat, x, steps=6))


def test_half_floats_are_rounded_at_each_step():
    half = npt.stencil(schedule=FOUR, dtype="float16", boundary="mirror")(heat.__wrapped__)
    x = image("float16")
    same(half.iterate(x, steps=9), one_by_one(half, x, steps=9))
    assert plan_of(half, x).no_chain


@pytest.mark.parametrize("shape", [(41, 53), (53,), (41, 1), (1, 1), (2, 41, 53)])
def test_several_states_and_a_coefficient_that_stays(shape):
    u, speed = image("float64"), image("float64", shape, seed=1) / 400
    before = u.copy()
    made = wave.iterate(u, u, speed, steps=6)
    np.testing.assert_array_equal(u, before)
    if len(shape) == 3:
        u = np.stack([u, u])
    same(made, one_by_one(wave, u, u, steps=6, rest=(speed,)))


def test_a_step_that_looks_to_one_side_only():
    u, c = image(shape=(200,)), image(shape=(200,), seed=1)
    for rule in ("wrap", "fill", "keep"):
        wanted = one_by_one(ahead, u, steps=9, rest=(c,), boundary=rule)
        same(ahead.iterate(u, c, steps=9, boundary=rule), wanted)
        made = ahead.iterate(da.from_array(u, chunks=70), c, steps=9, boundary=rule)
        same(made.compute(), wanted)


def test_booleans():
    x = image("bool") & (image(seed=5) > 60)
    same(life.iterate(x, steps=13), one_by_one(life, x, steps=13))


@npt.stencil(schedule=FOUR)
def in_rows(u):
    return (u[0, -1, 0] + u[0, 0, 0] + u[0, 0, 1]) / 3


@pytest.mark.parametrize(
    ("kernel", "boundary"),
    [(cube, "reflect"), (star, ("fill", "keep", "wrap")), (in_rows, "mirror")],
    ids=str,
)
def test_planes(kernel, boundary):
    x = image(shape=(14, 16, 19))
    options = {"boundary": boundary, "cval": 3}
    wanted = one_by_one(kernel, x, steps=7, **options)
    for threads in (1, 2):
        same(kernel.iterate(x, steps=7, threads=threads, **options), wanted)


@pytest.mark.parametrize(
    ("kernel", "boundary", "x"),
    [
        (cube, "reflect", image(shape=(20, 700, 180))),
        (star, ("fill", "keep", "wrap"), image(shape=(20, 700, 180))),
        (heat, ("keep", "constant"), image(shape=(30, 24000))),
    ],
    ids=["cube", "star", "rows"],
)
def test_planes_and_rows_that_are_cut_into_tiles(kernel, boundary, x):
    options = {"boundary": boundary, "cval": 3, "threads": 2}
    steps = 4 if kernel is heat else 3
    same(kernel.iterate(x, steps=steps, **options), one_by_one(kernel, x, steps=steps, **options))


def test_four_axes():
    @npt.stencil(boundary="reflect", schedule=Schedule(steps=2))
    def blur(u, c):
        return (u[-1, 0, 0, 0] + u[0, 1, 0, 0] + u[0, 0, 1, 0] + u[0, 0, 0, 2] + c[0, 0, 0, 0]) / 5

    x, c = image(shape=(7, 6, 8, 11)), image(shape=(6, 8, 11), seed=2)
    same(blur.iterate(x, c, steps=5), one_by_one(blur, x, steps=5, rest=(c,)))


# Steps of several calls.


@npt.stencil(boundary="reflect")
def laplace(u):
    return u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]


@npt.stencil(boundary="keep", cval=2)
def drift(u):
    return u[0, -1] / 2 + u[1, 0] / 4


@npt.stencil(schedule=FOUR, dtype=("float32", "float32"))
def react(u, v, feed=0.03):
    lu, lv = laplace(u), laplace(v)
    away = u[0, 0] * v[0, 0]
    return u[0, 0] + 0.2 * lu[0, 0] - away + feed, v[0, 0] + 0.1 * lv[0, 0] + away


@npt.stencil(schedule=Schedule(steps=3), dtype="float32")
def stirred(u, c, far=1):
    s = drift(u)
    t = laplace(s, boundary="reflect")
    around = laplace(u, boundary="constant", cval=far)
    return u[0, 1] / 4 + s[0, 1] / 4 + t[1, 0] / 8 + around[0, 0] * c[0, 1] / 800


@pytest.mark.parametrize("boundary", [SIDES[1], SIDES[3]], ids=str)
def test_steps_of_several_calls(boundary):
    u, v = image() / 100, image(seed=3) / 100
    options = {"boundary": boundary, "cval": 3}
    of_two = one_by_one(react, u, v, steps=9, **options)
    of_one = one_by_one(stirred, u, steps=7, rest=(v,), **options)
    for threads in (1, 2):
        same(react.iterate(u, v, steps=9, threads=threads, **options), of_two)
        same(stirred.iterate(u, v, steps=7, threads=threads, **options), of_one)


def test_scalars_of_calls_that_change():
    u, v, wrap = image(), image(seed=3), {"boundary": "wrap", "cval": 3}
    feeds, wanted = np.arange(8) / 80, (u, v)
    for feed in feeds:
        wanted = react(*wanted, float(feed), **wrap)
    same(react.iterate(u, v, feeds, steps=8, **wrap), wanted)
    for far in (2, 3):
        made = stirred.iterate(u, v, far, steps=6, **wrap)
        same(made, one_by_one(stirred, u, steps=6, rest=(v, far), **wrap))


def test_planes_of_several_calls():
    @npt.stencil(boundary="mirror")
    def around(u):
        return u[-1, 0, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]

    @npt.stencil(schedule=Schedule(steps=3), dtype="float32")
    def step(u, r=0.125):
        s = around(u)
        t = around(u, boundary="keep")
        return u[0, 0, 0] / 2 + r * s[0, 0, 0] + r * t[1, -1, 0] / 2

    x = image(shape=(14, 16, 19))
    options = {"boundary": ("fill", "wrap", "reflect"), "threads": 2}
    same(step.iterate(x, steps=7, **options), one_by_one(step, x, steps=7, **options))


def test_fields_of_calls_are_not_stretched():
    @npt.stencil(boundary="constant", schedule=FOUR, dtype="float32")
    def scaled(u, c):
        s, w = laplace(u), laplace(c)
        return u[0, 0] + s[0, 0] * w[0, 1] / 800

    u = image()
    for c in (image(shape=(1, 53)), image(shape=(2, 41, 53))):
        same(scaled.iterate(u, c, steps=6), one_by_one(scaled, u, steps=6, rest=(c,)))


def test_several_steps_are_one_pass():
    for stencil, *dtypes in [
        (heat, "float32"), (wave, *["float64"] * 3), (life, "bool"), (driven, "float64"),
        (ahead, "float32", "float32"), (cube, "float32"), (star, "float32"),
        (react, "float32", "float32"), (stirred, "float32", "float32"),
    ]:  # fmt: skip
        assert plan_of(stencil, *dtypes).no_chain == ""


def test_what_cannot_be_chained_is_done_step_by_step():
    @npt.stencil(neighborhood=((0, 0), (0, 3)))
    def searched(u):
        k = 0
        while k < 3 and u[0, k] < 50:
            k += 1
        return k

    @npt.stencil(dtype="float16")
    def rounded(u):
        return u[0, 1] / 3

    @npt.stencil(fastmath=True)
    def loose(u):
        return u[0, 1] / 3

    def of(inner):
        @npt.stencil(schedule=FOUR, dtype="float32")
        def step(u):
            s = inner(u)
            return u[0, 0] / 2 + s[1, 0]

        return step

    x = image()
    for step in map(of, (searched, rounded, loose)):
        same(step.iterate(x, steps=9), one_by_one(step, x, steps=9))
        assert plan_of(step, x).no_chain


# Scalars that change.


def test_scalars_for_each_step():
    x = image("float64", (99,))
    values = np.arange(10) / 8
    wanted = x
    for value in values[:9]:
        wanted = driven(wanted, float(value))
    for given in (values, list(values), lambda step: values[step].item()):
        same(driven.iterate(x, given, steps=9), (wanted,))
        lazily = driven.iterate(da.from_array(x, chunks=50), given, steps=9)
        same(lazily.compute(), (wanted,))


def test_functions_of_the_step_are_called_once_for_each():
    asked = []

    def amplitude(step):
        asked.append(step)
        return 1.0 if step % 2 else 2

    x = image("float64", (99,))
    wanted = x
    for step in range(11):
        wanted = driven(wanted, 1.0 if step % 2 else 2)
    same(driven.iterate(x, amplitude, steps=11), (wanted,))
    assert asked == list(range(11))


def test_scalars_of_changing_type_are_not_cut_to_the_first():
    x = image("float64", (99,))
    wanted = x
    for step in range(9):
        wanted = driven(wanted, 0 if step < 6 else 0.5)
    same(driven.iterate(x, lambda step: 0 if step < 6 else 0.5, steps=9), (wanted,))


@npt.stencil(boundary="nearest")
def scaled(x, k):
    return k * x[0]


@npt.stencil(boundary="nearest")
def of_two(u, a=1.0, b=1.0):
    left = scaled(u, a)
    right = scaled(u, b)
    return left[-1] + right[1]


@npt.stencil(boundary="nearest")
def walled(u, r=1.0):
    inside = scaled(u, 0.5, boundary="constant", cval=r)
    beside = driven(u, boundary="constant", cval=r)
    return inside[-1] + beside[1]


@pytest.mark.parametrize(
    ("step", "given"),
    [
        (of_two, {"a": [0.5, 0.5, 0.25, 0.5], "b": [0.5, 0.25, 0.25, 0.125]}),
        (walled, {"r": [1.0, 2.0, 3.0, 0.5]}),
    ],
    ids=["equal in some steps", "in an option"],
)
def test_numbers_of_calls_inside_differ_from_step_to_step(step, given):
    x = image("float64", (99,))
    wanted = x
    for k in range(4):
        wanted = step(wanted, **{name: values[k] for name, values in given.items()})
    same(step.iterate(x, steps=4, **given), (wanted,))


def test_coefficient_arrays_are_named_in_standard_indexing():
    @npt.stencil(boundary="wrap", standard_indexing="w", schedule=FOUR)
    def weighted(u, w):
        return (u[-1] * w[0] + u[0] * w[1] + u[1] * w[2]) / 4

    x, w = image("float64", (99,)), np.array([1.0, 2.0, 1.0])
    same(weighted.iterate(x, w, steps=9), one_by_one(weighted, x, steps=9, rest=(w,)))


# Looking on.


@pytest.mark.parametrize(("every", "wanted"), [(None, [9]), (4, [4, 8, 9]), (1, range(1, 10))])
def test_callback(every, wanted):
    x = image()
    kept = {}
    made = heat.iterate(x, steps=9, every=every, callback=kept.__setitem__)
    assert list(kept) == list(wanted)
    # What was kept is not written to by later steps.
    for step, state in kept.items():
        same(state, one_by_one(heat, x, steps=step))
    same(made, (kept[9],))


def test_callback_ends_the_iteration():
    made = heat.iterate(image(), steps=100, every=3, callback=lambda step, u: step >= 6)
    same(made, one_by_one(heat, image(), steps=6))


def test_callback_may_change_the_state():
    def source(step, u):
        u[20, 20] += step

    x = image()
    wanted = x
    for step in range(1, 6):
        wanted = heat(wanted)
        wanted[20, 20] += step
    same(heat.iterate(x, steps=5, every=1, callback=source), (wanted,))


@pytest.mark.parametrize("every", [None, 4])
def test_until(every):
    x = image("float64", (40,))
    seen = []

    def look(step, u):
        seen.append((step, u))

    made = driven.iterate(x, steps=10_000, until=0.01, every=every, callback=look)
    step, last = seen[-1]
    assert step % (every or 1) == 0
    assert step < 10_000
    same(made, (last,))
    before = one_by_one(driven, x, steps=step - 1)[0]
    assert np.abs(last - before).max() <= 0.01
    if every is None:
        assert np.abs(before - one_by_one(driven, x, steps=step - 2)[0]).max() > 0.01


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool"])
def test_until_on_integers_does_not_overflow(dtype):
    info = np.iinfo(dtype) if dtype != "bool" else np.iinfo("uint8")
    x = np.array([info.min, info.max] * 4).astype(dtype)

    @npt.stencil(boundary="wrap")
    def turn(x):
        return x[1]

    looked = []
    turn.iterate(x, steps=3, until=0.5, callback=lambda step, u: looked.append(step))
    assert looked == [1, 2, 3]


def test_until_with_infinities_and_nan():
    x = np.array([np.inf, np.inf, np.inf, np.inf])

    @npt.stencil(boundary="wrap")
    def turn(x):
        return x[1] + 0

    assert (turn.iterate(x, steps=3, until=0) == np.inf).all()
    looked = []
    x[1] = np.nan
    turn.iterate(x, steps=3, until=1e9, callback=lambda step, u: looked.append(step))
    assert looked == [1, 2, 3]


def test_progress():
    told = []
    heat.iterate(image(), steps=10, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (10, 10)
    assert [done for done, _ in told] == [4, 8, 9, 10]


def test_progress_on_a_terminal(capsys):
    heat.iterate(image(), steps=10, progress=True)
    assert "steps" in capsys.readouterr().err
    # A program sees nothing by default, however long it takes.
    heat.iterate(image(), steps=10)
    assert capsys.readouterr().err == ""


# Other arrays.


def test_dask_in_any_chunks():
    x = image(shape=(3, 41, 53))
    wanted = one_by_one(heat, x, steps=5, boundary="mirror")
    for chunks in ((1, 41, 53), (3, 41, 53), (2, 20, 9), (3, 1, 53)):
        made = heat.iterate(da.from_array(x, chunks=chunks), steps=5, boundary="mirror")
        same(made.compute(), wanted)


def test_dask_with_callback_and_until():
    x = image("float64", (40,))
    seen = []
    lazy = da.from_array(x, chunks=20)
    made = driven.iterate(lazy, steps=50, until=2, callback=lambda step, u: seen.append(step))
    same(made.compute(), one_by_one(driven, x, steps=seen[-1]))


def test_dask_goes_on_from_the_state_at_a_look():
    x = image("float64", (40,))
    made = []
    lazy = da.from_array(x, chunks=20).map_blocks(lambda b: made.append(1) or b, meta=x[:0])
    with dask.config.set(scheduler="sync"):
        got = driven.iterate(lazy, steps=9, every=2, until=0, callback=lambda step, u: step > 7)
        assert len(made) == lazy.npartitions
        same(got.compute(), one_by_one(driven, x, steps=8))
        assert len(made) == lazy.npartitions


def test_dask_ends_graphs_that_would_grow_for_ever(limited):
    limited(later_tasks=8)
    limited(later_steps=2)
    x = image("float64", (40,))
    with dask.config.set(scheduler="sync"):
        made = driven.iterate(da.from_array(x, chunks=20), steps=200)
    # On groups of thin chunks an exchange has three layers.
    assert len(made.dask.layers) < 9
    same(made.compute(), one_by_one(driven, x, steps=200))


def test_several_states_in_dask():
    u, speed = image("float64"), image("float64", seed=1) / 400
    lazy = [da.from_array(a, chunks=(41, 27)) for a in (u, u, speed)]
    made = wave.iterate(*lazy, steps=6)
    same(tuple(np.asarray(a) for a in made), one_by_one(wave, u, u, steps=6, rest=(speed,)))
    # No step: the states, and no more than the states.
    assert len(wave.iterate(*lazy, steps=0)) == 2


@npt.stencil(boundary="wrap")
def driven_by(u, v, k):
    s = k[1, 0] - k[0, 0]
    return u[0, 1] - 2 * u[0, 0] + u[0, -1] + s, v[1, 0] + u[0, 0]


@pytest.mark.parametrize("chunks", [None, 9])
def test_xarray_in_other_orders(chunks):
    a, b, c = (image("float64", (20, 30), seed=k) for k in range(3))
    u = xr.DataArray(a, dims=("y", "x"), coords={"x": np.arange(30)}, name="u")
    v = xr.DataArray(b, dims=("y", "x")).transpose("x", "y")
    k = xr.DataArray(np.stack([c, c + 1]), dims=("t", "y", "x")).transpose("x", "t", "y")
    seen = []
    one, two, more = (x if chunks is None else x.chunk(chunks) for x in (u, v, k))
    found = driven_by.iterate(
        one, two, more, steps=9, every=4, callback=lambda *at: seen.append(at)
    )
    wanted = driven_by.iterate(a, b, np.stack([c, c + 1]), steps=9)
    for got, want in zip(found, wanted, strict=True):
        assert got.dims == ("y", "x", "t")
        assert got.chunks is None or chunks is not None
        np.testing.assert_array_equal(got.transpose("t", "y", "x").values, want)
        np.testing.assert_array_equal(got.x, u.x)
    assert [step for step, *_ in seen] == [4, 8, 9]
    xr.testing.assert_identical(seen[-1][1].compute(), found[0].compute())
    assert all(state.dims == ("y", "x", "t") for _, *states in seen for state in states)
    assert driven_by.iterate(u, v, k, steps=0)[1].dims == ("x", "y")


# Mistakes.


@pytest.mark.parametrize("wrapped", [np.asarray, lambda x: da.from_array(x, chunks=20)])
def test_the_result_must_be_the_next_state(wrapped):
    with pytest.raises(ValueError, match=r"gives float64 for a state of int64.*astype"):
        heat.iterate(wrapped(image("int64")), steps=3)
    with pytest.raises(ValueError, match="smaller at each step"):
        heat.iterate(wrapped(image()), steps=3, boundary="valid")

    @npt.stencil(boundary="valid")
    def inner(u):
        return u[-1, 0] + u[1, 0]

    @npt.stencil(boundary="nearest", dtype="float64")
    def narrows(u):
        s = inner(u)
        return s[0, 0] + s[1, 0]

    with pytest.raises(
        ValueError, match=r'\(42, 36\) after a step, and \(44, 36\) before.*"valid"'
    ):
        narrows.iterate(wrapped(image("float64", (44, 36))), steps=2)

    @npt.stencil
    def two(u):
        return u[0, 0], u[0, 1]

    with pytest.raises(ValueError, match="2 outputs and 1 fields"):
        two.iterate(wrapped(image()), steps=3)


def test_too_few_values():
    with pytest.raises(ValueError, match="'amplitude' has 3 values, but there are 4 steps"):
        driven.iterate(image("float64", (99,)), [1.0, 2.0, 3.0], steps=4)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="do not broadcast"):
        wave.iterate(image("float64"), image("float64"), np.zeros((3, 4)), steps=2)
    with pytest.raises(TypeError, match="masked"):
        heat.iterate(np.ma.masked_array(image()), steps=2)


# What it costs.


@pytest.mark.parametrize("steps", [8, 80])
@pytest.mark.parametrize("schedule", [FOUR, ONE], ids=["chained", "single"])
def test_two_states_are_held_however_many_steps(steps, schedule):
    stencil = npt.stencil(boundary="keep", schedule=schedule)(heat.__wrapped__)
    x = np.zeros((1000, 1000), "float32")
    x[::100, ::100] = 1  # which goes on spreading
    stencil.iterate(x, steps=8, threads=1)  # compiled, and imported
    tracemalloc.start()
    try:
        stencil.iterate(x, steps=steps, threads=1, until=0, every=8)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The ends take 2 * 4 * 9 rows and columns, the comparison 1 MB.
    assert most < 2 * x.nbytes + 2_500_000


@pytest.mark.parametrize("steps", [0, 1, 2, 11])
@pytest.mark.parametrize("boundary", ["keep", "wrap"])
def test_out_takes_the_last_state(steps, boundary):
    x = image()
    wanted = heat.iterate(x, steps=steps, boundary=boundary)
    out = np.empty_like(x)
    assert heat.iterate(x, steps=steps, boundary=boundary, out=out) is out
    same(out, (wanted,))
    same(image(), (x,))
    # The input itself, a view that overlaps it, and one that is not contiguous.
    own = x.copy()
    assert heat.iterate(own, steps=steps, boundary=boundary, out=own) is own
    same(own, (wanted,))
    long = np.concatenate([x, x])
    heat.iterate(long[:41], steps=steps, boundary=boundary, out=long[5:46])
    same(long[5:46], (wanted,))
    wide = np.zeros((41, 106), "float32")
    heat.iterate(x, steps=steps, boundary=boundary, out=wide[:, ::2])
    same(wide[:, ::2], (wanted,))


def test_out_of_several_states_with_fields_that_stay():
    u, before, speed = image(seed=1), image(seed=2), image(seed=3) / 100
    wanted = wave.iterate(u, before, speed, steps=6)
    made = wave.iterate(u, before, speed, steps=6, out=(u, before))
    assert made[0] is u
    assert made[1] is before
    same(made, wanted)
    again = heat.iterate(speed, steps=5)
    same(heat.iterate(speed, steps=5, out=speed), (again,))


def test_out_beside_a_callback():
    x, seen = image(), []
    wanted = heat.iterate(x, steps=7)
    out = np.empty_like(x)
    heat.iterate(x, steps=7, out=out, callback=lambda step, u: seen.append(u), every=2)
    same(out, (wanted,))
    assert not any(one is out for one in seen)


def test_out_is_checked():
    x = image()
    with pytest.raises(ValueError, match="shape"):
        heat.iterate(x, steps=2, out=np.empty((3, 3), "float32"))
    with pytest.raises(TypeError, match="dtype"):
        heat.iterate(x, steps=2, out=np.empty(x.shape, "int32"))
    with pytest.raises(TypeError, match="NumPy"):
        heat.iterate(da.from_array(x), steps=2, out=x)


def test_no_steps_take_an_empty_list_of_whole_numbers():
    masked = npt.stencil(lambda u, k: u[0] & k)
    u = np.arange(5)
    np.testing.assert_array_equal(masked.iterate(u, [], steps=0), u)


def test_states_that_lie_otherwise_in_memory():
    u, before, speed = image(), image(seed=1), image("float32", seed=2) / np.float32(1000)
    wanted = wave.iterate(u, before, speed, steps=9)
    gaps = np.zeros((41, 106), "float32")
    gaps[:, ::2] = u
    record = np.zeros((41, 53), [("x", "u1"), ("y", "float32")])
    record["y"] = u
    for one in (
        np.asfortranarray(u),
        gaps[:, ::2],
        u[::-1].copy()[::-1],
        u.astype(">f4"),
        record["y"],
    ):
        held = one.tobytes()
        same(wave.iterate(one, before.T.copy().T, speed[:, ::-1].copy()[:, ::-1], steps=9), wanted)
        assert one.tobytes() == held
    turned = np.asfortranarray(u), np.asfortranarray(before)
    assert wave.iterate(*turned, speed, steps=9, out=turned) is not None
    same(turned, wanted)


@pytest.mark.parametrize("steps", only(1, [33, 9]))
def test_many_steps_of_an_array_that_no_cache_holds(steps):
    eager = npt.stencil(boundary="keep")(heat.__wrapped__)
    x = image(shape=(1500, 1500))
    same(eager.iterate(x, steps=steps), one_by_one(eager, x, steps=steps))


def test_steps_of_float_windows_in_one_pass_give_the_bits_of_calls(tmp_path, monkeypatch):
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))

    @npt.stencil(boundary="nearest", schedule=Schedule(steps=3))
    def averaged(x):
        return x[-1:2, -1:2].mean()

    @npt.stencil(boundary="nearest", schedule=Schedule(steps=3))
    def added(x):
        return x[-2:3, -1:2].sum() / 16

    for kernel in (averaged, added):
        state = np.random.default_rng(0).random((40, 53), dtype="float32")
        found = kernel.iterate(state, steps=3)
        for _ in range(3):
            state = kernel(state)
        np.testing.assert_array_equal(found, state)
        # Besides that of a call there is a kernel of three steps.
        assert len(list(tmp_path.glob(f"{kernel.__name__}_*.o"))) == 2
