"""Gufuncs give what the plain function gives for each item, however arrays lie and are given."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from gufunc_reference import reference, sizes_of

import ninepoint as npt
from nightly import only

SCALE = 3
WEIGHTS = np.array([1.0, 2.0, 4.0])


def matmul(a, b):
    n, k = a.shape
    m = b.shape[1]
    out = np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for one in range(k):
                total += a[i, one] * b[one, j]
            out[i, j] = total
    return out


def closest(points):
    best = np.inf
    one, other = points[0], points[0]
    for i in range(len(points)):
        for j in range(i + 1, len(points)):
            distance = 0.0
            for k in range(points.shape[1]):
                distance += (points[i, k] - points[j, k]) ** 2
            if distance < best:
                best = distance
                one, other = points[i], points[j]
    return one, other, math.sqrt(best)


def total(x):
    result = 0.0
    for value in x:
        result += value
    return result


def cumulated(x):
    out = np.zeros_like(x)
    out[0] = x[0]
    for k in range(1, len(x)):
        out[k] = out[k - 1] + x[k]
    return out


def scaled(x, factor):
    result = np.ones(len(x))
    result *= factor
    return result + x


def cross(a, b):
    out = np.empty(3)
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]
    return out


def weighted(x, w):
    return np.sum(x * w) / SCALE + WEIGHTS[1]


def both(x):
    low = np.full(x.shape, 7.0)
    high = np.full_like(x, 2)
    for k in range(len(x)):
        if x[k] > 1:
            low[k] = x[k]
        else:
            high[k] = x[k]
    return low, high


def turned(x):
    return x[::-1].T


def early(x):
    out = np.empty(len(x))
    if x[0] > 1:
        return x * 2.0
    out[:] = 5
    return out


def again(x):
    out = np.zeros(len(x))
    out[:] = x
    out = out[::-1] * 1.0
    return out


def shared(x):
    out = np.zeros(len(x))
    other = out
    other[0] = 3
    return out, out[::-1], other


def number(x):
    return x * SCALE


def inner(x):
    out = np.zeros(len(x))

    def put(k):
        return k + 1.0

    for k in range(len(x)):
        out[k] = put(x[k])
    return out


CASES = [
    (matmul, "(n,k),(k,m)->(n,m)"),
    (closest, "(p,d)->(d),(d),()"),
    (total, "(n)->()"),
    (cumulated, "(n)->(n)"),
    (scaled, "(n),()->(n)"),
    (cross, "(3),(3)->(3)"),
    (weighted, "(n),(n)->()"),
    (both, "(n)->(n),(n)"),
    (turned, "(n,m)->(m,n)"),
    (early, "(n)->(n)"),
    (again, "(n)->(n)"),
    (shared, "(n)->(n),(n),(n)"),
    (number, "()->()"),
    (inner, "(n)->(n)"),
]
GUFUNCS = {function: npt.gufunc(signature)(function) for function, signature in CASES}


def laid_out(array, random):
    """The same numbers in memory that lies otherwise."""
    match random.integers(5):
        case 0:
            return np.asfortranarray(array)
        case 1:
            wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
            wide[..., ::2] = array
            return wide[..., ::2]
        case 2:
            return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
        case 3:
            return array.astype(array.dtype.newbyteorder(">"))
        case _:
            return array


def drawn(signature, random, dtype="float64"):
    """Inputs of random sizes, stacked in random ways that broadcast."""
    inputs, _, _ = sizes_of(signature, [np.zeros((1,) * 9)] * signature.split("->")[0].count("("))
    lengths = {name: int(name) if name.isdecimal() else int(random.integers(1, 6))
               for core in inputs for name in core}  # fmt: skip
    loop = tuple(random.integers(1, 5, random.integers(0, 4)))
    arrays = []
    for core in inputs:
        own = tuple(n if random.random() < 0.7 else 1 for n in loop)
        own = own[random.integers(len(own) + 1) :] if random.random() < 0.3 else own
        shape = (*own, *(lengths[name] for name in core))
        numbers = random.integers(0, 9, shape) / (1 if dtype.startswith("int") else 4)
        array = np.asarray(numbers, dtype)
        arrays.append(laid_out(array, random) if array.ndim else array)
    return arrays


def as_list(result):
    return list(result) if isinstance(result, tuple) else [result]


def check(result, wanted):
    for one, expected in zip(as_list(result), wanted, strict=True):
        assert np.shape(one) == expected.shape
        np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize(("function", "signature"), only(5, CASES))
def test_random_arrays(function, signature):
    random = np.random.default_rng(len(function.__name__))
    gufunc = GUFUNCS[function]
    for _ in range(3):
        arrays = drawn(signature, random)
        wanted = reference(function, signature, *arrays)
        result = gufunc(*arrays)
        check(result, wanted)
        check(gufunc.debug(*arrays), wanted)
        check(gufunc(*arrays, threads=2), wanted)
        outs = tuple(laid_out(np.zeros(one.shape, np.asarray(made).dtype), random).view()
                     if one.ndim else np.zeros(one.shape)
                     for one, made in zip(wanted, as_list(result), strict=True))  # fmt: skip
        outs = tuple(o if o.dtype.isnative else o.astype(o.dtype.newbyteorder("=")) for o in outs)
        check(gufunc(*arrays, out=outs if len(outs) > 1 else outs[0]), wanted)
        check(outs, wanted)


@pytest.mark.parametrize(
    ("dtype", "function"),
    only(3, itertools.product(["int8", "uint16", "float32", "int64", "complex64"],
                              [total, weighted, cumulated])),
)  # fmt: skip
def test_types_are_those_of_numba(dtype, function):
    numba = pytest.importorskip("numba")
    x = np.arange(6).reshape(2, 3).astype(dtype)
    arrays = (x, x) if function is weighted else (x,)
    compiled = numba.njit(function)
    wanted = [np.asarray(compiled(*item)) for item in zip(*arrays, strict=True)]
    result = GUFUNCS[function](*arrays)
    assert result.dtype == wanted[0].dtype
    np.testing.assert_allclose(result, np.array(wanted), rtol=1e-6)


def test_axes_are_those_of_numpy():
    random = np.random.default_rng(5)
    a, b = random.random((3, 4, 5)), random.random((5, 2, 4))
    gufunc = GUFUNCS[matmul]
    for axes in ([(0, 2), (0, 1), (0, 1)], [(-3, -1), (0, 1), (-1, 0)]):
        wanted = np.matmul(a, b, axes=axes)
        np.testing.assert_allclose(gufunc(a, b, axes=axes), wanted, rtol=1e-12)
        np.testing.assert_allclose(gufunc.debug(a, b, axes=axes), wanted, rtol=1e-12)
    x = random.random((3, 4, 5))
    for axis in (0, 1, -1):
        for keepdims in (False, True):
            wanted = reference(total, "(n)->()", np.moveaxis(x, axis, -1))[0]
            wanted = np.expand_dims(wanted, axis) if keepdims else wanted
            for call in (GUFUNCS[total], GUFUNCS[total].debug):
                np.testing.assert_array_equal(call(x, axis=axis, keepdims=keepdims), wanted)


def test_result_over_an_input():
    x = np.random.default_rng(6).random((3, 3))
    wanted = reference(matmul, "(n,k),(k,m)->(n,m)", x, x)
    kept = GUFUNCS[matmul](x, x, out=x)
    assert kept is x
    check(x, wanted)
    y = np.arange(6.0)
    check(GUFUNCS[cumulated](y[:-1], out=y[1:]), reference(cumulated, "(n)->(n)", np.arange(5.0)))


def test_numbers_by_name_and_by_default():
    @npt.gufunc("(n)->(n)")
    def powers(x, base, *, factor=2):
        return base**x * factor

    x = np.arange(3)
    np.testing.assert_array_equal(powers(x, 3), [2, 6, 18])
    np.testing.assert_array_equal(powers(x, base=2, factor=5), [5, 10, 20])
    np.testing.assert_array_equal(powers.debug(x, 2, factor=5), [5, 10, 20])
    assert powers(x, 2.0).dtype == np.float64
    assert powers(x, np.int64(2)).dtype == np.int64


def test_axes_are_kept_beside_numbers():
    @npt.gufunc("(n)->()")
    def power(x, p):
        return np.sum(x**p)

    x = np.arange(6.0).reshape(2, 3)
    for axis in (0, 1):
        wanted = np.sum(x**2, axis=axis, keepdims=True)
        np.testing.assert_array_equal(power(x, 2, axis=axis, keepdims=True), wanted)
        np.testing.assert_array_equal(power(x, 2, axes=[axis], keepdims=True), wanted)


def test_sizes_that_only_results_have():
    @npt.gufunc("(n)->(bins)")
    def counted(x, bins):
        found = np.zeros(bins, np.int32)
        for value in x:
            found[int(value) % bins] += 1
        return found

    @npt.gufunc("(n)->(a,b)", sizes={"a": 2, "b": 2})
    def repeated(x):
        return np.full((2, 2), x[0])

    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(counted(x, 4), [[1, 1, 1, 0], [1, 1, 0, 1]])
    assert [counted(x, bins=k).shape for k in range(1, 6)] == [(2, k) for k in range(1, 6)]
    np.testing.assert_array_equal(repeated(x), [[[0, 0], [0, 0]], [[3, 3], [3, 3]]])

    @npt.gufunc("(n)->(k)")
    def first(x):
        return x[:2] * 1

    np.testing.assert_array_equal(first(x, sizes={"k": 2}), x[:, :2])
    np.testing.assert_array_equal(first.debug(x, sizes={"k": 2}), x[:, :2])


def test_no_items_and_no_elements():
    assert GUFUNCS[total](np.zeros((0, 3))).shape == (0,)
    np.testing.assert_array_equal(GUFUNCS[total](np.zeros((2, 0))), [0, 0])
    np.testing.assert_array_equal(
        GUFUNCS[matmul](np.zeros((2, 0)), np.zeros((0, 3))), np.zeros((2, 3))
    )


def test_other_dtypes_for_results():
    x = np.arange(6.0).reshape(2, 3)
    assert GUFUNCS[total](x, dtype="float32").dtype == np.float32
    low, high = GUFUNCS[both](x, dtype=("float32", "complex128"))
    assert (low.dtype, high.dtype) == (np.float32, np.complex128)
    single = npt.gufunc("(n)->(n)", dtype="float32")(cumulated)
    np.testing.assert_array_equal(single(x), np.cumsum(x, axis=1).astype("float32"))
    out = np.zeros((2, 3), "float32")
    assert GUFUNCS[cumulated](x, out=out) is out
    np.testing.assert_array_equal(out, np.cumsum(x, axis=1))


def test_names_of_the_rewritten_text_are_free():
    @npt.gufunc("(out0)->(out0)")
    def named(told):
        shape0, value0, wrong, a0, shape_of = 1, 2, 3, 4, 5
        out0 = np.empty(len(told))
        out0[:] = told + shape0 + value0 + wrong + a0 + shape_of + SCALE
        return out0

    np.testing.assert_array_equal(named(np.arange(3)), [18, 19, 20])


def test_functions_written_for_numba():
    @npt.gufunc("(n)->(n)")
    def doubled(x, out):
        for k in range(len(x)):
            out[k] = 2 * x[k]

    @npt.gufunc("(n)->(),()")
    def extremes(x, low, high, offset=0):
        low[0] = high[0] = x[0]
        for value in x:
            low[0] = min(low[0], value + offset)
            high[0] = max(high[0], value + offset)

    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(doubled(x), 2 * x)
    out = np.zeros((2, 3), int)
    assert doubled(x, out) is out
    np.testing.assert_array_equal(out, 2 * x)
    np.testing.assert_array_equal(doubled.debug(x), 2 * x)
    low, high = extremes(x)
    np.testing.assert_array_equal([low, high], [[0, 3], [2, 5]])
    np.testing.assert_array_equal(extremes(x, offset=1)[1], [3, 6])
    assert extremes(x.astype("float32"))[0].dtype == np.float64


def test_functions_written_for_numba_may_have_arrays_of_their_own():
    @npt.gufunc("(n)->(n)")
    def smoothed(x, out):
        one, other = np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
        one[:] = x
        for _ in range(3):
            for k in range(len(x)):
                other[k] = (one[k] + one[k - 1]) / 2
            one, other = other, one
        same = out
        same[:] = one

    x = np.arange(8, dtype="int8").reshape(2, 4)
    assert smoothed(x).dtype == np.float32
    np.testing.assert_array_equal(smoothed(x), smoothed.debug(x))
