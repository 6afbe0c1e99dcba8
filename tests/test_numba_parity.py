"""What `numba.stencil` runs, runs here with the same values: only the import is changed.

Each case is a kernel, its options and its arrays, run by both.  The dtype of a result is by our
own rule, so Numba's is cast to it.  At the end stand the few differences, which are documented
in docs/coming/numba.md.
"""

import numba
import numpy as np
import pytest

import ninepoint as npt

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

ROWS = np.arange(12).reshape(3, 4)
FLOATS = np.arange(12.0).reshape(3, 4)
LINE = np.arange(60.0)
PLANE = np.random.default_rng(1).normal(size=(11, 14)).round(3)


def three_arrays_and_a_number(a, b, c, w):
    if c[0, 0]:
        return np.float64(10.0)
    return w * a[0, 1] + b[1, 0] * a[-1, 0] + float(b[0, 1])


def a_row_of_coefficients(a, b, c):
    row = b[0]
    s = 1
    acc = 0
    for k in b[0, :]:
        acc += k
    for k in row:
        acc += 2 * k
    return a[0, 1] + row[1] * b[-1, 2 - s] + acc + c


def everything_at_once(a, b):
    total = 0
    for i in range(-3, 1):
        for j in range(-3, 1):
            total += a[i, j] + b[1, 3]
    return total / 9.0 + np.std(a[-1:1, -2:0])


def offsets_from_arguments(a, where, w):
    total, k = a[-w], 0
    while k < where.shape[0]:
        if a[k] == 5.0:
            break
        total += a[where[k]] * len(where)
        k += 1
    return total / np.sum(where) * where.size


CASES = [
    (three_arrays_and_a_number, (FLOATS.astype("f4"), ROWS, np.eye(3, 4, dtype=bool), 3),
     {"cval": 5}),
    (a_row_of_coefficients, (FLOATS, FLOATS, 10), {"standard_indexing": ["b", "c"]}),
    (everything_at_once, (PLANE, PLANE.copy()),
     {"neighborhood": ((-3, 0), (-3, 0)), "standard_indexing": "b", "cval": 1.5}),
    (offsets_from_arguments, (LINE, np.array([2, -1, 0, 3]), 2),
     {"neighborhood": ((-3, 3),), "standard_indexing": ("where",)}),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "given", "options"), CASES)
def test_same_values(kernel, given, options):
    expected = numba.stencil(kernel, **options)(*given)
    result = npt.stencil(**options)(kernel)(*given)
    assert result.shape == expected.shape
    # Numba may fuse or reorder what we do not, and computes float32 in float64 at times.
    bound = 1e-5 if result.dtype.char in "fF" else 1e-13
    np.testing.assert_allclose(result, expected.astype(result.dtype), rtol=bound, atol=bound)


def test_the_decorator_a_lambda_and_out():
    for decorated in (numba.stencil, npt.stencil):
        result = decorated(lambda a: 0.3 * (a[-1] + a[0] + a[1]))(LINE[:5])
        np.testing.assert_allclose(result, 0.3 * np.array([0, 3, 6, 9, 0]))

    def kernel(a):
        return a[0, 0] - a[1, 0]

    # Of another type, with a border; without, it is one of the differences.
    outs = [np.ones((3, 4)) for _ in range(4)]
    numba.stencil(kernel, cval=7.0)(ROWS, out=outs[0])
    assert npt.stencil(cval=7.0)(kernel)(ROWS, out=outs[1]) is outs[1]
    np.testing.assert_array_equal(outs[0], outs[1])
    for decorated, out in zip((numba.stencil, npt.stencil), outs[2:], strict=True):
        decorated(kernel)(ROWS, out=out)
    np.testing.assert_array_equal(outs[2][:-1], outs[3][:-1])
    assert (outs[2][-1] == 1).all()
    assert (outs[3][-1] == 0).all()


def test_a_read_that_is_not_used_does_not_widen_the_border():
    def kernel(a):
        unused = np.sin(10 + a[2, 1])  # noqa: F841
        return a[1, 0] + a[0, 0]

    ours, theirs = npt.stencil(kernel)(FLOATS), numba.stencil(kernel)(FLOATS)
    np.testing.assert_array_equal(ours[:1, :3], theirs[:1, :3])
    np.testing.assert_array_equal(ours, npt.stencil(lambda a: a[1, 0] + a[0, 0])(FLOATS))


def test_a_difference_of_unsigned_integers_is_negative():
    x = np.array([1, 2, 4], dtype="u1")
    ours, theirs = (one(lambda a: a[0] - a[1])(x) for one in (npt.stencil, numba.stencil))
    assert ours.tolist() == [-1, -2, 0]
    np.testing.assert_array_equal(ours, theirs.astype("i2"))
