"""The object that `@stencil` makes."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .analysis.ranges import ranges
from .arrays import numpy as on_numpy
from .arrays.axes import Behind, behind, whole_shape
from .arrays.borders import Boundary
from .arrays.channels import check_steps, may_hold
from .arrays.datasets import over_variables, refuse_for_datasets
from .arrays.keys import Parameters, call_key
from .arrays.measuring import Watched, measurable, measurement, part
from .arrays.recognise import is_dask, is_dataset, is_xarray
from .backends import tuned
from .backends.explain import explanation, measured
from .backends.measure import Measurement
from .backends.numba.cache import interpreted
from .backends.numba.cpu import Compiled
from .backends.picture import cells, footprint_svg
from .backends.pipeline import Request, Stages, compile_chain, compile_kernel
from .backends.threads import thread_count
from .calls import Call, Prepared, argument, digest, steps_on_dask
from .graph import Graph
from .iteration import Iteration, Scalars, check_watching, iterate_arrays, iterate_calls
from .language import errors, ir, reference
from .language.depth import with_room
from .language.dtypes import DType
from .language.foreign import shown_at_home
from .language.page import Page
from .language.parameters import indexed_parameters, own_calls
from .language.parse import Argument, read
from .language.refusals import refuse
from .language.source import ArrayFunction, Function, frozen
from .language.text import kernel_text
from .language.values import Field, NotUnderstood, Value
from .language.warned import SlowKernelWarning, slow_kernel, warn
from .lowering.schedule import Schedule
from .options import (
    CALL_OPTIONS,
    Options,
    hint,
    overflow_rule,
    refuse_misplaced,
    refuse_out,
    storage_types,
)
from .recording import Lazy, Place, known, recordable, recorded
from .tuning import Tuning, choices, exact, search

# Mistakes that do not depend on the types of the arguments, so that they are raised when the
# kernel is decorated. Any other is raised at the first call.
_CERTAIN = frozenset(
    "offset-not-constant offset-outside offset-far offset-count offset-type window-open "
    "window-step window-empty assigned-field assigned-constant recursion undefined-name "
    "maybe-undefined no-return not-a-number return-mismatch choice-mismatch no-field unsupported "
    "bad-constant stage-use mask-empty mask-shape mask-type window-index".split()
)


# How many kinds of calls a stencil prepares before it forgets them all.
_PREPARED = 256


class Stencil(ArrayFunction):
    """A function of a point and its neighbours, to be applied to whole arrays.

    Made by `stencil`.  Call it with arrays and numbers, in the order of the function's
    parameters; see `__call__`.
    """

    def __init__(self, function: Function, options: Options, live: Any = None) -> None:
        self._function = function
        self._options = options
        self._live = live
        self._compiled: dict[Any, tuple[Compiled, Stages | None, str]] = {}
        self._compiling = threading.Lock()
        self.__name__ = function.name
        self.__qualname__ = getattr(live, "__qualname__", function.name)
        # Without one `help` would show this class instead.
        self.__doc__ = getattr(live, "__doc__", None) or (
            f"A stencil of {', '.join(function.parameters)}; "
            "help(ninepoint.Stencil.__call__) has the options of a call."
        )
        self.__module__ = getattr(live, "__module__", __name__)
        self.__wrapped__ = live
        indexed = self._indexed()
        standard = options.standard_indexing
        self._fields = tuple(p for p in function.parameters if p in indexed and p not in standard)
        self._others = tuple(p for p in function.parameters if p not in self._fields)
        self._standard = indexed & set(standard)
        self._plain = tuple(p in self._fields for p in function.parameters)
        self._chains: dict[Any, Compiled] = {}
        self._schedules: dict[str, Schedule] = {}
        self._prepared: dict[Any, Prepared] = {}
        arguments = function.definition.args
        self._positional = len(arguments.posonlyargs) + len(arguments.args)
        self._unnamed = frozenset(a.arg for a in arguments.posonlyargs)
        self._arguments = Parameters(
            function.parameters, function.defaults, self._positional, self._unnamed
        )
        self._check()
        self._token = digest((function, options))
        _registry.setdefault(self._token, self)

    def _indexed(self) -> set[str]:
        """The parameters that are read with an index."""
        return indexed_parameters(self._function)

    def _check(self) -> None:
        """Raise the mistakes that can be seen without knowing the arguments."""
        with shown_at_home(self._function):
            self._check_names()
            self._check_body()

    def _check_names(self) -> None:
        function, options = self._function, self._options
        refuse(function)
        for name in function.parameters:
            if name in CALL_OPTIONS:
                raise ValueError(
                    f"'{name}' is an option of every call, so no parameter of '{function.name}' "
                    "can have that name; rename it."
                )
        for name in options.standard_indexing:
            if name not in function.parameters:
                raise ValueError(
                    f"standard_indexing names '{name}', which is no parameter of "
                    f"'{function.name}' ({', '.join(function.parameters)})."
                )
        first = function.parameters[:1]
        if first in (("self",), ("cls",)) and first[0] not in self._fields:
            raise errors.method(function.place, function.name, first[0])
        if not self._fields:
            for place, name in own_calls(function):
                raise errors.recursion(place, name)
            raise errors.no_field(function.place, function.name)

    def _check_body(self) -> None:
        function, options = self._function, self._options
        if options.standard_indexing:
            return
        arguments: dict[str, Argument] = {
            name: Field(name, np.dtype("int64"))
            if name in self._fields
            else Value(ir.Ref(DType.INT, name), True)
            for name in function.parameters
        }
        try:
            read(function, arguments, options.neighborhood)
        except NotUnderstood:
            return
        except errors.StencilError as error:
            if error.diagnostic.code in _CERTAIN:
                raise

    def __repr__(self) -> str:
        return f"<stencil {self.__name__}({', '.join(self._function.parameters)})>"

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks for where a function that it compiles uses the stencil."""
        raise ValueError(
            f"The stencil '{self.__name__}' makes whole arrays, so no function that Numba "
            "compiles can call it; call it before, and give the function what it makes."
        )

    def __reduce__(self) -> Any:
        return _restored, (self._token, self._function, self._options)

    def __dask_tokenize__(self) -> str:
        return self._token

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the function."""
        return self._function.parameters

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the parameters that are read relative to the point."""
        return self._fields

    @property
    def scalars(self) -> tuple[str, ...]:
        """The names of all other parameters: numbers, and small arrays."""
        return self._others

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The values of the parameters that have one."""
        return types.MappingProxyType(dict(self._function.defaults))

    # Calling.

    def __call__(
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
        threads: int | None = None,
        **named: Any,
    ) -> Any:
        """Apply the stencil to whole arrays.

        Parameters
        ----------
        *args, **named
            Fields, scalars and coefficient arrays, as the function's parameters.  A field is
            an array of NumPy, Dask or xarray; the last axes are the stencil's, those before
            are a stack, and fields broadcast as NumPy's do.
        boundary : str or sequence, optional
            What a neighbour outside the array is: "fill", "keep", "valid", "constant",
            "nearest", "reflect", "mirror" or "wrap"; one name, or for each axis a name or a
            pair (before, after).
        cval : number, optional
            The value of "fill" and "constant".
        axes : sequence of int, optional
            The axes that the stencil works on, in the order of its offsets.
        dims : sequence of str, optional
            The same by name, for xarray objects.
        out : array or tuple of arrays, optional
            Where to write the result; it may overlap a field, and be of a shorter float type.
        dtype : dtype or sequence of dtype, optional
            The type of the result, or of each; its byte order is the machine's.
        overflow : {"saturate", "wrap"}, optional
            What happens to an integer that `dtype` cannot hold.
        threads : int, optional
            The greatest number of threads; by default all that the process may use.

        Returns
        -------
        array or tuple of arrays
            One for each value the function returns, of the kind of the fields.

        Raises
        ------
        StencilError
            If the function cannot be compiled for these types.
        ValueError
            If shapes, border, `cval`, `dtype` or `out` do not fit.
        TypeError
            If an argument is missing, unknown or no array of numbers.

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
        bound: tuple[Any, ...] | None = args
        if named or len(args) != self._arguments.count:
            bound = self._arguments.bound(args, named)
        key = None
        if bound is not None and dims is None:
            key = call_key(bound, self._plain, boundary, cval, axes, out, dtype, overflow, threads)
        if key is not None and bound is not None:
            short = self._prepared.get(key)
            if short is not None:
                result = short(bound, out)
                if result is not None:
                    return result
                # It is prepared, and this time the rest is to be done.
                key = None
        values = self._bound(args, named)
        fields = [values[name] for name in self._fields]
        if any(map(is_dataset, fields)):
            refuse_for_datasets(axes, out)
            options = {
                "boundary": boundary, "cval": cval, "dims": dims, "dtype": dtype,
                "overflow": overflow, "threads": threads,
            }  # fmt: skip
            return self._over_datasets(values, options)
        if any(isinstance(field, Lazy) for field in fields):
            options = {"boundary": boundary, "cval": cval, "dtype": dtype, "overflow": overflow}
            place = Place(axes, dims, out, threads)
            if recordable(fields, place):
                return self._recorded(values, options, place)
            fields = [known(field) for field in fields]
        refuse_misplaced(fields, dims, out)
        if threads is not None:
            thread_count(threads)
        call = self._call(values, boundary, cval, dtype, overflow, threads)
        if any(is_xarray(f) or is_dataset(f) for f in fields):
            return call.on_xarray(fields, dims, axes)
        if any(is_dask(f) for f in fields):
            return call.on_dask(fields, axes)
        result = call.on_numpy(fields, axes, out)
        asked = axes is None and any(map(may_hold, fields))
        if key is not None and bound is not None and not asked:
            # Only what went well is prepared, so that mistakes are found in one place; and
            # nothing that may be a colour image, which depends on its numbers.
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()
            self._prepared[key] = call.prepared(bound, axes, out)
        return result

    def _over_datasets(self, values: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        """The results for datasets among the fields, variable by variable."""
        names = self._function.parameters

        def call(fields: Mapping[str, Any]) -> Any:
            given = {**values, **fields}
            args = [given[name] for name in names[: self._positional]]
            rest = {name: given[name] for name in names[self._positional :]}
            return self(*args, **rest, **options)

        def ndim(variable: Any) -> int:
            types = [variable.dtype] * len(self._fields)
            return self._for_types(types, {n: values[n] for n in self._others})[0].ndim

        given = {name: values[name] for name in self._fields}
        return over_variables(call, given, options["dims"], ndim)

    def _call(
        self,
        values: Mapping[str, Any],
        boundary: Any = None,
        cval: Any = None,
        dtype: Any = None,
        overflow: str | None = None,
        threads: int | None = None,
    ) -> Call:
        """What is applied; options that are None are those of the stencil."""
        return Call(
            self,
            {name: values[name] for name in self._others},
            self._options.boundary if boundary is None else Boundary.of(boundary),
            self._options.cval if cval is None else cval,
            storage_types(self._options.dtype if dtype is None else dtype),
            overflow_rule(self._options.overflow if overflow is None else overflow),
            threads,
        )

    def _bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The value of every parameter, as Python would bind them."""
        parameters, defaults = self._function.parameters, self._function.defaults
        if len(args) > self._positional:
            named_only = parameters[self._positional :]
            words = f"; {', '.join(named_only)} must be given by name" if named_only else ""
            raise TypeError(
                f"{self.__name__}() takes {_count(self._positional, 'argument')} "
                f"({', '.join(parameters[: self._positional])}), "
                f"but {len(args)} were given{words}."
            )
        values = dict(zip(parameters, args, strict=False))
        for name, value in named.items():
            if name not in parameters:
                raise TypeError(
                    f"{self.__name__}() has no parameter '{name}'; it has "
                    f"{', '.join(parameters)}{hint(name)}."
                )
            if name in self._unnamed:
                raise TypeError(f"{self.__name__}() takes '{name}' by its position only.")
            if name in values:
                raise TypeError(f"{self.__name__}() got two values for '{name}'.")
            values[name] = value
        for name in parameters:
            if name not in values:
                if name not in defaults:
                    raise TypeError(f"{self.__name__}() needs a value for '{name}'.")
                values[name] = defaults[name]
        return values

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
        progress: bool | Callable[[int, int], None] = False,
        out: Any = None,
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
            True shows a bar (needs Rich); a function is called with the numbers of steps done
            and in all.
        out : array or tuple of arrays, optional
            Where to write the last state, for NumPy arrays: one for each state.  They may be the
            fields themselves, which are then changed, so that one more state is held, not two.

        Returns
        -------
        array or tuple of arrays
            The state after the last step.

        Raises
        ------
        ValueError
            If `steps`, `every` or `until` is out of range, the state's shape would change, or
            the result's dtype is not that of the state.
        TypeError
            As for a call, and if `until` is no number, or `callback` or `progress` no function.

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
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
            raise ValueError(f"steps={steps!r} must be a whole number, 0 or more.")
        if every is not None and (
            isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1
        ):
            raise ValueError(f"every={every!r} must be a whole number, 1 or more.")
        check_watching(callback, until, progress)
        if threads is not None:
            thread_count(threads)
        values = self._bound(args, named)
        fields = [_field(values[name], name) for name in self._fields]
        if any(map(is_dataset, fields)):
            raise TypeError(
                "iterate takes DataArrays, not a Dataset; give its variables one by one, "
                "as dataset[name]."
            )
        scalars = Scalars(
            {name: values[name] for name in self._others},
            self._options.standard_indexing,
            int(steps),
        )
        plan = Iteration(
            self._options.boundary if boundary is None else Boundary.of(boundary),
            self._options.cval if cval is None else cval,
            int(steps),
            1 if every is None and until is not None else every,
            until,
            callback,
            threads,
            progress,
        )
        if any(is_dask(f) or is_xarray(f) for f in fields):
            refuse_out(out, "Dask arrays and xarray objects")
        if steps and any(map(may_hold, fields)):
            types = [field.dtype for field in fields]
            ndim = self._for_types(types, scalars.at(0))[0].ndim
            check_steps(fields, ndim, self.__name__)
        result = self._iterated(fields, scalars, plan, out)
        return result[0] if len(result) == 1 else tuple(result)

    def _iterated(
        self, fields: Sequence[Any], scalars: Scalars, plan: Iteration, out: Any
    ) -> Sequence[Any]:
        """The state after the steps."""
        dtypes, overflow = storage_types(self._options.dtype), self._options.overflow
        keep = plan.boundary.keeps

        def compiled(types: Sequence[np.dtype], others: Mapping[str, Any]) -> Any:
            found = self._compile(types, others, keep, dtypes, overflow)
            self._warn(found[0], found[2])
            return found

        if not any(is_dask(f) or is_xarray(f) for f in fields):
            return iterate_arrays(compiled, self._chain, fields, scalars, plan, out)
        plain = not any(is_xarray(f) or is_dataset(f) for f in fields)

        def call(states: Sequence[Any], each: Sequence[Mapping[str, Any]]) -> Any:
            calls = [self._call(others, plan.boundary, plan.cval) for others in each]
            if len(calls) > 1:
                return steps_on_dask(calls, states)
            if plain:
                return calls[0].on_dask(states, None)
            return calls[0].on_xarray(states, None, None)

        def longest(one: Compiled) -> int:
            if not plain:
                return 1
            # Imported here: Dask is optional, and the caller has it.
            from .arrays.dask_iterating import block_length

            return block_length(fields, one.reach)

        return iterate_calls(compiled, call, fields, scalars, plan, longest)

    # Compiling.

    def _record(
        self,
        graph: Graph,
        fields: Sequence[int],
        values: Mapping[str, Any],
        options: Mapping[str, Any],
        labels: Sequence[str],
        axes: Behind | None = None,
    ) -> tuple[int, ...]:
        """Add a call to a graph; which of its values are the results."""
        call = self._call(values, **options)
        return graph.add(call, fields, labels or [self.__name__], axes)

    def _recorded(
        self, values: Mapping[str, Any], options: Mapping[str, Any], place: Place
    ) -> Any:
        """What a call on lazy values gives."""

        def record(graph: Graph, fields: Sequence[int], axes: Behind | None) -> tuple[int, ...]:
            return self._record(graph, fields, values, options, (), axes)

        return recorded([values[name] for name in self._fields], record, place)

    def _compile(
        self,
        field_dtypes: Sequence[np.dtype],
        others: Mapping[str, Any],
        keep: bool = False,
        dtypes: tuple[np.dtype, ...] | None = None,
        overflow: str | None = None,
        schedule: Schedule | None = None,
    ) -> tuple[Compiled, Stages | None, str]:
        arguments: dict[str, Argument] = {}
        fields = dict(zip(self._fields, field_dtypes, strict=True))
        for name in self._function.parameters:
            if name in fields:
                arguments[name] = Field(name, fields[name])
            else:
                standard = name in self._standard
                arguments[name] = argument(name, others[name], standard)
        request = Request(
            self._options.neighborhood,
            dtypes,
            overflow,
            keep,
            self._options.fastmath,
            schedule or self._schedule_for(field_dtypes),
        )
        key = (tuple(arguments.values()), request)
        found = self._compiled.get(key)
        if found is None:
            with self._compiling:
                found = self._compiled.get(key)
                if found is None:
                    compile = functools.partial(compile_kernel, self._function, arguments, request)
                    with shown_at_home(self._function):
                        found = with_room(compile, self._function)
                    self._compiled[key] = found
        return found

    def _warn(self, compiled: Compiled, reason: str) -> None:
        """Say once that the kernel takes the general path.

        Not in a process that was sent the stencil: whoever sent it has been told.
        """
        if compiled.unread is None or self._live is None or self._token in _told:
            return
        found = slow_kernel(compiled.unread, self.__name__, reason)
        warn(str(found), SlowKernelWarning)
        _told.add(self._token)

    def _chain(
        self, stages: Stages, states: int, steps: int, varying: tuple[str, ...], unbounded: bool
    ) -> Compiled:
        key = (id(stages), states, steps, varying, unbounded)
        found = self._chains.get(key)
        if found is None:
            found = compile_chain(stages, states, steps, varying, unbounded)
            found = self._chains.setdefault(key, found)
        return found

    # Looking inside.

    def debug(
        self,
        /,
        *args: Any,
        boundary: Any = None,
        cval: Any = None,
        axes: Sequence[int] | None = None,
        dtype: Any = None,
        overflow: str | None = None,
        **named: Any,
    ) -> Any:
        """Compute the result by calling the function itself at every point, in Python.

        Slow and exact: prints, breakpoints and the debugger work inside the kernel.  The
        result is the definition that every back end is tested against.

        Parameters
        ----------
        *args, **named
            As for a call, NumPy arrays only.
        boundary, cval, axes, dtype, overflow
            As for a call.

        Returns
        -------
        array or tuple of arrays
            As a call gives.
        """
        if named.get("dims") is not None:
            raise TypeError("dims= names the dimensions of xarray objects; use axes= here.")
        named.pop("dims", None)
        values = self._bound(args, named)
        fields = [on_numpy.as_field(values[name], name) for name in self._fields]
        call = self._call(values, boundary, cval, dtype, overflow)
        last = self._last(fields, call)
        if len(whole_shape(fields)) < last.ndim:
            raise on_numpy.too_few_axes(last.ndim, whole_shape(fields))
        order = None if axes is None else behind(axes, len(whole_shape(fields)), last.ndim)
        fields = self._reaching(fields, call, order)
        if order is None:
            return self._evaluated(fields, call, last)
        ends = range(-last.ndim, 0)
        made = self._evaluated([np.moveaxis(one, order, ends) for one in fields], call, last)
        if isinstance(made, tuple):
            return tuple(np.moveaxis(one, ends, order) for one in made)
        return np.moveaxis(made, ends, order)

    def _reaching(
        self, fields: Sequence[np.ndarray], call: Call, order: Behind | None
    ) -> list[np.ndarray]:
        """The fields, each with all axes of the call."""
        return list(np.broadcast_arrays(*fields)) if order is not None else list(fields)

    def _last(self, fields: Sequence[np.ndarray], call: Call) -> Compiled:
        """What gives the results, for fields of these types."""
        compiled, _, _ = call.compiled([on_numpy.native(f.dtype) for f in fields])
        return compiled

    def _evaluated(self, fields: Sequence[np.ndarray], call: Call, compiled: Compiled) -> Any:
        """The results by their definition."""
        computed = reference.evaluate(
            frozen(self._function),
            dict(zip(self._fields, fields, strict=True)),
            scalars=call.others,
            standard=self._options.standard_indexing,
            boundary=call.boundary.on(compiled.ndim).rules,
            cval=call.cval,
            ndim=compiled.ndim,
            footprints=[(box.lo, box.hi) for box in compiled.reaches],
        )
        results = tuple(
            reference.store(value, dtype, call.overflow)
            for value, dtype in zip(computed, compiled.out_dtypes, strict=True)
        )
        return results[0] if len(results) == 1 else results

    def source(self, *types: Any) -> str:
        """Give the text that is compiled for fields of given types.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.

        Returns
        -------
        str
            A Python module.
        """
        compiled, _, _ = self._for_types(types)
        return Page(compiled.module.text)

    def ir(self, *types: Any) -> str:
        """Give the kernel's intermediate form, with the range of every value.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.

        Returns
        -------
        str
            An assignment a line.
        """
        _, stages, reason = self._for_types(types)
        if stages is None:
            return Page(f"{self.__name__} takes the general path: {reason}.")
        known = ranges(stages.simplified)
        return Page(
            kernel_text(
                stages.simplified, lambda name: f"{known[name].low:g} .. {known[name].high:g}"
            )
        )

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
        """
        fields, _ = self._parted(types)
        return self._schedule_for(self._types(fields)) if types else self._options.schedule

    def _schedule_for(self, dtypes: Sequence[np.dtype]) -> Schedule:
        """What the stencil was decorated with, or what `tune` found for these types."""
        if self._options.schedule != Schedule():
            return self._options.schedule
        kinds = " ".join(map(str, dtypes))
        found = self._schedules.get(kinds)
        if found is None:
            found = self._schedules[kinds] = tuned.load(self._token, kinds) or Schedule()
        return found

    def tune(self, /, *args: Any, seconds: float = 60.0, **named: Any) -> Tuning:
        """Measure other schedules on real arrays, and keep the fastest for this machine.

        From then on calls with fields of these types use it, in this process and in others.
        Only what leaves every bit of the result is tried.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays.
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
        """
        if self._options.schedule != Schedule():
            raise ValueError(
                f"'{self.__name__}' was decorated with a schedule; leave schedule= out to tune."
            )
        options = {n: v for n, v in named.items() if n in CALL_OPTIONS}
        values = self._bound(args, {n: v for n, v in named.items() if n not in CALL_OPTIONS})
        self._refuse_unreal(values, "tune()")
        fields = [on_numpy.as_field(values[name], name) for name in self._fields]
        dtypes = [on_numpy.native(field.dtype) for field in fields]

        # All write to the same arrays: to make new ones would take a part of the time.
        out = self(*args, **named)
        kinds = " ".join(map(str, dtypes))

        def variant(schedule: Schedule) -> tuple[Hashable, Callable[[], Any]]:
            scheduled = replace(self._options, schedule=schedule)
            other = type(self)(self._function, scheduled, self._live)
            # Not what was found before, should it be the default.
            other._schedules[kinds] = schedule
            run = functools.partial(other, *args, **{"out": out, **named})
            return other._code(dtypes, values, options), run

        rounds = functools.partial(self._choices, dtypes, values, options)
        found = search(Schedule(), rounds, variant, seconds)
        path = tuned.store(self._token, kinds, found.schedule)
        # What is compiled and prepared already is of the schedule before.
        self._schedules[kinds] = found.schedule
        self._compiled.clear()
        self._prepared.clear()
        return replace(found, path=path)

    def _choices(
        self,
        dtypes: Sequence[np.dtype],
        values: Mapping[str, Any],
        options: Mapping[str, Any],
        base: Schedule,
    ) -> list[list[dict[str, Any]]]:
        """What tuning can try."""
        given = {n: v for n, v in options.items() if n in ("boundary", "dtype", "overflow")}
        call = self._call(values, **given)
        stages = call.compiled(dtypes)[1]
        return choices(stages is not None and exact(stages.stored)) if stages else []

    def _code(
        self, dtypes: Sequence[np.dtype], values: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Hashable:
        """What is compiled for a call."""
        given = {n: v for n, v in options.items() if n in ("boundary", "dtype", "overflow")}
        return self._call(values, **given).compiled(dtypes)[0].module.text

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
            Values of scalars without a default, and options of a call such as `boundary`.

        Returns
        -------
        str
            Lines of text: where the kernel looks, its border rule, the proved ranges, the
            algorithm of each window and sum with why it is no other, the types of the lanes,
            operations and bytes for each point; then how long compiling took, how fast the
            machine copies, and the predicted and measured speed.
        """
        arrays, small = self._parted(arrays)
        named = small | named
        fields = list(arrays) * (len(self._fields) if len(arrays) == 1 else 1)
        found = None
        if len(fields) == len(self._fields) and not interpreted():
            found = self._glimpse(fields, named)
        compiled, stages, reason = self._for_types(arrays, named)
        call = self._call(
            self._given(named), boundary=named.get("boundary"), cval=named.get("cval")
        )
        border = _border_text(call.boundary, call.cval)
        text = explanation(self.__name__, compiled, stages, reason, border)
        return Page(text if found is None else f"{text}\n{measured(compiled, stages, found)}")

    def bench(self, /, *args: Any, repeat: int = 20, **named: Any) -> Measurement:
        """Measure a call, honestly: compiled before, warm, in turn with a copy of its fields.

        The calls write to arrays that are there already, as the copy does. Ends after 5
        seconds if there are 3 samples by then.

        Parameters
        ----------
        *args, **named
            As for a call, with NumPy arrays.
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
            If a field is no NumPy array, or `repeat` no whole number.
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
        if isinstance(repeat, bool) or not isinstance(repeat, int):
            raise TypeError(f"repeat must be a whole number, not {repeat!r}.")
        if repeat < 1:
            raise ValueError(f"repeat={repeat} is less than 1.")
        options = {n: v for n, v in named.items() if n in CALL_OPTIONS}
        if options.pop("dims", None) is not None:
            raise TypeError("dims= names the dimensions of xarray objects; use axes= here.")
        values = self._bound(args, {n: v for n, v in named.items() if n not in CALL_OPTIONS})
        self._refuse_unreal(values, "bench()")
        return self._measured(values, options, repeat, 5.0)

    def _refuse_unreal(self, values: Mapping[str, Any], what: str) -> None:
        """Raise unless every field is an array of NumPy with something in it."""
        for name in self._fields:
            if not isinstance(values[name], np.ndarray):
                raise TypeError(f"{what} needs NumPy arrays; '{name}' is none.")
            if not values[name].size:
                raise ValueError(f"{what} needs points to compute; '{name}' is empty.")

    def _repr_svg_(self) -> str | None:
        """Draw for a notebook what the kernel reads of float64 fields; None if it cannot."""
        try:
            compiled, stages, _ = self._for_types(())
        except (errors.StencilError, TypeError, ValueError):
            return None
        if stages is None:
            return None
        border = _border_text(self._options.boundary, self._options.cval)
        title = f"{self.__name__}({', '.join(self.parameters)}), border {border}"
        read = cells(stages.simplified)
        return footprint_svg(
            title, compiled.reach, dict(zip(self._fields, read.values(), strict=True))
        )

    def _glimpse(self, fields: Sequence[Any], named: Mapping[str, Any]) -> Measurement | None:
        """A short measurement, if the fields are real arrays."""
        compiled, _, _ = self._for_types(fields, named)
        if not measurable(fields, compiled.ndim):
            return None
        values = self._given(named) | dict(zip(self._fields, part(fields), strict=True))
        options = {n: v for n, v in named.items() if n in CALL_OPTIONS and n != "dims"}
        return self._measured(values, options, 5, 0.3)

    def _measured(
        self, values: Mapping[str, Any], options: dict[str, Any], repeat: int, limit: float
    ) -> Measurement:
        """Measure calls with these values of all parameters."""
        place = {n: options[n] for n in ("axes", "out") if n in options}
        given = {n: v for n, v in options.items() if n not in place}
        call = self._call(values, **given)
        fields = [on_numpy.as_field(values[name], name) for name in self._fields]
        program = call.program([on_numpy.native(array.dtype) for array in fields])
        border = call.boundary.on(program.ndim)
        names = self._function.parameters
        args = [values[name] for name in names[: self._positional]]
        rest = {name: values[name] for name in names[self._positional :]} | given
        axes, first = place.get("axes"), place.get("out")

        def run(out: Any) -> Any:
            return self(*args, **rest, axes=axes, out=first if out is None else out)

        def count(out: Any) -> int:
            # The first part decides how the rest is divided: twice, should the first be slow.
            # Each call is counted for itself, for it may have other threads of the pool.
            most = 0
            for _ in range(2):
                watched = Watched(program.compiled, program.coefficients, program.scalars)
                on_numpy.apply(
                    watched, fields, border=border, cval=call.cval, axes=axes, out=out,
                    threads=call.threads,
                )  # fmt: skip
                most = max(most, len(watched.threads))
            return most

        return measurement(self.__name__, [program.compiled], fields, run, count, repeat, limit)

    def _given(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the parameters that are no fields; 0 where nothing says more."""
        for name in named:
            if name not in self.parameters and name not in CALL_OPTIONS:
                raise TypeError(
                    f"{self.__name__}() has no parameter '{name}'; it has "
                    f"{', '.join(self.parameters)}{hint(name)}."
                )
        return {n: named.get(n, self._function.defaults.get(n, 0)) for n in self._others}

    def _parted(self, given: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The fields, or their types, and by name the small arrays that stand among them."""
        small = self._options.standard_indexing
        names = [n for n in self._function.parameters if n in self._fields or n in small]
        if len(given) <= len(self._fields) or len(given) != len(names):
            return tuple(given), {}
        values = dict(zip(names, given, strict=True))
        fields = tuple(values[name] for name in self._fields)
        return fields, {n: _small(v, n) for n, v in values.items() if n not in self._fields}

    def _types(self, given: Sequence[Any]) -> list[np.dtype]:
        """The dtypes of the fields; one alone serves for all."""
        dtypes = [on_numpy.native(_dtype(item)) for item in given or ("float64",)]
        if len(dtypes) == 1:
            dtypes = dtypes * len(self._fields)
        if len(dtypes) != len(self._fields):
            raise ValueError(
                f"'{self.__name__}' has {_count(len(self._fields), 'field')} "
                f"({', '.join(self._fields)}), but {_count(len(dtypes), 'type')} were given."
            )
        return dtypes

    def _for_types(
        self, given: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> tuple[Compiled, Stages | None, str]:
        given, small = self._parted(given)
        named = small | dict(named or {})
        dtypes = self._types(given)
        call = self._call(
            self._given(named),
            boundary=named.get("boundary"),
            dtype=named.get("dtype"),
            overflow=named.get("overflow"),
        )
        return self._compile(dtypes, call.others, call.boundary.keeps, call.dtypes, call.overflow)


def _dtype(given: Any) -> np.dtype:
    """The dtype of an array, or what stands for one."""
    if isinstance(given, str | type | np.dtype):
        return np.dtype(given)
    found = getattr(given, "dtype", None)
    dtype: np.dtype = on_numpy.as_field(given).dtype if found is None else np.dtype(found)
    on_numpy.check_dtype(dtype)
    return dtype


def _small(value: Any, name: str) -> Any:
    """A small array, of which more than the type is needed."""
    if isinstance(value, str | type | np.dtype):
        raise TypeError(
            f"'{name}' is indexed absolutely, so its shape counts: give an array, such as "
            f"numpy.zeros(256, {np.dtype(value).name!r}), not a dtype."
        )
    return value


def _field(value: Any, name: str) -> Any:
    """An array of a kind that a stencil takes."""
    value = known(value)
    kinds = is_dask(value) or is_xarray(value) or is_dataset(value)
    return value if kinds else on_numpy.as_field(value, name)


def _border_text(boundary: Boundary, cval: Any) -> str:
    """The border rule in words."""
    shown = str(boundary).strip("'")
    uses = boundary.uses("fill") or boundary.uses("constant")
    return f"{shown} with {cval!r}" if uses else shown


def _count(number: int, word: str) -> str:
    """Give a number with its word: 1 field, 2 fields."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


# The kernels that a `SlowKernelWarning` told of.
_told: set[str] = set()

_registry: weakref.WeakValueDictionary[str, Stencil] = weakref.WeakValueDictionary()

# Stencils that came in pickles: a worker's tasks come and go, and nothing else holds them.
_kept: deque[Stencil] = deque(maxlen=256)


def restored(token: str, make: Callable[[], Stencil]) -> Stencil:
    """The stencil of a pickle; the same object each time, so that it is compiled once."""
    found = _registry.get(token)
    if found is None:
        found = _registry.setdefault(token, make())
        _kept.append(found)
    return found


def _restored(token: str, function: Function, options: Options) -> Stencil:
    return restored(token, lambda: Stencil(function, options))
