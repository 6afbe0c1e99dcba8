"""Simplify: the same values with fewer operations, exactly.

    t1 = 0 + t0;  t2 = t1 * 1;  out = t2        ->      out = t0      (integers)

Only what is exact is done: for floats 0 + x is not x when x is -0.0.
"""

from __future__ import annotations

from dataclasses import replace

from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Const,
    Expr,
    Kernel,
    Ref,
    Select,
    needed,
    renamed,
    renamed_atom,
)


def simplify(kernel: Kernel) -> Kernel:
    """Remove operations that do nothing, join equal ones, and drop what no output needs."""
    alias: dict[str, Atom] = {}
    seen: dict[Expr, Ref] = {}
    body: list[Assign] = []
    for assign in kernel.body:
        expr = renamed(assign.value, alias)
        same = _identity(expr)
        if same is not None:
            alias[assign.name] = same
            continue
        ref = seen.setdefault(expr, Ref(expr.dtype, assign.name))
        if ref.name != assign.name:
            alias[assign.name] = ref
            continue
        body.append(Assign(assign.name, expr))
    outputs = tuple(renamed_atom(output, alias) for output in kernel.outputs)
    return drop_dead(replace(kernel, body=tuple(body), outputs=outputs))


def drop_dead(kernel: Kernel) -> Kernel:
    """Remove the assignments that no output needs.

    a = u[1];  b = u[5];  out = a       ->      a = u[1];  out = a
    """
    return replace(kernel, body=needed(kernel.body, kernel.outputs))


def _identity(expr: Expr) -> Atom | None:
    """The operand that the operation leaves as it is, or None."""
    if isinstance(expr, Select) and expr.then == expr.other:
        return expr.then
    if not isinstance(expr, Binary):
        return None
    left, right = expr.left, expr.right
    texts = [a.text if isinstance(a, Const) else "" for a in (left, right)]
    if expr.dtype.is_integer and left.dtype is right.dtype is expr.dtype:
        if expr.op == "+" and texts[0] == "0":
            return right
        if expr.op in ("+", "-", "<<", ">>", "|", "^") and texts[1] == "0":
            return left
        if expr.op == "*" and texts[0] == "1":
            return right
        if expr.op in ("*", "//", "**") and texts[1] == "1":
            return left
        if expr.op == "*" and "0" in texts:
            return Const(expr.dtype, "0")
    if expr.dtype.is_float:
        if expr.op == "*" and texts[0] == "1.0":
            return right
        if expr.op in ("*", "/") and texts[1] == "1.0":
            return left
    return None
