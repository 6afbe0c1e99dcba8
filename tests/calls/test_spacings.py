"""Spacings from coordinates: the numbers that calls with xarray objects need not be given."""

import pickle

import dask
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
import ninepoint.xarray  # gives xarray objects the accessor
from compiling import nothing_compiled
from ninepoint import StencilError


@npt.stencil(boundary=("valid", "wrap"))
def slopes(u, dy=npt.spacing(0), dx=npt.spacing(1)):
    return (u[1, 0] - u[-1, 0]) / (2 * dy), (u[0, 1] - u[0, -1]) / (2 * dx)


@npt.stencil(boundary="nearest")
def heat(u, r, dx=npt.spacing(0)):
    return u[0] + r * (u[-1] - 2 * u[0] + u[1]) / (dx * dx)


@npt.stencil
def twice(u, r, dx=npt.spacing(-1)):
    first = heat(u, r, dx)
    return first[0] + dx * (first[1] - first[0])


def field(rows=5, columns=6, step=0.25):
    """A field of two dimensions; latitude falls."""
    data = np.random.default_rng(0).normal(size=(2, rows, columns))
    coords = {"lat": 10 - 0.5 * np.arange(rows), "lon": step * np.arange(columns)}
    return xr.DataArray(data, coords, ("time", "lat", "lon"), name="u")


def equal(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        xr.testing.assert_identical(one.compute(), other)


def test_calls_take_the_spacing_of_the_coordinates():
    for u in (field(), field(4, 7, 2.0), field()):
        step = float(u.lon[1] - u.lon[0])
        wanted = slopes(u, -0.5, step)
        assert type(wanted[0]) is xr.DataArray
        equal(slopes(u), wanted)
        equal(pickle.loads(pickle.dumps(slopes))(u), wanted)
        equal(slopes(u, dx=step), wanted)
        equal(slopes(u.transpose("lon", "time", "lat"), dims=("lat", "lon")),
              [one.transpose("lon", "time", "lat") for one in wanted])  # fmt: skip
        equal(slopes(u, axes=(1, 2)), wanted)
        equal(slopes(u, dims=("lon", "lat")), slopes(u, step, -0.5, dims=("lon", "lat")))
        equal(u.npt.map(slopes, dims=("lat", "lon")), wanted)
        chunked = slopes(u.chunk({"lat": 2, "lon": 3}))
        with dask.config.set(scheduler="sync"):
            equal(chunked, wanted)
        equal(npt.compute(*slopes(npt.lazy(u))), wanted)


def test_a_given_value_wins():
    u = field()
    equal(slopes(u, 1.0, dx=3.0), slopes(u.values, 1.0, 3.0) and slopes(u, 1.0, 3.0))
    assert np.array_equal(slopes(u, 1.0, 3.0)[0], slopes(u.values, 1.0, 3.0)[0])
    bare = u.drop_vars("lat")
    equal(slopes(bare, 2), slopes(bare, 2, 0.25))


def test_each_variable_of_a_dataset_has_its_own():
    u = field()
    fine = u.isel(time=0, lat=slice(0, 4))
    data = xr.Dataset({"u": u, "v": 2 * u})
    made = slopes(data)[1]
    assert made.v.identical((slopes(2 * u)[1]).rename("v"))
    line = xr.Dataset({"a": fine.isel(lon=0, drop=True), "b": fine.isel(lat=0, drop=True)})
    assert set(heat(line[["a"]], 0.1)) == {"a"}
    assert heat(line, 0.1, dims="lon").b.identical(heat(line.b, 0.1, 0.25))


def test_lazy_values_have_those_of_their_results():
    @npt.stencil(boundary="valid", every=2)
    def other(u):
        return u[0]

    u = field()[0, 0]
    thin = other(npt.lazy(u))
    assert heat(thin, 0.1).compute().identical(heat(other(u), 0.1, 0.5))


def test_steps_and_stages():
    u = field()[0, 0]
    for _ in range(2):
        assert heat.iterate(u, 0.01, steps=3).identical(heat.iterate(u, 0.01, 0.25, steps=3))
        assert heat.iterate(u, lambda step: 0.01 * step, steps=3).identical(
            heat.iterate(u, lambda step: 0.01 * step, 0.25, steps=3)
        )
        assert twice(u, 0.1).identical(twice(u, 0.1, 0.25))
        assert twice.iterate(u, 0.01, steps=2).identical(twice.iterate(u, 0.01, 0.25, steps=2))
    cut = heat.iterate(u.chunk({"lon": 3}), 0.01, steps=3).compute(scheduler="sync")
    assert cut.identical(heat.iterate(u, 0.01, 0.25, steps=3))


def test_another_spacing_compiles_nothing():
    heat(field()[0, 0], 0.1)
    with nothing_compiled():
        heat(field(step=0.125)[0, 0], 0.1)


@pytest.mark.parametrize(
    ("along", "step"),
    [
        (np.arange(4) * 3, 3.0),
        (np.arange(4, dtype="uint8")[::-1], -1.0),
        # What a type of so many bits can tell apart.
        (np.linspace(170, 171, 11, dtype="float32"), 0.1),
        (np.array("2020-02-28", "datetime64[ns]") + np.arange(4) * np.timedelta64(6, "h"), 21600),
        (np.arange(3).astype("timedelta64[ms]"), 0.001),
        ([1.0, 2.0, 3.0000001], 1.0),
    ],
)
def test_coordinates(along, step):
    @npt.stencil
    def told(u, dx=npt.spacing(0)):
        return u[0] * dx

    given = xr.DataArray(np.ones(len(along)), {"x": along}, "x")
    assert told(given).values == pytest.approx(step, rel=1e-5)


@pytest.mark.parametrize(
    ("along", "words"),
    [
        ([0.0, 1.0, 2.1], "'x' is not evenly spaced; give dx="),
        ([0.0, 1.0, np.nan], "not evenly spaced"),
        ([1.0, 1.0, 1.0], "not evenly spaced"),
        (np.array(["2020", "2021", "2022"], "datetime64[ns]"), "not evenly spaced"),
        (np.array(["2020", "NaT", "2021"], "datetime64[ns]"), "not evenly spaced"),
        (["a", "b", "c"], "neither numbers nor dates"),
        ([2.0], "has one point"),
        (None, "dimension 'x' has no coordinate"),
    ],
)
def test_coordinates_without_a_spacing(along, words):
    count = 3 if along is None else len(along)
    given = xr.DataArray(np.ones(count), None if along is None else {"x": along}, "x")
    for _ in range(2):
        with pytest.raises(ValueError, match=words):
            heat(given, 0.1)
    with pytest.raises(ValueError, match=words):
        heat.iterate(given, 0.1, steps=2)
    with pytest.raises(ValueError, match=words):
        heat(npt.lazy(given), 0.1)


@pytest.mark.parametrize(
    ("along", "given"),
    [
        ([3.0, 1.0, 0.5], "data['lat']"),
        (np.array([9, 4, 1], "uint8"), "data['lat'].astype('float64')"),
        (
            np.array(["2020", "2021", "2022"], "datetime64[ns]"),
            "(data['lat'] - data['lat'][0]) / np.timedelta64(1, 's')",
        ),
        (np.array([1, 2, 4], "timedelta64[s]"), "data['lat'] / np.timedelta64(1, 's')"),
    ],
)
def test_uneven_coordinates_are_fields(along, given):
    @npt.stencil(boundary="valid")
    def per_distance(u, x):
        return (u[1, 0] - u[-1, 0]) / (x[1, 0] - x[-1, 0])

    data = field(rows=3).assign_coords(lat=along)
    with pytest.raises(ValueError, match="not evenly spaced") as raised:
        slopes(data)
    assert "or let the kernel take the distances of neighbours as one more" in str(raised.value)
    x = eval(given, {"data": data, "np": np})
    numbers = x.values.astype("float64")
    wanted = (data[:, 2] - data[:, 0]).values / (numbers[2] - numbers[0])
    cut = data.chunk({"lat": 2, "lon": 4})
    for one in (data, cut):
        for _ in range(2):
            made = per_distance(one, x).compute(scheduler="sync")
            assert np.allclose(made.values[:, 0], wanted, rtol=1e-14, atol=0)


@pytest.mark.parametrize("rule", ["fill", "nearest", "mirror", "wrap", "constant"])
def test_lines_are_repeated_beyond_every_border(rule):
    """A field of one column or row is the same as the one that has all elements."""

    @npt.stencil(boundary=rule, cval=3)
    def pulled(u, y, x):
        return u[1, -1] * y[1, 0] - u[-1, 0] / y[-1, 1] + x[0, 1] * y[0, 0] - x[-1, -1]

    da = pytest.importorskip("dask.array")
    u = np.random.default_rng(0).random((2, 7, 9)) + 1
    y, x = u[0, :, :1] + 1, u[1, 0] + 2
    full = [np.ascontiguousarray(np.broadcast_to(one, u.shape)) for one in (y, x)]
    wanted = pulled(u, *full)
    for _ in range(2):
        assert np.array_equal(pulled(u, y, x), wanted)
        cut = pulled(da.from_array(u, chunks=(1, 3, 4)), da.from_array(y, chunks=(2, 1)), x)
        assert np.array_equal(cut.compute(scheduler="sync"), wanted)
        assert np.array_equal(pulled.debug(u, y, x), wanted)
        turned = np.ascontiguousarray(u.swapaxes(1, 2)).swapaxes(1, 2)
        assert np.array_equal(pulled(turned, y, x), wanted)
    assert np.array_equal(
        pulled(u[:, :4, ::2], y[:4], x[::2]), pulled(u[:, :4, ::2].copy(), y[:4], x[::2].copy())
    )


def test_arrays_without_coordinates():
    x = np.ones(4)
    words = r"heat\(\) needs a value for 'dx': .* give dx="
    da = pytest.importorskip("dask.array")
    asked = (
        lambda: heat(x, 0.1),
        lambda: heat(da.ones(4, chunks=2), 0.1),
        lambda: heat(npt.lazy(x), 0.1),
        lambda: heat.iterate(x, 0.1, steps=2),
        lambda: heat.debug(x, 0.1),
        lambda: heat.bench(x, 0.1),
        lambda: heat.tune(x, 0.1, seconds=0),
    )
    for one in asked:
        with pytest.raises(TypeError, match=words):
            one()
    assert np.array_equal(heat(x, 0.1, dx=2.0), heat.debug(x, 0.1, 2.0))
    assert "heat" in heat.explain("float64")
    assert "def " in heat.source("float64")
    assert repr(heat) == "<stencil heat(u, r, dx=npt.spacing(0))>"


# Other mistakes are on the page of messages about calls.
def test_mistakes():
    with pytest.raises(StencilError, match=r"'dx' is npt.spacing\(0\)"):

        @npt.stencil
        def without(u, r):
            return heat(u, r)[0]

    with pytest.raises(StencilError, match="default in the signature"):

        @npt.stencil
        def inside(u):
            return u[0] / npt.spacing(0)

    def helper(value, dx=npt.spacing(0)):
        return value / dx

    by_helper = npt.stencil(lambda u: helper(u[0]))
    with pytest.raises(StencilError, match="only a call of a stencil knows"):
        by_helper(field()[0, 0])
