"""Rewriting: what every pass does with operations.

    t0 = x[1];  t1 = t0 * 1;  t2 = t1 + t0       ->      t0 = x[1];  t2 = t0 + t0

A pass goes through a body once: each operation gets the operands that those before it have
become, and becomes some operand itself.  `replayed` does that, and the rest is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from ..base.frozen import frozen
from ..language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Atoms,
    Binary,
    BinaryOp,
    Body,
    Box,
    Cast,
    Const,
    DType,
    Emit,
    Expr,
    Gather,
    Histogram,
    Kernel,
    Named,
    Offset,
    Read,
    Ref,
    Select,
    Stage,
    State,
    Values,
    deeply,
    made_as,
    mapped,
    needed,
    replayed,
    within,
)


def copied(
    body: Iterable[Assign],
    values: Iterable[Atom],
    name: Callable[[str, int], str],
    change: Callable[[Expr], Expr] = lambda expr: expr,
    alias: Mapping[str, Atom] | None = None,
) -> tuple[Body, Atoms]:
    """The operations, each changed, under names made of their own and their number."""
    made = list[Assign]()

    def emit(own: str, expr: Expr) -> Ref:
        made.append(Assign(name(own, len(made)), change(expr)))
        return Ref(expr.dtype, made[-1].name)

    results = replayed(body, values, emit, alias)
    return tuple(made), results


def in_bodies(kernel: Kernel, change: Callable[[str, Body, Atoms], tuple[Body, Atoms]]) -> Kernel:
    """The kernel with other operations and values, in the stages too that only compute these.

    The change is told the first name of each stage, and none for the result.
    """
    stages = list[Stage]()
    for stage in kernel.stages:
        if isinstance(stage, Values | State):
            body, values = change(stage.names[0], stage.body, stage.values)
            stage = replace(stage, body=body, values=values)
        stages.append(stage)
    body, outputs = change("", kernel.body, kernel.outputs)
    return replace(kernel, stages=tuple(stages), body=body, outputs=outputs)


def bodies(kernel: Kernel) -> tuple[Body, ...]:
    """The body of a kernel, and before it those of its stages."""
    return (*(stage.body for stage in kernel.stages), kernel.body)


def uncast(atom: Atom, values: Named) -> Expr | None:
    """The same, or what is only given another type by it."""
    made = made_as(atom, values)
    return made_as(made.arg, values) if isinstance(made, Cast) and not made.storage else made


def as_type(atom: Atom, dtype: DType, emit: Emit) -> Atom:
    """An operand as one of a type."""
    return atom if atom.dtype is dtype else emit(Cast(dtype, atom))


def binary(op: BinaryOp, left: Atom, right: Atom, emit: Emit) -> Atom:
    """An operation on two operands of a type, which is that of the result unless it compares."""
    return emit(Binary(DType.BOOL if op in COMPARISONS else left.dtype, op, left, right))


def number(dtype: DType, value: float) -> Const:
    """A number as a constant of a type that is not complex."""
    if dtype.is_integer:
        return Const(dtype, str(int(value)))
    return Const(dtype, repr(dtype.numpy.type(value).item()))


def reads(body: Iterable[Assign], fields: Collection[str] | None = None) -> Iterator[Read]:
    """The elements that a body reads, of all fields or of some."""
    for assign in body:
        read = assign.value
        if isinstance(read, Read) and (fields is None or read.field in fields):
            yield read


def rows(body: Iterable[Assign]) -> set[tuple[str, Offset]]:
    """The rows that a body reads."""
    return {(read.field, read.offset[:-1]) for read in reads(body)}


def along_rows(offset: Offset) -> Offset:
    """An offset without its outer axes: a stage is kept for rows of one plane only."""
    return tuple(0 if axis < len(offset) - 2 else o for axis, o in enumerate(offset))


def drop_dead(kernel: Kernel) -> Kernel:
    """Remove the assignments that no output needs.

    a = u[1];  b = u[5];  out = a       ->      a = u[1];  out = a
    """
    return replace(kernel, body=needed(kernel.body, kernel.outputs))


def simplify(kernel: Kernel) -> Kernel:
    """Remove operations that do nothing, join equal ones, and drop what no output needs.

    t1 = 0 + t0;  t2 = t1 * 1;  out = t2        ->      out = t0      (integers)

    Only what is exact is done: for floats 0 + x is not x when x is -0.0.
    """
    seen = dict[Expr, Ref]()
    body = list[Assign]()

    def emit(name: str, expr: Expr) -> Atom:
        same = _identity(expr) or seen.get(expr)
        if same is None:
            same = seen[expr] = Ref(expr.dtype, name)
            body.append(Assign(name, expr))
        return same

    outputs = replayed(kernel.body, kernel.outputs, emit)
    return drop_dead(replace(kernel, body=tuple(body), outputs=outputs))


# Numbers on the right of operations that do nothing; those that exchange, on the left too.
_NEUTRAL = {
    **dict.fromkeys(("+", "-", "<<", ">>", "|", "^"), "0"),
    **dict.fromkeys(("*", "//", "**"), "1"),
}
_NEUTRAL_FLOATS = dict.fromkeys(("*", "/"), "1.0")


def _identity(expr: Expr) -> Atom | None:
    """The operand that the operation leaves as it is, or None."""
    if isinstance(expr, Select) and expr.then == expr.other:
        return expr.then
    if not isinstance(expr, Binary) or not expr.left.dtype is expr.right.dtype is expr.dtype:
        return None
    op, whole = expr.op, expr.dtype.is_integer
    left, right = (a.text if isinstance(a, Const) else "" for a in (expr.left, expr.right))
    neutral = (_NEUTRAL if whole else _NEUTRAL_FLOATS).get(op)
    if neutral is None or expr.dtype.is_complex:
        return None
    if op in ("+", "*") and left == neutral:
        return expr.right
    if right == neutral:
        return expr.left
    zero = whole and op == "*" and "0" in (left, right)
    return Const(expr.dtype, "0") if zero else None


# How arrays lie: a number says how many lanes each column of a row has.  Of an order of the axes,
# axis k is axis `how[k]` of the others.
How: TypeAlias = int | Offset


@frozen
class Turn:
    """How kernels are written for arrays whose elements lie in another order in memory.

        interleaved     a row holds all lanes of all its columns: the next column is 3 on
                        x[0, 1] + x[1, 0]     3 lanes     ->     x[0, 3] + x[1, 0]
        transposed      axes in the order 1, 0
                        x[1, 0] - x[0, 2]                 ->     x[0, 1] - x[2, 0]

    Stacks lie innermost so, such as the channels of colour images.  All do what the kernel does,
    operation by operation, so that they give the same bits.

    Where lanes are interleaved, a step along the last axis is as many times longer.  Kernels with
    stages that slide along rows have no such form: they would have to slide along another axis.
    """

    how: How

    def offset(self, at: tuple[Any, ...]) -> tuple[Any, ...]:
        """An offset along the other axes."""
        if isinstance(self.how, tuple):
            return tuple(at[axis] for axis in self.how)
        return (*at[:-1], at[-1] * self.how)

    def box(self, box: Box) -> Box:
        """Where the other kernel looks."""
        return Box(self.offset(box.lo), self.offset(box.hi))

    def kernel(self, kernel: Kernel) -> Kernel | None:
        """The kernel with other offsets; None if it has no such form."""
        # Nobody knows where an offset points that is computed.
        if any(isinstance(a.value, Gather) for body in bodies(kernel) for a in within(body)):
            return None
        if any(isinstance(stage, Histogram) for stage in kernel.stages):
            return None
        return in_bodies(
            kernel,
            lambda _, body, values: (mapped(body, lambda one: deeply(one, self._read)), values),
        )

    def _read(self, expr: Expr) -> Expr:
        if not isinstance(expr, Read):
            return expr
        axes, lanes = expr.axes, expr.lanes
        if isinstance(self.how, tuple):
            axes = tuple(map(self.how.index, axes))
        elif axes:
            lanes *= self.how
        return replace(expr, offset=self.offset(expr.offset), axes=axes, lanes=lanes)
