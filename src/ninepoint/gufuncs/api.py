"""`@gufunc` and what it makes: a function of core arrays that applies to stacks of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from ..arrays.accepted import check_dtype, listed, storage_types
from ..base import limits
from ..base.tracebacks import door, shorten
from ..language.decorated import NOTHING, Decorated, decorator
from ..language.signature import Page, as_read, filled
from ..language.source import capture
from ..program.options import refuse_unknown
from ..program.waiting import waiting
from .arrays import by_definition, called
from .compiled import compile_for
from .definition import (
    CALL_OPTIONS,
    GufuncDefinition,
    Options,
    arguments,
    parsed,
    told,
    types_of,
)

_ARRAY = np.ndarray

_OPTIONS = ("dtype", "sizes", "fastmath", "boundscheck")

# The options of the decorator, and those of a call.
_DECORATOR = """
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
    """

_CALL = """
    out : array or tuple of arrays, optional
        Where to write the results.
    axes : list of tuples of int, optional
        For each input, and each result with core axes, where these are.
    axis : int, optional
        Where the core axis is, if there is one size only.
    keepdims : bool, optional
        Keep axes that are gone, with length 1.
    dtype : dtype or sequence of dtype, optional
        The type of the result, or of each.
    sizes : dict of str to int, optional
        Sizes that only results have.
    dims : dict of str to str, optional
        For xarray objects, the dimension that each size of the signature is; by default
        the last ones.
    threads : int, optional
        The greatest number of threads; by default all that the process may use.
    """


class Gufunc(Decorated):
    """A function of core arrays, to be applied to stacks of them.

    Made by `gufunc`.  Call it with arrays and numbers, in the order of the function's
    parameters; see `__call__`.

    Attributes
    ----------
    nin, nout, nargs : int
        How many inputs there are, how many results, and how many together.
    signature : str
        The core axes of inputs and results.

    Examples
    --------
    >>> import ninepoint as npt
    >>> @npt.gufunc("(n)->(),()")
    ... def ends(x):
    ...     return x[0], x[-1]
    >>> ends.signature, ends.nin, ends.nout
    ('(n)->(),()', 1, 2)
    """

    definition: GufuncDefinition
    identity = None
    ntypes = 0

    def __init__(self, definition: GufuncDefinition, live: Any = None) -> None:
        signature = definition.signature
        self.nin, self.nout = len(signature.inputs), len(signature.outputs)
        self.nargs, self.signature = self.nin + self.nout, str(signature)
        # The last call of arrays alone, if it was too short to be shared among threads: what they
        # and the result were, and what was called.
        self._last: tuple[Any, Any, Any] = None, None, None
        super().__init__(definition, dict.fromkeys(CALL_OPTIONS), live, f"gufunc {signature}")

    def __repr__(self) -> str:
        return f"<gufunc {self.__name__}{self.definition.signature}>"

    @filled(options=_CALL)
    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """Apply the function to core arrays, and to all items of stacks of them.

        Parameters
        ----------
        *args, **named
            Inputs and numbers, as the function's parameters.  An input is an array of NumPy,
            Dask, xarray or pandas; its last axes are the core, those before are a stack, and
            stacks broadcast as NumPy's do.
        {options}

        Returns
        -------
        array or tuple of arrays
            One for each result, of the kind of the inputs.

        Raises
        ------
        StencilError
            If the function cannot be compiled for these types.
        ValueError
            If shapes, sizes or `out` do not fit.
        TypeError
            If an argument is missing, unknown or no array of numbers.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.gufunc("(n)->(bins)")
        ... def counted(x, *, bins):
        ...     found = np.zeros(bins, np.int64)
        ...     for value in x:
        ...         found[min(int(value), bins - 1)] += 1
        ...     return found
        >>> counted(np.array([[0, 1, 1], [2, 9, 1]]), bins=3)
        array([[1, 2, 0],
               [0, 1, 2]])
        """
        try:
            # Each of these lines takes a part of the time of a small call.
            kinds, made, call = self._last
            known = not named and kinds == list(map(_kind, args))
            if known and out is not None:
                over = any(np.may_share_memory(out, one) for one in args)
                known = _kind(out) == made and not waiting and not over
            if known:
                try:
                    return call(*args) if out is None else call(*args, out)
                except (ValueError, IndexError):
                    # To be said in our own words.
                    pass
            if out is not None:
                named["out"] = out
            return self._called(args, named)
        except Exception as error:
            shorten(error)
            raise

    def _called(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The ordinary way of a call."""
        definition = self.definition
        given = arguments(definition, args, named)
        begin = time.perf_counter()
        result = called(self, given)
        short = time.perf_counter() - begin < limits.current.handoff_seconds
        # Arrays for results may be given by position too.
        plain = len(args) == self.nin and not (
            set(named) - {"out"} or given.scalars or definition.signature.new
        )
        if short and plain and all(kinds := list(map(_kind, args))):
            types = types_of([one.dtype for one in args], {})
            compiled = compile_for(definition, types, given.dtypes)
            same = [one.dtype for one in listed(result)] == [compiled.outputs[0].dtype]
            self._last = kinds, (same and _kind(result)) or None, compiled.call
        return result

    # Looking inside.

    @door
    def debug(self, /, *args: Any, **named: Any) -> Any:
        """Compute the results by calling the function itself for every item, in Python.

        Slow: prints, breakpoints and the debugger work inside the function.

        Parameters
        ----------
        *args, **named
            As for a call, with arrays of NumPy.

        Returns
        -------
        array or tuple of arrays
            As a call gives.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.gufunc("(n)->()")
        ... def total(x):
        ...     print("an item of", len(x))
        ...     return x.sum()
        >>> total.debug(np.array([[1.0, 2.0], [3.0, 4.0]]))
        an item of 2
        an item of 2
        array([3., 7.])
        """
        return by_definition(self.definition, arguments(self.definition, args, named))

    @door
    def explain(self, /, *types: Any, **named: Any) -> str:
        """Tell how the function is understood, and for types, what is compiled.

        Parameters
        ----------
        *types : dtype or array
            One for each input; one alone serves for all; none to tell what holds of all.
        **named
            Values of the numbers without a default.

        Returns
        -------
        str
            Lines of text: the signature, the parameters, the types of the results, and how
            these are stored.

        Examples
        --------
        >>> import ninepoint as npt
        >>> @npt.gufunc("(n)->()")
        ... def total(x):
        ...     return x.sum()
        >>> "(n)->()" in total.explain()
        True
        """
        definition, signature = self.definition, self.definition.signature
        lines = [f"{definition.name}: {signature}"]
        for name, core in zip(definition.given, definition.cores, strict=True):
            lines.append(f"  {name}: {_axes(core)}")
        dtypes = [""] * self.nout
        if types:
            every = types * self.nin if len(types) == 1 else types
            given = arguments(definition, every, named)
            found = [np.dtype(getattr(one, "dtype", one)) for one in given.inputs]
            for dtype, name in zip(found, definition.inputs, strict=True):
                check_dtype(dtype, name)
            compiled = compile_for(definition, types_of(found, given.scalars), given.dtypes)
            dtypes = [f"{one.dtype}, " for one in compiled.outputs]
            lines.append(f"  for {', '.join(map(str, found))}:")
        for k, (core, dtype) in enumerate(zip(signature.outputs, dtypes, strict=True)):
            way = "copied from what the function returns" if core else "stored"
            if definition.outs:
                way = f"written into '{definition.outs[k]}'"
            lines.append(f"  result {k + 1}: {dtype}{_axes(core)}, {way}")
        if definition.options.fastmath:
            lines.append("  floats may be reordered (fastmath)")
        if not definition.options.boundscheck:
            lines.append("  indices are not checked (boundscheck)")
        lines.append(
            "  one loop over the stack, without the interpreter's lock, shared among threads"
        )
        return Page("\n".join(lines))


def _axes(core: tuple[str, ...]) -> str:
    return f"core axes ({', '.join(core)})" if core else "a number"


def _kind(value: Any) -> Any:
    """What a plain array in C's order is, as far as a call depends on it."""
    return type(value) is _ARRAY and value.flags.c_contiguous and (value.dtype, value.shape)


@as_read({})
@filled(options=_DECORATOR)
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
    {options}

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
    refuse_unknown("gufunc", unknown, _OPTIONS)
    read = parsed(None if types else signature)
    known = tuple(sorted(told(sizes or {}).items()))
    options = Options(storage_types(dtype), known, bool(fastmath), bool(boundscheck))

    def make(plain: FunctionType) -> Gufunc:
        return Gufunc(GufuncDefinition(capture(plain), read, options), plain)

    made: Callable[[Callable[..., Any]], Gufunc] = decorator("gufunc", NOTHING, make)
    return made
