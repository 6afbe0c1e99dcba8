"""Iterate a stencil on Dask arrays: one exchange of neighbours serves several steps.

    for each block of T steps:
        one task a chunk   takes T times the halo, does T steps on it, and keeps its own points

What is wrong beyond the halo creeps in by one reach a step, and never gets to the chunk itself.
Where the halo would go beyond the array there is the border instead, with its rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.threads import serial
from ..language.box import Box, joined
from . import numpy as on_numpy
from .blocks import Part
from .borders import Array, Border, Rule
from .dask import Compile, Job, common_shape, lazily
from .layout import layout

# Steps in one exchange, as far as the halo stays within an eighth of the chunks.
STEPS = 8
SMALL = 8


def block_length(fields: Sequence[Any], reach: Box) -> int:
    """How many steps to do in one exchange."""
    length = STEPS
    for axis, (lo, hi) in enumerate(zip(reach.lo, reach.hi, strict=True), -reach.ndim):
        far = max(-lo, hi)
        for field in fields:
            if far > 0 and field.ndim >= -axis and hasattr(field, "chunks"):
                sizes = field.chunks[axis]
                if len(sizes) > 1 and min(sizes) < STEPS * SMALL * far:
                    length = min(length, max(1, int(min(sizes)) // (SMALL * far)))
    return length


def advance(
    steps: Sequence[Compile],
    fields: Sequence[Any],
    *,
    border: Border,
    cval: Any,
    reaches: tuple[Box, ...],
    out_dtypes: Sequence[np.dtype[Any]],
    token: str,
    name: str,
) -> list[Any]:
    """Give the state after the steps, as lazy Dask arrays.

    Each of `steps` gives the program of one step for the fields' dtypes, and must pickle;
    `reaches` are those of one step, and `token` names the meaning of all of them.
    """
    shape = common_shape(fields, border.ndim)
    core = tuple(range(len(shape) - border.ndim, len(shape)))
    dtypes = tuple(on_numpy.native(np.dtype(field.dtype)) for field in fields)
    outs = tuple(map(np.dtype, out_dtypes))
    lengths = tuple(shape[axis] for axis in core)
    on_numpy.check_values(layout(lengths, reaches, border), cval, dtypes, outs)
    reach = joined(reaches)
    zero = (0,) * border.ndim
    far = Box(tuple(o * len(steps) for o in reach.lo), tuple(o * len(steps) for o in reach.hi))
    deep = far | Box(zero, zero)
    # Beyond the array anything will do, for it is cut off again; save where the array wraps.
    outside = Border(
        tuple(
            ("wrap", "wrap") if "wrap" in rule else ("nearest", "nearest") for rule in border.rules
        )
    )
    job = Steps(
        steps[0],
        outside,
        cval,
        core,
        (deep,) * len(outs),
        dtypes,
        outs,
        shape,
        tuple(steps),
        border,
    )
    return lazily(job, layout(lengths, job.reaches, outside), fields, f"{token} {border}", name)


@dataclass(frozen=True)
class Steps(Job):
    """Several steps in each task; `border` says how neighbours are taken, `rule` is the border."""

    steps: tuple[Compile, ...]
    rule: Border

    def on_whole(self, *blocks: Any) -> Any:
        """Do the steps on blocks whose core axes are whole."""
        arrays = [np.asarray(block) for block in blocks]
        return _bare(self._stepped(arrays, self.rule))

    def on_block(
        self,
        region: tuple[tuple[int, int], ...],
        recipes: tuple[tuple[Part, ...], ...],
        *chunks: Any,
    ) -> Any:
        """Do the steps on the block `region` and its halo, and give the block."""
        size = tuple(b - a for a, b in region)
        if 0 in size:
            return _bare([np.empty(size, dtype) for dtype in self.out_dtypes])
        lengths = self.whole
        padded = self.padded(layout(lengths, self.reaches, self.border), recipes, chunks)
        taken: list[slice] = []
        own: list[slice] = []
        rules: list[tuple[Rule, Rule]] = []
        spans = zip(
            (region[axis] for axis in self.core),
            lengths, self.reach.lo, self.reach.hi, self.rule.rules, strict=True,
        )  # fmt: skip
        for (a, b), n, lo, hi, (before, after) in spans:
            if before == "wrap":
                first, last = a + lo, b + hi
                rules.append(("nearest", "nearest"))
            else:
                first, last = max(0, a + lo), min(n, b + hi)
                rules.append(
                    (before if first == 0 else "nearest", after if last == n else "nearest")
                )
            taken.append(slice(first - a - lo, last - a - lo))
            own.append(slice(a - first, b - first))
        made = self._stepped([_cut(array, taken) for array in padded], Border(tuple(rules)))
        return _bare([_cut(state, own) for state in made])

    def _stepped(self, fields: list[Array], border: Border) -> list[Array]:
        count = len(self.out_dtypes)
        states, others = fields[:count], fields[count:]
        with serial():
            for step in self.steps:
                program = step(self.field_dtypes).within(self.whole)
                made = on_numpy.apply(program, [*states, *others], border=border, cval=self.cval)
                states = list(made) if isinstance(made, tuple) else [made]
        return states


def _cut(array: Array, parts: Sequence[slice]) -> Array:
    inside: tuple[Any, ...] = (..., *parts)
    view: Array = array[inside]
    return view


def _bare(results: list[Array]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
