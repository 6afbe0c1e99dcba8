"""Bound programs: what does a program on arrays of one kind, in memory or on a GPU.

BoundProgram(program, fields, out, threads)     ->     bound
bound(fields, numbers, out)                     ->     the wanted values, in `out` if it is given
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import numpy as on_numpy
from .arrays.arranging import are_writable
from .arrays.launching import Launches
from .arrays.parts import write
from .arrays.recognise import is_cupy, listed
from .arrays.single import Given
from .arrays.work import Block
from .program import Program, beside


class BoundProgram:
    """A program for arrays of the shapes, strides and types of these, its positions among them.

    Raises
    ------
    TypeError, ValueError
        If the results cannot be written to what is given for them.
    """

    def __init__(
        self, program: Program, fields: Sequence[Any], out: Any, threads: int | None
    ) -> None:
        self.program, self.threads = program, threads
        self._there = any(map(is_cupy, fields))
        self._checked(out, fields)
        nodes = program.nodes
        # One call can write to the place of what it reads, or finds that it cannot.
        self._alone = len(nodes) == 1 and not nodes[0].resizes and not self._there
        # Where results are those that are given, and where they are not.
        self._known: dict[bool, Launches] = {}

    def __call__(self, fields: Sequence[Any], numbers: Given, out: Any) -> list[Any]:
        """The wanted values."""
        results = self._checked(out, fields) if self._there else listed(out)
        apart = self._alone or not results or self._are_apart(results, fields)
        if not apart:
            # Some are no good, or they overlap what is read, and are written at the end.
            self._checked(out, fields)
        outs = dict(zip(self.program.wanted, results, strict=True)) if results and apart else {}
        launches = self._known.get(apart)
        if launches is None:
            launches = self.program.bound(Block(tuple(fields)), None, outs, self.threads)
            self._known[apart] = launches
        if not self._there:
            made = launches(fields, numbers, outs)
        else:
            with beside(fields):
                made = launches(fields, numbers, outs)
        for target, one in zip(results, made, strict=False):
            if target is not one:
                self._write(target, one)
        return listed(out) or made

    def _checked(self, out: Any, fields: Sequence[Any]) -> list[Any]:
        """The arrays that results are written to."""
        if out is None:
            return []
        graph, wanted = self.program.graph, self.program.wanted
        shapes = graph.shapes([array.shape for array in fields])
        shapes, dtypes = [shapes[v] for v in wanted], [graph.dtypes[v] for v in wanted]
        if not self._there:
            return on_numpy.checked_out(out, shapes, dtypes, None)
        # Imported here: CuPy is optional, and the caller has it.
        from .arrays import cuda

        with cuda.beside(fields) as device:
            return cuda.checked_out(out, shapes, dtypes, None, device)

    def _are_apart(self, results: Sequence[Any], fields: Sequence[Any]) -> bool:
        if not self._there:
            return are_writable(results, fields)
        # Imported here: CuPy is optional, and the caller has it.
        from .arrays import cuda

        return cuda.are_apart(results, fields)

    def _write(self, target: Any, made: Any) -> None:
        if self._there:
            target[...] = made
        elif not np.may_share_memory(target, made):
            write(target, made)
