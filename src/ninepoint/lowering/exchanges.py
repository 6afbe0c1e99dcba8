"""Exchanges: questions for NaN that the minima and maxima of exchanges answer.

    low = minimum(a, b), loosely
    out = nan if a != a or b != b else low       ->     out = low

What is `loose` may take either of two if one is NaN: whether there was a NaN is asked for
elsewhere.  A minimum of float32 that lets every NaN through, as a GPU has it, answers that as
well, so where all that is asked about was exchanged, the question goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.rewrite import Body, in_bodies, made_as, named, replayed
from ..language.dtypes import DType
from ..language.ir import Assign, Atom, Binary, Const, Expr, Kernel, Ref, Select, needed


def exchanged(kernel: Kernel) -> Kernel:
    """The kernel without questions whose answer comes through minima and maxima."""

    def change(body: Body, values: tuple[Atom, ...]) -> tuple[Body, tuple[Atom, ...]]:
        known: dict[str, Expr] = {}

        def emit(name: str, expr: Expr) -> Atom:
            through = _asked(expr, known)
            if through is None:
                known[name] = expr
                return Ref(expr.dtype, name)
            return through

        values = replayed(body, values, emit)
        if known == named(body):
            return body, values
        return needed(tuple(Assign(name, expr) for name, expr in known.items()), values), values

    return in_bodies(kernel, change)


def _asked(expr: Expr, known: Mapping[str, Expr]) -> Atom | None:
    """What is chosen unless one of some values is NaN, if it is NaN then by itself."""
    if not isinstance(expr, Select):
        return None
    if not isinstance(expr.then, Const) or expr.then.text != "nan":
        return None
    asked = _questions(expr.test, known)
    if asked is None or not asked <= _through(expr.other, known):
        return None
    return expr.other


def _questions(test: Atom, known: Mapping[str, Expr]) -> set[Atom] | None:
    """The values of which some test asks whether any is NaN; None if it asks for anything else."""
    match made_as(test, known):
        case Binary(op="!=", left=left, right=right) if left == right:
            return {left}
        case Binary(op="|", left=left, right=right):
            first, last = _questions(left, known), _questions(right, known)
            return None if first is None or last is None else first | last
        case _:
            return None


def _through(value: Atom, known: Mapping[str, Expr]) -> set[Atom]:
    """The values of which a NaN comes through to this one."""
    found: set[Atom] = set()
    waiting: list[Atom] = [value]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        made = made_as(one, known)
        if isinstance(made, Binary) and made.loose and made.dtype is DType.F32:
            waiting += [made.left, made.right]
    return found
