"""A block that marches along the first axis gives what the reference gives, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import agreement
import emulator
import launching
import ninepoint as npt
from ninepoint.arrays.borders import Boundary
from ninepoint.backends.cuda.marching import earlier
from ninepoint.backends.cuda.writing import targeted, written

ORDERS = (0, 1, 7)


def seven(x):
    beside = x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    return x[0, 0, 0] + np.float32(0.1) * (beside - np.float32(6) * x[0, 0, 0])


def largest(x):
    return x[-1:2, -1:2, -1:2].max()


def skew(x, y):
    """Several fields and outputs; planes beside are farther back than the newest."""
    return x[-2, 1, 0] - y[0, -1, 5] + x[1, 0, 0], np.float32(y[-1, 2, -1]) * x[0, 0, 1]


def along(x):
    """Nothing beside: no plane is shared."""
    return x[-1, 0, 0] * x[2, 0, 0] - x[0, 0, 0]


MIXED = (("constant", "keep"), ("mirror", "fill"), ("fill", "constant"))
CASES: list[tuple[Any, tuple[str, ...], list[Any]]] = [
    (seven, ("float32",), ["nearest", "constant"]),
    (largest, ("uint8",), [("mirror", "wrap", "reflect"), MIXED]),
    (skew, ("float64", "int16"), [("valid", "constant", ("fill", "valid"))]),
    (along, ("complex64",), ["keep"]),
]
SHAPES = [(2, 5, 3, 9), (19, 2, 70), (1, 35, 66)]


def lowered(function, dtypes, boundary):
    stencil = npt.stencil(function)
    types = [np.dtype(dtype) for dtype in dtypes]
    found, forms, _ = stencil.definition.compiled(types, {}, "keep" in str(boundary))
    return found, forms, Boundary.of(boundary).on(3)


def values(rng, dtype, shape):
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.integers(-50, 50, shape).astype(dtype) / 4


@pytest.mark.skipif(emulator.GXX is None, reason="needs g++")
def test_planes_give_the_bits_of_the_cpu():
    rng = np.random.default_rng(3)
    asked = [
        (function, dtypes, boundary, *lowered(function, dtypes, boundary))
        for function, dtypes, boundaries in CASES
        for boundary in boundaries
    ]
    sources = [written(forms, border.rules) for *_, forms, border in asked]
    texts = emulator.compiled([one.text for one in sources], (), "-O0")
    for one, source, functions in zip(asked, sources, texts, strict=True):
        function, dtypes, boundary, found, _, border = one
        assert source.launches[0].least
        for order, shape in zip(ORDERS, SHAPES, strict=True):
            fields = [values(rng, dtype, shape) for dtype in dtypes]
            named = dict(zip(found.fields, fields, strict=True))
            given = launching.Given(npt.stencil(function), named, boundary)
            wanted = agreement.by_text(given, 3)
            emulator.order(functions, order)
            program = launching.Emulated(
                source, functions, found, border, {}, aligned=order == 0, turned=order == 7
            )
            for result, expected in zip(program(fields, 3), wanted, strict=True):
                words = f"{function.__name__} {boundary} {shape}"
                np.testing.assert_array_equal(result, expected, words)


def test_what_an_earlier_turn_has_made_is_not_made_again():
    _, forms, _ = lowered(largest, ("uint8",), "nearest")
    kernel = targeted(forms)
    made, kept = earlier(kernel)
    assert list(kept.values()) == [2]
    assert len(made.body) < len(kernel.body) / 2
