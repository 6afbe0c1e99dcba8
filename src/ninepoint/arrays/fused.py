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
from .chains import Pass, fits, is_worth, plain, stacked
from .executable import SPLIT_POINTS, Run, paced
from .lanes import Lanes, arranged, core_last
from .numpy import check_kept
from .work import Group, Placed


def bind_pass(
    group: Group, part: Placed, fields: Sequence[Array], bound: Bound, threads: int | None
) -> Run | None:
    """What does a group as one kernel; None if it has to be done node by node."""
    shape = fields[0].shape
    for node in group.nodes:
        if node.border.uses("keep"):
            check_kept(node.program.field_dtypes, node.out_dtypes)
    if any(field.shape != shape for field in fields[: len(fields) - bound.positions]):
        return None
    run = FusedRun(group, part, fields, bound, threads)
    return run if run.pays(group, fields) else None


class FusedRun:
    """Calls of a group as one kernel on fields of a shape; called as each `Run` is.

    Arrays are given to the chain with core axes last, and a stack of one axis.
    """

    def __init__(
        self,
        group: Group,
        part: Placed,
        fields: Sequence[Array],
        bound: Bound,
        threads: int | None,
    ) -> None:
        shape, along, lanes = fields[0].shape, group.nodes[0].along, not group.steps
        assert group.chain is not None
        order = core_last(len(shape), along)
        how, self._chain = arranged(group.chain, order, fields, lanes=lanes)
        self._how = how
        made = list(shape)
        for axis, (before, after), (low, high) in zip(
            along, part.closed, bound.reaches[0].sides, strict=True
        ):
            made[axis] -= (0 if before else low) + (0 if after else high)
        self._shape, self._made, self._bound = shape, tuple(made), bound
        self._dtypes = self._chain.compiled.out_dtypes
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

    def pays(self, group: Group, fields: Sequence[Array]) -> bool:
        """Whether these arrays can be read by the kernel of a group, and are worth it."""
        compiled, ndim = self._chain.compiled, self._chain.ndim
        lain = fields if self._how is None else list(map(self._how.of, fields))
        pairs = zip(
            lain[: len(lain) - len(compiled.positions)], compiled.field_dtypes, strict=False
        )
        if not all(plain(field, dtype, ndim) for field, dtype in pairs):
            return False
        core = lain[0].shape[lain[0].ndim - ndim :]
        if not self._points or not fits(core, compiled.reaches[0]):
            return False
        itemsize = sum(dtype.itemsize for dtype in compiled.out_dtypes)
        return not group.steps or group.asked or is_worth(compiled.reach, 1, core, itemsize)
