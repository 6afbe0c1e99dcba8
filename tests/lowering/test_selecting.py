"""Ranks in windows of any elements, by places in order: every type, shape and number of axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agreement
import ninepoint as npt
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.language import ir
from ninepoint.language.reference import evaluate, store
from ninepoint.lowering.schedule import Schedule

# Every window slides, however small.
SLIDING = Schedule(network=0, sorted_columns=0)
RING = npt.shapes.ring(2, 1)
BALL = npt.shapes.ball(1)
HOLES = np.zeros((3, 2, 3, 2), bool)
HOLES[0, 1, 2, 0] = HOLES[2, 0, 0, 1] = HOLES[1, 1, 1, :] = True
CORNER = np.zeros((3, 4), bool)
CORNER[2, 0] = CORNER[0, 3] = CORNER[0, 0] = True

KERNELS: dict[str, tuple[int, Callable[..., Any]]] = {
    "box": (2, lambda x: np.median(x[-1:3, -2:2])),
    "ring": (2, lambda x: np.percentile(x[-2:3, -2:3][RING], 35)),
    "corners": (2, lambda keys: np.median(keys[-2:1, 1:5][CORNER])),
    "line": (1, lambda x: np.quantile(x[-3:5], 0.7)),
    "column": (2, lambda x: np.median(x[-2:3, 0])),
    "ball": (3, lambda x: np.median(x[-1:2, -1:2, -1:2][BALL])),
    "box of planes": (3, lambda x: np.median(x[0:2, 1, -1:2])),
    "holes": (4, lambda x: np.quantile(x[-1:2, 0:2, -1:2, 0:2][HOLES], 1 / 3)),
}
TYPES = ("float32", "int64", "float64", "uint32", "uint64", "int32")
SHAPES = {1: (9,), 2: (5, 7), 3: (3, 4, 5), 4: (2, 3, 2, 4)}


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Some of them equal, some at the ends of the type, and if it has them NaN and two zeros."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        x = rng.integers(max(-9, info.min), 9, shape).astype(kind)
        x.flat[:2] = info.min, info.max
        return x
    x = rng.standard_normal(shape).round(1).astype(kind)
    x.flat[:5] = np.inf, -np.inf, -0.0, 0.0, np.nan
    return x


@functools.cache
def compiled(name: str, dtype: str) -> Any:
    stencil = npt.stencil(schedule=SLIDING)(KERNELS[name][1])
    found, stages, reason = stencil.definition.compiled([np.dtype(dtype)], {})
    assert stages is not None, reason
    assert any(isinstance(stage, ir.Histogram) for stage in stages.lowered.stages)
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str, limited: Any) -> None:
    limited(sorted_elements=60)
    limited(sorted_columns=5)
    limited(sorted_windows=1)
    ndim, function = KERNELS[name]
    rules = ("mirror", "constant", "wrap", "valid", "fill", "reflect")
    for k, (dtype, rule) in enumerate(zip(TYPES, rules, strict=True)):
        x = numbers(dtype, SHAPES[ndim], k)
        border = Boundary.of(rule).on(ndim)
        program = agreement.Plain(compiled(name, dtype).bind({}))
        result = on_numpy.apply(program, [x], border=border, cval=0, threads=1)
        (wanted,) = evaluate(function, [x], boundary=rule)
        # Between two elements float32 rounds otherwise than the reference does.
        close = 2e-6 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(result, store(wanted, result.dtype), close, 0, err_msg=dtype)
