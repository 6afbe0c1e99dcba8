"""Windows as straight lines: a small reduction becomes its operations, one by one.

    t0 = sum of x over -1..1      ->      t0 = read x -1;  t1 = read x 0;  t2 = t0 + t1; ...

Medians and percentiles become sorting networks, of which only the comparators that the wanted
elements depend on survive.  A window of more elements than
the schedule allows stays as it is, and the text loops over it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..analysis.footprint import zero_product
from ..analysis.simplify import simplify
from ..language.dtypes import DType
from ..language.ir import (
    RANKED,
    Atom,
    Binary,
    BinaryOp,
    Cast,
    Coefficient,
    Const,
    Element,
    Expr,
    Kernel,
    Offset,
    Read,
    Reduce,
    ReduceKind,
    Select,
    Tap,
    Weight,
    renamed,
    renamed_atom,
    window_indices,
)
from ..language.networks import sort
from .lines import Lines
from .ranks import combined, interpolated, not_nan, quantile_position
from .schedule import Schedule
from .valid import Valid

# How many times larger a window of picked elements may be that is still written out: an extreme
# of 197 float32 took 4 s to compile, and was 300 times as fast as the loop at each point.
_PICKED = 3


def unrolled(kernel: Kernel, schedule: Schedule) -> Kernel:
    """Write out every window that is small enough."""
    writer = _Writer("t")
    alias: dict[str, Atom] = {}
    for assign in kernel.body:
        expr = renamed(assign.value, alias)
        if isinstance(expr, Reduce) and small(expr, schedule):
            alias[assign.name] = writer.reduction(expr)
        else:
            alias[assign.name] = writer.emit(expr)
    outputs = tuple(renamed_atom(output, alias) for output in kernel.outputs)
    return simplify(replace(kernel, body=tuple(writer.body), outputs=outputs))


def small(reduce: Reduce, schedule: Schedule) -> bool:
    """Whether a window is written out, rather than looped over at each point."""
    return math.prod(reduce.shape) <= most(reduce, schedule)


def most(reduce: Reduce, schedule: Schedule) -> int:
    """Up to how many elements a window is written out."""
    if reduce.kind in RANKED:
        return schedule.network
    # Nothing else than a loop at each point is left to elements that are picked.
    return _PICKED * schedule.unrolled if is_picked(reduce) else schedule.unrolled


def is_picked(reduce: Reduce) -> bool:
    """Whether a window is not a box, but some elements of one."""
    return any(isinstance(a.value, Tap | Coefficient) and a.value.picked for a in reduce.body)


class _Writer(Lines):
    """The lines of a kernel whose windows are written out."""

    # Elements.

    def elements(self, reduce: Reduce) -> list[Atom]:
        """The value at every index of the window."""
        values = {assign.name: assign.value for assign in reduce.body}
        found: list[Atom] = []
        for position, index in enumerate(window_indices(reduce.shape)):
            alias: dict[str, Atom] = {}
            for assign in reduce.body:
                if zero_product(assign.value, values, position):
                    zero = "0" if assign.value.dtype.is_integer else "0.0"
                    alias[assign.name] = Const(assign.value.dtype, zero)
                else:
                    alias[assign.name] = self._element(assign.value, alias, position, index)
            found.append(renamed_atom(reduce.result, alias))
        return found

    def _element(self, expr: Expr, alias: dict[str, Atom], position: int, index: Offset) -> Atom:
        match expr:
            case Tap():
                return self.emit(Read(expr.dtype, expr.field, expr.offset(index)))
            case Weight():
                return Const(expr.dtype, expr.texts[position])
            case Coefficient():
                return self.emit(Element(expr.dtype, expr.array, expr.place(index)))
            case Cast(arg=Const() as known) if not expr.storage:
                return self.emit(replace(expr, arg=known))
            case _:
                made = renamed(expr, alias)
                if isinstance(made, Select) and isinstance(made.test, Const):
                    return made.then if made.test.text == "True" else made.other
                if isinstance(made, Cast) and isinstance(made.arg, Const) and not made.storage:
                    folded = _folded(made)
                    if folded is not None:
                        return folded
                return self.emit(made)

    # Reductions.

    def reduction(self, reduce: Reduce) -> Atom:
        items = self.elements(reduce)
        count = Const(DType.F64, repr(float(len(items))))
        match reduce.kind:
            case "sum" | "mean":
                items = [i for i in items if not _is_zero(i)] or items[:1]
                total = self._tree(items, "+")
                if reduce.kind == "mean":
                    return self._mean(total, reduce.dtype, count)
                same = total.dtype is reduce.dtype
                return total if same else self.emit(Cast(reduce.dtype, total))
            case "prod":
                return self._tree(items, "*")
            case "min":
                return self._tree(items, "minimum")
            case "max":
                return self._tree(items, "maximum")
            case "any":
                return self._tree(items, "|")
            case "all":
                return self._tree(items, "&")
            case "var":
                return self._variance(reduce, items, count)
            case "argmin" | "argmax":
                return self._position(reduce.kind, items)
            case "quantile":
                return self._quantile(reduce, items)
            case "nanquantile" | "nanrank":
                return self._of_valid(reduce, items)

    def _tree(self, items: Sequence[Atom], op: BinaryOp) -> Atom:
        return combined(items, op, self.emit)

    def _mean(self, total: Atom, dtype: DType, count: Const) -> Atom:
        top = total if total.dtype is dtype else self.emit(Cast(dtype, total))
        return self.emit(Binary(dtype, "/", top, Const(dtype, count.text)))

    def _variance(self, reduce: Reduce, items: list[Atom], count: Const) -> Atom:
        dtype = reduce.dtype
        total = self._tree(items, "+")
        mean = self._mean(total, dtype, count)
        squares: list[Atom] = []
        for item in items:
            value = item if item.dtype is dtype else self.emit(Cast(dtype, item))
            apart = self.emit(Binary(dtype, "-", value, mean))
            squares.append(self.emit(Binary(dtype, "*", apart, apart)))
        sum_squares = self._tree(squares, "+")
        divisor = Const(dtype, repr(max(0.0, len(items) - reduce.quantile)))
        return self.emit(Binary(dtype, "/", sum_squares, divisor))

    def _position(self, kind: ReduceKind, items: list[Atom]) -> Atom:
        best, where = items[0], Const(DType.INT, "0")
        found: Atom = where
        for position, item in enumerate(items[1:], 1):
            op: BinaryOp = "<" if kind == "argmin" else ">"
            better: Atom = self.emit(Binary(DType.BOOL, op, item, best))
            if item.dtype.is_float:
                # As NumPy's: the first NaN wins, whatever follows.
                number = self.emit(Binary(DType.BOOL, "==", best, best))
                strange = self.emit(Binary(DType.BOOL, "!=", item, item))
                either = self.emit(Binary(DType.BOOL, "|", better, strange))
                better = self.emit(Binary(DType.BOOL, "&", number, either))
            found = self.emit(Select(DType.INT, better, Const(DType.INT, str(position)), found))
            best = self.emit(Select(item.dtype, better, item, best))
        return found

    def _quantile(self, reduce: Reduce, items: list[Atom]) -> Atom:
        low, fraction = quantile_position(len(items), reduce.quantile)
        lanes = sort(items, self.emit)
        value = interpolated(lanes[low : low + 2], fraction, reduce.dtype, self.emit)
        return not_nan(value, items, self.emit)

    def _of_valid(self, reduce: Reduce, items: list[Atom]) -> Atom:
        wanted = Valid.of(reduce)
        filled, counts = wanted.split(items, self.emit)
        lanes = sort(filled, self.emit)
        return wanted.chosen(wanted.part(lanes), counts, self.emit)


def _is_zero(atom: Atom) -> bool:
    return isinstance(atom, Const) and atom.text in ("0", "0.0")


def _folded(cast: Cast) -> Const | None:
    """The cast of a known integer to a float."""
    assert isinstance(cast.arg, Const)
    value = cast.arg.value
    if isinstance(value, complex) or cast.dtype.is_complex or cast.dtype.is_integer:
        return None
    return Const(cast.dtype, repr(cast.dtype.numpy.type(value).item()))
