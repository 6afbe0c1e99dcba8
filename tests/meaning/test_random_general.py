"""Random kernels and functions of numbers in a loop that nobody knows the end of give `debug`."""

from __future__ import annotations

import warnings
from random import Random

import numpy as np
import pytest

import kernels
import ninepoint as npt
from nightly import only
from seams import interpreted

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")


def drawn(seed: int, pointwise: bool):
    rng = Random(seed)
    case = kernels.random_kernel(
        rng, numbers="int", general=True, pointwise=pointwise, size=2, outputs=1
    )
    while not pointwise and not all(f"{name}[" in case.source for name in case.fields):
        case = kernels.random_kernel(rng, numbers="int", general=True, size=2, outputs=1)
    decorate = npt.ufunc if pointwise else npt.stencil
    shape = (4,) * max(1, case.ndim)
    arrays = kernels.random_arrays(rng, case, shape)
    options = {} if pointwise else case.options
    return decorate(**options)(case.function), case, arrays


def agrees(seed: int, pointwise: bool) -> None:
    program, case, arrays = drawn(seed, pointwise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = program(**arrays, **case.scalars)
        except npt.StencilError as error:
            # Windows under a mask have no meaning where nobody knows the end of a loop.
            if "where=" in str(error):
                return
            raise
        wanted = program.debug(**arrays, **case.scalars)
    assert made.dtype == wanted.dtype, case.source
    np.testing.assert_array_equal(made, wanted, err_msg=case.source)


@pytest.mark.parametrize("pointwise", [False, True], ids=["kernel", "ufunc"])
@pytest.mark.parametrize("seed", only(8, range(400_000, 400_080)))
def test_as_plain_python(seed: int, pointwise: bool) -> None:
    with interpreted():
        agrees(seed, pointwise)


@pytest.mark.parametrize("pointwise", [False, True], ids=["kernel", "ufunc"])
@pytest.mark.parametrize("seed", only(2, range(410_000, 410_020)))
def test_as_machine_code(seed: int, pointwise: bool) -> None:
    agrees(seed, pointwise)
