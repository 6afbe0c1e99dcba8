"""What `numba.stencil` runs, runs here with the same values: only the import is changed.

Each case is a kernel, its options and its arrays, run by both.  The dtype of a result is by our
own rule, so Numba's is cast to it.  At the end stand the few differences, which are documented
in docs/recipe.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import ninepoint as npt
from nightly import only

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

STEP = 2
WEIGHTS = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])

ROWS = np.arange(12).reshape(3, 4)
FLOATS = np.arange(12.0).reshape(3, 4)
LINE = np.arange(60.0)
PLANE = np.random.default_rng(1).normal(size=(11, 14)).round(3)
BOOLS = np.arange(20).reshape(4, 5) % 3 == 0

Case = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
CASES: dict[str, Case] = {}


def case(*args: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the kernel below to the cases, once for each tuple of arguments."""
    several = args if isinstance(args[0], tuple) else (args,)

    def add(kernel: Callable[..., Any]) -> Callable[..., Any]:
        for number, one in enumerate(several):
            label = kernel.__name__ + (f"-{number}" if len(several) > 1 else "")
            CASES[label] = kernel, one, options
        return kernel

    return add


def compare(kernel: Callable[..., Any], args: tuple[Any, ...], **options: Any) -> np.ndarray:
    """Run both, and hold the values together; gives ours."""
    expected = numba.stencil(kernel, **options)(*args)
    result = npt.stencil(**options)(kernel)(*args)
    assert result.shape == expected.shape
    same_kind = result.dtype.kind in "biu" and expected.dtype.kind in "biu"
    if same_kind:
        np.testing.assert_array_equal(result, expected.astype(result.dtype))
    else:
        # Numba may fuse or reorder what we do not, and computes float32 in float64 at times.
        tolerance = 1e-5 if result.dtype.char in "fF" else 1e-13
        np.testing.assert_allclose(
            result, expected.astype(result.dtype), rtol=tolerance, atol=tolerance
        )
    return result


# One read, and expressions for offsets.


@case((ROWS,), (FLOATS.astype("f4"),), (BOOLS,))
def the_point_itself(a):
    return a[0, 0]


@case(np.arange(12.0))
def offset_in_a_local(a):
    t = 1
    return a[t] - a[-0] + a[1 + 1]


# Numba folds these only inside `njit(parallel=True)`; without, it needs the neighborhood.
@case(PLANE, neighborhood=((-1, 1), (-2, 2)))
def offsets_as_expressions(a):
    c = 2
    return a[-1 + 0, 2 * 1] + a[STEP - 1, -STEP] + a[+1, 3 // 2] - a[0, -c + 1] * a[c - 1, 0]


@case((PLANE,), (ROWS.astype("i2"),))
def four_neighbours(a):
    return 0.25 * (a[0, 1] + a[1, 0] + a[0, -1] + a[-1, 0])


@case(np.random.default_rng(2).integers(0, 100, (9, 8)).astype("i1"))
def the_recipe(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


@case(np.arange(128).reshape(4, 8, 2, 2))
def four_axes(a):
    return a[0, 0, 0, 0] - a[0, 1, 0, -1] + 1.0


# Types.


@case(ROWS)
def becomes_complex(a):
    t = 1.0j
    return a[0, 0] + t


@case(ROWS.astype("f4"))
def wider_by_a_cast(a):
    return a[0, 0] + np.float64(10.0) + float(a[0, 1]) + int(a[1, 0])


@case(FLOATS)
def an_array_without_axes(a):
    return a[0, 0] + np.array(1)


@case(PLANE + 1j * PLANE[::-1])
def complex_numbers(a):
    return a[0, 1] * a[1, 0].conjugate() + abs(a[0, 0]) - a[0, 0].real * 2j


# Functions, branches, several returns.


@numba.njit
def addone(a):
    return a + 1


@numba.njit
def spread(window):
    return window.max() - window.min()


def halved(a):
    return a / 2


@case(PLANE)
def functions(a):
    g = 4.0 + a[0, 1]
    x = np.sin(10 + a[2, 1]) + math.exp(-(a[0, 0] ** 2))
    return g + x + np.sin(a[-2, 0]) + math.sqrt(abs(a[0, -1])) + max(a[0, 0], a[1, 0], 0.5)


@case(ROWS)
def calls_compiled_functions(a):
    return a[0, 0] + addone(a[0, 1])


@case(np.arange(200.0).reshape(10, 20))
def several_returns(a):
    if a[0, 1] > 10:
        return 10.0
    elif a[0, 3] < 8:
        return a[0, 0]
    else:
        return 7.0


@case(PLANE)
def constant_conditions(a):
    b = 0
    if 2 == 0:
        b = 2
    total = a[0, 0] + b
    if (a[0, 1] > 0 and not a[1, 0] > 0) or a[-1, 0] == 0:
        total -= 1
    return total if -1 < total <= 1 else -total


@case(ROWS, 15 - ROWS, np.eye(3, 4, dtype=bool))
def a_field_of_truths(a, b, f):
    return a[0, 0] if f[0, 0] else b[0, 0]


# Several arrays, and numbers.


@case(FLOATS, ROWS, FLOATS + 2)
def three_arrays(a, b, c):
    return a[0, 1] + b[1, 0] * c[-1, 0]


@case((PLANE, PLANE + 1, 0.25), (ROWS, ROWS, 3))
def a_number(a, b, w):
    return w * (a[0, 1] + a[1, 0] + b[0, -1] + b[-1, 0])


# A constant outside the array.


@case(FLOATS, cval=5)
def constant_of_another_type(a):
    return a[0, 1] + a[0, -1] + a[1, -1]


@pytest.mark.parametrize("cval", only(1, [np.nan, -math.inf, np.sin(3.0)]))
def test_cval(cval):
    def kernel(a):
        return a[0, 0]

    compare(kernel, (FLOATS,), neighborhood=((-1, 1), (-1, 1)), cval=cval)


# standard_indexing.


@case(FLOATS, FLOATS, standard_indexing="b")
def coefficients(a, b):
    s = 1
    t = 2 - s
    return a[0, 1] + b[0, 3] * b[-1, t]


@case(FLOATS, FLOATS, standard_indexing=["b"])
def a_row_of_coefficients(a, b):
    c = b[0]
    d = b[1] + 1
    acc = 0
    for k in b[0, :]:
        acc += k
    for k in c:
        acc += 2 * k
    return a[0, 1] + c[1] * d[2] + acc


@case(FLOATS, FLOATS, 10, standard_indexing=["b", "c"])
def a_number_among_coefficients(a, b, c):
    return a[0, 1] + b[1, 1] + c


@case(LINE, np.array([0.25, 0.5, 0.25]), standard_indexing=("w",), neighborhood=((-1, 1),))
def a_loop_over_coefficients(a, w):
    acc = 0.0
    for k in range(w.shape[0]):
        acc += a[k - 1] * w[k]
    return acc / np.sum(w) * w.size / len(w)


@case(LINE, [3.0, 7.0], standard_indexing=("b",))
def a_list_of_coefficients(a, b):
    return a[-1] * b[0] + a[0] * b[1]


# neighborhood.


@case(LINE, neighborhood=((-29, 0),))
def moving_mean(a):
    cumul = 0
    for i in range(-29, 1):
        cumul += a[i]
    return cumul / 30


@case(LINE, neighborhood=((-29, 0),))
def wider_than_it_reads(a):
    cumul = 0
    for i in range(-19, -3):
        cumul += a[i]
    return cumul / 30 + a[0]


@case(LINE, neighborhood=((5, 10),))
def only_ahead(a):
    cumul = 0
    for i in range(10, 4, -1):
        cumul += a[i]
    return cumul / 30


@case(LINE, neighborhood=((-29, 0),))
def changes_its_type(a):
    cumul = 0
    for i in range(-29, 1):
        k = 0.0
        if i > -15:
            k = 1j
        cumul += a[i] + k
    return cumul / 30


@case(PLANE, PLANE + 1j, neighborhood=((-3, 0), (2, 3)))
def two_arrays_with_neighborhood(a, b):
    cumul = 0
    for i in range(-3, 1):
        for j in range(2, 4):
            cumul += a[i, j] + b[i, j]
    return cumul / 9.0


@case(PLANE, PLANE.copy(), neighborhood=((-3, 0), (-3, 0)), standard_indexing="b", cval=1.5)
def everything_at_once(a, b):
    cumul = 0
    for i in range(-3, 1):
        for j in range(-3, 1):
            cumul += a[i, j] + b[1, 3]
    res = cumul / 9.0
    if res > 1.0:
        return res + 1.0
    else:
        return res


# Slices.


@case(np.arange(20, dtype="u4").reshape(4, 5), neighborhood=((-1, 1), (-1, 1)))
def median(a):
    return np.median(a[-1:2, -1:2])


@case(PLANE, neighborhood=((-1, 1), (-1, 1)))
def slices_and_functions(a):
    return np.sum(a[-1:2, -1:2] * WEIGHTS) + np.std(a[-1:2, 0:2]) + np.min(a[0:2, -1:2])


@case(PLANE, neighborhood=((-1, 1), (-1, 1)))
def slice_to_a_compiled_function(a):
    return spread(a[-1:2, -1:2])


# What only the general path runs.


@case(PLANE, neighborhood=((-1, 1), (-1, 1)))
def a_buffer(a):
    values = np.empty(9)
    k = 0
    for i in range(-1, 2):
        for j in range(-1, 2):
            values[k] = a[i, j]
            k += 1
    values.sort()
    return values[4] + values[0]


@case(LINE % 7, neighborhood=((-4, 4),))
def while_and_break(a):
    k = 0
    while k < 4:
        if a[k] == 5.0:
            break
        k += 1
    return k


STEPS = np.random.default_rng(3).integers(-2, 3, PLANE.shape)


@case(PLANE, STEPS, neighborhood=((-2, 2), (-2, 2)))
def offsets_from_data(a, step):
    return a[step[0, 0], -step[0, 0]]


@case(LINE, 3, neighborhood=((-3, 3),))
def offsets_from_a_number(a, w):
    cumul = a[-w]
    for i in range(-w + 1, w + 1):
        cumul += a[i]
    return 0.3 * cumul


@case(LINE, np.array([2, -1, 0, 3]), neighborhood=((-3, 3),), standard_indexing=("where",))
def offsets_from_coefficients(a, where):
    total = 0.0
    for k in range(len(where)):
        total += a[where[k]]
    return total


@case(PLANE, neighborhood=((-2, 2), (-2, 2)))
def weighted_by_distance(a):
    total = 0.0
    norm = 0.0
    for i in range(-2, 3):
        for j in range(-2, 3):
            if i * i + j * j > 4:
                continue
            w = math.exp(-(i * i + j * j) / 2.0)
            total += w * a[i, j]
            norm += w
    return total / norm


# Numba warns that it will not take lists for ever.
@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPendingDeprecationWarning")
@pytest.mark.parametrize("label", only(7, CASES))
def test_same_values(label):
    kernel, args, options = CASES[label]
    compare(kernel, args, **options)


# How it is called.


def test_the_decorator_and_a_lambda():
    for decorated in (numba.stencil, npt.stencil):
        result = decorated(lambda a: 0.3 * (a[-1] + a[0] + a[1]))(LINE[:5])
        np.testing.assert_allclose(result, 0.3 * np.array([0, 3, 6, 9, 0]))


def test_out():
    def kernel(a):
        return a[0, 0] - a[1, 0]

    outs = [np.ones_like(ROWS) for _ in range(2)]
    numba.stencil(kernel, cval=7.0)(ROWS, out=outs[0])
    given = npt.stencil(cval=7.0)(kernel)(ROWS, out=outs[1])
    assert given is outs[1]
    np.testing.assert_array_equal(outs[0], outs[1])


def test_out_of_another_type():
    def kernel(a):
        return 0.25 * (a[0, 1] + a[1, 0])

    outs = [np.zeros((3, 4)) for _ in range(2)]
    for decorated, out in zip((numba.stencil, npt.stencil), outs, strict=True):
        decorated(kernel)(ROWS, out=out)
    np.testing.assert_array_equal(outs[0], outs[1])


# What Numba refuses as well.


def _assigns(a, b):
    a[0, 1] = b[1, 2]
    return a[0, 1] + a[1, 0]


def _wrong_count(a):
    cumul = 0
    for j in range(-10, 1):
        cumul += a[0, j]
    return cumul


def _plain(a, b):
    return a[0, 1] + b[0, -2]


@pytest.mark.parametrize(
    ("kernel", "args", "options"),
    [
        (_assigns, (FLOATS, FLOATS), {}),
        (_wrong_count, (FLOATS,), {"neighborhood": ((-10, 0),)}),
        (_plain, (FLOATS, np.ones((3, 3))), {}),
        (_plain, (FLOATS, FLOATS), {"cval": 1j}),
        (_plain, (FLOATS, FLOATS), {"standard_indexing": "c"}),
        (_plain, (FLOATS, FLOATS), {"standard_indexing": ["a", "b"]}),
        (lambda a: 1.0, (FLOATS,), {}),
        (lambda a, out: out * a[0, 1], (FLOATS, 1.0), {}),
        (lambda a: a[0, 0], (FLOATS,), {"bad": 10}),
    ],
)
def test_refused_by_both(kernel, args, options):
    with pytest.raises((numba.core.errors.NumbaError, ValueError, TypeError, AssertionError)):
        numba.stencil(kernel, **options)(*args)
    with pytest.raises((npt.StencilError, ValueError, TypeError)):
        npt.stencil(**options)(kernel)(*args)


# Documented differences.


def test_a_read_that_is_not_used_does_not_widen_the_border():
    def kernel(a):
        unused = np.sin(10 + a[2, 1])  # noqa: F841
        return a[1, 0] + a[0, 0]

    ours, theirs = npt.stencil(kernel)(FLOATS), numba.stencil(kernel)(FLOATS)
    np.testing.assert_array_equal(ours[:1, :3], theirs[:1, :3])
    np.testing.assert_array_equal(ours, npt.stencil(lambda a: a[1, 0] + a[0, 0])(FLOATS))


def test_the_border_of_out_is_written():
    def kernel(a):
        return a[0, 0] - a[1, 0]

    outs = [np.ones_like(ROWS) for _ in range(2)]
    for decorated, out in zip((numba.stencil, npt.stencil), outs, strict=True):
        decorated(kernel)(ROWS, out=out)
    np.testing.assert_array_equal(outs[0][:-1], outs[1][:-1])
    assert (outs[0][-1] == 1).all()
    assert (outs[1][-1] == 0).all()


def test_a_difference_of_unsigned_integers_is_negative():
    def kernel(a):
        return a[0] - a[1]

    x = np.array([1, 2, 4], dtype="u1")
    ours, theirs = npt.stencil(kernel)(x), numba.stencil(kernel)(x)
    assert ours.tolist() == [-1, -2, 0]
    np.testing.assert_array_equal(ours, theirs.astype("i2"))
