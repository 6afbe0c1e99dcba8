"""Windows under a constant mask are done as those of its shape, where that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import agreement
import ninepoint as npt
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.language.reference import evaluate, store

DISK = npt.shapes.disk(4)
SMALL = npt.shapes.disk(2)
NOTHING = np.zeros((3, 3), bool)


def around(x):
    return x[-4:5, -4:5][DISK]


ALIKE: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("f4", lambda x: np.where(DISK, x[-4:5, -4:5], -np.inf).max(), lambda x: around(x).max()),
    ("f4", lambda x: np.where(~DISK, np.inf, x[-4:5, -4:5]).min(), lambda x: around(x).min()),
    ("u1", lambda x: np.where(DISK, x[-4:5, -4:5], 0).max(), lambda x: around(x).max()),
    ("i2", lambda x: np.where(DISK, x[-4:5, -4:5], 0).sum(), lambda x: around(x).sum()),
    ("f8", lambda x: (x[-4:5, -4:5] * DISK).sum(), lambda x: around(x).sum()),
]

OTHERS: list[Callable[..., Any]] = [
    lambda x: np.where(SMALL, x[-2:3, -2:3], 3).max(),
    lambda x: np.where(SMALL, x[-2:3, -2:3], 0).mean(),
    lambda x: np.where(NOTHING, x[-1:2, -1:2], -np.inf).max(),
    lambda x: np.where(SMALL, x[-2:3, -2:3], x[0, 0]).min(),
    lambda x: np.where(SMALL, x[-2:3, -2:3] > 2, True).all(),
    lambda x: np.where(DISK, x[-4:5, -4:5], -np.inf).max() - x[0, 0],
]


def stages(function: Callable[..., Any], dtype: str) -> Any:
    return npt.stencil(function).definition.compiled([np.dtype(dtype)], {})


@pytest.mark.parametrize(("dtype", "masked", "shaped"), ALIKE)
def test_a_mask_is_a_shape(dtype: str, masked: Any, shaped: Any) -> None:
    (_, one, _), (_, other, _) = stages(masked, dtype), stages(shaped, dtype)
    assert one.lowered.stages
    assert repr(one.lowered.stages) == repr(other.lowered.stages)


@pytest.mark.parametrize("function", OTHERS)
def test_what_is_no_shape_stays(function: Any) -> None:
    for dtype in ("f4", "i1", "?"):
        x = (np.random.default_rng(0).standard_normal((5, 6)) * 9).astype(dtype)
        if dtype == "f4":
            x[1, 2], x[4, 4] = np.nan, -np.inf
        program = agreement.Plain(stages(function, dtype)[0].bind({}))
        border = Boundary.of("mirror").on(2)
        result = on_numpy.apply(program, [x], border=border, cval=0, threads=1)
        (wanted,) = evaluate(function, [x], boundary="mirror")
        np.testing.assert_allclose(result, store(wanted, result.dtype), 1e-6)
