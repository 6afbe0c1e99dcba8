"""Fused nodes: those of a group as one kernel, or as steps of a chain, in one pass over memory.

Arrays that lie in memory as the kernel cannot read them, or are too short, are refused; so are
steps on arrays too small to be worth it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.compiled import Bound
from ..backends.memory import empty
from .accepted import listed, write
from .borders import Array
from .chains import Chain, Pass, fits, plain, stacked
from .executable import Run
from .lanes import Lanes, Turned, arranged, core_last
from .numpy import check_kept
from .parts import SPLIT_POINTS, paced
from .work import Group, Part


def bind_pass(
    group: Group, part: Part, fields: Sequence[Array], bound: Bound, threads: int | None
) -> Run | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    chain, shape = group.chain, fields[0].shape
    assert chain is not None
    for node in group.nodes:
        if node.border.uses("keep"):
            check_kept(node.program.field_dtypes, node.out_dtypes)
    if any(field.shape != shape for field in fields[: len(fields) - bound.positions]):
        return None
    order, lanes = core_last(len(shape), group.nodes[0].along), not group.steps
    how, chain = arranged(chain, order, fields, lanes=lanes)
    if not _takes(group, chain, fields if how is None else list(map(how.of, fields))):
        return None
    return FusedRun(group, part, (chain, how), bound, shape, threads)


class FusedRun:
    """Calls of a group as one kernel on fields of a shape; called as each `Run` is.

    Arrays are given to the chain with core axes last, and a stack of one axis.
    """

    def __init__(
        self,
        group: Group,
        part: Part,
        arranged: tuple[Chain, Turned | None],
        bound: Bound,
        shape: tuple[int, ...],
        threads: int | None,
    ) -> None:
        self._chain, self._how = arranged
        how = self._how
        made = list(shape)
        for axis, (before, after), (low, high) in zip(
            group.nodes[0].along, part.closed, bound.reaches[0].sides, strict=True
        ):
            made[axis] -= (0 if before else low) + (0 if after else high)
        self._shape, self._made, self._bound = shape, tuple(made), bound
        dtypes: dict[int, np.dtype] = {}
        for node in group.nodes:
            dtypes |= zip(node.outputs, node.out_dtypes, strict=True)
        self._dtypes = [dtypes[value] for value in group.outputs]
        self._points = math.prod(shape)
        self._threads = 1 if self._points < SPLIT_POINTS else threads
        self._make = empty if how is None else how.empty
        sides = part.closed
        if isinstance(how, Lanes):
            sides = (*how.in_turn(sides), *[(True, True)] * how.levels)
        self._sides, self._passes = sides, dict[int, Pass]()

    def __call__(self, fields: Sequence[Array], numbers: Sequence[Any], out: Any = None) -> Any:
        """What a call gives: one array for each output."""
        targets, bound = listed(out), self._bound
        if targets and all(map(self._takes, targets, self._dtypes)):
            results = targets
        else:
            results = [self._make(self._made, dtype) for dtype in self._dtypes]
        if bound.positions:
            fields = [np.broadcast_to(field, self._shape) for field in fields]
        inputs, made = list(map(self._lain, fields)), list(map(self._lain, results))

        def compute(threads: int) -> None:
            if threads not in self._passes:
                core = inputs[0].shape[1:]
                self._passes[threads] = Pass(self._chain, core, threads, self._sides)
            self._passes[threads](numbers, inputs, made)

        if self._threads == 1:
            compute(1)
        else:
            paced(bound.pace, self._points, self._threads, bound.handoff, compute)
        for target, one in zip(targets, results, strict=False):
            if target is not one:
                write(target, one)
        return tuple(targets or results)

    def _lain(self, array: Array) -> Array:
        """An array as the kernel takes it."""
        return stacked(array if self._how is None else self._how.of(array), self._chain.ndim)

    def _takes(self, out: Array, dtype: np.dtype) -> bool:
        """Whether the kernel can write to an array as it is."""
        how, ndim = self._how, self._chain.ndim
        if how is None:
            return plain(out, dtype, ndim)
        return how.lies(out) and plain(how.of(out), dtype, ndim)


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
