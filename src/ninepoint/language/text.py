"""The printed form of a kernel.

kernel (x: int8), 2 axes
  t0 = x[-1, 0]                          int
  t1 = x[1, 0]                           int
  t2 = t1 - t0                           int
  return t2

What is kept for the neighbours stands before what reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, assert_never

from .ir import (
    RANKED,
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Histogram,
    Kernel,
    Read,
    Reduce,
    Ref,
    Select,
    State,
    Unary,
    Values,
)

Note = Callable[[str], str]

# So many of the numbers of a window are shown, and of its places.
_SHOWN = 9

# What kernels have at the end of all names of users, who need not see it.
_LAST = re.compile(r"(?<=\w)_(?!\w)")


def kernel_text(kernel: Kernel, note: Note | None = None) -> str:
    """A kernel, an assignment a line; `note` adds what is known of a name."""

    def lines(body: Iterable[Assign], before: str) -> Iterator[str]:
        for assign in body:
            told = note(assign.name) if note else assign.value.dtype.value
            yield f"{before}{_LAST.sub('', _shown(assign)):<46} {told}".rstrip()

    arguments = [f"{name}: {dtype}" for name, dtype in kernel.fields]
    arguments += [f"{name}: {dtype}{list(shape)}" for name, dtype, shape in kernel.coefficients]
    arguments += [f"{name}: {dtype.value}" for name, dtype in kernel.scalars]
    axes = "1 axis" if kernel.ndim == 1 else f"{kernel.ndim} axes"
    head = f"kernel ({', '.join(arguments)}), {axes}"
    head += f", {kernel.rows} rows at once" if kernel.rows > 1 else ""
    found = [head + (f", every {_several(kernel.every)}" if kernel.every else "")]
    for name, position in kernel.placed:
        found.append(f"  {name} is the {position.words}")
    given = kernel.scalars[len(kernel.scalars) - len(kernel.lengths) :]
    for (name, _), axis in zip(given, kernel.lengths, strict=True):
        found.append(f"  {name} is the length along axis {axis}")
    for stage in kernel.stages:
        match stage:
            case Values():
                kind = "values kept in rows"
            case Histogram():
                kind = f"the element of rank {stage.rank} of the runs {_shown(stage.runs)}"
            case State():
                loose = ", of any value beyond the ends" if stage.unbounded else ""
                kind = f"a state kept as {', '.join(map(str, stage.storage))}{loose}"
            case _:
                assert_never(stage)
        found.append(f"  {', '.join(stage.names)}: {kind}")
        found += lines(stage.body, "    ")
        found.append(f"    keep {_several(stage.values)}")
    found += lines(kernel.body, "  ")
    found.append(f"  return {_several(kernel.outputs)}")
    return _LAST.sub("", "\n".join(found))


def _expression(expr: Expr) -> str:
    """One operation."""
    match expr:
        case Binary():
            return f"{_shown(expr.left)} {expr.op} {_shown(expr.right)}"
        case Select():
            return f"{_shown(expr.then)} if {_shown(expr.test)} else {_shown(expr.other)}"
        case Call():
            return f"{expr.function}({_several(expr.args)})"
        case Unary():
            return f"{expr.op}{'' if expr.op in '-~' else ' '}{_shown(expr.arg)}"
        case Cast():
            return f"{expr.storage or expr.dtype.value}({_shown(expr.arg)})"
        case Read():
            lanes = f" {expr.lanes} lanes apart" if expr.lanes > 1 else ""
            picked = f" at {_shown(expr.picked)}" if expr.picked else ""
            # Axes of the window have a plus, numbered where they are not in order.
            in_order = expr.axes == tuple(sorted(expr.axes))
            plus = {a: "+" if in_order else f"+{k}" for k, a in enumerate(expr.axes)}
            offset = ", ".join(f"{o}{plus.get(a, '')}" for a, o in enumerate(expr.offset))
            return f"{expr.field}[{offset}]{lanes}{picked}"
        case Reduce():
            inner = "; ".join(map(_shown, expr.body))
            kind: str = expr.kind
            if expr.kind in RANKED or expr.quantile:
                kind += f" {expr.quantile:g}"
            size = "x".join(map(str, expr.shape))
            return f"{kind} of {_shown(expr.result)} over {size} {{{inner}}}"
        case _:
            told = (
                f"{name} {_shown(part)}"
                for name in expr.__match_args__[1:]
                if name != "place" and (part := getattr(expr, name)) != ()
            )
            return f"{type(expr).__name__.lower()} of {', '.join(told)}"


def _shown(part: Any) -> str:
    """A part of an operation; of many parts the first."""
    match part:
        case Const():
            return part.text
        case Ref():
            return part.name
        case Assign():
            return f"{part.name} = {_expression(part.value)}"
        case tuple():
            more = ", ..." if len(part) > _SHOWN else ""
            return f"({_several(part[:_SHOWN])}{more})"
        case _:
            return str(part)


def _several(parts: Iterable[Any]) -> str:
    return ", ".join(map(_shown, parts))
