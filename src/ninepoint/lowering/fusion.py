"""Fusion: kernels that read what others make, as one kernel whose stages they are.

    v = (u[-1] + u[1]) / 2                stage v = (u[-1] + u[1]) / 2
    w = x[0] - v[1]               ->      out = x[0] - v[1]

The rows of a stage are made right after the last rows that they need, while these are in
cache.  The operations stay what they were, and in their order, so that no bit changes.  It
all holds where every neighbour exists; what lies beyond an array is somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from ..analysis.rewrite import Body, bodies, copied, in_bodies
from ..language.dtypes import DType
from ..language.ir import (
    Assign,
    Atom,
    Histogram,
    Kernel,
    Offset,
    Position,
    Read,
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


def fused(parts: Sequence[Part], outputs: Sequence[str]) -> Kernel:
    """Make one kernel of the parts, which gives what they make under the names `outputs`."""
    ndim = parts[0].kernel.ndim
    stages: list[Stage] = []
    fields: dict[str, np.dtype] = {}
    scalars: dict[str, DType] = {}
    coefficients: dict[str, tuple[np.dtype, Offset]] = {}
    values: dict[str, Atom] = {}
    positions: dict[str, Position] = {}
    for number, part in enumerate(parts):
        kernel, names = part.kernel, part.names
        positions |= part.positions
        fields |= {part.sources[n]: d for n, d in kernel.fields if part.sources[n] not in values}
        scalars |= {names.get(n, n): d for n, d in kernel.scalars}
        coefficients |= part.coefficients
        own = part.placed(f"_g{number}")
        values |= dict(zip(part.made, own.outputs, strict=True))
        stages += own.stages
        if number < len(parts) - 1:
            stages.append(Values(part.made, own.body, own.outputs))
    body = own.body
    results: list[Atom] = []
    for name in outputs:
        value = values[name]
        if name not in parts[-1].made:
            body += (Assign(f"{name}_0", Read(value.dtype, name, (0,) * ndim)),)
            value = Ref(value.dtype, f"{name}_0")
        results.append(value)
    at_the_end = [(name, fields.pop(name)) for name in positions]
    return Kernel(
        ndim=ndim,
        fields=(*fields.items(), *at_the_end),
        scalars=tuple(scalars.items()),
        coefficients=tuple((n, d, s) for n, (d, s) in coefficients.items()),
        body=body,
        outputs=tuple(results),
        stages=tuple(stages),
        positions=tuple(positions.values()),
    )
