"""`@gufunc`: makes a `Gufunc` of a function of core arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from ..arrays.accepted import storage_types
from ..language.errors import hint
from ..language.readable import with_room
from ..language.signature import as_read
from ..language.source import capture
from ..tracebacks import door
from .api import Gufunc
from .definition import GufuncDefinition, Options
from .signature import parsed
from .sizes import whole

_OPTIONS = "dtype, sizes, fastmath and boundscheck"


@as_read
@door
def gufunc(
    signature: str,
    /,
    *types: Any,
    dtype: Any = None,
    sizes: Mapping[str, int] | None = None,
    fastmath: bool = False,
    boundscheck: bool = True,
    **unknown: Any,
) -> Callable[[Callable[..., Any]], Gufunc]:
    """Make a function of core arrays apply to stacks of them.

    The function is ordinary code for Numba: it is given the core arrays of one item, and returns
    its results.  The signature names their axes; no types are declared.  Each combination of
    types is compiled when it first comes.

    Parameters
    ----------
    signature : str
        The core axes of each input and of each result, such as ``"(n,k),(k,m)->(n,m)"``.  A
        number is a fixed size.  The function's other parameters are numbers.
    dtype : dtype or sequence of dtype, optional
        The type of the result, or of each; by default what the function gives, as Numba infers
        it.
    sizes : dict of str to int, optional
        Sizes that only results have.  A parameter of the function with the name of a size tells
        it as well.
    fastmath : bool, optional
        Let floats be reordered, as if their arithmetic were exact.
    boundscheck : bool, optional
        Look at each index whether it is inside its array, and raise an IndexError if it is not.
        Without, what is outside is read and written as memory happens to lie.

    Returns
    -------
    Gufunc
        Called with arrays.

    Raises
    ------
    ValueError
        If the signature cannot be read, or does not fit the function.
    StencilError
        If the function cannot be one of core arrays; the message names the place and the cure.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.gufunc("(n),(n)->()")
    ... def weighted(x, w):
    ...     return np.sum(x * w) / np.sum(w)
    >>> weighted(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([1, 1, 2]))
    array([2.25, 5.25])
    """
    if types or isinstance(signature, list | tuple):
        core = next((one for one in types if isinstance(one, str)), "(n)->()")
        raise TypeError(
            "gufunc() takes the signature of the core axes alone: no types are declared, so write "
            f'@gufunc("{core}").'
        )
    for name in unknown:
        raise TypeError(f"gufunc() has no option '{name}'; it has {_OPTIONS}{hint(name)}.")
    read = parsed(signature)
    if sizes is not None and not isinstance(sizes, Mapping):
        raise TypeError(f'sizes= is a dict such as {{"k": 4}}, not {sizes!r}.')
    told = tuple(sorted((name, whole(name, value)) for name, value in (sizes or {}).items()))
    options = Options(storage_types(dtype), told, bool(fastmath), bool(boundscheck))
    if options.dtypes is not None and len(options.dtypes) != len(read.outputs):
        raise ValueError(
            f"dtype= names {len(options.dtypes)} dtypes, but {read} has "
            f"{len(read.outputs)} results."
        )

    @door
    def decorate(function: Callable[..., Any]) -> Gufunc:
        plain = getattr(function, "py_func", function)
        if isinstance(function, Gufunc) or not isinstance(plain, FunctionType):
            raise TypeError(
                "a gufunc is made from a Python function of core arrays, not from "
                f"{getattr(function, '__name__', repr(function))!r}."
            )

        def made() -> Gufunc:
            return Gufunc(GufuncDefinition(capture(plain), read, options), plain)

        return with_room(made, plain)

    return decorate
