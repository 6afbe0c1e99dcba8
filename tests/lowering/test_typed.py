"""Operations get their machine types and conversions once, before any text."""

from __future__ import annotations

import pytest

from ninepoint.analysis.ranges import Interval
from ninepoint.language.dtypes import DType
from ninepoint.language.ir import Binary, Cast, Const, Ref, Unary
from ninepoint.lowering.typed import (
    Apply,
    Choose,
    Function,
    Given,
    Number,
    To,
    Typed,
    Whole,
    apply,
    called,
)

A, B = Ref(DType.INT, "a"), Ref(DType.INT, "b")
X = Ref(DType.F32, "x")
BYTE = Interval(-128, 127)


def typed(expr, result, *, a=BYTE, b=BYTE, nan=True):
    """The operation `r`, whose range is `result`, of `a` and `b` of int8 and `x` of float32."""
    known = {"a": a, "b": b, "x": Interval(-1e3, 1e3, nan), "r": result}
    kinds = {"a": "int8", "b": "int8", "x": "float32"}
    made = Typed(known, kinds)
    return made.operation("r", expr), made.types["r"]


def test_a_sum_is_cut_to_the_width_of_its_range():
    wide = Interval(-256, 254)
    made, machine = typed(Binary(DType.INT, "+", A, B), wide)
    assert machine == "int16"
    assert made == To("int16", apply("+", To("int16", Given("a")), To("int16", Given("b"))))
    narrow = Interval(-100, 100)
    made, machine = typed(Binary(DType.INT, "+", A, B), narrow)
    assert (made, machine) == (To("int8", apply("+", Given("a"), Given("b"))), "int8")


def test_an_order_is_found_in_a_type_that_holds_both():
    expr = Binary(DType.BOOL, "<", A, Const(DType.INT, "300"))
    made, machine = typed(expr, Interval(0, 1))
    assert machine == "bool"
    assert made == apply("<", To("int16", Given("a")), Number("int16", 300))


@pytest.mark.parametrize(("divisor", "op"), [("8", ">>"), ("9", ">>"), ("0", None), ("-3", None)])
def test_a_quotient_by_a_constant_needs_no_division(divisor, op):
    expr = Binary(DType.INT, "//", A, Const(DType.INT, divisor))
    made, machine = typed(expr, Interval(-128, 128) if op is None else BYTE)
    assert isinstance(made, To)
    assert made.machine == machine
    operators = set(_operators(made))
    assert (op in operators) is (op is not None)
    assert "//" not in operators


def test_the_least_of_floats_lets_a_number_that_is_none_through():
    expr = Binary(DType.F32, "minimum", X, X)
    less = Choose(apply("<", Given("x"), Given("x")), Given("x"), Given("x"))
    assert typed(expr, Interval(-1e3, 1e3), nan=False)[0] == less
    itself = apply("==", Given("x"), Given("x"))
    assert typed(expr, Interval(-1e3, 1e3, True))[0] == Choose(itself, less, Given("x"))


def test_a_float_becomes_an_integer_by_saturation_unless_it_fits():
    expr = Cast(DType.INT, X, "uint8")
    made, machine = typed(expr, Interval(0, 255))
    limits = (Number("int32", 0), Number("int32", 255))
    assert made == To(machine, called("saturate", Given("x"), *limits))
    made, machine = typed(Cast(DType.INT, X, "int16"), Interval(-1000, 1000), nan=False)
    assert (made, machine) == (To("int16", To("int32", Given("x"))), "int16")


def test_truth_and_magnitude():
    assert typed(Cast(DType.BOOL, X), Interval(0, 1))[0] == apply("!=", Given("x"), Whole(0))
    made, machine = typed(Unary(DType.INT, "abs", A), Interval(0, 128))
    wide = To("int16", Given("a"))
    chosen = Choose(apply("<", wide, Number("int16", 0)), apply("-", wide), wide)
    assert (made, machine) == (To("uint8", chosen), "uint8")


def _operators(node):
    match node:
        case Apply(op, args):
            yield op
        case To(_, arg):
            args = (arg,)
        case Choose(test, then, other):
            args = (test, then, other)
        case Function(_, args):
            pass
        case _:
            args = ()
    for arg in args:
        yield from _operators(arg)
