"""`@ufunc`: makes a function of numbers apply to whole arrays, element by element.

    multiply(x, y)     ->     a stencil that looks at no neighbour, along one axis

It is a way of writing a kernel: what is compiled, planned and run is what a stencil is.  What is
NumPy's here are the manners of a call: numbers among the arrays, results without axes, and
arrays of other libraries, which are asked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, Unpack, overload

import numpy as np

from ..arrays import accepted
from ..arrays.accepted import (
    bare,
    has_no_axes,
    is_dask,
    is_dataset,
    is_device,
    is_lazy,
    is_xarray,
    listed,
)
from ..arrays.foreign import Applied, asked, asks
from ..arrays.keys import Key
from ..base.tracebacks import door, shorten
from ..language.decorated import NOTHING, decorator
from ..language.definitions import returned_values
from ..language.parameters import array_parameters, indexed_parameters
from ..language.signature import as_read, filled
from ..language.source import capture
from ..program.definition import Call, Definition, Leaves
from ..program.options import UFUNC, Options, Place, UfuncOptions, defaults
from .stencil import RESULT, Stencil

# Options of stencils that say nothing where there are no neighbours, and why.
_REFUSED = {
    "boundary": "looks at no neighbour, so there is no border",
    "cval": "looks at no neighbour, so there is no border",
    "every": "gives a result for each element",
    "upsample": "gives one result for each element",
    "axes": "works along all axes",
    "dims": "works along all dimensions",
}

# A dimension for DataArrays that have none; not one of a user's.
_ELEMENT = "ninepoint element"


class Ufunc(Stencil):
    """A function of numbers, to be applied to whole arrays.

    Made by `ufunc`.  Call it with arrays and numbers, which broadcast; see `__call__`.  In a
    kernel it may be called on fields, where it is a stage like other stencils, and on numbers.

    Attributes
    ----------
    nin : int
        How many arrays it takes.
    nout : int
        How many arrays it gives, as far as its text shows.

    Examples
    --------
    >>> import ninepoint as npt
    >>> @npt.ufunc
    ... def power(x, y, *, scale=1.0):
    ...     return scale * x**y
    >>> power.fields, power.scalars, power.nin, power.nout
    (('x', 'y'), ('scale',), 2, 1)
    """

    def __init__(self, definition: Definition) -> None:
        # The text is gone through once, not for each column of pandas.
        values = returned_values(definition.function.definition)
        self.nout = max([len(v.elts) for v in values if isinstance(v, ast.Tuple)], default=1)
        self.nin = len(definition.fields)
        super().__init__(definition)

    @filled(result=RESULT)
    def __call__(
        self,
        /,
        *args: Any,
        out: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
        threads: int | None = None,
        device: str | None = None,
        **named: Any,
    ) -> Any:
        """Apply the function to each element of arrays.

        Parameters
        ----------
        *args, **named
            Arrays and scalars, as the function's parameters.  Parameters by position are arrays
            of NumPy, Dask or xarray, or numbers, and broadcast as NumPy's do, those of xarray by
            the names of their dimensions.  Arrays of other libraries that take part in NumPy's
            functions, such as the columns of pandas, take part here too.  Parameters that have
            a number for a default, or a name only, are scalars.
        {result}
        threads : int, optional
            The greatest number of threads; by default all that the process may use.
        device : {"cuda"}, optional
            Compute on the GPU what lies in the memory of the CPU; as for a stencil.

        Returns
        -------
        array, number or tuple of these
            One for each value the function returns, of the kind of the arrays; a number of NumPy
            where none of them has an axis.

        Raises
        ------
        StencilError
            If the function cannot be compiled for these types.
        ValueError
            If shapes, `dtype` or `out` do not fit.
        TypeError
            If an argument is missing, unknown or no array of numbers.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.ufunc
        ... def over(x, y, *, gain=1):
        ...     return gain * (x - y) if x > y else 0
        >>> over(np.array([[1], [9]], dtype="uint8"), np.array([2, 5], dtype="uint8"), gain=10)
        array([[ 0,  0],
               [70, 40]])
        """
        try:
            if named:
                _refuse(self.__name__, named)
            return super().__call__(
                *args, out=out, dtype=dtype, overflow=overflow, threads=threads, device=device,
                **named,
            )  # fmt: skip
        except Exception as error:
            shorten(error)
            raise

    def _first(
        self, call: Call, bound: Sequence[Any], place: Place, key: Key | None, leaves: Leaves
    ) -> Any:
        """Do a call of a kind that was not met before, or on no array of NumPy that has axes."""
        given = dict(zip(self.parameters, bound, strict=True))
        fields, out = {name: given[name] for name in self.fields}, place.out

        def again(others: Mapping[str, Any], out: Any = out) -> Any:
            """The call with others in the place of some arrays."""
            args, named = self._arguments.given({**given, **others})
            told = {"dtype": call.options.dtype, "overflow": call.options.overflow, **named}
            return self(*args, out=out, threads=place.threads, device=place.device, **told)

        def applied(*arrays: Any, out: Any = None) -> Any:
            return again(dict(zip(fields, arrays, strict=True)), out)

        if asks((*fields.values(), *listed(out))):
            function = Applied(applied, self.__name__, self.nin, self.nout)
            return asked(function, list(fields.values()), out)
        if any(map(is_dataset, fields.values())):
            from ..arrays.xarray import over_variables

            return over_variables(again, fields, (), lambda _: 0)
        if all(map(has_no_axes, fields.values())):
            return _of_numbers(fields, out, again)
        return super()._first(call, bound, place, key, leaves)

    @door
    def debug(self, /, *args: Any, **named: Any) -> Any:
        """Compute the result by calling the function itself for every element, in Python.

        Slow and exact: prints, breakpoints and the debugger work inside the function.  The
        result is the definition that every back end is tested against.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays and numbers only; also `dtype` and `overflow`.

        Returns
        -------
        array, number or tuple of these
            As a call gives.

        Examples
        --------
        >>> import ninepoint as npt
        >>> @npt.ufunc
        ... def halved(x):
        ...     print("given", x)
        ...     return x // 2
        >>> int(halved.debug(7))
        given 7
        3
        """
        _refuse(self.__name__, named)
        made = super().debug(*args, **named)
        return tuple(one[()] for one in made) if isinstance(made, tuple) else made[()]


@overload
def ufunc(function: Callable[..., Any], /) -> Ufunc: ...


@overload
def ufunc(**options: Unpack[UfuncOptions]) -> Callable[[Callable[..., Any]], Ufunc]: ...


@as_read(defaults(UFUNC))
@filled(options=UfuncOptions.__doc__)
@door
def ufunc(function: Any = NOTHING, /, **options: Any) -> Any:
    """Make a function of numbers apply to whole arrays, element by element.

    The function is read, not run.  No types are declared; each combination of types is compiled
    when it first comes.

    Parameters
    ----------
    function : callable
        What happens to an element of each array.  Parameters by position are arrays; those that
        have a number for a default, or are given by name only (after ``*``), are scalars, of
        which another value compiles nothing anew.
    {options}

    Returns
    -------
    Ufunc
        Called with arrays and numbers.

    Raises
    ------
    StencilError
        If the function cannot be compiled; the message names the place and the cure.
    TypeError, ValueError
        If an option does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.ufunc
    ... def escape(c, *, most=50):
    ...     z = 0j
    ...     for n in range(most):
    ...         z = z * z + c
    ...         if abs(z) > 2:
    ...             return n
    ...     return most
    >>> x, y = np.linspace(-2, 1, 5), np.linspace(-1, 1, 3)
    >>> escape(x + 1j * y[:, None], most=20)
    array([[ 0,  2,  3,  3,  1],
           [20, 20, 20, 20,  2],
           [ 0,  2,  3,  3,  1]])
    """
    checked = Options.of("ufunc", options, UFUNC)

    def make(plain: FunctionType) -> Ufunc:
        captured = capture(plain)
        indexed = indexed_parameters(captured) - set(array_parameters(captured))
        standard = tuple(name for name in captured.parameters if name in indexed)
        own = replace(checked, neighborhood=((0, 0),), standard_indexing=standard, pointwise=True)
        return Ufunc(Definition(captured, own, plain))

    return decorator("ufunc", function, make)


def _refuse(name: str, named: Mapping[str, Any]) -> None:
    """Raise for options that say nothing where there are no neighbours."""
    for option in _REFUSED.keys() & named.keys():
        raise TypeError(f"the ufunc '{name}' {_REFUSED[option]}; leave '{option}=' out.")


def _of_numbers(fields: Mapping[str, Any], out: Any, call: Callable[..., Any]) -> Any:
    """A call on numbers and on arrays without axes: one on arrays with one element."""
    for one in listed(out):
        if isinstance(one, np.ndarray) and one.ndim:
            raise ValueError(f"out has shape {one.shape}, but the result has ().")
    # Beside an array on a GPU a number is a number, and lies nowhere.
    beside = any(map(is_device, fields.values()))
    arrays = {
        name: value if beside and not is_device(value) else _with_axis(value, name)
        for name, value in fields.items()
    }
    inner = tuple(one[None] if isinstance(one, np.ndarray) else one for one in listed(out))
    made = call(arrays, inner or None)
    if out is not None:
        return out[0] if isinstance(out, tuple | list) and len(out) == 1 else out
    # The result for an array with one element is one without axes.
    return bare([x.isel({_ELEMENT: 0}) if is_xarray(x) else x[0] for x in listed(made)])


def _with_axis(value: Any, name: str) -> Any:
    """A number, or an array without axes, as an array with one element."""
    if is_lazy(value):
        value = value.compute()
    if is_xarray(value):
        return value.expand_dims(_ELEMENT)
    if is_dask(value) or is_device(value):
        return value[None]
    return accepted.as_field(value, name)[None]
