"""Lines: assignments as a pass writes them, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.ir import Assign, Atom, BinaryOp, Expr, Ref
from .ranks import combined


class Lines:
    """Assignments, numbered; the same operation is assigned once."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.body: list[Assign] = []
        self.names: dict[Expr, Ref] = {}

    def emit(self, expr: Expr) -> Ref:
        found = self.names.get(expr)
        if found is None:
            found = Ref(expr.dtype, f"{self.prefix}{len(self.body)}")
            self.names[expr] = found
            self.body.append(Assign(found.name, expr))
        return found

    def tree(self, items: Sequence[Atom], op: BinaryOp) -> Atom:
        """Combine by one operation."""
        return combined(items, op, self.emit)
