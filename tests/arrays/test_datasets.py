"""Datasets of xarray are mapped variable by variable, where the dimensions are there."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import ninepoint as npt


@npt.stencil(boundary="nearest")
def smooth(u, by=0.25):
    return by * (u[-1, 0] + u[1, 0]) + u[0, 1]


@npt.stencil(boundary="nearest")
def staged(u, by=0.25):
    s = smooth(u, by)
    return s[0, 0]


@npt.stencil(boundary="nearest")
def slopes(u, k):
    return u[1, 0] - u[0, 0] * k[0, 0], u[0, 1] - u[0, 0]


def weather(chunked=False):
    rng = np.random.default_rng(0)
    data = xr.Dataset(
        {
            "temperature": (("t", "lat", "lon"), rng.random((3, 5, 6)), {"units": "K"}),
            "height": (("lat", "lon"), rng.integers(0, 900, (5, 6)).astype("int16")),
            "station": (("t",), np.array(["a", "b", "c"])),
            "level": ((), 7),
        },
        coords={"lat": np.arange(5.0), "lon": 10 * np.arange(6.0), "t": [1, 2, 3]},
        attrs={"source": "here"},
    )
    return data.chunk(lat=2) if chunked else data


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("options", [{}, {"dims": ("lon", "lat")}, {"boundary": "wrap"}])
@pytest.mark.parametrize("kernel", [smooth, staged])
def test_each_variable_that_has_the_dimensions(kernel, options, chunked):
    data = weather(chunked)
    found = kernel(data, 0.5, **options)
    assert isinstance(found, xr.Dataset)
    assert list(found.data_vars) == list(data.data_vars)
    assert found.attrs == data.attrs
    for name in ("temperature", "height"):
        xr.testing.assert_identical(
            found[name].compute(), kernel(data[name], 0.5, **options).compute()
        )
        assert (found[name].chunks is None) != chunked
    for name in ("station", "level", "lat", "lon", "t"):
        xr.testing.assert_identical(found[name], data[name])


def test_several_datasets_and_results():
    data, k = weather(), xr.DataArray(np.arange(5.0), dims="lat", coords={"lat": np.arange(5.0)})
    down, across = slopes(data, k)
    for name in ("temperature", "height"):
        one, two = slopes(data[name], k)
        xr.testing.assert_identical(down[name], one)
        xr.testing.assert_identical(across[name], two)
    both, _ = slopes(data, data)
    xr.testing.assert_identical(both["height"], slopes(data["height"], data["height"])[0])
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


def test_filters_of_datasets():
    data = weather()
    found = npt.filters.gaussian(data, 0.7, dims=("lat", "lon"))
    for name in ("temperature", "height"):
        wanted = npt.filters.gaussian(data[name], 0.7, dims=("lat", "lon"))
        xr.testing.assert_identical(found[name], wanted)
    xr.testing.assert_identical(npt.filters.median(data, 3, dims="t")["height"], data["height"])
    with pytest.raises(TypeError, match="needs to know which dimensions; give dims="):
        npt.filters.median(data, 3)
