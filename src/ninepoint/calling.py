"""The ordinary way of a call, which takes arrays of any kind, and of an iteration.

datasets         variable by variable
lazy values      recorded
all others       a program, evaluated; `Stencil.__call__` remembers how, for arrays in memory
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays import accepted, spacings
from .arrays.accepted import is_chunked, is_cupy, is_dataset, is_device, is_xarray
from .arrays.channels import check_steps, may_hold, working_axes
from .arrays.ghosts import unnamed
from .calls import Call
from .definition import Definition
from .graph import Graph, graph_of, has_conditions
from .iteration import (
    Iteration,
    check_lengths,
    in_memory,
    is_worth_chains,
    iterate,
    positions,
)
from .language.positions import Spacing
from .lowering.schedule import Schedule
from .options import Place
from .program import Program
from .recording import Lazy, known, recorded
from .running import ON_GPU, as_fields, evaluate, evaluate_steps, named_results, typed
from .slabs.ranks import on_ranks
from .slabs.slab import Motion
from .stepping import Record, Scalars
from .waiting import before_writing

# Exchanges between chunks from which on the workers of a cluster hold the state: to begin and to
# end takes about as long as two of them.
MANY = 4


def called(call: Call, fields: Sequence[Any], place: Place) -> Any:
    """What a call gives for fields of any kind."""
    if any(map(is_dataset, fields)):
        place.check(fields)
        return _over_datasets(call, fields, place)
    if any(isinstance(field, Lazy) for field in fields):
        return recorded(fields, call, place)
    fields, types = typed(call, fields)
    if call.spacings:
        call, place = _spaced(call, fields, types, place)
    # On a GPU no kernel is slow: what is not understood is refused there.
    looked = place.device is not None or any(map(is_device, fields))
    program = Program(*graph_of(call, types, looked=looked), call.definition.schedule_for(types))
    made = evaluate(program, fields, place)
    return made[0] if len(made) == 1 else tuple(made)


def _over_datasets(call: Call, fields: Sequence[Any], place: Place) -> Any:
    """The results for datasets among the fields, variable by variable."""
    from .arrays.xarray import over_variables

    given = dict(zip(call.definition.fields, fields, strict=True))

    def one(variables: Mapping[str, Any]) -> Any:
        return called(call, list((given | dict(variables)).values()), place)

    def ndim(variable: Any) -> int:
        types = [accepted.native(variable.dtype)] * len(fields)
        graph, _ = graph_of(call.spaced(), types)
        return graph.nodes[-1].ndim

    return over_variables(one, given, place.dims, ndim)


def _spaced(
    call: Call, fields: Sequence[Any], types: Sequence[np.dtype], place: Place
) -> tuple[Call, Place]:
    """The call with the spacings of the fields' coordinates, along the dimensions that it has."""
    name = call.definition.name
    if not any(map(is_xarray, fields)):
        raise spacings.unknown(next(iter(call.spacings)), name)
    # Imported here: xarray is optional, and the caller has it.
    from .arrays.xarray import Named

    place.check(fields)
    ndim, axes = graph_of(call.spaced(), types)[0].nodes[-1].ndim, place.axes
    if axes is None and place.dims is None:
        axes = working_axes(fields, ndim, name)
    named = Named(fields, ndim, place.dims, axes)
    # By name, so that it is not asked again which axes may be colours.
    place = replace(place, axes=None, dims=named.core)
    return call.spaced(spacings.found(call.spacings, named, call.definition, call.boundary)), place


# Iterations.


def iterated(
    definition: Definition,
    values: Mapping[str, Any],
    plan: Iteration,
    out: Any,
    device: str | None,
) -> Any:
    """The state after the steps, for arrays of any kind."""
    before_writing(out)
    fields = [known(values[name]) for name in definition.fields]
    if any(map(is_dataset, fields)):
        raise TypeError(
            "iterate takes DataArrays, not a Dataset; give its variables one by one, "
            "as dataset[name]."
        )
    fields = as_fields(fields, definition.fields)
    Place(out=out, threads=plan.threads, device=device).check(fields)
    types = tuple(accepted.native(np.dtype(field.dtype)) for field in fields)
    given = {name: values[name] for name in definition.scalars}
    given = _steps_spaced(definition, given, fields, types, plan)
    scalars = Scalars(given, definition.options.standard_indexing, plan.steps)
    call = Call.of(definition, scalars.at(0), plan.boundary, plan.cval)
    plan = replace(plan, boundary=call.boundary, cval=call.cval)
    # On a GPU no kernel is slow: what is not understood is refused there.
    there = device is not None or any(map(is_device, fields))
    steps = _Steps(Record(call, types, there), scalars, device)
    graph, _ = steps.first
    check_lengths(graph)
    if plan.steps and any(map(may_hold, fields)):
        check_steps(fields, graph.nodes[-1].ndim, definition.name)
    if any(map(is_xarray, fields)):
        states = _by_names(steps, fields, plan)
    else:
        states = steps.after(fields, plan, out)
    return states[0] if len(states) == 1 else tuple(states)


def _steps_spaced(
    definition: Definition,
    given: dict[str, Any],
    fields: Sequence[Any],
    types: Sequence[np.dtype],
    plan: Iteration,
) -> dict[str, Any]:
    """The scalars of all steps, with the spacings of the fields' coordinates."""
    asked = {name: one for name, one in given.items() if isinstance(one, Spacing)}
    if not asked:
        return given
    if not any(map(is_xarray, fields)):
        raise spacings.unknown(next(iter(asked)), definition.name)
    # Imported here: xarray is optional, and the caller has it.
    from .arrays.xarray import Named

    given = given | dict.fromkeys(asked, 1.0)
    first = Scalars(given, definition.options.standard_indexing, plan.steps).at(0)
    call = Call.of(definition, first, plan.boundary, plan.cval)
    named = Named(fields, graph_of(call, types)[0].nodes[-1].ndim)
    return given | spacings.found(asked, named, definition, call.boundary)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps that are recorded alike, each with its own scalars, and on which device."""

    record: Record
    scalars: Scalars
    device: str | None

    @property
    def first(self) -> tuple[Graph, tuple[int, ...]]:
        """The calls of the first step, and which of their values are the results."""
        return self.record(self.record.types, self.record.call.scalars)

    @property
    def schedule(self) -> Schedule:
        """The choices with which they are planned."""
        return self.record.call.definition.schedule_for(self.record.types)

    def after(self, arrays: Sequence[Any], plan: Iteration, out: Any = None) -> list[Any]:
        """The state after all steps, for arrays without names."""
        # On xarray objects the values at the border have their names no more.
        call = replace(self.record.call, boundary=plan.boundary)
        steps = replace(self, record=replace(self.record, call=call))
        graph, wanted = steps.first
        if has_conditions(graph):
            _check_ghosts(plan, self.record.looked)
        if plan.comm is not None:
            return steps._on_ranks(arrays, plan, out)
        if not any(map(is_chunked, arrays)):
            arrays = [*arrays, *positions(graph, wanted, arrays, plan.steps)]
        if any(map(is_chunked, arrays)):
            return steps._in_chunks(arrays, plan)
        if any(map(is_cupy, arrays)) or (self.device is not None and plan.steps):
            # Imported here: CuPy is optional, and the caller has it.
            from .device_states import on_device

            there = on_device(steps.record, self.schedule, arrays, self.scalars, plan, out)
            return iterate(there, self.scalars, plan)
        here = in_memory(steps.record, self.schedule, arrays, self.scalars, plan, out)
        return iterate(here, self.scalars, plan)

    def _on_ranks(self, arrays: Sequence[Any], plan: Iteration, out: Any) -> list[Any]:
        """The same of arrays of which each process has a part."""
        if self.first[0].places:
            raise TypeError(
                f"'{self.record.call.definition.name}' asks for positions, which processes with "
                "parts of an array do not know; give them as a field of its own, of which each "
                "has its part."
            )
        if self.record.looked or any(map(is_chunked, arrays)):
            raise TypeError(
                "comm= takes arrays of NumPy, in each process its own part: the points on "
                "both sides come from other processes."
            )
        return on_ranks(self._motion(arrays, plan), plan.comm, arrays, self.scalars, plan, out)

    def _in_chunks(self, arrays: Sequence[Any], plan: Iteration) -> list[Any]:
        """The same of lazy arrays, by the workers of a cluster if there are any."""
        # Imported here: Dask is optional, and the caller has it or its like.
        from .lazy_states import InChunks

        graph, _ = self.first
        schedule, scalars = self._in_tasks(arrays, plan), self.scalars

        def stepped(
            states: Sequence[Any], each: Sequence[Mapping[str, Any]], step: int
        ) -> list[Any]:
            calls = [replace(self.record.call, scalars=others) for others in each]
            own = self._in_tasks(states, plan)
            if len(each) == 1:
                # Steps that are left over would need kernels of their own if they were joined.
                own = replace(own, steps=1)
            place = Place(threads=plan.threads, device=self.device)
            return evaluate_steps(calls, states, own, place, step)

        state = InChunks(self.record, stepped, schedule, arrays, scalars, plan)
        apart = self.device is not None or has_conditions(graph) or graph.places
        if not apart and plan.steps > MANY * state.longest and "distributed" in sys.modules:
            # Imported here: it is optional, and the caller has it.
            from .slabs.cluster import on_cluster

            motion = self._motion(arrays, plan)
            made = on_cluster(motion, arrays, state.chunks, scalars, plan)
            if made is not None:
                return made
        return iterate(state, scalars, plan)

    def _motion(self, arrays: Sequence[Any], plan: Iteration) -> Motion:
        """The steps as parts of the state are told of them."""
        call, types = self.record.call, self.record.types
        return Motion(call, types, len(self.first[1]), self._in_tasks(arrays, plan))

    def _in_tasks(self, states: Sequence[Any], plan: Iteration) -> Schedule:
        """How steps of parts of a state are planned: one by one, if no more is worth it."""
        schedule = self.schedule
        size = sum(math.prod(state.shape) * state.dtype.itemsize for state in states)
        if not schedule.steps and not is_worth_chains(size, plan.steps):
            return replace(schedule, steps=1)
        return schedule


def _check_ghosts(plan: Iteration, there: bool) -> None:
    """Raise where no values can be laid at the border."""
    if there:
        raise TypeError(ON_GPU)
    if plan.comm is not None:
        raise TypeError(
            'comm= knows no border values but npt.dirichlet(number, at="cell") and npt.neumann(0)'
            ": each process has another part of the border; name a border rule."
        )


def _by_names(steps: _Steps, fields: Sequence[Any], plan: Iteration) -> list[Any]:
    """The state after the steps, for xarray objects."""
    # Imported here: xarray is optional, and the caller has it.
    from .arrays.xarray import Named, arranged, restored

    graph, _ = steps.first
    named = Named(fields, graph.nodes[-1].ndim)
    dims = (*(dim for dim in named.dims if dim not in named.core), *named.core)
    plan.border(len(named.core))
    likes = named_results(graph, named)
    callback = plan.callback

    def back(states: Sequence[Any]) -> list[Any]:
        return [restored(one, dims, like) for one, like in zip(states, likes, strict=True)]

    if callback is not None:
        shown: Callable[..., Any] = callback
        plan = replace(plan, callback=lambda step, *states: shown(step, *back(states)))
    boundary = unnamed(plan.boundary, named, dims, len(named.core))
    plan = replace(plan, boundary=boundary)
    made = steps.after([arranged(field, dims) for field in named.fields], plan)
    if plan.steps:
        return back(made)
    return [one.astype(accepted.native(one.dtype)) for one in fields[: len(likes)]]
