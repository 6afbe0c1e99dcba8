"""Chains: several steps of an iteration as one kernel, each step a stage of the next.

    step:  out = u[-1] + u[1]             v = u[-1] + u[1]
    3 steps                        ->     w = v[-1] + v[1]
                                          out = w[-1] + w[1]

A step's rows are made right after the last rows of the step before that it needs, while these
are in cache: a wavefront that runs down the rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..language.ir import Kernel
from .fusion import Part, fused, renumbered, unfit


def chainable(kernel: Kernel, states: tuple[str, ...]) -> str:
    """Why steps of a kernel cannot be chained; empty where they can."""
    if kernel.ndim > 2:
        return "only rows are kept, and it has an axis before the rows"
    if any(np.dtype(dtype) == np.float16 for name, dtype in kernel.fields if name in states):
        return "rows are kept as float32, and each step rounds to float16"
    return unfit(kernel)


def chained(
    kernel: Kernel, states: tuple[str, ...], steps: int, varying: tuple[str, ...] = ()
) -> Kernel:
    """The kernel that does `steps` steps at once.

    `states` are the fields that the outputs take the place of, in order.  A scalar named in
    `varying` has a value for each step: the scalar `k` of step 2 is called `k2_`.
    """
    sources = {name: name for name, _ in kernel.fields}
    parts: list[Part] = []
    for step in range(steps):
        made = tuple(f"{state}{step}_" for state in states)
        names = {name: f"{name}{step}_" for name in varying}
        parts.append(Part(kernel, dict(sources), made, names))
        sources |= dict(zip(states, made, strict=True))
    named = {name for part in parts for name in part.made}
    whole = renumbered(fused(parts, parts[-1].made), named)
    types = dict(whole.scalars)
    fixed = tuple((name, dtype) for name, dtype in kernel.scalars if name not in varying)
    copies = [f"{name}{step}_" for name in varying for step in range(steps)]
    return replace(whole, scalars=(*fixed, *((name, types[name]) for name in copies)))
