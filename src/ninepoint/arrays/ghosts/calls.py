"""Calls whose border has conditions, on arrays of NumPy that are alike: bound once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backends.compiled import Bound
from ..arranging import Arrangement, may_overlap
from ..axes import Behind
from ..borders import Array, Boundary
from ..conditions import Condition
from ..copying import copied
from ..executable import Executable
from ..layout import layout
from ..numpy import broadcast_shape, check_writable, checked_out
from ..parts import write
from ..recognise import listed
from ..regions import Node
from .laying import ExtendedCall, border_of
from .sides import Edges, Sides
from .turning import moved, turned


class GhostCall:
    """Calls of a node on fields like some; called with fields, numbers, a boundary and `out`."""

    def __init__(
        self,
        node: Node,
        program: Bound,
        fields: Sequence[Array],
        boundary: Boundary,
        axes: Behind | None,
        out: Any,
        threads: int | None,
    ) -> None:
        self._program, self._threads, ndim = program, threads, program.ndim
        self._ends = tuple(range(-ndim, 0))
        self._axes = None if axes == self._ends else axes
        self._whole = broadcast_shape([field.shape for field in fields])
        fields = self._given(fields)
        self._shape = shape = fields[0].shape
        self._edges = edges = Edges.of(node, shape, boundary.sides(ndim))
        # Numbers that stay the same are laid once.
        self._known: tuple[Boundary, Sides] | None = None
        geometry = edges.geometry
        self._plain = None
        if not any(map(any, geometry.made)) or 0 in shape:
            outline = geometry.outline
            self._plain = Executable(program, fields, outline, edges.cval, None, None, threads)
        outs = [self._moved(one) for one in listed(out)]
        if out is not None:
            plan = layout(geometry.core, program.reaches, border_of(geometry), every=program.every)
            shapes = [(*shape[: len(shape) - ndim], *one) for one in plan.out_shapes]
            checked_out(tuple(outs), shapes, program.out_dtypes, None)
        # Whether fields are copied, for ghosts are counted along their axes as they come.
        stacked = len(shape) - ndim > 1
        self._copies = not Arrangement(program, fields, None, tuple(outs) or None).plain or (
            stacked and not all(one.flags.c_contiguous for one in (*fields, *outs))
        )
        # What does calls on each thread: values of the border lie in memory of its own.
        self._here = threading.local()

    def __call__(
        self, fields: Sequence[Array], numbers: Sequence[Any], boundary: Boundary, out: Any
    ) -> Any:
        """What a call gives: one array for each output, bare if there is one."""
        targets = listed(out)
        check_writable(targets)
        apart = not any(may_overlap(one, field) for one in targets for field in fields)
        results = [self._moved(one) for one in targets] if apart and not self._copies else []
        made = self._made(self._given(fields), numbers, boundary, results)
        if not results:
            made = [moved(one, self._ends, self._axes) if self._axes else one for one in made]
        for target, one in zip(targets, made, strict=False):
            if not results:
                write(target, one)
        found = targets or made
        return found[0] if len(found) == 1 else tuple(found)

    def fixed(
        self, fields: Sequence[Array], boundary: Boundary, outs: Sequence[Array]
    ) -> Executable | None:
        """What does calls whose border stays the same, if machine code can by itself."""
        if self._plain is not None or self._copies or self._axes is not None:
            return None
        fields, sides = self._given(fields), self._sides(boundary)
        call = ExtendedCall(self._program, fields, outs, sides, self._threads)
        call.fill(sides)
        return call.run

    def _made(
        self,
        fields: Sequence[Array],
        numbers: Sequence[Any],
        boundary: Boundary,
        results: Sequence[Array],
    ) -> list[Array]:
        """What it gives for fields whose core axes come last, in `results` if there are some."""
        if self._plain is not None:
            made = listed(self._plain(fields, numbers, None))
            for result, one in zip(results, made, strict=False):
                result[...] = one
            return list(results) or list(made)
        sides = self._sides(boundary)
        if self._copies:
            types = self._program.field_dtypes
            fields = [copied(one, dtype) for one, dtype in zip(fields, types, strict=True)]
        run = getattr(self._here, "run", None)
        if run is None:
            run = ExtendedCall(self._program, fields, results, sides, self._threads)
            self._here.run = run
        return list(listed(run(fields, numbers, sides, results)))

    def _sides(self, boundary: Boundary) -> Sides:
        known = self._known
        if known is not None and known[0] is boundary:
            return known[1]
        if self._axes is not None:
            boundary = turned(boundary, self._whole, self._axes)
        pairs = boundary.sides(len(self._ends))
        sides = self._edges.sides(pairs)
        every = (one for pair in pairs for one in pair if isinstance(one, Condition))
        self._known = (boundary, sides) if all(one.plain for one in every) else None
        return sides

    def _given(self, fields: Sequence[Array]) -> list[Array]:
        """The fields, of one shape, with core axes last."""
        if self._axes is None and all(field.shape == self._whole for field in fields):
            return list(fields)
        whole = [
            field if field.shape == self._whole else np.broadcast_to(field, self._whole)
            for field in fields
        ]
        return [self._moved(field) for field in whole]

    def _moved(self, array: Array) -> Array:
        return np.moveaxis(array, self._axes, self._ends) if self._axes else array


def given_boundary(given: Any) -> Boundary:
    """A border that was written so, of which a call like it went well."""
    if isinstance(given, Condition):
        return Boundary(((given, given),), True)
    pairs = [(one, one) if isinstance(one, str | Condition) else tuple(one) for one in given]
    return Boundary(tuple(pairs), False)
