"""What type checkers know of calls; `make lint` runs mypy and pyright on this file.

It passes where every call has the type that is written beside it, and where all that is marked
as a mistake is one: marks that nothing needs are mistakes themselves.
"""

from typing import Any, assert_type

import dask.array as da
import numpy as np
import xarray as xr
from numpy.typing import NDArray

import ninepoint as npt


@npt.stencil
def scaled(x: Any, k: float = 2) -> Any:
    return k * x[0, 0]


@npt.stencil(boundary="wrap")
def heat(u: Any, r: float) -> float:
    return float(u[0, 0] + r * (u[0, 1] - u[0, 0]))


@npt.stencil
def slopes(x: Any) -> tuple[float, float]:
    return x[1, 0] - x[0, 0], x[0, 1] - x[0, 0]


@npt.stencil
def mixed(k: float, x: Any) -> float:
    return k * float(x[0, 0])


def kinds(
    array: NDArray[np.uint8], chunks: da.Array, named: xr.DataArray, variables: xr.Dataset
) -> None:
    lazy = npt.lazy(array)
    # A result is of the kind of the first field; its dtype depends on the kernel.
    assert_type(scaled(array), NDArray[Any])
    assert_type(scaled(chunks, 3), da.Array)
    assert_type(scaled(named, k=3), xr.DataArray)
    assert_type(scaled(variables), xr.Dataset)
    assert_type(scaled(lazy), npt.Lazy)
    assert_type(scaled(scaled(lazy)), npt.Lazy)
    # So it is with options of the call.
    assert_type(scaled(array, boundary="reflect"), NDArray[Any])
    assert_type(scaled(chunks, 3, boundary="reflect", dtype="float32"), da.Array)
    assert_type(scaled(named, k=3, dims=("lat", "lon")), xr.DataArray)
    assert_type(heat(array, 0.2, threads=1), NDArray[Any])
    assert_type(heat(array, r=0.2, out=array, cval=0), NDArray[Any])
    assert_type(heat(chunks, 0.2, axes=(0, 1), overflow="wrap"), da.Array)
    # Several results.
    assert_type(slopes(array), tuple[NDArray[Any], ...])
    assert_type(slopes(lazy, boundary="wrap"), tuple[npt.Lazy, ...])
    down, right = slopes(named)
    assert_type(down + right, xr.DataArray)
    # Steps, and what is told of them.
    assert_type(heat.iterate(array, 0.2, steps=3), Any)
    assert_type(heat.iterate.explain(array, 0.2, steps=3), str)
    # Where the first argument is no array, nothing is claimed.
    assert_type(mixed(2.0, array), Any)
    assert_type(scaled([[1, 2], [3, 4]]), Any)
    assert_type(scaled(x=array), Any)


def unknown(stencil: npt.Stencil, array: NDArray[np.float64]) -> None:
    """Any stencil takes what it likes."""
    stencil(array, 3, s=4)
    stencil(array, 2, boundary="wrap", r=3)


def mistakes(array: NDArray[np.uint8]) -> None:
    heat(array)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
    heat(array, 0.2, 0.3)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
    heat(array, s=0.2)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
    heat(array, "r")  # type: ignore[call-overload] # pyright: ignore
    scaled()  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]


unknown(scaled, np.ones((3, 3)))
unknown(heat, np.ones((3, 3)))
