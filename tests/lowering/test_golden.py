"""The text written for a dozen kernels, as a person has read it.

`pytest tests/lowering/test_golden.py --update-golden` writes the files anew; read the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.lowering.schedule import Schedule

FOLDER = Path(__file__).parent / "golden"
SMOOTH = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256


def recipe(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1]
        + x[0, -1] + x[0, 0] + x[0, 1]
        + x[1, -1] + x[1, 0] + x[1, 1]
    ) // 9  # fmt: skip


def mean5(x):
    return x[-2:3, -2:3].mean()


def gaussian(x):
    return np.float32((x[-2:3, -2:3] * SMOOTH).sum())


def sobel(x):
    across = x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]
    down = x[1, -1] + 2 * x[1, 0] + x[1, 1] - x[-1, -1] - 2 * x[-1, 0] - x[-1, 1]
    return abs(across) + abs(down)


def median3(x):
    return np.uint8(np.median(x[-1:2, -1:2]))


def max31(x):
    return x[0, -15:16].max()


def tall_mean(x):
    return np.uint8(round(x[-15:16, -1:2].mean()))


def bilateral(x, near=1.5, like=10.0):
    total = weight = np.float32(0)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            apart = x[i, j] - x[0, 0]
            w = np.exp(-(apart * apart) / (2 * like * like)) * math.exp(-(i * i + j * j) / 4.5)
            total += np.float32(w * x[i, j])
            weight += np.float32(w)
    return total / weight


def heat(u, rate):
    return u[0, 0] + rate * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


def life(x):
    alive = x[-1:2, -1:2].sum() - x[0, 0]
    return (alive == 3) | ((alive == 2) & (x[0, 0] != 0))


def mean27(x):
    return x[-1:2, -1:2, -1:2].mean()


def branches(x):
    """Keep the point unless it stands out; then take the middle of its neighbours."""
    left, right = x[0, -1], x[0, 1]
    if abs(x[0, 0] - left) > 40 and abs(x[0, 0] - right) > 40:
        result = (left + right) // 2
    elif x[0, 0] < 0:
        result = max(x[0, 0], -100)
    else:
        result = x[0, 0]
    return result


def smooth_line(x):
    return 0.25 * x[-1] + 0.5 * x[0] + 0.25 * x[1]


def first_edge(x):
    """A loop that is left early: the general path."""
    steps = 0
    while steps < 3 and abs(x[0, steps] - x[0, 0]) < 10:
        steps += 1
    return steps


CASES: dict[str, tuple[Callable[..., Any], str, dict[str, Any]]] = {
    "recipe_int8": (recipe, "int8", {}),
    "mean5_float32": (mean5, "float32", {}),
    "gaussian_float32": (gaussian, "float32", {}),
    "sobel_uint8": (sobel, "uint8", {}),
    "median3_uint8": (median3, "uint8", {}),
    "median3_float32": (lambda x: np.median(x[-1:2, -1:2]), "float32", {}),
    "max31_uint8": (max31, "uint8", {}),
    "tall_mean_uint8": (tall_mean, "uint8", {}),
    "bilateral_float32": (bilateral, "float32", {}),
    "heat_float64": (heat, "float64", {}),
    "life_uint8": (life, "uint8", {}),
    "mean27_float32": (mean27, "float32", {}),
    "branches_int16": (branches, "int16", {}),
    "smooth_line_float64": (smooth_line, "float64", {}),
    "general_int16": (first_edge, "int16", {"neighborhood": ((0, 0), (0, 2))}),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name, golden):
    function, dtype, options = CASES[name]
    text = npt.stencil(**options)(function).source(dtype)
    golden(text.rstrip(), FOLDER / f"{name}.py")


def spreading(u):
    around = u[-1, 0, 0] + u[1, 0, 0] + u[0, -1, 0] + u[0, 1, 0] + u[0, 0, -1] + u[0, 0, 1]
    return u[0, 0, 0] + 0.125 * (around - 6 * u[0, 0, 0])


# Steps of an iteration that are done together: how many, and of what.
STEPS: dict[str, tuple[Callable[..., Any], str, int, tuple[int, ...]]] = {
    "two_steps_uint8": (life, "uint8", 2, (9, 9)),
    "three_steps_float32": (spreading, "float32", 3, (9, 9, 9)),
}


@pytest.mark.parametrize("name", STEPS)
def test_text_of_steps(name, golden):
    function, dtype, steps, shape = STEPS[name]
    stencil = npt.stencil(schedule=Schedule(steps=steps), dtype=dtype)(function)
    stencil.iterate(np.zeros(shape, dtype), steps=steps)
    ((compiled, *_),) = stencil.definition.chains.values()
    golden(compiled.module.text.rstrip(), FOLDER / f"{name}.py")


def test_every_golden_file_has_its_kernel():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CASES) | set(STEPS)
