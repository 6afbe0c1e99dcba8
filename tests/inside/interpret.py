"""Compute a kernel in its intermediate form at one point, in Python: an oracle for the passes.

Numbers are as in the reference: integers are Python's, taken modulo 2**64 where they are
stored as a value of 64 bits, floats are NumPy's scalars.  No type is narrowed here.  What is
kept in rows is computed where it is read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ninepoint.language import ir
from ninepoint.language.ir import DType

# The element of a field at an offset from the point.
Look = Callable[[str, ir.Offset], Any]

COMPARED = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
WHOLE = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "**": lambda a, b: pow(a, b, 2**64) if b > 64 else a**b,
    "<<": lambda a, b: a << b if 0 <= b < 64 else 0,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else (-1 if a < 0 else 0),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "minimum": min,
    "maximum": max,
    "round": lambda a, b: round(a, 1 - len(str(b))),
}
REAL = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "**": np.power,
    "minimum": np.minimum,
    "maximum": np.maximum,
}


def live(expr: ir.Reduce, inside: Mapping[str, ir.Expr], position: int) -> set[str]:
    """What an element of a window depends on: not what is multiplied by a weight of zero."""
    found: set[str] = set()
    pending = [expr.result]
    while pending:
        atom = pending.pop()
        if isinstance(atom, ir.Ref) and atom.name in inside and atom.name not in found:
            found.add(atom.name)
            if not zero_product(inside[atom.name], inside, position):
                pending += ir.atoms(inside[atom.name])
    return found


@dataclass
class Point:
    """One kernel at one point."""

    kernel: ir.Kernel
    look: Look
    scalars: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    kept: dict[tuple[str, ir.Offset], Any] = field(default_factory=dict)

    def run(self) -> tuple[dict[str, Any], list[Any]]:
        """Every assignment's value, and those of the outputs."""
        values = {n: held(self.scalars[n], d) for n, d in self.kernel.scalars}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            self._body(self.kernel.body, values, (0,) * self.kernel.ndim)
            return values, [self._atom(o, values) for o in self.kernel.outputs]

    def _body(self, body: tuple[ir.Assign, ...], values: dict[str, Any], at: ir.Offset) -> None:
        for assign in body:
            values[assign.name] = self._expr(assign.value, values, at)

    def _atom(self, atom: ir.Atom, values: Mapping[str, Any]) -> Any:
        return values[atom.name] if isinstance(atom, ir.Ref) else held(atom.value, atom.dtype)

    def _read(self, name: str, dtype: DType, at: ir.Offset) -> Any:
        for stage in self.kernel.stages:
            if name in stage.names:
                if (name, at) not in self.kept:
                    self.kept |= {
                        (one, at): value
                        for one, value in zip(stage.names, self._stage(stage, at), strict=True)
                    }
                return self.kept[name, at]
        return held(self.look(name, at), dtype)

    def _stage(self, stage: ir.Stage, at: ir.Offset) -> list[Any]:
        assert not isinstance(stage, ir.State), "steps in a chain have ends of their own"
        if isinstance(stage, ir.Histogram):
            return self._ranked(stage, at)
        values = {n: held(self.scalars[n], d) for n, d in self.kernel.scalars}
        self._body(stage.body, values, at)
        return [self._atom(value, values) for value in stage.values]

    def _ranked(self, stage: ir.Histogram, at: ir.Offset) -> list[Any]:
        read, items = stage.read, []
        first = tuple(a + b for a, b in zip(at, read.offset, strict=True))
        for *rows, column, length in stage.runs:
            line = (
                *(0,) * (len(first) - 1 - len(rows)),
                *rows[max(0, len(rows) + 1 - len(first)) :],
            )
            for k in range(column, column + length):
                place = (*line, k)
                offset = tuple(a + b for a, b in zip(first, place, strict=True))
                items.append(self._read(read.field, read.dtype, offset))
        if any(item != item for item in items):
            return [held(math.nan, read.dtype)]
        return sorted(items)[stage.rank : stage.rank + 1]

    def _expr(self, expr: ir.Expr, values: dict[str, Any], at: ir.Offset) -> Any:
        match expr:
            case ir.Read():
                place = tuple(a + b for a, b in zip(at, expr.offset, strict=True))
                return self._read(expr.field, expr.dtype, place)
            case ir.Element():
                return held(self.arrays[expr.array][expr.index], expr.dtype)
            case ir.Reduce():
                return self._reduce(expr, values, at)
            case ir.Gather():
                return self._gather(expr, values, at)
            case ir.Inside():
                index = self._atom(expr.index, values)
                if -expr.length <= index < expr.length:
                    return index % expr.length
                if self._atom(expr.active, values):
                    raise IndexError(expr.place)
                return 0
            case ir.Loop():
                return self._loop(expr, values, at)
            case ir.Carried():
                return values[expr.loop.name][expr.number]
            case ir.Select():
                chosen = expr.then if self._atom(expr.test, values) else expr.other
                return held(self._atom(chosen, values), expr.dtype)
            case ir.Cast():
                return cast(self._atom(expr.arg, values), expr)
            case ir.Unary():
                return unary(expr, self._atom(expr.arg, values))
            case ir.Call():
                return called(expr, [self._atom(a, values) for a in expr.args])
            case ir.Binary():
                left, right = self._atom(expr.left, values), self._atom(expr.right, values)
                return binary(expr, left, right)
        raise AssertionError(expr)

    def _gather(self, expr: ir.Gather, values: dict[str, Any], at: ir.Offset) -> Any:
        steps = [self._atom(index, values) for index in expr.index]
        inside = all(a <= b <= c for a, b, c in zip(expr.low, steps, expr.high, strict=True))
        if not self._atom(expr.active, values):
            steps = [0] * len(steps) if not inside else steps
        elif not inside:
            raise IndexError(expr.place)
        place = tuple(a + b + c for a, b, c in zip(at, expr.origin, steps, strict=True))
        return self._read(expr.field, expr.dtype, place)

    def _loop(self, loop: ir.Loop, values: dict[str, Any], at: ir.Offset) -> list[Any]:
        """What the loop carries, after its last turn."""
        own = dict(values)
        carried = [self._atom(before, values) for _, before in loop.carried]
        turn = 0
        while carried[0]:
            assert not loop.most or turn < loop.most, loop
            own |= {ref.name: v for (ref, _), v in zip(loop.carried, carried, strict=True)}
            own[loop.index.name] = turn
            self._body(loop.body, own, at)
            carried = [self._atom(after, own) for after in loop.next]
            turn += 1
        return carried

    def _reduce(self, expr: ir.Reduce, values: dict[str, Any], at: ir.Offset) -> Any:
        inside = {assign.name: assign.value for assign in expr.body}
        items = []
        for position, index in enumerate(ir.window_indices(expr.shape)):
            own = dict(values)
            needed = live(expr, inside, position)
            for assign in expr.body:
                value = assign.value
                if assign.name not in needed:
                    continue
                if zero_product(value, inside, position):
                    own[assign.name] = held(0, value.dtype)
                    continue
                match value:
                    case ir.Tap():
                        place = tuple(a + b for a, b in zip(at, value.offset(index), strict=True))
                        found = self._read(value.field, value.dtype, place)
                    case ir.Weight():
                        text = value.texts[position]
                        found = held(ir.Const(value.dtype, text).value, value.dtype)
                    case ir.Coefficient():
                        found = held(self.arrays[value.array][value.place(index)], value.dtype)
                    case _:
                        found = self._expr(value, own, at)
                own[assign.name] = found
            items.append(self._atom(expr.result, own))
        return reduced(expr, items)


def zero_product(expr: ir.Expr, inside: Mapping[str, ir.Expr], position: int) -> bool:
    """Whether a product in a window is zero because its constant weight is."""
    if not isinstance(expr, ir.Binary) or expr.op != "*":
        return False
    for side in (expr.left, expr.right):
        found = inside.get(side.name) if isinstance(side, ir.Ref) else None
        if isinstance(found, ir.Cast) and isinstance(found.arg, ir.Ref):
            found = inside.get(found.arg.name)
        if isinstance(found, ir.Weight):
            weight = held(ir.Const(found.dtype, found.texts[position]).value, found.dtype)
            if not weight:
                return True
    return False


def held(value: Any, dtype: DType) -> Any:
    """A value as its type holds it."""
    match dtype:
        case DType.BOOL:
            return bool(value)
        case DType.INT:
            return (int(value) + 2**63) % 2**64 - 2**63
        case DType.UINT:
            return int(value) % 2**64
        case _:
            return dtype.numpy.type(value)


def unary(expr: ir.Unary, arg: Any) -> Any:
    match expr.op:
        case "-":
            return held(-arg, expr.dtype)
        case "~":
            return held(~int(arg), expr.dtype)
        case "abs":
            return held(abs(arg), expr.dtype)
        case "not":
            return not arg
        case _:
            return held(getattr(np, expr.op)(arg), expr.dtype)


def binary(expr: ir.Binary, a: Any, b: Any) -> Any:
    if expr.op in COMPARED:
        return bool(COMPARED[expr.op](a, b))
    if expr.op == "/" and expr.left.dtype.is_integer:
        a, b = np.float64(a), np.float64(b)
    table = WHOLE if expr.dtype.is_integer else REAL
    return held(table[expr.op](a, b), expr.dtype)


def cast(value: Any, expr: ir.Cast) -> Any:
    if expr.storage == "float16":
        return held(np.float16(value), expr.dtype)
    storage = np.dtype(expr.storage) if expr.storage else None
    if isinstance(value, np.inexact) and expr.dtype in (DType.INT, DType.UINT):
        info = np.iinfo(storage or expr.dtype.numpy)
        if value != value:
            return 0
        if value <= info.min:
            return int(info.min)
        return int(info.max) if value >= info.max else int(value)
    if storage is not None and expr.dtype.is_integer:
        info = np.iinfo(storage)
        return (int(value) - int(info.min)) % 2**info.bits + int(info.min)
    return held(value, expr.dtype)


def called(expr: ir.Call, args: list[Any]) -> Any:
    if expr.function in ("erf", "erfc", "gamma", "lgamma"):
        try:
            return held(getattr(math, expr.function)(*map(float, args)), expr.dtype)
        except (ValueError, OverflowError):
            return held(math.nan, expr.dtype)
    function = complex if expr.function == "complex" else getattr(np, expr.function)
    return held(function(*args), expr.dtype)


def reduced(expr: ir.Reduce, items: list[Any]) -> Any:
    dtype = expr.dtype
    match expr.kind:
        case "any":
            return any(items)
        case "all":
            return all(items)
        case "argmin" | "argmax":
            return int(getattr(np, expr.kind)(np.array(items)))
    if expr.result.dtype.is_integer:
        match expr.kind:
            case "sum":
                return held(sum(items), dtype)
            case "prod":
                return held(int(np.prod(np.array(items, dtype=object))), dtype)
            case "min":
                return min(items)
            case "max":
                return max(items)
            case "mean":
                return dtype.numpy.type(held(sum(items), wide(expr))) / len(items)
    array = np.array(items, dtype=dtype.numpy)
    match expr.kind:
        case "var":
            return held(np.var(array, ddof=expr.quantile), dtype)
        case "quantile":
            return held(_quantile(array, expr.quantile), dtype)
        case "nanquantile" | "nanrank":
            array = array[~np.isnan(array)]
            if not len(array):
                return held(math.nan, dtype)
            if expr.kind == "nanquantile":
                return held(_quantile(array, expr.quantile), dtype)
            rank = min(int(len(array) * expr.quantile / 100), len(array) - 1)
            return held(np.sort(array)[rank], dtype)
        case _:
            return held(getattr(np, expr.kind)(array), dtype)


def _quantile(array: np.ndarray, fraction: float) -> Any:
    """As NumPy's, but of one element or of two beside an infinity what arithmetic gives."""
    place = fraction * (len(array) - 1)
    if place % 0.5 or np.isnan(array).any():
        return np.quantile(array, fraction)
    ordered = np.sort(array)
    return (ordered[math.floor(place)] + ordered[math.ceil(place)]) / 2


def wide(expr: ir.Reduce) -> DType:
    return DType.INT if expr.result.dtype is DType.BOOL else expr.result.dtype
