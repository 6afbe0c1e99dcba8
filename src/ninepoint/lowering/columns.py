"""Columns: which columns of a stage are made where not all points of the result are.

    every second point, out = v[-1] + v[0] + v[1]

    v   0 1 2 3 4 5 ...      v_0   0 2 4 ...      out = v_0[q] + v_1[q] + v_0[q + 1]
                       ->    v_1   1 3 5 ...

So rows are taken apart once, while a stage is made, and are contiguous where they are read.
Columns that no result reads are not made.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..language.ir import (
    Assign,
    Atom,
    Kernel,
    Loop,
    Read,
    Reduce,
    Ref,
    RunningSum,
    Values,
    renamed,
    shifted,
)
from .kept import Kept, kept_stages
from .merging import OPERATIONS, ROWS


def parts(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """The columns of each stage that are made, counted from its lowest up to the step.

    A stage of which all columns are made one beside the other, as where the step is 1, is absent.
    """
    step = kernel.every[-1] if kernel.every else 1
    found: dict[str, tuple[int, ...]] = {}
    if step == 1:
        return found
    kept = kept_stages(kernel)
    readers: list[tuple[tuple[Assign, ...], tuple[int, ...] | None]] = [(kernel.body, (0,))]
    for one in reversed(kept):
        stage = one.stage
        columns: set[int] | None = set()
        for body, made in readers:
            for offset in _offsets(body, stage.names):
                if made is None or columns is None:
                    columns = None
                else:
                    columns |= {(column + offset - one.low[-1]) % step for column in made}
        own = None if columns is None or not _fits(one, len(columns)) else tuple(sorted(columns))
        if own is not None:
            found |= dict.fromkeys(stage.names, own)
        first = None if own is None else tuple(one.low[-1] + column for column in own)
        readers.append((getattr(stage, "body", ()), first))
    return found


def _offsets(body: Iterable[Assign], names: tuple[str, ...]) -> set[int]:
    """At which columns a body reads a stage."""
    reads = (a.value for a in body if isinstance(a.value, Read))
    return {read.offset[-1] for read in reads if read.field in names}


def _fits(kept: Kept, count: int) -> bool:
    """Whether one function can make so many columns of a stage."""
    match kept.stage:
        case Values(body=body, values=values):
            if count == 1:
                return True
            reads = [a.value for a in body if isinstance(a.value, Read)]
            rows = {(read.field, read.offset[:-1]) for read in reads}
            looped = any(isinstance(a.value, Reduce | Loop) for a in body)
            pointers = len(rows) + count * len(values)
            return not looped and count * len(body) <= 2 * OPERATIONS and pointers <= ROWS
        case RunningSum():
            return count == 1
        case _:
            return False


def columns_of(
    body: tuple[Assign, ...], values: tuple[Atom, ...], made: tuple[int, ...]
) -> tuple[tuple[Assign, ...], tuple[Atom, ...], dict[str, str]]:
    """Operations and values of one column, for several of them; and what the copies are copies of.

    Those of the first column, which is 0, keep their names.
    """
    found, results, origins = list(body), list(values), {}
    for column in made[1:]:
        alias: dict[str, Atom] = {}
        for assign in body:
            expr = renamed(assign.value, alias)
            if isinstance(expr, Read):
                expr = shifted(expr, (*(0,) * (len(expr.offset) - 1), column))
            name = f"{assign.name}_c{column}"
            origins[name] = assign.name
            alias[assign.name] = Ref(expr.dtype, name)
            found.append(Assign(name, expr))
        results += (alias.get(v.name, v) if isinstance(v, Ref) else v for v in values)
    return tuple(found), tuple(results), origins
