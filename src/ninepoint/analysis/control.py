"""Control: which loops end by themselves, and which reads surely stay in their neighborhood."""

from __future__ import annotations

from dataclasses import replace

from ..language.ir import (
    Body,
    DType,
    Expr,
    Inside,
    Kernel,
    Loop,
    Noting,
    mapped,
    named,
    within,
)
from .ranges import Interval, Known, ranges, refined, turn_ranges
from .rewrite import bodies

# A loop of no more turns than this ends by itself, soon.
_SOON = 2**16


def bounded(kernel: Kernel) -> Kernel:
    """The kernel, where loops know their number of turns at most, and reads that they are inside.

    while k < 9: k += 1, from 0     ->      at most 9 turns
    """
    if not loops(kernel):
        return kernel
    return replace(kernel, body=_bounded(kernel.body, ranges(kernel)))


def _bounded(body: Body, known: Known) -> Body:
    values = named(body)

    def change(expr: Expr) -> Expr:
        match expr:
            case Inside(index=index, active=active):
                # Where the point is active.
                found = refined(index, active, True, known, values)
                inside = found is None or found.within(Interval(expr.low, expr.high))
                return replace(expr, place="") if inside else expr
            case Loop():
                inner = turn_ranges(expr, known)
                numbers = (expr.index, *(ref for ref, _ in expr.carried))
                spans = [inner[one.name].ends for one in numbers if one.dtype is DType.INT]
                turns = min(int(high) - int(low) + 1 for low, high in spans)
                if not expr.most and turns <= _SOON:
                    # There are no more turns than what counts them has values.
                    expr = replace(expr, most=turns)
                    inner = turn_ranges(expr, known)
                return replace(expr, body=_bounded(expr.body, inner))
            case _:
                return expr

    return mapped(body, change)


def watched(kernel: Kernel) -> bool:
    """Whether a kernel must be told to stop, or might read outside its neighborhood."""
    values = [assign.value for body in bodies(kernel) for assign in within(body)]
    return any(
        not v.most if isinstance(v, Loop) else isinstance(v, Noting) and v.place for v in values
    )


def loops(kernel: Kernel) -> bool:
    """Whether a kernel holds loops, or reads at computed offsets."""
    return any(isinstance(a.value, Noting) for body in bodies(kernel) for a in body)
