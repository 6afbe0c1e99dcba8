"""Iterations on arrays of any kind: in memory, on a GPU, in chunks, on workers or ranks."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ..arrays.accepted import (
    Arrays,
    is_chunked,
    is_cupy,
    is_dataset,
    is_device,
    is_lazy,
    is_xarray,
    native,
)
from ..arrays.channels import check_steps
from ..arrays.ghosts import unnamed
from ..iteration.iterate import Iteration, Scalars, iterate
from ..iteration.slabs.slab import on_ranks
from ..iteration.states import InChunks, InMemory, Motion, OnDevice
from ..program.definition import Call, Definition
from ..program.options import Place
from ..program.program import program_of, typed
from ..running.calls import evaluate

# Exchanges between chunks from which on the workers of a cluster hold the state: to begin and to
# end takes about as long as two of them.
MANY = 4


def iterated(
    definition: Definition,
    values: Mapping[str, Any],
    plan: Iteration,
    boundary: Any,
    cval: Any,
) -> list[Any]:
    """The state after the steps, for arrays of any kind."""
    fields = [values[name] for name in definition.fields]
    fields = [one.compute() if is_lazy(one) else one for one in fields]
    if any(map(is_dataset, fields)):
        raise TypeError(
            "iterate takes DataArrays, not a Dataset; give its variables one by one, "
            "as dataset[name]."
        )
    Place(out=plan.out, threads=plan.threads, device=plan.device).check(fields)
    fields, types = typed(definition.fields, fields)
    given = {name: values[name] for name in definition.scalars}
    scalars = Scalars.of(given, definition.options.standard_indexing, plan.steps)
    call = Call.of(definition, scalars.at(0), boundary=boundary, cval=cval)
    named: Any = None
    if any(map(is_xarray, fields)):
        # Imported here: xarray is optional, and the caller has it.
        from ..arrays import xarray as on_xarray

        named = on_xarray.Named(fields, program_of(call.spaced(), types).last.ndim)
        found = on_xarray.spacings(call, named)
        scalars.fixed.update(found)
        call = call.spaced(found)
    call.check_spaced()
    motion = Motion(call, tuple(types), definition.schedule_for(types), scalars)
    if plan.steps:
        check_steps(fields, motion.ndim, definition.name)
    if named is None:
        return _after(motion, fields, plan)
    return _by_names(motion, fields, named, plan)


def _after(motion: Motion, arrays: Arrays, plan: Iteration) -> list[Any]:
    """The state after all steps, for arrays without names."""
    graph = motion.graph
    there = plan.device is not None or any(map(is_device, arrays))
    cut = any(map(is_chunked, arrays))
    # On a GPU no kernel is slow: what is not understood is refused there.
    if not there:
        graph.warn()
    graph.check_target(there, cut)
    if plan.comm is not None and graph.has_conditions:
        raise TypeError(
            'comm= knows no border values but npt.dirichlet(number, at="cell") and npt.neumann(0)'
            ": each process has another part of the border; name a border rule."
        )
    if cut or plan.comm is not None:
        size = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
        motion = motion.sized(size, plan.steps)
    if plan.comm is not None:
        if there or cut:
            raise TypeError(
                "comm= takes arrays of NumPy, in each process its own part: the points on "
                "both sides come from other processes."
            )
        return on_ranks(motion, arrays, plan)
    motion.check()
    if cut:
        state = InChunks(motion, arrays, plan, evaluate)
        apart = plan.device is not None or graph.has_conditions
        if not apart and plan.steps > MANY * state.longest and "distributed" in sys.modules:
            # Imported here: it is optional, and the caller has it.
            from ..iteration.slabs.cluster import on_cluster

            # By the workers of a cluster, if there are any.
            made = on_cluster(motion, arrays, state.chunks, plan)
            if made is not None:
                return made
        return iterate(state, plan)
    on_device = any(map(is_cupy, arrays)) or (plan.device is not None and plan.steps)
    held = OnDevice if on_device else InMemory
    return iterate(held(motion, arrays, plan), plan)


def _by_names(motion: Motion, fields: Arrays, named: Any, plan: Iteration) -> list[Any]:
    """The state after the steps, for xarray objects."""
    # Imported here: xarray is optional, and the caller has it.
    from ..arrays.xarray import arranged, restored

    dims = (*(dim for dim in named.dims if dim not in named.core), *named.core)
    likes = named.results(motion.graph.nodes)
    callback = plan.callback

    def back(states: Arrays) -> list[Any]:
        return [restored(one, dims, like) for one, like in zip(states, likes, strict=True)]

    if callback is not None:
        shown: Callable[..., Any] = callback
        plan = replace(plan, callback=lambda step, *states: shown(step, *back(states)))
    boundary = unnamed(motion.call.options.boundary, named.core, partial(named.edge, dims=dims))
    motion = replace(motion, call=motion.call.with_options(boundary=boundary))
    arrays = [arranged(field, dims) for field in named.fields]
    made = _after(motion, arrays, plan)
    if plan.tell:
        return made
    if plan.steps:
        return back(made)
    return [one.astype(native(one.dtype)) for one in fields[: len(likes)]]
