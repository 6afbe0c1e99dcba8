"""Storage: the type each output is stored in, and the conversion to it.

    uint8 fields, out = t3 in -255 .. 255     ->     int16
    the same with dtype="uint8", overflow="saturate"     ->     out = min(max(t3, 0), 255)
    t3 / 2 so                                            ->     out = uint8(rint(t4))

An integer kernel gives the common type of its integer fields where every possible result
fits, else the smallest integer type that holds them all.

Whole numbers: quotients of integers that are rounded, done in integers.

    s of 0 .. 2295:  t0 = float64(s);  t1 = t0 / 9.0;  t2 = rint t1;  out = uint8(t2)
                     ->   out = (s + 4) // 9

Integers have narrow lanes.  The quotient of two floats is rounded by the division first; but it
lies at least 1 / (2 * d) from any half that it is not, which is more than the rounding while the
dividend is below 2**52, so that the rounded quotient is that of exact arithmetic.
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
from ..analysis.rewrite import binary, number, simplify
from ..language.dtypes import common, short, value_type
from ..language.ir import (
    Assign,
    Atom,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    DType,
    Emit,
    Expr,
    Kernel,
    Lines,
    Named,
    Reduce,
    Ref,
    Select,
    made_as,
    named,
    replayed,
)
from .schedule import Request


def misfit(storage: np.dtype, results: str) -> ValueError:
    """The error for a type that might not hold what a kernel gives."""
    return ValueError(
        f"dtype={storage} might not hold every result of this kernel ({results}); say what "
        'happens then with overflow="saturate" or overflow="wrap".'
    )


def natural_dtypes(kernel: Kernel, kept: int, phases: int) -> tuple[np.dtype, ...]:
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
        dtype, storage = same[0].dtype, smallest_integer(held)
        if not dtype.is_integer or dtype is DType.BOOL:
            storage = dtype.numpy
        elif widest.kind in "iu" and holds(widest, held):
            storage = widest
        if position < kept:
            storage = common(storage, kernel.fields[position][1])
        found.append(storage)
    return tuple(found)


def stored(kernel: Kernel, request: Request) -> Kernel:
    """Convert every output to its storage type.

    Raises
    ------
    ValueError
        If a value might not fit and `overflow` does not say what happens then.
    """
    assert request.dtypes is not None, "the types of the results are chosen before"
    known, lines = ranges(kernel), Lines("s")
    lines.values |= named(kernel.body)
    outputs = tuple(
        _as_stored(output, interval(output, known), storage, request.overflow, lines.emit)
        for output, storage in zip(kernel.outputs, request.dtypes, strict=True)
    )
    return replace(kernel, body=lines.body, outputs=outputs)


def _as_stored(
    output: Atom, value: Interval, storage: np.dtype, overflow: str | None, emit: Emit
) -> Atom:
    """An output in this range, converted to a type."""
    target = value_type(storage)
    if output.dtype.is_complex and not target.is_complex:
        raise ValueError(f"dtype={storage} cannot hold the complex result of this kernel.")
    if target is DType.BOOL or not target.is_integer:
        if target is output.dtype:
            return output
        # A float64 is rounded to a float16 at once, not to a float32 before.
        table = short(storage)
        once = table is not None and table.round and output.dtype is DType.F64
        return emit(Cast(target, output, storage.name if once else ""))
    fits = holds(storage, stepped(value)) and not value.nan
    if not fits and overflow is None:
        raise misfit(storage, words(value))
    if output.dtype.is_float:
        cut = overflow == "wrap"
        whole = Cast(DType.INT, output) if cut else Call(output.dtype, "rint", (output,))
        return emit(Cast(target, emit(whole), storage.name))
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


def widened(kernel: Kernel, _: Request) -> Kernel:
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


def wholesome(kernel: Kernel, _: Request) -> Kernel:
    """Divide integers as integers, where the quotient is rounded to a whole number."""
    known, made = ranges(kernel), dict[str, Expr]()

    def replaced(name: str, expr: Expr) -> Atom:
        if isinstance(expr, Cast) and expr.dtype is DType.INT:
            found = _rounded(expr.arg, made)
            # Integers of 64 bits have no vectors for it: a mean of 3 x 3 int32 took twice as long
            # as one of floats (512 x 512, Zen 5).
            if found is not None and interval(found[1], known).largest < 2.0**30:
                whole = _divided(*found, emit)
                if not expr.storage:
                    return whole
                return limited(whole, interval(whole, known), np.dtype(expr.storage), emit)
        made[name] = expr
        return Ref(expr.dtype, name)

    def emit(expr: Expr) -> Atom:
        name = f"z{len(made)}"
        made[name], known[name] = expr, bound(expr, known, {})
        return Ref(expr.dtype, name)

    outputs = replayed(kernel.body, kernel.outputs, replaced)
    body = tuple(Assign(name, expr) for name, expr in made.items())
    return simplify(replace(kernel, body=body, outputs=outputs))


def _rounded(atom: Atom, made: Named) -> tuple[str, Atom, int] | None:
    """How a float is rounded that is a rounded quotient of integers, and these."""
    call = made_as(atom, made)
    if not isinstance(call, Call) or call.function not in WHOLE:
        return None
    match made_as(call.args[0], made):
        case Binary(op="/", dtype=DType.F64, left=left, right=Const(value=float(divisor))):
            rounds = call.function in ("rint", "floor") and divisor.is_integer()
            whole = made_as(left, made)
            if not rounds or not 0 < divisor < 2**20 or not isinstance(whole, Cast):
                return None
            is_integer = whole.arg.dtype is DType.INT
            return (call.function, whole.arg, int(divisor)) if is_integer else None
        case _:
            # To round a whole number once more changes nothing.
            return _rounded(call.args[0], made)


def _divided(function: str, dividend: Atom, divisor: int, emit: Emit) -> Atom:
    """A quotient of integers, rounded down or to the nearest whole number."""

    def by_number(op: BinaryOp, left: Atom, right: int) -> Atom:
        return binary(op, left, number(DType.INT, right), emit)

    if function == "floor":
        return by_number("//", dividend, divisor)
    moved = by_number("+", dividend, divisor // 2)
    rounded = by_number("//", moved, divisor)
    if divisor % 2:
        return rounded
    # Halves go to the even neighbour: one less where a tie was rounded up to an odd one.
    tie = by_number("==", by_number("%", moved, divisor), 0)
    odd = by_number("&", rounded, 1)
    return binary("-", rounded, emit(Select(DType.INT, tie, odd, number(DType.INT, 0))), emit)
