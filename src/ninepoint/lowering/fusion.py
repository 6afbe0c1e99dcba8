"""Fusion: kernels as parts of another one, under names that no other part has.

    v = (u[-1] + u[1]) / 2                stage v = (u[-1] + u[1]) / 2
    w = x[0] - v[1]               ->      out = x[0] - v[1]

The operations stay what they were, and in their order, so that no bit changes.  `chain` puts parts
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from ..analysis.rewrite import Body, bodies, copied, in_bodies
from ..language.ir import (
    Atom,
    Histogram,
    Kernel,
    Offset,
    Position,
    Reduce,
    Ref,
    RunningSum,
    Stage,
    State,
    Values,
    of_arrays,
)


@dataclass(frozen=True, slots=True)
class Part:
    """A lowered kernel, and the names that it has in the whole.

    `sources` says what its fields are: fields of the whole, or what an earlier part made.
    `made` names its outputs; `names` those of its scalars and coefficients that have others.
    """

    kernel: Kernel
    sources: Mapping[str, str]
    made: tuple[str, ...]
    names: Mapping[str, str]

    @property
    def coefficients(self) -> dict[str, tuple[np.dtype, Offset]]:
        """The types and the shapes of its coefficients, by their names in the whole."""
        return {self.names.get(n, n): (d, s) for n, d, s in self.kernel.coefficients}

    @property
    def positions(self) -> dict[str, Position]:
        """The positions that it reads, by their names in the whole."""
        fields, positions = self.kernel.fields, self.kernel.positions
        placed = fields[len(fields) - len(positions) :]
        return {self.sources[n]: one for (n, _), one in zip(placed, positions, strict=True)}

    def placed(self, suffix: str) -> Kernel:
        """Its kernel with the names of the whole, and for all else names with this end."""
        kernel = self.kernel
        arrays = {**self.names, **self.sources}
        arrays |= {name: f"{name}{suffix}" for stage in kernel.stages for name in stage.names}
        scalars = {n: Ref(d, self.names[n]) for n, d in kernel.scalars if n in self.names}

        def own(body: Body, values: tuple[Atom, ...]) -> tuple[Body, tuple[Atom, ...]]:
            return copied(
                body, values, lambda n, _: n + suffix, lambda e: of_arrays(e, arrays), scalars
            )

        kernel = in_bodies(kernel, own)
        stages: list[Stage] = []
        for stage in kernel.stages:
            assert isinstance(stage, Values), stage
            stages.append(replace(stage, names=tuple(arrays[name] for name in stage.names)))
        return replace(kernel, stages=tuple(stages))


def unfit(kernel: Kernel) -> str:
    """Why a kernel cannot be a part of another one; empty if it can."""
    for stage in kernel.stages:
        match stage:
            case Values():
                pass
            case Histogram():
                return "a histogram slides over a field only"
            case RunningSum():
                return "a sum runs down the rows, with the rows of the result and no faster"
            case State():
                return "it is several steps already"
            case _:
                assert_never(stage)
    if any(isinstance(assign.value, Reduce) for body in bodies(kernel) for assign in body):
        return "a window is looped over at each point, in a field only"
    return ""
