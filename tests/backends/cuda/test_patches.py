"""Several columns of several rows in a thread give what the CPU gives, wherever they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import emulator
import launching
import works
from kernels import RULES

pytestmark = pytest.mark.skipif(emulator.GXX is None, reason="needs g++")

SHAPES = {1: (3, 700), 2: (2, 21, 85), 3: (7, 19, 41)}


def drawn(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    one = np.dtype(dtype)
    if one.kind in "iub":
        return rng.integers(0, 2 if one.kind == "b" else 127, shape).astype(one)
    values = rng.standard_normal(shape)
    if one.kind == "f":
        values[rng.random(shape) < 0.02] = np.nan
    return values.astype(one)


PAIRS = [
    ("mirror", "constant"), ("fill", "nearest"), ("wrap", "wrap"), ("reflect", "keep"),
    ("valid", "reflect"), ("constant", "fill"), ("nearest", "mirror"), ("keep", "valid"),
]  # fmt: skip


def rules_for(ndim: int, number: int) -> Any:
    """A border for each work, so that all together meet all rules, before and after."""
    if number % 3 == 0:
        return RULES[number // 3 % len(RULES)]
    return tuple(PAIRS[(number + k) % 8] for k in range(ndim))


@dataclass(frozen=True)
class Case:
    """A work with a border, its arrays, what the reference says, and the text to be run."""

    work: works.Work
    boundary: Any
    fields: list[np.ndarray]
    wanted: tuple[np.ndarray, ...]
    program: launching.Emulated


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(1)
    borders = [rules_for(work.ndim, number) for number, work in enumerate(works.WORKS)]
    asked = [
        (work, boundary, *work.source(boundary))
        for work, boundary in zip(works.WORKS, borders, strict=True)
    ]
    functions = emulator.compiled([source.text for _, _, source, _, _ in asked], (), "-O0")
    found = []
    for (work, boundary, source, lowered, border), one in zip(asked, functions, strict=True):
        fields = [drawn(rng, dtype, SHAPES[lowered.ndim]) for dtype in work.types]
        with np.errstate(all="ignore"):
            wanted = work.stencil(*fields, boundary=boundary, cval=1, **work.options)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        program = launching.Emulated(source, one, lowered, border, {})
        found.append(Case(work, boundary, fields, wanted, program))
    return found


@pytest.mark.parametrize("aligned", [False, True])
def test_patches_give_the_bits_of_the_cpu(cases, aligned):
    for number, case in enumerate(cases):
        case.program.aligned, case.program.at_end = aligned, bool(number % 2) ^ aligned
        with np.errstate(all="ignore"):
            found = case.program(case.fields, 1)
        for one, other in zip(found, case.wanted, strict=True):
            np.testing.assert_array_equal(one, other, f"{case.work.name} {case.boundary}")


def test_most_are_done_several_at_once():
    for work in works.WORKS:
        launches = work.source()[0].launches
        assert any(np.prod(one.tile) > np.prod(one.threads) for one in launches), work.name
