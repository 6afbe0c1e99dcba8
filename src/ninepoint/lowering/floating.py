"""Floating: numbers of truths, counted in the lanes of the floats that are made of them.

    n = sum of (x == x) over 3 x 3          n = sum of (x == x ? 1.0 : -0.0) over 3 x 3
    t = float32(n);  u = n > 0       ->     t = n + 0.0;  u = n > 0.0

A byte for each truth is four times as narrow; but beside floats no more of them are counted at
once, and each must be packed and unpacked.  To add -0.0 changes no float, so that LLVM adds under
a mask instead of choosing first.  (nanmean of 3 x 3 float32, 512 x 512, three rows at once: bytes
and 0.0 took 44 us, floats 41 us, with -0.0 37 us; Zen 5.)  A number of none is 0.0 all the same,
by which others are divided.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.rewrite import made_as, named, number, operands
from ..language.dtypes import DType, kind_of
from ..language.ir import (
    COMPARISONS,
    Assign,
    Binary,
    Cast,
    Const,
    Expr,
    Kernel,
    Reduce,
    Ref,
    Select,
)
from .staging import NEAR


def floating(kernel: Kernel) -> Kernel:
    """Count truths as floats wherever nothing but floats and comparisons ask for their number."""
    sizes = [max(4, dtype.itemsize) for _, dtype in kernel.fields if kind_of(dtype) == "f"]
    kinds = {
        assign.name: kind
        for assign in kernel.body
        if (kind := _kind(kernel, assign)) and kind.numpy.itemsize <= max(sizes, default=0)
    }
    if not kinds:
        return kernel
    body: list[Assign] = []
    for assign in kernel.body:
        value, kind = assign.value, kinds.get(assign.name)
        if kind is not None:
            assert isinstance(value, Reduce)
            body.append(Assign(assign.name, _floats(value, kind)))
            continue
        counted = [name for name in operands(value) if name in kinds]
        if counted and isinstance(value, Cast):
            kind = value.dtype
            value = Binary(kind, "+", Ref(kind, counted[0]), Const(kind, "0.0"))
        elif counted:
            assert isinstance(value, Binary), value
            value = _compared(value, kinds[counted[0]])
        body.append(Assign(assign.name, value))
    return replace(kernel, body=tuple(body))


def _kind(kernel: Kernel, counted: Assign) -> DType | None:
    """The floats that are made of a number of truths, if nothing else is but comparisons."""
    value, name = counted.value, counted.name
    if not isinstance(value, Reduce) or truths(value) is None or max(value.shape) > NEAR:
        return None
    if Ref(value.dtype, name) in kernel.outputs:
        return None
    uses = [a.value for a in kernel.body if name in operands(a.value)]
    made = {use.dtype for use in uses if isinstance(use, Cast)}
    if len(made) != 1 or not all(_allowed(use) for use in uses):
        return None
    (kind,) = made
    return kind if kind.is_float else None


def truths(reduce: Reduce) -> Ref | None:
    """The truths that a window's sum counts, if it does."""
    value = made_as(reduce.result, named(reduce.body))
    if reduce.kind != "sum" or reduce.dtype is not DType.INT or not isinstance(value, Cast):
        return None
    counted = value.arg
    return counted if isinstance(counted, Ref) and counted.dtype is DType.BOOL else None


def _allowed(use: Expr) -> bool:
    """Whether floats can take the place of what is used."""
    match use:
        case Cast(storage=""):
            return True
        case Binary(op=op, right=Const() as right) if op in COMPARISONS:
            return abs(int(right.text)) < 2**24
        case _:
            return False


def _floats(reduce: Reduce, kind: DType) -> Reduce:
    """The same number as a sum of floats."""
    counted, result = truths(reduce), reduce.result
    assert counted is not None, reduce
    assert isinstance(result, Ref), reduce
    one = Select(kind, counted, Const(kind, "1.0"), Const(kind, "-0.0"))
    body = tuple(Assign(a.name, one) if a.name == result.name else a for a in reduce.body)
    return replace(reduce, dtype=kind, body=body, result=Ref(kind, result.name))


def _compared(test: Binary, kind: DType) -> Binary:
    """A comparison of the number with a constant, as one of floats."""
    assert isinstance(test.left, Ref), test
    assert isinstance(test.right, Const), test
    right = number(kind, int(test.right.text))
    return replace(test, left=Ref(kind, test.left.name), right=right)
