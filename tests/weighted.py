"""Kernels of whole-number weights, whose sums of whole numbers are exact in any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import kernels
import ninepoint as npt

Offset = tuple[int, ...]
# One output: (field, offset) -> weight.
Weights = dict[tuple[str, Offset], int]

# All rules, and those that may stand on one side alone.
RULES = ("fill", "keep", "valid", "constant", "nearest", "reflect", "mirror", "wrap")
SIDES = tuple(rule for rule in RULES if rule != "wrap")


def window(reach: Sequence[tuple[int, int]], seed: int = 0, field: str = "x") -> Weights:
    """Weights on a full box: (lowest, highest) offset along each axis."""
    rng = np.random.default_rng(seed)
    offsets = itertools.product(*(range(a, b + 1) for a, b in reach))
    return {(field, offset): int(rng.integers(-3, 4)) or 1 for offset in offsets}


def stencil(*outputs: Weights) -> npt.Stencil:
    """Give the stencil of these outputs; its fields are in the order of their names."""
    names = sorted({name for weights in outputs for name, _ in weights})
    sums = [
        " + ".join(
            f"{weight} * {name}[{', '.join(map(str, offset))}]"
            for (name, offset), weight in weights.items()
        )
        for weights in outputs
    ]
    source = f"def kernel({', '.join(names)}):\n    return {', '.join(sums)}\n"
    return npt.stencil(kernels.compiled(source))


def drawn(rng: np.random.Generator, ndim: int) -> npt.Stencil:
    """Draw a stencil of up to three outputs, each of which looks to a side of its own."""
    made: list[Weights] = []
    for k in range(int(rng.integers(1, 4))):
        low = rng.integers(-4, 3, ndim)
        high = low + rng.integers(0, 3 if ndim < 3 else 2, ndim)
        reach = [(int(a), int(b)) for a, b in zip(low, high, strict=True)]
        made.append(window(reach, int(rng.integers(1000)), "xyz"[k]))
    if rng.random() < 0.5:
        made[0] |= window([(0, 1)] * ndim, field="y")
    return stencil(*made)


def boundary(rng: np.random.Generator, ndim: int) -> tuple[str | tuple[str, str], ...]:
    """Draw a rule for each axis or side."""
    return tuple(
        "wrap" if rng.random() < 0.25 else (str(rng.choice(SIDES)), str(rng.choice(SIDES)))
        for _ in range(ndim)
    )


def whole(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Whole numbers from 0 to 99."""
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def each(results: Any) -> tuple[Any, ...]:
    """Give the results of a call, of which there may be one, as a tuple."""
    return results if isinstance(results, tuple) else (results,)
