"""What no kernel may be, and no module of loops, is found by those who look at each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import verify_kernels
import verify_loops
from ninepoint.language.box import Box
from ninepoint.language.ir import (
    Assign,
    Binary,
    Call,
    Const,
    DType,
    Element,
    Histogram,
    Kernel,
    Length,
    Position,
    Read,
    Ref,
    Select,
    State,
    Values,
)
from ninepoint.loops import nodes
from ninepoint.loops.nodes import (
    Array,
    For,
    Function,
    If,
    Let,
    Load,
    Module,
    Name,
    Number,
    Op,
    Return,
    Size,
    Store,
    Variable,
    View,
)
from ninepoint.loops.reading import NotRead, read


def given(name: str, field: str, *offset: int) -> Assign:
    return Assign(name, Read(DType.INT, field, offset))


def ref(name: str) -> Ref:
    return Ref(DType.INT, name)


def added(name: str, left: str, right: str) -> Assign:
    return Assign(name, Binary(DType.INT, "+", ref(left), ref(right)))


KERNEL = Kernel(
    ndim=2,
    fields=(("x", np.dtype("int16")),),
    scalars=(("k", DType.INT),),
    coefficients=(("w", np.dtype("int64"), (3,)),),
    body=(given("t0", "v0", 0, 1), given("t1", "x", 0, 0), added("t2", "t0", "t1")),
    outputs=(ref("t2"),),
    stages=(Values(("v0",), (given("u0", "x", -1, 0),), (ref("u0"),)),),
)
HALF = Const(DType.F64, "0.5")
BOX = tuple((row, 0, 3) for row in range(3))
REACH = Box((-1, 0), (0, 1))


def body(*assigns: Assign) -> Kernel:
    return replace(KERNEL, body=(*KERNEL.body, *assigns))


def stages(*more: object) -> Kernel:
    return replace(KERNEL, stages=(*KERNEL.stages, *more))


WRONG_KERNELS = [
    (body(added("t3", "t2", "t4")), "t4, which is not known yet"),
    (body(added("x", "t2", "t2")), "'x' means two things"),
    (body(added("v.0", "t2", "t2")), "is no name"),
    (body(given("t3", "y", 0, 0)), "reads y, which is not made yet"),
    (body(given("t3", "x", 0)), "x"),
    (body(Assign("t3", Read(DType.F64, "x", (0, 0)))), "reads x as"),
    (body(Assign("t3", Binary(DType.F64, "+", ref("t2"), HALF))), "t3"),
    (body(Assign("t3", Select(DType.INT, ref("t2"), ref("t1"), ref("t1")))), "chosen by"),
    (body(Assign("t3", Binary(DType.INT, "<", ref("t2"), ref("t1")))), "t3"),
    (body(Assign("t3", Element(DType.INT, "w", (3,)))), "of (3,)"),
    (body(Assign("t3", Binary(DType.INT, "+", Ref(DType.F64, "t2"), HALF))), "takes t2 for"),
    (replace(KERNEL, outputs=()), "gives something"),
    (replace(KERNEL, outputs=(ref("u0"),)), "u0"),
    (replace(KERNEL, stages=()), "v0, which is not made yet"),
    (stages(Values(("v1",), (given("u1", "v1", 0, 0),), (ref("u1"),))), "v1"),
    (stages(Histogram(("v1",), given("u1", "x", 0, 0), 9, BOX)), "rank 9 of 9"),
    (body(Assign("t3", Call(DType.F64, "hypot", (HALF,)))), "t3"),
    (body(Assign("t3", Call(DType.F32, "exp", (HALF,)))), "t3"),
    (replace(KERNEL, every=(2, 0)), "(2, 0)"),
    (replace(KERNEL, lengths=(Length(2),)), "k: axis 2"),
    (replace(KERNEL, positions=(Position(1, "elements", 9, 0),)), "9 .. 0"),
    (stages(State(("v1",), (given("v1", "x", 0, 0),), (ref("v1"),), ())), "'v1' means"),
]


def test_what_no_kernel_may_be_is_found():
    verify_kernels.verify(KERNEL, REACH)
    for wrong, why in WRONG_KERNELS:
        with pytest.raises(AssertionError) as caught:
            verify_kernels.verify(wrong)
        assert why in str(caught.value)
    for low, high in [((0, 0), (0, 1)), ((-1, 0), (0, 0)), ((-1, 1), (0, 1))]:
        with pytest.raises(AssertionError, match="beyond"):
            verify_kernels.verify(KERNEL, Box(low, high))


X, OUT = Array("float32", 1, "x"), Array("float32", 1, "out")
J, T = Name("int64", "j"), Name("float32", "t")
ZERO, ONE = Number("int64", 0), Number("int64", 1)
MODULE = Module(
    (
        Function("half", (Name("float32", "v"),), (Return(Name("float32", "v")),), "float32"),
        Function("band", (X, OUT), (For("j", ZERO, Size(X, 0), ()),)),
    )
)
ELEMENT = Load(X, (J,))


def of(*statements, inside=True):
    """The module, whose band does these, inside its loop or behind it."""
    half, whole = MODULE.functions
    (around,) = whole.body
    done = (replace(around, body=statements),) if inside else (around, *statements)
    return replace(MODULE, functions=(half, replace(whole, body=done)))


RIGHT_MODULES = [
    of(Let("t", ELEMENT), Store(OUT, (J,), Op("float32", "+", (T, T)))),
    of(Variable("v", ZERO), nodes.Assign("v", ONE), If(Number("bool", True), (nodes.Break(),))),
    of(Store(OUT, (J,), nodes.Call("float32", "half", (ELEMENT,)))),
    of(View(Array("int32", 1, "bits"), X)),
]
WRONG_MODULES = [
    (of(Store(OUT, (J,), Op("float64", "to", (ELEMENT,)))), "out: float64, not float32"),
    (of(Store(OUT, (J, J), ELEMENT)), "2 indices, 1 axes"),
    (of(Store(OUT, (J,), ELEMENT), inside=False), "j is not known"),
    (of(Let("j", ZERO)), "bound twice"),
    (of(Let("t", ZERO), nodes.Assign("t", ONE)), "no variable"),
    (of(Variable("v", ZERO), nodes.Assign("v", ELEMENT)), "v: float32, not int64"),
    (of(Let("t", Op("float32", "+", (ELEMENT, ONE)))), r"\+ of float32, int64"),
    (of(Let("t", Op("int8", "<", (ONE, ONE)))), "< of int64, int64 is no int8"),
    (of(Let("t", Op("float32", "+", (ELEMENT, ELEMENT), exact=True))), "never exact"),
    (of(Let("t", Number("int8", 300))), "300 is no int8"),
    (of(Let("t", Number("float128", 1.0))), "no type 'float128'"),
    (of(If(ONE, ())), "a test: int64"),
    (of(nodes.Break(), inside=False), "no loop"),
    (of(nodes.Call("float32", "half", (ONE,))), "v of half: int64"),
    (of(nodes.Call("", "half", (ELEMENT,))), "half: nothing, not float32"),
    (of(Return(ELEMENT)), "band: float32, not nothing"),
    (of(View(Array("int64", 1, "bits"), X)), "another size"),
    (of(View(Array("float32", 1, "row"), X, (J,))), "0 axes are left"),
    (of(Store(Array("float32", 1, "y"), (J,), ELEMENT)), "y is not known"),
    (replace(MODULE, functions=MODULE.functions * 2), "one name"),
]


def test_what_no_module_of_loops_may_be_is_found():
    for module in RIGHT_MODULES:
        verify_loops.verify(module)
    for module, words in WRONG_MODULES:
        with pytest.raises(AssertionError, match=words):
            verify_loops.verify(module)


def test_text_that_would_mean_something_else_is_not_read():
    """What reads generated text takes a name for one type, and nothing for what it may mean."""
    types = [("float32", 1), ("float32", 1)]
    for line in ("import os", "x.sort()", "out[0] = [1]", "del x", "out[0] = unknown"):
        with pytest.raises(NotRead):
            read(f"def band(x, out):\n    {line}\n", {}, {}, types)
    text = (
        "def band(x, out):\n    t = 0\n    for j in range(2):\n        t = x[j]\n    out[0] = t\n"
    )
    with pytest.raises(NotRead, match="t is of two types: int64 and float32"):
        read(text, {}, {}, types)


def test_numbers_may_be_named_like_types():
    text = "def band(b1, out):\n    out[0] = b1(out[1]) & (b1 > 2)"
    types = [("int64", 0), ("int64", 1)]
    made = read(text, {}, {}, types).function("band").body
    text = text.replace("b1 > 2", "b > 2").replace("(b1, ", "(b, ")
    other = read(text, {}, {}, types).function("band").body
    assert repr(made) == repr(other).replace("name='b'", "name='b1'")


def test_a_name_keeps_what_a_parameter_was_before_it_changes():
    text = (
        "def turned(a, b):\n    before = a\n    a, b = b, a\n    return before + b\n"
        "def band(out):\n    out[0] = turned(1, 2)\n"
    )
    _, _, before, *kept = read(text, {}, {}, [("int64", 1)]).function("turned").body
    assert before == Let("before", Name("int64", "a.2"))
    assert [one.value for one in kept[:2]] == [Name("int64", "b.2"), Name("int64", "a.2")]
