"""Stencils that call others: what these make are stages, done together with the kernel."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .api import Stencil, restored
from .arrays import numpy as on_numpy
from .arrays.axes import Behind
from .arrays.borders import Boundary
from .arrays.datasets import refuse_for_datasets
from .arrays.measuring import measurable, measurement, part
from .arrays.recognise import is_dask, is_dataset, is_xarray
from .backends.measure import Measurement
from .backends.numba.cpu import Compiled
from .backends.threads import thread_count
from .calls import Call
from .graph import Graph, identity
from .iteration import Iteration, Scalars, iterate_calls
from .language import errors
from .language.page import Page
from .language.refusals import refuse
from .language.source import Function
from .language.stages import OPTIONS, Stages, split
from .lowering.schedule import Schedule
from .options import CALL_OPTIONS, Options
from .planning import Plan, graph_text, plan, plan_text
from .recording import Lazy, Place, known, recordable
from .running import evaluate, reaching
from .tuning import stage_choices

# Graphs that a stencil keeps, for calls that differ in nothing but the data.
_REMEMBERED = 16


def _restored(token: str, function: Function, options: Options) -> Stencil:
    return restored(token, lambda: Staged(function, options))


class _Remainder(Stencil):
    """What remains of a kernel without its calls, for fields of the kernel and for stages.

    With `keeping` it has all fields of the kernel, in their order, though it may not read some.
    """

    def __init__(self, outer: Staged, keeping: bool) -> None:
        self._outer = outer
        self._keeping = keeping
        kept = outer.fields if keeping else ()
        function, options = outer._stages.remainder(kept), outer._options
        # A field of which nothing is left but its length is one all the same.
        asked = set(outer.fields).intersection(function.parameters)
        self._known = {*outer._stages.made, *kept, *asked}
        standard = tuple(n for n in options.standard_indexing if n in function.parameters)
        super().__init__(function, replace(options, standard_indexing=standard))

    def _check_names(self) -> None:
        # What the stages make is never given by name, so that it may be called as an option is.
        refuse(self._function)

    def _indexed(self) -> set[str]:
        return super()._indexed() | self._known

    def _warn(self, compiled: Compiled, reason: str) -> None:
        self._outer._warn(compiled, reason)

    def __reduce__(self) -> Any:
        return getattr, (self._outer, "_keeping" if self._keeping else "_remainder")


class Staged(Stencil):
    """A stencil whose function calls other stencils on its fields.

    Each call gives the array that it would give by itself, border and all; where it can, it
    is done together with the kernel, row by row, so that it is never stored whole.  Otherwise
    like any `Stencil`.
    """

    def __init__(self, function: Function, options: Options, live: Any = None) -> None:
        found = split(function)
        assert found is not None
        self._stages: Stages = found
        self._graphs: dict[Any, tuple[Graph, tuple[int, ...]]] = {}
        super().__init__(function, options, live)

    def __reduce__(self) -> Any:
        return _restored, (self._token, self._function, self._options)

    def _indexed(self) -> set[str]:
        given = {name for call in self._stages.calls for name in call.fields}
        return (super()._indexed() | given) & set(self._function.parameters)

    def _check_body(self) -> None:
        self._remainder = _Remainder(self, False)
        # The rule "keep" keeps values of the kernel's own fields.
        self._keeping = _Remainder(self, True)

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
        """Apply the stencil to whole arrays; see `Stencil.__call__`."""
        values = self._bound(args, named)
        fields = [values[name] for name in self._fields]
        if any(map(is_dataset, fields)):
            refuse_for_datasets(axes, out)
            given = {
                "boundary": boundary, "cval": cval, "dims": dims, "dtype": dtype,
                "overflow": overflow, "threads": threads,
            }  # fmt: skip
            return self._over_datasets(values, given)
        options = {"boundary": boundary, "cval": cval, "dtype": dtype, "overflow": overflow}
        if any(isinstance(field, Lazy) for field in fields):
            place = Place(axes, dims, out, threads)
            if recordable(fields, place):
                return self._recorded(values, options, place)
            fields = [known(field) for field in fields]
        graph, wanted = self._graph(fields, values, options)
        made = evaluate(
            graph, fields, wanted, self._schedule_for(graph.dtypes[: graph.given]),
            axes=axes, dims=dims, out=out, threads=threads,
        )  # fmt: skip
        return made[0] if len(made) == 1 else tuple(made)

    def _iterated(
        self, fields: Sequence[Any], scalars: Scalars, plan: Iteration, out: Any
    ) -> Sequence[Any]:
        options = {"boundary": plan.boundary, "cval": plan.cval}

        def compiled(types: Sequence[np.dtype], others: Mapping[str, Any]) -> Any:
            given = [np.empty(0, dtype) for dtype in types]
            return self._graph(given, others, options)[0].nodes[-1].compiled, None, ""

        def call(states: Sequence[Any], each: Sequence[Mapping[str, Any]]) -> Any:
            (others,) = each
            given = dict(zip(self._fields, states, strict=True))
            return self(**given, **others, **options, threads=plan.threads)

        result = iterate_calls(compiled, call, fields, scalars, plan, lambda _: 1)
        if out is None:
            return result
        shapes, dtypes = [one.shape for one in result], [one.dtype for one in result]
        given = on_numpy.checked_out(out, shapes, dtypes, None)
        for target, one in zip(given, result, strict=True):
            on_numpy.write(target, one)
        return given

    def _graph(
        self, fields: Sequence[Any], values: Mapping[str, Any], options: Mapping[str, Any]
    ) -> tuple[Graph, tuple[int, ...]]:
        """The calls on fields of given types, and which of its values are the results."""
        dtypes = []
        for field, name in zip(fields, self._fields, strict=True):
            foreign = not (is_dask(field) or is_xarray(field))
            dtype = (on_numpy.as_field(field, name) if foreign else field).dtype
            on_numpy.check_dtype(np.dtype(dtype), name)
            dtypes.append(on_numpy.native(np.dtype(dtype)))
        key = self._graph_key(dtypes, values, options)
        found = None if key is None else self._graphs.get(key)
        if found is None:
            graph = Graph(self._fields, dtypes)
            found = graph, self._record(graph, range(len(fields)), values, options, ())
            if key is not None:
                if len(self._graphs) >= _REMEMBERED:
                    self._graphs.clear()
                self._graphs[key] = found
        return found

    def _graph_key(
        self, dtypes: Sequence[np.dtype], values: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Any:
        """What a graph depends on; None where that may change, as the values of an array may."""
        others = [values[name] for name in self._others]
        if any(isinstance(value, np.ndarray) for value in others):
            return None
        given = tuple(map(repr, options.values()))
        return (*dtypes, *map(identity, others), *given)

    def _record(
        self,
        graph: Graph,
        fields: Sequence[int],
        values: Mapping[str, Any],
        options: Mapping[str, Any],
        labels: Sequence[str],
        axes: Behind | None = None,
    ) -> tuple[int, ...]:
        numbers = dict(zip(self._fields, fields, strict=True))
        scalars = {name: values[name] for name in self._others}
        inside = f"{labels[0]}." if labels else ""
        for call in self._stages.calls:
            callee = call.callee
            assert isinstance(callee, Stencil)
            given = {**callee.defaults, **self._stages.values(call.scalars, scalars)}
            made = callee._record(
                graph,
                [numbers[name] for name in call.fields],
                given,
                self._stages.values(call.options, scalars),
                [inside + name for name in call.made],
                axes,
            )
            if len(made) != len(call.made):
                wanted = len(call.made)
                raise errors.stage_outputs(call.span, callee.__name__, len(made), wanted)
            numbers |= zip(call.made, made, strict=True)
        boundary = options.get("boundary")
        boundary = self._options.boundary if boundary is None else Boundary.of(boundary)
        rest = self._keeping if boundary.keeps else self._remainder
        named = [numbers[name] for name in rest.fields]
        others = {name: scalars[name] for name in rest.scalars}
        return rest._record(graph, named, others, options, labels or [self.__name__], axes)

    def _reaching(
        self, fields: Sequence[np.ndarray], call: Call, order: Behind | None
    ) -> list[np.ndarray]:
        return list(reaching(self._graph_of(fields, call), fields, order))

    def _last(self, fields: Sequence[np.ndarray], call: Call) -> Compiled:
        return self._graph_of(fields, call).nodes[-1].compiled

    def _graph_of(self, fields: Sequence[np.ndarray], call: Call) -> Graph:
        options = {
            "boundary": call.boundary,
            "cval": call.cval,
            "dtype": call.dtypes,
            "overflow": call.overflow,
        }
        return self._graph(fields, call.others, options)[0]

    # Looking inside.

    def _planned(
        self, given: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> tuple[Graph, Plan]:
        """The calls for fields of these types, and how they are done."""
        given, small = self._parted(given)
        named = small | dict(named or {})
        fields = [np.empty(0, dtype) for dtype in self._types(given)]
        options = {n: named[n] for n in OPTIONS if n in named}
        graph, wanted = self._graph(fields, self._given(named), options)
        return graph, plan(graph, wanted, self._schedule_for(graph.dtypes[: graph.given]))

    def _for_types(
        self, given: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> tuple[Compiled, None, str]:
        """What gives the results, for fields of these types."""
        graph, _ = self._planned(given, named)
        return graph.nodes[-1].compiled, None, "it calls others"

    def source(self, *types: Any) -> str:
        """Give the texts that are compiled for fields of given types, one for each pass.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.

        Returns
        -------
        str
            Python modules, one after the other.
        """
        _, found = self._planned(types)
        return Page("\n\n".join(kernel.module.text for kernel in _kernels(found)))

    def ir(self, *types: Any) -> str:
        """Give the intermediate forms of the stages and of what remains, in their order.

        Parameters
        ----------
        *types : dtype or array
            One for each field; one alone serves for all.

        Returns
        -------
        str
            An assignment a line.
        """
        graph, found = self._planned(types)
        nodes = [node for group in found.groups for node in group.nodes]
        return Page(graph_text(graph, nodes))

    def explain(self, /, *arrays: Any, **named: Any) -> str:
        """Tell what each stage is, how it is kept and why; and with arrays, how fast it all is.

        Parameters
        ----------
        *arrays : array or dtype
            The fields, or their types; one alone serves for all.
        **named
            Values of scalars without a default, and options of a call such as `boundary`.

        Returns
        -------
        str
            Lines of text.  `explain` of a stage's own stencil tells more about it.
        """
        arrays, small = self._parted(arrays)
        named = small | named
        graph, found = self._planned(arrays, named)
        text = plan_text(self.__name__, graph, found)
        fields = list(arrays) * (len(self._fields) if len(arrays) == 1 else 1)
        if len(fields) == len(self._fields) and measurable(fields, graph.nodes[-1].ndim):
            values = self._given(named) | dict(zip(self._fields, part(fields), strict=True))
            options = {n: v for n, v in named.items() if n in CALL_OPTIONS and n != "dims"}
            text += f"\n  measured    {self._measured(values, options, 5, 0.3)}"
        return Page(text)

    def _measured(
        self, values: Mapping[str, Any], options: dict[str, Any], repeat: int, limit: float
    ) -> Measurement:
        fields = [on_numpy.as_field(values[name], name) for name in self._fields]
        named = {name: values[name] for name in self._others}
        _, found = self._planned(fields, named | options)
        given = dict(zip(self._fields, fields, strict=True)) | named

        def run(out: Any) -> Any:
            return self(**given, **(options if out is None else options | {"out": out}))

        def count(out: Any) -> int:
            points = max(field.size for field in fields)
            return thread_count(options.get("threads")) if points >= on_numpy.SPLIT_POINTS else 1

        return measurement(self.__name__, _kernels(found), fields, run, count, repeat, limit)

    def _choices(
        self,
        dtypes: Sequence[np.dtype],
        values: Mapping[str, Any],
        options: Mapping[str, Any],
        base: Schedule,
    ) -> list[list[dict[str, Any]]]:
        _, found = self._planned(dtypes, {**values, **options})
        names = [node.label for group in found.groups for node in group.nodes[:-1]]
        return stage_choices([*found.whole, *names], base)

    def _code(
        self, dtypes: Sequence[np.dtype], values: Mapping[str, Any], options: Mapping[str, Any]
    ) -> Hashable:
        _, found = self._planned(dtypes, {**values, **options})
        together = any(len(group.nodes) > 1 for group in found.groups)
        schedule = self._schedule_for(dtypes)
        return tuple(k.module.text for k in _kernels(found)), together and schedule.tile

    def _repr_svg_(self) -> str | None:
        return None


def _kernels(found: Plan) -> list[Compiled]:
    return [group.compiled or group.nodes[0].compiled for group in found.groups]
