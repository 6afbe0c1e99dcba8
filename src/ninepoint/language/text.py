"""The printed form of a kernel.

kernel (x: int8) 2 axes
  t0 = x[-1, 0]                          int
  t1 = x[1, 0]                           int
  t2 = t1 - t0                           int
  return t2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from .ir import (
    RANKED,
    Atom,
    Binary,
    Call,
    Cast,
    Coefficient,
    Const,
    Element,
    Expr,
    Kernel,
    Read,
    Reduce,
    Select,
    Tap,
    Unary,
    Weight,
)

Note = Callable[[str], str]


def kernel_text(kernel: Kernel, note: Note | None = None) -> str:
    """A kernel, an assignment a line; `note` adds what is known of a name."""
    arguments = [f"{name}: {dtype}" for name, dtype in kernel.fields]
    arguments += [f"{name}: {dtype}{list(shape)}" for name, dtype, shape in kernel.coefficients]
    arguments += [f"{name}: {dtype.value}" for name, dtype in kernel.scalars]
    axes = "1 axis" if kernel.ndim == 1 else f"{kernel.ndim} axes"
    lines = [f"kernel ({', '.join(arguments)}), {axes}"]
    for assign in kernel.body:
        told = note(assign.name) if note else assign.value.dtype.value
        lines.append(f"  {assign.name + ' = ' + expr_text(assign.value):<46} {told}".rstrip())
    lines.append(f"  return {', '.join(map(atom_text, kernel.outputs))}")
    return "\n".join(lines)


def atom_text(atom: Atom) -> str:
    """A name, or the number itself."""
    return atom.text if isinstance(atom, Const) else atom.name


def expr_text(expr: Expr) -> str:
    """One operation."""
    match expr:
        case Read():
            return f"{expr.field}[{', '.join(map(str, expr.offset))}]"
        case Unary():
            arg = atom_text(expr.arg)
            return f"{expr.op}{arg}" if expr.op in ("-", "~") else f"{expr.op} {arg}"
        case Binary():
            return f"{atom_text(expr.left)} {expr.op} {atom_text(expr.right)}"
        case Select():
            then, other = atom_text(expr.then), atom_text(expr.other)
            return f"{then} if {atom_text(expr.test)} else {other}"
        case Cast():
            return f"{expr.storage or expr.dtype.value}({atom_text(expr.arg)})"
        case Call():
            return f"{expr.function}({', '.join(map(atom_text, expr.args))})"
        case Element():
            return f"{expr.array}<{', '.join(map(str, expr.index))}>"
        case Tap():
            return f"{expr.field}[{_origin(expr)}]{_places(expr)}"
        case Weight():
            return f"weights({', '.join(expr.texts[:9])}{', ...' if len(expr.texts) > 9 else ''})"
        case Coefficient():
            return f"{expr.array}<window>{_places(expr)}"
        case Reduce():
            inner = "; ".join(f"{a.name} = {expr_text(a.value)}" for a in expr.body)
            size = "x".join(map(str, expr.shape))
            kind = f"{expr.kind} {expr.quantile:g}" if expr.kind in RANKED else expr.kind
            return f"{kind} of {atom_text(expr.result)} over {size} {{{inner}}}"
        case _:
            assert_never(expr)


def _places(expr: Tap | Coefficient) -> str:
    """Which elements of the window are taken; nothing where all are."""
    places = [f"({', '.join(map(str, place))})" for place in expr.picked]
    return f" at {' '.join(places[:9])}{' ...' if len(places) > 9 else ''}" if places else ""


def _origin(tap: Tap) -> str:
    return ", ".join(f"{o}+" if a in tap.axes else str(o) for a, o in enumerate(tap.origin))
