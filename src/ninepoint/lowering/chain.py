"""Chains: several steps of an iteration as one kernel, each step a stage of the next.

    step:  out = u[-1] + u[1]             v = u[-1] + u[1]
    3 steps                        ->     w = v[-1] + v[1]
                                          out = w[-1] + w[1]

A step's rows are made right after the last rows of the step before that it needs, while these
are in cache: a wavefront that runs down the rows, or down the planes where there are planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..analysis.simplify import renamed, renamed_atom
from ..language.ir import Assign, Atom, Expr, Kernel, Read, Reduce, Ref, Stage


def chainable(kernel: Kernel, states: tuple[str, ...]) -> str:
    """Why steps of a kernel cannot be chained; empty where they can."""
    if any(np.dtype(dtype) == np.float16 for name, dtype in kernel.fields if name in states):
        return "rows are kept as float32, and each step rounds to float16"
    if any(stage.ranks is not None for stage in kernel.stages):
        return "a histogram slides over a field only"
    if any(stage.running for stage in kernel.stages):
        return "a sum runs down the rows, with the rows of the result and no faster"
    for body in (kernel.body, *(stage.body for stage in kernel.stages)):
        if any(isinstance(assign.value, Reduce) for assign in body):
            return "a window is looped over at each point, in a field only"
    return ""


def chained(
    kernel: Kernel, states: tuple[str, ...], steps: int, varying: tuple[str, ...] = ()
) -> Kernel:
    """The kernel that does `steps` steps at once.

    `states` are the fields that the outputs take the place of, in order.  A scalar named in
    `varying` has a value for each step: the scalar `k` of step 2 is called `k2_`.
    """
    stages: list[Stage] = []
    source = {name: name for name in states}
    scalars = dict(kernel.scalars)
    for step in range(steps):
        own = {name: Ref(scalars[name], f"{name}{step}_") for name in varying}
        names = {name: f"{name}s{step}_" for stage in kernel.stages for name in stage.names}
        last = step == steps - 1
        for stage in kernel.stages:
            body, alias = _step(stage.body, f"s{step}_", source, names, own)
            stages.append(
                replace(
                    stage,
                    names=tuple(names[name] for name in stage.names),
                    body=body,
                    values=tuple(renamed_atom(value, alias) for value in stage.values),
                )
            )
        body, alias = _step(kernel.body, f"s{step}_", source, names, own)
        outputs = tuple(renamed_atom(output, alias) for output in kernel.outputs)
        if last:
            break
        made = tuple(f"{state}{step}_" for state in states)
        stages.append(Stage(made, body, outputs))
        source = dict(zip(states, made, strict=True))
    fixed = tuple((n, d) for n, d in kernel.scalars if n not in varying)
    copies = tuple((f"{n}{step}_", scalars[n]) for n in varying for step in range(steps))
    return replace(
        kernel, scalars=(*fixed, *copies), body=body, outputs=outputs, stages=tuple(stages)
    )


def _step(
    body: tuple[Assign, ...],
    suffix: str,
    source: Mapping[str, str],
    stages: Mapping[str, str],
    scalars: Mapping[str, Atom],
) -> tuple[tuple[Assign, ...], dict[str, Atom]]:
    """The assignments of one step under names of their own, and what they are called now."""
    alias: dict[str, Atom] = dict(scalars)
    made: list[Assign] = []
    for assign in body:
        expr: Expr = renamed(assign.value, alias)
        if isinstance(expr, Read):
            field = source.get(expr.field) or stages.get(expr.field, expr.field)
            expr = replace(expr, field=field)
        name = f"{assign.name}{suffix}"
        alias[assign.name] = Ref(expr.dtype, name)
        made.append(Assign(name, expr))
    return tuple(made), alias
