"""Even: a difference whose sign nobody asks for is taken in one order.

    t2 = x[0, -1] - x[0, 0];  t3 = t2 * t2      ->      t2 = x[0, 0] - x[0, -1];  t3 = t2 * t2

The other order gives the same square to the bit.  With one order, what a point makes of a
neighbour is what that neighbour makes of the point, and can be shared: a bilateral filter of 5 x 5
needs 12 exponentials in the place of 24.
"""

from __future__ import annotations

from dataclasses import replace

from ..language.dtypes import DType
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Cast,
    Const,
    Expr,
    Kernel,
    Offset,
    Read,
    Ref,
    Unary,
    atoms,
)


def evened(kernel: Kernel) -> Kernel:
    """The kernel, in which such differences subtract the earlier element from the later one."""
    values = {assign.name: assign.value for assign in kernel.body}
    # The difference of which a value has the sign, or the opposite one.
    roots: dict[str, str] = {}
    asked = {atom.name for atom in kernel.outputs if isinstance(atom, Ref)}
    for name, expr in values.items():
        used = [roots[a.name] for a in atoms(expr) if isinstance(a, Ref) and a.name in roots]
        if _turns(expr, values):
            roots[name] = name
            asked.update(used)
        elif len(used) == 1 and _keeps_sign(expr):
            roots[name] = used[0]
        elif not _is_even(expr, used):
            asked.update(used)
    asked = {roots.get(name, name) for name in asked}
    body = [
        Assign(
            assign.name, replace(assign.value, left=assign.value.right, right=assign.value.left)
        )
        if isinstance(assign.value, Binary)
        and roots.get(assign.name) == assign.name
        and assign.name not in asked
        else assign
        for assign in kernel.body
    ]
    return replace(kernel, body=tuple(body))


def _turns(expr: Expr, values: dict[str, Expr]) -> bool:
    """Whether an expression is an element minus a later one of the same field."""
    if not isinstance(expr, Binary) or expr.op != "-":
        return False
    if not expr.dtype.is_float and expr.dtype is not DType.INT:
        return False
    left, right = _place(expr.left, values), _place(expr.right, values)
    return left is not None and right is not None and left[0] == right[0] and left[1] < right[1]


def _place(atom: Atom, values: dict[str, Expr]) -> tuple[str, Offset] | None:
    """The field and the offset of an element, which may have another type."""
    expr = values.get(atom.name) if isinstance(atom, Ref) else None
    if isinstance(expr, Cast) and not expr.storage:
        return _place(expr.arg, values)
    return (expr.field, expr.offset) if isinstance(expr, Read) else None


def _keeps_sign(expr: Expr) -> bool:
    """Whether a value changes its sign, and nothing else, as an operand does."""
    match expr:
        case Unary(op="-"):
            return True
        case Cast(dtype=dtype, storage=storage):
            return dtype.is_float and not storage
        case Binary(op="*" | "/", dtype=dtype, left=left, right=right):
            return dtype.is_float and (isinstance(left, Const) or isinstance(right, Const))
        case _:
            return False


def _is_even(expr: Expr, used: list[str]) -> bool:
    """Whether a value stays if all of its operands, which have one sign, change theirs."""
    match expr:
        case Unary(op="abs"):
            return True
        case Binary(op="*"):
            return len(used) == 2 and used[0] == used[1]
        case _:
            return not used
