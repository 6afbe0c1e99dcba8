"""Kernels that are not analysed: they run as well, with the same borders and numbers."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from nightly import only
from seams import plan_of

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

WEIGHTS = np.array([[0.0, 0.25, 0.0], [0.25, 1.0, 0.25], [0.0, 0.25, 0.0]])
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
LIMIT = 100


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if "NINEPOINT_CACHE_DIR" not in os.environ:
            patch.setenv("NINEPOINT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def numbers(dtype: str, shape: tuple[int, ...] = (7, 9)) -> np.ndarray:
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        return rng.integers(0 if kind.kind == "u" else -90, 200 if kind.kind == "u" else 90,
                            shape).astype(kind)  # fmt: skip
    if kind.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(kind)
    return (rng.normal(size=shape) * 10).astype(kind)


# The kernels.


def while_loop(x):
    k = -1
    total = 0
    while k < 2:
        total += x[0, k] * (k + 2)
        k += 1
    return total


def broken_loop(x):
    """Reads of constant range: the neighborhood is found."""
    total = 0
    for i in range(-2, 2):
        if x[0, i] > LIMIT:
            break
        total += x[i, 0]
    return total


def continued(x):
    count = 0
    for step in STEPS:
        if x[step[0], step[1]] <= x[0, 0]:
            continue
        count += 1
    return count


def own_median(x):
    """An array that is filled and sorted by hand."""
    buffer = np.zeros(9)
    n = 0
    for i in range(-1, 2):
        for j in range(-1, 2):
            buffer[n] = x[i, j]
            n += 1
    for i in range(9):
        for j in range(8 - i):
            if buffer[j] > buffer[j + 1]:
                buffer[j], buffer[j + 1] = buffer[j + 1], buffer[j]
    return buffer[4]


def scalar_offset(x, k, scale=2.0):
    return x[0, k] * scale - x[k, 0]


def data_offset(x):
    step = x[0, 0] % 3 - 1
    return x[step, -step]


def runtime_range(x, width):
    total = 0.0
    for i in range(-width, width + 1):
        for j in range(-width, width + 1):
            total += x[i, j]
    return total / (2 * width + 1) ** 2


def runtime_window(x, width):
    return x[-width : width + 1, 0:1].max() - x[-width : width + 1, 0:1].min()


def varying_coefficient(x, w):
    total = 0.0
    k = 0
    while k < w.shape[0]:
        total += w[k] * x[0, k - 1]
        k += 1
    return total


def window_functions(x):
    w = x[-1:2, -1:2]
    s = np.sort(w.ravel())
    while s[0] > 1000:
        s[0] -= 1
    return np.sum(w * WEIGHTS) + np.median(w) + s[-1] - s[0] + w.std()


def clamp(value, low, high):
    while value > high:
        value = high
    return max(value, low)


def gradient(field, axis):
    if axis == 0:
        return field[1, 0] - field[-1, 0]
    return field[0, 1] - field[0, -1]


def helpers(x):
    def square(v):
        return v * v

    a = x
    steep = square(gradient(a, 0)) + square(gradient(x, 1))
    return clamp(steep, 3, 500), clamp(a[0, 0], 0, 50)


def two_fields(x, y, k):
    smaller = x if k > 0 else y
    return smaller[0, k] + y[k, 0] - x[0, 0]


def integers(x):
    k = 0
    result = 0
    while k < 2:
        result += x[0, 1] // x[0, 0] + x[0, 1] % (x[0, -1] - x[0, -1]) - (x[1, 0] - x[-1, 0]) // 7
        k += 1
    return result + int(x[0, 0] / 3) + round(x[0, 1] / 4) + (1 << (x[0, 0] % 8))


def choice_in_an_offset(x):
    k = -1
    total = 0
    while k < 2:
        for i in range(2):
            total += x[0, i if k > 0 else -i]
        k += 1
    return total


KERNELS: dict[str, tuple[Any, dict[str, Any], tuple[tuple[int, int], ...] | None, str]] = {
    "while": (while_loop, {}, ((0, 0), (-1, 1)), "uint8"),
    "while-float": (while_loop, {}, ((0, 0), (-1, 1)), "float64"),
    "break": (broken_loop, {}, None, "uint8"),
    "continue": (continued, {}, None, "int16"),
    "buffer": (own_median, {}, None, "float32"),
    "scalar": (scalar_offset, {"k": -1}, ((-2, 1), (-1, 1)), "int32"),
    "data": (data_offset, {}, ((-1, 1), (-1, 1)), "int16"),
    "range": (runtime_range, {"width": 1}, ((-2, 2), (-1, 1)), "float64"),
    "runtime-window": (runtime_window, {"width": 2}, ((-2, 2), (0, 0)), "uint16"),
    "helpers": (helpers, {}, None, "uint8"),
    "integers": (integers, {}, None, "uint8"),
    "choice": (choice_in_an_offset, {}, ((0, 0), (-2, 2)), "int16"),
}


# Those that only Numba can compile.
OPAQUE = ("runtime-window",)


def general(stencil: Any, *arrays: Any, **named: Any) -> bool:
    return "general" in stencil.explain(*arrays, **named)


@functools.cache
def made(name: str) -> Any:
    function, _, neighborhood, _ = KERNELS[name]
    return npt.stencil(neighborhood=neighborhood)(function)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize(
    ("boundary", "name"), only(5, itertools.product(["fill", "wrap", "nearest", "valid"], KERNELS))
)
def test_agrees_with_the_definition(name: str, boundary: str) -> None:
    _, scalars, _, dtype = KERNELS[name]
    x = numbers(dtype)
    stencil = made(name)
    assert general(stencil, x, **scalars) is (name in OPAQUE)
    results = as_tuple(stencil(x, **scalars, boundary=boundary))
    expected = as_tuple(stencil.debug(x, **scalars, boundary=boundary))
    for result, wanted in zip(results, expected, strict=True):
        if result.dtype.kind in "biu":
            np.testing.assert_array_equal(result, wanted)
        else:
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)


def test_result_types() -> None:
    whole = np.dtype("int64")
    found = {
        dtype: made("while")(numbers(dtype)).dtype
        for dtype in ("bool", "uint8", "uint64", "float16", "float32", "float64", "complex64")
    }
    own = ("float32", "float64", "complex64")
    # What it multiplies by may be negative.
    assert found == {
        "bool": whole, "uint8": whole, "uint64": whole, "float16": np.dtype("float32"),
    } | {name: np.dtype(name) for name in own}  # fmt: skip


def test_uint64_is_computed_modulo_two_to_the_64() -> None:
    x = np.array([[2**64 - 1, 2**63, 5, 3, 2**53 + 1, 0]], dtype="uint64")
    stencil = made("while")
    np.testing.assert_array_equal(stencil(x, boundary="wrap"), stencil.debug(x, boundary="wrap"))


def test_reads_past_the_derived_neighborhood_do_not_widen_it() -> None:
    assert plan_of(made("break"), "uint8").reaches[0] == ((-2, -2), (1, 1))


def test_coefficients_with_an_index_that_varies() -> None:
    stencil = npt.stencil(neighborhood=((0, 0), (-1, 1)), standard_indexing=("w",))(
        varying_coefficient
    )
    x, w = numbers("float64"), np.array([1, 2, 3], dtype="uint8")
    np.testing.assert_allclose(
        stencil(x, w, boundary="valid"), x[:, :-2] + 2 * x[:, 1:-1] + 3 * x[:, 2:]
    )


def test_either_of_two_fields() -> None:
    x, y = numbers("float64"), numbers("float32")
    stencil = npt.stencil(neighborhood=((-1, 1), (-1, 1)))(two_fields)
    with pytest.raises(npt.StencilError, match="not-compiled"):
        stencil(x, y, 1)
    wanted = stencil.debug(x, x, 1, boundary="wrap")
    np.testing.assert_allclose(stencil(x, x, 1, boundary="wrap"), wanted)


def test_reductions_along_an_axis() -> None:
    @npt.stencil
    def ranges(x):
        w = x[-1:2, -1:2]
        return np.max(np.sum(w, axis=0)) + w.mean(axis=1)[1]

    x = numbers("int16")
    views = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).astype("int64")
    expected = views.sum(axis=2).max(axis=-1) + views.mean(axis=3)[..., 1]
    np.testing.assert_allclose(ranges(x, boundary="valid"), expected)


# Numba compiles this for four seconds, and the list below.
@pytest.mark.nightly
def test_numpy_functions_of_a_window() -> None:
    x = numbers("int8")
    w = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).astype("int64")
    expected = (w * WEIGHTS).sum((2, 3)) + np.median(w, (2, 3)) + np.ptp(w, (2, 3)) + w.std((2, 3))
    np.testing.assert_allclose(npt.stencil(window_functions)(x, boundary="valid"), expected)


def test_small_things() -> None:
    @npt.stencil
    def small(x):
        index = (0, 1)
        narrow = np.empty(2, dtype=np.uint8)
        narrow[0], narrow[1] = 1, 2
        double = lambda v: 2 * v  # noqa: E731
        found: list = []
        while len(found) < 1:
            found.append(double(x[index]))
        return found[0] + np.clip(x[0, 0], 1, 3), narrow[0] - narrow[1]

    x = numbers("uint8")
    first, second = small(x, boundary="valid")
    np.testing.assert_array_equal(first, 2 * x[:, 1:].astype(int) + np.clip(x[:, :-1], 1, 3))
    # Beside each other integers of a buffer are Numba's.
    assert second.dtype == np.uint64
    assert (second == 2**64 - 1).all()


@pytest.mark.nightly
def test_a_list_that_is_sorted() -> None:
    @npt.stencil
    def middle(x):
        values = [x[i] for i in range(-1, 2)]
        values.sort()
        return values[1]

    x = numbers("int32", (20,))
    views = np.lib.stride_tricks.sliding_window_view(x, 3)
    np.testing.assert_array_equal(middle(x, boundary="valid"), np.median(views, axis=-1))


def test_dtype_and_overflow() -> None:
    x = np.array([[100, 200, 250, -100]], dtype="int16")
    totals = np.array([100 + 2 * 200 + 3 * 250, 200 + 500 - 300])
    stencil = made("while")
    given = {"boundary": "valid", "dtype": "uint8"}
    with pytest.raises(ValueError, match="overflow="):
        stencil(x, **given)
    np.testing.assert_array_equal(
        stencil(x, overflow="saturate", **given)[0], np.clip(totals, 0, 255)
    )
    np.testing.assert_array_equal(stencil(x, overflow="wrap", **given)[0], totals % 256)
    floats = np.array([[np.nan, 1, 1, 1e300, 1]])
    saturated = stencil(floats, overflow="saturate", boundary="valid", dtype="int16")
    np.testing.assert_array_equal(saturated[0], [0, 2**15 - 1, 2**15 - 1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", only(1, ["while-float", "range", "scalar"]))
def test_agrees_with_numba(name: str) -> None:
    numba = pytest.importorskip("numba")
    function, scalars, neighborhood, dtype = KERNELS[name]
    x = numbers(dtype)
    theirs = numba.stencil(neighborhood=neighborhood)(function)
    arguments = [x, *scalars.values()] + ([2.0] if name == "scalar" else [])
    np.testing.assert_allclose(made(name)(x, **scalars), theirs(*arguments))


# Mistakes.


def test_a_read_outside_the_neighborhood_is_an_error_when_it_happens() -> None:
    stencil = made("scalar")
    with pytest.raises(IndexError, match=r"offset 2 on axis 1 is not in -1\.\.1.*line \d+"):
        stencil(numbers("int32"), 2)
    with pytest.raises(IndexError, match=r"offset -2147483647 on axis"):
        stencil(numbers("int32"), -(10**12))
    with pytest.raises(IndexError, match="neighborhood"):
        made("runtime-window")(numbers("uint16"), 3)


def test_a_second_name_of_an_array_is_the_same_array() -> None:
    @npt.stencil
    def renamed(x):
        first = np.zeros(2)
        second = first
        second[0] = x[0]
        return first[0]

    np.testing.assert_array_equal(renamed(np.arange(3.0)), [0.0, 1.0, 2.0])


def test_a_buffer_is_never_left() -> None:
    @npt.stencil
    def careless(x, n):
        buffer = np.zeros(3)
        while n < 10**6:
            n += 1
            buffer[n] = x[0]
        return buffer[0]

    with pytest.raises(IndexError, match="careless"):
        careless(np.zeros(5), 5)


def mistaken_offset(x, k):
    while x[0] < 0:
        k += 1
    return x[k]


def mistaken_outside(x):
    while x[0] < 0:
        break
    return x[3]


def mistaken_assignment(x):
    while x[0] < 0:
        break
    b = x
    b[0] = 1
    return x[0]


def mistaken_path(x):
    while x[0] < 0:
        return 1


def mistaken_window(x):
    while x[0] < 0:
        break
    return x[0:2]


def mistaken_type(x):
    while x[0] < 0:
        break
    return np.sort(x[0])


def mistaken_fraction(x, k):
    while x[0] < 0:
        break
    return x[k / 2]


@pytest.mark.parametrize(
    ("function", "code", "text", "neighborhood"),
    [
        (mistaken_offset, "offset-not-constant", "x[k]", None),
        (mistaken_outside, "offset-outside", "x[3]", ((-1, 1),)),
        (mistaken_assignment, "assigned-field", "b[0]", None),
        (mistaken_path, "no-return", "def mistaken_path", None),
        (mistaken_window, "not-a-number", "x[0:2]", None),
        (mistaken_type, "not-compiled", "np.sort", None),
        (mistaken_fraction, "offset-type", "x[k / 2]", ((-1, 1),)),
    ],
)
def test_mistakes(function: Any, code: str, text: str, neighborhood: Any) -> None:
    others = [1] * (function.__code__.co_argcount - 1)
    with pytest.raises(npt.StencilError) as caught:
        npt.stencil(neighborhood=neighborhood)(function)(np.zeros(5), *others)
    assert caught.value.diagnostic.code == code, str(caught.value)
    assert text in caught.value.diagnostic.span.text
    assert "numba" not in str(caught.value.diagnostic.label).lower()


# Numba compiles this for ten seconds.
@pytest.mark.nightly
def test_percentile_whose_fraction_is_a_parameter() -> None:
    @npt.stencil(boundary="reflect")
    def ranked(x: Any, q: Any) -> Any:
        return np.percentile(x[-1:2, -1:2], q)

    x = np.random.default_rng(3).random((6, 7))
    for q in (0.0, 12.5, 50.0, 100.0):
        np.testing.assert_allclose(ranked(x, q), ranked.debug(x, q), rtol=1e-12)
    with pytest.raises(ValueError, match="range"):
        ranked(x, 101.0)


# Loops that never end by themselves.


def test_a_loop_that_runs_out_of_its_neighborhood_ends():
    @npt.stencil(neighborhood=((0, 3),))
    def seek(x):
        k = 0
        while x[k] < 99:
            k += 1
        return k

    da = pytest.importorskip("dask.array")
    for threads in (1, 2):
        with pytest.raises(IndexError, match="'seek' read outside its neighborhood: offset 4 on"):
            seek(np.zeros(9), threads=threads)
    with pytest.raises(IndexError, match="offset 4"):
        seek(da.zeros(20, chunks=7)).compute(scheduler="threads")
    np.testing.assert_array_equal(seek(np.full(5, 100.0)), 0)


def test_the_span_of_truths_is_a_number() -> None:
    @npt.stencil(boundary="nearest")
    def kernel(m):
        while True:
            return m[-1:2].ptp() + np.ptp(m[0:2])

    flags = np.array([True, True, True, False, False, False, True])
    result = kernel(flags)
    np.testing.assert_array_equal(result, kernel.debug(flags))
    np.testing.assert_array_equal(result, [0, 0, 2, 1, 0, 2, 1])


# Small arrays in rooms that places of the text have: what is kept is not written over.


def kept_rows(x):
    best = x[-1:2, -1:2][0]
    k = 0
    while k < 3:
        w = x[-1:2, -1:2]
        row = w[k]
        w = x[0:3, -1:2]
        w[0, 0] += k
        if row.sum() > best.sum():
            best = row
        k += 1
    return best.sum() + best[0]


def chosen_twice(x):
    def first():
        return x[-1:2, -1:2]

    w = first()
    few, many = w[w > 3], w[w <= 3]
    counts = np.zeros((2, 3), np.int64)
    values = np.empty(9)
    for k in range(9):
        counts[0, int(w.flat[k]) % 3] += 1
        values[k] = w.flat[8 - k]
    values.sort()
    ranks = np.sort(many)
    last = ranks[ranks.size - 1] if ranks.size > 0 else 0.0
    return few.sum() * 2 + many.sum() + last + counts[0, 1] * 100 + values[2] + np.median(values)


# What is chosen twice takes four seconds to compile, for each type.
@pytest.mark.parametrize("kernel", only(1, [kept_rows, chosen_twice]))
def test_rooms_keep_what_is_kept(kernel: Any) -> None:
    stencil = npt.stencil(boundary="reflect")(kernel)
    assert plan_of(stencil, "float64").reason
    for x in (numbers("float64"), numbers("uint8") % 9, numbers("float32").round()):
        values = abs(x).astype("float64")
        np.testing.assert_allclose(stencil(values), stencil.debug(values), rtol=1e-6)


# Numba compiles these for ten seconds.
@pytest.mark.nightly
def test_sorted_and_middle_numbers_are_numpys() -> None:
    def ranks(x):
        w = x[-1:2, -2:3]
        v = np.sort(w.ravel())
        u = w.flatten()
        u.sort()
        return v[0], v[7], v[14], u[3], np.median(w), np.nanmedian(w), np.median(w[w > 0])

    x = numbers("float64")
    x[1, 2], x[4, 4], x[5, 5], x[:3, 7:] = np.nan, np.inf, -np.inf, np.nan
    w = np.lib.stride_tricks.sliding_window_view(x, (3, 5)).reshape(5, 5, 15)
    found = npt.stencil(ranks)(x, boundary="valid")
    v = np.sort(w, -1)
    with np.errstate(invalid="ignore"):
        positive = np.where(w > 0, w, np.nan)
        wanted = (v[..., 0], v[..., 7], v[..., 14], v[..., 3], np.median(w, -1),
                  np.nanmedian(w, -1), np.nanmedian(positive, -1))  # fmt: skip
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_types_that_were_compiled_before_others_are_not_those_of_the_last() -> None:
    kinds = []
    for cval in (0, 1):
        for dtype in ("float64", "int16"):
            stencil = npt.stencil(neighborhood=((0, 0), (-1, 1)), cval=cval)(while_loop)
            kinds.append(stencil(numbers(dtype)).dtype.name)
    assert kinds == ["float64", "int64"] * 2


NUMBA_FIRST = """
import numba
import numpy as np
import ninepoint as npt

numba.njit(lambda x: x[0])(np.zeros(3))

@npt.stencil(boundary="reflect")
def low(x):
    window = x[-1:2, -1:2]
    few = np.sort(window[window <= 3])
    total = 0.0
    for k in range(few.size):
        if k % 2 == 0:
            total += few[k]
    return total + few[few.size - 1] if few.size > 0 else total

x = np.random.default_rng(0).random((6, 7)) * 6
np.testing.assert_allclose(low(x), low.debug(x))
"""


@pytest.mark.nightly
def test_masks_pick_numbers_whoever_used_numba_before(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(NUMBA_FIRST)
    environment = os.environ | {"NINEPOINT_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, str(program)], env=environment, check=True, timeout=300)
