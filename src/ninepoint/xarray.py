"""The accessor `npt` of xarray objects: `import ninepoint.xarray` makes it.

field.npt.map(smooth, dims=("lat", "lon"))     =     smooth(field, dims=("lat", "lon"))
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import xarray as xr

from .language.decorated import Decorated

# Some of xarray's functions carry no annotations.
untyped: Any = xr

__all__ = ["DataArrayAccessor", "DatasetAccessor"]


class _Accessor:
    """What both kinds of objects have."""

    def __init__(self, found: Any) -> None:
        self._object = found

    def map(
        self,
        function: Any,
        /,
        *args: Any,
        dims: Hashable | Sequence[Hashable] | None = None,
        **options: Any,
    ) -> Any:
        """Apply a stencil along dimensions, by name.

        Whatever the order of the dimensions and however they are cut into chunks, each point gets
        its neighbours; there is no depth to give.

        Parameters
        ----------
        function : Stencil, Ufunc, Gufunc or filter
            What to apply; this object is its first argument.
        *args
            Its other arguments: objects of xarray, arrays, numbers.
        dims : name or sequence of names, optional
            The dimensions that a stencil works along, in the order of its offsets; by default the
            last ones.
        **options
            Arguments by name, and options of a call such as `boundary`.

        Returns
        -------
        DataArray, Dataset, or a tuple of them
            With the coordinates and attributes of this object, and the way it is stored.  Of a
            Dataset the variables of numbers that have the dimensions are computed, and the others
            are as they were.

        Raises
        ------
        TypeError
            If `function` is none of ninepoint's.
        ValueError
            If a dimension does not exist, or no variable of a Dataset has them all.

        Examples
        --------
        >>> import numpy as np
        >>> import xarray as xr
        >>> import ninepoint as npt
        >>> import ninepoint.xarray
        >>> @npt.stencil(boundary="nearest")
        ... def change(x):
        ...     return x[1] - x[0]
        >>> level = xr.DataArray([[1, 2, 4], [0, 5, 5]], dims=("day", "hour"))
        >>> level.npt.map(change, dims="hour").values
        array([[1, 2, 0],
               [5, 0, 0]])
        """
        module = getattr(function, "__module__", "")
        if not isinstance(function, Decorated) and not module.startswith("ninepoint.filters."):
            name = getattr(function, "__name__", None) or repr(function)
            raise TypeError(
                f"npt.map applies what ninepoint makes, and {name} is none of it; decorate it "
                "with @ninepoint.stencil, or call any function of the whole array with .pipe."
            )
        if dims is not None:
            options["dims"] = dims
        return function(self._object, *args, **options)


@untyped.register_dataarray_accessor("npt")
class DataArrayAccessor(_Accessor):
    """`field.npt` of a DataArray.

    Examples
    --------
    >>> import xarray as xr
    >>> import ninepoint as npt
    >>> import ninepoint.xarray
    >>> level = xr.DataArray([0.0, 3.0, 3.0], dims="hour")
    >>> level.npt.map(npt.filters.mean, size=3, dims="hour").values
    array([1., 2., 3.])
    """


@untyped.register_dataset_accessor("npt")
class DatasetAccessor(_Accessor):
    """`data.npt` of a Dataset.

    Examples
    --------
    >>> import xarray as xr
    >>> import ninepoint as npt
    >>> import ninepoint.xarray
    >>> data = xr.Dataset({"level": ("hour", [0.0, 3.0, 3.0]), "name": "gauge"})
    >>> data.npt.map(npt.filters.mean, size=3, dims="hour").level.values
    array([1., 2., 3.])
    """
