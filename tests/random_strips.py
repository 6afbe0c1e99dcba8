"""Random kernels, pipelines and steps in strips: what a GPU does in one pass is what calls give.

    NUMBA_DISABLE_JIT=1 python tests/random_strips.py KIND FIRST LAST ...

with "kernels", "pipelines", "steps" or "widths" prints how many of the seeds are done in strips.
Each is run by the emulator with its threads in three orders, and is equal to the bit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

import agreement
import emulator
import kernels
import passes
import random_pipelines as pipelines
import random_steps
from ninepoint import _testing as bounds
from ninepoint import onepass
from ninepoint.backends.cuda import choose
from ninepoint.calls import Call as Given
from ninepoint.graph import Graph, graph_of
from ninepoint.language.ir import Call, Kernel
from ninepoint.lowering.schedule import Schedule
from ninepoint.planning import in_sets, lowered

ORDERS = (0, 1, 7)

# What C and NumPy give to the bit.
EXACT = frozenset("sqrt fabs floor ceil trunc rint fmin fmax copysign isnan isinf sign".split())


@dataclass
class Job:
    """What is done in one pass, and what is wanted of it."""

    seed: int
    one: onepass.OnePass
    fields: Sequence[np.ndarray]
    wanted: Sequence[np.ndarray]
    words: str


def kernel_job(seed: int) -> Job | None:
    """A kernel by itself, with the stages that it is lowered to."""
    rng = Random(seed)
    numbers = rng.choice(["int", "float", "mixed"])
    case = kernels.random_kernel(rng, numbers=numbers, ndim=rng.choice([1, 2, 2]))
    stencil = pipelines.npt.stencil(**case.options, schedule=agreement.random_schedule(rng))(
        case.function
    )
    core = tuple(rng.choice([1, 2, 5, 9, 40]) for _ in range(case.ndim - 1))
    shape = (*rng.choice([(), (2,)]), *core, rng.choice([1, 3, 30, 130]))
    return job(rng, seed, stencil, case, shape, 0)


def step_job(seed: int) -> Job | None:
    """Some steps, of one call each or of several."""
    rng = Random(seed)
    stencil, case = random_steps.drawn_step(rng, seed)
    core = tuple(rng.choice([1, 3, 9, 22]) for _ in range(case.ndim - 1))
    shape = (*rng.choice([(), (2,)]), *core, rng.choice([1, 7, 30, 130]))
    return None if case.ndim > 2 else job(rng, seed, stencil, case, shape, rng.choice([1, 2, 3]))


def job(
    rng: Random,
    seed: int,
    stencil: pipelines.npt.Stencil,
    case: kernels.Case,
    shape: tuple[int, ...],
    steps: int,
) -> Job | None:
    """A call, or so many steps; None where it is not done in strips."""
    arrays = kernels.random_arrays(rng, case, shape)
    fields = {
        name: np.ascontiguousarray(kernels.values(rng, dtype, shape, case.averages))
        for name, dtype in case.fields.items()
    }
    rules = tuple(rule for rule in kernels.RULES if rule != "valid")
    if len(case.outputs) > len(fields):
        rules = tuple(rule for rule in rules if rule != "keep")
    options = {"boundary": kernels.random_boundary(rng, case.ndim, rules=rules)}
    options["cval"] = rng.choice([0, 1])
    others = case.scalars | {name: one for name, one in arrays.items() if name not in fields}
    call = Given.of(stencil.definition, stencil.definition.defaults | others, **options)
    graph, wanted = graph_of(call, [array.dtype for array in fields.values()], looked=True)
    if not exact(graph):
        return None
    if steps:
        one = onepass.steps_together(graph, wanted, steps, Schedule())
    else:
        one = onepass.together(graph, graph.needed(wanted), wanted, Schedule())
    if one is None:
        return None
    state = dict(fields)
    for _ in range(max(1, steps)):
        made = stencil(**state, **others, **options)
        results = list(made) if isinstance(made, tuple) else [made]
        state |= zip(fields, results, strict=False)
    if graph.places:
        # Positions are given by the house, which is not asked here.
        return None
    given = [fields[graph.names[value]] for value in one.fields]
    return Job(seed, one, given, results, f"{shape}, {steps}, {options}\n{case}")


def pipeline_job(seed: int) -> Job | None:
    """A kernel that calls others, as one pass, if all of them can be in one."""
    rng = Random(seed)
    drawn = pipelines.drawn_pipeline(rng, (1, 2, 2, 2), conditions=False)
    wanted = pipelines.one_by_one(drawn) if drawn is not None else None
    if drawn is None or wanted is None:
        return None
    definition = drawn.whole.definition
    options = {name: drawn.options[name] for name in ("boundary", "cval")}
    call = Given.of(definition, definition.defaults | drawn.others, **options)
    types = [drawn.arrays[name].dtype for name in drawn.whole.fields]
    graph, values = graph_of(call, types, looked=True)
    nodes = graph.needed(values)
    sets, _ = in_sets(nodes, lambda *_: "")
    if not exact(graph) or len(sets) > 1:
        return None
    one = onepass.together(graph, nodes, values, Schedule())
    if one is None:
        return None
    if graph.places:
        return None
    fields = [drawn.arrays[graph.names[value]] for value in one.fields]
    return Job(seed, one, fields, [wanted], f"{options}\n{drawn.source}")


def exact(graph: Graph) -> bool:
    """Whether all calls are understood, and use no function whose last bit is C's own."""
    forms = [lowered(graph, node) for node in graph.nodes]
    return all(not isinstance(one, str) and _exact(one.single) for one in forms)


def _exact(kernel: Kernel) -> bool:
    bodies = (kernel.body, *(stage.body for stage in kernel.stages))
    values = [assign.value for body in bodies for assign in body]
    powers = any(getattr(value, "op", "") == "**" and value.dtype.is_float for value in values)
    called = {value.function for value in values if isinstance(value, Call)}
    complexes = any(value.dtype.is_complex for value in values)
    return called <= EXACT and not powers and not complexes


def width_job(seed: int) -> Job | None:
    """Steps that look to all sides, on arrays of about one strip or two, or very small ones."""
    rng = Random(seed)

    @pipelines.npt.stencil
    def skew(u):
        return (u[-1, 1] + 2 * u[2, -1] - u[0, -2] + u[0, 0]) * np.float32(0.25)

    rules = tuple(rule for rule in kernels.RULES if rule != "valid")
    boundary = kernels.random_boundary(rng, 2, rules=rules)
    call = Given.of(skew.definition, {}, boundary, 1)
    graph, wanted = graph_of(call, [np.dtype("float32")], looked=True)
    one = onepass.steps_together(graph, wanted, 3, Schedule())
    if one is None:
        return None
    width = one.source.launches[0].tile[1] // 4
    rows = rng.choice([1, 2, 3, 5, 20, 130])
    columns = rng.choice([1, 2, 4, *(k * width + d for k in (1, 2) for d in (-1, 0, 1, 5))])
    field = result = kernels.values(rng, "float32", (rows, columns), True)
    for _ in range(3):
        result = skew(result, boundary=boundary, cval=1)
    return Job(seed, one, [field], [result], f"{field.shape}, {boundary}")


JOBS = {
    "kernels": kernel_job,
    "pipelines": pipeline_job,
    "steps": step_job,
    "widths": width_job,
}


def check(jobs: Sequence[Job]) -> None:
    """Compare what the emulator makes of each."""
    compiled = emulator.compiled([one.one.source.text for one in jobs], (), "-O0")
    for one, functions in zip(jobs, compiled, strict=True):
        for order in ORDERS:
            emulator.order(functions, order)
            made = passes.run(one.one, functions, one.fields, plain=order == 1)
            for result, wanted in zip(made, one.wanted, strict=True):
                assert result.dtype == wanted.dtype
                words = f"seed {one.seed}, order {order}, {one.words}"
                np.testing.assert_array_equal(result, wanted, err_msg=words)


def drawn_jobs(kind: str, seeds: Sequence[int]) -> Iterator[Job]:
    """Those that are done in strips."""
    # Also what is better done otherwise.
    choose.WORTH = 0.0
    for seed in seeds:
        try:
            found = JOBS[kind](seed)
        except TypeError as error:
            if "ufunc" not in str(error):
                raise
            # Plain Python cannot shift a uint64 by a signed number; Numba can.
            continue
        if found is not None:
            yield found


if __name__ == "__main__":
    jobs: list[Job] = []
    with bounds.interpreted():
        for kind, first, last in zip(*(sys.argv[k::3] for k in (1, 2, 3)), strict=True):
            found = list(drawn_jobs(kind, range(int(first), int(last))))
            print(kind, len(found))
            jobs += found
        for k in range(0, len(jobs), 16):
            check(jobs[k : k + 16])
