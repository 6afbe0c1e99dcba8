"""The text written for four kernels, as a person has read it.

`pytest tests/inside/test_golden.py --update-golden` writes the files anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ninepoint as npt

FOLDER = Path(__file__).parent / "golden"


def recipe(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1]
        + x[0, -1] + x[0, 0] + x[0, 1]
        + x[1, -1] + x[1, 0] + x[1, 1]
    ) // 9  # fmt: skip


def mean5(x):
    return x[-2:3, -2:3].mean()


def tall_mean(x):
    return np.uint8(round(x[-15:16, -1:2].mean()))


def first_edge(x):
    """A loop that is left early, and reads at what it counts."""
    steps = 0
    while steps < 3 and abs(x[0, steps] - x[0, 0]) < 10:
        steps += 1
    return steps


CASES: dict[str, tuple[Callable[..., Any], str, dict[str, Any]]] = {
    "recipe_int8": (recipe, "int8", {}),
    "mean5_float32": (mean5, "float32", {}),
    "tall_mean_uint8": (tall_mean, "uint8", {}),
    "first_edge_int16": (first_edge, "int16", {"neighborhood": ((0, 0), (0, 2))}),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name, golden):
    function, dtype, options = CASES[name]
    text = npt.stencil(**options)(function).source(dtype)
    golden(text.rstrip(), FOLDER / f"{name}.py")


def test_every_golden_file_has_its_kernel():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CASES)
