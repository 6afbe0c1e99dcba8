"""DataArrays and datasets: dimensions by name, labels, spacings, the accessor, what files keep."""

import datetime
import pickle
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import ninepoint as npt
import ninepoint.xarray
from compared import nothing_compiled, refuses
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
            "time": [10, 20, 30], "lat": np.linspace(-50, 50, 6), "lon": np.arange(8) * 45,
            "height": (("lat", "lon"), np.arange(48.0).reshape(6, 8)), "station": "north",
        },
        attrs={"units": "K"},
        name="temperature",
    )  # fmt: skip


@pytest.mark.parametrize("chunks", [None, {"time": 2}, {"lat": 4, "lon": 3}])
def test_last_dimensions_and_all_that_belongs_to_them(chunks):
    x = weather()
    got = down(x if chunks is None else x.chunk(chunks), boundary="wrap")
    assert isinstance(got.data, da.Array) == (chunks is not None)
    xr.testing.assert_identical(got, x.copy(data=down(x.values, boundary="wrap")))


def test_dimensions_by_name_and_coordinates_that_are_cut_under_valid():
    x = weather()
    for dims in [("lon", "time"), ("time", "lat")]:
        got = down(x, dims=dims, boundary="mirror")
        assert got.dims == x.dims
        want = down(x.transpose(..., *dims).values, boundary="mirror")
        np.testing.assert_array_equal(got.transpose(..., *dims).values, want)
    xr.testing.assert_identical(down(x, axes=(2, 0)), down(x, dims=("lon", "time")))
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
            refuses(ValueError, r"values at the border along 'y' .* align", call)
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


smooth = npt.stencil(lambda u, by=0.25: by * (u[-1, 0] + u[1, 0]) + u[0, 1], boundary="nearest")
of_smooth = npt.stencil(lambda u, by=0.25: smooth(u, by)[0, 0], boundary="nearest")


@npt.stencil(boundary="nearest")
def slopes(u, k):
    return u[1, 0] - u[0, 0] * k[0, 0], u[0, 1] - u[0, 0]


product = npt.ufunc(lambda a, b: a * b)


def climate():
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
    data = climate()
    gaussian = partial(npt.filters.gaussian, dims=("lat", "lon"))
    for kernel in (smooth, of_smooth, gaussian):
        wanted = data.assign(
            {name: kernel(data[name], 0.5, **options) for name in ("temperature", "height")}
        )
        xr.testing.assert_identical(kernel(data, 0.5, **options), wanted)
        lazy = kernel(data.chunk(lat=2), 0.5, **options)
        assert lazy.temperature.chunks is not None
        xr.testing.assert_identical(lazy.compute(), wanted)


def test_several_datasets_and_results_and_variables_that_become_smaller():
    data, k = climate(), xr.DataArray(np.arange(5.0), dims="lat", coords={"lat": np.arange(5.0)})
    for given in (k, data):
        made = slopes(data, given)
        for name in ("temperature", "height"):
            other = given if given is k else given[name]
            for got, want in zip(made, slopes(data[name], other), strict=True):
                xr.testing.assert_identical(got[name], want)
    with pytest.raises(ValueError, match="the dataset given for 'k' has no variable 'height'"):
        slopes(data, data.drop_vars("height"))
    data = climate()
    found = smooth(data, boundary="valid")
    assert dict(found.sizes) == {"t": 3, "lat": 3, "lon": 5}
    xr.testing.assert_identical(found["height"], smooth(data["height"], boundary="valid"))
    xr.testing.assert_identical(found["station"], data["station"])
    with pytest.raises(ValueError, match="but 'width' of the dataset would stay"):
        smooth(data.assign(width=("lat", np.arange(5.0))), boundary="valid")


def test_map_is_a_call_and_a_tree_is_mapped_by_xarray():
    data = climate()
    q, k, options = data.temperature, 3.0, {"dims": ("lon", "t"), "boundary": "wrap"}
    for one in (q, data.chunk(lat=1)):
        made, wanted = one.npt.map(smooth, k, **options), smooth(one, k, **options)
        xr.testing.assert_identical(made.compute(), wanted.compute())
    xr.testing.assert_identical(q.npt.map(product, q), product(q, q))
    mean = npt.filters.mean
    xr.testing.assert_identical(q.npt.map(mean, 3, dims="t"), mean(q, 3, dims="t"))
    refuses(TypeError, r"mean is none of it; decorate it with @ninepoint.sten", q.npt.map, np.mean)
    with pytest.raises(ValueError, match="dimension 'depth' does not exist"):
        q.npt.map(smooth, dims=("depth", "lon"))
    with pytest.raises(ValueError, match="no variable of the dataset has the dimensions 'depth'"):
        data.npt.map(smooth, dims=("depth", "lon"))
    data = climate()
    tree = xr.DataTree.from_dict({"/fine": data, "/coarse/2": data.isel(lon=slice(None, None, 2))})
    words = r"'u' is a xarray.DataTree; .* u.map_over_datasets\(lambda"
    refuses(TypeError, words, smooth, tree)
    found = tree.map_over_datasets(lambda data: smooth(data) if data.data_vars else data)
    coarse = smooth(data.temperature[..., ::2])
    xr.testing.assert_identical(found["coarse/2"].to_dataset().temperature, coarse)


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


@npt.stencil(boundary=("valid", "wrap"))
def rises(u, dy=npt.spacing(0), dx=npt.spacing(1)):
    return (u[1, 0] - u[-1, 0]) / (2 * dy), (u[0, 1] - u[0, -1]) / (2 * dx)


@npt.stencil(boundary="nearest")
def diffused(u, r, dx=npt.spacing(0)):
    return u[0] + r * (u[-1] - 2 * u[0] + u[1]) / (dx * dx)


@npt.stencil
def twice(u, r, dx=npt.spacing(-1)):
    first = diffused(u, r, dx)
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
        wanted = rises(u, -0.5, step)
        assert type(wanted[0]) is xr.DataArray
        equal(rises(u), wanted)
        equal(pickle.loads(pickle.dumps(rises))(u), wanted)
        equal(rises(u, dx=step), wanted)
        turned = rises(u.transpose("lon", "time", "lat"), dims=("lat", "lon"))
        equal(turned, [one.transpose("lon", "time", "lat") for one in wanted])
        equal(rises(u, axes=(1, 2)), wanted)
        equal(rises(u, dims=("lon", "lat")), rises(u, step, -0.5, dims=("lon", "lat")))
        equal(u.npt.map(rises, dims=("lat", "lon")), wanted)
        with dask.config.set(scheduler="sync"):
            equal(rises(u.chunk({"lat": 2, "lon": 3})), wanted)
        equal(npt.compute(*rises(npt.lazy(u))), wanted)
    # A value that is given wins.
    np.testing.assert_array_equal(rises(u, 1.0, dx=3.0)[0], rises(u.values, 1.0, 3.0)[0])
    bare = u.drop_vars("lat")
    equal(rises(bare, 2), rises(bare, 2, 0.25))


def test_each_variable_each_lazy_result_steps_and_stages_have_their_own():
    u = field()
    fine = u.isel(time=0, lat=slice(0, 4))
    made = rises(xr.Dataset({"u": u, "v": 2 * u}))[1]
    assert made.v.identical((rises(2 * u)[1]).rename("v"))
    line = xr.Dataset({"a": fine.isel(lon=0, drop=True), "b": fine.isel(lat=0, drop=True)})
    assert set(diffused(line[["a"]], 0.1)) == {"a"}
    assert diffused(line, 0.1, dims="lon").b.identical(diffused(line.b, 0.1, 0.25))
    other = npt.stencil(boundary="valid", every=2)(lambda u: u[0])
    u = field()[0, 0]
    made = diffused(other(npt.lazy(u)), 0.1).compute()
    assert made.identical(diffused(other(u), 0.1, 0.5))
    u = field()[0, 0]
    for _ in range(2):
        for r in (0.01, lambda step: 0.01 * step):
            assert diffused.iterate(u, r, steps=3).identical(diffused.iterate(u, r, 0.25, steps=3))
        assert twice(u, 0.1).identical(twice(u, 0.1, 0.25))
        assert twice.iterate(u, 0.01, steps=2).identical(twice.iterate(u, 0.01, 0.25, steps=2))
    cut = diffused.iterate(u.chunk({"lon": 3}), 0.01, steps=3).compute(scheduler="sync")
    assert cut.identical(diffused.iterate(u, 0.01, 0.25, steps=3))
    diffused(u, 0.1)
    with nothing_compiled():
        diffused(field(step=0.125)[0, 0], 0.1)


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
    refuses(ValueError, r"not evenly spaced.* or let the kernel take the dist", rises, data)
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
        lambda: diffused(da.ones(4, chunks=2), 0.1), lambda: diffused(npt.lazy(x), 0.1),
        lambda: diffused.iterate(x, 0.1, steps=2), lambda: diffused.debug(x, 0.1),
        lambda: diffused.bench(x, 0.1),
    ):  # fmt: skip
        refuses(TypeError, r"diffused\(\) needs a value for 'dx': .* give dx=", call)
    np.testing.assert_array_equal(diffused(x, 0.1, dx=2.0), diffused.debug(x, 0.1, 2.0))
    assert "diffused" in diffused.explain("float64")
    assert "def " in diffused.source("float64")
    assert repr(diffused) == "<stencil diffused(u, r, dx=npt.spacing(0))>"
