"""Options mean the same however a kernel is called; what `out=` overwrites is computed before."""

import gc

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import refuses, same
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


def identical(found, wanted):
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
            identical(outcome(WAYS[way], x, OPTIONS[option]), wanted)


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
            same(call(), wanted)


def test_axes_of_a_stage_of_fewer_or_more_axes():
    rest = npt.stencil(lambda u, s: u[0, 1] * s[-1, 0], boundary="reflect")
    x = da.from_array(FILM, chunks=4)
    for axes in (None, (0, 1), (2, 0)):
        order = (-2, -1) if axes is None else axes
        wanted = rest(FILM, line(FILM, axes=order[-1:]), axes=order)
        same(of_lines(FILM, FILM, axes=axes), wanted)
        same(of_lines(x, x, axes=axes).compute(scheduler="sync"), wanted)
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
    identical(found.compute(), wanted)


def test_dims_out_and_threads_of_lazy_calls():
    x = TARGETS["xarray"](FILM)
    wanted = kernel(kernel(x, dims=("t", "x"), boundary="valid"), dims=("y", "t"))
    found = kernel(kernel(npt.lazy(x), dims=("t", "x"), boundary="valid"), dims=("y", "t"))
    assert (found.shape, found.dims) == (wanted.shape, wanted.dims)
    identical(found.compute(), wanted)
    out = fits()
    recorded = edges(npt.lazy(FILM))
    assert kernel(recorded, out=out) is out
    # It was never stored by itself.
    assert "computed" not in repr(recorded)
    same(out, kernel(edges(FILM)).astype("int64"))
    refuses(ValueError, "threads=0 is less than 1", kernel, npt.lazy(FILM), threads=0)
    same(kernel(npt.lazy(FILM), threads=1).compute(), kernel(FILM))


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


TABLE = np.arange(4.0)
k = npt.stencil(lambda x: x[-1] + x[0] + x[1], boundary="nearest")
both = npt.stencil(lambda x: (x[-1] - x[1], x[0] + x[1]), boundary="nearest")
heat = npt.stencil(lambda u: u[0] + 0.25 * (u[-1] - 2 * u[0] + u[1]), boundary="nearest")
looked = npt.stencil(lambda x: TABLE[int(x[0])], boundary="nearest", performance_warnings=False)
weighted = npt.stencil(
    lambda x, w: w[0] * x[-1] + w[1] * x[1], boundary="nearest", standard_indexing="w"
)
doubled = npt.ufunc(lambda x: 2.0 * x)


@npt.gufunc("(n)->(n)")
def into(x, out):
    out[:] = x + 1


def fresh():
    return np.random.default_rng(1).random(12)


def spare():
    return np.zeros(12)


USES = {
    "sum": lambda x: x.sum(),
    "mean along an axis": lambda x: x.mean(axis=0),
    "numpy.max": np.max,
    "numpy.mean": np.mean,
    "astype": lambda x: x.astype("float32"),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(),
    "reshape": lambda x: x.reshape(2, -1),
    "arithmetic": lambda x: 2 * x - x,
    "comparison": lambda x: (x > 1) & (x != 3),
    "index": lambda x: x[1:5:2],
    "item": lambda x: x[3:4].item(),
    "size": lambda x: (x.size, x.nbytes, len(x), x.ndim),
    "numbers": lambda x: (bool(x[:1]), float(x[1]), int(x[2])),
}


@pytest.mark.parametrize("name", USES)
def test_lazy_values_have_what_arrays_have(name):
    x = fresh()
    for given in (x, xr.DataArray(x, dims="x")):
        if name != "reshape" or given is x:
            wanted = USES[name](k(given))
            np.testing.assert_array_equal(USES[name](k(npt.lazy(given))), wanted)
    chunked = USES["sum"](k(npt.lazy(da.from_array(x, chunks=5))))
    assert isinstance(chunked, da.Array)


def test_what_lazy_values_lack_is_said_with_a_cure():
    y = k(npt.lazy(fresh()))
    assert {"sum", "T", "compute"} <= set(dir(y))
    for use, error, words in (
        (lambda: y.rolling(x=3), AttributeError, r"has no 'rolling'; .* x\.compute\(\)\.rolling"),
        (lambda: y.sort(), AttributeError, "has no 'sort'; compute it first"),
        (lambda: y.__setitem__(0, 1.0), TypeError, "cannot be written to; compute it first"),
        (lambda: bool(y), ValueError, "ambiguous"),
    ):
        refuses(error, words, use)


def test_lazy_values_are_saved(tmp_path):
    x = np.random.default_rng(1).integers(0, 255, (2, 9, 8), "uint8")
    wanted = npt.filters.median(x)
    for given in (x, da.from_array(x, chunks=(1, 9, 8))):
        y = npt.filters.median(npt.lazy(given))
        npt.save(y, tmp_path / "y.npy", overwrite=True)
        same(np.load(tmp_path / "y.npy"), wanted)
        npt.imsave(y, tmp_path / "{:02}.png", overwrite=True)
        same(npt.imread(tmp_path / "*.png").compute(), wanted)


# All that writes to an array that the user gave.
WRITERS = {
    "stencil": lambda a, y: k(a, out=a),
    "lazy": lambda a, y: k(npt.lazy(a), out=a),
    "of itself": lambda a, y: k(y, out=a),
    "several": lambda a, y: both(spare(), out=(spare(), a)),
    "another": lambda a, y: k(spare(), out=a),
    "a part": lambda a, y: k(spare()[:3], out=a[3:6]),
    "strided": lambda a, y: k(spare()[::2], out=a[::2]),
    "ufunc": lambda a, y: doubled(a, out=a),
    "ufunc of a number": lambda a, y: doubled(3.0, out=a[4:5].reshape(())),
    "gufunc": lambda a, y: into(a, out=a),
    "gufunc by position": lambda a, y: into(spare(), a),
    "filter": lambda a, y: npt.filters.median(spare(), 3, out=a),
    "filter of it": lambda a, y: npt.filters.gaussian(a, 1.0, out=a),
    "iterate": lambda a, y: heat.iterate(a, steps=5, out=a),
    "no step": lambda a, y: heat.iterate(spare(), steps=0, out=a),
    "NumPy on it": lambda a, y: np.add(npt.lazy(spare()), 1, out=a),
    "float32": lambda a, y: k(spare(), out=a.view("float32")[:12]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_wanted_is_computed_before_it_is_overwritten(name):
    for source in (lambda a: a, lambda a: a[::-1], xr.DataArray):
        a = fresh()
        for _ in range(2):
            # The second time calls are prepared.
            a[:] = fresh()
            x = source(a)
            wanted = np.asarray(k(k(np.array(x)))), np.asarray(k(np.array(x)))
            y = k(npt.lazy(x))
            z = k(y)
            if name != "of itself" or isinstance(x, np.ndarray):
                WRITERS[name](a, y)
            same((z, y), wanted)


def test_results_by_position_again_and_again_and_of_out_itself():
    """What was remembered of the first call took the result for an input."""
    for _ in range(4):
        out = spare()
        into(spare(), out)
        assert (out == 1).all()
    a = fresh()
    wanted = k(k(a))
    y = k(npt.lazy(a))
    same(k(y, out=a), wanted)
    same((a, y), (wanted, k(fresh())))


def test_only_what_is_wanted_and_overwritten_is_computed():
    a, b = fresh(), fresh()
    of_a, of_b, of_none = k(npt.lazy(a)), k(npt.lazy(b)), k(k(npt.lazy(a)))
    of_none = None
    gc.collect()
    assert of_none is None
    k(spare(), out=a)
    assert "computed" in repr(of_a)
    assert "computed" not in repr(of_b)
    # What lies between its elements and beside them is no part of a view.
    left, right = b[:6], b[6:]
    of_left = k(npt.lazy(left))
    k(spare()[:6], out=right)
    assert "computed" not in repr(of_left)
    assert "computed" in repr(of_b)


def test_an_error_of_what_is_recorded_comes_before_anything_is_written():
    a = np.full(12, 9.0)
    y = looked(npt.lazy(a))
    refuses(IndexError, "", k, spare(), out=a)
    assert (a == 9).all()
    del y
    k(spare(), out=a)
    assert not a.any()


def test_what_counts_when_arrays_are_changed_by_the_program():
    x, w, wall = fresh().reshape(3, 4), np.array([1.0, 2.0]), np.arange(3.0)
    flow = npt.stencil(lambda u: u[0, -1] + u[0, 1])
    for given, value in ((npt.lazy(x), wall), (da.from_array(x, chunks=(2, 2)), 2.0)):
        # Arrays beside the fields: as they were at the call.
        w[:], wall[:] = (1, 2), (0, 1, 2)
        # Beside chunks the values of a border are numbers.
        sides = ("nearest", (npt.dirichlet(value), "nearest"))
        wanted = weighted(x, w), flow(x, boundary=sides)
        recorded = weighted(given, w), flow(given, boundary=sides)
        w[:], wall[:] = 7, 7
        same(recorded, wanted)
    # Fields: as they are when it is computed.
    y = k(npt.lazy(x))
    x[:] = 1
    same(y, np.full((3, 4), 3.0))
