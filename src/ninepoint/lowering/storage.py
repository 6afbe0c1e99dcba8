"""Storage: the type each output is stored in, and the conversion to it.

    uint8 fields, out = t3 in -255 .. 255     ->     int16
    the same with dtype="uint8", overflow="saturate"     ->     out = min(max(t3, 0), 255)
    t3 / 2 so                                            ->     out = uint8(rint(t4))

An integer kernel gives the common type of its integer fields where every possible result
fits, else the smallest integer type that holds them all.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..analysis.ranges import (
    WHOLE,
    Interval,
    holds,
    interval,
    nearest,
    of_arrays,
    of_storage,
    ranges,
    smallest_integer,
    window_range,
    words,
)
from ..analysis.rewrite import Emit, made_as, named, number
from ..language.dtypes import DType, common, short, value_type
from ..language.ir import Assign, Atom, Binary, Call, Cast, Expr, Kernel, Reduce, Ref

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


def stored(kernel: Kernel, dtypes: Sequence[np.dtype], overflow: Overflow = None) -> Kernel:
    """Convert every output to its storage type.

    Raises
    ------
    ValueError
        If a value might not fit and `overflow` does not say what happens then.
    """
    known = ranges(kernel)
    body = list(kernel.body)
    outputs: list[Atom] = []

    def emit(expr: Expr) -> Ref:
        name = f"s{len(body)}"
        body.append(Assign(name, expr))
        return Ref(expr.dtype, name)

    for output, storage in zip(kernel.outputs, dtypes, strict=True):
        value = interval(output, known)
        target = value_type(storage)
        if output.dtype.is_complex and not target.is_complex:
            raise ValueError(f"dtype={storage} cannot hold the complex result of this kernel.")
        if target is DType.BOOL and output.dtype is not DType.BOOL:
            outputs.append(emit(Cast(DType.BOOL, output)))
        elif target.is_integer and target is not DType.BOOL:
            if output.dtype.is_float and overflow != "wrap" and not _is_whole(output, body):
                output = emit(Call(output.dtype, "rint", (output,)))
            outputs.append(_integer(output, value, storage, overflow, emit))
        elif target is output.dtype:
            outputs.append(output)
        else:
            # A float64 is rounded to a float16 at once, not to a float32 before.
            table = short(storage)
            once = table is not None and table.round and output.dtype is DType.F64
            outputs.append(emit(Cast(target, output, storage.name if once else "")))
    return replace(kernel, body=tuple(body), outputs=tuple(outputs))


def _is_whole(output: Atom, body: Sequence[Assign]) -> bool:
    """Whether a float is made as a whole number."""
    made = made_as(output, named(body))
    rounded = isinstance(made, Call) and made.function in WHOLE
    return rounded or (isinstance(made, Cast) and made.arg.dtype.is_integer)


def _integer(
    output: Atom, value: Interval, storage: np.dtype, overflow: Overflow, emit: Emit
) -> Atom:
    fits = holds(storage, nearest(value)) and not value.nan
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
    known, arrays = ranges(kernel), of_arrays(kernel)
    body = []
    for name, expr in named(kernel.body).items():
        if (
            isinstance(expr, Reduce)
            and (expr.kind in ("mean", "var") or expr.dtype.is_float)
            and expr.result.dtype in (DType.INT, DType.UINT)
        ):
            largest = window_range(expr, known, arrays).largest
            total = Interval(0, largest * math.prod(expr.shape))
            if not holds(expr.result.dtype.numpy, total):
                wide = Assign(f"wide_{name}", Cast(expr.dtype, expr.result))
                result = Ref(expr.dtype, wide.name)
                expr = replace(expr, body=(*expr.body, wide), result=result)
        body.append(Assign(name, expr))
    return replace(kernel, body=tuple(body))
