"""What no kernel may be is found, whichever pass made it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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
from verify_kernels import verify


def read(name: str, field: str, *offset: int) -> Assign:
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
    body=(read("t0", "v0", 0, 1), read("t1", "x", 0, 0), added("t2", "t0", "t1")),
    outputs=(ref("t2"),),
    stages=(Values(("v0",), (read("u0", "x", -1, 0),), (ref("u0"),)),),
)
HALF = Const(DType.F64, "0.5")
BOX = tuple((row, 0, 3) for row in range(3))


def body(*assigns: Assign) -> Kernel:
    return replace(KERNEL, body=(*KERNEL.body, *assigns))


def stages(*more: object) -> Kernel:
    return replace(KERNEL, stages=(*KERNEL.stages, *more))


def test_what_is_right_is_left_alone():
    verify(KERNEL, Box((-1, 0), (0, 1)))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (body(added("t3", "t2", "t4")), "t4, which is not known yet"),
        (body(added("t1", "t2", "t2")), "'t1' means two things"),
        (body(added("x", "t2", "t2")), "'x' means two things"),
        (body(added("v.0", "t2", "t2")), "is no name"),
        (body(read("t3", "y", 0, 0)), "reads y, which is not made yet"),
        (body(read("t3", "x", 0)), "x"),
        (body(Assign("t3", Read(DType.F64, "x", (0, 0)))), "reads x as"),
        (body(Assign("t3", Binary(DType.F64, "+", ref("t2"), HALF))), "t3"),
        (body(Assign("t3", Select(DType.INT, ref("t2"), ref("t1"), ref("t1")))), "chosen by"),
        (body(Assign("t3", Binary(DType.INT, "<", ref("t2"), ref("t1")))), "t3"),
        (body(Assign("t3", Element(DType.INT, "w", (3,)))), "of (3,)"),
        (body(Assign("t3", Binary(DType.INT, "+", Ref(DType.F64, "t2"), HALF))), "takes t2 for"),
        (replace(KERNEL, outputs=()), "gives something"),
        (replace(KERNEL, outputs=(ref("t9"),)), "t9"),
        (replace(KERNEL, outputs=(ref("u0"),)), "u0"),
        (replace(KERNEL, stages=()), "v0, which is not made yet"),
        (stages(Values(("v1",), (read("u1", "v2", 0, 0),), (ref("u1"),))), "v2"),
        (stages(Values(("v1",), (read("u1", "v1", 0, 0),), (ref("u1"),))), "v1"),
        (stages(Values(("x",), (read("u1", "x", 0, 0),), (ref("u1"),))), "'x' means"),
        (stages(Histogram(("v1",), read("u1", "x", 0, 0), 9, BOX)), "rank 9 of 9"),
        (body(Assign("t3", Call(DType.F64, "hypot", (HALF,)))), "t3"),
        (body(Assign("t3", Call(DType.F64, "exp", (ref("t2"),)))), "t3"),
        (body(Assign("t3", Call(DType.F32, "exp", (HALF,)))), "t3"),
        (replace(KERNEL, every=(2,)), "(2,)"),
        (replace(KERNEL, every=(2, 0)), "(2, 0)"),
        (replace(KERNEL, lengths=(Length(2),)), "k: axis 2"),
        (replace(KERNEL, positions=(Position(-1, "elements", 0, 9),)), "x: axis -1"),
        (replace(KERNEL, positions=(Position(1, "elements", 9, 0),)), "9 .. 0"),
        (stages(State(("v1",), (read("v1", "x", 0, 0),), (ref("v1"),), ())), "'v1' means"),
    ],
)
def test_what_is_wrong_is_found(wrong, why):
    with pytest.raises(AssertionError) as caught:
        verify(wrong)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "reach",
    [Box((0, 0), (0, 1)), Box((-1, 0), (0, 0)), Box((-1, 1), (0, 1)), Box((-1, 0), (-1, 1))],
)
def test_reads_beyond_the_reach_are_found(reach):
    with pytest.raises(AssertionError, match="beyond"):
        verify(KERNEL, reach)
