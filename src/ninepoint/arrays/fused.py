"""Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

Arrays that lie in memory as the kernel cannot read them, or are too short, are refused; so are
steps on arrays too small to be worth it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter

import numpy as np

from ..backends.memory import empty
from .borders import Array
from .chains import Chain, Numbers, Pass, fits, plain, spread, stacked
from .lanes import Lanes, Turned, arranged, core_last
from .numpy import check_kept
from .parts import SPLIT_POINTS, note_pace, threads_for
from .single import Given, Step, lengths_of, told
from .work import Common, Group, Work, common, ranked


def bind_pass(
    work: Work,
    group: Group,
    values: Mapping[int, Array],
    outs: Mapping[int, Array],
) -> Step | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    assert group.program is not None
    for node in group.nodes:
        if node.border.uses("keep"):
            check_kept(node.program.field_dtypes, node.out_dtypes)
    part = common(work, group, group.program.reaches[0])
    if part is None:
        return None
    taken = _Taken(group, part)
    chain = taken.of(values)
    if chain is None:
        return None
    step = _FusedCall(work, taken, chain, outs)
    if part.at:
        work.at |= dict.fromkeys(group.outputs, part.gives)
    return step


class _Taken:
    """How arrays are given to the kernel of a group: core axes last, and the stack as one axis."""

    def __init__(self, group: Group, part: Common) -> None:
        assert group.program is not None
        self.group, self.part, self.program = group, part, group.program
        self.along = group.nodes[0].along
        self.how: Turned | None = None
        self.ndim = self.program.ndim
        self.shape: tuple[int, ...] = ()

    def of(self, values: Mapping[int, Array]) -> Chain | None:
        """What does such arrays; None if nothing does."""
        chain, fields = self.group.chain, self.fields(values)
        assert chain is not None
        self.shape = shape = fields[0].shape
        if any(field.shape != shape for field in fields[: len(fields) - self.program.positions]):
            return None
        order, lanes = core_last(len(shape), self.along), not self.group.steps
        self.how, chain = arranged(chain, order, fields, lanes=lanes)
        self.ndim = chain.ndim
        if self.how is not None:
            fields = list(map(self.how.of, fields))
        return chain if _takes(self.group, chain, fields) else None

    def fields(self, values: Mapping[int, Array]) -> list[Array]:
        """The fields, with all axes."""
        fields = self.part.fields(values, self.group.fields)
        return [ranked(fields[value], self.along) for value in self.group.fields]

    def lain(self, array: Array) -> Array:
        """An array as the kernel takes it."""
        return stacked(array if self.how is None else self.how.of(array), self.ndim)

    def is_lain(self, out: Array, dtype: np.dtype) -> bool:
        """Whether the kernel can write to an array as it is."""
        if self.how is None:
            return plain(out, dtype, self.ndim)
        return self.how.lies(out) and plain(self.how.of(out), dtype, self.ndim)


class _FusedCall:
    """Calls of a group as one kernel; called as each `Step` is."""

    def __init__(
        self,
        work: Work,
        taken: _Taken,
        chain: Chain,
        outs: Mapping[int, Array],
    ) -> None:
        self._taken, self._chain = taken, chain
        group, part, how, program = taken.group, taken.part, taken.how, taken.program
        shape, margin = list(taken.shape), program.reaches[0].sides
        core = tuple(shape[axis] for axis in taken.along)
        for axis, (before, after), (low, high) in zip(
            taken.along, part.sides, margin, strict=True
        ):
            shape[axis] -= (0 if before else low) + (0 if after else high)
        self._shape = tuple(shape)
        self._members = [node.outputs[0] for node in group.nodes]
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
            if out is not None and taken.is_lain(out, self._dtypes[value])
        }
        lengths = work.lengths and tuple(work.lengths[axis] for axis in taken.along)
        whole = lengths or core
        self._bound, self._lengths = program.within(whole), lengths_of(program, whole)
        self._points = math.prod(taken.shape)
        self._threads = 1 if self._points < SPLIT_POINTS else work.threads
        self._make = empty if how is None else how.empty
        sides = part.sides
        if isinstance(how, Lanes):
            sides = (*how.in_turn(sides), *[(True, True)] * how.levels)
        self._sides, self._passes = sides, dict[int, Pass]()

    def __call__(
        self, values: Mapping[int, Array], given: Given, outs: Mapping[int, Array]
    ) -> dict[int, Array]:
        taken, bound = self._taken, self._bound
        results = {
            value: outs[value] if value in self._into else self._make(self._shape, dtype)
            for value, dtype in self._dtypes.items()
        }
        fields = taken.fields(values)
        if bound.positions:
            fields = spread(fields, bound.positions)
        inputs = list(map(taken.lain, fields))
        made = [taken.lain(results[value]) for value in taken.group.outputs]
        numbers: Numbers = bound.coefficients, bound.scalars
        if given.numbers is not None:
            own, count = told(given.numbers, self._members, self._lengths), len(numbers[0])
            numbers = tuple(own[:count]), tuple(own[count:])
        threads = 1
        if self._threads != 1:
            threads = threads_for(bound.pace, self._points, self._threads, bound.handoff)
        if threads not in self._passes:
            core = inputs[0].shape[1:]
            self._passes[threads] = Pass(self._chain, core, threads, self._sides)
        began = perf_counter()
        self._passes[threads](numbers, inputs, made)
        if self._threads != 1:
            note_pace(bound.pace, self._points, perf_counter() - began, threads)
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
