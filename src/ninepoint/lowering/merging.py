"""Merging: stages that read the same rows are made together, in one pass over the row.

    stage v0 = p[-1] * p[-1] + p[0] * p[0]            stage v0, v1 = a * a + b * b, a * c + b * d
    stage v1 = p[-1] * q[-1] + p[0] * q[0]     ->         where a, b = p[-1], p[0]
                                                              c, d = q[-1], q[0]

Each row is then loaded once for all of them.  (Harris corners, 2560 x 3072 float32: three sums
of products in one stage take 9.8 ms, each by itself 11.5 ms; Zen 4.)
"""

from __future__ import annotations

from dataclasses import replace

from ..language.ir import (
    Assign,
    Atom,
    Expr,
    Kernel,
    Read,
    Ref,
    Values,
    renamed,
    renamed_atom,
)
from .kept import needed

# Operations and rows beyond which a row function runs out of registers.
OPERATIONS = 64
ROWS = 12


def merged(kernel: Kernel) -> Kernel:
    """Merge what can be merged, the first stages first."""
    first = 0
    while first < len(kernel.stages):
        for second in range(first + 1, len(kernel.stages)):
            found = _merged(kernel, first, second)
            if found is not None:
                kernel = found
                break
        else:
            first += 1
    return kernel


def _merged(kernel: Kernel, first: int, second: int) -> Kernel | None:
    """The kernel with two stages as one; nothing if they cannot be, or share no row."""
    a, b = kernel.stages[first], kernel.stages[second]
    if not isinstance(a, Values) or not isinstance(b, Values):
        return None
    if not _rows(a) & _rows(b) or len(_rows(a) | _rows(b)) > ROWS:
        return None
    if len(a.body) + len(b.body) > OPERATIONS:
        return None
    boxes = needed(kernel)
    if any(boxes.get(name) != boxes.get(a.names[0]) for name in (*a.names, *b.names)):
        return None
    between = kernel.stages[first + 1 : second]
    # The later one moves up, past what it does not read.
    made = {name for stage in (a, *between) for name in stage.names}
    if any(field in made for field, _ in _rows(b)):
        return None
    one = _joined(a, b)
    stages = (*kernel.stages[:first], one, *between, *kernel.stages[second + 1 :])
    return replace(kernel, stages=stages)


def _rows(stage: Values) -> set[tuple[str, tuple[int, ...]]]:
    return {
        (assign.value.field, assign.value.offset[:-1])
        for assign in stage.body
        if isinstance(assign.value, Read)
    }


def _joined(a: Values, b: Values) -> Values:
    """Both bodies, with what is the same computed once."""
    body = list(a.body)
    names: dict[Expr, Ref] = {
        assign.value: Ref(assign.value.dtype, assign.name) for assign in reversed(a.body)
    }
    alias: dict[str, Atom] = {}
    for assign in b.body:
        expr = renamed(assign.value, alias)
        if expr in names:
            alias[assign.name] = names[expr]
            continue
        body.append(Assign(assign.name, expr))
        names[expr] = Ref(expr.dtype, assign.name)
    values = tuple(renamed_atom(value, alias) for value in b.values)
    return Values((*a.names, *b.names), tuple(body), (*a.values, *values))
