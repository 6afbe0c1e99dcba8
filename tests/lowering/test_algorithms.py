"""Each algorithm is chosen on a kernel that nobody named, only there, and gives the right values.

What was chosen is seen in the lowered kernel, its stages and its text; values are those of the
text, run as plain Python, on many windows, and of compiled code on a few.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest

import agreement
import ninepoint as npt
from ninepoint.analysis.ranges import ranges
from ninepoint.arrays import numpy as on_numpy
from ninepoint.arrays.borders import Boundary
from ninepoint.language import ir
from ninepoint.language.dtypes import DType
from ninepoint.language.reference import evaluate, store
from ninepoint.lowering.machine import machine_type
from ninepoint.lowering.schedule import Schedule
from ninepoint.lowering.work import work
from thorough import only

# Compiled code is tried between protected pages first.
pytestmark = pytest.mark.usefixtures("protected_pages")

# Windows: height, width, and the offset of the first element, one-sided ones among them.
WINDOWS = [
    (11, 3, -5, -1),
    (3, 11, -1, -5),
    (9, 9, -4, -4),
    (31, 2, 1, -1),
    (2, 31, -3, 2),
    (1, 12, 0, -11),
    (12, 1, -14, 0),
    (5, 5, -2, -2),
    (13, 10, -6, 3),
    (3, 3, -1, -1),
]
BINOMIAL = np.outer([1, 2, 1], [1, 3, 3, 1])
SMOOTH = np.outer([1, 4, 6, 4, 1], [1, 2, 3, 2, 1]) / 144
CUBE = np.einsum("i,j,k->ijk", [1, 2, 1], [1, 0, -1], [1, 3, 1])
CROSS = np.array([[0, 1, 0], [1, 4, 1], [0, 1, 0]])


@functools.lru_cache(maxsize=8, typed=True)
def stencil_of(function: Callable[..., Any], **options: Any) -> npt.Stencil:
    """The stencil of a function, which goes through the passes once for the same types."""
    return npt.stencil(**options)(function)


def stages_of(function: Callable[..., Any], *dtypes: str, **options: Any) -> Any:
    """The stages of a compilation, of the first path; one row after the other unless asked."""
    options.setdefault("schedule", Schedule(rows=1))
    stencil = stencil_of(function, **options)
    given = dict.fromkeys(stencil.scalars, 3)
    _, stages, reason = stencil.definition.compiled([np.dtype(d) for d in dtypes], given)
    assert stages is not None, reason
    return stages


def lowered(function: Callable[..., Any], *dtypes: str, **options: Any) -> ir.Kernel:
    return stages_of(function, *dtypes, **options).lowered


def text(function: Callable[..., Any], *dtypes: str, **options: Any) -> str:
    return stages_of(function, *dtypes, **options).compiled.module.text


def bodies(kernel: ir.Kernel) -> Iterator[ir.Expr]:
    """Every operation, of stages too."""
    for stage in kernel.stages:
        yield from (assign.value for assign in stage.body)
    yield from (assign.value for assign in kernel.body)


def reads(kernel: ir.Kernel) -> int:
    """How many elements are read for each point."""
    return sum(isinstance(expr, ir.Read) for expr in bodies(kernel))


def runs(kernel: ir.Kernel) -> list[int]:
    return [stage.rows for stage in kernel.stages if isinstance(stage, ir.RunningSum)]


def by_text(
    function: Callable[..., Any], *fields: np.ndarray, boundary: str = "mirror", **options: Any
) -> tuple[np.ndarray, ...]:
    """The result of the generated text, run as plain Python."""
    stencil = stencil_of(function, **options)
    compiled, _, _ = stencil.definition.compiled([f.dtype for f in fields], {})
    border = Boundary.of(boundary).on(compiled.ndim)
    program = agreement.Plain(compiled.bind({}))
    result = on_numpy.apply(program, list(fields), border=border, cval=0, threads=1)
    return result if isinstance(result, tuple) else (result,)


def by_reference(
    function: Callable[..., Any], *fields: np.ndarray, boundary: str = "mirror"
) -> tuple[np.ndarray, ...]:
    return evaluate(function, list(fields), boundary=boundary)


def agree(
    function: Callable[..., Any],
    *fields: np.ndarray,
    close: float = 0.0,
    boundary: str = "mirror",
    **options: Any,
) -> None:
    """The text gives what the reference says: exactly, or to a part of the largest element."""
    results = by_text(function, *fields, boundary=boundary, **options)
    compare(results, by_reference(function, *fields, boundary=boundary), close)


def compare(
    results: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...], close: float = 0.0
) -> None:
    """As `agree` does."""
    for one, other in zip(results, wanted, strict=True):
        values = store(other, one.dtype)
        if close and one.dtype.kind in "fc":
            scale = float(np.nanmax(np.abs(values[np.isfinite(values)]), initial=1.0))
            np.testing.assert_allclose(one, values, rtol=close, atol=close * scale)
        else:
            np.testing.assert_array_equal(one, values)


def image(dtype: str, shape: tuple[int, ...] = (14, 17), seed: int = 0) -> np.ndarray:
    """An array that reaches the ends of its type."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        found = rng.integers(info.min, info.max, shape, kind, endpoint=True)
        ends = rng.random(shape)
        found[ends < 0.1], found[ends > 0.9] = info.min, info.max
        return found
    return (rng.normal(size=shape) * 100).astype(kind)


# Axis by axis.


def mean_of_rows_and_columns(x):
    return x[-1:3, -2:3].mean()


def weighted_integers(x):
    return (x[-1:2, -2:2] * BINOMIAL).sum()


def weighted_floats(x):
    return np.sum(SMOOTH * x[-2:3, -2:3])


def of_a_volume(x):
    return (x[-1:2, -1:2, -1:2] * CUBE).sum()


def of_squares(x):
    return ((x[-2:3, -2:3] + 1) ** 2).sum()


@pytest.mark.parametrize(
    ("function", "dtype", "most"),
    [
        (mean_of_rows_and_columns, "uint8", 4 + 5),
        (mean_of_rows_and_columns, "float32", 4 + 5),
        (weighted_integers, "int16", 3 + 4),
        (weighted_floats, "float64", 5 + 5),
        (weighted_floats, "uint8", 5 + 5),
        (of_a_volume, "int16", 3 + 2 + 3),
        (of_a_volume, "float32", 3 + 2 + 3),
        (of_squares, "int16", 1 + 5 + 5),
    ],
)
def test_windows_go_axis_by_axis(function, dtype, most):
    kernel = lowered(function, dtype)
    assert kernel.stages
    assert reads(kernel) == most


def no_product(x):
    return (x[-1:2, -1:2] * CROSS).sum()


def uses_a_local(x):
    centre = x[0, 0]
    return abs(x[-1:2, -1:2] - centre).sum()


def of_places(x):
    return (x[-1:2, -1:2] > x[-1, -1]).sum()


TRUE = np.array([[True, False, True], [False, False, False], [True, False, True]])
MANY = {
    "bool": np.array([True, False, True]),
    "bool in two axes": TRUE,
    "bool without a product": CROSS > 0,
    "uint64": np.array([2**64 - 1, 0, 2**63 + 1], "uint64"),
    "int64": np.array([2**53 + 1, 1, -(2**62) - 1], "int64"),
    "float16": np.array([0.5, 0, 65504], "float16"),
    "other order": np.array([1, -2, 300], ">i2"),
    "complex": np.array([1, 2j, 0], "complex64"),
}


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "bool"])
def test_weights_of_every_dtype(name, dtype):
    weights = MANY[name]
    part = (slice(-1, 2),) * weights.ndim
    x = image(dtype, (7, 9))[(0,) * (2 - weights.ndim)]
    x = np.ascontiguousarray(x) // 2**40 if dtype == "int64" else np.ascontiguousarray(x)
    agree(lambda x: (x[part] * weights).sum(), x, close=1e-6)
    agree(lambda x: (weights * (x[part] > 0)).sum(), x, close=1e-6)
    if name not in ("uint64", "int64"):  # the sum wraps before it is divided
        agree(lambda x: (x[part] * weights).mean(), x, close=1e-6)


def test_weights_that_are_all_false():
    nothing = np.zeros((3, 3), bool)
    (result,) = by_text(lambda x: (x[-1:2, -1:2] * nothing).sum(), image("int16"))
    assert not result.any()


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble", "U1", "M8[D]", "object"])
def test_weights_that_no_kernel_can_use_are_refused(dtype):
    weights = np.zeros(3, dtype)
    with pytest.raises(npt.StencilError, match="'weights' cannot be used in a kernel"):
        npt.stencil(lambda x: (x[-1:2] * weights).sum())(np.arange(5))


def given_weights(x, weights):
    return (x[-1:2, -1:2] * weights).sum()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("function", [no_product, uses_a_local, of_places])
def test_not_axis_by_axis(function, dtype):
    assert not lowered(function, dtype).stages
    agree(function, image(dtype), close=1e-6)


def test_weights_given_at_the_call_are_not_axis_by_axis():
    stencil = npt.stencil(standard_indexing=("weights",))(given_weights)
    _, stages, _ = stencil.definition.compiled([np.dtype("int16")], {"weights": BINOMIAL[:, :3]})
    assert not stages.lowered.stages


@pytest.mark.parametrize("boundary", ["mirror", "fill", "wrap"])
@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (weighted_integers, "int16"),
        (weighted_integers, "int64"),
        (weighted_integers, "uint64"),
        (weighted_floats, "float64"),
        (weighted_floats, "uint8"),
        (of_squares, "int16"),
    ],
)
def test_values_axis_by_axis(function, dtype, boundary):
    agree(function, image(dtype), close=1e-14, boundary=boundary)


@pytest.mark.parametrize("dtype", ["int16", "float32", "uint64"])
def test_values_of_a_volume(dtype):
    agree(of_a_volume, image(dtype, (4, 6, 5)), close=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint64"])
def test_elements_become_wide_before_they_are_added(dtype):
    """float64 weights: no sum of elements is rounded to, or wraps in, a narrower type."""
    elements = image(dtype)
    if dtype == "float32":
        elements[::3] *= np.float32(1e36)
    agree(weighted_floats, elements, close=1e-14)


# Sums, means, extremes and more, on many windows.


def window_kernel(kind: str, height: int, width: int, down: int, right: int) -> Any:
    part = (slice(down, down + height), slice(right, right + width))
    match kind:
        case "sum":
            return lambda x: x[part].sum()
        case "mean":
            return lambda x: x[part].mean()
        case "var":
            return lambda x: x[part].var()
        case "max":
            return lambda x: x[part].max()
        case "min":
            return lambda x: np.min(x[part])
        case "median":
            return lambda x: np.median(x[part])
        case "any":
            return lambda x: (x[part] > 1).any()
        case "all":
            return lambda x: (x[part] != 0).all()
        case "squares":
            return lambda x: (x[part] * x[part] + 1).sum()
        case _:
            return lambda x: (x[part].sum() * 2 - x[part].max(), x[part].std())


KINDS = ["sum", "mean", "var", "max", "min", "median", "any", "all", "squares", "two"]


@pytest.mark.parametrize("kind", only(6, KINDS))
def test_values_on_many_windows(kind):
    dtypes = ["uint8", "int16", "float32", "bool", "int64", "uint64", "float64", "uint32"]
    for number, (height, width, down, right) in enumerate(WINDOWS):
        if kind == "median" and height * width > 60:
            continue
        function = window_kernel(kind, height, width, down, right)
        dtype = dtypes[(number + len(kind)) % 8]
        if dtype == "bool" and kind == "squares":
            continue
        stack = image(dtype, (2, 7, 9), seed=number)
        if dtype in ("int64", "uint64") and kind == "two":
            stack //= 2**40  # the sum, which wraps, says nothing about the deviation
        parts = [by_text(function, one) for one in stack]
        close = 3e-6 if dtype == "float32" else 1e-12
        compare(parts[0], by_reference(function, stack[0]), close)
        stencil = stencil_of(function)
        compiled, _, _ = stencil.definition.compiled([np.dtype(dtype)], {})
        program = agreement.Plain(compiled.bind({}))
        border = Boundary.of("mirror").on(2)
        whole = on_numpy.apply(program, [stack], border=border, cval=0, threads=1)
        for k, one in enumerate(whole if isinstance(whole, tuple) else (whole,)):
            np.testing.assert_array_equal(one, np.stack([part[k] for part in parts]))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize(("height", "width"), [(11, 3), (3, 11), (3, 3), (1, 20)])
def test_sums_wrap_at_64_bits(dtype, height, width):
    function = window_kernel("sum", height, width, 0, 0)
    x = image(dtype, (14, 25))
    (result,) = by_text(function, x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x.astype(object), (height, width))
    exact = pieces.sum(axis=(2, 3)) % 2**64
    np.testing.assert_array_equal(result.view("uint64").astype(object), exact)


# Doubling.


def long_maximum(x):
    return x[-20:11, 3].max()


def long_sum(x):
    return x[0, -20:11].sum()


def short_maximum(x):
    return x[0, -3:4].max()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_long_windows_are_doubled(dtype):
    kernel = lowered(long_maximum, dtype)
    assert len(kernel.stages) >= 2
    assert reads(kernel) == 2 + 4 + 4  # of 31
    summed = lowered(long_sum, dtype)
    assert not runs(summed)  # along a row each element would wait for the one before
    assert reads(summed) == 2 + 3 + 6


def test_short_windows_are_not_doubled():
    kernel = lowered(short_maximum, "uint8")
    assert not kernel.stages
    assert reads(kernel) == 7


@pytest.mark.parametrize("radix", [0, 2, 3, 4])
@pytest.mark.parametrize("length", [9, 16, 17, 30, 64])
def test_doubling_of_any_length(length, radix):
    schedule = Schedule(radix=radix, direct=2)
    for kind in ("min", "sum"):
        function = window_kernel(kind, 1, length, 0, -4)
        agree(function, image("int16", (2, 70)), schedule=schedule)
        function = window_kernel(kind, length, 1, -3, 0)
        agree(function, image("uint8", (70, 2)), schedule=schedule)


# Running sums.


def tall_sum(x):
    return x[-9:10, -1:2].sum()


def test_sums_of_integers_run_down_the_rows():
    for dtype in ("uint8", "int32", "uint64", "bool"):
        assert runs(lowered(tall_sum, dtype)) == [19]
        agree(tall_sum, image(dtype, (25, 4)))
    assert runs(lowered(window_kernel("mean", 19, 3, 0, 0), "int16")) == [19]


def test_what_does_not_run():
    assert not runs(lowered(tall_sum, "float64"))  # would drift
    assert not runs(lowered(window_kernel("max", 19, 3, 0, 0), "int16"))
    assert not runs(lowered(window_kernel("sum", 5, 5, 0, 0), "int16"))  # short
    assert not runs(lowered(tall_sum, "int16", schedule=Schedule(running=False)))


# Variance.


def local_deviation(x):
    return np.std(x[-3:4, -3:4])


def test_variance_of_integers_is_exact():
    kernel = lowered(local_deviation, "uint8")
    floats = [e for e in bodies(kernel) if isinstance(e, ir.Binary) and e.dtype is DType.F64]
    assert len(kernel.stages) == 3
    assert [e.op for e in floats] == ["/"]  # all else is done in integers
    x = image("uint8", (9, 9))
    (result,) = by_text(window_kernel("var", 3, 3, -1, -1), x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).reshape(7, 7, 9)
    for found, items in zip(result.ravel(), pieces.reshape(-1, 9).tolist(), strict=True):
        exact = Fraction(9 * sum(i * i for i in items) - sum(items) ** 2, 81)
        assert found == float(exact)


def test_variance_of_floats_is_not_of_squares():
    """The difference of two large numbers would lose every digit here."""
    apart = Schedule(shared=math.inf)  # what neighbours add as well is another matter
    assert not lowered(local_deviation, "float32", schedule=apart).stages
    assert not lowered(local_deviation, "int64", schedule=apart).stages
    x = (1e8 + np.random.default_rng(1).random((9, 9))).astype("float64")
    agree(local_deviation, x, close=1e-7)


def exact_variance(items: list[float]) -> Fraction:
    """Of numbers that are all whole parts of one power of two: their sums are of integers."""
    ratios = [item.as_integer_ratio() for item in items]
    parts = max(below for _, below in ratios)
    whole = [above * (parts // below) for above, below in ratios]
    count = len(whole)
    return Fraction(count * sum(n * n for n in whole) - sum(whole) ** 2, (count * parts) ** 2)


def hard(data: str, dtype: str, shape: tuple[int, int]) -> np.ndarray:
    """Data on which sums of squares, or sums that run, lose what they should give."""
    noise = np.random.default_rng(len(data)).normal(size=shape)
    rows, columns = np.indices(shape)
    match data:
        case "ramp":
            noise += rows * 1e4 + columns * 1e5
        case "step":
            noise += np.where(columns > shape[1] // 2, 1e6, -3.0)
        case "outliers":
            # They enter windows and leave them; squares of float32 overflow.
            noise[1, 1], noise[-1, 2], noise[-2, -1] = 1e30, -1e30, 1e15
        case "equal":
            noise[:] = 0.1
        case "nearly equal":
            noise = 1 + 1e-6 * np.floor(noise)
        case _:
            noise += float(data)
    return noise.astype(dtype)


MEANS = ["0", "1e3", "1e5", "1e9", "1e12", "1e14"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data", [*MEANS, "ramp", "step", "outliers", "equal", "nearly equal"])
@pytest.mark.parametrize(
    ("height", "width"), only(3, [(9, 9), (12, 12), (31, 31), (1, 200), (45, 4)])
)
def test_variance_of_floats_keeps_its_digits(data, dtype, height, width):
    """Within 16 units of itself, and the square of the rounding of a mean.

    Squares about a rounded mean hold that rounding's square.  Large windows take it away again,
    and so do far better than NumPy.
    """
    x = hard(data, dtype, (height + 2, width + 2))
    (result,) = by_text(window_kernel("var", height, width, 0, 0), x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x, (height, width))
    unit = Fraction(float(np.finfo(dtype).eps))
    assert result.shape == (3, 3)
    for place in np.ndindex(3, 3):
        items = pieces[place].ravel().tolist()
        exact = exact_variance(items)
        if exact > np.finfo(dtype).max:
            assert not np.isfinite(result[place])
            continue
        rounding = 4 * unit * Fraction(max(map(abs, items)))
        if height * width > 130:
            rounding *= Fraction(1, 2**29) if dtype == "float32" else Fraction(1, 64)
        assert abs(Fraction(float(result[place])) - exact) <= 16 * unit * exact + rounding**2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_deviations_of_equal_floats_are_numbers(dtype):
    for value in (0.1, 1e-20, 3e30, 7.7e5):
        x = np.full((33, 33), value, dtype)
        (result,) = by_text(lambda x: x[0:31, 0:31].std(), x, boundary="valid")
        assert (result <= np.abs(x[0, 0]) * 1e-7).all()


IN_VOLUMES = [
    lambda x: x[1, -1:2, -1:2].var(),
    lambda x: x[-1:2, -1:2, -1:2].var(),
    lambda x: x[-1:2, 1, -1:2].std(),
    lambda x: x[-1, -9:2, 1].var(),
    lambda x: np.median(x[1, -1:2, 0:3]),
    lambda x: np.median(x[-1:2, -3:2, 1]),
    lambda x: (x[1, -1:2, -1:2] + 1).sum(),
    lambda x: (x[-1:2, -1:2, -1:2] + 1).max(),
    lambda x: (x[-1:2, -1:2, -1:2] * (CUBE * 0.5)).sum(),
    lambda x: (x[-1, -1:2, -1:2] * (CUBE[1] * 0.5)).sum(),
    lambda x: x[-1, -10:2, -1:2].sum(),
]


@pytest.mark.parametrize("dtype", ["uint8", "float64", "int64"])
@pytest.mark.parametrize("number", range(len(IN_VOLUMES)))
def test_windows_in_other_planes(number, dtype):
    """A stage is kept for rows of one plane; which plane it is must not be forgotten."""
    x = image(dtype, (4, 6, 7))
    agree(IN_VOLUMES[number], x, close=1e-12)


def test_variance_of_wide_windows_of_integers_is_not_exact():
    assert not lowered(window_kernel("var", 99, 99, 0, 0), "uint32").stages


# Medians and percentiles.


def middle(x):
    return np.median(x[-2:3, -2:3])


def comparators(kernel: ir.Kernel) -> int:
    """Half-comparators count as one: LLVM makes a minimum or a maximum of each choice."""
    return sum(isinstance(expr, ir.Select) for expr in bodies(kernel))


def test_medians_sort_columns_once():
    kernel = lowered(middle, "uint8")
    (stage,) = kernel.stages
    assert len(stage.names) == 5
    networked = lowered(middle, "uint8", schedule=Schedule(sorted_columns=0, shared=math.inf))
    assert not networked.stages
    assert comparators(kernel) < 0.75 * comparators(networked)
    assert not any(isinstance(expr, ir.Reduce) for expr in bodies(networked))


def test_small_windows_are_networks_and_large_ones_are_selected():
    for function in (lambda x: np.median(x[0, -3:4]), lambda x: np.percentile(x[-2:1, 0], 30)):
        kernel = lowered(function, "int32")
        assert not kernel.stages
        assert comparators(kernel)
        assert not any(isinstance(expr, ir.Reduce) for expr in bodies(kernel))
    large = window_kernel("median", 9, 9, 0, 0)
    assert comparators(lowered(large, "float32")) == 0
    assert "slid(" in text(large, "float32")
    assert "select(" in text(lambda x: np.median(x[-4:5, -4:5] * x[-4:5, 4:13]), "float32")


def test_large_windows_of_bytes_slide_a_histogram():
    large = window_kernel("median", 9, 9, 0, 0)
    assert "fine_" in text(large, "uint8")
    assert "fine_" not in text(large, "int32")


def test_median_of_differences_to_the_point_is_not_of_columns():
    assert not lowered(lambda x: np.median(abs(x[-1:2, -1:2] - x[0, 0])), "int16").stages


@pytest.mark.parametrize("percent", [0, 10, 25, 37.5, 50, 90, 100])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_values_of_percentiles(percent, dtype):
    x = image(dtype, (6, 7))
    agree(lambda x: np.percentile(x[-1:2, -1:3], percent), x, close=1e-6)
    agree(lambda x: np.percentile(x[0, -1:3], percent), x, close=1e-6)


# Explicit sums.

STEPS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]


def recipe(x):
    above = x[-1, -1] + x[-1, 0] + x[-1, 1]
    return (above + x[0, -1] + x[0, 0] + x[0, 1] + x[1, -1] + x[1, 0] + x[1, 1]) // 9


def in_locals(x):
    above = x[-1, -1] + x[-1, 0] + x[-1, 1]
    here = x[0, -1] + x[0, 0] + x[0, 1]
    below = x[1, 1] + x[1, 0] + x[1, -1]
    return below + (here + above) - 7


def smooth_row(x, i):
    return x[i, -1] + 2 * x[i, 0] + x[i, 1]


def in_helpers(x):
    return (smooth_row(x, -1) + smooth_row(x, 0) * 2 + smooth_row(x, 1) + 8) >> 4


def in_a_loop(x):
    total = 0
    for i, j in STEPS:
        total += x[i, j]
    return total


def negative(x):
    return 3 - (smooth_row(x, 1) + smooth_row(x, -1) - 2 * -smooth_row(x, 0))


EXPLICIT = [recipe, in_locals, in_helpers, in_a_loop, negative]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64"])
@pytest.mark.parametrize("function", EXPLICIT)
def test_explicit_sums_of_integers_are_windows(function, dtype):
    kernel = lowered(function, dtype)
    assert len(kernel.stages) == 1
    assert reads(kernel) == 6
    agree(function, image(dtype, (6, 7)))


def quarter(x):
    return (smooth_row(x, -1) + smooth_row(x, 0) * 2 + smooth_row(x, 1)) * 0.0625


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [in_locals, in_a_loop, quarter])
def test_explicit_sums_of_floats_are_windows_if_the_user_says_so(function, dtype):
    assert not lowered(function, dtype).stages
    agree(function, image(dtype, (6, 7)))
    assert len(lowered(function, dtype, fastmath=True).stages) == 1
    agree(function, image(dtype, (6, 7)), close=1e-6, fastmath=True)


def edges(x):
    return x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]


def plus(x):
    return x[-1, 0] + x[0, -1] + 4 * x[0, 0] + x[0, 1] + x[1, 0]


def of_two(x):
    return x[0, 0] + x[0, 1] + x[1, 0] + x[1, 1] + x[-1, -1] * x[0, 0]


def in_one_row(x):
    return x[0, -2] + x[0, -1] + x[0, 0] + x[0, 1] + x[0, 2]


@pytest.mark.parametrize("function", [edges, plus, of_two, in_one_row])
def test_other_sums_stay_as_they_are(function):
    """Too few terms to gain by it, weights that are no product, or terms that are not linear."""
    assert not lowered(function, "int16").stages
    agree(function, image("int16", (6, 7)))


# Sharing.


def slope(x, i, j):
    return math.exp(abs(x[i, j + 1] - x[i, j - 1]) / 8)


def three_slopes(x):
    return slope(x, 0, 0) + slope(x, 1, 0) - slope(x, 1, 3)


def test_equal_operations_at_other_offsets_are_done_once():
    for dtype in ("uint8", "float64"):
        kernel = lowered(three_slopes, dtype)
        assert len(kernel.stages) == 1
        assert sum(isinstance(expr, ir.Call) for expr in bodies(kernel)) == 1
        x = image(dtype, (5, 8)) // 4
        agree(three_slopes, x, close=1e-14)
        apart = by_text(three_slopes, x, schedule=Schedule(shared=math.inf))
        agreement.compare_exactly(by_text(three_slopes, x), apart)


def cheap(x):
    return abs(x[0, 1] - x[0, -1]) + abs(x[0, 2] - x[0, 0])


def each_its_own(x, gain):
    return math.exp(x[0, 1] * gain) + math.exp(x[1, 1] * (gain + 1))


def test_stages_that_read_the_same_rows_are_made_together():
    tilted = np.array([[-1, 0, 1], [-3, 0, 3], [-1, 0, 1]], "float32")

    @npt.stencil(boundary="nearest")
    def slope(x):
        across = (x[-1:2, -1:2] * tilted).sum()
        return abs(across) + abs((x[-1:2, -1:2] * tilted.T).sum())

    text = slope.source("float32")
    assert text.count("_row(x_0") == 1
    assert "o1[j] = " in text
    x = np.random.default_rng(0).random((12, 13), dtype="float32")
    np.testing.assert_allclose(slope(x), slope.debug(x), rtol=1e-5)


def test_what_is_cheap_or_different_is_not_shared():
    assert not lowered(cheap, "int16").stages
    assert not lowered(each_its_own, "float64").stages


# Whole numbers.


def rounded_mean(x):
    return np.uint8(round(x[-1:2, -1:2].mean()))


def rounded_four(x):
    return int(np.rint(x[0:2, 0:2].mean()))


def floored(x):
    return np.floor((x[0, 1] - x[0, 0]) / 7)


def rounded_median(x):
    return np.uint8(np.median(x[-1:2, -1:2]))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (rounded_mean, "uint8"),
        (rounded_four, "uint8"),
        (rounded_four, "int16"),
        (rounded_median, "uint8"),
        (lambda x: int(floored(x)), "int16"),
    ],
)
def test_whole_numbers_stay_integers(function, dtype):
    floats = [e for e in bodies(lowered(function, dtype)) if e.dtype.is_float]
    assert not floats
    agree(function, image(dtype, (6, 7)))


def test_what_is_not_whole_stays_a_float():
    for function, dtype in (
        (rounded_four, "float32"),
        (rounded_four, "int64"),  # 2**53 and more
        (lambda x: int(x[0] / 3.5 + 0.25), "int16"),
        (lambda x: round(x[0] / x[1]), "int16"),
    ):
        assert any(e.dtype.is_float for e in bodies(lowered(function, dtype)))


@pytest.mark.parametrize("divisor", [2, 3, 4, 6, 7, 9, 10, 25, 32, 1000])
def test_every_rounded_quotient(divisor):
    """Ties go to the even neighbour; negative numbers too."""
    x = np.arange(-4 * divisor - 3, 4 * divisor + 4, dtype="int16").reshape(1, -1)
    for function in (
        lambda x: round(x[0, 0] / divisor),
        lambda x: int(np.rint(x[0, 0] / divisor)),
        lambda x: int(np.floor(x[0, 0] / divisor)),
        lambda x: math.floor(x[0, 0] / divisor) * 2,
        lambda x: math.ceil(x[0, 0] / divisor),
        lambda x: int(x[0, 0] / divisor),
    ):
        agree(function, x)


# Division.


def by_seven(x):
    return x[0] // 7 + x[1] % 7


def test_division_by_a_constant_is_a_multiplication():
    for dtype in ("int8", "uint8", "int16", "uint16"):
        written = text(by_seven, dtype)
        assert "//" not in written.split("def band_row")[1]
        assert "%" not in written.split("def band_row")[1]
        agree(by_seven, image(dtype, (300,)))
    for dtype in ("int32", "uint32", "int64", "uint64"):
        agree(by_seven, image(dtype, (300,)))


def by_argument(x, n):
    return x[0] // n


def by_neighbour(x):
    return x[0] // x[1]


def test_other_divisions_stay():
    for function in (by_argument, by_neighbour):
        divisions = [e for e in bodies(lowered(function, "int16")) if isinstance(e, ir.Binary)]
        assert [e.op for e in divisions] == ["//"]
        assert re.search("//|/|divide", text(function, "int16").split("def band_row")[1])
    agree(by_neighbour, image("int8", (200,)))


# Lanes.


def types_of(kernel: ir.Kernel) -> list[str]:
    """The machine type of every stage."""
    known = ranges(kernel)
    return [
        machine_type(value.dtype, known[name])
        for stage in kernel.stages
        for name, value in zip(stage.names, stage.values, strict=True)
    ]


@pytest.mark.parametrize(
    ("function", "dtype", "lanes", "widest"),
    [
        (recipe, "int8", ["int16"], "i16"),
        (recipe, "uint8", ["uint16"], "u16"),
        (in_helpers, "uint8", ["uint16"], "u16"),
        (middle, "int8", ["int8"] * 5, ""),
        (middle, "uint16", ["uint16"] * 5, ""),
        (long_maximum, "uint8", ["uint8"] * 2, ""),
        (tall_sum, "uint8", ["uint16"], "u16"),
        (tall_sum, "uint32", ["uint64"], "u64"),
        (tall_sum, "bool", ["uint8"], "u8"),
        (window_kernel("sum", 19, 19, 0, 0), "bool", ["uint8"] * 3, "u16"),
        (weighted_integers, "int8", ["int16"], "i16"),
        (local_deviation, "uint8", ["uint16", "uint16", "uint32"], "u32"),
    ],
)
def test_stages_have_the_narrowest_type(function, dtype, lanes, widest):
    stages = stages_of(function, dtype)
    assert types_of(stages.lowered) == lanes
    written = stages.compiled.module.text
    for lane in lanes:
        assert f"dtype=np.{lane})" in written
    if widest:
        assert f"{widest}(" in written


def test_medians_take_no_more_lanes_than_elements():
    kernel = lowered(middle, "uint8")
    known = ranges(kernel)
    for assign in kernel.body:
        if isinstance(assign.value, ir.Select | ir.Read):
            assert machine_type(assign.value.dtype, known[assign.name]) == "uint8"


# Floats.


def depth(length: int) -> int:
    """How often an element is added at most, along one axis.

    Each level of fours adds twice, log2(length) times in all; at most three pieces of each
    level remain, and are added in a tree: log2(3 * (levels + 1)) times, under 4 for any window
    of fewer than 1000 elements.
    """
    return math.ceil(math.log2(length)) + 4 if length > 1 else 0


@pytest.mark.parametrize("kind", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("height", "width"), [(1, 31), (31, 1), (9, 9), (3, 12), (40, 5)])
def test_error_of_float_windows(kind, dtype, height, width):
    """Within u * depth * (sum of magnitudes), u half a unit in the last place.

    Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
    section 4.2: the bound of a sum in a tree of that depth, to first order in u.  A running
    sum has no such bound: what left the window long ago still counts.
    """
    rng = np.random.default_rng(height)
    x = (rng.normal(size=(44, 44)) * 10.0 ** rng.integers(-3, 4, (44, 44))).astype(dtype)
    x[2, 3] = 1e30  # gone from most windows, and so must be its rounding
    function = window_kernel(kind, height, width, 0, 0)
    (result,) = by_text(function, x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x, (height, width))
    half_unit = np.finfo(dtype).eps / 2
    deep = depth(height) + depth(width) + (kind == "mean")
    count = height * width if kind == "mean" else 1
    for i, j in [(0, 0), (2, 3), (3, 4), *rng.integers(0, 4, (40, 2)).tolist()]:
        items = pieces[i, j].ravel().tolist()
        bound = deep * half_unit * math.fsum(map(abs, items)) / count
        assert abs(float(result[i, j]) - math.fsum(items) / count) <= bound * 1.01


SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 3.5, -2.25, 1e30]


@pytest.mark.parametrize("kind", ["min", "max", "median", "mean", "sum"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("height", "width"), [(3, 3), (1, 12), (2, 3), (11, 2)])
def test_nan_and_infinity_spread_as_they_should(kind, dtype, height, width):
    rng = np.random.default_rng(height * width)
    x = rng.integers(-9, 9, (16, 30)).astype(dtype)
    spots = rng.random(x.shape)
    for k, value in enumerate(SPECIAL[:3]):
        x[(spots > 0.02 * k) & (spots < 0.02 * (k + 1))] = value
    function = window_kernel(kind, height, width, 0, 0)
    (result,) = by_text(function, x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x, (height, width))
    pieces = pieces.reshape(*result.shape, height * width)
    with np.errstate(all="ignore"):
        wanted = getattr(np, kind)(pieces, axis=2)
    assert np.isnan(wanted).any()
    assert np.isfinite(wanted).any()
    if kind in ("min", "max", "median"):
        np.testing.assert_array_equal(result, wanted)
    else:
        np.testing.assert_allclose(result, wanted, rtol=1e-5)


@pytest.mark.parametrize("quantile", [0, 12.5, 25, 50, 62.5, 100])
@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_percentiles_beside_an_infinity_are_those_of_debug(quantile, infinity):
    @npt.stencil(boundary="reflect")
    def kernel(x):
        return np.percentile(x[-2:3], quantile)

    signal = np.array([3.0, infinity, 1.0, 2.0, 5.0, 4.0, infinity, infinity, math.nan, 0.0, 6.0])
    np.testing.assert_array_equal(kernel(signal), kernel.debug(signal))
    assert kernel(signal[3:6])[1] == np.percentile([2.0, 2.0, 5.0, 4.0, 4.0], quantile)
    assert np.isnan(kernel(signal)[6:]).all()


# Several rows at once.


def spread(x):
    return x[-1:2, -1:2].max() - x[-1:2, -1:2].min()


def bend(x):
    return x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0]


def two_of_two(x, y):
    return x[0:2, 0:3].max(), y[-1, 0] + 2 * y[-1, 1]


@pytest.mark.parametrize(
    ("function", "dtypes", "loads"),
    [
        (spread, ["uint16"], 15 / 3),
        (bend, ["float32"], (5 + 2 * 3) / 3),
        (lambda x: np.median(x[-1:2, 0:3]), ["float64"], 15 / 3),
        (lambda x: x[-1:2, 0:2].argmin(), ["int16"], 10 / 3),
        (lambda x: x[2, -1:2, -1:2].mean(), ["float32"], 15 / 3),
    ],
)
def test_rows_that_share_are_made_together(function, dtypes, loads):
    stages = stages_of(function, *dtypes, schedule=Schedule())
    assert stages.lowered.rows > 1
    assert not stages.lowered.stages
    counted, single = work(stages.lowered), work(stages.single)
    assert counted.loads == loads
    assert counted.loads + counted.stores < single.loads + single.stores
    assert "in range(0, many, 3):" in stages.compiled.module.text


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x[-2:3, -2:3].mean(), "float32"),
        (lambda x: (x[-2:3, -2:3] * SMOOTH).sum(), "float32"),
    ],
)
def test_stages_make_several_rows_in_a_turn(function, dtype):
    stages = stages_of(function, dtype, schedule=Schedule())
    assert stages.lowered.rows > 1
    assert stages.lowered.stages
    for shape in ((1, 9), (2, 9), (7, 9), (14, 12)):
        x = image(dtype, shape)
        one = by_text(function, x, schedule=Schedule(rows=1))
        agreement.compare_exactly(by_text(function, x), one)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: x[-4:5, -4:5].sum(), "float32"),  # done with hardly fewer loads
        (lambda x: 2 * x[0, 0] + 1, "float32"),
        (lambda x: x[0, -1] + x[0, 0] + x[0, 1], "float32"),
        (lambda x: x[-1] + x[1], "float32"),
        (lambda x: x[-1, 0, 0] + x[1, 0, 0] + x[0, 1, 0] + x[0, 0, 0], "float32"),
        (bend, "uint8"),  # rows of bytes are in the first cache as they are
        (lambda x: x[-9:10, -9:10].std(), "float64"),  # a loop at each point
    ],
)
def test_other_rows_are_made_one_by_one(function, dtype):
    assert lowered(function, dtype, schedule=Schedule()).rows == 1


@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("height", [3, 4, 5, 6, 7, 8, 11])
def test_values_of_rows_made_together(rows, height):
    schedule = Schedule(rows=rows, gain=99.0)
    for function, dtype in ((spread, "int8"), (bend, "int16"), (small_middle, "float32")):
        x = image(dtype, (height, 9))
        assert lowered(function, dtype, schedule=schedule).rows == rows
        agree(function, x, schedule=schedule, close=1e-6)
    x, y = image("uint8", (height, 9)), image("uint8", (height, 9), seed=1)
    agree(two_of_two, x, y, schedule=schedule)


def test_what_scalars_make_is_no_work_that_rows_share():
    def scaled(x, a):
        return x[0, 0] * (a * a + 1 / a)

    assert lowered(scaled, "float32", schedule=Schedule()).rows == 1


def test_sums_that_are_used_twice_stay_narrow():
    """Numba adds in 64 bits; LLVM alone would leave it so."""
    names: dict[str, Any] = {}
    exec(text(recipe, "uint8", schedule=Schedule(rows=2, gain=99.0)), names)
    row_of = numba.types.Array(numba.uint8, 1, "C")
    function = names["band_rows"]
    function.compile((row_of,) * 6 + (numba.int64,))
    (code,) = function.inspect_llvm().values()
    assert "x i16>" in code
    assert "x i64>" not in code


# Compiled.


def small_middle(x):
    return np.median(x[-1:2, 0:3])


def all_at_once(x):
    part = x[-4:6, -3:8]
    return part.sum(), part.max(), np.uint8(round(part.mean())), part.std()


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (all_at_once, "uint8"),
        (small_middle, "float32"),
        (weighted_floats, "float32"),
        (bend, "int16"),
        (spread, "float64"),
    ],
)
def test_compiled(function, dtype):
    x = image(dtype, (2, 12, 13))
    if dtype == "float32":
        x[0, 3, 3] = np.nan
    stencil = npt.stencil(function, boundary="reflect")
    results = stencil(x)
    results = results if isinstance(results, tuple) else (results,)
    for k, plane in enumerate(x):
        for one, other in zip(results, by_text(function, plane, boundary="reflect"), strict=True):
            np.testing.assert_array_equal(one[k], other)
