"""Control: which loops end by themselves, and which reads surely stay in their neighborhood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..language.ir import (
    Atom,
    Binary,
    Const,
    DType,
    Expr,
    Gather,
    Inside,
    Kernel,
    Loop,
    Noting,
    Ref,
    made_as,
    named,
    within,
)
from .ranges import Interval, interval, ranges, refined, turn_ranges
from .rewrite import Body, bodies, mapped

# A loop of no more turns than this ends by itself, soon.
_SOON = 2**16


def outside(gather: Gather, axis: int, known: Mapping[str, Interval]) -> bool:
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


def _bounded(body: Body, known: Mapping[str, Interval]) -> Body:
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
                most = expr.most or _most(expr, found)
                if most != expr.most:
                    expr = replace(expr, most=most)
                    found = turn_ranges(expr, known)
                return replace(expr, body=_bounded(expr.body, found))
            case _:
                return expr
        return replace(expr, place="") if inside else expr

    return mapped(body, change)


def _most(loop: Loop, found: Mapping[str, Interval]) -> int:
    """How many turns a loop has at most, by a number that it counts; 0 if nobody knows."""
    values = named(loop.body)
    for name, step in values.items():
        if step == Binary(DType.INT, "+", loop.index, Const(DType.INT, "1")):
            again = refined(Ref(DType.INT, name), loop.next[0], True, found, values)
            if again is not None and again.high < _SOON:
                return int(again.high) + 1
    for (ref, _), after in zip(loop.carried, loop.next, strict=True):
        made = made_as(after, values)
        if not isinstance(made, Binary) or made.op not in ("+", "-") or made.left != ref:
            continue
        by = made.right
        if isinstance(by, Const) and by.dtype is DType.INT and int(by.text) > 0:
            turns = int(found[ref.name].high) - int(found[ref.name].low) + 1
            if turns <= _SOON:
                return turns
    return 0


def watched(kernel: Kernel) -> bool:
    """Whether a kernel must be told to stop, or might read outside its neighborhood."""
    values = [assign.value for body in bodies(kernel) for assign in within(body)]
    return any(
        not v.most if isinstance(v, Loop) else isinstance(v, Noting) and v.place for v in values
    )


def loops(kernel: Kernel) -> bool:
    """Whether a kernel holds loops, or reads at computed offsets."""
    return any(isinstance(a.value, Noting) for body in bodies(kernel) for a in body)
