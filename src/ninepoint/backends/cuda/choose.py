"""Choose: which calls are done in strips, and the links that these are made of.

    Forms, rules of a border                ->   Source, or None: points
    links of a group of calls               ->   Source, or None: one call after the other
    links of a step, and how many steps     ->   Source, or None: fewer steps

What is done in one pass over memory here gives the bits that the calls give one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...analysis.control import loops
from ...language.box import Box
from ...language.dtypes import short
from ...language.ir import Kernel, Reduce, Values
from ...lowering.chain import Edges, Link, chained, piped
from ...lowering.cost import operation
from ...lowering.fusion import Part, unfit
from ...lowering.passes import ROWS, checked, passed
from ...lowering.schedule import Schedule
from ...lowering.sharing import merged
from .rings import Rules
from .source import Source
from .strips import strips

if TYPE_CHECKING:
    from ..pipeline import Forms

# How many times as many operations a kernel without stages must have as one with stages, before
# it is done with them: these cost shuffles, and registers.
WORTH = 1.5

# Rules of borders by which an output that has no neighbours is not computed.
_ABSENT = ("fill", "keep", "valid")


def rolled(forms: Forms) -> Kernel:
    """The kernel with what neighbours compute too in stages; no sum runs down the rows.

    Each float is added in the order in which the CPU adds it.
    """
    request = replace(forms.request, schedule=replace(forms.request.schedule, running=False))
    return passed(ROWS, forms.windowed, request, forms.compiled.reach)["shared"]


def in_strips(forms: Forms, plain: Kernel, name: str, rules: Rules) -> Source | None:
    """One kernel in strips, if it is better done so than as it is in `plain`."""
    kernel = rolled(forms)
    if unfit(kernel) or loops(kernel) or not kernel.stages:
        return None
    looped = any(isinstance(assign.value, Reduce) for assign in plain.body)
    if not plain.stages and not looped and _work(plain) < WORTH * _work(kernel):
        return None
    compiled, fields = forms.compiled, [name for name, _ in kernel.fields]
    made = tuple(f"result{k}" for k in range(len(compiled.out_dtypes)))
    part = Part(kernel, {name: name for name in fields}, made, {})
    return group(
        name,
        [link(part, compiled.out_dtypes, compiled.reaches, 0, rules)],
        kernel.fields,
        made,
        [rules],
        forms.request.schedule,
    )


def link(
    part: Part,
    types: Sequence[np.dtype],
    reaches: Sequence[Box],
    border: int,
    rules: Rules,
    *,
    zero: bool = True,
) -> Link:
    """One call of a group or a step, by the border of this number, whose constant is `zero`."""
    sides = {side for pair in rules for side in pair}
    leaves = any(
        (before in _ABSENT and low < 0) or (after in _ABSENT and high > 0)
        for reach in reaches
        for (before, after), low, high in zip(rules, reach.lo, reach.hi, strict=True)
    )
    asked = not sides.isdisjoint(("fill", "constant"))
    return Link(
        part,
        tuple(types),
        tuple(reaches),
        border,
        "keep" in sides,
        leaves,
        "keep" in sides or (asked and not zero),
    )


def group(
    name: str,
    links: Sequence[Link],
    fields: Sequence[tuple[str, np.dtype]],
    outputs: Sequence[str],
    borders: Sequence[Rules],
    schedule: Schedule,
) -> Source | None:
    """Several calls in one pass, which gives the `outputs`; None where that cannot be."""
    if any(unfit(one.part.kernel) for one in links):
        return None
    types = {n: d for one in links for n, d in zip(one.part.made, one.types, strict=True)}
    # A float of 16 bits is rounded where it is stored.
    last = set(links[-1].part.made)
    if any(short(d) for n, d in types.items() if n not in last):
        return None
    kernel, edges = piped(links, fields, outputs, schedule)
    return _written(kernel, edges, borders, name, [types[n] for n in outputs])


def chain(
    name: str,
    links: Sequence[Link],
    fields: Sequence[tuple[str, np.dtype]],
    states: Sequence[str],
    steps: int,
    borders: Sequence[Rules],
    schedule: Schedule,
) -> Source | None:
    """Several steps in one pass, each of which is the links; None where that cannot be."""
    if any(unfit(one.part.kernel) for one in links):
        return None
    if any(short(dtype) for one in links for dtype in one.types):
        return None
    kernel, edges = chained(links, fields, states, steps, schedule, everywhere=True)
    return _written(kernel, edges, borders, name, links[-1].types)


def _written(
    kernel: Kernel,
    edges: Edges,
    borders: Sequence[Rules],
    name: str,
    outs: Sequence[np.dtype],
) -> Source | None:
    return strips(checked(merged(checked(kernel))), edges, borders, name, outs)


def _work(kernel: Kernel) -> float:
    """Operations at each point."""
    bodies = [kernel.body, *(s.body for s in kernel.stages if isinstance(s, Values))]
    return sum(operation(assign.value) for body in bodies for assign in body)
