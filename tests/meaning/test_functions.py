"""Functions of numbers in kernels: as machine code and interpreted they give what debug gives."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from seams import interpreted

WAYS = {"compiled": contextlib.nullcontext, "interpreted": interpreted}

PARTS = np.array([0.0, -0.0, 0.5, -1.25, 3.0, -40.0, 1e-3, np.inf, -np.inf, np.nan])
SPECIAL = np.array([complex(a, b) for a in PARTS for b in PARTS])
FINITE = SPECIAL[np.isfinite(SPECIAL)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled before is not loaded."""
    monkeypatch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path))


def agrees(kernel: Callable[..., Any], x: np.ndarray, way: str, **options: Any) -> None:
    program = npt.stencil(boundary="nearest")(kernel)
    with WAYS[way](), warnings.catch_warnings():
        warnings.simplefilter("ignore", npt.PerformanceWarning)
        made = program(x, **options)
    wanted = program.debug(x, **options)
    made, wanted = (one if isinstance(one, tuple) else (one,) for one in (made, wanted))
    single = x.dtype in ("float32", "complex64", "float16")
    for one, other in zip(made, wanted, strict=True):
        assert one.dtype == other.dtype
        if one.dtype.kind not in "fc":
            np.testing.assert_array_equal(one, other)
            continue
        for left, right in ((one.real, other.real), (one.imag, other.imag)):
            np.testing.assert_allclose(
                left, right, rtol=2e-4 if single else 1e-9, atol=2e-4 if single else 1e-12
            )


def roots(x):
    return np.sqrt(x[0]), np.exp(x[0]), x[0].real - x[1].imag, abs(x[0])


def circular(x):
    return np.sin(x[0]), np.cos(x[0]), np.tan(x[0])


def hyperbolic(x):
    return np.sinh(x[0]), np.cosh(x[0]), np.tanh(x[0])


def products(x):
    z = x[0] * x[1] + 2
    return z / (x[0].conjugate() + 7), z**2, z - 1j, -z


def powers(x):
    return (x[0] + 2) ** (x[1] - 0.5), np.log(x[0] + 2)


def questions(x):
    return np.isnan(x[0]), np.isinf(x[0]), np.isfinite(x[0]), x[0] == x[1], x[0] != x[1]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", [roots, circular, hyperbolic, products, powers, questions])
def test_complex_functions(kernel, way, dtype):
    x = FINITE if kernel is not questions else SPECIAL
    if dtype == "complex64" and kernel is not questions:
        x = x / 8
    agrees(kernel, x.astype(dtype), way)


def of_floats(x):
    total = np.signbit(x[0]) + 2 * np.isnan(x[0]) + 4 * np.isinf(x[0]) + 8 * np.isfinite(x[0])
    return total, np.fmax(x[0], x[1]), np.fmin(x[0], x[1]), np.maximum(x[0], 1), abs(x[0])


def of_powers(x):
    return abs(x[0]) ** 0.5, x[0] ** 2, 2.0 ** np.clip(x[0], -3, 3), np.hypot(x[0], x[1])


def of_choices(x):
    low, high = (x[0], x[1]) if x[0] < x[1] else (x[1], x[0])
    inside = (low <= 0 and not high < 0) or low > 2
    return low, high, inside, high if x[0] else low


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", [of_floats, of_powers, of_choices])
def test_functions_of_floats(kernel, way, dtype):
    x = PARTS if kernel is of_floats else PARTS[np.isfinite(PARTS)]
    agrees(kernel, x.astype(dtype), way)


def of_bits(x):
    return ~x[0], x[0] & x[1] | 1, x[0] ^ x[1], (x[0] & 7) << 2, x[0] >> 1


def of_integers(x):
    return abs(x[0]), x[0] // 3, x[0] % 5, x[0] / 4, -x[0], (x[0] > 2) * x[1], x[0] ** 2


def of_orders(x):
    return min(x[0], x[1]), max(x[0], x[1], 3), np.sign(x[0]), int(x[0] / 2), float(x[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", [of_bits, of_integers, of_orders])
def test_functions_of_integers(kernel, way, dtype):
    x = np.array([0, 1, 2, 3, 7, 100, 25, 64, 90, 11])
    if np.dtype(dtype).kind == "i":
        x = np.concatenate([x, -x])
    agrees(kernel, x.astype(dtype), way)


def of_infinities(x):
    return (
        np.nan_to_num(x[0]),
        np.nan_to_num(x[0], nan=1.5, posinf=2, neginf=-3.0),
        np.heaviside(x[0], 0.5),
        np.nextafter(x[0], x[1]),
        np.isclose(x[0], x[1], rtol=0.1),
        np.isclose(x[0], x[1], equal_nan=True),
    )


def of_angles(x):
    return np.degrees(x[0]), np.radians(x[0]), math.degrees(x[0]), np.sinc(x[0]), np.angle(x[0])


def of_logarithms(x):
    return np.logaddexp(x[0], x[1]), np.logaddexp(x[0], 2), math.nextafter(x[0], 3.0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", [of_infinities, of_angles, of_logarithms])
def test_functions_that_are_made_of_others(kernel, way, dtype):
    x = PARTS if kernel is not of_angles else PARTS[np.isfinite(PARTS)]
    if dtype in ("int16", "uint8"):
        x = np.array([0, 1, 2, 90, 127, 3, 0])
    agrees(kernel, x.astype(dtype), way)


@pytest.mark.parametrize("way", WAYS)
def test_angles_of_complex_numbers(way):
    agrees(lambda z: (np.angle(z[0]), np.angle(z[0], deg=True)), FINITE.astype("complex64"), way)
