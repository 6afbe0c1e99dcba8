"""Random kernels, steps and pipelines as texts for a GPU, whatever they would be given.

    python tests/random_texts.py FIRST LAST

compiles those of the seeds for each of ARCHITECTURES, and prints what is spilled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import numpy as np

import agreement
import kernels
import machine_code
import random_pipelines as pipelines
import random_steps
from ninepoint import onepass
from ninepoint.arrays.accepted import native
from ninepoint.arrays.borders import Boundary
from ninepoint.backends.cuda.writing import written
from ninepoint.calls import Call
from ninepoint.graph import graph_of
from ninepoint.lowering.schedule import Schedule
from ninepoint.planning import in_sets

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")

RULES = tuple(rule for rule in kernels.RULES if rule not in ("valid", "keep"))


def kernel_text(seed: int) -> str | None:
    """A kernel with a border of its own; None on the general path."""
    one = agreement.draw(seed)
    stencil = one.stencil
    types = [native(one.arrays[name].dtype) for name in stencil.fields]
    others = {n: one.values.get(n, stencil.defaults.get(n)) for n in stencil.scalars}
    lowered, forms, _ = stencil.definition.compiled(types, others, "keep" in str(one.boundary))
    if forms is None:
        return None
    return written(forms, Boundary.of(one.boundary).on(lowered.ndim).rules).text


def steps_text(seed: int) -> str | None:
    """Some steps in one pass; None where they cannot be."""
    rng = Random(seed)
    stencil, case = random_steps.drawn_step(rng, seed)
    arrays = kernels.random_arrays(rng, case, (9,) * case.ndim)
    others = case.scalars | {n: one for n, one in arrays.items() if n not in case.fields}
    border = kernels.random_boundary(rng, case.ndim, rules=RULES)
    call = Call.of(stencil.definition, stencil.definition.defaults | others, border, 1)
    graph, wanted = graph_of(call, [np.dtype(one) for one in case.fields.values()], looked=True)
    one = onepass.steps_together(graph, wanted, rng.choice([1, 2, 3]), Schedule())
    return one.source.text if one else None


def pipeline_text(seed: int) -> str | None:
    """A kernel that calls others, in one pass; None where it cannot be."""
    drawn = pipelines.drawn_pipeline(Random(seed), (1, 2, 2, 2), conditions=False)
    if drawn is None:
        return None
    definition = drawn.whole.definition
    options: dict[str, Any] = {name: drawn.options[name] for name in ("boundary", "cval")}
    call = Call.of(definition, definition.defaults | drawn.others, **options)
    types = [drawn.arrays[name].dtype for name in drawn.whole.fields]
    graph, values = graph_of(call, types, looked=True)
    nodes = graph.needed(values)
    if len(in_sets(nodes, lambda *_: "")[0]) > 1:
        return None
    one = onepass.together(graph, nodes, values, Schedule())
    return one.source.text if one else None


def texts(seeds: Iterable[int]) -> Iterator[tuple[str, str]]:
    """The names and the texts of these seeds: every fifth is steps, the next a pipeline."""
    made = {3: ("steps", steps_text), 4: ("pipeline", pipeline_text)}
    for seed in seeds:
        kind, text = made.get(seed % 5, ("kernel", kernel_text))
        found = text(seed)
        if found is not None:
            yield f"{kind} {seed}", found


if __name__ == "__main__":
    named = dict(texts(range(*map(int, sys.argv[1:3]))))
    print(len(named), "texts")
    found = machine_code.in_parts(named, ARCHITECTURES)
    print(len(found), "functions")
    for key, one in sorted(found.items()):
        if one.spilled:
            print(*key, f"{one.registers} registers, {one.spilled} bytes")
