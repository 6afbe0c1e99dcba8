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
from .arrays.iterating import Chain, Passes, Steps, block_length, even_length
from .arrays.recognise import refuse_foreign
from .arrays.views import plain, stacked
from .backends.compiled import Bound, Compiled
from .backends.memory import empty
from .backends.pipeline import Stages
from .backends.threads import thread_count
from .files.progress import Progress, shown
from .lowering.chain import chainable

# Gives what one step is compiled to, for the types of the fields and the other arguments.
Compile = Callable[[Sequence[np.dtype], Mapping[str, Any]], tuple[Compiled, Stages | None, str]]

# Gives what a number of steps are compiled to: of one step, how many of its fields are states,
# how many steps, the scalars that vary, and whether the border's rule may put any value there.
Chains = Callable[[Stages, int, int, tuple[str, ...], bool], Compiled]

# Bytes of all states that are made, below which no chain is compiled: that takes one to four
# seconds, once on each machine, and as many bytes less than a tenth of a second (Zen 4).
WORTH = 1 << 28

# Elements that are compared at once to see how far a step went.
COMPARED = 1 << 16


class Scalars:
    """The arguments that are no fields, some of which have a value for each step."""

    def __init__(self, values: Mapping[str, Any], arrays: Sequence[str], steps: int) -> None:
        self.fixed: dict[str, Any] = {}
        self.varying: dict[str, Callable[[int], Any]] = {}
        self._known: dict[int, dict[str, Any]] = {}
        for name, value in values.items():
            refuse_foreign(value, f"'{name}'")
            if callable(value):
                self.varying[name] = value
            elif np.ndim(value) == 1 and name not in arrays:
                if len(value) < steps:
                    raise ValueError(
                        f"'{name}' has {len(value)} values, but there are {steps} steps; give one "
                        "for each, or name it in standard_indexing if it is a small array."
                    )
                self.varying[name] = _item(np.asarray(value))
            else:
                self.fixed[name] = value

    def at(self, step: int) -> dict[str, Any]:
        """The values at one step; a function is called once for each, in their order."""
        if not self.varying:
            return self.fixed
        if step not in self._known:
            now = {name: value(step) for name, value in self.varying.items()}
            self._known[step] = self.fixed | now
        return self._known[step]

    def forget(self, step: int) -> None:
        """Drop the values of all steps before."""
        for known in [k for k in self._known if k < step]:
            del self._known[known]


def _item(values: np.ndarray) -> Callable[[int], Any]:
    if not len(values):
        # No step asks for it, but its type is looked at.
        return lambda step: values.dtype.type(0).item()
    return lambda step: values[step].item()


def blocks(
    steps: int, every: int | None, longest: int, apart: bool
) -> Iterator[tuple[int, int, bool]]:
    """The first step and the length of each block, and whether one looks at the state then.

    With `apart` the step before a look is done by itself, so that what it changed is known.
    """
    done = 0
    while done < steps:
        stop = steps if every is None else min(steps, (done // every + 1) * every)
        left = stop - done - apart
        length = longest if left >= longest else 1
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


def check_watching(callback: Any, until: Any, progress: Any) -> None:
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


class _Programs:
    """What each step runs, looked up anew only where the types of the scalars change."""

    def __init__(
        self,
        compile_: Compile,
        dtypes: Sequence[np.dtype],
        scalars: Scalars,
        core: tuple[int, ...],
    ) -> None:
        self._compile = compile_
        self._core = core
        self._dtypes = dtypes
        self._scalars = scalars
        self._known: dict[tuple[type, ...], Compiled] = {}
        self.first = self._compiled(scalars.at(0))
        self._bound: Bound | None = None

    def __call__(self, step: int) -> Bound:
        if self._bound is not None:
            return self._bound
        values = self._scalars.at(step)
        bound = self._compiled(values).bind(values).within(self._core)
        if not self._scalars.varying:
            self._bound = bound
        return bound

    def over(self, step: int, count: int) -> dict[str, Any] | None:
        """The scalars of `count` steps, as a chain names them; None if their types differ."""
        named = dict(self._scalars.fixed)
        for k in range(count):
            values = self._scalars.at(step + k)
            if self._scalars.varying and self._compiled(values) is not self.first:
                return None
            named |= {f"{name}.{k}": values[name] for name in self._scalars.varying}
        return named

    def _compiled(self, values: Mapping[str, Any]) -> Compiled:
        varying = [values[name] for name in self._scalars.varying]
        # The type says all of a plain number, save for integers that are too large.
        simple = all(type(v) in (bool, float, complex) or _small(v) for v in varying)
        key = tuple(map(type, varying))
        found = self._known.get(key) if simple else None
        if found is None:
            found = self._compile(self._dtypes, values)[0]
            if simple:
                self._known[key] = found
        return found


def _small(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def iterate_arrays(
    compile_: Compile,
    chains: Chains,
    fields: Sequence[Any],
    scalars: Scalars,
    plan: Iteration,
    out: Any = None,
) -> list[np.ndarray]:
    """The state after the steps, for NumPy arrays; in `out`, if it is given."""
    arrays = [on_numpy.as_field(field) for field in fields]
    dtypes = [on_numpy.native(array.dtype) for array in arrays]
    compiled, stages, _ = compile_(dtypes, scalars.at(0))
    ndim, count = compiled.ndim, len(compiled.out_dtypes)
    check(compiled, dtypes, count)
    border = plan.border(ndim)
    shape = on_numpy.broadcast_shape([array.shape for array in arrays])
    if len(shape) < ndim:
        raise on_numpy.too_few_axes(ndim, shape)
    given = [np.broadcast_to(array, shape) for array in arrays[:count]]
    others = [np.broadcast_to(array, shape) for array in arrays[count:]]
    longest, core = 1, shape[len(shape) - ndim :]
    itemsize = sum(dtype.itemsize for dtype in dtypes[:count])
    pairs = zip([*given, *others], dtypes, strict=True)
    if stages is not None and all(plain(array, dtype, ndim) for array, dtype in pairs):
        longest = _longest(stages, compiled, count, core, math.prod(shape), plan)
    program = _Programs(compile_, dtypes, scalars, core)
    single = Steps(program, border, plan.cval, plan.threads)
    passes = Passes(program, compiled.reach, border, plan.cval, thread_count(plan.threads))

    zero = type(plan.cval) in (int, float) and plan.cval == 0
    filled = border.uses("fill") or border.uses("constant")
    unbounded = border.uses("keep") or (filled and not zero)

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
        for first, length, values, looked in _moves(plan, longest, program, scalars):
            chain = None
            if values is not None:
                assert stages is not None
                many = chains(stages, count, length, tuple(scalars.varying), unbounded)
                chain = Chain(many, values, core)
                if owned and passes.over(length, core, itemsize):
                    one, two = ([stacked(a, ndim) for a in part] for part in (states, others))
                    passes(chain, first, length, one, two, one, over=True)
                    advanced(length)
                    if looked:
                        ended, owned = _look(plan, first + length, states, states)
                        if ended:
                            break
                    continue
            results = spare or [empty(shape, dtype) for dtype in dtypes[:count]]
            if chain is not None:
                one, two, three = (
                    [stacked(a, ndim) for a in part] for part in (states, others, results)
                )
                passes(chain, first, length, one, two, three)
            elif owned:
                single(first, [*states, *others], results)
            else:
                single.general(first, [*states, *others], results)
            # What the caller gave, or has kept from a callback, is never written to.
            spare = states if owned else None
            before, states, owned = states, results, True
            advanced(length)
            if looked:
                ended, owned = _look(plan, first + length, states, before)
                if ended:
                    break
    for array, state in zip(target, states, strict=False):
        if array is not state:
            on_numpy.write(array, state)
    return target or ([np.array(state) for state in given] if states is given else states)


def _shared(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return any(np.may_share_memory(one, other) for one in some for other in others)


def _moves(
    plan: Iteration, longest: int, program: _Programs, scalars: Scalars
) -> Iterator[tuple[int, int, dict[str, Any] | None, bool]]:
    """The blocks with the scalars of chains; those that cannot be chains step by step."""
    for first, length, looked in blocks(plan.steps, plan.every, longest, plan.until is not None):
        scalars.forget(first)
        values = program.over(first, length) if length > 1 else None
        if length == 1 or values is not None:
            yield first, length, values, looked
            continue
        for step in range(first, first + length):
            yield step, 1, None, looked and step == first + length - 1


def _look(
    plan: Iteration, step: int, states: list[np.ndarray], before: list[np.ndarray]
) -> tuple[bool, bool]:
    """Whether the state is the last, and whether nobody has kept it."""
    counts = [sys.getrefcount(state) for state in states]
    ended = plan.ends(step, states, before)
    # A view of an array refers to it as well.
    return ended, counts == [sys.getrefcount(state) for state in states]


def _longest(
    stages: Stages,
    compiled: Compiled,
    count: int,
    core: tuple[int, ...],
    points: int,
    plan: Iteration,
) -> int:
    """How many steps to do in one pass over memory."""
    names = tuple(name for name, _ in stages.single.fields[:count])
    if chainable(stages.single, names):
        return 1
    itemsize = sum(dtype.itemsize for dtype in compiled.field_dtypes[:count])
    asked = stages.request.schedule.steps
    if asked:
        return block_length(compiled.reach, core, itemsize, asked)
    if points * itemsize * plan.steps < WORTH:
        return 1
    together = min(plan.every or plan.steps, plan.steps) - (plan.until is not None)
    return even_length(block_length(compiled.reach, core, itemsize), together)


def iterate_calls(
    compile_: Compile,
    call: Callable[[Sequence[Any], Sequence[Mapping[str, Any]]], Any],
    fields: Sequence[Any],
    scalars: Scalars,
    plan: Iteration,
    longest: Callable[[Compiled], int],
) -> list[Any]:
    """The state after the steps, for arrays of other kinds.

    `call` does as many steps as it gets scalars for, `longest` of them at most.
    """
    states = list(fields)
    dtypes = [on_numpy.native(np.dtype(getattr(f, "dtype", "float64"))) for f in fields]
    compiled, _, _ = compile_(dtypes, scalars.at(0))
    count = len(compiled.out_dtypes)
    if all(hasattr(field, "dtype") for field in fields):
        check(compiled, dtypes, count)
    plan.border(compiled.ndim)
    with shown(plan.progress, plan.steps, "steps") as advanced:
        for first, length, looked in blocks(
            plan.steps, plan.every, longest(compiled), plan.until is not None
        ):
            scalars.forget(first)
            made = call(states, [scalars.at(step) for step in range(first, first + length)])
            results = list(made) if isinstance(made, tuple) else [made]
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
