"""The accessor of xarray objects, what is kept of how they are stored, and trees of datasets."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt

xr = pytest.importorskip("xarray")

import ninepoint.xarray  # noqa: E402


@npt.stencil(boundary="nearest")
def slope(u, k=2.0):
    return k * u[0, 1] - u[1, 0]


@npt.ufunc
def product(a, b):
    return a * b


def field():
    y = xr.DataArray(np.arange(3), dims="y", attrs={"units": "m"})
    y.encoding = {"dtype": "int8"}
    made = xr.DataArray(
        np.arange(24.0).reshape(2, 3, 4), dims=("t", "y", "x"), coords={"y": y}, name="q"
    )
    made.encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -1}
    made.encoding |= {"chunks": (1, 3, 4), "zlib": True, "grid_mapping": "crs", "source": "a.nc"}
    return made


def test_map_is_a_call():
    q, k = field(), 3.0
    wanted = slope(q, k, dims=("x", "t"), boundary="wrap")
    xr.testing.assert_identical(q.npt.map(slope, k, dims=("x", "t"), boundary="wrap"), wanted)
    xr.testing.assert_identical(q.npt.map(slope), slope(q))
    xr.testing.assert_identical(q.npt.map(product, q), product(q, q))
    found = q.npt.map(npt.filters.mean, 3, dims="t")
    xr.testing.assert_identical(found, npt.filters.mean(q, 3, dims="t"))


def test_map_of_a_dataset():
    data = field().to_dataset().assign(level=("t", [1, 2]), word=("t", ["a", "b"]))
    found = data.chunk(y=1).npt.map(slope, dims=("x", "y"))
    assert found.q.chunks is not None
    xr.testing.assert_identical(found.compute(), data.assign(q=slope(data.q, dims=("x", "y"))))


def test_what_map_does_not_apply():
    with pytest.raises(TypeError, match=r"mean is none of it; decorate it with @ninepoint.sten"):
        field().npt.map(np.mean)
    with pytest.raises(ValueError, match="dimension 'lat' does not exist"):
        field().npt.map(slope, dims=("lat", "x"))
    with pytest.raises(ValueError, match="no variable of the dataset has the dimensions 'lat'"):
        field().to_dataset().npt.map(slope, dims=("lat", "x"))


def test_how_it_is_stored_is_kept_and_how_numbers_are_packed_is_not():
    layout = {"zlib": True, "grid_mapping": "crs"}
    for found in (slope(field()), slope(field().to_dataset()).q):
        assert found.encoding == {"chunks": (1, 3, 4), **layout}
        assert found.y.encoding == {"dtype": "int8"}
        assert found.y.attrs == {"units": "m"}
    assert slope(field(), boundary="valid").encoding == layout


def test_a_tree_is_mapped_by_xarray():
    data = field().to_dataset()
    tree = xr.DataTree.from_dict({"/fine": data, "/coarse/2": data.isel(x=slice(None, None, 2))})
    with pytest.raises(
        TypeError, match=r"'u' is a xarray.DataTree; .* u.map_over_datasets\(lambda"
    ):
        slope(tree)
    found = tree.map_over_datasets(lambda data: slope(data) if data.data_vars else data)
    xr.testing.assert_identical(found["coarse/2"].to_dataset().q, slope(data.q[..., ::2]))
