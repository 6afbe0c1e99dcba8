"""A kernel in one piece has the operations of its stages, and no stage."""

from __future__ import annotations

import numpy as np
import pytest

import ninepoint as npt
from ninepoint import _testing as bounds
from ninepoint.backends.numba import loops
from ninepoint.language.ir import Read
from ninepoint.lowering.flattening import flattened
from ninepoint.lowering.schedule import Schedule


def sobel(x):
    across = x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]
    return across * across + abs(x[1, 0] - x[-1, 0])


def blurred(x):
    return (x[-2:3, -1:2] * np.outer([1.0, 2, 3, 2, 1], [0.3, 1, 0.3])).sum()


def forms_of(function, dtype):
    stencil = npt.stencil(schedule=Schedule(shared=-2, rows=1))(function)
    compiled, forms, _ = stencil.definition.compiled([np.dtype(dtype)], {})
    return compiled, forms


@pytest.mark.parametrize("function", [sobel, blurred])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_the_bits_are_the_same(function, dtype):
    compiled, forms = forms_of(function, dtype)
    flat = flattened(forms.single, 500)
    assert forms.single.stages
    assert not flat.stages
    x = np.random.default_rng(0).normal(0, 99, (1, 9, 12)).astype(dtype)
    results = []
    for kernel in (forms.single, flat):
        text = loops.module(kernel, "kernel", compiled.reach).text
        shape = (
            1,
            *(
                n - b + a
                for n, a, b in zip(x.shape[1:], compiled.reach.lo, compiled.reach.hi, strict=True)
            ),
        )
        results.append(np.zeros(shape, compiled.out_dtypes[0]))
        bounds.run(text, [x, results[-1]], [False, True])
    np.testing.assert_array_equal(*results)


def test_what_would_be_long_is_left():
    _, forms = forms_of(blurred, "float32")
    flat = flattened(forms.single, 500)
    assert flattened(forms.single, len(flat.body) - 1) is None
    assert flattened(forms.single, len(flat.body)) == flat


def test_each_element_is_read_once():
    _, forms = forms_of(sobel, "int16")
    flat = flattened(forms.single, 500)
    offsets = [a.value.offset for a in flat.body if isinstance(a.value, Read)]
    assert len(offsets) == len(set(offsets)) == 8
