"""Other libraries, asked, as NumPy asks them, to apply a function to their arrays themselves.

    multiply(df["a"], 2.0)     ->     df["a"].__array_ufunc__(applied, "__call__", df["a"], 2.0)
                               ->     applied(array, 2.0), of which pandas makes a Series

So a Series keeps its index, and whoever wrote the other library says what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.frozen import frozen
from ..language.functions import origin
from .accepted import is_dask, is_dataset, is_device, is_xarray, listed, refuse_foreign


@frozen
class Applied:
    """A function of arrays alone, as other libraries know those of NumPy.

    `function` takes the arrays by position and, if it is given, `out` by name.  Everything else
    that a call was told is bound in it: a library need not know of our options.

    The name is not the user's own.  Libraries take functions that are called as NumPy's are for
    NumPy's, and a user's `multiply` may do something else.
    """

    function: Callable[..., Any]
    name: str
    nin: int
    nout: int
    signature: str | None = None

    @property
    def __name__(self) -> str:
        return f"ninepoint.{self.name}"

    def __call__(self, *arrays: Any, **out: Any) -> Any:
        """Apply it to what the other library takes from its arrays."""
        return self.function(*arrays, **out)


def asked(applied: Applied, inputs: Sequence[Any], out: Any = None) -> Any:
    """What the arrays of other libraries among the inputs make of a function.

    Parameters
    ----------
    applied : Applied
    inputs : sequence
        All arrays and numbers of the call; one of them at least `asks`.
    out : array or tuple of arrays, optional

    Raises
    ------
    TypeError
        If none of them knows what to do, as for NumPy's functions.
    """
    outs = tuple(listed(out))
    named = {"out": outs} if outs else {}
    others = asks((*inputs, *outs))
    for value in others:
        method = type(value).__array_ufunc__
        made = NotImplemented
        if method is not None:
            try:
                made = method(value, applied, "__call__", *inputs, **named)
            except NotImplementedError as error:
                if repr(applied) not in str(error):
                    raise
                kinds = " and ".join(type(one).__name__ for one in inputs)
                raise TypeError(
                    f"'{applied.name}' cannot be applied to {kinds}: {type(value).__module__}"
                    f".{type(value).__name__} does not lay them beside each other for functions "
                    "other than its own; give arrays of NumPy, as .to_numpy() makes them."
                ) from error
        if made is not NotImplemented:
            return made
    for value in others:
        refuse_foreign(value, "an argument")
    kinds = ", ".join(type(value).__name__ for value in others)
    raise TypeError(
        f"'{applied.name}' cannot be applied to {kinds}: the library gives no way to do it; "
        "give it arrays of NumPy, as numpy.asarray(x) makes them."
    )


def asks(values: Sequence[Any]) -> list[Any]:
    """Those that have a say in what functions make of them, and are of no kind that is done here.

    One of each kind, from left to right, but a subclass before its base.  It costs next to nothing
    where there are none.
    """
    found: list[Any] = []
    usual = np.ndarray.__array_ufunc__
    for value in values:
        kind = type(value)
        if kind is np.ndarray or getattr(kind, "__array_ufunc__", usual) is usual:
            continue
        if origin(kind) == "ninepoint" or kind in map(type, found):
            continue
        if is_dask(value) or is_xarray(value) or is_dataset(value) or is_device(value):
            continue
        before = (k for k, one in enumerate(found) if issubclass(kind, type(one)))
        found.insert(next(before, len(found)), value)
    return found
