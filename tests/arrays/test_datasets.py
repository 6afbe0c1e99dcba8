"""Datasets of xarray, mapped variable by variable, the accessor `npt`, and what files keep."""

from functools import partial

import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
import ninepoint.xarray

smooth = npt.stencil(lambda u, by=0.25: by * (u[-1, 0] + u[1, 0]) + u[0, 1], boundary="nearest")
staged = npt.stencil(lambda u, by=0.25: smooth(u, by)[0, 0], boundary="nearest")


@npt.stencil(boundary="nearest")
def slopes(u, k):
    return u[1, 0] - u[0, 0] * k[0, 0], u[0, 1] - u[0, 0]


product = npt.ufunc(lambda a, b: a * b)


def weather():
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {
            "temperature": (("t", "lat", "lon"), rng.random((3, 5, 6)), {"units": "K"}),
            "height": (("lat", "lon"), rng.integers(0, 900, (5, 6)).astype("int16")),
            "station": (("t",), np.array(["a", "b", "c"])),
            "level": ((), 7),
        },
        coords={"lat": np.arange(5.0), "lon": 10 * np.arange(6.0), "t": [1, 2, 3]},
        attrs={"source": "here"},
    )


@pytest.mark.parametrize("options", [{}, {"dims": ("lon", "lat"), "boundary": "wrap"}])
def test_each_variable_that_has_the_dimensions(options):
    data = weather()
    gaussian = partial(npt.filters.gaussian, dims=("lat", "lon"))
    for kernel in (smooth, staged, gaussian):
        wanted = data.assign(
            {name: kernel(data[name], 0.5, **options) for name in ("temperature", "height")}
        )
        xr.testing.assert_identical(kernel(data, 0.5, **options), wanted)
        lazy = kernel(data.chunk(lat=2), 0.5, **options)
        assert lazy.temperature.chunks is not None
        xr.testing.assert_identical(lazy.compute(), wanted)


def test_several_datasets_and_results():
    data, k = weather(), xr.DataArray(np.arange(5.0), dims="lat", coords={"lat": np.arange(5.0)})
    for given in (k, data):
        made = slopes(data, given)
        for name in ("temperature", "height"):
            other = given if given is k else given[name]
            for got, want in zip(made, slopes(data[name], other), strict=True):
                xr.testing.assert_identical(got[name], want)
    with pytest.raises(ValueError, match="the dataset given for 'k' has no variable 'height'"):
        slopes(data, data.drop_vars("height"))


def test_a_border_that_makes_variables_smaller():
    data = weather()
    found = smooth(data, boundary="valid")
    assert dict(found.sizes) == {"t": 3, "lat": 3, "lon": 5}
    xr.testing.assert_identical(found["height"], smooth(data["height"], boundary="valid"))
    xr.testing.assert_identical(found["station"], data["station"])
    with pytest.raises(ValueError, match="but 'width' of the dataset would stay"):
        smooth(data.assign(width=("lat", np.arange(5.0))), boundary="valid")


def test_map_is_a_call():
    data = weather()
    q, k, options = data.temperature, 3.0, {"dims": ("lon", "t"), "boundary": "wrap"}
    for one in (q, data.chunk(lat=1)):
        made, wanted = one.npt.map(smooth, k, **options), smooth(one, k, **options)
        xr.testing.assert_identical(made.compute(), wanted.compute())
    xr.testing.assert_identical(q.npt.map(product, q), product(q, q))
    mean = npt.filters.mean
    xr.testing.assert_identical(q.npt.map(mean, 3, dims="t"), mean(q, 3, dims="t"))
    with pytest.raises(TypeError, match=r"mean is none of it; decorate it with @ninepoint.sten"):
        q.npt.map(np.mean)
    with pytest.raises(ValueError, match="dimension 'depth' does not exist"):
        q.npt.map(smooth, dims=("depth", "lon"))
    with pytest.raises(ValueError, match="no variable of the dataset has the dimensions 'depth'"):
        data.npt.map(smooth, dims=("depth", "lon"))


def test_how_it_is_stored_is_kept_and_how_numbers_are_packed_is_not():
    y = xr.DataArray(np.arange(3), dims="y", attrs={"units": "m"})
    y.encoding = {"dtype": "int8"}
    field = xr.DataArray(np.arange(24.0).reshape(2, 3, 4), {"y": y}, ("t", "y", "x"), name="q")
    layout = {"zlib": True, "grid_mapping": "crs"}
    field.encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -1, "source": "a.nc"}
    field.encoding |= {"chunks": (1, 3, 4), **layout}
    for found in (smooth(field), smooth(field.to_dataset()).q):
        assert found.encoding == {"chunks": (1, 3, 4), **layout}
        assert found.y.encoding == {"dtype": "int8"}
        assert found.y.attrs == {"units": "m"}
    assert smooth(field, boundary="valid").encoding == layout


def test_a_tree_is_mapped_by_xarray():
    data = weather()
    tree = xr.DataTree.from_dict({"/fine": data, "/coarse/2": data.isel(lon=slice(None, None, 2))})
    words = r"'u' is a xarray.DataTree; .* u.map_over_datasets\(lambda"
    with pytest.raises(TypeError, match=words):
        smooth(tree)
    found = tree.map_over_datasets(lambda data: smooth(data) if data.data_vars else data)
    coarse = smooth(data.temperature[..., ::2])
    xr.testing.assert_identical(found["coarse/2"].to_dataset().temperature, coarse)
