"""The text written for some kernels, a thread for each point, as a person has read it.

`pytest tests/backends/cuda/test_texts.py --update-golden` writes the files anew; read the
difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from ninepoint.arrays.borders import Boundary
from ninepoint.backends.cuda.points import points
from ninepoint.backends.cuda.writing import support, targeted, written

FOLDER = Path(__file__).parent / "golden"


def recipe(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1]
        + x[0, -1] + x[0, 0] + x[0, 1]
        + x[1, -1] + x[1, 0] + x[1, 1]
    ) // 9  # fmt: skip


def gaussian(x):
    return np.float32((x[-1:2, -1:2] * np.outer([1, 2, 1], [1, 2, 1]) / 16).sum())


def branches(x, k):
    """Keep the point unless it stands out."""
    if abs(x[0, 0] - x[0, -1]) > k:
        return (x[0, -1] + x[0, 1]) // 2
    return x[0, 0]


def smooth_line(x, w):
    return x[-1] * w[0] + x[0] * w[1] + x[1] * w[2]


def gradient(x, mask):
    return np.hypot(x[1, 0, 0] - x[-1, 0, 0], x[0, 0, 2]), mask[0, 0, 0] > 0


def median(x):
    return np.median(x[-3:4, -4:5])


CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...], Any, dict[str, Any]]] = {
    "recipe_int8": (recipe, ("int8",), "nearest", {}),
    "gaussian_float32": (gaussian, ("float32",), ("reflect", ("fill", "constant")), {}),
    "max31_uint8": (lambda x: x[-15:16, -9:10].max(), ("uint8",), "valid", {}),
    "branches_int16": (branches, ("int16",), (("keep", "fill"), ("valid", "keep")), {}),
    "smooth_line_float16": (smooth_line, ("float16",), "mirror", {"standard_indexing": ("w",)}),
    "gradient_float64_bool": (gradient, ("float64", "bool"), "constant", {}),
    "median63_uint8": (median, ("uint8",), "wrap", {}),
    "median63_float32": (median, ("float32",), "reflect", {}),
    "square_complex64": (lambda z: z[-1] * z[0] / (z[1] + 0.5j), ("complex64",), "wrap", {}),
}


def forms_of(name):
    function, dtypes, boundary, options = CASES[name]
    stencil = npt.stencil(**options)(function)
    others = {one: 7 if one == "k" else np.ones(3) for one in stencil.scalars}
    keep = "keep" in str(boundary)
    types = [np.dtype(dtype) for dtype in dtypes]
    compiled, forms, _ = stencil.definition.compiled(types, others, keep)
    return forms, Boundary.of(boundary).on(compiled.ndim).rules


@pytest.mark.parametrize("name", CASES)
def test_text(name, golden):
    forms, rules = forms_of(name)
    compiled = forms.compiled
    source = points(targeted(forms), f"npt_{name}", compiled.reaches, compiled.out_dtypes, rules)
    golden(source.text.strip(), FOLDER / f"{name}.cu")


def test_every_golden_file_has_its_kernel():
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(CASES)


def test_a_text_holds_all_that_it_needs():
    source = written(*forms_of("recipe_int8"))
    header = resources.files("ninepoint.backends.cuda").joinpath("device.h").read_text()
    assert source.text.startswith(header)
    assert "#include" not in source.text
    assert {launch.function for launch in source.launches} <= set(
        source.text.replace("(", " ").split()
    )


def index(x):
    return x[-1] + x[1]


def half(x):
    return x[-1] * x[1]


def geometry(x):
    return x[-1] - x[1]


@pytest.mark.parametrize("function", [index, half, geometry])
def test_kernels_may_be_called_like_what_every_text_has(function):
    """Compilers refused a function npt_index, besides the type."""
    _, forms, _ = npt.stencil(function).definition.compiled([np.dtype("float16")], {}, False)
    source = written(forms, (("nearest", "nearest"),))
    words = set(re.findall(r"\w+", support()))
    functions = {launch.function for launch in source.launches}
    assert functions
    assert not functions & words
