"""Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

Arrays that lie in memory as the kernel cannot read them, or are too short, are refused; so are
steps on arrays too small to be worth it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..backends.memory import empty
from .borders import Array
from .chains import Chain, Pass, fits, plain, stacked
from .lanes import Lanes, Turned, arranged, core_last
from .layout import Shape
from .numpy import check_kept
from .parts import SPLIT_POINTS, paced
from .single import Given, Numbers, Step
from .work import Common, Group, Indices, Work, common, take


def bind_pass(
    work: Work,
    group: Group,
    values: Mapping[int, Array],
    outs: Mapping[int, Array],
) -> Step | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    chain, program, along = group.chain, group.program, group.nodes[0].along
    assert chain is not None
    assert program is not None
    for node in group.nodes:
        if node.border.uses("keep"):
            check_kept(node.program.field_dtypes, node.out_dtypes)
    part = common(work, group, program.reaches[0])
    if part is None:
        return None
    pairs = tuple(
        (value, work.indices(value, values[value], part.has, along)) for value in group.fields
    )
    fields = [take(values[value], indices) for value, indices in pairs]
    shape = fields[0].shape
    if any(field.shape != shape for field in fields[: len(fields) - program.positions]):
        return None
    order, lanes = core_last(len(shape), along), not group.steps
    how, chain = arranged(chain, order, fields, lanes=lanes)
    if not _takes(group, chain, fields if how is None else list(map(how.of, fields))):
        return None
    return _FusedCall(work, group, part, _Laid(chain, how, pairs, shape), outs)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A chain, and how arrays of a shape are given to it: core axes last, a stack of one axis."""

    chain: Chain
    how: Turned | None
    fields: tuple[tuple[int, Indices], ...]
    shape: Shape

    def of(self, array: Array) -> Array:
        """An array as the kernel takes it."""
        return stacked(array if self.how is None else self.how.of(array), self.chain.ndim)

    def takes(self, out: Array, dtype: np.dtype) -> bool:
        """Whether the kernel can write to an array as it is."""
        if self.how is None:
            return plain(out, dtype, self.chain.ndim)
        return self.how.lies(out) and plain(self.how.of(out), dtype, self.chain.ndim)


class _FusedCall:
    """Calls of a group as one kernel; called as each `Step` is."""

    def __init__(
        self,
        work: Work,
        group: Group,
        part: Common,
        laid: _Laid,
        outs: Mapping[int, Array],
    ) -> None:
        program, how, along = group.program, laid.how, group.nodes[0].along
        assert program is not None
        self._laid, self._outputs = laid, group.outputs
        made = list(laid.shape)
        for axis, (before, after), (low, high) in zip(
            along, part.sides, program.reaches[0].sides, strict=True
        ):
            made[axis] -= (0 if before else low) + (0 if after else high)
        self._shape = tuple(made)
        self._dtypes = {
            value: dtype
            for node in group.nodes
            for value, dtype in zip(node.outputs, node.out_dtypes, strict=True)
            if value in group.outputs
        }
        targets = {value: work.target(value, part.gives, outs) for value in self._dtypes}
        self._into = {
            value
            for value, out in targets.items()
            if out is not None and laid.takes(out, self._dtypes[value])
        }
        self._numbers = Numbers.of(program, work.core(laid.shape, along), group.nodes)
        self._points = math.prod(laid.shape)
        self._threads = 1 if self._points < SPLIT_POINTS else work.threads
        self._make = empty if how is None else how.empty
        sides = part.sides
        if isinstance(how, Lanes):
            sides = (*how.in_turn(sides), *[(True, True)] * how.levels)
        self._sides, self._passes = sides, dict[int, Pass]()
        if work.shape is not None:
            work.at |= dict.fromkeys(group.outputs, part.gives)

    def __call__(
        self, values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        laid, bound = self._laid, self._numbers.bound
        results = {
            value: outs[value] if value in self._into else self._make(self._shape, dtype)
            for value, dtype in self._dtypes.items()
        }
        fields = [take(values[value], indices) for value, indices in laid.fields]
        if bound.positions:
            fields = [np.broadcast_to(field, laid.shape) for field in fields]
        inputs = list(map(laid.of, fields))
        made = [laid.of(results[value]) for value in self._outputs]
        told, count = self._numbers.told(given), len(bound.coefficients)

        def compute(threads: int) -> None:
            if threads not in self._passes:
                core = inputs[0].shape[1:]
                self._passes[threads] = Pass(laid.chain, core, threads, self._sides)
            self._passes[threads]((tuple(told[:count]), tuple(told[count:])), inputs, made)

        if self._threads == 1:
            compute(1)
        else:
            paced(bound.pace, self._points, self._threads, bound.handoff, compute)
        return results


def _takes(group: Group, chain: Chain, fields: Sequence[Array]) -> bool:
    """Whether these arrays can be read by the kernel of a group, and are worth it."""
    compiled, shape = chain.compiled, fields[0].shape
    if len(shape) < chain.ndim:
        return False
    given = len(fields) - len(compiled.positions)
    pairs = zip(fields[:given], compiled.field_dtypes, strict=False)
    if not all(plain(field, dtype, chain.ndim) for field, dtype in pairs):
        return False
    core = shape[len(shape) - chain.ndim :]
    if not math.prod(shape) or not fits(core, compiled.reaches[0]):
        return False
    return not group.steps or chain.pays(core, group.asked)
