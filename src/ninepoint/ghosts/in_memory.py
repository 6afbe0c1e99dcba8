"""Calls with ghosts on arrays of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..arrays.borders import Array, Border
from ..arrays.executable import apply
from ..arrays.parts import write
from ..backends.compiled import Bound
from .extending import all_extended
from .pieces import last, piece_of
from .ready import Ready
from .sides import Sides

# Does a call on arrays of NumPy with a border of names, and writes to some.
Apply: TypeAlias = Callable[..., list[Array]]


def applied(
    program: Bound,
    fields: Sequence[Array],
    shape: tuple[int, ...],
    sides: Sides,
    out: Sequence[Array],
    threads: int | None,
) -> list[Array]:
    """What a call gives for arrays of NumPy, in `out` if that is given."""
    geometry = sides.geometry
    outline, core = geometry.outline, geometry.core
    program = program.within(core)

    def call(arrays: Sequence[Array], border: Border, into: Any = None) -> list[Array]:
        made = apply(program, arrays, border=border, cval=sides.cval, out=into, threads=threads)
        return list(made) if isinstance(made, tuple) else [made]

    if not any(map(any, geometry.made)) or 0 in shape:
        return call(fields, outline, tuple(out) or None)
    fields = [np.broadcast_to(field, shape) for field in fields]
    shared = any(np.may_share_memory(one, field) for one in out for field in fields)
    results = [] if shared else list(out)
    ready = Ready.of(program, fields, results, geometry, sides.cval, threads)
    made = None if ready is None else ready(program, fields, sides, results)
    results = made or _extended(call, fields, program.positions, sides, results)
    if not shared:
        return results
    for target, result in zip(out, results, strict=True):
        write(target, result)
    return list(out)


def _extended(
    call: Apply,
    fields: Sequence[Array],
    positions: int,
    sides: Sides,
    results: Sequence[Array],
) -> list[Array]:
    """One call on copies of the fields with all their ghosts."""
    piece = piece_of(sides.geometry, -1, None)
    made = call(all_extended(fields, positions, sides, piece.start, piece.stop), piece.border)
    cut = [one[last(source)] for one, (_, source) in zip(made, piece.result, strict=True)]
    if not results:
        return [np.ascontiguousarray(one) for one in cut]
    for result, one in zip(results, cut, strict=True):
        result[...] = one
    return list(results)
