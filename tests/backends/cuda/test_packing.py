"""Two points in one register give what each gives by itself, at the ends of all ranges."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import agreement
import emulator
import launching
import ninepoint as npt
from kernels import RULES
from launching import Given
from ninepoint.arrays.borders import Boundary
from ninepoint.backends.cuda.functions import field_arrays
from ninepoint.backends.cuda.packing import lanes_of
from ninepoint.backends.cuda.writing import targeted, written


def shifts(x):
    return (x[0, -1] * 4 + x[0, 2] * 12 + 32) >> 4


def constants(x):
    return np.minimum(np.maximum(x[0, -1], 17), np.maximum(x[1, 1], 90)) - 3


def outputs(x, y):
    """Lanes of two types, and what is done one by one."""
    return np.int16(x[0, -1] - y[2, 0]), np.int8((x[0, 0] + x[1, 1]) // 2), x[0, 0] > y[0, 1]


def negated(x, y):
    return np.maximum(5 - x[0, -1] + y[0, 0], -(2 * y[0, 3]) - x[1, 0])


def median(x):
    return np.uint16(np.median(x[-1:2, -1:2]))


def mean(x):
    return np.sum(x[-1:2, -1:2]) // 9


CASES: list[tuple[Any, tuple[str, ...]]] = [
    (shifts, ("int8",)),
    (constants, ("uint8",)),
    (outputs, ("int8", "int8")),
    (negated, ("uint8", "int8")),
    (median, ("uint16",)),
    (mean, ("int8",)),
]


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of which many are the least or the greatest of their type."""
    info = np.iinfo(dtype)
    numbers = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.4, rng.choice([info.min, info.max], shape), numbers)


@pytest.mark.skipif(emulator.GXX is None, reason="needs g++")
def test_lanes_give_the_bits_of_the_cpu():
    rng = np.random.default_rng(5)
    asked = []
    for k, (function, dtypes) in enumerate(CASES):
        stencil, rule = npt.stencil(function), RULES[k % len(RULES)]
        fields = [drawn(rng, dtype, (6, 69 + 3 * k)).astype(dtype) for dtype in dtypes]
        found, forms, _ = stencil.definition.compiled([one.dtype for one in fields], {}, False)
        border = Boundary.of(rule).on(2)
        given = Given(stencil, dict(zip(stencil.fields, fields, strict=True)), rule)
        asked.append((given, fields, written(forms, border.rules), found, border))
    texts = emulator.compiled([one[2].text for one in asked], (), "-O0")
    for (given, fields, source, found, border), functions in zip(asked, texts, strict=True):
        assert re.search(r"= npt_(bytes|shorts)<", source.text), given.stencil
        for aligned in (False, True):
            program = launching.Emulated(source, functions, found, border, {}, aligned=aligned)
            agreement.compare_exactly(program(fields, 4), agreement.by_text(given, 4))


@pytest.mark.parametrize(("dtype", "fits"), [("uint8", True), ("int16", False), ("int32", False)])
def test_only_what_fits_is_in_lanes(dtype, fits):
    _, forms, _ = npt.stencil(mean).definition.compiled([np.dtype(dtype)], {}, False)
    kernel = targeted(forms)
    found = lanes_of(kernel, field_arrays(kernel))
    assert (found is not None) == fits
