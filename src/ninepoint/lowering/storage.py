"""Storage: the type each output is stored in, and the conversion to it.

    uint8 fields, out = t3 in -255 .. 255     ->     int16
    the same with dtype="uint8", overflow="saturate"     ->     out = min(max(t3, 0), 255)
    t3 / 2 so                                            ->     out = uint8(rint(t4))

An integer kernel gives the common type of its integer fields where every possible result
fits, else the smallest integer type that holds them all.

Whole numbers: float arithmetic on integers, done in integers where that is exact.

    s of 0 .. 2295:  t0 = float64(s);  t1 = t0 / 9.0;  t2 = rint t1;  out = uint8(t2)
                     ->   out = (s + 4) // 9

A float that is known to be a whole number below 2**53 is the same number as an integer, and
integers have narrow lanes.  The quotient of two such numbers is rounded by the division first;
but it lies at least 1 / (2 * d) from any half that it is not, which is more than the rounding
while the dividend is below 2**52, so that the rounded quotient is that of exact arithmetic.
"""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import replace

import numpy as np

from ..analysis.ranges import (
    WHOLE,
    Interval,
    bound,
    holds,
    interval,
    of_storage,
    ranges,
    smallest_integer,
    stepped,
    window_range,
    words,
)
from ..analysis.rewrite import Emit, Lines, binary, number, replayed, simplify
from ..language.dtypes import common, short, value_type
from ..language.ir import (
    COMPARISONS,
    Assign,
    Atom,
    Binary,
    Call,
    Cast,
    Const,
    DType,
    Expr,
    Kernel,
    Reduce,
    Ref,
    Select,
    Unary,
    named,
)
from .schedule import Request

Overflow = str | None


def misfit(storage: np.dtype, results: str) -> ValueError:
    """The error for a type that might not hold what a kernel gives."""
    return ValueError(
        f"dtype={storage} might not hold every result of this kernel ({results}); say what "
        'happens then with overflow="saturate" or overflow="wrap".'
    )


def natural_dtypes(kernel: Kernel, kept: int = 0, phases: int = 1) -> tuple[np.dtype, ...]:
    """The storage type of every result by the rule, each of which has an output in each phase.

    The first `kept` results must also hold every value of the field in their position.
    """
    known = ranges(kernel)
    integers = [dtype for _, dtype in kernel.given if dtype.kind in "biu"]
    widest = np.result_type(*integers) if integers else np.dtype("bool")
    found = []
    count = len(kernel.outputs) // phases
    for position in range(count):
        same = kernel.outputs[position::count]
        held = functools.reduce(operator.or_, (interval(one, known) for one in same))
        storage = _natural(same[0], held, widest)
        if position < kept:
            storage = common(storage, kernel.fields[position][1])
        found.append(storage)
    return tuple(found)


def _natural(output: Atom, value: Interval, widest: np.dtype) -> np.dtype:
    if not output.dtype.is_integer or output.dtype is DType.BOOL:
        return output.dtype.numpy
    if widest.kind in "iu" and holds(widest, value):
        return widest
    if value.high > 2**63 - 1:
        return np.dtype("uint64")
    return smallest_integer(value)


def stored(kernel: Kernel, request: Request) -> Kernel:
    """Convert every output to its storage type.

    Raises
    ------
    ValueError
        If a value might not fit and `overflow` does not say what happens then.
    """
    assert request.dtypes is not None, "the types of the results are chosen before"
    known, overflow = ranges(kernel), request.overflow
    outputs: list[Atom] = []
    lines = Lines("s")
    lines.body += kernel.body
    emit = lines.emit
    for output, storage in zip(kernel.outputs, request.dtypes, strict=True):
        value = interval(output, known)
        target = value_type(storage)
        if output.dtype.is_complex and not target.is_complex:
            raise ValueError(f"dtype={storage} cannot hold the complex result of this kernel.")
        if target is DType.BOOL and output.dtype is not DType.BOOL:
            outputs.append(emit(Cast(DType.BOOL, output)))
        elif target.is_integer and target is not DType.BOOL:
            if output.dtype.is_float and overflow != "wrap":
                output = emit(Call(output.dtype, "rint", (output,)))
            outputs.append(_integer(output, value, storage, overflow, emit))
        elif target is output.dtype:
            outputs.append(output)
        else:
            # A float64 is rounded to a float16 at once, not to a float32 before.
            table = short(storage)
            once = table is not None and table.round and output.dtype is DType.F64
            outputs.append(emit(Cast(target, output, storage.name if once else "")))
    return replace(kernel, body=tuple(lines.body), outputs=tuple(outputs))


def _integer(
    output: Atom, value: Interval, storage: np.dtype, overflow: Overflow, emit: Emit
) -> Atom:
    fits = holds(storage, stepped(value)) and not value.nan
    if not fits and overflow is None:
        raise misfit(storage, words(value))
    target = DType.UINT if storage == np.dtype("uint64") else DType.INT
    if output.dtype.is_float:
        if overflow == "wrap":
            return emit(Cast(target, emit(Cast(DType.INT, output)), storage.name))
        return emit(Cast(target, output, storage.name))
    if fits:
        return output
    if overflow == "wrap":
        return emit(Cast(target, output, storage.name))
    return limited(output, value, storage, emit)


def limited(atom: Atom, value: Interval, storage: np.dtype, emit: Emit) -> Atom:
    """An integer in this range, at the ends of a type where that does not hold it."""
    limits = of_storage(storage)
    dtype = DType.INT if atom.dtype is DType.BOOL else atom.dtype
    if value.low < limits.low:
        atom = emit(Binary(dtype, "maximum", atom, number(dtype, limits.low)))
    if value.high > limits.high:
        atom = emit(Binary(dtype, "minimum", atom, number(dtype, limits.high)))
    return atom


def widened(kernel: Kernel) -> Kernel:
    """Average as floats where the sum of integers might wrap.

    mean of x over 3, x of int64      ->      mean of float64(x) over 3

    A sum of integers wraps, but its mean and its variance are floats, which do not; nor does a sum
    that is wanted as a float.  Where the sum is known to fit it stays one of integers: exact, and
    in narrow lanes.
    """
    known = ranges(kernel)
    body = []
    for name, expr in named(kernel.body).items():
        if (
            isinstance(expr, Reduce)
            and (expr.kind in ("mean", "var") or expr.dtype.is_float)
            and expr.result.dtype in (DType.INT, DType.UINT)
        ):
            largest = window_range(expr, known).largest
            total = Interval(0, largest * math.prod(expr.shape))
            if not holds(expr.result.dtype.numpy, total):
                wide = Assign(f"wide_{name}", Cast(expr.dtype, expr.result))
                result = Ref(expr.dtype, wide.name)
                expr = replace(expr, body=(*expr.body, wide), result=result)
        body.append(Assign(name, expr))
    return replace(kernel, body=tuple(body))


_EXACT = {DType.F32: 2**24, DType.F64: 2**53}


def wholesome(kernel: Kernel) -> Kernel:
    """Replace float operations on whole numbers by those of integers."""
    return _Rewriter(kernel).kernel()


class _Rewriter:
    def __init__(self, source: Kernel) -> None:
        self.source = source
        self.known: dict[str, Interval] = ranges(source)
        self.whole: dict[str, Atom] = {}
        self.quotients: dict[str, tuple[Atom, int]] = {}
        self.body: list[Assign] = []

    def kernel(self) -> Kernel:
        def replaced(name: str, expr: Expr) -> Atom:
            made = self._integer(expr)
            if made is not None:
                return made
            whole = self._whole(name, expr) if expr.dtype in _EXACT else None
            if whole is not None:
                # The float stays, until nothing uses it.
                self.whole[name] = whole
            self.body.append(Assign(name, expr))
            return Ref(expr.dtype, name)

        outputs = replayed(self.source.body, self.source.outputs, replaced)
        return simplify(replace(self.source, body=tuple(self.body), outputs=outputs))

    def emit(self, expr: Expr) -> Atom:
        name = f"n{len(self.body)}"
        self.body.append(Assign(name, expr))
        self.known[name] = bound(expr, self.known, {})
        return Ref(expr.dtype, name)

    def _integer(self, expr: Expr) -> Atom | None:
        """The operation as one of integers, if it gives an integer or a truth."""
        match expr:
            case Cast(dtype=DType.INT, arg=arg, storage=storage) if arg.dtype in _EXACT:
                inner = self._of(arg)
                if inner is None or not storage:
                    return inner
                return limited(inner, interval(inner, self.known), np.dtype(storage), self.emit)
            case Binary(op=op) if op in COMPARISONS:
                left, right = self._of(expr.left), self._of(expr.right)
                if left is not None and right is not None:
                    return binary(op, left, right, self.emit)
        return None

    def _whole(self, name: str, expr: Expr) -> Atom | None:
        """The integer that a float is, if it is known to be one."""
        match expr:
            case Cast(arg=arg, storage="") if arg.dtype is DType.INT:
                return self._exact(arg, expr.dtype)
            case Call(function=function, args=(arg,)) if function in WHOLE:
                inner = self._of(arg)
                return self._rounded(function, arg) if inner is None else inner
            case Unary(op="-"):
                inner = self._of(expr.arg)
                if inner is not None and not Interval(0, 0).within(interval(inner, self.known)):
                    return self.emit(Unary(DType.INT, "-", inner))
            case Select():
                then, other = self._of(expr.then), self._of(expr.other)
                if then is not None and other is not None:
                    return self.emit(Select(DType.INT, expr.test, then, other))
            case Binary():
                left, right = self._of(expr.left), self._of(expr.right)
                if left is None or right is None:
                    return None
                if expr.op in ("+", "-", "minimum", "maximum"):
                    return self._exact(binary(expr.op, left, right, self.emit), expr.dtype)
                if expr.op == "/" and expr.dtype is DType.F64 and isinstance(right, Const):
                    divisor = int(right.text)
                    # Integers of 64 bits have no vectors for it: a mean of 3 x 3 int32 took
                    # twice as long as one of floats (512 x 512, Zen 5).
                    if 0 < divisor < 2**20 and interval(left, self.known).below(2.0**30):
                        self.quotients[name] = (left, divisor)
        return None

    def _exact(self, inner: Atom, dtype: DType) -> Atom | None:
        """An integer, if floats of the type hold it."""
        return inner if interval(inner, self.known).below(_EXACT[dtype]) else None

    def _of(self, atom: Atom) -> Atom | None:
        """The integer that a float operand is."""
        if isinstance(atom, Ref):
            return self.whole.get(atom.name)
        value = atom.value
        limit = _EXACT.get(atom.dtype)
        if limit is None or isinstance(value, complex) or not abs(value) < limit:
            return None
        if value != int(value) or atom.text == "-0.0":
            return None
        return number(DType.INT, value)

    def _rounded(self, function: str, arg: Atom) -> Atom | None:
        quotient = self.quotients.get(arg.name) if isinstance(arg, Ref) else None
        if quotient is None or function not in ("rint", "floor"):
            return None
        dividend, divisor = quotient
        # A float may be -0.0 where the integer is 0; both are 0 once they are integers, and a
        # whole float is only ever used as one.
        if function == "floor":
            return self._divided(dividend, divisor)
        moved = binary("+", dividend, number(DType.INT, divisor // 2), self.emit)
        rounded = self._divided(moved, divisor)
        return self._to_even(moved, rounded, divisor) if divisor % 2 == 0 else rounded

    def _divided(self, dividend: Atom, divisor: int) -> Atom:
        return binary("//", dividend, number(DType.INT, divisor), self.emit)

    def _to_even(self, moved: Atom, rounded: Atom, divisor: int) -> Atom:
        """Halves go to the even neighbour: one less where a tie was rounded up to an odd one."""
        zero = number(DType.INT, 0)
        rest = binary("%", moved, number(DType.INT, divisor), self.emit)
        odd = binary("&", rounded, number(DType.INT, 1), self.emit)
        tie = binary("==", rest, zero, self.emit)
        step = self.emit(Select(DType.INT, tie, odd, zero))
        return binary("-", rounded, step, self.emit)
