"""Hoisting: what depends on the position along one axis is computed once for each place there.

    t0 = read index0                    lines along axis 0:    h0 = sin(read index0 * 0.1)
    t1 = t0 * 0.1             ->
    t2 = sin(t1)
    t3 = t2 + x[0, 0]                   t3 = read line0 + x[0, 0]

What also depends on scalars stays where it is, for these change from call to call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from ..analysis.ranges import Interval, ranges
from ..analysis.rewrite import drop_dead, mapped, named, operands, reads
from ..language.dtypes import value_type
from ..language.ir import (
    Assign,
    Carried,
    Expr,
    Kernel,
    Lines,
    Noting,
    Position,
    Read,
    Reduce,
    Ref,
    atoms,
    needed,
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
    axes, known = _dependence(kernel), ranges(kernel)
    chosen = _chosen(kernel, axes)
    if not chosen:
        return kernel
    read: dict[str, Expr] = {}
    fields, positions = list(kernel.fields), list(kernel.positions)
    for axis in range(kernel.ndim):
        names = [name for name in chosen if axes[name] == {axis}]
        if not names:
            continue
        line = _line(kernel, names)
        lines = Lines(line, natural_dtypes(line))
        for k, (name, value) in enumerate(zip(names, line.outputs, strict=True)):
            dtype = lines.dtypes[k]
            if value_type(dtype) is not value.dtype:
                continue
            span = known[name] if value.dtype.is_integer else Interval(0, 0)
            low, high = map(int, span.ends)
            positions.append(Position(axis, positions[0].among, low, high, lines, k))
            fields.append((f"line{len(read)}", dtype))
            read[name] = Read(value.dtype, fields[-1][0], (0,) * kernel.ndim)
    body = tuple(Assign(a.name, read.get(a.name, a.value)) for a in kernel.body)
    return _read(
        drop_dead(replace(kernel, fields=tuple(fields), positions=tuple(positions), body=body))
    )


def _read(kernel: Kernel) -> Kernel:
    """The kernel without positions that it does not read."""
    used = {read.field for read in reads(kernel.body)}
    placed = [(name, one) for name, one in kernel.placed if name in used]
    types = dict(kernel.fields)
    return replace(
        kernel,
        fields=(*kernel.given, *((name, types[name]) for name, _ in placed)),
        positions=tuple(one for _, one in placed),
    )


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


def _chosen(kernel: Kernel, axes: Mapping[str, _Axes]) -> list[str]:
    """What depends on one axis and is used by what does not, in order."""
    single = {a.name for a in kernel.body if len(axes[a.name]) == 1 and _ELSE not in axes[a.name]}
    used = {atom.name for atom in kernel.outputs if isinstance(atom, Ref)}
    for assign in kernel.body:
        if axes[assign.name] and assign.name not in single:
            used.update(operands(assign.value))
    return [
        assign.name
        for assign in kernel.body
        if assign.name in used & single and not isinstance(assign.value, Read)
    ]


def _line(kernel: Kernel, names: list[str]) -> Kernel:
    """The kernel of one axis that gives these values."""
    values = named(kernel.body)
    outputs = tuple(Ref(values[name].dtype, name) for name in names)
    body = mapped(
        needed(kernel.body, outputs),
        lambda expr: replace(expr, offset=(0,)) if isinstance(expr, Read) else expr,
    )
    line = Kernel(
        ndim=1,
        fields=kernel.fields[len(kernel.given) :],
        scalars=(),
        coefficients=(),
        body=body,
        outputs=outputs,
        positions=tuple(replace(one, axis=0) for one in kernel.positions),
    )
    return _read(line)
