"""Stencils on DataArrays: dimensions by name, coordinates kept, NumPy or Dask inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

xr = pytest.importorskip("xarray")

import ninepoint as npt  # noqa: E402
from ninepoint.arrays import numpy as on_numpy  # noqa: E402
from ninepoint.arrays import xarray as on_xarray  # noqa: E402
from ninepoint.arrays.borders import Boundary  # noqa: E402
from ninepoint.arrays.recognise import is_dask, is_dataset, is_xarray  # noqa: E402
from windowsum import WindowSum, program, window, work  # noqa: E402


def applied(
    prog: WindowSum, *fields: Any, boundary: Any = "fill", dims: Any = None, axes: Any = None
) -> Any:
    border = Boundary.of(boundary).on(prog.ndim)
    named = on_xarray.Named(fields, prog.ndim, dims, axes)
    arrays = [on_xarray.arranged(field, named.dims) for field in named.fields]
    if any(is_dask(array) for array in arrays):
        from ninepoint.arrays import chunked as on_dask

        made = tuple(on_dask.lazily(work(prog, border, axes=named.axes), arrays))
    else:
        made = on_numpy.apply(prog, arrays, border=border, axes=named.axes)
        made = made if isinstance(made, tuple) else (made,)
    types = [np.dtype("float64")] * len(made)
    likes = named.results(prog.reaches, border, types, (1,) * prog.ndim, {})
    results = [
        on_xarray.restored(*one)
        for one in zip(made, [named.dims] * len(made), likes, strict=False)
    ]
    return results[0] if len(results) == 1 else tuple(results)


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


def bare(prog: WindowSum, *arrays: np.ndarray, boundary: Any = "fill") -> Any:
    return on_numpy.apply(prog, arrays, border=Boundary.of(boundary).on(prog.ndim))


@pytest.mark.parametrize("chunks", [None, {"time": 2}, {"lat": 4, "lon": 3}])
def test_last_dimensions_and_all_that_belongs_to_them(chunks: Any) -> None:
    x = weather()
    prog = program(window([(-1, 1), (-2, 0)]))
    got = applied(prog, x if chunks is None else x.chunk(chunks), boundary="wrap")
    assert is_dask(got.data) == (chunks is not None)
    assert got.dims == x.dims
    assert got.name == "temperature"
    assert got.attrs == {"units": "K"}
    xr.testing.assert_identical(got.coords.to_dataset(), x.coords.to_dataset())
    np.testing.assert_array_equal(got.values, bare(prog, x.values, boundary="wrap"))


def test_dimensions_by_name() -> None:
    x = weather()
    prog = program(window([(-1, 1), (-2, 0)]))
    for dims in [("lon", "time"), ("time", "lat")]:
        got = applied(prog, x, dims=dims, boundary="mirror")
        assert got.dims == x.dims
        moved = x.transpose(..., *dims)
        want = bare(prog, moved.values, boundary="mirror")
        np.testing.assert_array_equal(got.transpose(..., *dims).values, want)
    xr.testing.assert_identical(
        applied(prog, x, axes=(2, 0)), applied(prog, x, dims=("lon", "time"))
    )


def test_coordinates_are_cut_under_valid() -> None:
    x = weather()
    prog = program(window([(-1, 1), (-2, 0)]), window([(0, 2), (0, 0)]))
    for fields in (x, x.chunk({"lat": 2})):
        one, two = applied(prog, fields, boundary="valid")
        xr.testing.assert_identical(
            one.coords.to_dataset(), x.isel(lat=slice(1, 5), lon=slice(2, 8)).coords.to_dataset()
        )
        xr.testing.assert_identical(
            two.coords.to_dataset(), x.isel(lat=slice(0, 4)).coords.to_dataset()
        )
        for got, want in zip((one, two), bare(prog, x.values, boundary="valid"), strict=True):
            np.testing.assert_array_equal(got.values, want)


def test_several_fields_by_their_names() -> None:
    x = weather()
    prog = program(window([(-1, 1)] * 2) | window([(0, 1)] * 2, 1, field=1), fields=2)
    y = x.isel(time=0, drop=True).transpose("lon", "lat") * 2
    want = bare(prog, x.values, np.ascontiguousarray(y.values.T), boundary="nearest")
    np.testing.assert_array_equal(applied(prog, x, y, boundary="nearest").values, want)
    plain = y.values.T
    np.testing.assert_array_equal(applied(prog, x, plain, boundary="nearest").values, want)
    lazy = applied(prog, x.chunk({"lat": 4}), y.chunk({"lon": 3}), boundary="nearest")
    np.testing.assert_array_equal(lazy.values, want)
    scale = xr.DataArray([1.0, 2.0], dims="run", coords={"run": ["a", "b"]})
    got = applied(prog, x, scale, boundary="nearest", dims=("lat", "lon"))
    assert got.dims == ("time", "lat", "lon", "run")
    assert got.run.values.tolist() == ["a", "b"]


def test_mistakes() -> None:
    x = weather()
    prog = program(window([(-1, 1)] * 2), fields=1)
    both = program(window([(-1, 1)] * 2), fields=2)
    with pytest.raises(ValueError, match="dimension 'depth' does not exist; the fields have"):
        applied(prog, x, dims=("lat", "depth"))
    with pytest.raises(ValueError, match="must name 2 different dimensions"):
        applied(prog, x, dims=("lat", "lat"))
    with pytest.raises(ValueError, match="must name 2 different dimensions"):
        applied(prog, x, dims="lat")
    with pytest.raises(ValueError, match="axis 3 does not exist in an array of 3"):
        applied(prog, x, axes=(0, 3))
    with pytest.raises(TypeError, match="give dims or axes, not both"):
        applied(prog, x, dims=("lat", "lon"), axes=(0, 1))
    with pytest.raises(ValueError, match="coordinates differ; align them first"):
        applied(both, x, x.assign_coords(lat=x.lat + 1))
    with pytest.raises(ValueError, match="needs at least 2 dimensions; the array has 'time'"):
        applied(prog, x.isel(lat=0, lon=0))
    with pytest.raises(ValueError, match="make it a DataArray that names its dimensions"):
        applied(both, x, np.zeros((2, 3, 6, 8)))


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
    assert is_dask(found.data) == (chunks is not None)
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


def test_recognised_without_importing() -> None:
    assert is_xarray(weather())
    assert is_dataset(weather().to_dataset())
    assert not is_xarray(np.zeros(3))
    assert not is_dask(np.zeros(3))
