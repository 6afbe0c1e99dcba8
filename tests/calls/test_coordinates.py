"""Spacings of coordinates that are rounded, huge, or of other calendars; and cures for others."""

from __future__ import annotations

import datetime
import functools
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
