"""Kernels that look too far are found, and what generated text may not say."""

import numpy as np
import pytest

import verify_kernels
from ninepoint.language import ir
from ninepoint.language.ir import Assign, Box, DType, Read, Ref
from ninepoint.loops.nodes import Let, Name
from ninepoint.loops.reading import NotRead, read


def given(name, field, *offset):
    return Assign(name, Read(DType.INT, field, offset))


def test_a_kernel_that_looks_too_far_is_found():
    """What it reads of a stage is read by the stage from there."""
    before, after = (Ref(DType.INT, name) for name in ("u0", "t0"))
    kernel = ir.Kernel(
        ndim=2,
        fields=(("x", np.dtype("int16")),),
        scalars=(),
        coefficients=(),
        body=(given("t0", "v0", 0, 1), given("t1", "x", 0, 0)),
        outputs=(after,),
        stages=(ir.Values(("v0",), (given("u0", "x", -1, 0),), (before,)),),
    )
    verify_kernels.verify(kernel, Box((-1, 0), (0, 1)))
    for low, high in [((0, 0), (0, 1)), ((-1, 0), (0, 0)), ((-1, 1), (0, 1))]:
        with pytest.raises(AssertionError, match="beyond"):
            verify_kernels.verify(kernel, Box(low, high))


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
