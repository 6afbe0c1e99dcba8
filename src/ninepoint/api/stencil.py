"""`@stencil` and `@ufunc`, and the objects that they make of functions.

Type checkers and editors are told of calls which array gives which:

    @npt.stencil
    def heat(u, r=0.2): ...          Stencil[(u, r=...), result]

    heat(array, 0.3)                 an array of NumPy, Dask or xarray gives one of its kind
    heat(array)                      parameters are those of the function
    heat(array, boundary="wrap")     with an option of a call they are not checked

A checker cannot add options to the parameters of another function, so there is a signature for
each option, in `signatures.pyi`.

A ufunc makes a function of numbers apply to whole arrays, element by element.

    multiply(x, y)     ->     a stencil that looks at no neighbour, along one axis

It is a way of writing a kernel: what is compiled, planned and run is what a stencil is.  What is
NumPy's here are the manners of a call: numbers among the arrays, results without axes, and
arrays of other libraries, which are asked.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

import numpy as np

from ..arrays.accepted import (
    as_field,
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
from ..base.tracebacks import door, shorten
from ..base.undisturbed import Later
from ..inspecting.inside import Inspected
from ..language.decorated import NOTHING, Method, decorator
from ..language.definitions import returned_values
from ..language.signature import Explanation, as_read, filled
from ..language.source import capture
from ..program.definition import Call, Definition
from ..program.options import (
    STENCIL,
    UFUNC,
    ByName,
    Options,
    Place,
    StencilOptions,
    UfuncOptions,
    defaults,
)
from ..program.waiting import before_writing
from ..running.calling import RESULT, OnArrays

if TYPE_CHECKING:
    import typing_extensions

    from ..iteration import iterate as iteration
    from ..running import calls
    from . import iterating
    from .signatures import called

    # What a stencil is a function of, and what its function gives at one point.
    P = typing_extensions.ParamSpec("P", default=...)
    R_co = typing_extensions.TypeVar("R_co", covariant=True, default=Any)
else:
    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)
    # What is not called needs none of these.
    calls = Later("..running.calls", __package__)
    iterating = Later(".iterating", __package__)
    iteration = Later("..iteration.iterate", __package__)

# What a decorated function gives at one point.
R = TypeVar("R")

_ITERATE = """
    callback : callable, optional
        Called as ``callback(step, *state)`` after every `every` steps and after the last
        one, with the number of steps done; a true result ends the iteration.  It may
        keep the arrays, or write to those of NumPy to change the state.
    every : int, optional
        How many steps lie between two calls of `callback`, or two checks of `until`; by
        default all of them for `callback`, and 1 for `until`.
    until : float, optional
        End when no element of the state changes by more than this in one step.
    progress : bool or callable, optional
        True shows a bar, False none; by default there is one in
        notebooks and on terminals, if it takes longer than a second.  A function
        is called with the numbers of steps done and in all.
    out : array or tuple of arrays, optional
        Where to write the last state, for NumPy arrays: one for each state.  They may be the
        fields themselves, which are then changed, so that one more state is held, not two.
    device : {"cuda"}, optional
        Take NumPy arrays to the GPU once, do all steps there, and take the state back; it is
        taken back before too for each call of `callback`.  All of it must fit, save for
        Dask arrays, whose chunks are taken there one by one.
    comm : mpi4py.MPI.Comm, optional
        The arrays are this process's part of the state: the processes have parts of it one
        after the other along the first of the stencil's axes, in their order, and all call
        this alike.  So is the result, and what `callback` is given; `until` holds for all.
        See `distribute`.
    snapshots : int, optional
        On a Dask cluster: how many steps lie between two copies of the state in the memory
        of other workers, which is what the loss of a worker costs; 0 for none.  By default
        as many as keep the time that they take below a twentieth.
    """


class Stencil(OnArrays, Inspected, Generic[P, R_co]):
    """A function of a point and its neighbours, to be applied to whole arrays.

    Made by `stencil`.  Call it with arrays and numbers, in the order of the function's
    parameters; see `__call__`.  Where the function calls other stencils on its fields, each
    call gives the array that it would give by itself, border and all; where it can, it is done
    together with the kernel, row by row, so that it is never stored whole.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def larger(x, factor=2):
    ...     return x[0] > factor * x[-1]
    >>> larger
    <stencil larger(x, factor=2)>
    >>> larger.fields, larger.scalars, dict(larger.defaults)
    (('x',), ('factor',), {'factor': 2})
    """

    if TYPE_CHECKING:
        # For checkers and editors: see above.
        __call__ = called

    def _first(self, *given: Any) -> Any:
        return calls.first(self._bound_calls, *given)

    @door
    def _told(
        self, /, *args: Any, steps: int, boundary: Any = None, cval: Any = None, **named: Any
    ) -> str:
        """Tell what `iterate` would take with these arguments, and do none of the steps.

        Parameters
        ----------
        *args, **named
            As for `Stencil.iterate`.
        steps : int
            How many steps.
        boundary, cval
            As for a call.

        Returns
        -------
        str
            Lines of text, a table in a notebook: the memory to see to; how many steps are done in
            a pass over memory, or between two exchanges of chunks, of workers or of processes,
            and how much they exchange; what the loss of a worker costs.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> heat = npt.stencil(lambda u: u[-1, 0] / 4 + u[0, 0] / 2 + u[1, 0] / 4)
        >>> print(heat.iterate.explain(np.zeros((4000, 4000)), steps=200))
        Give 256 MB beside the fields for two states: 200 steps, up to 8 in a pass over memory.
        """
        known = iteration.Iteration.__annotations__
        ways = {name: named.pop(name) for name in known.keys() & named.keys()}
        plan = iteration.Iteration(steps, **(ways | {"out": None, "tell": True}))
        values = self._bound(args, named)
        told = iterating.iterated(self.definition, values, plan, boundary, cval)
        return Explanation("\n".join(told))

    @functools.partial(Method, explain=_told)
    @filled(options=_ITERATE)
    @door
    def iterate(
        self,
        /,
        *args: Any,
        steps: int,
        boundary: Any = None,
        cval: Any = None,
        callback: Callable[..., Any] | None = None,
        every: int | None = None,
        until: float | None = None,
        threads: int | None = None,
        progress: bool | Callable[[int, int], None] | None = None,
        out: Any = None,
        device: str | None = None,
        comm: Any = None,
        snapshots: int | None = None,
        **named: Any,
    ) -> Any:
        """Apply the stencil again and again, each time to its own result.

        The results take the place of the first fields, in order; the other fields stay.  On
        NumPy arrays several steps are done in one pass over memory where that is faster; the
        result is that of single steps.  Besides the inputs two states are held, however many
        steps there are.

        Parameters
        ----------
        *args, **named
            Fields, scalars and coefficient arrays, as for a call.  The inputs are not changed,
            unless they are `out`.
            A scalar may be a function of the step, counted from 0, or an array with a value
            for each step, taken as a Python number; an array of one axis is that unless
            `standard_indexing` names its parameter.
        steps : int
            How many steps, not negative.
        boundary, cval, threads
            As for a call.
        {options}

        Returns
        -------
        array or tuple of arrays
            The state after the last step.

        Raises
        ------
        ValueError
            If `steps`, `every` or `until` is out of range, the state's shape would change, the
            result's dtype is not that of the state, or the parts of processes differ.
        TypeError
            As for a call, and if `until` is no number, or `callback` or `progress` no function.

        Notes
        -----
        Of Dask arrays a task does several steps of a chunk, and takes its neighbours' points once
        for all of them.  The result is lazy; the state is computed before where somebody looks
        at it, and where the graph would have more than some 100 000 tasks.  With a client of
        `distributed` and many steps each worker holds one part of the state, all steps are done
        at once, and the result lies on the workers: see "Simulations" in the page on clusters.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil(boundary="keep")
        ... def heat(u, r):
        ...     return u[0] + r * (u[-1] - 2 * u[0] + u[1])
        >>> heat.iterate(np.array([0.0, 0.0, 8.0, 0.0, 0.0]), 0.25, steps=2)
        array([0., 2., 3., 2., 0.])
        """
        plan = iteration.Iteration(
            steps, every, until, callback, threads, progress, comm, snapshots, out, device
        )
        before_writing(out)
        values = self._bound(args, named)
        return bare(iterating.iterated(self.definition, values, plan, boundary, cval))


@overload
def stencil(function: Callable[P, R], /) -> Stencil[P, R]: ...


@overload
def stencil(
    **options: Unpack[StencilOptions],
) -> Callable[[Callable[P, R]], Stencil[P, R]]: ...


@as_read(defaults(STENCIL))
@filled(options=StencilOptions.__doc__, more=UfuncOptions.__doc__)
@door
def stencil(function: Any = NOTHING, /, **options: Any) -> Any:
    """Make a function of one point and its neighbours apply to whole arrays.

    The function is read, not run: ``x[-1, 0]`` is the neighbour one step back along the first
    axis.  No types are declared; each combination of types is compiled when it first comes.

    Parameters
    ----------
    function : callable
        What happens at one point.  Parameters that are indexed are fields; the others are
        scalars, or small arrays.
    {options}
    {more}

    Returns
    -------
    Stencil
        Called with arrays.

    Raises
    ------
    StencilError
        If the function cannot be a kernel; the message names the place and the cure.
    TypeError, ValueError
        If an option does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil(boundary="wrap")
    ... def smooth(x):
    ...     return (x[-1] + 2 * x[0] + x[1]) / 4
    >>> smooth(np.array([4.0, 0.0, 0.0, 0.0]))
    array([2., 1., 0., 1.])
    """
    return _made("stencil", Stencil, function, options)


def _made(kind: str, made: type[Stencil], function: Any, options: ByName) -> Any:
    """What a decorator of some kind with these options makes of a function."""
    checked = Options.of(kind, options)

    def make(plain: FunctionType) -> Stencil:
        return made(Definition(capture(plain), checked, plain))

    return decorator(kind, function, make)


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

    def _first(self, call: Call, given: ByName, place: Place, *more: Any) -> Any:
        """Do a call of a kind that was not met before, or on no array of NumPy that has axes."""
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
        return super()._first(call, given, place, *more)

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
    return _made("ufunc", Ufunc, function, options)


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
    return as_field(value, name)[None]
