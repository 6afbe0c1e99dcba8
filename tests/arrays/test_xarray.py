"""Stencils on DataArrays: dimensions by name, coordinates kept, NumPy or Dask inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

import dask.array as da  # noqa: E402

import ninepoint as npt  # noqa: E402
import weighted  # noqa: E402
from weighted import window  # noqa: E402

one_result = weighted.stencil(window([(-1, 1), (-2, 0)]))
two_results = weighted.stencil(window([(-1, 1), (-2, 0)]), window([(0, 2), (0, 0)]))
two_fields = weighted.stencil(window([(-1, 1)] * 2) | window([(0, 1)] * 2, 1, field="y"))


def weather() -> Any:
    values = np.random.default_rng(0).integers(0, 99, (3, 6, 8)).astype(float)
    return xr.DataArray(
        values,
        dims=("time", "lat", "lon"),
        coords={
            "time": [10, 20, 30],
            "lat": np.linspace(-50, 50, 6),
            "lon": np.arange(8) * 45,
            "height": (("lat", "lon"), np.arange(48.0).reshape(6, 8)),
            "station": "north",
        },
        attrs={"units": "K"},
        name="temperature",
    )


@pytest.mark.parametrize("chunks", [None, {"time": 2}, {"lat": 4, "lon": 3}])
def test_last_dimensions_and_all_that_belongs_to_them(chunks: Any) -> None:
    x = weather()
    got = one_result(x if chunks is None else x.chunk(chunks), boundary="wrap")
    assert isinstance(got.data, da.Array) == (chunks is not None)
    assert got.dims == x.dims
    assert got.name == "temperature"
    assert got.attrs == {"units": "K"}
    xr.testing.assert_identical(got.coords.to_dataset(), x.coords.to_dataset())
    np.testing.assert_array_equal(got.values, one_result(x.values, boundary="wrap"))


def test_dimensions_by_name() -> None:
    x = weather()
    for dims in [("lon", "time"), ("time", "lat")]:
        got = one_result(x, dims=dims, boundary="mirror")
        assert got.dims == x.dims
        moved = x.transpose(..., *dims)
        want = one_result(moved.values, boundary="mirror")
        np.testing.assert_array_equal(got.transpose(..., *dims).values, want)
    xr.testing.assert_identical(one_result(x, axes=(2, 0)), one_result(x, dims=("lon", "time")))


def test_coordinates_are_cut_under_valid() -> None:
    x = weather()
    for fields in (x, x.chunk({"lat": 2})):
        one, two = two_results(fields, boundary="valid")
        xr.testing.assert_identical(
            one.coords.to_dataset(), x.isel(lat=slice(1, 5), lon=slice(2, 8)).coords.to_dataset()
        )
        xr.testing.assert_identical(
            two.coords.to_dataset(), x.isel(lat=slice(0, 4)).coords.to_dataset()
        )
        for got, want in zip((one, two), two_results(x.values, boundary="valid"), strict=True):
            np.testing.assert_array_equal(got.values, want)


def test_several_fields_by_their_names() -> None:
    x = weather()
    y = x.isel(time=0, drop=True).transpose("lon", "lat") * 2
    want = two_fields(x.values, np.ascontiguousarray(y.values.T), boundary="nearest")
    np.testing.assert_array_equal(two_fields(x, y, boundary="nearest").values, want)
    plain = y.values.T
    np.testing.assert_array_equal(two_fields(x, plain, boundary="nearest").values, want)
    lazy = two_fields(x.chunk({"lat": 4}), y.chunk({"lon": 3}), boundary="nearest")
    np.testing.assert_array_equal(lazy.values, want)
    scale = xr.DataArray([1.0, 2.0], dims="run", coords={"run": ["a", "b"]})
    got = two_fields(x, scale, boundary="nearest", dims=("lat", "lon"))
    assert got.dims == ("time", "lat", "lon", "run")
    assert got.run.values.tolist() == ["a", "b"]


# Other mistakes are on the page of messages about calls.
def test_coordinates_that_differ() -> None:
    x = weather()
    with pytest.raises(ValueError, match="coordinates differ; align them first"):
        two_fields(x, x.assign_coords(lat=x.lat + 1))


@npt.stencil(boundary="nearest")
def down(x):
    return x[1, 0] - 2 * x[0, -1]


@npt.stencil(boundary="wrap")
def mixed(x, y):
    return x[0, 1] + 10 * y[-1, 0] + y[0, 2]


@npt.stencil(boundary="nearest")
def along(x):
    return x[1] - 2 * x[0]


@npt.stencil(boundary="mirror")
def staged(x, y):
    s = down(y)
    return x[0, 1] - s[1, 0]


def plane(*dims: str) -> Any:
    n = {"x": 9, "y": 7, "t": 3}
    shape = [n[dim] for dim in dims]
    values = np.random.default_rng(len(dims)).integers(0, 99, shape).astype(float)
    coords = {"x": np.arange(9) * 2, "name": f"{dims}"}
    return xr.DataArray(values, dims=dims, coords=coords, name=dims[0], attrs={"of": dims[-1]})


ORDERS = {
    "two orders": lambda a, b, c, d: mixed(a, b),
    "the second first": lambda a, b, c, d: mixed(b, a),
    "of what calls give": lambda a, b, c, d: mixed(down(a), down(b)),
    "stages": lambda a, b, c, d: down(staged(down(b), a)),
    "stages of a stack": lambda a, b, c, d: staged(b, staged(c, a)),
    "a stack": lambda a, b, c, d: mixed(c, down(b)),
    "a stack second": lambda a, b, c, d: mixed(down(b), down(c)),
    "dims": lambda a, b, c, d: mixed(a, down(b, dims=("y", "x")), dims=("x", "y")),
    "dims of the second": lambda a, b, c, d: mixed(a, down(c), dims=("t", "x")),
    "axes": lambda a, b, c, d: mixed(down(c, axes=(2, 0)), down(b, axes=(1, 0))),
    "fewer dimensions": lambda a, b, c, d: mixed(along(d), b),
    "fewer dimensions second": lambda a, b, c, d: staged(b, along(d)),
    "one index": lambda a, b, c, d: mixed(along(b), along(a)),
    "valid": lambda a, b, c, d: down(mixed(down(b, boundary="valid"), down(b, boundary="valid"))),
    "valid along others": lambda a, b, c, d: along(down(c, dims=("t", "y"), boundary="valid")),
    "coordinates that differ": lambda a, b, c, d: mixed(down(b, boundary="valid"), a),
    "dims that are nowhere": lambda a, b, c, d: down(a, dims=("q", "x")),
    "too few": lambda a, b, c, d: staged(b, c, axes=(0, 5)),
    "a bare array": lambda a, b, c, d: mixed(down(a), np.ones((7, 9))),
}


@pytest.mark.parametrize("case", ORDERS)
@pytest.mark.parametrize("chunks", [None, {"x": 4, "y": 3}])
def test_lazy_calls_give_what_calls_give(case: str, chunks: Any) -> None:
    fields = [plane("y", "x"), plane("x", "y"), plane("t", "y", "x"), plane("x")]
    if chunks is not None:
        fields = [x.chunk({d: n for d, n in chunks.items() if d in x.dims}) for x in fields]
    want = outcome(lambda: ORDERS[case](*fields))
    found = outcome(lambda: ORDERS[case](*map(npt.lazy, fields)).compute())
    if isinstance(want, str):
        assert found == want
        return
    xr.testing.assert_identical(found, want)
    assert isinstance(found.data, da.Array) == (chunks is not None)
    assert found.dims == want.dims


def outcome(call: Any) -> Any:
    try:
        return call()
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def test_lazy_values_with_and_without_names_are_computed_together() -> None:
    a, b = plane("y", "x"), plane("x", "y")
    made = npt.compute(down(npt.lazy(a)), down(npt.lazy(b)), down(npt.lazy(a.values)), a)
    xr.testing.assert_identical(made[0], down(a))
    xr.testing.assert_identical(made[1], down(b))
    np.testing.assert_array_equal(made[2], down(a.values))
    assert made[3] is a
