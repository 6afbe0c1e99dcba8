"""Options mean the same however a kernel is called: by itself, with stages or lazily."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import refuses
from compared import same as equal
from options import FILM, OPTIONS, fits, kernel

alike = npt.stencil(lambda x: x[0, 0])


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


def test_what_looks_inside_refuses_options_as_calls_do():
    for one in (kernel, staged):
        for look in (one.explain, one.bench, one.debug):
            refuses(TypeError, "use axes= here", look, FILM, dims=("y", "x"))


@npt.stencil(boundary="constant", cval=5)
def edges(k):
    return k[-1, 0] + k[0, 1] - 2 * k[0, 0]


line = npt.stencil(lambda k: k[-1] + 3 * k[1], boundary="nearest")
of_fewer = npt.stencil(lambda u, k: u[0, 1] * edges(k)[-1, 0] + k[0, 0], boundary="reflect")
after = npt.stencil(lambda u, s, k: u[0, 1] * s[-1, 0] + k[0, 0], boundary="reflect")
of_lines = npt.stencil(lambda u, k: u[0, 1] * line(k)[-1, 0], boundary="reflect")
row = npt.stencil(lambda u: edges(u)[1])


@pytest.mark.parametrize("axes", [None, (2, 1), (0, 2), (-1, 0)])
def test_axes_of_fields_of_fewer_axes(axes):
    order = (-2, -1) if axes is None else tuple(a if a < 0 else a - 3 for a in axes)
    for shape in [(8, 9), (9,), (8, 1), (7, 1, 1)]:
        k = np.random.default_rng(1).integers(0, 9, shape).astype("int32")
        u, cut = da.from_array(FILM, chunks=(3, 4, 5)), da.from_array(k, chunks=2)
        calls = [
            lambda k=k: of_fewer.debug(FILM, k, axes=axes),
            lambda k=k: of_fewer(FILM, k, axes=axes, out=fits()),
            lambda k=k: of_fewer(npt.lazy(FILM), k, axes=axes).compute(),
            lambda k=k, u=u: of_fewer(u, k, axes=axes).compute(scheduler="sync"),
            lambda cut=cut: of_fewer(FILM, cut, axes=axes).compute(scheduler="sync"),
        ]
        if len(shape) < -min(order):
            for call in calls:
                refuses(ValueError, f"at least {-min(order)} dimension", call)
            continue
        # A stage is what the call gives by itself, for a field that has the axes.
        wanted = after(FILM, edges(k, axes=order), k, axes=order)
        for call in (lambda k=k: of_fewer(FILM, k, axes=axes), *calls):
            equal(call(), wanted)


def test_axes_of_a_stage_of_fewer_or_more_axes():
    rest = npt.stencil(lambda u, s: u[0, 1] * s[-1, 0], boundary="reflect")
    x = da.from_array(FILM, chunks=4)
    for axes in (None, (0, 1), (2, 0)):
        order = (-2, -1) if axes is None else axes
        wanted = rest(FILM, line(FILM, axes=order[-1:]), axes=order)
        equal(of_lines(FILM, FILM, axes=axes), wanted)
        equal(of_lines(x, x, axes=axes).compute(scheduler="sync"), wanted)
    for one in (FILM, x):
        refuses(ValueError, "names 1 axes, but the stage 'edges'", row, one, axes=0)


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
    assert (found.shape, found.dims) == (wanted.shape, wanted.dims)
    same(found.compute(), wanted)


def test_out_and_threads_of_a_lazy_call():
    out = fits()
    recorded = edges(npt.lazy(FILM))
    assert kernel(recorded, out=out) is out
    # It was never stored by itself.
    assert "computed" not in repr(recorded)
    equal(out, kernel(edges(FILM)).astype("int64"))
    refuses(ValueError, "threads=0 is less than 1", kernel, npt.lazy(FILM), threads=0)
    equal(kernel(npt.lazy(FILM), threads=1).compute(), kernel(FILM))


two_of = npt.stencil(lambda x, y: (x[0, 0] + y[0, 1], y[0, 0]), boundary="keep")
two_staged = npt.stencil(lambda x, y: (alike(x)[0, 0] + y[0, 1], y[0, 0]), boundary="keep")
WIDE = FILM.astype("int64")
OVERLAPS = [((0, 0, 0), 1), ((576, 0, 8), 1), ((8 * 70, 8 * 8, 8), 1), ((8 * 72, 8 * 8, 8), -1)]


@pytest.mark.parametrize(("strides", "turn"), OVERLAPS)
def test_outs_that_overlap_are_refused(strides, turn):
    out = np.lib.stride_tricks.as_strided(np.zeros(4000, "int64"), (7, 8, 9), strides)
    out = out[:, ::turn, ::turn]
    room = np.empty((8, 8, 9), "int64")
    for call in (
        lambda: kernel(FILM, out=out),
        lambda: staged(FILM, out=out),
        lambda: kernel(npt.lazy(FILM), out=out),
        lambda: npt.filters.mean(WIDE, 3, out=out),
        lambda: two_of.iterate(WIDE, WIDE, steps=2, out=(out, fits())),
        lambda: two_staged.iterate(WIDE, WIDE, steps=2, out=(fits(), out)),
    ):
        refuses(ValueError, "elements of out share memory", call)
    for one, other in ((room[:7], room[1:]), (room[1:], room[7:0:-1])):
        for two in (two_of, two_staged):
            with pytest.raises(ValueError, match="two of the arrays in out share memory"):
                two(WIDE, WIDE, out=(one, other))
