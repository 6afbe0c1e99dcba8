"""Hoisting: what depends on the position along one axis is computed once for each place there.

    t0 = read index0                    lines along axis 0:    h0 = read index0 % 2
    t1 = read index1                    lines along axis 1:    h1 = read index1 % 2
    t2 = t0 + t1              ->
    t3 = t2 % 2                         t3 = (read line0 + read line1) % 2

A remainder of sums, differences and products is one of their remainders, as long as nothing leaves
64 bits.  What also depends on scalars stays where it is, for these change from call to call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from ..analysis.ranges import Interval, ranges
from ..analysis.rewrite import Lines, binary, drop_dead, mapped, reads
from ..language import ir
from ..language.dtypes import value_type
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Carried,
    Const,
    DType,
    Expr,
    Kernel,
    Noting,
    Position,
    Read,
    Reduce,
    Ref,
    atoms,
    named,
    operands,
)
from .storage import natural_dtypes

# What a value depends on: the numbers of the axes along which positions are, and this for anything
# else.
_Axes: TypeAlias = frozenset[int]
_ELSE = -1


def hoisted(kernel: Kernel) -> Kernel:
    """The kernel, reading lines in the place of what depends on one axis alone."""
    if not kernel.positions:
        return kernel
    kernel = _divided(kernel)
    axes, known = _dependence(kernel), ranges(kernel)
    # What is used by what does not depend on one axis alone.
    used = {atom.name for atom in kernel.outputs if isinstance(atom, Ref)}
    for assign in kernel.body:
        if len(axes[assign.name]) > 1 or _ELSE in axes[assign.name]:
            used.update(operands(assign.value))
    read: dict[str, Expr] = {}
    fields, positions = list(kernel.fields), list(kernel.positions)
    for axis in range(kernel.ndim):
        values = tuple(
            Ref(a.value.dtype, a.name)
            for a in kernel.body
            if a.name in used and axes[a.name] == {axis} and not isinstance(a.value, Read)
        )
        if not values:
            continue
        line = _line(kernel, values)
        lines = ir.Lines(line, natural_dtypes(line))
        for k, (value, dtype) in enumerate(zip(values, lines.dtypes, strict=True)):
            if value_type(dtype) is not value.dtype:
                continue
            span = known[value.name] if value.dtype.is_integer else Interval(0, 0)
            low, high = map(int, span.ends)
            positions.append(Position(axis, positions[0].among, low, high, lines, k))
            fields.append((f"line{len(read)}", dtype))
            read[value.name] = Read(value.dtype, fields[-1][0], (0,) * kernel.ndim)
    if not read:
        return kernel
    body = tuple(Assign(a.name, read.get(a.name, a.value)) for a in kernel.body)
    return _pruned(replace(kernel, fields=tuple(fields), positions=tuple(positions), body=body))


def _line(kernel: Kernel, values: tuple[Ref, ...]) -> Kernel:
    """The kernel of one axis that gives these values."""
    body = mapped(
        kernel.body,
        lambda expr: replace(expr, offset=(0,)) if isinstance(expr, Read) else expr,
    )
    line = Kernel(1, kernel.fields[len(kernel.given) :], (), (), body, values)
    return _pruned(
        replace(line, positions=tuple(replace(one, axis=0) for one in kernel.positions))
    )


def _pruned(kernel: Kernel) -> Kernel:
    """The kernel without what no result needs, positions among it."""
    kernel = drop_dead(kernel)
    used = {read.field for read in reads(kernel.body)}
    placed = [(name, one) for name, one in kernel.placed if name in used]
    types = dict(kernel.fields)
    return replace(
        kernel,
        fields=(*kernel.given, *((name, types[name]) for name, _ in placed)),
        positions=tuple(one for _, one in placed),
    )


def _divided(kernel: Kernel) -> Kernel:
    """The kernel, with remainders of what depends on several axes as those of its parts."""
    axes, known = _dependence(kernel), ranges(kernel)
    values = named(kernel.body)
    lines = Lines("h")

    def rest(atom: Atom, divisor: Const) -> Atom | None:
        """Something that has the same remainder, of small numbers.

        None where a value is not made of positions along one axis each, or leaves 64 bits.
        """
        own = axes[atom.name] if isinstance(atom, Ref) else frozenset()
        if _ELSE in own or atom.dtype is not DType.INT:
            return None
        if not isinstance(atom, Ref) or len(own) < 2:
            return binary("%", atom, divisor, lines.emit)
        value = values[atom.name]
        if not isinstance(value, Binary) or value.op not in ("+", "-", "*"):
            return None
        left, right = rest(value.left, divisor), rest(value.right, divisor)
        if left is None or right is None or known[atom.name].wraps:
            return None
        return binary(value.op, left, right, lines.emit)

    for name, value in values.items():
        divisor = _divisor(value)
        several = len(axes[name]) > 1 and _ELSE not in axes[name]
        if several and divisor is not None and isinstance(value, Binary):
            last = rest(value.left, divisor) or value.left
            value = Binary(DType.INT, "%", last, divisor)
        lines.body.append(Assign(name, value))
    return drop_dead(replace(kernel, body=tuple(lines.body)))


def _divisor(value: Expr) -> Const | None:
    """By what an integer is divided, if only the remainder is kept."""
    if not isinstance(value, Binary) or value.dtype is not DType.INT:
        return None
    right = value.right
    if not isinstance(right, Const) or right.dtype is not DType.INT:
        return None
    number = int(right.text)
    if not 0 < number < 2**15:
        return None
    if value.op == "&" and number & (number + 1) == 0:
        return Const(DType.INT, str(number + 1))
    return right if value.op == "%" else None


def _dependence(kernel: Kernel) -> dict[str, _Axes]:
    """What each assignment depends on."""
    along = {name: one.axis for name, one in kernel.placed}
    found: dict[str, _Axes] = {name: frozenset((_ELSE,)) for name, _ in kernel.scalars}
    for assign in kernel.body:
        value = assign.value
        if isinstance(value, Read):
            own = frozenset((along.get(value.field, _ELSE),))
        elif isinstance(value, Reduce | Noting | Carried) or not atoms(value):
            own = frozenset((_ELSE,))
        else:
            own = frozenset[int]().union(*(found[name] for name in operands(value)))
        found[assign.name] = own
    return found
