"""What no kernel may be is found, and what generated text may not say."""

from dataclasses import replace

import numpy as np
import pytest

import verify_kernels
from ninepoint.language import ir
from ninepoint.language.ir import Assign, Binary, Box, Call, DType, Read, Ref
from ninepoint.loops.nodes import Let, Name
from ninepoint.loops.reading import NotRead, read

T1, T2, HALF = Ref(DType.INT, "t1"), Ref(DType.INT, "t2"), ir.Const(DType.F64, "0.5")


def given(name, field, *offset):
    return Assign(name, Read(DType.INT, field, offset))


def added(name, left, right):
    return Assign(name, Binary(DType.INT, "+", Ref(DType.INT, left), Ref(DType.INT, right)))


def stage(number, field):
    inner = f"u{number}"
    made = (given(inner, field, -1, 0),), (Ref(DType.INT, inner),)
    return ir.Values((f"v{number}",), *made)


KERNEL = ir.Kernel(
    ndim=2,
    fields=(("x", np.dtype("int16")),),
    scalars=(("k", DType.INT),),
    coefficients=(("w", np.dtype("int64"), (3,)),),
    body=(given("t0", "v0", 0, 1), given("t1", "x", 0, 0), added("t2", "t0", "t1")),
    outputs=(T2,),
    stages=(stage(0, "x"),),
)


def body(assign):
    return replace(KERNEL, body=(*KERNEL.body, assign))


def value(expr):
    return body(Assign("t3", expr))


def stages(more):
    return replace(KERNEL, stages=(*KERNEL.stages, more))


RANKED = ir.Histogram(("v1",), given("u1", "x", 0, 0), 9, tuple((row, 0, 3) for row in range(3)))
WRONG_KERNELS = [
    (body(added("t3", "t2", "t4")), "t4, which is not known yet"),
    (body(added("x", "t2", "t2")), "'x' means two things"),
    (body(added("v.0", "t2", "t2")), "is no name"),
    (body(given("t3", "y", 0, 0)), "reads y, which is not made yet"),
    (value(Read(DType.F64, "x", (0, 0))), "reads x as"),
    (value(ir.Select(DType.INT, T2, T1, T1)), "chosen by"),
    (value(Binary(DType.INT, "<", T2, T1)), "t3"),
    (value(ir.Element(DType.INT, "w", (3,))), "of (3,)"),
    (value(Binary(DType.INT, "+", Ref(DType.F64, "t2"), HALF)), "takes t2 for"),
    (value(Call(DType.F32, "exp", (HALF,))), "t3"),
    (replace(KERNEL, outputs=()), "gives something"),
    (replace(KERNEL, stages=()), "v0, which is not made yet"),
    (stages(RANKED), "rank 9 of 9"),
    (replace(KERNEL, every=(2, 0)), "(2, 0)"),
    (replace(KERNEL, lengths=(2,)), "k: axis 2"),
    (replace(KERNEL, positions=(ir.Position(1, "elements", 9, 0),)), "9 .. 0"),
]


def test_what_no_kernel_may_be_is_found():
    verify_kernels.verify(KERNEL, Box((-1, 0), (0, 1)))
    for wrong, why in WRONG_KERNELS:
        with pytest.raises(AssertionError) as caught:
            verify_kernels.verify(wrong)
        assert why in str(caught.value)
    for low, high in [((0, 0), (0, 1)), ((-1, 0), (0, 0)), ((-1, 1), (0, 1))]:
        with pytest.raises(AssertionError, match="beyond"):
            verify_kernels.verify(KERNEL, Box(low, high))


def test_text_that_would_mean_something_else_is_not_read():
    """What reads generated text takes a name for one type, and nothing for what it may mean."""
    types = [("float32", 1), ("float32", 1)]
    two_types = "t = 0\n    for j in range(2):\n        t = x[j]"
    for line in ("import os", "x.sort()", "out[0] = [1]", "del x", "out[0] = unknown", two_types):
        with pytest.raises(NotRead):
            read(f"def band(x, out):\n    {line}\n", {}, {}, types)


def test_a_name_keeps_what_a_parameter_was_before_it_changes():
    text = (
        "def turned(a, b):\n    before = a\n    a, b = b, a\n    return before + b\n"
        "def band(out):\n    out[0] = turned(1, 2)\n"
    )
    a, b, before, *kept = read(text, {}, {}, [("int64", 1)]).function("turned").body
    assert before == Let("before", Name("int64", a.name))
    assert [one.value for one in kept[:2]] == [Name("int64", b.name), Name("int64", a.name)]
