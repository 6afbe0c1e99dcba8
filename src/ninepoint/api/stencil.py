"""`@stencil`, and the object that it makes of a function.

Type checkers and editors are told of calls which array gives which:

    @npt.stencil
    def heat(u, r=0.2): ...          Stencil[(u, r=...), result]

    heat(array, 0.3)                 an array of NumPy, Dask or xarray gives one of its kind
    heat(array)                      parameters are those of the function
    heat(array, boundary="wrap")     with an option of a call they are not checked

A checker cannot add options to the parameters of another function, so there is a signature for
each option, in `signatures.pyi`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, overload

from ..arrays.accepted import bare
from ..arrays.channels import may_hold
from ..arrays.keys import Key, call_key
from ..base.remembered import Remembered
from ..base.tracebacks import door, shorten
from ..base.undisturbed import Later
from ..language.decorated import NOTHING, Decorated, Method, decorator
from ..language.definitions import ArrayFunction
from ..language.signature import (
    OPTIONS,
    Explanation,
    Page,
    as_read,
    filled,
    options_of,
    signature,
    signature_text,
    with_options,
)
from ..language.source import capture
from ..lowering.schedule import Schedule
from ..program.definition import Call, Definition, Leaves, leaves_of, numbers_key
from ..program.options import (
    STENCIL,
    Options,
    Place,
    StencilOptions,
    UfuncOptions,
    defaults,
)
from ..program.waiting import before_writing, waiting

if TYPE_CHECKING:
    import typing_extensions

    from ..inspecting import debugging, explaining, measuring
    from ..inspecting.measuring import Measurement, Tuning
    from ..iteration import iterate as iteration
    from ..running import calls
    from ..running.calls import Prepared
    from . import iterating
    from .signatures import called

    # What a stencil is a function of, and what its function gives at one point.
    P = typing_extensions.ParamSpec("P", default=...)
    R_co = typing_extensions.TypeVar("R_co", covariant=True, default=Any)
else:
    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)
    # A call of a stencil on arrays of NumPy needs none of these.
    calls = Later("..running.calls", __package__)
    iterating = Later(".iterating", __package__)
    iteration = Later("..iteration.iterate", __package__)
    debugging = Later("..inspecting.debugging", __package__)
    explaining = Later("..inspecting.explaining", __package__)
    measuring = Later("..inspecting.measuring", __package__)


# What a decorated function gives at one point.
R = TypeVar("R")


# The options of a call that say what its definition gives, not where it is computed.
_DEBUGGED = {*OPTIONS, "axes", "dims"}

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


class Stencil(Decorated, ArrayFunction, Generic[P, R_co]):
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

    definition: Definition

    def __init__(self, definition: Definition) -> None:
        self._kind, parameters = definition.kind, definition.parameters
        self._plain = tuple(p in definition.fields for p in parameters)
        # What does calls that went well, by their kind.
        self._bound_calls: Remembered[Prepared] = Remembered(256)
        self._arguments = definition.arguments
        self._numbers = [(name, parameters.index(name)) for name in definition.scalars]
        own = signature(definition.function.definition, definition.function.defaults)
        shown = with_options(own, options_of(type(self).__call__))
        words = f"{self._kind} of {', '.join(parameters)}"
        super().__init__(definition, shown, definition.live, words)

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

    # Calling.

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
                    key, leaves = self._of_several(key, bound)
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
            return self._first(call, bound, Place(axes, dims, out, threads, device), key, leaves)
        except Exception as error:
            shorten(error)
            raise

    def _of_several(self, key: Key, bound: Sequence[Any]) -> tuple[Key | None, Leaves]:
        """The key of a program of several calls, which is bound for what each of them is given."""
        leaves = leaves_of(self.definition, {name: bound[k] for name, k in self._numbers})
        more = numbers_key(leaves)
        return None if more is None else (*key, more), leaves if self.definition.may_call else ()

    def _first(
        self, call: Call, bound: Sequence[Any], place: Place, key: Key | None, leaves: Leaves
    ) -> Any:
        """Do a call of a kind that was not met before, or that depends on more than its kind."""
        values = dict(zip(self.parameters, bound, strict=True))
        fields = [values[name] for name in call.fields]
        # What may be colour images is asked about each time.
        coloured = place.axes is None and not self.pointwise and any(map(may_hold, fields))
        if key is not None and not coloured:
            short = calls.prepared(call, bound, place)
            if short is not None:
                result = short(bound, leaves, place.out)
                # Only what went well is remembered.
                self._bound_calls[key] = short
                return result
        return calls.called(call, fields, place)

    if TYPE_CHECKING:
        # For checkers and editors: see above.
        __call__ = called
    else:
        _apply.__name__ = "__call__"
        _apply.__qualname__ = "Stencil.__call__"
        __call__ = _apply

    def _bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The value of every parameter, by its name."""
        return dict(zip(self.parameters, self._arguments.bound(args, named), strict=True))

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

    # Looking inside.

    @door
    def debug(self, /, *args: Any, **named: Any) -> Any:
        """Compute the result by calling the function itself at every point, in Python.

        Slow and exact: prints, breakpoints and the debugger work inside the kernel.  The
        result is the definition that every back end is tested against.

        Parameters
        ----------
        *args, **named
            As for a call, NumPy arrays only; also `boundary`, `cval`, `axes`, `dtype`,
            `overflow`, `every` and `upsample`.

        Returns
        -------
        array or tuple of arrays
            As a call gives.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil(boundary="wrap")
        ... def difference(x):
        ...     print("at", x[0])
        ...     return x[0] - x[-1]
        >>> difference.debug(np.array([1, 4]))
        at 1
        at 4
        array([-3,  3])
        """
        options = {name: named.pop(name) for name in _DEBUGGED & named.keys()}
        values = self._bound(args, named)
        call = measuring.call_of(self.definition, values, options)
        call.check_spaced()
        fields = [values[name] for name in call.fields]
        return debugging.by_definition(call, fields, options.get("axes"))

    @door
    def source(self, *types: Any, target: str = "cpu") -> str:
        """Give the texts that are compiled for fields of given types, one for each pass.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.
        target : {"cpu", "cuda"}, optional
            What the texts are for; that of a GPU, which has the border's rule in it, is there on
            machines without one too.

        Returns
        -------
        str
            Python modules, or texts of CUDA C++, one after the other.

        Raises
        ------
        StencilError
            If a GPU cannot compute the kernel.
        ValueError
            If `target` is unknown.

        Examples
        --------
        >>> import ninepoint as npt
        >>> pair = npt.stencil(lambda x: x[0] + x[1])
        >>> "def " in pair.source("uint8")
        True
        >>> "__global__ void" in pair.source("uint8", target="cuda")
        True
        """
        return Page(explaining.texts(measuring.asked(self.definition, types), target))

    @door
    def ir(self, *types: Any) -> str:
        """Give the intermediate form, of a kernel without stages with the range of every value.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.

        Returns
        -------
        str
            An assignment a line.

        Examples
        --------
        >>> import ninepoint as npt
        >>> print(npt.stencil(lambda x: (x[0] + x[1]) // 2).ir("uint8"))
        kernel (x: uint8), 1 axis
          t0 = x[0]                                      0 .. 255
          t1 = x[1]                                      0 .. 255
          t2 = t0 + t1                                   0 .. 510
          t3 = t2 // 2                                   0 .. 255
          return t3
        """
        return Page(explaining.intermediate(measuring.asked(self.definition, types)))

    @door
    def schedule(self, *types: Any) -> Schedule:
        """Give the choices with which the kernel is compiled.

        Parameters
        ----------
        *types : dtype or array
            One for each field, for what `tune` may have found for them; one alone serves for
            all.

        Returns
        -------
        Schedule
            Change it with `dataclasses.replace`, and give it to ``@stencil(schedule=...)``.

        Examples
        --------
        >>> import ninepoint as npt
        >>> npt.stencil(lambda x: x[0] + x[1]).schedule().rows
        3
        """
        if not types:
            return self.definition.options.schedule
        return self.definition.schedule_for(measuring.asked(self.definition, types).types)

    @door
    def tune(self, /, *args: Any, seconds: float = 60.0, **named: Any) -> Tuning:
        """Measure other schedules on real arrays, and keep the fastest for this machine.

        From then on calls with fields of these types use it, in this process and in others.
        Only what leaves every bit of the result is tried.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays; a ufunc takes numbers, too.
        seconds : float, optional
            After so long nothing new is tried; most of it is spent compiling.

        Returns
        -------
        Tuning
            Prints what was tried; `schedule` is the fastest, `gain` how many times faster it
            is than what the compiler chose.

        Raises
        ------
        TypeError
            If a field is no NumPy array.
        ValueError
            If an array is empty, or the stencil was decorated with a schedule.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil
        ... def difference(x):
        ...     return x[1] - x[-1]
        >>> difference.tune(np.zeros(1000), seconds=0).gain
        1.0
        """
        if self.definition.options.schedule != Schedule():
            raise ValueError(
                f"'{self.__name__}' was decorated with a schedule; leave schedule= out to tune."
            )
        one, _ = measuring.real(self.definition, args, named, "tune()")
        # All write to the same arrays: to make new ones would take a part of the time.
        out = self(*args, **named)

        def variant(other: Definition) -> Callable[[], Any]:
            return functools.partial(type(self)(other), *args, **{"out": out, **named})

        found = measuring.tuned(one, variant, seconds)
        # What is prepared is of the schedule before.
        self._bound_calls.clear()
        return found

    @door
    def explain(self, /, *arrays: Any, **named: Any) -> str:
        """Tell how the kernel is understood and computed, and with arrays, how fast.

        With types only, nothing is compiled or run, and the text depends on the kernel alone.
        With NumPy arrays the kernel is compiled and measured as `bench` does it, which takes
        about half a second; of large arrays a part is taken.

        Parameters
        ----------
        *arrays : array or dtype
            The fields, or their types; one alone serves for all.
        **named
            Values of scalars without a default, and options of a call such as `boundary`; with
            ``device="cuda"`` the text says what a GPU does, and no GPU is needed for it.

        Returns
        -------
        str
            Lines of text: in the first one what to do to make it faster; then where the kernel
            looks, its border rule, the proved ranges, the algorithm of each window and sum with
            why it is no other, the types of the lanes, operations and bytes for each point; then
            how long compiling took, and how fast a call is beside a copy.

        Examples
        --------
        >>> import ninepoint as npt
        >>> def corner(x):
        ...     return x[0, 0] + x[1, 1]
        >>> print(npt.stencil(corner).explain("uint8"))
        Nothing stands in the way: give arrays to see how fast it is beside a copy.
          kernel      corner: x uint8 -> uint16
          path        understood: analysed, its inner loop can become vectors
          looks       offsets 0..1 x 0..1 (4 elements in the box)
          border      fill with 0
          result      whole numbers from 0 to 510
          algorithm   as written:
                        no window, and nothing to share
          lanes       16 bits at the widest: 1 in uint16
          operations  1 operation, 2 loads and 1 store a point
          memory      3 bytes a point: 1 read once, 2 written once
        """
        one = measuring.asked(self.definition, arrays, named)
        return Explanation(explaining.explained(self, one, named))

    @door
    def bench(self, /, *args: Any, repeat: int = 20, **named: Any) -> Measurement:
        """Measure a call, honestly: compiled before, warm, in turn with a copy of its fields.

        The calls write to arrays that are there already, as the copy does. Ends after 5
        seconds if there are 3 samples by then.  On a GPU a sample ends when the GPU is done, and
        the copy is one on it; with ``device="cuda"`` a call is there and back.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays, or arrays of a GPU; a ufunc takes numbers, too.
        repeat : int, optional
            How many samples are taken; one is many calls where a call is short.

        Returns
        -------
        Measurement
            Prints as one line; `points_per_second`, `bytes_per_second` and `copy_ratio` are
            the figures, from medians.

        Raises
        ------
        TypeError
            If a field is no array of NumPy or of a GPU, or `repeat` no whole number.
        ValueError
            If `repeat` is less than 1, or an array is empty.

        Examples
        --------
        >>> import numpy as np
        >>> import ninepoint as npt
        >>> @npt.stencil
        ... def difference(x):
        ...     return x[1] - x[-1]
        >>> found = difference.bench(np.zeros(1000), repeat=3)
        >>> found.points, found.bytes
        (1000, 16000)
        """
        measuring.check_repeat(repeat)
        one, options = measuring.real(self.definition, args, named, "bench()", gpu=True)
        return measuring.measured(self, one, options, repeat, 5.0)

    def _repr_svg_(self) -> str | None:
        """Draw for a notebook what the kernel reads of float64 fields; None if it cannot."""
        return explaining.drawn(self.definition)


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
    checked = Options.of("stencil", options, STENCIL)

    def make(plain: types.FunctionType) -> Stencil:
        return Stencil(Definition(capture(plain), checked, plain))

    return decorator("stencil", function, make)
