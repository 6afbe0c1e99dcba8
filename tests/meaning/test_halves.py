"""Half floats: by instructions of the processor, or by their bits."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import ninepoint as npt

BITS = np.arange(65536, dtype="uint16")


@npt.stencil(dtype="float16", boundary="wrap")
def right(x):
    return x[0, 1]


@npt.ufunc(dtype="float32")
def widened(x):
    return x


@npt.ufunc(dtype="float16")
def narrowed(x):
    return x


def check_every_number() -> None:
    every = BITS.view("float16")
    wide = widened(every)
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
    result = narrowed(given)
    np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(wanted))


def test_all_half_floats_and_what_rounds_to_them() -> None:
    check_every_number()


@pytest.mark.nightly
def test_all_half_floats_on_a_processor_that_knows_none() -> None:
    paths = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", "import test_halves; test_halves.check_every_number()"],
        env={**os.environ, "NUMBA_CPU_NAME": "generic", "PYTHONPATH": paths},
        check=True,
    )


def test_arrays_are_taken_as_they_are() -> None:
    x = BITS.view("float16").reshape(256, 256)
    for field in (x, np.asfortranarray(x), x[::-1], x[:, ::-1], x.astype(">f2")):
        for _ in range(3):
            np.testing.assert_array_equal(right(field), np.roll(field, -1, 1))
