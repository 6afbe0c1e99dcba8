"""The ordinary way of a call, which takes arrays of any kind.

datasets         variable by variable
lazy values      recorded
all others       a graph, evaluated; `Stencil.__call__` remembers how, for small arrays
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from .arrays import accepted, spacings
from .arrays.channels import check_steps, may_hold, working_axes
from .arrays.datasets import over_variables
from .arrays.ghosts import unnamed
from .arrays.recognise import is_chunked, is_cupy, is_dataset, is_device, is_xarray
from .calls import Call
from .definition import Definition
from .graph import Graph, graph_of, has_conditions
from .iteration import (
    InMemory,
    Iteration,
    check_lengths,
    is_worth_chains,
    iterate,
    positions,
)
from .language.errors import hint
from .language.positions import Spacing
from .lowering.schedule import Schedule
from .options import CALL_OPTIONS, Place
from .recording import Lazy, known, recorded
from .running import as_fields, evaluate, evaluate_steps, named_results
from .slabs.ranks import on_ranks
from .slabs.slab import Motion
from .stepping import Scalars
from .waiting import before_writing

# Exchanges between chunks from which on the workers of a cluster hold the state: to begin and to
# end takes about as long as two of them.
MANY = 4


class Parametrised(Protocol):
    """What has parameters, as functions have them."""

    # How many can be given by position, and those that can be given in no other way.
    positional: int
    unnamed: frozenset[str]

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> tuple[str, ...]: ...

    @property
    def defaults(self) -> Mapping[str, Any]: ...


def unfit(
    definition: Parametrised,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    options: Collection[str] = CALL_OPTIONS,
) -> TypeError:
    """What is wrong with arguments that do not fit the parameters, and are no `options`."""
    name, parameters = definition.name, definition.parameters
    positional = parameters[: definition.positional]
    if len(args) > len(positional):
        named_only = parameters[len(positional) :]
        words = f"; {', '.join(named_only)} must be given by name" if named_only else ""
        count = "1 argument" if len(positional) == 1 else f"{len(positional)} arguments"
        return TypeError(
            f"{name}() takes {count} ({', '.join(positional)}), but {len(args)} were given{words}."
        )
    for given in named:
        if given in options:
            return TypeError(f"'{given}=' is an option of calls only; leave it out here.")
        if given not in parameters:
            return TypeError(
                f"{name}() has no parameter '{given}'; it has "
                f"{', '.join(parameters)}{hint(given, (*parameters, *sorted(options)))}."
            )
        if given in definition.unnamed:
            return TypeError(f"{name}() takes '{given}' by its position only.")
        if given in parameters[: len(args)]:
            return TypeError(f"{name}() got two values for '{given}'.")
    missing = (
        one
        for one in parameters[len(args) :]
        if one not in named and one not in definition.defaults
    )
    return TypeError(f"{name}() needs a value for '{next(missing)}'.")


def called(call: Call, fields: Sequence[Any], place: Place) -> Any:
    """What a call gives for fields of any kind."""
    if any(map(is_dataset, fields)):
        place.check(fields)
        return _over_datasets(call, fields, place)
    if any(isinstance(field, Lazy) for field in fields):
        return recorded(fields, call, place)
    return _evaluated(call, fields, place)


def _over_datasets(call: Call, fields: Sequence[Any], place: Place) -> Any:
    """The results for datasets among the fields, variable by variable."""
    given = dict(zip(call.definition.fields, fields, strict=True))

    def one(variables: Mapping[str, Any]) -> Any:
        return called(call, list((given | dict(variables)).values()), place)

    def ndim(variable: Any) -> int:
        types = [accepted.native(variable.dtype)] * len(fields)
        graph, _ = graph_of(call.spaced(), types)
        return graph.nodes[-1].ndim

    return over_variables(one, given, place.dims, ndim)


def _evaluated(call: Call, fields: Sequence[Any], place: Place) -> Any:
    """What a call gives for arrays."""
    names = call.definition.fields
    fields = as_fields(fields, names)
    types = [accepted.native(np.dtype(field.dtype)) for field in fields]
    for dtype, name in zip(types, names, strict=True):
        accepted.check_dtype(dtype, name)
    if call.spacings:
        call, place = _spaced(call, fields, types, place)
    # On a GPU no kernel is slow: what is not understood is refused there.
    graph, wanted = graph_of(
        call, types, looked=place.device is not None or any(map(is_device, fields))
    )
    made = evaluate(
        graph, fields, wanted, call.definition.schedule_for(types),
        axes=place.axes, dims=place.dims, out=place.out, threads=place.threads,
        device=place.device,
    )  # fmt: skip
    return made[0] if len(made) == 1 else tuple(made)


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
    # On a GPU no kernel is slow: what is not understood is refused there.
    there = device is not None or any(map(is_device, fields))
    given = {name: values[name] for name in definition.scalars}
    types = [accepted.native(np.dtype(field.dtype)) for field in fields]
    given = _steps_spaced(definition, given, fields, types, plan)
    scalars = Scalars(given, definition.options.standard_indexing, plan.steps)
    call = Call.of(definition, scalars.at(0), plan.boundary, plan.cval)
    plan = replace(plan, boundary=call.boundary, cval=call.cval)

    graph, wanted = graph_of(call, types, looked=there)
    check_lengths(graph)
    if plan.steps and any(map(may_hold, fields)):
        check_steps(fields, graph_of(call, types)[0].nodes[-1].ndim, definition.name)

    def after(arrays: Sequence[Any], plan: Iteration) -> list[Any]:
        # On xarray objects the values at the border have their names no more.
        now = replace(call, boundary=plan.boundary)
        first = graph_of(now, types, looked=there)[0]

        def record(types: Sequence[np.dtype], others: Mapping[str, Any]) -> Any:
            # After the fields of the call there may be positions.
            own = types[: len(definition.fields)]
            return graph_of(replace(now, scalars=others), own, looked=there)

        def stepped(
            states: Sequence[Any], each: Sequence[Mapping[str, Any]], step: int
        ) -> list[Any]:
            calls = [replace(now, scalars=others) for others in each]
            schedule = in_tasks(states)
            if len(each) == 1:
                # Steps that are left over would need kernels of their own if they were joined.
                schedule = replace(schedule, steps=1)
            return evaluate_steps(calls, states, schedule, plan.threads, device, step)

        if has_conditions(first):
            _check_ghosts(plan, there)
        placed = first.places
        if plan.comm is not None and placed:
            raise TypeError(
                f"'{definition.name}' asks for positions, which processes with parts of an array "
                "do not know; give them as a field of its own, of which each has its part."
            )
        if plan.comm is not None:
            if there or any(map(is_chunked, arrays)):
                raise TypeError(
                    "comm= takes arrays of NumPy, in each process its own part: the points on "
                    "both sides come from other processes."
                )
            motion = Motion(call, tuple(types), len(wanted), in_tasks(arrays))
            return on_ranks(motion, plan.comm, arrays, scalars, plan, out)
        schedule = definition.schedule_for(types)
        if not any(map(is_chunked, arrays)):
            arrays = [*arrays, *positions(graph, wanted, arrays, plan.steps)]
        if any(map(is_chunked, arrays)):
            # Imported here: Dask is optional, and the caller has it or its like.
            from .lazy_states import InChunks

            chunked = InChunks(record, stepped, in_tasks(arrays), arrays, scalars, plan)
            apart = device is not None or placed or has_conditions(first)
            if not apart and plan.steps > MANY * chunked.longest and "distributed" in sys.modules:
                # Imported here: it is optional, and the caller has it.
                from .slabs.cluster import on_cluster

                motion = Motion(call, tuple(types), len(wanted), in_tasks(arrays))
                made = on_cluster(motion, arrays, chunked.chunks, scalars, plan)
                if made is not None:
                    return made
            return iterate(chunked, scalars, plan)
        if any(map(is_cupy, arrays)) or (device is not None and plan.steps):
            # Imported here: CuPy is optional, and the caller has it.
            from .device_states import on_device

            return iterate(on_device(record, schedule, arrays, scalars, plan, out), scalars, plan)
        state = InMemory(record, definition.chains, schedule, arrays, scalars, plan, out)
        return iterate(state, scalars, plan)

    def in_tasks(states: Sequence[Any]) -> Schedule:
        schedule = definition.schedule_for(types)
        size = sum(math.prod(state.shape) * state.dtype.itemsize for state in states)
        if not schedule.steps and not is_worth_chains(size, plan.steps):
            return replace(schedule, steps=1)
        return schedule

    if any(map(is_xarray, fields)):
        states = _by_names(graph_of(call, types)[0], fields, plan, after)
    else:
        states = after(fields, plan)
    return states[0] if len(states) == 1 else tuple(states)


def _check_ghosts(plan: Iteration, there: bool) -> None:
    """Raise where no values can be laid at the border."""
    if there:
        raise TypeError(
            'a GPU knows no border values but npt.dirichlet(number, at="cell") and npt.neumann(0)'
            "; leave out device=, give arrays of NumPy, or name a border rule."
        )
    if plan.comm is not None:
        raise TypeError(
            'comm= knows no border values but npt.dirichlet(number, at="cell") and npt.neumann(0)'
            ": each process has another part of the border; name a border rule."
        )


def _by_names(
    graph: Graph,
    fields: Sequence[Any],
    plan: Iteration,
    after: Callable[[Sequence[Any], Iteration], list[Any]],
) -> list[Any]:
    """The state after the steps, for xarray objects: what is `after` them on their arrays."""
    # Imported here: xarray is optional, and the caller has it.
    from .arrays.xarray import Named, arranged, restored

    named = Named(fields, graph.nodes[-1].ndim)
    dims = (*(dim for dim in named.dims if dim not in named.core), *named.core)
    plan.border(len(named.core))
    likes = named_results(graph, named)
    callback = plan.callback

    def back(states: Sequence[Any]) -> list[Any]:
        return [restored(one, dims, like) for one, like in zip(states, likes, strict=True)]

    if callback is not None:
        shown = callback
        plan = replace(plan, callback=lambda step, *states: shown(step, *back(states)))
    boundary = unnamed(plan.boundary, named, dims, len(named.core))
    plan = replace(plan, boundary=boundary)
    made = after([arranged(field, dims) for field in named.fields], plan)
    if plan.steps:
        return back(made)
    return [one.astype(accepted.native(one.dtype)) for one in fields[: len(likes)]]
