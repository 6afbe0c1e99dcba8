"""What makes a function of whole arrays of a definition: calls are bound once for each kind.

heat(array, 0.25)     the first one     binds, checks and compiles
heat(other, 0.5)      others like it    what was bound does them at once
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..arrays.keys import Key, call_key
from ..base.remembered import Remembered
from ..base.tracebacks import shorten
from ..language.decorated import Decorated
from ..language.definitions import ArrayFunction
from ..language.signature import filled, signature_text
from ..program.definition import Call, Definition, Leaves, leaves_of, numbers_key
from ..program.options import Place
from ..program.waiting import before_writing, waiting

# Values of all parameters, numbers of all calls, out -> result.
Prepared: TypeAlias = Callable[[Sequence[Any], Leaves, Any], Any]

# What the docstrings of calls have in common.
RESULT = """
    out : array or tuple of arrays, optional
        Where to write the result; it may overlap a field, and be of a shorter float type.
    dtype : dtype or sequence of dtype, optional
        The type of the result, or of each; its byte order is the machine's.
    overflow : {"saturate", "wrap"}, optional
        What happens to what `dtype` cannot hold: the nearest number that it holds, or the
        lowest bits.  Floats are rounded to the nearest integer; what wraps is cut.
    """

_CALL = """
    boundary : str or sequence, optional
        What a neighbour outside the array is: "fill", "keep", "valid", "constant",
        "nearest", "reflect", "mirror" or "wrap"; one name, or for each axis a name or a
        pair (before, after).  `dirichlet`, `neumann` and `robin` stand in the place of names.
    cval : number, optional
        The value of "fill" and "constant".
    axes : sequence of int, optional
        The axes that the stencil works on, in the order of its offsets.
    dims : sequence of str, optional
        The same by name, for xarray objects.
    every : int or sequence of int, optional
        Of how many points along each axis one is made: with ``every=(2, 2)`` the result is
        that of the same call without it, ``[::2, ::2]``, and result p reads around 2 * p.
        One number is that of all axes.
    upsample : int or sequence of int, optional
        How many times as many points the result has, along all axes or along each: the
        result p is computed around the element p // k, and ``npt.index()`` is p.
    threads : int, optional
        The greatest number of threads; by default all that the process may use.
    device : {"cuda"}, optional
        Compute NumPy arrays on the GPU, to which they are copied, and the result back; a
        part at a time where they are too large, and the chunks of Dask arrays one by one.
        By default a call is done where its arrays are: those of CuPy on their GPU.
    """


class OnArrays(Decorated, ArrayFunction):
    """A definition that is called with whole arrays."""

    definition: Definition

    # Does a call of a kind that was not met before, or that depends on more than its kind.
    _first: Callable[..., Any]

    def __init__(self, definition: Definition) -> None:
        # What does calls that went well, by their kind.
        self._bound_calls: Remembered[Prepared] = Remembered(256)
        self._kind, self._arguments = definition.kind, definition.arguments
        parameters = definition.parameters
        self._numbers = [(name, parameters.index(name)) for name in definition.scalars]
        words = f"{self._kind} of {', '.join(parameters)}"
        of_call = inspect.signature(type(self).__call__).parameters.values()
        options = {one.name: one.default for one in of_call if one.kind is one.KEYWORD_ONLY}
        super().__init__(definition, options, definition.live, words)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the function."""
        return self.definition.parameters

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the parameters that are read relative to the point."""
        return self.definition.fields

    @property
    def scalars(self) -> tuple[str, ...]:
        """The names of all other parameters: numbers, and small arrays."""
        return self.definition.scalars

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The values of the parameters that have one."""
        return types.MappingProxyType(dict(self.definition.defaults))

    @property
    def pointwise(self) -> bool:
        """Whether it was made from a function of numbers."""
        return self.definition.pointwise

    def __repr__(self) -> str:
        return f"<{self._kind} {self.__name__}{signature_text(self.definition.function)}>"

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks for where a function that it compiles uses the stencil."""
        raise ValueError(
            f"The {self._kind} '{self.__name__}' makes whole arrays, so no function that Numba "
            "compiles can call it; call it before, and give the function what it makes."
        )

    @filled(options=_CALL, result=RESULT)
    def _apply(
        self,
        /,
        *args: Any,
        boundary: Any = None,
        cval: Any = None,
        axes: Sequence[int] | None = None,
        dims: Sequence[Any] | None = None,
        out: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
        every: int | Sequence[int] | None = None,
        upsample: int | Sequence[int] | None = None,
        threads: int | None = None,
        device: str | None = None,
        **named: Any,
    ) -> Any:
        """Apply the stencil to whole arrays.

        Parameters
        ----------
        *args, **named
            Fields, scalars and coefficient arrays, as the function's parameters.  A field is
            an array of NumPy, CuPy, Dask or xarray, or another one in the memory of a GPU;
            the last axes are the stencil's, those before are a stack, and fields broadcast as
            NumPy's do.
        {options}
        {result}

        Returns
        -------
        array or tuple of arrays
            One for each value the function returns, of the kind of the fields; of CuPy for any
            array on a GPU.

        Raises
        ------
        StencilError
            If the function cannot be compiled for these types, or not for a GPU.
        ValueError
            If shapes, border, `cval`, `dtype` or `out` do not fit.
        TypeError
            If an argument is missing, unknown or no array of numbers, or if some arrays lie on a
            GPU and others do not.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil
        ... def difference(x):
        ...     return x[1] - x[-1]
        >>> difference(np.array([1, 4, 9, 16], dtype="uint8"), boundary="nearest")
        array([ 3,  8, 12,  7], dtype=int16)
        """
        try:
            if out is not None and waiting:
                before_writing(out)
            bound = self._arguments.bound(args, named)
            key: Key | None = None
            leaves: Leaves = ()
            if dims is None and device is None:
                key = call_key(
                    bound,
                    (boundary, cval, axes, out, dtype, overflow, threads, every, upsample),
                )
            if key is not None:
                if self._numbers and self.definition.may_call:
                    # A program of several calls is bound for what each of them is given.
                    leaves = leaves_of(self.definition, {n: bound[k] for n, k in self._numbers})
                    more = numbers_key(leaves)
                    key = None if more is None else (*key, more)
                    if not self.definition.may_call:
                        # As was found meanwhile, it calls nothing.
                        leaves = ()
                short = self._bound_calls.get(key)
                if short is not None:
                    # The values of a border are as free as those of the parameters.
                    free = boundary is None or type(boundary) is str
                    return short(bound if free else (*bound, boundary), leaves, out)
            values = dict(zip(self.parameters, bound, strict=True))
            call = Call.of(
                self.definition, values, boundary=boundary, cval=cval, dtype=dtype,
                overflow=overflow, every=every, upsample=upsample,
            )  # fmt: skip
            return self._first(call, values, Place(axes, dims, out, threads, device), key, leaves)
        except Exception as error:
            shorten(error)
            raise

    if not TYPE_CHECKING:
        # What checkers know of calls, those say that are called by users.
        _apply.__name__ = "__call__"
        _apply.__qualname__ = "Stencil.__call__"
        __call__ = _apply

    def _bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The value of every parameter, by its name."""
        return dict(zip(self.parameters, self._arguments.bound(args, named), strict=True))
