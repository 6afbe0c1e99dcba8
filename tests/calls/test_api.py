"""What a user does with a stencil, against NumPy computed here."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import ninepoint as npt
from compiling import nothing_compiled
from nightly import only

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

RNG = np.random.default_rng(0)
PLANE = RNG.normal(size=(23, 31))
BYTES = RNG.integers(0, 256, (23, 31), dtype=np.uint8)
WEIGHTS = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]])

# Our name and that of np.pad; np.pad needs no element for "constant".
PADDED = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap",
          "constant": "constant"}  # fmt: skip


@npt.stencil
def lopsided(x):
    return x[-1, -2] + 2 * x[0, 0] - x[1, 3]


def padded(x, mode):
    """`lopsided` by np.pad; wide enough for the kernel's reach."""
    wide = np.pad(x, ((1, 1), (2, 3)), mode=mode)
    rows, columns = x.shape
    return wide[:rows, :columns] + 2 * x - wide[2:, 5:]


# Names of parameters that generated text also uses.


@npt.stencil(boundary="reflect")
def named_like_loops(b, i, j, n):
    return b[-1:2, -1:2].median() - i[0, 0] * j + n, b[0, 0] + j


@npt.stencil(boundary="reflect")
def named_like_stages(v0, t0, s0, w0=1):
    return v0[-3:4, -3:4].mean() * t0 + s0[0, 0] * w0 + v0[0, 1]


@npt.stencil(boundary="wrap")
def named_like_modules(np, math, select, row):
    return np[0, 0] + np[0, 1] * math - select * row


@npt.stencil(boundary="wrap", standard_indexing=("i", "out0"))
def named_like_coefficients(j, i, out0, band):
    return (j[-1:2, -1:2] * i).sum() + out0[1] * band


@npt.stencil(boundary="nearest", neighborhood=((0, 0), (-2, 2)))
def named_like_the_general_path(x, b, n, i, out0):
    total = 0.0
    while total < b:
        total += abs(x[0, i]) + 0.1
        n -= 1
    return total + n + out0


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (named_like_loops, (PLANE, BYTES, 3, 0.5)),
        (named_like_stages, (BYTES, 2.5, PLANE, -1)),
        (named_like_modules, (PLANE, 2, 3.0, 4)),
        (named_like_coefficients, (PLANE, WEIGHTS, np.array([1.0, 2.0]), 3)),
        (named_like_the_general_path, (PLANE, 1.0, 2, -1, 0.5)),
    ],
)
def test_parameters_may_have_any_name(kernel, args):
    found, expected = kernel(*args), kernel.debug(*args)
    if not isinstance(found, tuple):
        found, expected = (found,), (expected,)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


# Scalars and coefficients.


@npt.stencil(boundary="nearest")
def scaled(x, k=1.0, *, lift=0):
    return k * (x[-1] + x[0] + x[1]) + lift


def test_a_new_value_compiles_nothing():
    wide = np.pad(PLANE, ((0, 0), (1, 1)), mode="edge")
    sums = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    scaled(PLANE, 0.0)
    with nothing_compiled():
        for k in np.linspace(-1, 1, 5):
            lift = int(9 * k)
            np.testing.assert_allclose(scaled(PLANE, k=float(k)), sums * k, atol=1e-14)
            np.testing.assert_allclose(scaled(PLANE, float(k), lift=lift), sums * k + lift)


def test_coefficients_by_rows_and_as_a_whole():
    @npt.stencil(standard_indexing=("w", "offset"))
    def weighed(x, w, offset):
        row = w[1]
        return (x[-1] * row[0] + x[1] * row[1]) / np.sum(w) + w.max() + offset

    w = np.array([[1.0, 2.0], [3.0, 4.0]])
    line = np.arange(6.0)
    expected = (line[:-2] * 3 + line[2:] * 4) / 10 + 4 + 5
    np.testing.assert_allclose(weighed(line, w, 5)[1:-1], expected)
    with pytest.raises(TypeError, match="must be an array, not 3"):
        weighed(line, 3, 5)


# Borders of small arrays.


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (2, 2), (5, 9)])
@pytest.mark.parametrize("boundary", PADDED)
def test_small_arrays(boundary, shape):
    x = RNG.integers(0, 256, shape, dtype=np.uint8)
    result = lopsided(x, boundary=boundary)
    assert result.dtype == np.int16
    np.testing.assert_array_equal(result, padded(x.astype(int), PADDED[boundary]))


@pytest.mark.parametrize("boundary", [*PADDED, "fill", "keep", "valid"])
def test_empty_arrays(boundary):
    for shape in ((0, 0), (0, 3), (3, 0)):
        expected = (max(shape[0] - 2, 0), 0) if boundary == "valid" else shape
        assert lopsided(np.zeros(shape, np.uint8), boundary=boundary).shape == expected


# Any memory.


# Numbers.


def test_numbers_at_the_ends_of_64_bits():
    exact = np.array([[2**63 + 5, 2**64 - 1, 7], [2**63, 1, 0]], dtype=object)
    found = lopsided(exact.astype(np.uint64), boundary="nearest")
    # As int64: a difference of uint64 may be negative.
    expected = (padded(exact, "edge") + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(found, expected.astype(np.int64))


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8", "c16"])
def test_floats_keep_their_width(dtype):
    x = (PLANE * (1 + 2j if dtype[0] == "c" else 1)).astype(dtype)
    result = lopsided(x, boundary="wrap")
    wide = "f4" if dtype == "f2" else dtype
    assert result.dtype == wide
    np.testing.assert_allclose(result, padded(x.astype(wide), "wrap"), rtol=1e-5, atol=1e-6)


def test_dtype_and_overflow():
    exact = padded(BYTES.astype(int), "wrap")
    kernel = npt.stencil(boundary="wrap", dtype="u1", overflow="saturate")(lopsided.__wrapped__)
    np.testing.assert_array_equal(kernel(BYTES), exact.clip(0, 255))
    wrapped = kernel(BYTES, overflow="wrap")
    np.testing.assert_array_equal(wrapped, exact.astype(np.uint8))
    with pytest.raises(ValueError, match=r"uint8 might not hold every result .*-255 to 765"):
        lopsided(BYTES, dtype="u1")


# Wherever it is written.


class Kernels:
    """Stencils in the body of a class."""

    @npt.stencil
    def twice(x):
        return x[0] * 2 + x[1]

    @staticmethod
    @npt.stencil
    def thrice(x):
        return x[0] * 3


def difference(x, step):
    return x[0, step] - x[0, -step]


def test_in_classes_lambdas_and_helpers():
    line = np.arange(5)
    assert Kernels.twice(line).tolist() == [1, 4, 7, 10, 0]
    assert Kernels().thrice(line).tolist() == [0, 3, 6, 9, 12]
    ahead, behind = npt.stencil(lambda x: x[1]), npt.stencil(lambda x: x[-1] * 2)
    assert (ahead(line).tolist(), behind(line).tolist()) == ([1, 2, 3, 4, 0], [0, 0, 2, 4, 6])
    helped = npt.stencil(boundary="wrap")(lambda x: difference(x, 1) ** 2)
    expected = (np.roll(PLANE, -1, 1) - np.roll(PLANE, 1, 1)) ** 2
    for one in (helped, pickle.loads(pickle.dumps(helped)), copy.deepcopy(helped)):
        np.testing.assert_allclose(one(PLANE), expected, rtol=1e-13)


# What does not fit.


# Others are on the pages of messages.
@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"axes": 1}, ValueError, "names 1 axes; the stencil has 2"),
        ({"out": np.zeros((23, 31), "int8")}, TypeError, "out has dtype int8, but the result"),
        ({"q": 1}, TypeError, r"lopsided\(\) has no parameter 'q'; it has x"),
    ],
)
def test_a_bad_option_says_what_to_write(options, kind, words):
    with pytest.raises(kind, match=words):
        lopsided(BYTES, **options)


def test_axes_are_missed_before_rules_are():
    for call in (lopsided, lopsided.debug):
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            call(np.zeros(4), boundary=("wrap",) * 3)


# Python 3.14 warns of a part that is complex itself, and computes it as before.
@pytest.mark.filterwarnings("ignore:complex:DeprecationWarning")
def test_complex_of_two_parts_is_pythons():
    @npt.stencil
    def joined(x, y):
        return complex(x[0], y[0])

    real = np.array([1, np.inf, -0.0, np.nan, -3])
    imag = np.array([np.inf, 2, -0.0, 1, np.nan])
    for x, y in (
        (real, imag),
        (real.astype("float32"), imag),
        (np.arange(3), np.array([True, False, True])),
        (real, imag + 2j),
        (imag - 1j, real),
    ):
        exact = np.array([complex(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
        for found in (joined(x, y), joined.debug(x, y)):
            assert found.dtype == np.complex128
            for part in ("real", "imag"):
                np.testing.assert_array_equal(getattr(found, part), getattr(exact, part))
                signs = np.signbit(getattr(found, part)) == np.signbit(getattr(exact, part))
                assert (signs | np.isnan(getattr(found, part))).all()
    whole = npt.stencil(lambda x: complex(x[0], 2) * complex(1) + complex(imag=x[0]))
    assert whole(np.array([3.0])).tolist() == [3 + 5j]


@pytest.mark.parametrize(
    "dtype", only(2, [">u2", ">i8", ">f4", ">f8", ">c16", "<u2", np.dtype(">i4")])
)
def test_dtype_of_the_other_byte_order(dtype):
    da = pytest.importorskip("dask.array")
    native = np.dtype(dtype).newbyteorder("=")
    x = np.arange(60, dtype=">u1").reshape(6, 10)

    def double(x):
        return 2 * x[0, 0] + x[0, 1]

    decorated = npt.stencil(dtype=dtype, overflow="saturate")(double)
    called = npt.stencil(double)

    @npt.stencil(dtype=dtype, overflow="saturate")
    def staged(x):
        y = called(x, dtype=dtype, overflow="saturate")
        return y[0, 1] + y[0, 0]

    exact = called(x).astype(native)
    for found in (
        decorated(x),
        called(x, dtype=dtype, overflow="wrap"),
        decorated(da.from_array(x, chunks=3)).compute(),
        decorated.debug(x),
    ):
        assert found.dtype == native
        assert found.dtype.isnative
        np.testing.assert_array_equal(found, exact)
    assert staged(x).dtype == native
    np.testing.assert_array_equal(staged(x), staged(da.from_array(x, chunks=3)).compute())
    assert npt.filters.gaussian(x, 1, dtype=dtype).dtype == native if native.kind != "c" else True
    assert decorated.iterate(exact, steps=2).dtype == native
    out = np.empty(x.shape, dtype)
    assert decorated(x, out=out) is out
    np.testing.assert_array_equal(out, exact)
    assert decorated.bench(x, repeat=1).points == 60
