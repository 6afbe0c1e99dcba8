"""The one door to a GPU's text: of a kernel that was lowered.

Compiled, rules of a border   ->   Source: in patches, or point by point

On a GPU a border costs next to nothing where it is met, in the kernel: each function of a text
takes whole arrays and does every point of them, with the rule of the border where a neighbour
lies outside.  So a text is written for one border, and a call is a few launches:

    text  ->  Launch, Launch, ...      each reads fields and scratch, and writes scratch or outputs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...analysis.ranges import machine_type, ranges
from ...base.remembered import Remembered
from ...language.ir import Box, Kernel, Values
from ...lowering import rolling
from ...lowering.passes import ROWS, checked, passed
from ...lowering.sharing import flattened
from ..compiled import Compiled
from .patches import Patches, Source, padded, shape_of
from .printing import Array, Rules, maps, stored_type

# Operations up to which a kernel is done in one piece, counting what its neighbours compute as
# well: a stage costs a launch, and is written and read.
LONGEST = 320


# Texts, by the kernel and the rules of its border.
_sources: Remembered[tuple[Compiled, Source]] = Remembered(256)


def source_of(compiled: Compiled, rules: Rules) -> Source:
    """The text of a kernel for one border, written once."""
    return _sources.made((id(compiled), rules), lambda: (compiled, written(compiled, rules)))[1]


def written(compiled: Compiled, rules: Rules) -> Source:
    """Write the text of a kernel, with the rule of its border before and after each core axis.

    It is done in one piece up to `LONGEST` operations, if a thread can make several points.  Else
    what neighbours share is kept in stages, and no window slides along rows.  Each float is added
    in the order in which the CPU adds it.

    Not in strips: on an H200 a median of 3x3 took 1.2 times as long as a copy in patches (float32)
    and 9 times in strips (bytes), and a mean of float32 1.7 times in strips.
    """
    forms, reach = compiled.forms, compiled.reach
    assert forms is not None, compiled.reason
    request, outs = replace(forms.request, slides=False), compiled.out_dtypes
    rows = passed(ROWS, forms.stored, request, reach)
    kernel = flattened(rows["wholesome"], LONGEST)
    if kernel is None or not shape_of(kernel, outs, dict(kernel.fields)).tiles:
        kernel = rows["shared"]
    # What every text has begins with "npt_".
    name = f"kernel_{compiled.name}"
    return points(checked(kernel, reach), name, compiled.reaches, outs, rules)


def points(
    kernel: Kernel, name: str, reaches: Sequence[Box], outs: Sequence[np.dtype], rules: Rules
) -> Source:
    """The text of a kernel whose threads make the points of each stage, and then the results.

    v = x[0, 1] - x[0, -1]               __global__ void npt_f_1(f0, v0, ...)   v over its region
    out = v[-1, 0] + v[1, 0]     ->      __global__ void npt_f(v0, o0, ...)     the result

    Any kernel can be done so.  A stage is an array between two launches, over all points at which
    it is needed; beyond the ends of the fields it is computed there, as the border says they go
    on.  Functions are called after `name`.
    """
    known, need = ranges(kernel), rolling.needed(kernel)
    told = [("constant", dtype) for _, dtype in kernel.fields] + [("fill", one) for one in outs]
    asked = {rule for pair in rules for rule in pair}
    constants = [
        f"{stored_type(dtype)} b{k}" for k, (rule, dtype) in enumerate(told) if rule in asked
    ]
    here = (0,) * kernel.ndim
    arrays = {
        name: Array(f"f{k}", dtype, rules, (here, here))
        for k, (name, dtype) in enumerate(kernel.fields)
    }
    scratch, parts = list[Array](), list[Patches]()
    for position, stage in enumerate(kernel.stages):
        # Steps in a chain are no points, and nothing slides along rows here.
        assert isinstance(stage, Values)
        if stage.names[0] not in need:
            continue
        low, high = (corner[-kernel.ndim :] for corner in need[stage.names[0]].ends)
        one = replace(
            kernel, stages=kernel.stages[:position], body=stage.body, outputs=stage.values
        )
        made = dict[str, Array]()
        for value, own in zip(stage.names, stage.values, strict=True):
            dtype = np.dtype(machine_type(own.dtype, known[value]))
            made[value] = Array(f"v{len(scratch)}", dtype, (), padded(low, high, dtype))
            scratch.append(made[value])
        called, targets = f"{name}_{len(parts) + 1}", list(made.values())
        parts.append(Patches(called, one, known, targets, low, high, arrays, rules, constants))
        arrays = arrays | made
    results = [Array(f"o{k}", dtype) for k, dtype in enumerate(outs)]
    parts.append(
        Patches(name, kernel, known, results, here, here, arrays, rules, constants, reaches)
    )
    lines = [*maps(rules), *(line for part in parts for line in part.text()), ""]
    launches = tuple(part.launch() for part in parts)
    return Source("\n".join(lines), launches, tuple(scratch))
