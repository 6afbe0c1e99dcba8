"""Labels of xarray: those of values at the border, and those of finer results."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt

xr = pytest.importorskip("xarray")

LABELS = [0.0, 2.0, 4.0, 6.0]


@npt.stencil
def heat(u):
    return u[0, 0] + 0.1 * (u[-1, 0] + u[1, 0] - 2 * u[0, 0] + u[0, 1] - u[0, -1])


@npt.stencil(upsample=2, boundary="nearest")
def doubled(x):
    return x[0]


def test_values_at_the_border_are_laid_by_their_labels():
    field = xr.DataArray(np.random.default_rng(0).random((3, 4)), {"x": LABELS}, ("y", "x"))
    wall = xr.DataArray([5.0, 6, 7, 8], {"x": LABELS}, "x")
    wanted = heat(field.data, boundary=(npt.dirichlet(wall.data), "nearest"))

    def ways(wall):
        border = (npt.dirichlet(wall), "nearest")
        yield lambda: heat(field, boundary=border)
        yield lambda: heat(field.T, boundary=border, dims=("y", "x")).T
        yield lambda: heat.iterate(field, steps=1, boundary=border)
        yield lambda: heat(npt.lazy(field), boundary=border).compute()
        yield lambda: heat(xr.Dataset({"u": field}), boundary=border)["u"]

    for call in ways(wall):
        np.testing.assert_array_equal(call(), wanted)
    with pytest.raises(TypeError, match="border values of lazy arrays are numbers"):
        heat(field.chunk(2), boundary=(npt.dirichlet(wall), "nearest"))
    # Without labels they are laid by position, and one value is that of all.
    for call in ways(wall.drop_vars("x")):
        np.testing.assert_array_equal(call(), wanted)
    flat = heat(field.data, boundary=(npt.dirichlet(5.0), "nearest"))
    for call in ways(wall[:1]):
        np.testing.assert_array_equal(call(), flat)
    for other in (wall[::-1], wall.assign_coords(x=np.add(LABELS, 1))):
        for call in ways(other):
            with pytest.raises(
                ValueError, match=r"values at the border along 'y' differ .* align"
            ):
                call()


@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("factor", [2, 3, 4, 7])
@pytest.mark.parametrize(("step", "unit"), [(1, "s"), (3, "s"), (1, "ms"), (1, "us"), (7, "us")])
def test_labels_of_times_are_where_the_points_are(kind, factor, step, unit):
    times = (np.arange(5) * step + 12).astype(f"{kind}[{unit}]")
    made = doubled(xr.DataArray(np.arange(5.0), {"t": times}, "t"), upsample=factor)
    exact = 12 + step * (np.arange(5 * factor) - (factor - 1) / 2) / factor
    if "t" not in made.coords:
        # Nanoseconds are too coarse for such places.
        assert unit != "s"
        assert factor in (3, 7)
        return
    labels = made.t.values
    assert len(set(labels)) == len(labels)
    told = labels.astype(f"{kind}[ns]").astype(np.int64)
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3}[unit]
    np.testing.assert_allclose(told, exact * scale, rtol=0, atol=0.5)
    assert float(np.ptp(np.diff(told))) <= 1


def test_labels_of_times_that_no_unit_holds():
    for times in (np.arange(5).astype("M8[ns]"), (np.arange(3) * 2**61).astype("M8[s]")):
        made = doubled(xr.DataArray(np.zeros(len(times)), dims="t").assign_coords(t=("t", times)))
        assert "t" not in made.coords or len(set(made.t.values)) == made.size
