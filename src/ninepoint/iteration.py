"""`Stencil.iterate`: a state, taken step by step through a stencil."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import numpy as on_numpy
from .arrays.borders import parse_boundary
from .arrays.iterating import advance, block_length

from .backends.cpu import Bound, Compiled
from .backends.pipeline import Stages
from .backends.threads import thread_count
from .lowering.chain import chainable

# Gives what one step is compiled to, for the types of the fields and the other arguments.
Compile = Callable[[Sequence[np.dtype], Mapping[str, Any]], tuple[Compiled, Stages | None, str]]

# Gives what a number of steps are compiled to: of one step, how many of its fields are states,
# how many steps, and the scalars that vary.
Chains = Callable[[Stages, int, int, tuple[str, ...]], Compiled]


class Scalars:
    """The arguments that are no fields, some of which have a value for each step."""

    def __init__(self, values: Mapping[str, Any], coefficients: frozenset[str], steps: int) -> None:
        self.fixed: dict[str, Any] = {}
        self.varying: dict[str, Callable[[int], Any]] = {}
        for name, value in values.items():
            if callable(value):
                self.varying[name] = value
            elif np.ndim(value) == 1 and name not in coefficients:
                if len(value) < steps:
                    raise ValueError(
                        f"'{name}' has {len(value)} values, but there are {steps} steps."
                    )
                self.varying[name] = _item(np.asarray(value))
            else:
                self.fixed[name] = value

    def at(self, step: int) -> dict[str, Any]:
        """The values at one step."""
        return self.fixed | {name: value(step) for name, value in self.varying.items()}

    def over(self, step: int, count: int) -> dict[str, Any]:
        """The values at `count` steps from `step` on, as a chain names them."""
        values = dict(self.fixed)
        for k in range(count):
            values |= {f"{name}_{k}": value(step + k) for name, value in self.varying.items()}
        return values


def _item(values: np.ndarray) -> Callable[[int], Any]:
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

    boundary: Any
    cval: Any
    steps: int
    every: int | None
    until: float | None
    callback: Callable[..., Any] | None
    threads: int | None

    def ends(self, step: int, state: Sequence[Any], before: Sequence[Any]) -> bool:
        """Show the state after so many steps, and say whether it is the last."""
        if self.callback is not None and self.callback(step, *state):
            return True
        if self.until is None:
            return False
        return all(_change(a, b) <= self.until for a, b in zip(state, before, strict=True))


def _change(after: Any, before: Any) -> float:
    if after.size == 0:
        return 0.0
    if after.dtype.kind in "bu":
        return float(np.max(np.maximum(after, before) - np.minimum(after, before) * 1))
    return float(np.max(np.abs(after - before)))


def iterate_arrays(
    compile_: Compile, chains: Chains, fields: Sequence[Any], scalars: Scalars, plan: Iteration
) -> list[np.ndarray]:
    """The state after the steps, for NumPy arrays."""
    arrays = [on_numpy.as_field(field) for field in fields]
    dtypes = [on_numpy.native(array.dtype) for array in arrays]
    compiled, stages, _ = compile_(dtypes, scalars.at(0))
    count = len(compiled.out_dtypes)
    check(compiled, dtypes, count)
    border = parse_boundary(plan.boundary, compiled.ndim)
    if border.uses("valid"):
        raise ValueError('boundary="valid" makes the state smaller at each step; use another.')
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    given = [np.broadcast_to(array, shape) for array in arrays[:count]]
    others = [np.broadcast_to(array, shape) for array in arrays[count:]]
    longest = 1
    if stages is not None and all(map(_plain, (*given, *others), dtypes)):
        names = tuple(name for name, _ in stages.lowered.fields[:count])
        if not chainable(stages.lowered, names):
            itemsize = sum(dtype.itemsize for dtype in dtypes[:count])
            longest = block_length(compiled.reach, shape[len(shape) - compiled.ndim :], itemsize)

    def program(step: int) -> Bound:
        values = scalars.at(step)
        return compile_(dtypes, values)[0].bind(values)

    chain: Compiled | None = None
    spare: list[np.ndarray] | None = None
    states = given
    for first, length, looked in blocks(
        plan.steps, plan.every, longest, plan.until is not None
    ):
        results = spare or [np.empty(shape, dtype) for dtype in dtypes[:count]]
        if length == 1:
            on_numpy.apply(
                program(first),
                [*states, *others],
                border=border,
                cval=plan.cval,
                out=tuple(results) if count > 1 else results[0],
                threads=plan.threads,
            )
        else:
            assert stages is not None
            chain = chain or chains(stages, count, length, tuple(scalars.varying))
            flat = [_stacked(part, compiled.ndim) for part in (states, others, results)]
            advance(
                chain.bind(scalars.over(first, length)),
                program,
                first,
                length,
                compiled.reach,
                *flat,
                border,
                plan.cval,
                thread_count(plan.threads),
            )
        before, states = states, results
        ended = looked and plan.ends(first + length, states, before)
        # The caller's own arrays are never written to.
        spare = None if before is given else before
        if ended:
            break
    return [np.array(state) for state in given] if states is given else states


def iterate_calls(
    call: Callable[[Sequence[Any], Mapping[str, Any]], Any],
    fields: Sequence[Any],
    scalars: Scalars,
    plan: Iteration,
) -> list[Any]:
    """The state after the steps, one call after the other: for arrays of any other kind."""
    states = list(fields)
    count = len(states)
    for first, _, looked in blocks(plan.steps, plan.every, 1, plan.until is not None):
        made = call(states, scalars.at(first))
        results = list(made) if isinstance(made, tuple) else [made]
        count = len(results)
        before, states = states[:count], [*results, *states[count:]]
        if looked and plan.ends(first + 1, results, before):
            break
    return states[:count]


def _plain(array: np.ndarray, dtype: np.dtype) -> bool:
    return array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned


def _stacked(arrays: Sequence[np.ndarray], ndim: int) -> list[np.ndarray]:
    return [array.reshape(-1, *array.shape[array.ndim - ndim :]) for array in arrays]


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


