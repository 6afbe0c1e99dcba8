"""Control: which loops end by themselves, and which reads surely stay in their neighborhood."""

from __future__ import annotations

from collections.abc import Mapping

from ..language.ir import Gather, Kernel, Loop, within
from .ranges import Interval, interval


def outside(gather: Gather, axis: int, known: Mapping[str, Interval]) -> bool:
    """Whether a read might leave its neighborhood along an axis."""
    index = interval(gather.index[axis], known)
    return index.low < gather.low[axis] or gather.high[axis] < index.high


def watched(kernel: Kernel) -> bool:
    """Whether a kernel must be told to stop, or might read outside its neighborhood."""
    bodies = (kernel.body, *(stage.body for stage in kernel.stages))
    values = [assign.value for body in bodies for assign in within(body)]
    return any(isinstance(v, Gather) or (isinstance(v, Loop) and not v.most) for v in values)


def loops(kernel: Kernel) -> bool:
    """Whether a kernel holds loops, or reads at computed offsets."""
    bodies = (kernel.body, *(stage.body for stage in kernel.stages))
    return any(isinstance(a.value, Loop | Gather) for body in bodies for a in body)
