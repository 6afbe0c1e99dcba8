"""`every=`: the result is that of the call without it, of which points are left out."""

import pickle

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from compared import same

RNG = np.random.default_rng(3)
FILM = RNG.integers(0, 200, (2, 7, 10)).astype("uint8")


@npt.stencil(boundary="reflect")
def smooth(x):
    return x[-1:2, -1:2].mean()


@npt.stencil(every=(2, 3), boundary="reflect")
def thin(x):
    return x[-1:2, -1:2].mean()


alike = npt.stencil(lambda x: 3 * x[-3, 0] - x[2, -2] + x[0:2, 0:3].max())


@npt.stencil(boundary="wrap")
def pyramid(x):
    half = smooth(x, every=2)
    low = smooth(half, every=(2, 1))
    return low[0, 0], low[0, 1] - low[-1, 0]


def of_pyramid(x):
    low = smooth(smooth(x)[..., ::2, ::2])[..., ::2, :]
    return low, np.roll(low, -1, -1) - np.roll(low, 1, -2)


@pytest.mark.parametrize("shape", [(7, 10), (2, 8, 9), (1, 1), (2, 3), (0, 5), (5, 0)])
def test_the_result_is_a_part_of_the_full_one(shape):
    """As random programs compare it, in stages too."""
    x = RNG.normal(size=shape)
    for _ in range(3):
        same(thin(x), smooth(x)[..., ::2, ::3])
        same(smooth(x, every=(1, 4)), smooth(x)[..., ::4])
        same(pyramid(x), of_pyramid(x))
        x = -x
    out = np.empty(thin(x).shape, "float32")
    assert thin(x, out=out) is out
    same(out, pickle.loads(pickle.dumps(thin))(x).astype("float32"))
    lazy = da.from_array(x, chunks=3 if x.size else -1)
    same(da.compute(*pyramid(lazy), scheduler="sync"), of_pyramid(x))


def test_lazy_values_along_axes_in_another_order():
    x = RNG.integers(0, 99, (13, 11)).astype("int16")
    low = smooth(smooth(npt.lazy(x), axes=(1, 0), every=(3, 2)), axes=(1, 0))
    same(low, smooth(np.ascontiguousarray(smooth(x)[::2, ::3]), axes=(1, 0)))


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
        low = smooth(smooth(npt.lazy(field), every=2), every=(2, 1)).compute().compute()
        assert low.y.values.tolist() == [0.0, 4.0]
        assert low.x.values.tolist() == [0, 4, 8, 12, 16]
        same(low.values, of_pyramid(FILM)[0])


def test_what_is_smaller_does_not_go_with_what_is_not():
    @npt.stencil
    def mixed(x):
        half = smooth(x, every=2)
        return half[0, 0] + x[0, 0]

    for field in (FILM, da.from_array(FILM), npt.lazy(FILM)):
        with pytest.raises(ValueError, match=r"'smooth' makes 'half' smaller by every=2; give"):
            mixed(field)
    with pytest.raises(ValueError, match=r"every=\(2, 3\) of 'thin' makes the state smaller"):
        thin.iterate(FILM.astype(float), steps=2)
    with pytest.raises(ValueError, match="every=2 of 'smooth' makes the state smaller"):
        pyramid.iterate(np.ones((1, 1)), steps=2)


def test_a_wrong_every_is_refused_in_the_decorator_too():
    # As those of calls, which are on the page of messages about options.
    with pytest.raises(ValueError, match="has 3 entries, but the stencil has 2 axes"):
        npt.stencil(every=(2, 2, 2))(lambda x: x[0, 0])(FILM)
    assert "every       (2, 3): one of 6 points is made" in thin.explain("uint8")
    assert "border 'reflect', every (2, 1)" in pyramid.explain("float32")


@pytest.mark.parametrize(
    ("border", "every"), [("constant", (3, 3)), (("keep", ("valid", "fill")), (1, 4))], ids=str
)
def test_large_images_have_their_ends_apart(border, every):
    x = RNG.integers(0, 99, (301, 410)).astype("float32")
    for cut in (x, x[:150, 1:], x.T):
        wanted = alike(cut, boundary=border)[:: every[0], :: every[1]]
        for threads in (1, 2):
            same(alike(cut, boundary=border, every=every, threads=threads), wanted)


@pytest.mark.parametrize("border", ["keep", "valid"])
def test_stacks_that_lie_innermost(border):
    colours = np.moveaxis(FILM, 0, -1).copy()
    wanted = alike(colours, axes=(0, 1), boundary=border)
    for down, along in [(2, 1), (3, 2)]:
        options = {"axes": (0, 1), "every": (down, along), "boundary": border}
        part = wanted[::down, ::along]
        for _ in range(2):
            same(alike(colours, **options), part)
        out = np.empty_like(part)
        assert alike(colours, **options, out=out) is out
        same(out, part)


def test_a_step_that_no_integer_of_64_bits_holds():
    """Such a number stood in the text that Numba was given."""
    same(smooth(FILM, every=10**30), smooth(FILM)[..., :1, :1])
    same(smooth(da.from_array(FILM, (1, 4, 4)), every=(1, 2**63)), smooth(FILM)[..., :1])
