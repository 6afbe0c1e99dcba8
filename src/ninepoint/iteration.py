"""`Stencil.iterate`: a state, taken step by step through a stencil."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import numpy as on_numpy
from .arrays.borders import Border, Boundary
from .arrays.iterating import Numbers, Passes, block_length, even_length
from .arrays.layout import layout
from .arrays.parts import write
from .arrays.views import plain, stacked
from .backends.compiled import Compiled
from .backends.memory import empty
from .backends.threads import thread_count
from .chaining import Chains, step_reach, unfit
from .chaining import chain as chained
from .files.progress import Progress, shown
from .lowering.schedule import Schedule
from .running import reaching
from .stepping import Record, Recorded, Scalars, Steps

# Bytes of all states that are made, below which no chain is compiled: that takes one to four
# seconds, once on each machine, and as many bytes less than a tenth of a second (Zen 4).
WORTH = 1 << 28

# Elements that are compared at once to see how far a step went.
COMPARED = 1 << 16


def blocks(
    steps: int, every: int | None, longest: int, apart: bool, shorter: bool = False
) -> Iterator[tuple[int, int, bool]]:
    """The first step and the length of each block, and whether one looks at the state then.

    With `apart` the step before a look is done by itself, so that what it changed is known.
    Blocks are as long as they may be, or one step; with `shorter` of any length between.
    """
    done = 0
    while done < steps:
        stop = steps if every is None else min(steps, (done // every + 1) * every)
        left = stop - done - apart
        length = longest if left >= longest else max(1, left) if shorter else 1
        done += length
        yield done - length, length, done == stop


@dataclass(frozen=True, slots=True)
class Iteration:
    """How often, with which border, and who looks at the state in between."""

    boundary: Boundary
    cval: Any
    steps: int
    every: int | None
    until: float | None
    callback: Callable[..., Any] | None
    threads: int | None
    progress: Progress = False

    @staticmethod
    def of(
        boundary: Boundary,
        cval: Any,
        steps: Any,
        every: Any,
        until: Any,
        callback: Any,
        threads: int | None,
        progress: Any,
    ) -> Iteration:
        """What was asked for, checked."""
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
            raise ValueError(f"steps={steps!r} must be a whole number, 0 or more.")
        if every is not None and (
            isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1
        ):
            raise ValueError(f"every={every!r} must be a whole number, 1 or more.")
        _check_watching(callback, until, progress)
        if every is None and until is not None:
            every = 1
        return Iteration(boundary, cval, int(steps), every, until, callback, threads, progress)

    def ends(self, step: int, state: Sequence[Any], before: Sequence[Any]) -> bool:
        """Show the state after so many steps, and say whether it is the last."""
        close = self.until is not None and all(
            _change(a, b) <= self.until for a, b in zip(state, before, strict=True)
        )
        return bool(self.callback is not None and self.callback(step, *state)) or close

    def border(self, ndim: int) -> Border:
        """The border rule, which must leave the state as large as it is."""
        border = self.boundary.on(ndim)
        if border.uses("valid"):
            raise ValueError('boundary="valid" makes the state smaller at each step; use another.')
        return border


def _check_watching(callback: Any, until: Any, progress: Any) -> None:
    """Raise where nobody could look at the state so."""
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} must be a function of a step and a state.")
    if until is not None:
        if isinstance(until, bool | np.bool_) or not isinstance(
            until, int | float | np.integer | np.floating
        ):
            raise TypeError(f"until={until!r} must be a number: how much an element may change.")
        if not until >= 0:
            raise ValueError(f"until={until!r} must be 0 or more: no change is less than that.")
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress={progress!r} must be True, False or a function of two numbers.")


def _change(after: Any, before: Any) -> float:
    """The greatest change of an element; NaN where one is no number."""
    if not isinstance(after, np.ndarray):
        if after.dtype.kind in "bu":
            after, before = after.astype("float64"), before.astype("float64")
        return float(abs(after - before).max()) if after.size else 0.0
    greatest = 0.0
    a, b = after.reshape(-1), before.reshape(-1)
    # In parts: an iteration promises to hold two states and no more.
    for first in range(0, a.size, COMPARED):
        part = _far(a[first : first + COMPARED], b[first : first + COMPARED])
        if not part <= greatest:
            greatest = part
        if greatest != greatest:
            break
    return greatest


def _far(a: np.ndarray, b: np.ndarray) -> float:
    kind = a.dtype.kind
    if kind == "b":
        return float(np.any(a != b))
    with np.errstate(all="ignore"):
        if kind not in "iu":
            # Equal infinities have not changed.
            return float(np.max(np.where(a == b, 0, np.abs(a - b))))
        # The difference of two integers may need a bit more than they have: it wraps, and is
        # right as an unsigned number.
        wide = np.maximum(a, b) - np.minimum(a, b)
        return float(np.max(wide.view(wide.dtype.str.replace("i", "u"))))


def iterate_arrays(
    record: Record,
    known: Chains,
    schedule: Schedule,
    fields: Sequence[Any],
    scalars: Scalars,
    plan: Iteration,
    out: Any = None,
) -> list[np.ndarray]:
    """The state after the steps, for NumPy arrays; in `out`, if it is given.

    `known` are the chains that were compiled before.
    """
    arrays = [on_numpy.as_field(field) for field in fields]
    dtypes = [on_numpy.native(array.dtype) for array in arrays]
    recorded = Recorded(record, dtypes, scalars)
    last = recorded.nodes[-1].compiled
    ndim, count = last.ndim, len(last.out_dtypes)
    check(last, dtypes, count)
    plan.border(ndim)
    shape = _shape(recorded, arrays)
    recorded.core = core = shape[len(shape) - ndim :]
    given, others = arrays[:count], arrays[count:]
    if len(recorded.nodes) == 1:
        # The calls of a graph are given the fields as they are.
        given, others = ([np.broadcast_to(a, shape) for a in part] for part in (given, others))
    itemsize = sum(dtype.itemsize for dtype in dtypes[:count])
    nodes, longest = recorded.nodes, 1
    pairs = zip([*given, *others], dtypes, strict=True)
    if all(array.shape == shape and plain(array, dtype, ndim) for array, dtype in pairs):
        longest = _longest(recorded, schedule, core, math.prod(shape) * itemsize, plan)
    if longest > 1:
        for node in nodes:
            compiled = node.compiled
            geometry = layout(core, compiled.reaches, node.border)
            on_numpy.check_values(
                geometry, node.call.cval, compiled.field_dtypes, compiled.out_dtypes
            )
    single = Steps(recorded, schedule, plan.threads)
    reach = step_reach(recorded.graph, recorded.wanted) if longest > 1 else last.reach
    threads = thread_count(plan.threads)
    passes = Passes(lambda: Steps(recorded, schedule, 1), reach, count, threads)

    states, owned = given, False
    spare: list[np.ndarray] | None = None
    target: list[np.ndarray] = []
    if out is not None:
        target = on_numpy.checked_out(out, [shape] * count, dtypes[:count], None)
        whole = all(
            plain(array, dtype, ndim) for array, dtype in zip(target, dtypes, strict=False)
        )
        # What a callback gets is its own, and what steps read must stay.
        if plan.callback is None and whole and not _shared(target, arrays[count:]):
            if all(one is other for one, other in zip(target, arrays, strict=False)):
                states, owned = target, True
            elif not _shared(target, arrays[:count]):
                spare = target
    with shown(plan.progress, plan.steps, "steps") as advanced:
        for first, length, numbers, looked in _moves(plan, longest, recorded, scalars):
            over = False
            if numbers is not None:
                chain = chained(recorded.graph, recorded.wanted, length, schedule, known)
                over = owned and passes.over(chain, length, core)
            results = states if over else spare or [empty(shape, d) for d in dtypes[:count]]
            if numbers is not None:
                one, two = ([stacked(a, ndim) for a in part] for part in (states, others))
                three = one if over else [stacked(a, ndim) for a in results]
                passes(chain, numbers, first, length, [*one, *two], three)
            elif owned:
                single(first, [*states, *others], results)
            else:
                single.general(first, [*states, *others], results)
            before = states
            if not over:
                # What the caller gave, or has kept from a callback, is never written to.
                spare = states if owned else None
                states, owned = results, True
            advanced(length)
            if looked:
                # The first may be of another shape, if calls are given the fields as they are.
                seen = [np.broadcast_to(state, shape) for state in before]
                ended, owned = _look(plan, first + length, states, seen)
                if ended:
                    break
    for array, state in zip(target, states, strict=False):
        if array is not state:
            write(array, state)
    return target or ([np.array(state) for state in given] if states is given else states)


def _shared(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(one, other) for one in some for other in others)


def _moves(
    plan: Iteration, longest: int, recorded: Recorded, scalars: Scalars
) -> Iterator[tuple[int, int, Numbers | None, bool]]:
    """The blocks with the numbers of chains; those that cannot be chains step by step."""
    for first, length, looked in blocks(plan.steps, plan.every, longest, plan.until is not None):
        scalars.forget(first)
        numbers = recorded.over(first, length) if length > 1 else None
        if length == 1 or numbers is not None:
            yield first, length, numbers, looked
            continue
        for step in range(first, first + length):
            yield step, 1, None, looked and step == first + length - 1


def _look(
    plan: Iteration, step: int, states: list[np.ndarray], before: Sequence[np.ndarray]
) -> tuple[bool, bool]:
    """Whether the state is the last, and whether nobody has kept it."""
    counts = [sys.getrefcount(state) for state in states]
    ended = plan.ends(step, states, before)
    # A view of an array refers to it as well.
    return ended, counts == [sys.getrefcount(state) for state in states]


def _shape(recorded: Recorded, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The shape of the state after a step, which must be that of all steps."""
    shape = on_numpy.broadcast_shape([array.shape for array in arrays])
    ndim = recorded.nodes[-1].ndim
    if len(shape) < ndim:
        raise on_numpy.too_few_axes(ndim, shape)
    if len(recorded.nodes) > 1:
        reached = reaching(recorded.graph, arrays)
        made = recorded.graph.shapes(array.shape for array in reached)[recorded.wanted[0]]
        if made != shape:
            raise ValueError(
                f"the state would have shape {made} after a step, and {shape} before; give all "
                'states one shape, and use no boundary="valid".'
            )
    return shape


def _longest(
    recorded: Recorded,
    schedule: Schedule,
    core: tuple[int, ...],
    size: int,
    plan: Iteration,
) -> int:
    """How many steps to do in one pass over memory, for states of `size` bytes."""
    if unfit(recorded.graph, recorded.wanted, schedule):
        return 1
    reach = step_reach(recorded.graph, recorded.wanted)
    compiled = recorded.nodes[-1].compiled
    itemsize = sum(dtype.itemsize for dtype in compiled.out_dtypes)
    if schedule.steps:
        return block_length(reach, core, itemsize, schedule.steps)
    if size * plan.steps < WORTH:
        return 1
    together = min(plan.every or plan.steps, plan.steps) - (plan.until is not None)
    return even_length(block_length(reach, core, itemsize), together)


def iterate_calls(
    record: Record,
    call: Callable[[Sequence[Any], Sequence[Mapping[str, Any]]], list[Any]],
    fields: Sequence[Any],
    scalars: Scalars,
    plan: Iteration,
    longest: int,
) -> list[Any]:
    """The state after the steps, for arrays of other kinds.

    `call` does as many steps as it gets scalars for, `longest` of them at most.
    """
    states = list(fields)
    dtypes = [on_numpy.native(np.dtype(getattr(f, "dtype", "float64"))) for f in fields]
    compiled = record(dtypes, scalars.at(0))[0].nodes[-1].compiled
    count = len(compiled.out_dtypes)
    if all(hasattr(field, "dtype") for field in fields):
        check(compiled, dtypes, count)
    plan.border(compiled.ndim)
    with shown(plan.progress, plan.steps, "steps") as advanced:
        for first, length, looked in blocks(
            plan.steps, plan.every, longest, plan.until is not None, True
        ):
            scalars.forget(first)
            each = [scalars.at(step) for step in range(first, first + length)]
            results = call(states, each)
            before, states = states[:count], [*results, *states[count:]]
            advanced(length)
            if looked and plan.ends(first + length, results, before):
                break
    return states[:count]


def check(compiled: Compiled, dtypes: Sequence[np.dtype], count: int) -> None:
    """Raise where the results cannot be the next state."""
    if count > len(dtypes):
        raise ValueError(
            f"'{compiled.name}' has {count} outputs and {len(dtypes)} fields; each output must "
            "take the place of a field."
        )
    for result, state in zip(compiled.out_dtypes, dtypes, strict=False):
        if result != state:
            raise ValueError(
                f"'{compiled.name}' gives {result} for a state of {state}; convert the state "
                f'first, with .astype("{result}"), or say dtype= in the decorator.'
            )
