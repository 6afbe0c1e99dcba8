"""Spacings from coordinates: the numbers that calls with xarray objects need not be given."""

import datetime
import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
import ninepoint.xarray  # gives xarray objects the accessor
from compared import nothing_compiled, refuses


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


told = npt.stencil(lambda u, dx=npt.spacing(0): u[0] * 0 + dx, boundary="reflect")


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
        turned = slopes(u.transpose("lon", "time", "lat"), dims=("lat", "lon"))
        equal(turned, [one.transpose("lon", "time", "lat") for one in wanted])
        equal(slopes(u, axes=(1, 2)), wanted)
        equal(slopes(u, dims=("lon", "lat")), slopes(u, step, -0.5, dims=("lon", "lat")))
        equal(u.npt.map(slopes, dims=("lat", "lon")), wanted)
        with dask.config.set(scheduler="sync"):
            equal(slopes(u.chunk({"lat": 2, "lon": 3})), wanted)
        equal(npt.compute(*slopes(npt.lazy(u))), wanted)
    # A value that is given wins.
    np.testing.assert_array_equal(slopes(u, 1.0, dx=3.0)[0], slopes(u.values, 1.0, 3.0)[0])
    bare = u.drop_vars("lat")
    equal(slopes(bare, 2), slopes(bare, 2, 0.25))


def test_each_variable_of_a_dataset_has_its_own():
    u = field()
    fine = u.isel(time=0, lat=slice(0, 4))
    made = slopes(xr.Dataset({"u": u, "v": 2 * u}))[1]
    assert made.v.identical((slopes(2 * u)[1]).rename("v"))
    line = xr.Dataset({"a": fine.isel(lon=0, drop=True), "b": fine.isel(lat=0, drop=True)})
    assert set(heat(line[["a"]], 0.1)) == {"a"}
    assert heat(line, 0.1, dims="lon").b.identical(heat(line.b, 0.1, 0.25))


def test_lazy_values_have_those_of_their_results():
    other = npt.stencil(boundary="valid", every=2)(lambda u: u[0])
    u = field()[0, 0]
    made = heat(other(npt.lazy(u)), 0.1).compute()
    assert made.identical(heat(other(u), 0.1, 0.5))


def test_steps_and_stages():
    u = field()[0, 0]
    for _ in range(2):
        for r in (0.01, lambda step: 0.01 * step):
            assert heat.iterate(u, r, steps=3).identical(heat.iterate(u, r, 0.25, steps=3))
        assert twice(u, 0.1).identical(twice(u, 0.1, 0.25))
        assert twice.iterate(u, 0.01, steps=2).identical(twice.iterate(u, 0.01, 0.25, steps=2))
    cut = heat.iterate(u.chunk({"lon": 3}), 0.01, steps=3).compute(scheduler="sync")
    assert cut.identical(heat.iterate(u, 0.01, 0.25, steps=3))
    heat(u, 0.1)
    with nothing_compiled():
        heat(field(step=0.125)[0, 0], 0.1)


# Coordinates that are rounded, huge, or of other calendars.
class Date(float):
    """A day of a calendar of 360 days, with what cftime's dates do."""

    def __sub__(self, other):
        return datetime.timedelta(days=float(self) - float(other))


def dates(days):
    return np.array([Date(day) for day in days], object)


DAY = np.array("2020-02-28", "datetime64[ns]")
CIRCLE = np.linspace(0, 360, 384, endpoint=False)
EVEN = {
    "falling": (np.array([250, 190, 130, 70, 10], "uint8"), -60),
    "singles": (np.linspace(170, 171, 11, dtype="float32"), 0.1),
    "a late change": ([1.0, 2.0, 3.0000001], 1),
    "times": (DAY + np.arange(4) * np.timedelta64(6, "h"), 21600),
    "durations": (np.arange(3).astype("timedelta64[ms]"), 0.001),
    "decimals": (np.round(CIRCLE, 3), 0.9375),
    "single decimals": (np.round(CIRCLE, 3).astype("float32"), 0.9375),
    "thirds": (np.round(np.linspace(90, -90, 541), 2), -1 / 3),
    "int64": (2**60 + 3 * np.arange(5), 3),
    "uint64": (np.uint64(2**64 - 30) + np.arange(5, dtype="uint64") * np.uint64(3), 3),
    # Thirty in a second, and their times to the millisecond.
    "frames": (DAY + 10**6 * np.rint(np.arange(90) * 100 / 3).astype(int), 1 / 30),
    "cftime": (dates(np.arange(6) * 30), 30 * 86400),
    "hours": (dates(10 - np.arange(6) / 4), -21600),
}


@pytest.mark.parametrize("name", EVEN)
def test_even_but_for_their_rounding(name):
    along, step = EVEN[name]
    made = told(xr.DataArray(np.ones(len(along)), {"t": along}, "t"))
    assert made.values[0] == pytest.approx(step, rel=2e-4)


@pytest.mark.parametrize("along", [
    [0.0, 1.0, 2.1], [0.0, 1.0, np.nan], 2**60 + np.array([0, 1, 3]),
    np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(64)[0])).round(3),
    np.array(["2020", "NaT", "2021"], "datetime64[ns]"), dates([0, 1, 2.5]),
])  # fmt: skip
def test_coordinates_without_a_spacing(along):
    given = xr.DataArray(np.ones(len(along)), {"t": along}, "t")
    iterated = lambda x: told.iterate(x, steps=2)  # noqa: E731
    for call in (told, told, iterated, lambda x: told(npt.lazy(x))):
        refuses(ValueError, "'t' is not evenly spaced; give dx=", call, given)


@npt.stencil(boundary="valid")
def per_distance(u, x):
    return (u[1, 0] - u[-1, 0]) / (x[1, 0] - x[-1, 0])


@pytest.mark.parametrize(("along", "given"), [
    (np.array([9, 4, 1], "uint8"), "data['lat'].astype('float64')"),
    (np.array(["2020", "2021", "2022"], "datetime64[ns]"),
     "(data['lat'] - data['lat'][0]) / np.timedelta64(1, 's')"),
])  # fmt: skip
def test_uneven_coordinates_are_fields(along, given):
    data = field(rows=3).assign_coords(lat=along)
    refuses(ValueError, r"not evenly spaced.* or let the kernel take the dist", slopes, data)
    x = eval(given, {"data": data, "np": np})
    numbers = x.values.astype("float64")
    wanted = (data[:, 2] - data[:, 0]).values / (numbers[2] - numbers[0])
    for one in (data, data, data.chunk({"lat": 2, "lon": 4})):
        made = per_distance(one, x).compute(scheduler="sync")
        np.testing.assert_allclose(made.values[:, 0], wanted, rtol=1e-14)


# Mistakes are on the page of messages about calls.
def test_arrays_without_coordinates():
    x = np.ones(4)
    for call in (
        lambda: heat(da.ones(4, chunks=2), 0.1), lambda: heat(npt.lazy(x), 0.1),
        lambda: heat.iterate(x, 0.1, steps=2), lambda: heat.debug(x, 0.1),
        lambda: heat.bench(x, 0.1),
    ):  # fmt: skip
        refuses(TypeError, r"heat\(\) needs a value for 'dx': .* give dx=", call)
    np.testing.assert_array_equal(heat(x, 0.1, dx=2.0), heat.debug(x, 0.1, 2.0))
    assert "heat" in heat.explain("float64")
    assert "def " in heat.source("float64")
    assert repr(heat) == "<stencil heat(u, r, dx=npt.spacing(0))>"
