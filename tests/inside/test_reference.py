"""The definition itself, against plain NumPy and SciPy on cases picked by hand."""

from __future__ import annotations

import math
import random

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage

from by_definition import evaluate, footprints
from kernels import RULES, random_arrays, random_boundary, random_kernel
from nightly import only
from ninepoint.language.reference import store

PAD = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap"}
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
KINDS = {"bool": bool, "int": int, "uint": int, "f32": np.float32, "f64": np.float64}
KINDS |= {"weak": np.float64, "c64": np.complex64, "c128": np.complex128}


def values(function, *arrays, **options):
    """The only output, as a list, of a kernel on one-dimensional fields."""
    (result,) = evaluate(function, arrays, boundary="nearest", **options)
    return result.tolist()


# Borders.


@pytest.mark.parametrize("rule", PAD)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("offset", [-9, -2, 0, 1, 8])
def test_a_neighbour_outside_is_that_of_np_pad(rule, size, offset):
    x = np.arange(10, 10 + size)
    padded = np.pad(x, 9, mode=PAD[rule])
    (result,) = evaluate(lambda x: x[offset], [x], boundary=rule)
    assert result.tolist() == padded[9 + offset : 9 + offset + size].tolist()


def test_constant_takes_cval_where_any_axis_leaves():
    x = np.arange(12).reshape(3, 4)
    (result,) = evaluate(lambda x: x[1, -2], [x], boundary=("constant", "nearest"), cval=7)
    assert_array_equal(result, [[4, 4, 4, 5], [8, 8, 8, 9], [7, 7, 7, 7]])


def test_each_side_has_its_rule():
    x = np.array([1, 2, 3])
    rule = [("constant", "mirror")]
    (result,) = evaluate(lambda x: 10 * x[-1] + x[1], [x], boundary=rule, cval=9)
    assert result.tolist() == [92, 13, 22]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("fill", [5, 5, 1, 2, 5]), ("keep", [1, 2, 1, 2, 5]), ("valid", [1, 2])],
)
def test_no_neighbour_outside(rule, expected):
    x = np.arange(1, 6)
    (result,) = evaluate(lambda x: min(x[-2], x[1]), [x], boundary=rule, cval=5)
    assert result.tolist() == expected


def test_one_sided_footprints_cut_one_side():
    x = np.arange(5)
    assert evaluate(lambda x: x[2], [x], boundary="valid")[0].tolist() == [2, 3, 4]
    assert evaluate(lambda x: x[-2], [x], boundary="valid")[0].tolist() == [0, 1, 2]
    assert evaluate(lambda x: x[9], [x], boundary="valid")[0].tolist() == []


def test_each_output_has_its_own_border():
    left, here = evaluate(lambda x: (x[-1], x[0]), [np.arange(1, 4)])
    assert (left.tolist(), here.tolist()) == ([0, 1, 2], [1, 2, 3])


def test_stacks_and_smaller_fields_broadcast():
    x, y = np.arange(24).reshape(2, 3, 4), np.arange(4)
    (result,) = evaluate(lambda x, y: x[0, 0] + y[-1, 1], [x, y], boundary="wrap")
    assert_array_equal(result, x + np.roll(y, -1))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_empty_arrays_give_empty_results(shape):
    results = evaluate(lambda x: (x[-1], x[1]), [np.zeros(shape)])
    assert [result.shape for result in results] == [shape, shape]


def test_scipy_on_images():
    x = np.random.default_rng(0).normal(size=(6, 5))
    weights = np.array([[1.0, 0, 2], [0, -1, 0], [3, 0, 4]])
    for rule in PAD:
        (result,) = evaluate(lambda x: (x[-1:2, -1:2] * weights).sum(), [x], boundary=rule)
        assert_allclose(store(result, float), ndimage.correlate(x, weights, mode=rule))
        (result,) = evaluate(lambda x: np.median(x[-1:2, -1:2]), [x], boundary=rule)
        assert_array_equal(store(result, float), ndimage.median_filter(x, 3, mode=rule))


# Numbers.


def test_integers_are_exact_and_wrap_at_64_bits():
    a, b = np.array([3], np.uint8), np.array([5], np.uint8)
    assert values(lambda a, b: a[0] - b[0], a, b) == [-2]
    assert values(lambda a: (a[0] << 62) * 2, a) == [-(2**63)]
    assert values(lambda a: a[0] ** 50, a) == [int(np.int64(3) ** np.int64(50))]
    big = np.array([2**64 - 1], np.uint64)
    assert values(lambda x: x[0] + 2, big) == [1]
    assert values(lambda x: x[0] > -2, big) == [True]
    assert values(lambda x: -x[0], big) == [1]
    assert values(lambda x: x[0] - 3, np.array([1], np.uint64)) == [-2]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda x: x[0] // 0, 0),
        (lambda x: x[0] % 0, 0),
        (lambda x: -x[0] // 3, -3),
        (lambda x: -x[0] % 3, 2),
        (lambda x: x[0] << 64, 0),
        (lambda x: -x[0] >> 99, -1),
        (lambda x: x[0] ** -1, np.float64(1 / 7)),
        (lambda x: x[0] / 0, np.float64(np.inf)),
        (lambda x: 0.5 * x[0], np.float64(3.5)),
        (lambda x: int(x[0] / 0), 2**63 - 1),
        (lambda x: int(np.nan * x[0]), 0),
        (lambda x: round(x[0] / 2), 4),
        (lambda x: math.floor(-x[0] / 2), -4),
        (lambda x: np.minimum(x[0], 9), 7),
        (lambda x: np.where(x[0] > 3, x[0], 0), 7),
        (lambda x: np.clip(x[0], 1, 5), 5),
        (lambda x: abs(-x[0]), 7),
        (lambda x: (x[0] > 3) + (x[0] > 4), 2),
        (lambda x: (x[0] > 3) & (x[0] > 9), False),
        (lambda x: ~(x[0] > 3), False),
        (lambda x: ~x[0], -8),
        (lambda x: x[0] and 3, 3),
        (lambda x: 3 < x[0] <= 7, True),
        (lambda x: np.int8(x[0] * 100), -68),
        (lambda x: np.uint8(x[0] * 1e9), 255),
        (lambda x: np.sqrt(x[0]), np.sqrt(np.float64(7))),
    ],
)
def test_one_number(kernel, expected):
    (value,) = evaluate(kernel, [np.array([7], np.int16)])[0]
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda x: 0.1 * x[0], np.float32(0.1) * np.float32(3)),
        (lambda x: x[0] * 2**60, np.float32(3) * np.float32(2**60)),
        (lambda x: x[0] * int(x[0]), np.float32(9)),
        (lambda x: x[0] * np.float64(0.1), np.float64(3) * 0.1),
        (lambda x: x[0] / 0, np.float32(np.inf)),
        (lambda x: x[0] * math.sqrt(2), np.float32(3) * np.float32(math.sqrt(2))),
        (lambda x: float(x[0]) / 0, np.float64(np.inf)),
        (lambda x: x[-1:2].sum(), np.float32(9)),
        (lambda x: (x[0:2] * CROSS[1, :2]).sum(), np.float32(6)),
        (lambda x: x[0] > 2, True),
        (lambda x: (x[0] > 2) + (x[0] > 1), 2),
        (lambda x: np.maximum(x[0], np.nan * x[0]) == 0, False),
        (lambda x: min(x[0], 5), np.float32(3)),
        (lambda x: x[0] * 1j, np.complex64(3j)),
    ],
)
def test_floats_follow_nep_50(kernel, expected):
    (value,) = evaluate(kernel, [np.array([3], np.float32)], boundary="nearest")[0]
    assert value == expected
    assert type(value) is type(expected)


def test_nothing_raises():
    x = np.array([-1.0, 0.0, 1.0])
    assert_array_equal(values(lambda x: math.sqrt(x[0]), x), [np.nan, 0, 1])
    assert_array_equal(values(lambda x: math.log(x[0]), x), [np.nan, -np.inf, 0])
    assert_array_equal(values(lambda x: 1 / x[0], x), [-1, np.inf, 1])


def test_store():
    numbers = np.array([300, -1, np.float64(2.9), np.float32(-np.inf), np.nan], object)
    assert store(numbers, np.uint8, "saturate").tolist() == [255, 0, 3, 0, 0]
    assert store(numbers, np.int8, "wrap").tolist() == [44, -1, 2, 0, 0]
    with pytest.raises(OverflowError, match="300 does not fit into uint8"):
        store(numbers, np.uint8)
    assert store(numbers[:2], np.float32).tolist() == [300, -1]


# Windows.


@pytest.mark.parametrize(
    "name", ["sum", "mean", "min", "max", "median", "std", "var", "argmin", "argmax", "ptp"]
)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64"])
def test_reductions_are_numpys(name, dtype):
    x = np.random.default_rng(1).integers(0, 50, (4, 5)).astype(dtype)
    padded = np.pad(x, 1, mode="edge")
    function = getattr(np, name)
    (result,) = evaluate(lambda x: function(x[-1:2, 0:2]), [x], boundary="nearest")
    for i, j in np.ndindex(x.shape):
        expected = function(padded[i : i + 3, j + 1 : j + 3].astype(float))
        assert_allclose(result[i, j], expected, rtol=1e-6)
    whole = dtype in ("uint8", "int32") and name in ("sum", "min", "max", "ptp")
    kind = int if whole or name in ("argmin", "argmax") else np.float64
    assert type(result[0, 0]) is (np.float32 if dtype == "float32" and kind is not int else kind)


def test_a_weight_of_zero_reads_nothing():
    x = np.ones((3, 3))
    x[0, 0] = np.inf
    (result,) = evaluate(lambda x: (x[-1:2, -1:2] * CROSS).sum(), [x])
    assert result[1, 1] == 5
    assert footprints(lambda x: (CROSS[:2] * x[-1:1, -1:2]).mean()) == (((-1, -1), (0, 1)),)
    column = np.array([[0, 1, 0]])
    assert footprints(lambda x: (x[0:1, -1:2] * column).sum()) == (((0, 0), (0, 0)),)


# Footprints.


def branches(x, y):
    if x[5] > 0:
        return x[1], y[0]
    return x[2], y[0]


def test_only_an_output_that_differs_depends_on_the_question():
    assert footprints(branches) == (((1,), (5,)), ((0,), (0,)))


def test_dead_reads_and_scalars_do_not_count():
    def kernel(x, scale=2):
        unused = x[-7]  # noqa: F841
        return x[0] * scale if scale > 1 else x[1]

    assert footprints(kernel) == (((0,), (1,)),)


def test_expressions_at_other_points_depend_on_what_is_there():
    def kernel(x):
        d = x[1] - x[-1]
        e = d if x[0] > 0 else x[0]
        return d[2], d[-1:2].sum(), e[1]

    assert footprints(kernel) == (((1,), (3,)), ((-2,), (2,)), ((0,), (2,)))


def test_conversions_and_functions_keep_the_trail():
    def kernel(x):
        return int(x[1]), math.sqrt(float(x[2])), np.where(x[3] > 0, min(x[4], x[5]), 0)

    assert footprints(kernel) == (((1,), (1,)), ((2,), (2,)), ((3,), (5,)))


def test_a_declared_neighborhood_is_enforced():
    def kernel(x, shift):
        return x[shift]

    x = np.arange(5)
    options = {"scalars": {"shift": 1}, "boundary": "wrap"}
    (result,) = evaluate(kernel, [x], neighborhood=[(-1, 1)], **options)
    assert result.tolist() == [1, 2, 3, 4, 0]
    with pytest.raises(IndexError, match=r"x\[1\] is outside the neighborhood"):
        evaluate(kernel, [x], neighborhood=[(-1, 0)], **options)


# The function is the user's own.


@numba.njit
def larger(a, b):
    return a if a > b else math.sqrt(-1.0) if b > 100 else b


def test_helpers_buffers_and_small_arrays():
    def kernel(x, w):
        buffer = np.zeros(3)
        for k in range(3):
            buffer[k] = x[k - 1] * w[k]
        buffer.sort()
        return larger(buffer[1], 0.5)

    x, w = np.array([4, 1, 3]), np.array([1, 2, 1])
    (result,) = evaluate(kernel, {"x": x, "w": w}, standard=("w",), neighborhood=[(-1, 1)])
    assert result.tolist() == [0, 3, 0]


def test_prints_are_seen(capsys):
    def kernel(x):
        print(f"{x[0]:03d}", x[0])
        return x[0]

    evaluate(kernel, [np.array([7], np.uint8)], reaches=[((0,), (0,))])
    assert capsys.readouterr().out == "007 7\n"


def test_a_field_cannot_be_assigned():
    def kernel(x):
        x[0] = 1
        return x[0]

    with pytest.raises(TypeError, match="cannot assign to its field 'x'"):
        evaluate(kernel, [np.arange(3)], reaches=[((0,), (0,))])


# Random kernels.


@pytest.mark.parametrize("seed", only(30, range(300)))
def test_random_kernels_evaluate(seed):
    rng = random.Random(seed)
    case = random_kernel(rng, njit=seed % 10 == 0)
    assert str(random_kernel(random.Random(seed), njit=seed % 10 == 0)) == str(case)
    rules = RULES if len(case.outputs) <= len(case.fields) else tuple(set(RULES) - {"keep"})
    boundary = random_boundary(rng, case.ndim, rules=tuple(sorted(rules)))
    results = evaluate(
        case.function,
        random_arrays(rng, case),
        scalars=case.scalars,
        standard=tuple(case.standard),
        boundary="nearest" if seed % 2 else boundary,
    )
    assert len(results) == len(case.outputs)
    if seed % 2:  # the generator knows the type of what comes out
        for result, tag in zip(results, case.outputs, strict=True):
            assert {type(value) for value in result.flat} <= {KINDS[tag]}
