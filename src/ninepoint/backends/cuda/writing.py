"""The one door to a GPU's text: of a kernel that was lowered.

Compiled, rules of a border   ->   Source: in patches, or point by point
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...analysis.ranges import machine_type, ranges
from ...base.remembered import Remembered
from ...language.ir import Box, Kernel, Values
from ...lowering import rolling
from ...lowering.fusion import flattened
from ...lowering.passes import ROWS, checked, passed
from ..compiled import Compiled
from .bodies import field_arrays, out_arrays
from .patches import Patches, padded, shape_of
from .printing import Array, Rules, maps
from .source import Source

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
    if kernel is None or not shape_of(kernel, out_arrays(outs), field_arrays(kernel)).tiles:
        kernel = rows["shared"]
    return points(checked(kernel, reach), title(compiled.name), compiled.reaches, outs, rules)


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
    told = [(dtype, "constant") for _, dtype in kernel.fields] + [(one, "fill") for one in outs]
    asked = {rule for pair in rules for rule in pair}
    # Those that a rule asks for, each once.
    constants = tuple(one for one in dict.fromkeys(told) if one[1] in asked)
    arrays, scratch = field_arrays(kernel), list[Array]()
    parts = list[Patches]()
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
            number, dtype = len(scratch), np.dtype(machine_type(own.dtype, known[value]))
            region = padded(low, high, dtype)
            made[value] = Array(f"scratch{number}", f"v{number}", dtype, region)
            scratch.append(made[value])
        called, targets = f"{name}_{len(parts) + 1}", list(made.values())
        parts.append(Patches(one, known, constants, called, targets, low, high, arrays, rules))
        arrays = arrays | made
    here, results = (0,) * kernel.ndim, out_arrays(outs)
    parts.append(
        Patches(kernel, known, constants, name, results, here, here, arrays, rules, reaches)
    )
    lines = [*maps(rules), *(line for part in parts for line in part.text()), ""]
    launches = tuple(part.launch() for part in parts)
    return Source("\n".join(lines), launches, tuple(scratch), constants)


def title(name: str) -> str:
    """What the functions of a kernel begin with; what every text has begins with "npt_"."""
    return "kernel_" + "".join(c if c.isascii() else "_" for c in name)
