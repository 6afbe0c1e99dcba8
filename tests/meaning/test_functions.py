"""Functions of numbers in kernels: as machine code and interpreted they give what debug gives."""

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from compared import WAYS, each
from nightly import only

PARTS = np.array([0.0, -0.0, 0.5, -1.25, 3.0, -40.0, 1e-3, np.inf, -np.inf, np.nan])
REAL = PARTS[np.isfinite(PARTS)]
SPECIAL = np.array([complex(a, b) for a in PARTS for b in PARTS])
FINITE = SPECIAL[np.isfinite(SPECIAL)]
WHOLE = np.array([0, 1, 2, 90, 127, 3, 0])


def roots(x):
    return np.sqrt(x[0]), np.exp(x[0]), x[0].real - x[1].imag, abs(x[0])


def waves(x):
    circular = np.sin(x[0]), np.cos(x[0]), np.tan(x[0])
    return *circular, np.sinh(x[0]), np.cosh(x[0]), np.tanh(x[0])


def products(x):
    z = x[0] * x[1] + 2
    return z / (x[0].conjugate() + 7), z**2, z - 1j, -z


def powers(x):
    turned = np.angle(x[0]), np.angle(x[0], deg=True)
    return (x[0] + 2) ** (x[1] - 0.5), np.log(x[0] + 2), *turned


def questions(x):
    return np.isnan(x[0]), np.isinf(x[0]), np.isfinite(x[0]), x[0] == x[1], x[0] != x[1]


def of_floats(x):
    total = np.signbit(x[0]) + 2 * np.isnan(x[0]) + 4 * np.isinf(x[0]) + 8 * np.isfinite(x[0])
    rounded = round(x[0] / 7, 1), np.round(x[0], -1), np.sign(x[0])
    return total, np.fmax(x[0], x[1]), np.fmin(x[0], x[1]), np.maximum(x[0], 1), *rounded


def of_powers(x):
    return abs(x[0]) ** 0.5, x[0] ** 2, 2.0 ** np.clip(x[0], -3, 3), np.hypot(x[0], x[1])


def of_infinities(x):
    return (
        np.nan_to_num(x[0]), np.nan_to_num(x[0], nan=1.5, posinf=2, neginf=-3.0),
        np.heaviside(x[0], 0.5), np.nextafter(x[0], x[1]), np.isclose(x[0], x[1], rtol=0.1),
        np.isclose(x[0], x[1], equal_nan=True),
    )  # fmt: skip


def of_angles(x):
    return np.degrees(x[0]), np.radians(x[0]), math.degrees(x[0]), np.sinc(x[0]), np.angle(x[0])


def of_logarithms(x):
    return np.logaddexp(x[0], x[1]), np.logaddexp(x[0], 2), math.nextafter(x[0], 3.0)


COMPLEX = ("complex64", "complex128")
FLOATS = ("float16", "float32", "float64")
KERNELS: dict[Any, tuple[np.ndarray, tuple[str, ...]]] = {
    **dict.fromkeys((roots, waves, products, powers), (FINITE / 4, COMPLEX)),
    questions: (SPECIAL, COMPLEX),
    of_floats: (PARTS, FLOATS),
    of_powers: (REAL, FLOATS),
    of_angles: (REAL, FLOATS),
    **dict.fromkeys((of_infinities, of_logarithms), (PARTS, FLOATS)),
}
CASES = [
    *((kernel, dtype) for kernel, (_, dtypes) in KERNELS.items() for dtype in dtypes),
    *itertools.product((of_angles, of_infinities, of_logarithms), ("int16", "uint8")),
]


def agrees(kernel: Any, dtype: str, way: str) -> None:
    x = (WHOLE if "int" in dtype else KERNELS[kernel][0]).astype(dtype)
    program = npt.stencil(boundary="nearest")(kernel)
    with WAYS[way](), warnings.catch_warnings():
        warnings.simplefilter("ignore", npt.PerformanceWarning)
        made = each(program(x))
    single = x.dtype in ("float32", "complex64", "float16")
    rtol, atol = (2e-4, 2e-4) if single else (1e-9, 1e-12)
    for one, other in zip(made, each(program.debug(x)), strict=True):
        assert one.dtype == other.dtype
        for left, right in ((one.real, other.real), (one.imag, other.imag)):
            np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_as_plain_python(kernel: Any, dtype: str) -> None:
    agrees(kernel, dtype, "interpreted")


@pytest.mark.parametrize(("kernel", "dtype"), only(len(CASES) // 2, CASES))
def test_as_machine_code(kernel: Any, dtype: str) -> None:
    agrees(kernel, dtype, "compiled")


@pytest.mark.parametrize(("dtype", "low", "high", "edges"), [
    ("float32", -104.0, 88.8, [88.72, 88.73, -87.3, -87.4, -103.2, -104.0, -105.0, 89.5]),
    ("float64", -746.0, 709.9, [709.78, 709.79, -708.4, -745.1, -746.0, -747.0, 711.0]),
])  # fmt: skip
def test_exponential_within_two_units_in_the_last_place(dtype, low, high, edges):
    rng = np.random.default_rng(0)
    edges = [*edges, *PARTS, 1e-300]
    x = np.concatenate([rng.uniform(low, high, 200_000), rng.uniform(-2, 2, 50_000), edges])
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.longdouble))
        rounded = exact.astype(dtype)
        result = npt.stencil(lambda x: np.exp(x[0]))(x)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(rounded))
        np.testing.assert_array_equal(np.isinf(result), np.isinf(rounded))
        finite = np.isfinite(rounded)
        units = np.abs(result - exact)[finite] / np.spacing(rounded[finite])
    assert units.max() <= 2


def test_functions_of_math_beyond_their_range_are_those_of_numpy():
    @npt.stencil
    def kernel(x):
        exponentials = math.exp(x[0]), math.expm1(x[0]), math.cosh(x[0]), math.sinh(x[0])
        others = math.log(x[0]), math.sqrt(x[0]), math.pow(x[0], 301)
        return math.gamma(x[0]), math.lgamma(x[0]), *exponentials, *others

    x = np.array([1000, -1000, 0, 1, 171, 172], "int16")
    with np.errstate(all="ignore"):
        for result, wanted in zip(kernel(x), kernel.debug(x), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-13)


# Python 3.14 warns of a part that is complex itself, and computes it as before.
@pytest.mark.filterwarnings("ignore:complex:DeprecationWarning")
def test_complex_of_two_parts_is_pythons():
    joined = npt.stencil(lambda x, y: complex(x[0], y[0]))
    real = np.array([1, np.inf, -0.0, np.nan, -3])
    imag = np.array([np.inf, 2, -0.0, 1, np.nan])
    for x, y in ((real.astype("float32"), imag), (real, imag + 2j), (imag - 1j, real)):
        exact = np.array([complex(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
        for found in (joined(x, y), joined.debug(x, y)):
            assert found.dtype == np.complex128
            for part, other in ((found.real, exact.real), (found.imag, exact.imag)):
                np.testing.assert_array_equal(part, other)
                assert (np.isnan(part) | (np.signbit(part) == np.signbit(other))).all()
    whole = npt.stencil(lambda x: complex(x[0], 2) * complex(1) + complex(imag=x[0]))
    assert whole(np.array([3.0])).tolist() == [3 + 5j]
