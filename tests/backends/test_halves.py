"""Half floats as machine code takes them: by instructions of the processor, or by their bits."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

import ninepoint as npt
from ninepoint.backends.numba import halves
from ninepoint.backends.numba.halves import float32_of_half, half_of_float32

BITS = np.arange(65536, dtype="uint16")


@npt.stencil(dtype="float16", boundary="wrap")
def right(x):
    return x[0, 1]


@pytest.mark.parametrize("instructions", [False, None])
def test_all_half_floats_and_what_rounds_to_them(
    instructions: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if instructions is not None:
        monkeypatch.setattr(halves, "_has_instructions", lambda: instructions)

    def widen(given, result):
        for k in range(given.size):
            result[k] = float32_of_half(given[k])

    def narrow(given, result):
        for k in range(given.size):
            result[k] = half_of_float32(given[k])

    every = BITS.view("float16")
    wide = np.empty(BITS.size, "float32")
    njit("(uint16[::1], float32[::1])")(widen)(BITS, wide)
    np.testing.assert_array_equal(wide, every.astype("float32"))
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(every))
    # Half floats, what lies between two of them, and next to that.
    finite = np.sort(every[np.isfinite(every)].astype("float32"))
    between = (finite[1:] + finite[:-1]) / 2
    edges = np.array([65519.996, 65520, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-45], "float32")
    exact = np.concatenate([finite, between, edges])
    given = np.concatenate([exact, np.nextafter(exact, np.float32(0)), exact * np.float32(1.0001)])
    with np.errstate(over="ignore"):
        wanted = given.astype("float16")
    result = np.empty(given.size, "uint16")
    njit("(float32[::1], uint16[::1])")(narrow)(given, result)
    np.testing.assert_array_equal(result.view("float16"), wanted)
    np.testing.assert_array_equal(np.signbit(result.view("float16")), np.signbit(wanted))


def test_arrays_are_taken_as_they_are() -> None:
    x = BITS.view("float16").reshape(256, 256)
    for field in (x, np.asfortranarray(x), x[::-1], x[:, ::-1], x.astype(">f2")):
        for _ in range(3):
            np.testing.assert_array_equal(right(field), np.roll(field, -1, 1))
