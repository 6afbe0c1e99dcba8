"""`out=` takes arrays of other dtypes where NumPy would round, and none that would wrap."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest

import ninepoint as npt

RNG = np.random.default_rng(0)
FILM = RNG.random((5, 40, 30)) * 1e3
KEEP = (("keep", "mirror"), ("fill", "nearest"))


@npt.stencil
def alike(x):
    return x[0, 0]


@npt.stencil(boundary="nearest")
def kernel(x):
    return x[-1, 2] / 3 + x[0, 1]


@npt.stencil(boundary="nearest")
def staged(x):
    s = alike(x)
    return s[-1, 2] / 3 + s[0, 1]


@npt.stencil(boundary="nearest")
def two(x):
    return x[-1, 2] / 3, x[0, 1]


@npt.stencil(boundary="nearest")
def two_staged(x):
    s = alike(x)
    return s[-1, 2] / 3, s[0, 1]


def lazily(x, **options):
    return kernel(alike(npt.lazy(x)), **options)


WAYS = {"single": kernel, "staged": staged, "lazy": lazily}
OPTIONS = {
    "none": {},
    "valid": {"boundary": "valid"},
    "keep and fill": {"boundary": KEEP, "cval": 0.1},
    "constant": {"boundary": "constant", "cval": 1 / 3},
    "axes": {"axes": (2, 0)},
    "threads": {"threads": 2},
}


def layouts(shape, dtype):
    """Arrays to write to: as they come, transposed, with gaps, in another order of bytes."""
    wide = np.empty([2 * n for n in shape], dtype)
    return [
        np.empty(shape, dtype),
        np.empty(shape[::-1], dtype).T,
        wide[tuple(slice(None, None, 2) for _ in shape)],
        np.empty(shape, np.dtype(dtype).newbyteorder()),
    ]


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("way", WAYS)
def test_floats_are_rounded_once(way, option):
    """To each of three types, in turn."""
    turn = list(OPTIONS).index(option) + list(WAYS).index(way)
    dtype = ("float32", "float16", "longdouble")[turn % 3]
    wanted = WAYS[way](FILM, **OPTIONS[option])
    wanted = np.asarray(wanted).astype(dtype)
    for out in layouts(wanted.shape, dtype):
        # More than once: calls that come again are prepared.
        for _ in range(2):
            out.fill(1)
            assert WAYS[way](FILM, out=out, **OPTIONS[option]) is out
            np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("call", [two, two_staged])
def test_each_of_several_outputs_has_its_own_dtype(call):
    first, second = call(FILM)
    outs = np.empty(first.shape, "float32"), np.empty(second.shape, "float64")
    made = call(FILM, out=outs)
    assert made[0] is outs[0]
    assert made[1] is outs[1]
    np.testing.assert_array_equal(outs[0], first.astype("float32"))
    np.testing.assert_array_equal(outs[1], second)


@pytest.mark.parametrize("call", [kernel, staged])
@pytest.mark.parametrize("field", ["float64", "int16", "uint8"])
def test_an_out_of_another_dtype_may_overlap_the_field(call, field):
    room = np.zeros(FILM.size * 2)
    x = room.view(field)[: FILM.size].reshape(FILM.shape)
    x[...] = FILM.astype(field)
    wanted = call(x.copy()).astype("float32")
    out = room.view("float32")[3 : FILM.size + 3].reshape(FILM.shape)
    assert call(x, out=out) is out
    np.testing.assert_array_equal(out, wanted)


def test_a_large_array_is_rounded_by_every_thread():
    x = RNG.random((900, 1100))
    out = np.empty(x.shape, "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(kernel(x, out=out, threads=2), kernel(x).astype("float32"))
        x *= 1e300
        wanted = np.where(kernel(x) > 3.5e38, np.inf, 0).astype("float32")
        np.testing.assert_array_equal(np.where(np.isinf(kernel(x, out=out)), np.inf, 0), wanted)


@pytest.mark.parametrize("call", [kernel, staged])
def test_iterate_rounds_the_last_state_only(call):
    wanted = call.iterate(FILM, steps=5).astype("float32")
    out = np.empty(FILM.shape, "float32")
    assert call.iterate(FILM, steps=5, out=out) is out
    np.testing.assert_array_equal(out, wanted)
    assert call.iterate(FILM, steps=0, out=out) is out
    np.testing.assert_array_equal(out, FILM.astype("float32"))


def test_filters_and_stacks_of_tiny_images():
    tiny = RNG.random((7, 300, 6, 5))[:, ::2]
    for x in (FILM, tiny):
        out = np.empty(x.shape, "float32")
        wanted = npt.filters.gaussian(x, 1).astype("float32")
        np.testing.assert_array_equal(npt.filters.gaussian(x, 1, out=out), wanted)


INTEGERS = ["int8", "uint8", "int32", "uint64", "bool"]


@pytest.mark.parametrize("way", [alike, npt.filters.maximum])
@pytest.mark.parametrize("field", ["uint8", "int32", "bool", "float32", "complex64"])
def test_what_is_taken(way, field):
    if way is npt.filters.maximum and field == "complex64":
        return
    x = (FILM[0] % 2).astype(field)
    options = {"size": 3} if way is npt.filters.maximum else {}
    wanted = way(x, **options)
    for dtype in [*INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]:
        out = np.zeros(x.shape, dtype)
        whole = out.dtype.kind in "biu"
        taken = np.can_cast(wanted.dtype, dtype, "safe" if whole else "same_kind")
        if taken:
            np.testing.assert_array_equal(way(x, out=out, **options), wanted.astype(dtype))
            continue
        with pytest.raises(TypeError, match=f"out has dtype {dtype}, but the result has {field}"):
            way(x, out=out, **options)
        assert not out.any()


def test_an_out_of_no_numbers_is_refused():
    for dtype in ("U3", "M8[s]", object, "V8"):
        with pytest.raises(TypeError, match="but the result has float64; give an array of"):
            kernel(FILM, out=np.empty(FILM.shape, dtype))


def test_dask_refuses_it_as_before():
    with pytest.raises(TypeError, match="out= is for NumPy arrays"):
        kernel(da.from_array(FILM), out=np.empty(FILM.shape, "float32"))


@npt.stencil
def turned(x, y):
    return 2 * x[0, 1] + y[1, -1] - y[-3, 0], y[0, 1] - x[-1, 0]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rule", ["nearest", "reflect", "wrap", "constant", "keep"])
def test_results_take_the_place_of_fields(rule, threads):
    options = {"boundary": rule, "threads": threads}
    for shape in [(7, 11), (61, 13), (2, 43, 9)]:
        x, y = RNG.random((2, *shape))
        for fields, out in [("xy", "xy"), ("xy", "yx"), ("xx", "xz"), ("xy", "zx")]:
            wanted = turned(*({"x": x, "y": y}[name] for name in fields), **options)
            # More than once: calls that come again are prepared.
            for _ in range(2):
                now = {"x": x.copy(), "y": y.copy(), "z": np.empty_like(x)}
                made = tuple(now[name] for name in out)
                turned(*(now[name] for name in fields), **options, out=made)
                np.testing.assert_array_equal(made, wanted)
