"""Windows of every size, shape and type: each algorithm that a window may go by gives `debug`.

Generated code runs as plain Python on checked arrays; a few kernels are compiled at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import kernels
import ninepoint as npt
from nightly import only
from seams import interpreted, plan_of

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


def tupled(results: Any) -> tuple[np.ndarray, ...]:
    return results if isinstance(results, tuple) else (results,)


def plainly(function: Callable[..., Any], *fields: np.ndarray, **options: Any) -> Any:
    """The results of generated code, run as plain Python."""
    options.setdefault("boundary", "mirror")
    with interpreted():
        return npt.stencil(**options)(function)(*fields)


def agree(
    function: Callable[..., Any], *fields: np.ndarray, close: float = 0.0, **options: Any
) -> None:
    """The results are those of `debug`: exactly, or to a part of the largest element."""
    options.setdefault("boundary", "mirror")
    same(npt.stencil(**options)(function), *fields, close=close)


def same(stencil: npt.Stencil, *fields: np.ndarray, close: float = 0.0) -> None:
    """As `agree` does, of a stencil that may be called again."""
    with interpreted():
        made = tupled(stencil(*fields))
    for one, other in zip(made, tupled(stencil.debug(*fields)), strict=True):
        assert one.dtype == other.dtype
        if close and one.dtype.kind in "fc":
            scale = float(np.nanmax(np.abs(other[np.isfinite(other)]), initial=1.0))
            np.testing.assert_allclose(one, other, rtol=close, atol=close * scale)
        else:
            np.testing.assert_array_equal(one, other)


def image(dtype: str, shape: tuple[int, ...] = (7, 9), seed: int = 0) -> np.ndarray:
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


@pytest.mark.parametrize("kind", only(5, KINDS))
def test_many_windows(kind):
    dtypes = ["uint8", "int16", "float32", "bool", "int64", "uint64", "float64", "uint32"]
    for number, (height, width, down, right) in enumerate(WINDOWS):
        if kind == "median" and height * width > 60:
            continue
        dtype = dtypes[(number + len(kind)) % 8]
        if dtype == "bool" and kind == "squares":
            continue
        stack = image(dtype, (2, 4, 5), seed=number)
        if dtype in ("int64", "uint64") and kind == "two":
            stack //= 2**40  # the sum, which wraps, says nothing about the deviation
        close = 3e-6 if dtype == "float32" else 1e-12
        agree(window_kernel(kind, height, width, down, right), stack, close=close)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize(("height", "width"), [(11, 3), (3, 11), (3, 3), (1, 20)])
def test_sums_wrap_at_64_bits(dtype, height, width):
    x = image(dtype, (14, 25))
    result = plainly(window_kernel("sum", height, width, 0, 0), x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x.astype(object), (height, width))
    exact = pieces.sum(axis=(2, 3)) % 2**64
    np.testing.assert_array_equal(result.view("uint64").astype(object), exact)


@pytest.mark.parametrize(
    ("radix", "length"), only(8, itertools.product([0, 2, 3, 4], [9, 17, 30, 64]))
)
def test_doubling_of_any_length(length, radix):
    """So many elements are done as few parts that overlap, or that lie side by side."""
    schedule = npt.Schedule(radix=radix, direct=2)
    for kind in ("min", "sum"):
        across = window_kernel(kind, 1, length, 0, -4)
        agree(across, image("int16", (1, 70)), schedule=schedule, boundary="valid")
        down = window_kernel(kind, length, 1, -3, 0)
        agree(down, image("uint8", (70, 1)), schedule=schedule, boundary="valid")


def tall_sum(x):
    return x[-9:10, -1:2].sum()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64", "bool", "float64"])
def test_sums_that_run_down_the_rows(dtype):
    agree(tall_sum, image(dtype, (25, 4)), close=1e-12)


IN_VOLUMES = [
    lambda x: x[1, -1:2, -1:2].var(),
    lambda x: x[-1:2, -1:2, -1:2].var(),
    lambda x: x[-1:2, 1, -1:2].std(),
    lambda x: x[-1, -9:2, 1].var(),
    lambda x: np.median(x[1, -1:2, 0:3]),
    lambda x: np.median(x[-1:2, -3:2, 1]),
    lambda x: (x[1, -1:2, -1:2] + 1).sum(),
    lambda x: (x[-1:2, -1:2, -1:2] + 1).max(),
    lambda x: (x[-1:2, -1:2, -1:2] * CUBE).sum(),
    lambda x: (x[-1:2, -1:2, -1:2] * (CUBE * 0.5)).sum(),
    lambda x: (x[-1, -1:2, -1:2] * (CUBE[1] * 0.5)).sum(),
    lambda x: x[-1, -10:2, -1:2].sum(),
]


@pytest.mark.parametrize("dtype", ["uint8", "float64", "int64"])
def test_windows_in_other_planes(dtype):
    """A stage is kept for rows of one plane; which plane it is must not be forgotten."""
    for function in IN_VOLUMES:
        agree(function, image(dtype, (3, 4, 5)), close=1e-12)


# Weights.

TRUE = np.array([[True, False, True], [False, False, False], [True, False, True]])
MANY = {
    "bool": np.array([True, False, True]),
    "bool in two axes": TRUE,
    "bool without a product": CROSS > 0,
    "all false": np.zeros((3, 3), bool),
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
    x = image(dtype)[(0,) * (2 - weights.ndim)]
    x = np.ascontiguousarray(x) // 2**40 if dtype == "int64" else np.ascontiguousarray(x)
    agree(lambda x: (x[part] * weights).sum(), x, close=1e-6)
    agree(lambda x: (weights * (x[part] > 0)).sum(), x, close=1e-6)
    if name not in ("uint64", "int64"):  # the sum wraps before it is divided
        agree(lambda x: (x[part] * weights).mean(), x, close=1e-6)


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble", "U1", "M8[D]", "object"])
def test_weights_that_no_kernel_can_use_are_refused(dtype):
    weights = np.zeros(3, dtype)
    with pytest.raises(npt.StencilError, match="'weights' cannot be used in a kernel"):
        npt.stencil(lambda x: (x[-1:2] * weights).sum())(np.arange(5))


def weighted(part: tuple[slice, ...], table: np.ndarray) -> Any:
    return lambda x: (x[part] * table).sum()


@pytest.mark.parametrize("shape", [(3,), (1, 4), (2, 2), (3, 3), (5, 2), (2, 3, 2)])
def test_weights_that_are_a_product_and_those_that_are_nearly(shape):
    """Products go axis by axis, and what differs from one in one number must not."""
    rng = np.random.default_rng(len(shape))
    part = tuple(slice(0, n) for n in shape)
    for number in range(4):
        table = np.ones((), int)
        for n in shape:
            table = np.multiply.outer(table, rng.integers(-4, 5, n))
        if number % 2:
            table.flat[rng.integers(table.size)] += rng.integers(-1, 2)
        x = image("int16", tuple(n + 2 for n in shape), seed=number)
        agree(weighted(part, table), x, boundary="valid")
        near = table / 7
        near.flat[0] += 1e-9 * (number % 4 == 0)
        agree(weighted(part, near), x / 3, close=1e-12, boundary="valid")


def weighted_floats(x):
    return np.sum(SMOOTH * x[-2:3, -2:3])


def weighted_integers(x):
    return (x[-1:2, -2:2] * BINOMIAL).sum()


def of_squares(x):
    return ((x[-2:3, -2:3] + 1) ** 2).sum()


@pytest.mark.parametrize("boundary", ["mirror", "fill", "wrap"])
def test_windows_that_go_axis_by_axis(boundary):
    for dtype in ("int16", "int64", "uint64"):
        agree(weighted_integers, image(dtype), boundary=boundary)
    agree(of_squares, image("int16"), boundary=boundary)
    # float64 weights: no sum of elements is rounded to, or wraps in, a narrower type.
    for dtype in ("float64", "uint8", "float32", "int64", "uint64"):
        x = image(dtype)
        if dtype == "float32":
            x[::3] *= np.float32(1e36)
        agree(weighted_floats, x, close=1e-14, boundary=boundary)


def uses_a_local(x):
    centre = x[0, 0]
    return abs(x[-1:2, -1:2] - centre).sum()


def of_places(x):
    return (x[-1:2, -1:2] > x[-1, -1]).sum()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_windows_that_depend_on_the_point(dtype):
    for function in (uses_a_local, of_places, lambda x: (x[-1:2, -1:2] * CROSS).sum()):
        agree(function, image(dtype), close=1e-6)


# Variance.


def test_variance_of_integers_is_exact():
    x = image("uint8", (9, 9))
    result = plainly(window_kernel("var", 3, 3, -1, -1), x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).reshape(7, 7, 9)
    for found, items in zip(result.ravel(), pieces.reshape(-1, 9).tolist(), strict=True):
        exact = Fraction(9 * sum(i * i for i in items) - sum(items) ** 2, 81)
        assert found == float(exact)


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("height", "width"), only(3, [(9, 9), (12, 12), (31, 31), (1, 200), (45, 4)])
)
def test_variance_of_floats_keeps_its_digits(dtype, height, width):
    """Within 16 units of itself, and the square of the rounding of a mean.

    Squares about a rounded mean hold that rounding's square.  Large windows take it away again,
    and so do far better than NumPy.
    """
    means = ["0", "1e3", "1e5", "1e9", "1e12", "1e14"]
    with interpreted():
        variance = npt.stencil(window_kernel("var", height, width, 0, 0), boundary="valid")
        for data in [*means, "ramp", "step", "outliers", "equal", "nearly equal"]:
            x = hard(data, dtype, (height + 2, width + 2))
            check_variance(variance(x), x, (height, width))


def check_variance(result: np.ndarray, x: np.ndarray, shape: tuple[int, int]) -> None:
    pieces = np.lib.stride_tricks.sliding_window_view(x, shape)
    unit = Fraction(float(np.finfo(x.dtype).eps))
    assert result.shape == (3, 3)
    for place in np.ndindex(3, 3):
        items = pieces[place].ravel().tolist()
        exact = exact_variance(items)
        if exact > np.finfo(x.dtype).max:
            assert not np.isfinite(result[place])
            continue
        rounding = 4 * unit * Fraction(max(map(abs, items)))
        if math.prod(shape) > 130:
            rounding *= Fraction(1, 2**29) if x.dtype == "float32" else Fraction(1, 64)
        assert abs(Fraction(float(result[place])) - exact) <= 16 * unit * exact + rounding**2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_deviations_of_equal_floats_are_numbers(dtype):
    for value in (0.1, 1e-20, 3e30, 7.7e5):
        x = np.full((33, 33), value, dtype)
        result = plainly(lambda x: x[0:31, 0:31].std(), x, boundary="valid")
        assert (result <= np.abs(x[0, 0]) * 1e-7).all()


# Ranks.


def rank_kernel(height: int, width: int, rank: int) -> Any:
    part, fraction = (slice(0, height), slice(0, width)), rank / (height * width - 1)
    return lambda x: np.quantile(x[part], fraction)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_every_rank_of_every_window_of_zeros_and_ones(dtype):
    """What only compares and exchanges is right if it is right for zeros and ones.

    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.4, theorem Z.
    """
    for height, width in ((1, 2), (1, 5), (3, 3), (4, 2)):
        count = height * width
        lists = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        frames = lists.astype(dtype).reshape(-1, height, width)
        ordered = np.sort(lists, axis=1)
        for rank in range(count):
            made = plainly(rank_kernel(height, width, rank), frames, boundary="valid")
            np.testing.assert_array_equal(made.ravel(), ordered[:, rank])


@pytest.mark.parametrize("percent", [0, 10, 37.5, 50, 90, 100])
def test_percentiles(percent):
    for dtype in ("uint8", "float32", "int64"):
        agree(
            lambda x: (
                np.percentile(x[-1:2, -1:3], percent),
                np.percentile(x[0, -1:3], percent),
            ),
            image(dtype, (4, 5)),
            close=1e-6,
        )


@pytest.mark.parametrize("quantile", [0, 12.5, 25, 50, 62.5, 100])
@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_percentiles_beside_an_infinity(quantile, infinity):
    def kernel(x):
        return np.percentile(x[-2:3], quantile)

    signal = np.array([3.0, infinity, 1.0, 2.0, 5.0, 4.0, infinity, infinity, math.nan, 0.0, 6.0])
    agree(kernel, signal, boundary="reflect")
    made = plainly(kernel, signal, boundary="reflect")
    assert np.isnan(made[6:]).all()


RING = npt.shapes.ring(2, 1)
HOLES = np.zeros((3, 2, 3, 2), bool)
HOLES[0, 1, 2, 0] = HOLES[2, 0, 0, 1] = HOLES[1, 1, 1, :] = True
CORNER = np.zeros((3, 4), bool)
CORNER[2, 0] = CORNER[0, 3] = CORNER[0, 0] = True
SLIDING: dict[str, tuple[int, Callable[..., Any]]] = {
    "box": (2, lambda x: np.median(x[-1:3, -2:2])),
    "ring": (2, lambda x: np.percentile(x[-2:3, -2:3][RING], 35)),
    "corners": (2, lambda keys: np.median(keys[-2:1, 1:5][CORNER])),
    "line": (1, lambda x: np.quantile(x[-3:5], 0.7)),
    "column": (2, lambda x: np.median(x[-2:3, 0])),
    "ball": (3, lambda x: np.median(x[-1:2, -1:2, -1:2][npt.shapes.ball(1)])),
    "box of planes": (3, lambda x: np.median(x[0:2, 1, -1:2])),
    "holes": (4, lambda x: np.quantile(x[-1:2, 0:2, -1:2, 0:2][HOLES], 1 / 3)),
}
SHAPES = {1: (9,), 2: (5, 7), 3: (3, 4, 5), 4: (2, 3, 2, 4)}


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Some of them equal, some at the ends of the type, and if it has them NaN and two zeros."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        x = rng.integers(max(-9, info.min), 9, shape).astype(kind)
        x.flat[:2] = info.min, info.max
        return x
    x = rng.standard_normal(shape).round(1).astype(kind)
    x.flat[:5] = np.inf, -np.inf, -0.0, 0.0, np.nan
    return x


@pytest.mark.parametrize("name", only(5, SLIDING))
def test_ranks_of_windows_that_slide(name: str, limited: Any) -> None:
    """Every window slides, however small: by its places in order, or by a histogram of bytes."""
    limited(sorted_elements=60, sorted_columns=5, sorted_windows=1)
    schedule = npt.Schedule(network=0, sorted_columns=0)
    ndim, function = SLIDING[name]
    dtypes = ("float32", "int64", "float64", "uint32", "uint64", "int32", "uint8", "int8")
    rules = ("mirror", "constant", "wrap", "valid", "fill", "reflect", "nearest", "valid")
    # Every type by every second shape.
    first = list(SLIDING).index(name) // 2 % 2
    for k, (dtype, rule) in list(enumerate(zip(dtypes, rules, strict=True)))[first::2]:
        # Between two elements float32 rounds otherwise than the reference does.
        close = 2e-6 if dtype == "float32" else 1e-13
        x = numbers(dtype, SHAPES[ndim], k)
        agree(function, x, close=close, boundary=rule, schedule=schedule)


# Shapes and masks.

HOLED = np.array(
    [[0, 1, 1, 1, 0, 0, 1], [1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]],
    dtype=bool,
)
BALL, WIDE, HUGE = npt.shapes.ball(2), npt.shapes.disk(4.2), npt.shapes.ring(13, 4)
LINE = np.array([1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1], dtype=bool)


def largest(x):
    return x[-2:2, -1:6][HOLED].max(), x[-2:2, -1:6][HOLED].mean()


def deviation(x):
    return x[-2:2, 0:7][HOLED].var()


def computed(x):
    d = x[0, 1] - x[0, 0]
    return d[-2:2, -1:6][HOLED].min() + np.abs(x[-2:2, -1:6])[HOLED].sum()


def ball(x):
    near = x[-2:3, -2:3, 0:5]
    return near[BALL].min(), near[BALL].sum()


def line(x):
    return x[-12:-1][LINE].max() - x[-12:-1][LINE].sum()


def counted(x):
    return np.percentile(x[-4:5, -4:5][WIDE], 40), np.median(x[-4:5, -4:5][WIDE])


def slid(x):
    return np.percentile(x[-13:14, -13:14][HUGE], 40)


@pytest.mark.parametrize(
    ("kernel", "dtype", "shape"),
    [
        (largest, "uint8", (9, 8)),
        (largest, "float32", (3, 11)),
        (deviation, "int16", (6, 7)),
        (computed, "int16", (6, 9)),
        (ball, "uint8", (5, 6, 4)),
        (ball, "float64", (3, 3, 7)),
        (line, "int64", (9,)),
        (counted, "uint8", (5, 6)),
        (counted, "int8", (5, 6)),
        (counted, "bool", (5, 6)),
        (slid, "uint8", (4, 7)),
    ],
)
def test_shapes_go_as_runs(kernel: Any, dtype: str, shape: Any) -> None:
    x = np.random.default_rng(len(shape)).integers(0, 101, shape)
    x = (x > 50 if dtype == "bool" else x - 50 if dtype[0] != "u" else x).astype(dtype)
    if dtype == "float32":
        x[1, 2] = np.nan
    # What is written out otherwise is done in runs, and counted.
    schedule = npt.Schedule(direct=1, network=0)
    rule = "wrap" if len(shape) + shape[0] & 1 else "constant"
    agree(kernel, x, close=1e-5, schedule=schedule, boundary=rule, cval=1)


def shaped(mask: np.ndarray) -> Any:
    part = tuple(slice(0, n) for n in mask.shape)
    return lambda x: (x[part][mask].max(), x[part][mask].sum())


@pytest.mark.parametrize("seed", range(4))
def test_sums_and_extremes_of_any_shape(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        mask = rng.random(rng.integers(1, 9, 2)) < rng.choice([0.3, 0.7, 1])
        mask.flat[0] = True
        x = image("int16", tuple(n + 3 for n in mask.shape), seed)
        agree(shaped(mask), x, boundary="valid", schedule=npt.Schedule(direct=1))


DISK, SMALL, NOTHING = npt.shapes.disk(4), npt.shapes.disk(2), np.zeros((3, 3), bool)
MASKED: list[Callable[..., Any]] = [
    # Done as the window of the disk alone, where that changes nothing ...
    lambda x: np.where(DISK, x[-4:5, -4:5], -np.inf).max(),
    lambda x: np.where(~DISK, np.inf, x[-4:5, -4:5]).min(),
    lambda x: np.where(DISK, x[-4:5, -4:5], 0).max(),
    lambda x: np.where(DISK, x[-4:5, -4:5], 0).sum(),
    lambda x: (x[-4:5, -4:5] * DISK).sum(),
    # ... and as it is written, where it would.
    lambda x: np.where(SMALL, x[-2:3, -2:3], 3).max(),
    lambda x: np.where(SMALL, x[-2:3, -2:3], 0).mean(),
    lambda x: np.where(NOTHING, x[-1:2, -1:2], -np.inf).max(),
    lambda x: np.where(SMALL, x[-2:3, -2:3], x[0, 0]).min(),
    lambda x: np.where(SMALL, x[-2:3, -2:3] > 2, True).all(),
    lambda x: np.where(DISK, x[-4:5, -4:5], -np.inf).max() - x[0, 0],
]


@pytest.mark.parametrize("dtype", ["f4", "i1", "?"])
def test_windows_under_a_mask(dtype: str) -> None:
    x = (np.random.default_rng(0).standard_normal((5, 4)) * 9).astype(dtype)
    if dtype == "f4":
        x[1, 2], x[4, 3] = np.nan, -np.inf
    for function in MASKED:
        if dtype == "?" and function is MASKED[-1]:
            continue
        agree(function, x, close=1e-6)


# Sums as they are written, sharing, whole numbers and division.

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


def quarter(x):
    return (smooth_row(x, -1) + smooth_row(x, 0) * 2 + smooth_row(x, 1)) * 0.0625


def edges(x):
    return x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]


def of_two(x):
    return x[0, 0] + x[0, 1] + x[1, 0] + x[1, 1] + x[-1, -1] * x[0, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64"])
def test_sums_of_integers_as_they_are_written(dtype):
    for function in (recipe, in_locals, in_helpers, in_a_loop, negative, edges, of_two):
        agree(function, image(dtype, (5, 6)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_floats_keep_their_order_unless_the_user_says_otherwise(dtype):
    for function in (in_locals, in_a_loop, quarter):
        agree(function, image(dtype, (5, 6)))
        agree(function, image(dtype, (5, 6)), close=1e-6, fastmath=True)


def slope(x, i, j):
    return math.exp(abs(x[i, j + 1] - x[i, j - 1]) / 8)


def three_slopes(x):
    return slope(x, 0, 0) + slope(x, 1, 0) - slope(x, 1, 3)


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_what_neighbours_share_changes_no_bit(dtype):
    x = image(dtype, (5, 8)) // 4
    agree(three_slopes, x, close=1e-14)
    apart = plainly(three_slopes, x, schedule=npt.Schedule(shared=math.inf))
    np.testing.assert_array_equal(plainly(three_slopes, x), apart)


def test_stages_that_read_the_same_rows():
    tilted = np.array([[-1, 0, 1], [-3, 0, 3], [-1, 0, 1]], "float32")

    def steepness(x):
        across = (x[-1:2, -1:2] * tilted).sum()
        return abs(across) + abs((x[-1:2, -1:2] * tilted.T).sum())

    agree(steepness, image("float32", (8, 9)), close=1e-5, boundary="nearest")


@pytest.mark.parametrize("divisor", [2, 3, 4, 6, 7, 9, 10, 25, 32, 1000])
def test_every_rounded_quotient(divisor):
    """Ties go to the even neighbour; negative numbers too."""
    x = np.arange(-4 * divisor - 3, 4 * divisor + 4, dtype="int16").reshape(1, -1)[:, -1200:]
    agree(
        lambda x: (
            round(x[0, 0] / divisor),
            int(np.rint(x[0, 0] / divisor)),
            int(np.floor(x[0, 0] / divisor)),
            math.floor(x[0, 0] / divisor) * 2,
            math.ceil(x[0, 0] / divisor),
            int(x[0, 0] / divisor),
        ),
        x,
    )


def test_rounded_windows():
    agree(lambda x: np.uint8(round(x[-1:2, -1:2].mean())), image("uint8"))
    agree(lambda x: np.uint8(np.median(x[-1:2, -1:2])), image("uint8"))
    agree(lambda x: int(np.floor((x[0, 1] - x[0, 0]) / 7)), image("int16"))
    for dtype in ("uint8", "int16", "float32"):
        agree(lambda x: int(np.rint(x[0:2, 0:2].mean())), image(dtype) // 2)


def divided(by: list[int]) -> Any:
    """By each number: the quotient and the remainder, one after the other."""
    lines = "".join(f"x[0] // {d}, x[0] % {d}, " for d in by)
    return kernels.compiled(f"def kernel(x):\n    return {lines}\n")


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_quotients_and_remainders_of_every_number(dtype):
    """Division by a constant is a multiplication, whatever is divided."""
    info = np.iinfo(dtype)
    step = 1 if info.bits == 8 else 13
    x = np.arange(info.min, info.max + 1, step).astype(dtype)
    divisors = [2, 3, 5, 7, 9, 25, 49, 255, 961, 32767, 32768, 65535, 65536]
    if info.bits == 8:
        divisors = [*range(1, 70), 127, 128, 255, 256, 1000]
    with interpreted():
        for start in range(0, len(divisors), 8):
            some = divisors[start : start + 8]
            made = tupled(npt.stencil(divided(some))(x))
            for k, d in enumerate(some):
                np.testing.assert_array_equal(made[2 * k].astype("int64"), x.astype("int64") // d)
                np.testing.assert_array_equal(
                    made[2 * k + 1].astype("int64"), x.astype("int64") % d
                )


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_quotients_of_large_numbers_where_they_are_hardest(dtype):
    """At multiples of the divisor, and just below."""
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    for divisor in (2, 7, 10, 641, 2**31 - 1, 2**20):
        quotients = rng.integers(info.min // divisor, info.max // divisor, 60, dtype)
        multiples = [int(q) * divisor for q in quotients]
        ends = [info.min, info.max, 0]
        x = np.array([v - s for v in multiples for s in (0, 1) if v - s >= info.min] + ends, dtype)
        agree(divided([divisor]), x)


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
@pytest.mark.parametrize(("height", "width"), [(1, 31), (31, 1), (9, 9), (40, 5)])
def test_error_of_float_windows(kind, dtype, height, width):
    """Within u * depth * (sum of magnitudes), u half a unit in the last place.

    Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
    section 4.2: the bound of a sum in a tree of that depth, to first order in u.  A running
    sum has no such bound: what left the window long ago still counts.
    """
    rng = np.random.default_rng(height)
    shape = (height + 4, width + 4)
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
    x[0, 1] = 1e30  # gone from most windows, and so must be its rounding
    result = plainly(window_kernel(kind, height, width, 0, 0), x, boundary="valid")
    pieces = np.lib.stride_tricks.sliding_window_view(x, (height, width))
    half_unit = np.finfo(dtype).eps / 2
    deep = depth(height) + depth(width) + (kind == "mean")
    count = height * width if kind == "mean" else 1
    for place in np.ndindex(result.shape):
        items = pieces[place].ravel().tolist()
        bound = deep * half_unit * math.fsum(map(abs, items)) / count
        assert abs(float(result[place]) - math.fsum(items) / count) <= bound * 1.01


SPECIAL = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("kind", ["min", "max", "median", "mean", "sum"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_infinity_spread_as_they_should(kind, dtype):
    for height, width in [(3, 3), (1, 12), (2, 3), (11, 2)]:
        rng = np.random.default_rng(height * width)
        x = rng.integers(-9, 9, (14, 20)).astype(dtype)
        spots = rng.random(x.shape)
        for k, value in enumerate(SPECIAL):
            x[(spots > 0.02 * k) & (spots < 0.02 * (k + 1))] = value
        result = plainly(window_kernel(kind, height, width, 0, 0), x, boundary="valid")
        pieces = np.lib.stride_tricks.sliding_window_view(x, (height, width))
        pieces = pieces.reshape(*result.shape, height * width)
        with np.errstate(all="ignore"):
            wanted = getattr(np, kind)(pieces, axis=2)
        assert np.isnan(wanted).any()
        assert np.isfinite(wanted).any()
        close = 0 if kind in ("min", "max", "median") else 1e-5
        np.testing.assert_allclose(result, wanted, rtol=close, atol=0)


# Several rows at once, and results that are apart.


def spread(x):
    return x[-1:2, -1:2].max() - x[-1:2, -1:2].min()


def bend(x):
    return x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0]


def small_middle(x):
    return np.median(x[-1:2, 0:3])


def two_of_two(x, y):
    return x[0:2, 0:3].max(), y[-1, 0] + 2 * y[-1, 1]


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_rows_made_together(rows):
    schedule = npt.Schedule(rows=rows, gain=99.0)
    for function, dtypes in (
        (spread, ["int8"]),
        (bend, ["int16"]),
        (small_middle, ["float32"]),
        (two_of_two, ["uint8", "uint8"]),
    ):
        stencil = npt.stencil(schedule=schedule, boundary="mirror")(function)
        for height in (3, 4, 5, 6, 7, 8, 11):
            fields = [image(dtype, (height, 5), k) for k, dtype in enumerate(dtypes)]
            same(stencil, *fields, close=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: x[-2:3, -2:3].mean(), lambda x: (x[-2:3, -2:3] * SMOOTH).sum()]
)
def test_stages_make_several_rows_in_a_turn(function):
    for shape in ((1, 9), (2, 9), (7, 9), (14, 12)):
        x = image("float32", shape)
        one = plainly(function, x, schedule=npt.Schedule(rows=1))
        np.testing.assert_array_equal(plainly(function, x), one)


BINOMIALS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype("float32")


@pytest.mark.parametrize("every", [(2, 2), (2, 3), (1, 4), (3, 1)])
def test_nothing_beyond_the_array_is_read_for_results_that_are_apart(every):
    """The lowest columns may be one more than those beside them."""
    pooled = npt.stencil(lambda x: x[0:2, 0:2].mean(), boundary="valid")
    weighted = npt.stencil(lambda x: (x[-2:3, -2:3] * BINOMIALS).sum(), boundary="valid")
    with interpreted():
        for columns in range(5, 10):
            x = np.random.default_rng(columns).random((9, columns), dtype="float32")
            for stencil in (pooled, weighted):
                wanted = stencil(x)[:: every[0], :: every[1]]
                np.testing.assert_array_equal(stencil(x, every=every), wanted)


# How much is done.


@pytest.mark.parametrize(
    ("function", "dtype", "most"),
    [
        (lambda x: x[-1:3, -2:3].mean(), "uint8", 9),
        (lambda x: x[-1:3, -2:3].mean(), "float32", 9),
        (weighted_integers, "int16", 7),
        (weighted_floats, "float64", 10),
        (lambda x: (x[-1:2, -1:2, -1:2] * CUBE).sum(), "int16", 8),
        (lambda x: x[-20:11, 3].max(), "uint8", 10),
        (lambda x: x[0, -20:11].sum(), "float32", 11),
        (tall_sum, "uint8", 12),
        (recipe, "int8", 6),
        (in_helpers, "uint8", 6),
        (lambda x: x[-26:27, -26:27][npt.shapes.disk(26)].max(), "float32", 110),
        (lambda x: x[-26:27, -26:27][npt.shapes.disk(26)].sum(), "uint8", 110),
        (spread, "uint16", 5),
        (bend, "float32", 11 / 3),
        (lambda x: x[-1:2, 0:2].argmin(), "int16", 10 / 3),
    ],
)
def test_windows_are_few_loads(function, dtype, most):
    assert plan_of(npt.stencil(function), dtype).work.loads <= most


# Compiled.


def all_at_once(x):
    part = x[-4:6, -3:8]
    return part.sum(), part.max(), np.uint8(round(part.mean())), part.std()


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (all_at_once, "uint8"),
        (small_middle, "float32"),
        (weighted_floats, "float32"),
        (lambda x: (negated(x), cubes(x)), "uint8"),
        (lambda x: (mixed(x), chosen(x)), "int64"),
    ],
)
def test_compiled_code_gives_the_bits_of_the_text(function, dtype):
    x = image(dtype, (2, 12, 13))
    if dtype == "float32":
        x[0, 3, 3] = np.nan
    plain = tupled(plainly(function, x, boundary="reflect"))
    compiled = tupled(npt.stencil(function, boundary="reflect")(x))
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("shape", "dtype", "length", "axis"),
    only(4, [((250,), "float64", 97, 0), ((40, 61), "float32", 130, 0),
             ((40, 61), "float32", 97, 1), ((5, 7, 40), "float64", 130, 0),
             ((5, 7, 40), "float64", 97, 1), ((5, 7, 40), "float64", 130, 2)]),
)  # fmt: skip
def test_lines_of_many_weights(shape, dtype, length, axis):
    """They are added piece by piece: along each axis, beside what other lines make."""
    random = np.random.default_rng(len(shape))
    x, weights = random.random(shape).astype(dtype), random.random(length)
    before = length // 2
    widths, lengths = [(0, 0)] * len(shape), [1] * len(shape)
    widths[axis], lengths[axis] = (before, length - 1 - before), length
    padded = np.pad(x.astype("float64"), widths, mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, length, axis)
    made = npt.filters.correlate(x, weights.reshape(lengths))
    np.testing.assert_allclose(made, windows @ weights, rtol=1e-5 if dtype == "float32" else 1e-13)


def long_sum(x):
    total = 0.0
    for k in range(-60, 61):
        total += x[k] * (0.5 + k / 1000)
    return total


def test_a_long_sum_is_written_over_what_it_reads():
    kernel = npt.stencil(boundary="nearest")(long_sum)
    x = np.random.default_rng(1).random((30, 200))
    wanted = kernel(x)
    np.testing.assert_allclose(wanted[:2], kernel.debug(x[:2]), rtol=1e-13)
    np.testing.assert_array_equal(kernel(x.copy()), wanted)
    for shift in (0, 1):
        room = np.zeros((30, 200 + shift))
        room[:, :200] = x
        kernel(room[:, :200], out=room[:, shift:])
        np.testing.assert_array_equal(room[:, shift:], wanted)
    np.testing.assert_array_equal(kernel.iterate(x, steps=3), kernel(kernel(wanted)))


@pytest.mark.nightly
def test_a_wide_gaussian_of_bytes():
    x = np.random.default_rng(2).integers(0, 256, (60, 70), np.uint8)
    made = npt.filters.gaussian(x, 15.0)
    wanted = npt.filters.gaussian(x.astype("float64"), 15.0)
    assert made.dtype == np.uint8
    np.testing.assert_allclose(made, wanted, atol=0.501)


def long_weighted_sum(x, w):
    total = 0.0
    for k in range(-60, 61):
        total += x[k] * w[k + 60]
    return total


@pytest.mark.parametrize(
    ("way", "dtype"),
    [("interpreted", "float32"), ("compiled", "int16"), ("interpreted", "float16")],
)
def test_a_long_sum_of_weights_that_are_an_argument(dtype, way):
    kernel = npt.stencil(boundary="mirror", standard_indexing="w")(long_weighted_sum)
    random = np.random.default_rng(3)
    x = (random.random((2, 9, 3)) * 100).astype(dtype)
    w = random.random(121)
    with interpreted() if way == "interpreted" else contextlib.nullcontext():
        for axis in range(3):
            made = kernel(x, w, axes=axis)
            np.testing.assert_allclose(made, kernel.debug(x, w, axes=axis), rtol=1e-5)


def squares(x):
    step = x[0, -1] - x[0, 0]
    return step * step + x[0, 1]


def negated(x):
    down, across = x[-1, 0] - x[0, 0], x[0, 1] - x[0, 0]
    return -down * down * 3 + abs(across) - (across * 2) * (across * 2)


def signed(x):
    step = x[0, -1] - x[0, 0]
    return step * step + step


def cubes(x):
    step = x[0, -1] - x[0, 1]
    return step * step * step


def mixed(x):
    down, across = x[-1, 0] - x[0, 0], x[0, -1] - x[0, 0]
    return down * across + down * down


def chosen(x):
    step = x[0, -1] - x[0, 0]
    return step * step if step > 0 else abs(step)


def near(x):
    total = weights = x[0, 0] * 0.0
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            step = x[i, j] - x[0, 0]
            weight = np.exp(-step * step * 0.125)
            total += weight * x[i, j]
            weights += weight
    return total / weights


@pytest.mark.parametrize("kernel", [squares, negated, signed, cubes, mixed, chosen, near])
def test_squares_of_differences_have_the_sign_that_is_asked_for(kernel):
    for dtype in ("uint8", "int16", "uint64", "int64", "float32", "float64"):
        x = np.random.default_rng(5).integers(0, 9, (5, 9)).astype(dtype)
        agree(kernel, x, close=1e-6 if kernel is near else 0.0)


def test_a_bilateral_filter_is_computed_once_for_both_neighbours():
    program = npt.stencil(near)
    assert "read at 2 neighbours" in str(program.explain(np.zeros((40, 50), "float32")))
