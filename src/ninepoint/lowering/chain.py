"""Chains: several steps of an iteration as one kernel, each step a stage of the next.

    step:  out = u[-1] + u[1]             v = u[-1] + u[1]
    3 steps                        ->     w = v[-1] + v[1]
                                          out = w[-1] + w[1]

A step's rows are made right after the last rows of the step before that it needs, while these
are in cache: a wavefront that runs down the rows, or down the planes where there are planes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..language.dtypes import value_type
from ..language.ir import Assign, Kernel, Read, Ref, Stage, State, Values
from .fusion import Naming, Part, parts_of, unfit
from .kept import full, needed


def chainable(kernel: Kernel, states: tuple[str, ...]) -> str:
    """Why steps of a kernel cannot be chained; empty where they can."""
    if any(np.dtype(dtype) == np.float16 for name, dtype in kernel.fields if name in states):
        return "rows are kept as float32, and each step rounds to float16"
    return unfit(kernel)


def chained(
    kernel: Kernel,
    states: tuple[str, ...],
    steps: int,
    varying: tuple[str, ...] = (),
    *,
    bordered: bool = False,
    unbounded: bool = False,
) -> Kernel:
    """The kernel that does `steps` steps at once.

    `states` are the fields that the outputs take the place of, in order.  A scalar named in
    `varying` has a value for each step: the scalar `k_` of step 2 is called `k__2`.  With
    `bordered` each step gives a `State`, and so does a copy of what is read of a field
    beyond the ends of its rows, where the loops put the border's rule: any value
    at all if `unbounded`.
    """
    stages: list[Stage] = []
    storage = dict(kernel.fields)
    source = {name: name for name in states}
    if bordered:
        copied = (*states, *(name for name in read_beyond(kernel) if name not in states))
        source = {name: f"{name}_c0" for name in copied}
        stages += [_copy(name, storage[name], kernel.ndim) for name in copied]
    scalars = dict(kernel.scalars)
    for step in range(steps):
        names = {name: f"{name}_{step}" for name in varying}
        part = Part(kernel, {n: n for n, _ in kernel.fields} | source, states, names)
        naming = Naming(part, f"_s{step}")
        last = step == steps - 1
        stages += [naming.stage(stage) for stage in parts_of(kernel)]
        body, outputs = naming.body(kernel.body, kernel.outputs)
        before = tuple(source[name] for name in states)
        if bordered:
            types = tuple(storage[name] for name in states)
            body += _kept(body, before, types, f"_k{step}", kernel.ndim)
        if last:
            break
        made = tuple(f"{state}_{step}" for state in states)
        if bordered:
            stages.append(State(made, body, outputs, types, before, unbounded))
        else:
            stages.append(Values(made, body, outputs))
        source |= dict(zip(states, made, strict=True))
    fixed = tuple((n, d) for n, d in kernel.scalars if n not in varying)
    copies = tuple((f"{n}_{step}", scalars[n]) for n in varying for step in range(steps))
    return replace(
        kernel, scalars=(*fixed, *copies), body=body, outputs=outputs, stages=tuple(stages)
    )


def read_beyond(kernel: Kernel) -> tuple[str, ...]:
    """The fields that are read at other columns, or other rows, than the result's own."""
    nothing = full((0,) * kernel.ndim)
    need = needed(kernel)
    bodies = [(kernel.body, nothing, nothing)]
    bodies += [(s.body, *need[s.names[0]]) for s in kernel.stages if s.names[0] in need]
    far = {
        assign.value.field
        for body, *corners in bodies
        for assign in body
        if isinstance(assign.value, Read)
        for corner in corners
        if any(a + b for a, b in zip(corner[-2:], full(assign.value.offset)[-2:], strict=True))
    }
    return tuple(name for name, _ in kernel.fields if name in far)


def _copy(name: str, dtype: np.dtype, ndim: int) -> State:
    """A state that is the field itself."""
    read = Read(value_type(dtype), name, (0,) * ndim)
    copy = Assign(f"{name}_c1", read)
    return State((f"{name}_c0",), (copy,), (Ref(read.dtype, copy.name),), (dtype,))


def _kept(
    body: tuple[Assign, ...],
    before: tuple[str, ...],
    types: tuple[np.dtype, ...],
    suffix: str,
    ndim: int,
) -> tuple[Assign, ...]:
    """Reads of the states before that a body lacks, so that "keep" still finds them there."""
    own = (0,) * ndim
    reads = [assign.value for assign in body if isinstance(assign.value, Read)]
    there = {read.field for read in reads if read.offset == own}
    return tuple(
        Assign(f"{name}{suffix}", Read(value_type(dtype), name, own))
        for name, dtype in zip(before, types, strict=True)
        if name not in there
    )
