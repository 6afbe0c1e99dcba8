"""`every=`: the result is that of the call without it, of which points are left out."""

from __future__ import annotations

import pickle
from itertools import product

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt

RNG = np.random.default_rng(3)
FILM = RNG.integers(0, 200, (2, 7, 10)).astype("uint8")
SHAPES = [(7, 10), (2, 8, 9), (1, 1), (2, 3), (0, 5), (5, 0)]


@npt.stencil(boundary="reflect")
def smooth(x):
    return x[-1:2, -1:2].mean()


@npt.stencil(every=(2, 3), boundary="reflect")
def thin(x):
    return x[-1:2, -1:2].mean()


@npt.stencil
def several(x, y, by=2):
    return by * x[-1, 0] + y[0, 2], x[1, 1] - y[0, 0]


@npt.stencil(boundary="wrap")
def pyramid(x):
    half = smooth(x, every=2)
    low = smooth(half, every=(2, 1))
    return low[0, 0], low[0, 1] - low[-1, 0]


def of_pyramid(x):
    low = smooth(smooth(x)[..., ::2, ::2])[..., ::2, :]
    return low, np.roll(low, -1, -1) - np.roll(low, 1, -2)


def same(made, wanted):
    pairs = zip(made, wanted, strict=True) if isinstance(wanted, tuple) else [(made, wanted)]
    for one, other in pairs:
        one = np.asarray(one)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_result_is_a_part_of_the_full_one(shape):
    x = RNG.normal(size=shape)
    full = smooth(x)
    for _ in range(3):
        same(thin(x), full[..., ::2, ::3])
        same(smooth(x, every=1), full)
        same(smooth(x, every=(1, 4)), full[..., ::4])
        same(pyramid(x), of_pyramid(x))
        x, full = -x, -full
    np.testing.assert_allclose(thin.debug(x), thin(x))
    same(pickle.loads(pickle.dumps(thin))(x), thin(x))
    out = np.empty(thin(x).shape, "float32")
    assert thin(x, out=out) is out
    same(out, thin(x).astype("float32"))


@pytest.mark.parametrize("border", ["fill", "keep", "valid", (("valid", "keep"), "mirror")])
@pytest.mark.parametrize("every", [2, (3, 1), (4, 2)])
def test_every_result_has_its_own_first_point(border, every):
    steps = (every,) * 2 if isinstance(every, int) else every
    index = (..., *(slice(None, None, step) for step in steps))
    x, y = FILM.astype("int64"), FILM[:1] + np.int64(9)
    wanted = tuple(one[index] for one in several(x, y, boundary=border))
    for _ in range(2):
        same(several(x, y, boundary=border, every=every), wanted)
    same(several.debug(x, y, boundary=border, every=every), wanted)
    same(several(npt.lazy(x), y, boundary=border, every=every)[1].compute(), wanted[1])
    cut = da.from_array(x, chunks=(1, 3, 4))
    made = da.compute(*several(cut, y, boundary=border, every=every), scheduler="sync")
    same(made, wanted)


@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, -2)])
def test_axes(axes):
    index = [slice(None)] * 3
    index[axes[0]], index[axes[1]] = slice(None, None, 3), slice(None, None, 2)
    full = smooth(FILM, axes=axes)
    for _ in range(2):
        same(smooth(FILM, axes=axes, every=(3, 2)), full[tuple(index)])
    low = smooth(smooth(npt.lazy(FILM), axes=axes, every=(3, 2)), axes=axes)
    for _ in range(2):
        same(low.compute(), smooth(np.ascontiguousarray(full[tuple(index)]), axes=axes))


@pytest.mark.parametrize("chunks", list(product((1, 3, 20), (2, 7))))
def test_chunks_of_any_size(chunks):
    x = RNG.integers(0, 99, (13, 11)).astype("int16")
    lazy = da.from_array(x, chunks=chunks)
    same(thin(lazy).compute(scheduler="sync"), thin(x))
    same(thin(lazy, boundary="valid").compute(scheduler="sync"), thin(x, boundary="valid"))
    same(da.compute(*pyramid(lazy), scheduler="sync"), of_pyramid(x))
    same(smooth(thin(lazy)[::-1]).compute(scheduler="sync"), smooth(thin(x)[::-1]))


def test_labels_are_those_of_the_points():
    image = xr.DataArray(
        FILM,
        dims=("t", "y", "x"),
        coords={"y": np.arange(7.0), "x": np.arange(10) * 2, "name": ("y", list("abcdefg"))},
        attrs={"units": "K"},
        name="t2m",
    )
    for field in (image, image.chunk({"y": 3, "x": 4})):
        wanted = smooth(image).isel(y=slice(None, None, 2), x=slice(None, None, 3))
        xr.testing.assert_identical(thin(field).compute(), wanted)
        wanted = smooth(image, boundary="valid").isel(y=slice(None, None, 3))
        made = smooth(field, boundary="valid", every=(3, 1))
        xr.testing.assert_identical(made.compute(), wanted)
        with pytest.raises(ValueError, match="every= or upsample= inside a kernel moves"):
            pyramid(field)
        first = smooth(npt.lazy(field), every=2)
        low = smooth(first, every=(2, 1)).compute().compute()
        assert low.y.values.tolist() == [0.0, 4.0]
        assert low.x.values.tolist() == [0, 4, 8, 12, 16]
        same(low.values, of_pyramid(FILM)[0])


@pytest.mark.parametrize("name", ["mean", "median", "gaussian", "sobel", "maximum", "laplace"])
def test_filters(name):
    given = {"size": 3} if name in ("mean", "median", "maximum") else {}
    given |= {"sigma": 1} if name == "gaussian" else {}
    filter = getattr(npt.filters, name)
    for _ in range(2):
        same(filter(FILM, every=(2, 3), **given), filter(FILM, **given)[..., ::2, ::3])


def test_what_is_smaller_does_not_go_with_what_is_not():
    @npt.stencil
    def mixed(x):
        half = smooth(x, every=2)
        return half[0, 0] + x[0, 0]

    for field in (FILM, da.from_array(FILM), npt.lazy(FILM)):
        with pytest.raises(ValueError, match=r"'smooth' makes 'half' smaller by every=2; give"):
            mixed(field)


def test_states_do_not_shrink():
    with pytest.raises(ValueError, match=r"every=\(2, 3\) of 'thin' makes the state smaller"):
        thin.iterate(FILM.astype(float), steps=2)
    with pytest.raises(ValueError, match="every=2 of 'smooth' makes the state smaller"):
        pyramid.iterate(np.ones((1, 1)), steps=2)


# Others are on the page of messages about options.
@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ((2, -1), ValueError, r"every=\(2, -1\): -1 is less than 1"),
        (True, TypeError, "every=True: True is no whole number"),
        ((2, 2, 2), ValueError, "has 3 entries, but the stencil has 2 axes"),
    ],
)
def test_mistakes(given, kind, words):
    for call in (thin, npt.filters.mean, npt.stencil(lambda x: x[0, 0])):
        for field in (FILM, da.from_array(FILM), npt.lazy(FILM)):
            with pytest.raises(kind, match=words):
                call(field, every=given)
    with pytest.raises(kind, match=words):
        npt.stencil(every=given)(lambda x: x[0, 0])(FILM)


def test_explain_says_which_points_are_made():
    assert "every       (2, 3): one of 6 points is made" in thin.explain("uint8")
    assert "border 'reflect', every (2, 1)" in pyramid.explain("float32")


@pytest.mark.parametrize("border", ["constant", ("keep", ("valid", "fill"))])
@pytest.mark.parametrize("every", [3, (1, 4), (4, 1)])
def test_large_images_have_their_ends_apart(border, every):
    x = RNG.integers(0, 99, (301, 410)).astype("float32")
    steps = (every,) * 2 if isinstance(every, int) else every
    for cut in (x, x[:-1, :-1], x[:150, 1:], x.T):
        wanted = alike(cut, boundary=border)[:: steps[0], :: steps[1]]
        for threads in (1, 2, 1):
            same(alike(cut, boundary=border, every=every, threads=threads), wanted)


@npt.stencil
def alike(x):
    return 3 * x[-3, 0] - x[2, -2] + x[0:2, 0:3].max()


@pytest.mark.parametrize("border", ["keep", "valid"])
def test_rows_of_lanes_are_made_where_they_are_wanted(border):
    colours = np.moveaxis(FILM, 0, -1).copy()
    wanted = alike(colours, axes=(0, 1), boundary=border)
    for every in [(2, 1), (3, 2)]:
        for _ in range(2):
            made = alike(colours, axes=(0, 1), every=every, boundary=border)
            same(made, wanted[:: every[0], :: every[1]])


@pytest.mark.parametrize("every", [2, (1, 3)])
def test_stacks_that_lie_innermost(every):
    steps = (every,) * 2 if isinstance(every, int) else every
    colours = np.moveaxis(FILM, 0, -1).copy()
    wanted = smooth(colours, axes=(0, 1))[:: steps[0], :: steps[1]]
    for _ in range(2):
        same(smooth(colours, axes=(0, 1), every=every), wanted)
    out = np.empty_like(wanted)
    assert smooth(colours, axes=(0, 1), every=every, out=out) is out
    same(out, wanted)


def test_a_step_that_no_integer_of_64_bits_holds():
    """Such a number stood in the text that Numba was given."""
    same(smooth(FILM, every=10**30), smooth(FILM)[..., :1, :1])
    same(smooth(da.from_array(FILM, (1, 4, 4)), every=(1, 2**63)), smooth(FILM)[..., :1])
