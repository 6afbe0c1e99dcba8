"""Options mean the same however a kernel is called: by itself, with stages or lazily."""

from __future__ import annotations

import itertools

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from nightly import only
from options import FILM, OPTIONS, fits, kernel


@npt.stencil
def alike(x):
    return x[0, 0]


@npt.stencil(boundary="nearest")
def staged(x, by=2):
    s = alike(x)
    return by * s[-1, 0] + s[0, 1] - s[0, 0] // 2


# Everything that reads `x`: the rule of the kernel's border holds for the stage as for the field.
WAYS = {
    "single": kernel,
    "staged": staged,
    "lazy": lambda x, /, *args, **options: computed(kernel(npt.lazy(x), *args, **options)),
    "lazy staged": lambda x, /, *args, **options: computed(staged(npt.lazy(x), *args, **options)),
}
TARGETS = {
    "numpy": lambda x: x,
    "dask": lambda x: da.from_array(x, chunks=(3, 4, 5)),
    "xarray": lambda x: xr.DataArray(x, dims=("t", "y", "x"), coords={"y": np.arange(8.0)}),
    "xarray of dask": lambda x: xr.DataArray(
        da.from_array(x, chunks=(3, 4, 5)), dims=("t", "y", "x"), coords={"y": np.arange(8.0)}
    ),
}


def computed(value):
    assert isinstance(value, npt.Lazy | np.ndarray)
    return value.compute() if isinstance(value, npt.Lazy) else value


def outcome(call, x, options):
    """What a call gives, or how it is refused."""
    given = options()
    try:
        found = call(x, **given)
    except (TypeError, ValueError) as error:
        return type(error), str(error).replace("staged", "kernel")
    if isinstance(given.get("out"), np.ndarray):
        assert found is given["out"]
    return found


def same(found, wanted):
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        assert found == wanted
        return
    assert type(found) is type(wanted)
    assert found.dtype == wanted.dtype
    if isinstance(found, xr.DataArray):
        xr.testing.assert_identical(found.compute(), wanted.compute())
        assert (found.chunks is None) == (wanted.chunks is None)
    else:
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("option", OPTIONS)
def test_every_way_takes_or_refuses_an_option_alike(option):
    first, *others = WAYS
    for number, target in enumerate(TARGETS.values(), list(OPTIONS).index(option)):
        x = target(FILM)
        wanted = outcome(WAYS[first], x, OPTIONS[option])
        # All of them on NumPy's arrays, and on others one in turn.
        for way in others if x is FILM else [others[number % len(others)]]:
            same(outcome(WAYS[way], x, OPTIONS[option]), wanted)


# Fields of fewer axes.


@pytest.mark.parametrize("option", ["dtype", "overflow", "axes", "dims"])
def test_iterate_says_which_options_only_calls_have(option):
    for one in (kernel, staged):
        with pytest.raises(TypeError, match=f"'{option}=' is an option of calls only"):
            one.iterate(FILM, steps=1, **{option: None})


def test_what_looks_inside_refuses_options_as_calls_do():
    for one in (kernel, staged):
        for look in (one, one.explain, one.bench, one.debug):
            with pytest.raises(TypeError, match="use axes= here"):
                look(FILM, dims=("y", "x"))
            with pytest.raises(TypeError, match="cval must be a number, not 'a'"):
                look(FILM, boundary="fill", cval="a")


@npt.stencil(boundary="constant", cval=5)
def edges(k):
    return k[-1, 0] + k[0, 1] - 2 * k[0, 0]


@npt.stencil(boundary="nearest")
def line(k):
    return k[-1] + 3 * k[1]


@npt.stencil(boundary="reflect")
def of_fewer(u, k):
    s = edges(k)
    return u[0, 1] * s[-1, 0] + k[0, 0]


@npt.stencil(boundary="reflect")
def after(u, s, k):
    return u[0, 1] * s[-1, 0] + k[0, 0]


@npt.stencil(boundary="reflect")
def of_lines(u, k):
    s = line(k)
    return u[0, 1] * s[-1, 0]


@pytest.mark.parametrize(
    ("axes", "shape"),
    only(6, itertools.product([None, (2, 1), (0, 2), (-1, 0)], [(8, 9), (9,), (8, 1), (7, 1, 1)])),
)
def test_axes_of_fields_of_fewer_axes(axes, shape):
    k = np.random.default_rng(1).integers(0, 9, shape).astype("int32")
    order = (-2, -1) if axes is None else tuple(a if a < 0 else a - 3 for a in axes)
    if len(shape) < -min(order):
        u, cut = da.from_array(FILM, chunks=4), da.from_array(k, chunks=2)
        for call in (
            lambda: of_fewer(FILM, k, axes=axes),
            lambda: of_fewer.debug(FILM, k, axes=axes),
            lambda: of_fewer(u, cut, axes=axes),
            lambda: of_fewer(npt.lazy(FILM), k, axes=axes).compute(),
        ):
            with pytest.raises(ValueError, match=f"at least {-min(order)} dimension"):
                call()
        return
    found = of_fewer(FILM, k, axes=axes)
    # A stage is what the call gives by itself, for a field that has the axes.
    stage = edges(k, axes=order)
    np.testing.assert_array_equal(found, after(FILM, stage, k, axes=order))
    np.testing.assert_array_equal(found, of_fewer.debug(FILM, k, axes=axes))
    out = np.empty_like(found)
    assert of_fewer(FILM, k, axes=axes, out=out) is out
    np.testing.assert_array_equal(out, found)
    for chunks in (FILM.shape, (3, 4, 5)):
        u, lazy = da.from_array(FILM, chunks=chunks), da.from_array(k, chunks=2)
        for one, other in ((u, lazy), (u, k), (FILM, lazy)):
            made = of_fewer(one, other, axes=axes)
            assert isinstance(made, da.Array)
            np.testing.assert_array_equal(made.compute(scheduler="sync"), found)
    recorded = of_fewer(npt.lazy(FILM), k, axes=axes)
    assert isinstance(recorded, npt.Lazy)
    assert recorded.shape == found.shape
    np.testing.assert_array_equal(recorded.compute(), found)


@pytest.mark.parametrize("axes", [None, (0, 1), (2, 0)])
def test_axes_of_a_stage_of_fewer_axes(axes):
    found = of_lines(FILM, FILM, axes=axes)
    order = (-2, -1) if axes is None else axes
    stage = line(FILM, axes=order[-1:])

    @npt.stencil(boundary="reflect")
    def rest(u, s):
        return u[0, 1] * s[-1, 0]

    np.testing.assert_array_equal(found, rest(FILM, stage, axes=order))
    x = da.from_array(FILM, chunks=4)
    np.testing.assert_array_equal(of_lines(x, x, axes=axes).compute(scheduler="sync"), found)


def test_a_stage_of_more_axes_than_the_call_names():
    @npt.stencil
    def row(u):
        s = edges(u)
        return s[1]

    x = FILM.astype("float32")
    for one in (x, da.from_array(x, chunks=4)):
        with pytest.raises(ValueError, match="names 1 axes, but the stage 'edges'"):
            row(one, axes=0)


@pytest.mark.parametrize("swapped", [False, True])
def test_dims_of_fields_of_fewer_dimensions(swapped):
    u = xr.DataArray(FILM, dims=("t", "y", "x"))
    k = xr.DataArray(FILM[0].astype("int32"), dims=("y", "x"))
    k = k.transpose("x", "y") if swapped else k
    found = of_fewer(u, k, dims=("t", "x"))
    whole = k.expand_dims(t=7).transpose("t", "y", "x")
    stage = edges(whole, dims=("t", "x"))
    xr.testing.assert_identical(found, after(u, stage, whole, dims=("t", "x")))
    made = of_fewer(u.chunk(t=3, x=4), k.chunk(x=5), dims=("t", "x"))
    xr.testing.assert_identical(made.compute(scheduler="sync"), found)


# Lazy values.


def test_calls_with_axes_stay_lazy_and_are_done_in_one_pass():
    x = np.random.default_rng(0).random((12, 13, 14)).astype("float32")
    smooth = npt.filters.gaussian(npt.lazy(x), 0.5, axes=(0, 1, 2))
    found = npt.filters.laplace(smooth, axes=(0, 1, 2))
    assert isinstance(found, npt.Lazy)
    assert found.shape == x.shape
    wanted = npt.filters.laplace(npt.filters.gaussian(x, 0.5, axes=(0, 1, 2)), axes=(0, 1, 2))
    np.testing.assert_array_equal(found.compute(), wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_lazy_calls_along_several_axes(target):
    x = TARGETS[target](FILM)
    first, second = {"axes": (0, 1), "boundary": "valid"}, {"axes": (-1, 0)}
    wanted = kernel(kernel(kernel(x, **first), **second))
    found = kernel(kernel(kernel(npt.lazy(x), **first), **second))
    assert isinstance(found, npt.Lazy)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    same(found.compute(), wanted)


def test_lazy_calls_along_named_dimensions():
    x = TARGETS["xarray"](FILM)
    wanted = kernel(kernel(x, dims=("t", "x"), boundary="valid"), dims=("y", "t"))
    found = kernel(kernel(npt.lazy(x), dims=("t", "x"), boundary="valid"), dims=("y", "t"))
    assert isinstance(found, npt.Lazy)
    assert (found.shape, found.dims) == (wanted.shape, wanted.dims)
    same(found.compute(), wanted)
    line_ = xr.DataArray(np.arange(9.0), dims="x")
    other = npt.lazy(line_)
    same(after(other, x, x, dims=("t", "x")).compute(), after(line_, x, x, dims=("t", "x")))


def test_out_of_a_lazy_call_takes_the_calls_before_with_it():
    x = np.random.default_rng(0).integers(0, 9, (30, 40)).astype("int32")
    out = np.empty((30, 40), "int64")
    recorded = edges(npt.lazy(x))
    assert kernel(recorded, out=out) is out
    # It was never stored by itself.
    assert "computed" not in repr(recorded)
    np.testing.assert_array_equal(out, kernel(edges(x)))


def test_threads_of_a_lazy_call_hold_when_it_is_done():
    with pytest.raises(ValueError, match="threads=0 is less than 1"):
        kernel(npt.lazy(FILM), threads=0)
    np.testing.assert_array_equal(kernel(npt.lazy(FILM), threads=1).compute(), kernel(FILM))


# Outputs and steps.


@npt.stencil(boundary="keep")
def two_of(x, y):
    return x[0, 0] + y[0, 1], y[0, 0]


@npt.stencil(boundary="keep")
def two_staged(x, y):
    s = alike(x)
    return s[0, 0] + y[0, 1], y[0, 0]


def shapes_that_overlap():
    room = np.zeros(4000, "int64")
    strided = np.lib.stride_tricks.as_strided
    return {
        "one element": strided(room, (7, 8, 9), (0, 0, 0)),
        "rows alike": strided(room, (7, 8, 9), (576, 0, 8)),
        "columns alike": strided(room, (7, 8, 9), (72, 8, 0)),
        "sliding": strided(room, (7, 8, 9), (8 * 70, 8 * 8, 8)),
        "backwards": strided(room, (7, 8, 9), (8 * 72, 8 * 8, 8))[:, ::-1, ::-1],
    }


WIDE = FILM.astype("int64")
OVERLAPS = shapes_that_overlap()


@pytest.mark.parametrize("kind", OVERLAPS)
@pytest.mark.parametrize(
    "call",
    [
        lambda out: kernel(FILM, out=out),
        lambda out: staged(FILM, out=out),
        lambda out: kernel(npt.lazy(FILM), out=out),
        lambda out: npt.filters.mean(WIDE, 3, out=out),
        lambda out: two_of.iterate(WIDE, WIDE, steps=2, out=(out, fits())),
        lambda out: two_staged.iterate(WIDE, WIDE, steps=2, out=(fits(), out)),
    ],
)  # fmt: skip
def test_out_that_overlaps_itself_is_refused(kind, call):
    with pytest.raises(ValueError, match="elements of out share memory"):
        call(OVERLAPS[kind])


@pytest.mark.parametrize("two", [two_of, two_staged])
def test_outs_that_overlap_each_other_are_refused(two):
    x = FILM.astype("int64")
    room = np.empty((8, 8, 9), "int64")
    for pair in ((room[:7], room[:7]), (room[:7], room[1:]), (room[1:], room[7:0:-1])):
        for call in (
            lambda out: two(x, x, out=out),
            lambda out: two(npt.lazy(x), x, out=out),
            lambda out: two.iterate(x, x, steps=1, out=out),
        ):
            with pytest.raises(ValueError, match="two of the arrays in out share memory"):
                call(pair)


def test_outs_of_any_order_are_taken():
    wanted = kernel(FILM)
    for out in (
        np.empty((9, 8, 7), "int64").T,
        np.empty((7, 16, 27), "int64")[:, ::2, ::3],
        np.empty((8, 7, 9), "int64").transpose(1, 0, 2)[::-1, :, ::-1],
    ):
        for call in (kernel, staged):
            np.testing.assert_array_equal(call(FILM, out=out), wanted)


@npt.stencil(boundary="keep")
def step(x, by=0.5):
    return by * x[0, 0] + x[0, 1]


@npt.stencil(boundary="keep")
def step_staged(x, by=0.5):
    s = alike(x)
    return by * s[0, 0] + s[0, 1]


WRONG_STEPS = [
    ({"until": "a"}, TypeError, "until='a' must be a number"),
    ({"until": True}, TypeError, "until=True must be a number"),
    ({"until": [1.0]}, TypeError, "must be a number"),
    ({"until": -1}, ValueError, "until=-1 must be 0 or more"),
    ({"until": float("nan")}, ValueError, "until=nan must be 0 or more"),
    ({"callback": 5}, TypeError, "callback=5 must be a function"),
    ({"progress": "yes"}, TypeError, "progress='yes' must be True, False or a function"),
    ({"progress": 1}, TypeError, "progress=1 must be True"),
    ({"every": 0}, ValueError, "every=0 must be a whole number, 1 or more"),
    ({"every": 1.0}, ValueError, "every=1.0 must be a whole number"),
    ({"every": True}, ValueError, "every=True must be a whole number"),
    ({"steps": -1}, ValueError, "steps=-1 must be a whole number, 0 or more"),
    ({"steps": 2.0}, ValueError, "steps=2.0 must be a whole number"),
    ({"steps": True}, ValueError, "steps=True must be a whole number"),
    ({"steps": "2"}, ValueError, "steps='2' must be a whole number"),
    ({"threads": 0}, ValueError, "threads=0 is less than 1"),
    ({"threads": "two"}, TypeError, "threads must be a whole number"),
    ({"boundary": "valid"}, ValueError, "makes the state smaller"),
    ({"boundary": "reflekt"}, ValueError, "reflekt"),
    ({"axes": (0, 1)}, TypeError, "'axes=' is an option of calls"),
    ({"dims": ("t", "x")}, TypeError, "'dims=' is an option of calls"),
    ({"dtype": "float32"}, TypeError, "'dtype=' is an option of calls"),
]


@pytest.mark.parametrize(("options", "error", "words"), WRONG_STEPS)
def test_wrong_steps_are_refused_before_the_first(options, error, words):
    for target in TARGETS.values():
        x = target(FILM.astype("float64"))
        seen = []
        given = {"steps": 3, "callback": lambda k, *_, s=seen: s.append(k), "every": 1} | options
        for kind in (step, step_staged):
            with pytest.raises(error, match=words):
                kind.iterate(x, **given)
        assert not seen


@pytest.mark.parametrize("target", ["dask", "xarray", "xarray of dask"])
@pytest.mark.parametrize("kind", [step, step_staged])
def test_iterate_refuses_out_for_other_arrays(kind, target):
    x = TARGETS[target](FILM.astype("float64"))
    with pytest.raises(TypeError, match="out= is for NumPy arrays"):
        kind.iterate(x, steps=1, out=np.empty(FILM.shape))


# The same call through every path.


@npt.stencil(boundary=("mirror", ("fill", "reflect")), cval=2)
def mixed(x, a, b=3, *, c=0.25):
    return a * x[-1, 2] + b * x[1, 0] - c


@npt.stencil(boundary="wrap")
def mixed_staged(x, a, b=3, *, c=0.25):
    s = alike(x)
    return a * s[-1, 2] + b * s[1, 0] - c


@npt.stencil(boundary="reflect")
def window(x, a, b=3, *, c=0.25):
    return a * x[-1:2, -1:2].mean() + b * np.median(x[-1:2, 0]) - c


@npt.stencil(boundary="nearest", neighborhood=((-1, 1), (0, 0)))
def general(x, a, b=3, *, c=0.25):
    total = 0.0
    k = -1
    while k < 2:
        total += a * x[k, 0]
        k += 1
    return total * b - c


@npt.stencil(boundary="constant", cval=1, dtype="float32")
def narrow(x, a, b=3, *, c=0.25):
    return a * x[0, -2] + b * x[0, 1] - c


@npt.stencil(boundary="keep")
def kept(x, a, b=3, *, c=0.25):
    return a * x[0, -2] + b * x[0, 1] - c


CALLS = [mixed, mixed_staged, window, general, narrow, kept]
VALUES = [
    (2, 3, 0.25), (0.5, 3, 0.25), (np.float32(0.1), 3, 0.25), (True, 3, 0.25), (2, -7, 1.5),
    ("a", 3, 0.25), (None, 3, 0.25), (2**70, 3, 0.25), (np.datetime64("2020"), 3, 0.25),
]  # fmt: skip


@pytest.mark.parametrize(("one", "values"), only(27, itertools.product(CALLS, VALUES)), ids=str)
def test_the_same_call_through_every_path(one, values):
    a, b, c = values
    x = (
        np.random.default_rng(3)
        .random((11, 12))
        .astype("float32" if one in (narrow,) else "float64")
    )
    lazy = da.from_array(x, chunks=5)

    def into():
        out = np.empty(x.shape, "float32" if one is narrow else "float64")
        return one(x, a, b, c=c, out=out)

    paths = {
        "in place": lambda: one(x, a, b, c=c),
        "again": lambda: one(x, a, b, c=c),
        "by name": lambda: one(x=x, a=a, b=b, c=c),
        "by name in another order": lambda: one(c=c, b=b, a=a, x=x),
        "lazy": lambda: one(npt.lazy(x), a, b, c=c).compute(),
        "a view": lambda: one(np.asfortranarray(x), a, b, c=c),
        "a stack": lambda: one(np.stack([x, x]), a, b, c=c)[1],
        "axes": lambda: one(x, a, b, c=c, axes=(0, 1)),
        "axes moved": lambda: one(x.T, a, b, c=c, axes=(1, 0)).T,
        "one thread": lambda: one(x, a, b, c=c, threads=1),
        "out": into,
        "a step": lambda: one.iterate(x, a, b, c=c, steps=1),
        "Dask": lambda: one(lazy, a, b, c=c).compute(scheduler="sync"),
        "Dask by name": lambda: one(x=lazy, a=a, b=b, c=c).compute(scheduler="sync"),
        "a step of Dask": lambda: one.iterate(lazy, a, b, c=c, steps=1).compute(scheduler="sync"),
        "xarray": lambda: one(xr.DataArray(x), a, b, c=c).values,
    }
    found = {}
    for name, path in paths.items():
        try:
            found[name] = path()
        except (TypeError, ValueError) as error:
            found[name] = type(error), str(error)
    wanted = found.pop("in place")
    for name, made in found.items():
        if isinstance(wanted, tuple) or isinstance(made, tuple):
            assert made == wanted, name
        else:
            assert made.dtype == wanted.dtype, name
            np.testing.assert_array_equal(made, wanted, err_msg=name)
