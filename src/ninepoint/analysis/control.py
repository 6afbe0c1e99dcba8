"""Control: which loops end by themselves, and which reads surely stay in their neighborhood."""

from __future__ import annotations

from dataclasses import replace

from ..language.ir import (
    Atom,
    Body,
    DType,
    Expr,
    Gather,
    Inside,
    Kernel,
    Loop,
    Noting,
    mapped,
    named,
    within,
)
from .ranges import Interval, Known, interval, ranges, refined, turn_ranges
from .rewrite import bodies

# A loop of no more turns than this ends by itself, soon.
_SOON = 2**16


def outside(gather: Gather, axis: int, known: Known) -> bool:
    """Whether the offset of a read might be out of its neighborhood, even where it is not read."""
    inside = Interval(gather.low[axis], gather.high[axis])
    return not interval(gather.index[axis], known).within(inside)


def bounded(kernel: Kernel) -> Kernel:
    """The kernel, where loops know their number of turns at most, and reads that they are inside.

    while k < 9: k += 1, from 0     ->      at most 9 turns
    """
    if not loops(kernel):
        return kernel
    return replace(kernel, body=_bounded(kernel.body, ranges(kernel)))


def _bounded(body: Body, known: Known) -> Body:
    values = named(body)

    def surely(index: Atom, active: Atom, low: int, high: int) -> bool:
        """Whether an index is in these bounds wherever the point is active."""
        found = refined(index, active, True, known, values)
        return found is None or found.within(Interval(low, high))

    def change(expr: Expr) -> Expr:
        match expr:
            case Gather(active=active):
                bounds = zip(expr.index, expr.low, expr.high, strict=True)
                inside = all(surely(index, active, low, high) for index, low, high in bounds)
            case Inside(index=index, length=length):
                inside = surely(index, expr.active, -length, length - 1)
            case Loop():
                found = turn_ranges(expr, known)
                numbers = (expr.index, *(ref for ref, _ in expr.carried))
                spans = [found[one.name].ends for one in numbers if one.dtype is DType.INT]
                turns = min(int(high) - int(low) + 1 for low, high in spans)
                if not expr.most and turns <= _SOON:
                    # There are no more turns than what counts them has values.
                    expr = replace(expr, most=turns)
                    found = turn_ranges(expr, known)
                return replace(expr, body=_bounded(expr.body, found))
            case _:
                return expr
        return replace(expr, place="") if inside else expr

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
