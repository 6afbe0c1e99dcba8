"""What type checkers and editors are told of calls: parameters, and which array gives which.

    @npt.stencil
    def heat(u, r=0.2): ...          Stencil[(u, r=...), result]

    heat(array, 0.3)                 an array of NumPy, Dask or xarray gives one of its kind
    heat(array)                      parameters are those of the function
    heat(array, boundary="wrap")     with an option of a call they are not checked

A checker cannot add options to the parameters of another function, so there is a signature for
each option.  Nothing here does anything in a running program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

if TYPE_CHECKING:
    import dask.array
    import typing_extensions
    import xarray
    from numpy.typing import NDArray

    from .recording import Lazy

    # What a stencil is a function of, and what its function gives at one point.
    P = typing_extensions.ParamSpec("P", default=...)
    R_co = typing_extensions.TypeVar("R_co", covariant=True, default=Any)

    # A result is of the kind of the first field.
    A = TypeVar("A", NDArray[Any], Lazy, dask.array.Array, xarray.DataArray, xarray.Dataset)

    # What one result is at one point, and several of them.
    One = complex | np.generic
    Several = tuple[Any, ...]

    # The same, of whole arrays.
    Each = tuple[A, ...]
else:
    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)

# The parameters besides the first one, and the result of what is decorated.
Q = ParamSpec("Q")
R = TypeVar("R")
