"""Machine code that is called without Numba: scalars of every kind, memory, and threads."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import ninepoint as npt


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bool", True),
        ("bool", False),
        ("int64", -(2**63)),
        ("uint64", 2**64 - 1),
        ("float32", 0.1),
        ("float64", -0.1),
        ("complex64", 0.5 - 3j),
        ("complex128", 0.1 + 1e300j),
    ],
)
def test_scalars_of_every_kind(kind, value):
    number = np.dtype(kind).type(value)

    @npt.stencil
    def chosen(x, number):
        return number if x[0] else x[0]

    result = chosen(np.ones(3, dtype="bool"), number)
    assert result.dtype == kind
    np.testing.assert_array_equal(result, np.full(3, number))


def test_a_scalar_that_is_no_number():
    scaled = npt.stencil(lambda x, factor: x[0] * factor)
    field = np.arange(4.0)
    scaled(field, 1.5)
    with pytest.raises(TypeError):
        scaled(field, "two")
    np.testing.assert_array_equal(scaled(field, 2.0), 2 * field)


def test_arrays_are_neither_kept_nor_lost():
    average = npt.stencil(lambda x: (x[-1] + x[1]) / 2)
    field, out = np.arange(6.0), np.empty(6)
    average(field, out=out)
    before = sys.getrefcount(field), sys.getrefcount(out)
    for _ in range(100):
        average(field, out=out)
    assert (sys.getrefcount(field), sys.getrefcount(out)) == before


def test_python_goes_on_while_machine_code_runs():
    far = npt.ufunc(lambda x: np.arctan(np.sin(x)))
    field = np.ones((1500, 1500))
    far(field[:2])
    running = threading.Thread(target=far, args=(field,), kwargs={"threads": 1})
    steps = 0
    running.start()
    while running.is_alive():
        steps += 1
    assert steps > 2
