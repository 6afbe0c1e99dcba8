"""Hoisting: what depends on the position along one axis is computed once for each place there.

    t0 = read index0                    lines along axis 0:    h0 = read index0 % 2
    t1 = read index1                    lines along axis 1:    h1 = read index1 % 2
    t2 = t0 + t1              ->
    t3 = t2 % 2                         t3 = (read line0 + read line1) % 2

A remainder of sums, differences and products is one of their remainders, as long as nothing leaves
64 bits.  What also depends on scalars stays where it is, for these change from call to call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..analysis.ranges import I64, Interval, interval, ranges
from ..language.dtypes import DType, value_type
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    Carried,
    Const,
    Expr,
    Kernel,
    Lines,
    Noting,
    Position,
    Read,
    Reduce,
    Ref,
    atoms,
)
from .storage import natural_dtypes

# Along which axes a value depends on the position; None if it depends on anything else.
_Axes = frozenset[int] | None

_NOWHERE: frozenset[int] = frozenset()


def hoisted(kernel: Kernel) -> Kernel:
    """The kernel, reading lines in the place of what depends on one axis alone."""
    if not kernel.positions:
        return kernel
    kernel = _divided(kernel)
    axes = _dependence(kernel)
    chosen = _chosen(kernel, axes)
    if not chosen:
        return kernel
    reads: dict[str, Expr] = {}
    fields = list(kernel.fields)
    positions = list(kernel.positions)
    for axis in range(kernel.ndim):
        names = [name for name in chosen if axes[name] == frozenset((axis,))]
        if not names:
            continue
        line = _line(kernel, names)
        dtypes = natural_dtypes(line)
        known = ranges(line)
        lines = Lines(line, dtypes)
        for k, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
            value = line.outputs[k]
            if value_type(dtype) is not value.dtype:
                continue
            label = f"line{len(reads)}"
            span = known[name] if value.dtype.is_integer else Interval(0, 0)
            low, high = int(span.low), int(span.high)
            among = positions[0].among
            positions.append(Position(axis, among, low, high, lines, k))
            fields.append((label, dtype))
            reads[name] = Read(value.dtype, label, (0,) * kernel.ndim)
    body = tuple(Assign(a.name, reads.get(a.name, a.value)) for a in kernel.body)
    return _pruned(replace(kernel, fields=tuple(fields), positions=tuple(positions), body=body))


def _divided(kernel: Kernel) -> Kernel:
    """The kernel, with remainders of what depends on several axes as those of its parts."""
    axes, known = _dependence(kernel), ranges(kernel)
    values = {assign.name: assign.value for assign in kernel.body}
    body: list[Assign] = []

    def emit(expr: Expr) -> Ref:
        body.append(Assign(f"h{len(body)}", expr))
        return Ref(expr.dtype, body[-1].name)

    def rest(atom: Atom, divisor: Const) -> Atom:
        """Something that has the same remainder, of small numbers."""
        if not isinstance(atom, Ref) or len(axes.get(atom.name) or ()) < 2:
            return emit(Binary(DType.INT, "%", atom, divisor))
        value = values[atom.name]
        assert isinstance(value, Binary), value
        left, right = rest(value.left, divisor), rest(value.right, divisor)
        return emit(Binary(DType.INT, value.op, left, right))

    for assign in kernel.body:
        value = assign.value
        divisor = _divisor(value)
        several = len(axes[assign.name] or ()) > 1
        if several and divisor is not None and isinstance(value, Binary):
            small = _splits(value.left, values, axes, known)
            last = rest(value.left, divisor) if small else value.left
            value = Binary(DType.INT, "%", last, divisor)
        body.append(Assign(assign.name, value))
    return replace(kernel, body=tuple(body))


def _divisor(value: Expr) -> Const | None:
    """By what an integer is divided, if only the remainder is kept."""
    if not isinstance(value, Binary) or value.dtype is not DType.INT:
        return None
    right = value.right
    if not isinstance(right, Const) or right.dtype is not DType.INT:
        return None
    number = int(right.text)
    if value.op == "%" and 0 < number < 2**15:
        return right
    if value.op == "&" and 0 < number < 2**15 and number & (number + 1) == 0:
        return Const(DType.INT, str(number + 1))
    return None


def _splits(
    atom: Atom,
    values: Mapping[str, Expr],
    axes: Mapping[str, _Axes],
    known: Mapping[str, Interval],
) -> bool:
    """Whether a value is made of positions along one axis each, and never leaves 64 bits."""
    if not isinstance(atom, Ref):
        return atom.dtype is DType.INT
    own = axes.get(atom.name)
    if own is None or atom.dtype is not DType.INT:
        return False
    if len(own) < 2:
        return True
    value = values[atom.name]
    if not isinstance(value, Binary) or value.op not in ("+", "-", "*"):
        return False
    a, b = (interval(one, known) for one in (value.left, value.right))
    ends = {
        "+": (a.low + b.low, a.high + b.high),
        "-": (a.low - b.high, a.high - b.low),
        "*": _products(a, b),
    }[value.op]
    if ends[0] < I64.low or ends[1] > I64.high:
        return False
    return all(_splits(one, values, axes, known) for one in (value.left, value.right))


def _products(a: Interval, b: Interval) -> tuple[float, float]:
    found = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(found), max(found)


def _dependence(kernel: Kernel) -> dict[str, _Axes]:
    """Along which axes each assignment depends on the position, and on nothing else."""
    labels = kernel.fields[len(kernel.fields) - len(kernel.positions) :]
    along = {n: one.axis for (n, _), one in zip(labels, kernel.positions, strict=True)}
    found: dict[str, _Axes] = {name: None for name, _ in kernel.scalars}
    for assign in kernel.body:
        found[assign.name] = _axes_of(assign.value, along, found)
    return found


def _axes_of(value: Expr, along: Mapping[str, int], found: Mapping[str, _Axes]) -> _Axes:
    if isinstance(value, Read):
        return frozenset((along[value.field],)) if value.field in along else None
    if isinstance(value, Reduce | Noting | Carried) or not atoms(value):
        return None
    own = _NOWHERE
    for atom in atoms(value):
        part = found[atom.name] if isinstance(atom, Ref) else _NOWHERE
        if part is None:
            return None
        own |= part
    return own


def _chosen(kernel: Kernel, axes: Mapping[str, _Axes]) -> list[str]:
    """What depends on one axis and is used by what does not, in order."""
    used = {atom.name for atom in kernel.outputs if isinstance(atom, Ref)}
    for assign in kernel.body:
        own = axes[assign.name]
        for atom in atoms(assign.value):
            if isinstance(atom, Ref) and (own is None or len(own) > 1):
                used.add(atom.name)
    return [
        assign.name
        for assign in kernel.body
        if assign.name in used
        and len(axes[assign.name] or ()) == 1
        and not isinstance(assign.value, Read)
    ]


def _line(kernel: Kernel, names: list[str]) -> Kernel:
    """The kernel of one axis that gives these values."""
    values = {assign.name: assign.value for assign in kernel.body}
    needed = set(_behind(values, names))
    body = tuple(
        Assign(a.name, replace(a.value, offset=(0,)) if isinstance(a.value, Read) else a.value)
        for a in kernel.body
        if a.name in needed
    )
    read = {a.value.field for a in body if isinstance(a.value, Read)}
    pairs = zip(kernel.fields[len(kernel.fields) - len(kernel.positions) :], kernel.positions,
                strict=True)  # fmt: skip
    kept = [(field, replace(one, axis=0)) for field, one in pairs if field[0] in read]
    return Kernel(
        ndim=1,
        fields=tuple(field for field, _ in kept),
        scalars=(),
        coefficients=(),
        body=body,
        outputs=tuple(Ref(values[name].dtype, name) for name in names),
        positions=tuple(one for _, one in kept),
    )


def _behind(values: Mapping[str, Expr], names: list[str]) -> Iterator[str]:
    """These names, and those that they are computed from."""
    pending, seen = list(names), set[str]()
    while pending:
        name = pending.pop()
        if name in seen or name not in values:
            continue
        seen.add(name)
        yield name
        pending += [atom.name for atom in atoms(values[name]) if isinstance(atom, Ref)]


def _pruned(kernel: Kernel) -> Kernel:
    """The kernel without what nobody reads any more."""
    values = {assign.name: assign.value for assign in kernel.body}
    needed = set(_behind(values, [a.name for a in kernel.outputs if isinstance(a, Ref)]))
    body = tuple(assign for assign in kernel.body if assign.name in needed)
    read = {a.value.field for a in body if isinstance(a.value, Read)}
    own = len(kernel.fields) - len(kernel.positions)
    kept = [
        (field, one)
        for field, one in zip(kernel.fields[own:], kernel.positions, strict=True)
        if field[0] in read
    ]
    return replace(
        kernel,
        fields=(*kernel.fields[:own], *(field for field, _ in kept)),
        positions=tuple(one for _, one in kept),
        body=body,
    )
