"""Points: threads make the points of each stage, and then those of the results, from memory.

    v = x[0, 1] - x[0, -1]               __global__ void npt_f_1(f0, v0, ...)   v over its region
    out = v[-1, 0] + v[1, 0]     ->      __global__ void npt_f(v0, o0, ...)     the result

Any kernel can be done so.  A stage is an array between two launches, over all points at which it
is needed; beyond the ends of the fields it is computed there, as the border says they go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...analysis.ranges import Interval, ranges
from ...language.box import Box
from ...language.ir import Histogram, Kernel, Stage, Values
from ...lowering.kept import needed
from ...lowering.machine import machine_type
from .borders import Rules, constants_of, maps
from .functions import field_arrays, out_arrays
from .memory import Array
from .patches import launched
from .shapes import Part, padded
from .source import Launch, Scratch, Source


def points(
    kernel: Kernel,
    name: str,
    reaches: Sequence[Box],
    outs: Sequence[np.dtype],
    rules: Rules,
) -> Source:
    """The text of a kernel whose outputs are in their storage types, and its launches.

    Its functions are called after `name`.
    """
    known, need = ranges(kernel), needed(kernel)
    constants = constants_of(rules, [dtype for _, dtype in kernel.fields], outs)
    arrays, scratch = field_arrays(kernel), list[Scratch]()
    lines, launches = maps(rules), list[Launch]()

    def add(part: Part) -> None:
        text, launch = launched(part, known)
        lines.extend(text)
        launches.append(launch)

    for position, stage in enumerate(kernel.stages):
        if stage.names[0] not in need:
            continue
        low, high = (corner[-kernel.ndim :] for corner in need[stage.names[0]])
        one = replace(
            kernel, stages=kernel.stages[:position], body=stage.body, outputs=stage.values
        )
        made: dict[str, Array] = {}
        for k, value in enumerate(stage.names):
            number, dtype = len(scratch), _kept(stage, k, known)
            region = padded(low, high, dtype)
            made[value] = Array(f"scratch{number}", f"v{number}", dtype, region)
            scratch.append(Scratch(made[value].name, dtype, *region))
        called, targets = f"{name}_{len(launches) + 1}", tuple(made.values())
        add(Part(one, called, low, high, targets, arrays, rules, constants, (), stage))
        arrays = arrays | made
    nothing, results = (0,) * kernel.ndim, tuple(out_arrays(outs))
    add(Part(kernel, name, nothing, nothing, results, arrays, rules, constants, tuple(reaches)))
    return Source("\n".join([*lines, ""]), tuple(launches), tuple(scratch), constants)


def _kept(stage: Stage, k: int, known: Mapping[str, Interval]) -> np.dtype:
    """What a stage is stored as: the narrowest type that holds it."""
    # Steps in a chain are not points by themselves, and no sum runs down the rows.
    assert isinstance(stage, Values | Histogram)
    return np.dtype(machine_type(stage.values[k].dtype, known[stage.names[k]]))
