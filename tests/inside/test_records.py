"""Kernels that another process compiled: neither read nor lowered again, and the same."""

from __future__ import annotations

import pytest
from own_process import output, start

SCRIPT = """
import sys
import warnings

import numpy as np
import ninepoint as npt

warnings.simplefilter("{warned}")
FACTOR = {factor}
WEIGHTS = np.array([1, FACTOR, 1])
x = np.random.default_rng(0).integers(0, 200, (40, 50)).astype("uint8")

@npt.stencil(boundary="reflect")
def mean(x, k=2):
    return np.mean(x[-1:2, -1:2]) * FACTOR + k

@npt.stencil(boundary="nearest", standard_indexing=("w",))
def weighted(x, w):
    return w[0] * x[0, -1] + w[1] * x[0, 1] + np.sum(x[0, -1:2] * WEIGHTS)

@npt.ufunc
def half(a, b=2.0):
    return a / b

made = [
    mean(x), mean(x, 3.5), mean(x.astype("float32"), np.int8(3)), mean(x, every=2),
    weighted(x, np.array([1.5, 2.0])), half(x), half(x, 3),
]
read = any(f"ninepoint.{{name}}" in sys.modules for name in ("language.parse", "lowering.passes"))

@npt.stencil(boundary="keep")
def placed(x):
    return x[0, 1] + npt.index(x)[0] * len(x)

def colours(x):
    return np.stack([x] * 3, -1)

made += [
    placed(x), mean(x, upsample=(2, 2)), mean(colours(x), axes=(0, 1)), mean(np.asfortranarray(x)),
    mean.iterate(x.astype("float64"), steps=5), npt.filters.gaussian(x, 2),
]
assert "mean" in mean.source("uint8") and mean.ir("uint8") and mean.explain(x)
print(repr(float(sum(np.asarray(one, "float64").sum() for one in made))), read)
"""


def printed(folder, factor=3, warned="error"):
    return output(start(folder, SCRIPT.format(factor=factor, warned=warned))).split()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    return folder, printed(folder)[0]


def test_a_second_process_reads_no_kernel_and_gives_the_same(filled):
    folder, cold = filled
    assert printed(folder) == [cold, "False"]


def test_another_constant_is_another_kernel(filled):
    folder, cold = filled
    changed, read = printed(folder, factor=4)
    assert changed != cold
    assert read == "True"


def test_what_is_damaged_is_compiled_anew(filled):
    folder, cold = filled
    for file in (folder / "cache").glob("*.kernel"):
        file.write_bytes(file.read_bytes()[:-20])
    assert printed(folder, warned="ignore")[0] == cold
