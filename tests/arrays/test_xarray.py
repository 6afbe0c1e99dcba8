"""DataArrays: dimensions by name, labels kept, cut, laid or made; NumPy or Dask inside."""

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
from seams import interpreted


@npt.stencil
def sided(x):
    """Two results, which look to different sides."""
    return x[-1, 0] - 2 * x[1, -2], x[0, 0] + x[2, 0]


down = npt.stencil(lambda x: x[1, 0] - 2 * x[0, -1])
mixed = npt.stencil(lambda x, y: x[0, 1] + 10 * y[-1, 0] + y[0, 2], boundary="wrap")
along = npt.stencil(lambda x: x[1] - 2 * x[0], boundary="nearest")
staged = npt.stencil(lambda x, y: x[0, 1] - down(y, boundary="nearest")[1, 0], boundary="mirror")


def weather():
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
def test_last_dimensions_and_all_that_belongs_to_them(chunks):
    x = weather()
    got = down(x if chunks is None else x.chunk(chunks), boundary="wrap")
    assert isinstance(got.data, da.Array) == (chunks is not None)
    xr.testing.assert_identical(got, x.copy(data=down(x.values, boundary="wrap")))


def test_dimensions_by_name():
    x = weather()
    for dims in [("lon", "time"), ("time", "lat")]:
        got = down(x, dims=dims, boundary="mirror")
        assert got.dims == x.dims
        want = down(x.transpose(..., *dims).values, boundary="mirror")
        np.testing.assert_array_equal(got.transpose(..., *dims).values, want)
    xr.testing.assert_identical(down(x, axes=(2, 0)), down(x, dims=("lon", "time")))


def test_coordinates_are_cut_under_valid():
    x = weather()
    for fields in (x, x.chunk({"lat": 2})):
        made = sided(fields, boundary="valid")
        kept = x.isel(lat=slice(1, 5), lon=slice(2, 8)), x.isel(lat=slice(0, 4))
        for got, part, want in zip(made, kept, sided(x.values, boundary="valid"), strict=True):
            xr.testing.assert_identical(got.compute(), part.copy(data=want))


def test_several_fields_by_their_names():
    x = weather()
    y = x.isel(time=0, drop=True).transpose("lon", "lat") * 2
    want = mixed(x.values, np.ascontiguousarray(y.values.T))
    lazy = mixed(x.chunk({"lat": 4}), y.chunk({"lon": 3}))
    for got in (mixed(x, y), mixed(x, y.values.T), lazy):
        np.testing.assert_array_equal(got.values, want)
    scale = xr.DataArray([1.0, 2.0], dims="run", coords={"run": ["a", "b"]})
    got = mixed(x, scale, dims=("lat", "lon"))
    assert got.dims == ("time", "lat", "lon", "run")
    assert got.run.values.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="coordinates differ; align them first"):
        mixed(x, x.assign_coords(lat=x.lat + 1))


def plane(*dims):
    n = {"x": 9, "y": 7, "t": 3}
    values = np.random.default_rng(len(dims)).integers(0, 99, [n[dim] for dim in dims])
    coords = {"x": np.arange(9) * 2, "name": f"{dims}"}
    return xr.DataArray(values * 1.0, coords, dims, name=dims[0], attrs={"of": dims[-1]})


ORDERS = {
    "stages of a stack": lambda a, b, c, d: staged(b, staged(c, a)),
    "a stack second": lambda a, b, c, d: mixed(down(b), down(c)),
    "dims": lambda a, b, c, d: mixed(a, down(b, dims=("y", "x")), dims=("x", "y")),
    "axes": lambda a, b, c, d: mixed(down(c, axes=(2, 0)), down(b, axes=(1, 0))),
    "fewer dimensions": lambda a, b, c, d: mixed(along(d), b),
    "one index": lambda a, b, c, d: mixed(along(b), along(a)),
    "valid": lambda a, b, c, d: down(mixed(down(b, boundary="valid"), down(b, boundary="valid"))),
    "coordinates that differ": lambda a, b, c, d: mixed(down(b, boundary="valid"), a),
    "dims that are nowhere": lambda a, b, c, d: down(a, dims=("q", "x")),
    "too few": lambda a, b, c, d: staged(b, c, axes=(0, 5)),
    "a bare array": lambda a, b, c, d: mixed(down(a), np.ones((7, 9))),
}


@pytest.mark.parametrize("chunks", [None, {"x": 4, "y": 3}])
def test_lazy_calls_give_what_calls_give(chunks):
    fields = [plane("y", "x"), plane("x", "y"), plane("t", "y", "x"), plane("x")]
    if chunks is not None:
        fields = [x.chunk({d: n for d, n in chunks.items() if d in x.dims}) for x in fields]
    with interpreted():
        for call in ORDERS.values():
            want = outcome(lambda call=call: call(*fields))
            found = outcome(lambda call=call: call(*map(npt.lazy, fields)).compute())
            if isinstance(want, str):
                assert found == want
            else:
                assert isinstance(found.data, da.Array) == (chunks is not None)
                xr.testing.assert_identical(found.compute(), want.compute())


def outcome(call):
    try:
        return call()
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def test_lazy_values_with_and_without_names_are_computed_together():
    a, b = plane("y", "x"), plane("x", "y")
    made = npt.compute(down(npt.lazy(a)), down(npt.lazy(b)), down(npt.lazy(a.values)), a)
    xr.testing.assert_identical(made[0], down(a))
    xr.testing.assert_identical(made[1], down(b))
    np.testing.assert_array_equal(made[2], down(a.values))
    assert made[3] is a


LABELS = [0.0, 2.0, 4.0, 6.0]


@npt.stencil
def heat(u):
    return u[0, 0] + 0.1 * (u[-1, 0] + u[1, 0] - 2 * u[0, 0] + u[0, 1] - u[0, -1])


def test_values_at_the_border_are_laid_by_their_labels():
    field = xr.DataArray(np.random.default_rng(0).random((3, 4)), {"x": LABELS}, ("y", "x"))
    wall = xr.DataArray([5.0, 6, 7, 8], {"x": LABELS}, "x")
    wanted = heat(field.data, boundary=(npt.dirichlet(wall.data), "nearest"))
    flat = heat(field.data, boundary=(npt.dirichlet(5.0), "nearest"))

    def ways(wall):
        border = (npt.dirichlet(wall), "nearest")
        yield lambda: heat(field, boundary=border)
        yield lambda: heat(field.T, boundary=border, dims=("y", "x")).T
        yield lambda: heat.iterate(field, steps=1, boundary=border)
        yield lambda: heat(npt.lazy(field), boundary=border).compute()
        yield lambda: heat(xr.Dataset({"u": field}), boundary=border)["u"]

    # Without labels they are laid by position, and one value is that of all.
    for given, right in ((wall, wanted), (wall.drop_vars("x"), wanted), (wall[:1], flat)):
        for call in ways(given):
            np.testing.assert_array_equal(call(), right)
    for other in (wall[::-1], wall.assign_coords(x=np.add(LABELS, 1))):
        for call in ways(other):
            with pytest.raises(ValueError, match=r"values at the border along 'y' .* align"):
                call()
    with pytest.raises(TypeError, match="border values of lazy arrays are numbers"):
        heat(field.chunk(2), boundary=(npt.dirichlet(wall), "nearest"))


doubled = npt.stencil(lambda x: x[0], upsample=2, boundary="nearest")
SCALES = {"s": 10**9, "ms": 10**6, "us": 10**3}


@pytest.mark.parametrize("factor", [2, 3, 7])
def test_labels_of_times_are_where_the_points_are(factor):
    for kind, step, unit in [("M8", 1, "s"), ("m8", 3, "s"), ("M8", 1, "ms"), ("M8", 7, "us")]:
        times = (np.arange(5) * step + 12).astype(f"{kind}[{unit}]")
        with interpreted():
            made = doubled(xr.DataArray(np.arange(5.0), {"t": times}, "t"), upsample=factor)
        if "t" not in made.coords:
            # Nanoseconds are too coarse for such places.
            assert unit != "s"
            assert factor > 2
            continue
        told = made.t.values.astype(f"{kind}[ns]").astype(np.int64)
        exact = 12 + step * (np.arange(5 * factor) - (factor - 1) / 2) / factor
        np.testing.assert_allclose(told, exact * SCALES[unit], rtol=0, atol=0.5)
        assert len(set(told)) == len(told)
        assert float(np.ptp(np.diff(told))) <= 1


def test_labels_of_times_that_no_unit_holds():
    for times in (np.arange(5).astype("M8[ns]"), (np.arange(3) * 2**61).astype("M8[s]")):
        made = doubled(xr.DataArray(np.zeros(len(times)), dims="t").assign_coords(t=("t", times)))
        assert "t" not in made.coords or len(set(made.t.values)) == made.size
