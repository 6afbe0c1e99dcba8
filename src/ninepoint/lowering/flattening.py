"""Flattening: a kernel without stages, each of which is computed again wherever it is read.

    v = x[0, 1] + x[0, -1]                       a = x[-1, 1] + x[-1, -1]
    out = v[-1, 0] + v[1, 0]         ->          b = x[1, 1] + x[1, -1]
                                                 out = a + b

The operations are the same, and so are all bits.  Where a thread has little memory of its own,
and much time, that is often less work than to write a stage and to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..language.ir import (
    Assign,
    Atom,
    Kernel,
    Offset,
    Read,
    Reduce,
    Values,
    renamed,
    renamed_atom,
    shifted,
)
from .lines import Lines


def flattened(kernel: Kernel, most: int) -> Kernel | None:
    """The kernel in one piece, if that takes no more than so many operations for each point.

    None where it takes more, or where a stage is no plain value.
    """
    if not all(isinstance(stage, Values) for stage in kernel.stages):
        return None
    if any(isinstance(a.value, Reduce) for stage in kernel.stages for a in stage.body):
        return None
    return _Flat(kernel, most).kernel()


class _TooLong(Exception):
    """More operations than there may be."""


class _Flat:
    def __init__(self, given: Kernel, most: int) -> None:
        self.given = given
        self.most = most
        self.lines = Lines("t")
        self.stages = {name: stage for stage in given.stages for name in stage.names}
        self.made: dict[tuple[str, Offset], Atom] = {}

    def kernel(self) -> Kernel | None:
        given = self.given
        try:
            outputs = self._values(given.body, given.outputs, (0,) * given.ndim)
        except _TooLong:
            return None
        body = tuple(self.lines.body)
        return replace(given, body=body, outputs=tuple(outputs), stages=())

    def _read(self, name: str, offset: Offset) -> Atom:
        """The value of a stage at an offset."""
        if (name, offset) not in self.made:
            stage = self.stages[name]
            values = self._values(stage.body, stage.values, offset)
            self.made |= {
                (one, offset): value for one, value in zip(stage.names, values, strict=True)
            }
        return self.made[name, offset]

    def _values(
        self, body: Sequence[Assign], values: Sequence[Atom], offset: Offset
    ) -> list[Atom]:
        """Some values, moved by an offset."""
        alias: dict[str, Atom] = {}
        for assign in body:
            expr = shifted(renamed(assign.value, alias), offset)
            if isinstance(expr, Read) and expr.field in self.stages:
                alias[assign.name] = self._read(expr.field, expr.offset)
                continue
            alias[assign.name] = self.lines.emit(expr)
            if len(self.lines.body) > self.most:
                raise _TooLong
        return [renamed_atom(value, alias) for value in values]
