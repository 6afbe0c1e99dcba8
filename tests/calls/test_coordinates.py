"""Spacings of coordinates that are rounded, huge, or of other calendars; and cures for others."""

from __future__ import annotations

import datetime
import functools
import re
from typing import Any

import numpy as np
import pytest
import xarray as xr

import ninepoint as npt


@npt.stencil(boundary="reflect")
def told(u, dx=npt.spacing(0)):
    return u[0] * 0 + dx


@functools.total_ordering
class Date:
    """A day of a calendar of 360 days, with what cftime's dates do."""

    def __init__(self, days: float) -> None:
        self.days = days

    def __sub__(self, other: Date) -> datetime.timedelta:
        return datetime.timedelta(days=self.days - other.days)

    def __lt__(self, other: Date) -> bool:
        return self.days < other.days

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Date) and self.days == other.days

    def __hash__(self) -> int:
        return hash(self.days)


def dates(days: Any) -> Any:
    return np.array([Date(float(day)) for day in days], object)


def along(values: Any) -> xr.DataArray:
    return xr.DataArray(np.ones(len(values)), {"t": values}, "t")


# Thirty in a second, and their times to the millisecond.
frames = np.array("2020-01-01", "datetime64[ns]") + 10**6 * np.rint(
    np.arange(90) * 100 / 3
).astype(int)


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.round(np.linspace(0, 360, 384, endpoint=False), 3), 0.9375),
        (np.round(np.linspace(0, 360, 384, endpoint=False), 3).astype("float32"), 0.9375),
        (np.round(np.linspace(90, -90, 541), 2), -1 / 3),
        (np.linspace(0, 360, 384, endpoint=False, dtype="float32"), 0.9375),
        (2**60 + 3 * np.arange(5), 3),
        (np.uint64(2**64 - 30) + np.arange(5, dtype="uint64") * np.uint64(3), 3),
        (np.array([250, 190, 130, 70, 10], "uint8"), -60),
        (frames, 1 / 30),
        (dates(np.arange(6) * 30), 30 * 86400),
        (dates(10 - np.arange(6) / 4), -21600),
    ],
    ids=["decimals", "singles", "thirds", "float32", "int64", "uint64", "falling", "frames",
         "cftime", "hours"],
)  # fmt: skip
def test_even_but_for_their_rounding(values, step) -> None:
    assert told(along(values)).values[0] == pytest.approx(step, rel=2e-4)


@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0, 2.1],
        [0, 30, 61, 91, 122],
        [0.0, 366.0, 731.0, 1096.0],
        2**60 + np.array([0, 1, 3]),
        np.rad2deg(np.arcsin(np.polynomial.legendre.leggauss(64)[0])).round(3),
        np.geomspace(1, 2, 40).round(4),
        np.array(["2020", "2021", "2022"], "datetime64[ns]"),
        dates([0, 1, 2.5]),
    ],
    ids=["coarse", "months", "years", "int64", "gauss", "powers", "dates", "cftime"],
)
def test_uneven_all_the_same(values) -> None:
    with pytest.raises(ValueError, match="'t' is not evenly spaced"):
        told(along(values))


@npt.stencil
def by_difference(x, y):
    return (x[0, 1] - x[0, -1]) / (y[0, 1] - y[0, -1]) + 0 * x[1, 0]


@npt.stencil
def by_distance(x, y):
    return (x[0, 1] - x[0, -1]) / y[0, 0] + 0 * x[1, 0]


@pytest.mark.parametrize(
    "rule",
    ["nearest", "reflect", "fill", "wrap", "mirror", "constant", ("nearest", "mirror")],
    ids=str,
)
@pytest.mark.parametrize("kind", ["float64", "uint16", "datetime64[s]", "cftime"])
def test_the_cure_is_right_under_every_border(rule, kind) -> None:
    """Under "wrap" it gave the first meridian a distance of -359 degrees."""

    @npt.stencil(boundary=("nearest", rule))
    def slope(x, dx=npt.spacing(1)):
        return (x[0, 1] - x[0, -1]) / (2 * dx) + 0 * x[1, 0]

    places = np.array([0, 40, 90, 180, 270])
    values = dates(places / 86400) if kind == "cftime" else places.astype(kind)
    data = xr.DataArray(np.add.outer([0, 9], places * 2.0), {"lon": values}, ("lat", "lon"))
    with pytest.raises(ValueError, match="not evenly spaced") as raised:
        slope(data)
    pattern = r"here (\w+), and divide by (.*?)(?:, for|;).* gives (.*) for it"
    words = re.search(pattern, str(raised.value))
    assert words is not None
    name, divisor, given = words.groups()
    kernel = {"y[0, 1] - y[0, -1]": by_difference, "y[0, 0]": by_distance}[divisor]
    assert name == "y"  # the kernel has an x
    names = {"data": data, "np": np, "xr": xr, "period": 360.0}
    made = re.search(r"with c = (.*?)(?:, period.*)? and e = (.*), the call", str(raised.value))
    if made is not None:
        names["c"] = eval(made[1], names)
        names["e"] = eval(made[2], names)
    made = kernel.debug(
        data.values, np.asarray(eval(given, names), float), boundary=("nearest", rule)
    )
    before, after = (rule, rule) if isinstance(rule, str) else rule
    if before != "fill":
        np.testing.assert_allclose(made[:, 1:-1], 2)
        first = {"wrap": (80 - 540) / 130, "mirror": 0, "constant": None}.get(before, 2)
        last = {"wrap": -360 / 180, "mirror": 0, "constant": None}.get(after, 2)
        for got, wanted in ((made[0, 0], first), (made[0, -1], last)):
            assert wanted is None or got == pytest.approx(wanted)
        assert np.isfinite(made).all()
