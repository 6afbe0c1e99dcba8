"""Windows of every size, shape and type: each algorithm that a window may go by gives `debug`.

Generated code runs as plain Python on checked arrays; long lines and wide rows are compiled.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import kernels
import ninepoint as npt
from compared import agree, by_text, only, views
from seams import interpreted, plan_of

# Windows: height, width, and the offset of the first element, one-sided ones among them.
WINDOWS = [
    (11, 3, -5, -1), (3, 11, -1, -5), (9, 9, -4, -4), (31, 2, 1, -1), (2, 31, -3, 2),
    (1, 12, 0, -11), (12, 1, -14, 0), (5, 5, -2, -2), (13, 10, -6, 3), (3, 3, -1, -1),
]  # fmt: skip
BINOMIAL = np.outer([1, 2, 1], [1, 3, 3, 1])
SMOOTH = np.outer([1, 4, 6, 4, 1], [1, 2, 3, 2, 1]) / 144
CUBE = np.einsum("i,j,k->ijk", [1, 2, 1], [1, 0, -1], [1, 3, 1])
CROSS = np.array([[0, 1, 0], [1, 4, 1], [0, 1, 0]])
TILTED = np.array([[-1, 0, 1], [-3, 0, 3], [-1, 0, 1]], "float32")


def image(dtype: str, shape: tuple[int, ...] = (7, 9), seed: int = 0) -> np.ndarray:
    """An array that reaches the ends of its type."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        values = rng.normal(size=shape) * 100
        return values > 0 if kind.kind == "b" else values.astype(kind)
    info = np.iinfo(kind)
    found = rng.integers(info.min, info.max, shape, kind, endpoint=True)
    ends = rng.random(shape)
    found[ends < 0.1], found[ends > 0.9] = info.min, info.max
    return found


KINDS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda w: w.sum(), "mean": lambda w: w.mean(), "var": lambda w: w.var(),
    "max": lambda w: w.max(), "min": lambda w: np.min(w), "median": lambda w: np.median(w),
    "any": lambda w: (w > 1).any(), "all": lambda w: (w != 0).all(),
    "squares": lambda w: (w * w + 1).sum(), "two": lambda w: (w.sum() * 2 - w.max(), w.std()),
}  # fmt: skip


def over(kind: str, height: int, width: int, down: int = 0, right: int = 0) -> Any:
    function, part = KINDS[kind], (slice(down, down + height), slice(right, right + width))
    return lambda x: function(x[part])


@pytest.mark.parametrize("kind", only(5, KINDS))
def test_many_windows(kind):
    dtypes = ["uint8", "int16", "float32", "bool", "int64", "uint64", "float64", "uint32"]
    for number, (height, width, down, right) in enumerate(WINDOWS):
        dtype = dtypes[(number + len(kind)) % 8]
        if (kind == "median" and height * width > 60) or (kind, dtype) == ("squares", "bool"):
            continue
        stack = image(dtype, (2, 4, 5), seed=number)
        if dtype in ("int64", "uint64") and kind == "two":
            stack //= 2**40  # the sum, which wraps, says nothing about the deviation
        close = 3e-6 if dtype == "float32" else 1e-12
        agree(over(kind, height, width, down, right), stack, close=close)


@pytest.mark.parametrize(
    ("radix", "length"), [(0, 9), (0, 64), (2, 30), (3, 17), (3, 64), (4, 30)]
)
def test_doubling_of_any_length(length, radix):
    """So many elements are done as few parts that overlap, or that lie side by side."""
    options = {"schedule": npt.Schedule(radix=radix, direct=2), "boundary": "valid"}
    agree(over("min", 1, length, 0, -4), image("int16", (1, 70)), **options)
    agree(over("sum", length, 1, -3, 0), image("uint8", (70, 1)), **options)


MANY = {
    "bool": np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1]], bool), "bool without a product": CROSS > 0,
    "all false": np.zeros((3, 3), bool), "uint64": np.array([2**64 - 1, 0, 2**63 + 1], "uint64"),
    "int64": np.array([2**53 + 1, 1, -(2**62) - 1], "int64"),
    "float16": np.array([0.5, 0, 65504], "float16"), "other order": np.array([1, -2, 300], ">i2"),
    "complex": np.array([1, 2j, 0], "complex64"),
}  # fmt: skip


@pytest.mark.parametrize("name", MANY)
def test_weights_of_every_dtype(name):
    weights, number = MANY[name], list(MANY).index(name)
    part = (slice(-1, 2),) * weights.ndim
    for dtype in ("uint8", "int64", "float32", "bool")[number % 2 :: 2]:
        x = np.ascontiguousarray(image(dtype)[(0,) * (2 - weights.ndim)])
        x = x // 2**40 if dtype == "int64" else x
        agree(
            lambda x: ((x[part] * weights).sum(), (weights * (x[part] > 0)).sum()), x, close=1e-6
        )
        if name not in ("uint64", "int64"):  # the sum wraps before it is divided
            agree(lambda x: (x[part] * weights).mean(), x, close=1e-6)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (5, 2), (2, 3, 2)])
def test_weights_that_are_a_product_and_those_that_are_nearly(shape):
    """Products go axis by axis, and what differs from one in one number must not."""
    rng = np.random.default_rng(len(shape))
    part = tuple(slice(0, n) for n in shape)
    table = np.ones((), int)
    for n in shape:
        table = np.multiply.outer(table, rng.integers(1, 5, n))
    x = image("int16", tuple(n + 2 for n in shape))
    for apart in (0, 1):
        table.flat[0] += apart
        near = table / 7
        near.flat[1] += 1e-9 * apart
        for weights, values in ((table, x), (near, x / 3)):
            kernel = npt.stencil(lambda x: (x[part] * weights).sum(), boundary="valid")  # noqa: B023
            agree(kernel, values, close=1e-12)


HOLED = np.random.default_rng(7).random((4, 7)) < 0.6
BALL, WIDE, HUGE = npt.shapes.ball(2), npt.shapes.disk(4.2), npt.shapes.ring(13, 4)
LINE = np.array([1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1], dtype=bool)
DISK, SMALL, NOTHING = npt.shapes.disk(4), npt.shapes.disk(2), np.zeros((3, 3), bool)


def smooth_row(x, i):
    return x[i, -1] + 2 * x[i, 0] + x[i, 1]


def recipe(x):
    above = x[-1, -1] + x[-1, 0] + x[-1, 1]
    return (above + x[0, -1] + x[0, 0] + x[0, 1] + x[1, -1] + x[1, 0] + x[1, 1]) // 9


def in_helpers(x):
    return (smooth_row(x, -1) + smooth_row(x, 0) * 2 + smooth_row(x, 1) + 8) >> 4


def negative(x):
    return 3 - (smooth_row(x, 1) + smooth_row(x, -1) - 2 * -smooth_row(x, 0))


def of_two(x):
    return x[0, 0] + x[0, 1] + x[1, 0] + x[1, 1] + x[-1, -1] * x[0, 0]


def weighted_floats(x):
    return np.sum(SMOOTH * x[-2:3, -2:3])


def weighted_integers(x):
    return (x[-1:2, -2:2] * BINOMIAL).sum()


def steepness(x):
    """Both stages read the same rows."""
    return abs((x[-1:2, -1:2] * TILTED).sum()) + abs((x[-1:2, -1:2] * TILTED.T).sum())


def computed(x):
    d = x[0, 1] - x[0, 0]
    return d[-2:2, -1:6][HOLED].min() + np.abs(x[-2:2, -1:6])[HOLED].sum()


def counted(x):
    return np.percentile(x[-4:5, -4:5][WIDE], 40), np.median(x[-4:5, -4:5][WIDE])


# What is written out otherwise is done in runs, and counted.
RUNS = {"schedule": npt.Schedule(direct=1, network=0), "cval": 1}
# By what is looked at: a kernel, the types and the shape of a field, and options.
GROUPS: dict[str, list[tuple[Any, str, tuple[int, ...], dict[str, Any]]]] = {
    # A stage is kept for rows of one plane; which plane it is must not be forgotten.
    "planes": [
        (lambda x: x[-1:2, -1:2, -1:2].var(), "float64", (3, 4, 5), {}),
        (lambda x: x[-1, -9:2, 1].std(), "int64", (3, 4, 5), {}),
        (lambda x: x[-1:2, 1, -1:2].std(), "uint8", (3, 4, 5), {}),
        (lambda x: np.median(x[1, -1:2, 0:3]), "uint8", (3, 4, 5), {}),
        (lambda x: (x[-1, -1:2, -1:2] * (CUBE[1] * 0.5)).sum(), "float64", (3, 4, 5), {}),
        (lambda x: x[-1, -10:2, -1:2].sum(), "uint8", (3, 4, 5), {}),
    ],
    "axis by axis": [
        (weighted_integers, "int16", (7, 9), {}),
        (weighted_integers, "int64", (7, 9), {"boundary": "fill"}),
        (weighted_integers, "uint64", (7, 9), {"boundary": "wrap"}),
        (lambda x: ((x[-2:3, -2:3] + 1) ** 2).sum(), "int16", (7, 9), {}),
        (steepness, "float32", (7, 9), {"close": 1e-5}),
        # float64 weights: no sum of elements is rounded to, or wraps in, a narrower type.
        (weighted_floats, "float64 uint8 float32 uint64", (7, 9), {"close": 1e-14}),
    ],
    "runs": [
        (lambda x: (x[-2:2, -1:6][HOLED].max(), x[-2:2, -1:6][HOLED].mean()), "float32", (3, 11),
         RUNS | {"boundary": "constant"}),
        (lambda x: x[-2:2, 0:7][HOLED].var(), "int16", (6, 7), RUNS | {"boundary": "constant"}),
        (computed, "int16", (6, 9), RUNS | {"boundary": "constant"}),
        (lambda x: x[-2:3, -2:3, 0:5][BALL].min(), "uint8", (5, 6, 4), RUNS),
        (lambda x: x[-12:-1][LINE].max() - x[-12:-1][LINE].sum(), "int64", (9,), RUNS),
        (counted, "uint8 bool", (5, 6), RUNS | {"boundary": "wrap"}),
        (lambda x: np.percentile(x[-13:14, -13:14][HUGE], 40), "uint8", (4, 7), RUNS),
    ],
    # Done as the window of the disk alone, or as it is written where that would differ.
    "masks": [(function, "float32 int8", (5, 4), {}) for function in (
        lambda x: np.where(DISK, x[-4:5, -4:5], -np.inf).max(),
        lambda x: np.where(~DISK, np.inf, x[-4:5, -4:5]).min(),
        lambda x: (np.where(DISK, x[-4:5, -4:5], 0).max(), np.where(DISK, x[-4:5, -4:5], 0).sum()),
        lambda x: np.where(SMALL, x[-2:3, -2:3], 3).max(),
        lambda x: np.where(SMALL, x[-2:3, -2:3], 0).mean(),
        lambda x: np.where(NOTHING, x[-1:2, -1:2], -np.inf).max(),
        lambda x: np.where(SMALL, x[-2:3, -2:3], x[0, 0]).min(),
        lambda x: np.where(SMALL, x[-2:3, -2:3] > 2, True).all(),
        lambda x: np.where(DISK, x[-4:5, -4:5], -np.inf).max() - x[0, 0],
    )],
    "beside infinities": [
        (lambda x: tuple(np.percentile(x[-2:3], q) for q in (0, 12.5, 25, 50, 62.5, 100)),
         "float64", (13,), {"boundary": rule}) for rule in ("reflect", "valid")
    ],
    "sums as they are written": [
        *((one, "int8 uint64", (5, 6), {}) for one in (recipe, in_helpers, negative, of_two)),
        # Those of floats keep their order unless the user says otherwise.
        (of_two, "float32", (5, 6), {"close": 0.0}),
        (negative, "float64", (5, 6), {"close": 0.0}),
        (of_two, "float32", (5, 6), {"fastmath": True}),
        (negative, "float64", (5, 6), {"fastmath": True}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
def test_windows_of_every_kind(group):
    for kernel, dtypes, shape, options in GROUPS[group]:
        for dtype in dtypes.split():
            x = image(dtype, shape)
            if group in ("runs", "masks") and dtype == "float32":
                x[1, 2], x[2, 3] = np.nan, -np.inf
            if group == "beside infinities":
                x[1], x[4], x[7], x[8], x[11] = np.inf, -np.inf, np.inf, np.inf, np.nan
            if kernel is weighted_floats and dtype == "float32":
                x[::3] *= np.float32(1e36)
            close = 1e-5 if dtype == "float32" else 1e-12
            agree(kernel, x, **({"close": close} | options))


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
    if data == "ramp":
        noise += rows * 1e4 + columns * 1e5
    elif data == "step":
        noise += np.where(columns > shape[1] // 2, 1e6, -3.0)
    elif data == "outliers":
        # They enter windows and leave them; squares of float32 overflow.
        noise[1, 1], noise[-1, 2], noise[-2, -1] = 1e30, -1e30, 1e15
    elif data == "equal":
        noise[:] = 0.1
    elif data == "nearly equal":
        noise = 1 + 1e-6 * np.floor(noise)
    else:
        noise += float(data)
    return noise.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(9, 9), (31, 31), (1, 200)])
def test_variance_of_floats_keeps_its_digits(dtype, shape):
    """Within 16 units of itself, and the square of the rounding of a mean.

    Squares about a rounded mean hold that rounding's square.  Large windows take it away again,
    and so do far better than NumPy.
    """
    variance = npt.stencil(over("var", *shape), boundary="valid")
    unit = Fraction(float(np.finfo(dtype).eps))
    gained = (2**29 if dtype == "float32" else 64) if math.prod(shape) > 130 else 1
    means = ["0", "1e5", "1e9", "1e14"]
    for data in [*means, "ramp", "step", "outliers", "equal", "nearly equal"]:
        x = hard(data, dtype, (shape[0] + 2, shape[1] + 2))
        result = by_text(variance, x)
        for place in np.ndindex(3, 3):
            items = views(x, *shape)[place].ravel().tolist()
            exact = exact_variance(items)
            if exact > np.finfo(dtype).max:
                assert not np.isfinite(result[place])
                continue
            rounding = 4 * unit * Fraction(max(map(abs, items))) / gained
            error = abs(Fraction(float(result[place])) - exact)
            assert error <= 16 * unit * exact + rounding**2
    # That of integers is exact.
    x = image("uint8", (9, 9))
    result = by_text(npt.stencil(over("var", 3, 3), boundary="valid"), x)
    for found, items in zip(result.ravel(), views(x, 3, 3).reshape(-1, 9).tolist(), strict=True):
        assert found == float(exact_variance(items))


def test_every_rank_of_every_window_of_zeros_and_ones():
    """What only compares and exchanges is right if it is right for zeros and ones.

    Source: D. E. Knuth, "The Art of Computer Programming", volume 3, section 5.3.4, theorem Z.
    """
    for height, width in ((1, 2), (1, 5), (3, 3), (4, 2)):
        count = height * width
        lists = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        ordered = np.sort(lists, axis=1)
        for rank in range(count):
            fraction = rank / (count - 1)
            ranked = npt.stencil(lambda x: np.quantile(x[0:height, 0:width], fraction))  # noqa: B023
            frames = lists.astype("float32" if rank % 2 else "uint8").reshape(-1, height, width)
            made = by_text(ranked, frames, boundary="valid")
            np.testing.assert_array_equal(made.ravel(), ordered[:, rank])


RING = npt.shapes.ring(2, 1)
HOLES = np.zeros((3, 2, 3, 2), bool)
HOLES[0, 1, 2, 0] = HOLES[2, 0, 0, 1] = HOLES[1, 1, 1, :] = True
CORNER = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]], bool)
# The shape of an image, and a window of it.
SLIDING: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "ring": ((5, 7), lambda x: np.percentile(x[-2:3, -2:3][RING], 35)),
    "corners": ((5, 7), lambda keys: np.median(keys[-2:1, 1:5][CORNER])),
    "line": ((9,), lambda x: np.quantile(x[-3:5], 0.7)),
    "column": ((5, 7), lambda x: np.median(x[-2:3, 0])),
    "ball": ((3, 4, 5), lambda x: np.median(x[-1:2, -1:2, -1:2][npt.shapes.ball(1)])),
    "planes": ((3, 4, 5), lambda x: np.median(x[0:2, 1, -1:2])),
    "holes": ((2, 3, 2, 4), lambda x: np.quantile(x[-1:2, 0:2, -1:2, 0:2][HOLES], 1 / 3)),
}
SLID = {"float32": "mirror", "int64": "constant", "float64": "wrap", "uint32": "valid",
        "uint64": "fill", "int32": "reflect", "uint8": "nearest", "int8": "valid"}  # fmt: skip


@pytest.mark.parametrize("name", only(4, SLIDING))
def test_ranks_of_windows_that_slide(name: str, limited: Any) -> None:
    """Every window slides, however small: by its places in order, or by a histogram of bytes."""
    limited(sorted_elements=60, sorted_columns=5, sorted_windows=1)
    schedule = npt.Schedule(network=0, sorted_columns=0)
    shape, function = SLIDING[name]
    # Every type by every second shape.
    for dtype in list(SLID)[list(SLIDING).index(name) // 2 % 2 :: 2]:
        # Some are equal, some at the ends of the type, and of floats NaN and two zeros.
        if dtype[0] == "f":
            x = image(dtype, shape).round(-2)
            x.flat[:5] = np.inf, -np.inf, -0.0, 0.0, np.nan
        else:
            x = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)
            x.flat[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
        # Between two elements float32 rounds otherwise than the reference does.
        close = 2e-6 if dtype == "float32" else 1e-13
        agree(function, x, close=close, boundary=SLID[dtype], schedule=schedule)


@pytest.mark.parametrize("divisor", [2, 3, 7, 10, 1000])
def test_every_rounded_quotient(divisor):
    """Ties go to the even neighbour; negative numbers too."""

    def kernel(x):
        q = x[0] / divisor
        down = int(np.floor(q)), math.floor(x[0] / divisor) * 2
        return round(q), int(np.rint(x[0] / divisor)), *down, math.ceil(q), int(q)

    agree(kernel, np.arange(-4 * divisor - 3, 4 * divisor + 4, dtype="int16")[-600:])


def divided(by: list[int]) -> npt.Stencil:
    """By each number: the quotient and the remainder, one after the other."""
    lines = "".join(f"x[0] // {d}, x[0] % {d}, " for d in by)
    return npt.stencil(kernels.compiled(f"def kernel(x):\n    return {lines}\n"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_quotients_and_remainders_of_every_number(dtype):
    """Division by a constant is a multiplication, whatever is divided."""
    info = np.iinfo(dtype)
    step = 1 if info.bits == 8 else 13
    x = np.arange(info.min, info.max + 1, step).astype(dtype)
    divisors = [2, 3, 5, 7, 9, 25, 49, 255, 961, 32767, 32768, 65535, 65536]
    if info.bits == 8:
        divisors = [*range(1, 70), 127, 128, 255, 256, 1000]
    for start in range(0, len(divisors), 16):
        some = divisors[start : start + 16]
        made = by_text(divided(some), x)
        for d, quotient, rest in zip(some, made[::2], made[1::2], strict=True):
            np.testing.assert_array_equal(quotient.astype("int64"), x.astype("int64") // d)
            np.testing.assert_array_equal(rest.astype("int64"), x.astype("int64") % d)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_quotients_of_large_numbers_where_they_are_hardest(dtype):
    """At multiples of the divisor, and just below."""
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    divisors, x = [2, 7, 10, 641, 2**31 - 1, 2**20], [info.min, info.max, 0]
    for divisor in divisors:
        quotients = rng.integers(info.min // divisor, info.max // divisor, 20, dtype)
        multiples = [int(q) * divisor for q in quotients]
        x += [v - s for v in multiples for s in (0, 1) if v - s >= info.min]
    agree(divided(divisors), np.array(x, dtype))


@pytest.mark.parametrize(
    ("kind", "dtype", "height", "width"),
    [("sum", "float32", 1, 31), ("mean", "float64", 31, 1), ("sum", "float64", 9, 9),
     ("mean", "float32", 40, 5), ("sum", "float32", 40, 5)],
)  # fmt: skip
def test_error_of_float_windows(kind, dtype, height, width):
    """Within u * depth * (sum of magnitudes), u half a unit in the last place.

    Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
    section 4.2: the bound of a sum in a tree of that depth, to first order in u.  A running
    sum has no such bound: what left the window long ago still counts.

    Each level of fours adds an element twice along an axis, log2(length) times in all; at most
    three pieces of each level remain, and are added in a tree: log2(3 * (levels + 1)) times,
    under 4 for any window of fewer than 1000 elements.
    """
    deep = sum(math.ceil(math.log2(n)) + 4 for n in (height, width) if n > 1) + (kind == "mean")
    rng = np.random.default_rng(height)
    shape = (height + 4, width + 4)
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
    x[0, 1] = 1e30  # gone from most windows, and so must be its rounding
    result = by_text(npt.stencil(over(kind, height, width), boundary="valid"), x)
    half_unit = np.finfo(dtype).eps / 2
    count = height * width if kind == "mean" else 1
    for place in np.ndindex(result.shape):
        items = views(x, height, width)[place].ravel().tolist()
        bound = deep * half_unit * math.fsum(map(abs, items)) / count
        assert abs(float(result[place]) - math.fsum(items) / count) <= bound * 1.01


@pytest.mark.parametrize("kind", ["min", "max", "median", "mean", "sum"])
def test_nan_and_infinity_spread_as_they_should(kind):
    for number, shape in enumerate([(3, 3), (1, 12), (2, 3), (11, 2)]):
        rng = np.random.default_rng(number)
        x = rng.integers(-9, 9, (14, 20)).astype("float32" if number % 2 else "float64")
        spots = rng.random(x.shape)
        for k, value in enumerate([math.nan, math.inf, -math.inf]):
            x[(spots > 0.02 * k) & (spots < 0.02 * (k + 1))] = value
        result = by_text(npt.stencil(over(kind, *shape), boundary="valid"), x)
        with np.errstate(all="ignore"):
            wanted = getattr(np, kind)(views(x, *shape).reshape(*result.shape, -1), axis=2)
        assert np.isnan(wanted).any()
        assert np.isfinite(wanted).any()
        close = 0 if kind in ("min", "max", "median") else 1e-5
        np.testing.assert_allclose(result, wanted, rtol=close, atol=0)


def test_stages_make_several_rows_in_a_turn():
    for function in (lambda x: x[-2:3, -2:3].mean(), weighted_floats):
        several = npt.stencil(boundary="mirror")(function)
        single = npt.stencil(boundary="mirror", schedule=npt.Schedule(rows=1))(function)
        for shape in ((1, 9), (2, 9), (7, 9), (14, 12)):
            x = image("float32", shape)
            np.testing.assert_array_equal(by_text(several, x), by_text(single, x))


BINOMIALS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype("float32")


@pytest.mark.parametrize("every", [(2, 3), (1, 4), (3, 1)])
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


@pytest.mark.parametrize(("function", "dtype", "most"), [
    (lambda x: x[-1:3, -2:3].mean(), "uint8", 9),
    (weighted_floats, "float64", 10),
    (lambda x: (x[-1:2, -1:2, -1:2] * CUBE).sum(), "int16", 8),
    (lambda x: x[-20:11, 3].max(), "uint8", 10),
    (in_helpers, "uint8", 6),
    (lambda x: x[-26:27, -26:27][npt.shapes.disk(26)].max(), "float32", 110),
    (lambda x: x[-1:2, -1:2].max() - x[-1:2, -1:2].min(), "uint16", 5),
    (lambda x: x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0], "float32", 11 / 3),
])  # fmt: skip
def test_windows_are_few_loads(function, dtype, most):
    assert plan_of(npt.stencil(function), dtype).loads <= most


@pytest.mark.parametrize(
    ("shape", "dtype", "length", "axis"),
    [((40, 61), "float32", 130, 0), ((250,), "float64", 97, 0), ((5, 7, 40), "float64", 97, 1)],
)
def test_lines_of_many_weights(shape, dtype, length, axis):
    """They are added piece by piece: along each axis, beside what other lines make."""
    random = np.random.default_rng(len(shape))
    x, weights = random.random(shape).astype(dtype), random.random(length)
    lengths = [length if k == axis else 1 for k in range(x.ndim)]
    made = npt.filters.correlate(x, weights.reshape(lengths))
    wanted = ndimage.correlate1d(x.astype("float64"), weights, axis)
    np.testing.assert_allclose(made, wanted, rtol=1e-5 if dtype == "float32" else 1e-13)


@npt.stencil(boundary="nearest", standard_indexing="w")
def long_sum(x, w):
    total = 0.0
    for k in range(-60, 61):
        total += x[k] * w[k + 60]
    return total


LONG = np.random.default_rng(3).random(121)


def test_long_sums_over_what_they_read_and_of_weights_that_are_an_argument():
    @npt.stencil(boundary="nearest")
    def kernel(x):
        total = 0.0
        for k in range(-60, 61):
            total += x[k] * LONG[k + 60]
        return total

    x = np.random.default_rng(1).random((30, 200))
    wanted = kernel(x)
    np.testing.assert_allclose(wanted[:2], kernel.debug(x[:2]), rtol=1e-13)
    for shift in (0, 1):
        room = np.zeros((30, 200 + shift))
        room[:, :200] = x
        kernel(room[:, :200], out=room[:, shift:])
        np.testing.assert_array_equal(room[:, shift:], wanted)
    np.testing.assert_array_equal(kernel.iterate(x, steps=3), kernel(kernel(wanted)))
    x = np.random.default_rng(4).integers(0, 100, (2, 9, 3)).astype("int16")
    for axis in range(3):
        agree(long_sum, x, LONG, axes=axis, way="compiled", close=1e-12)
    agree(npt.stencil(boundary="mirror", standard_indexing="w")(long_sum.__wrapped__),
          x[:, :, 0].astype("float16"), LONG, close=1e-5)  # fmt: skip


def negated(x):
    down, across = x[-1, 0] - x[0, 0], x[0, 1] - x[0, 0]
    return -down * down * 3 + abs(across) - (across * 2) * (across * 2) + down * across + down


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


@pytest.mark.parametrize("kernel", [negated, chosen, near])
def test_squares_of_differences_have_the_sign_that_is_asked_for(kernel):
    for dtype in ("uint8", "uint64", "float32"):
        x = np.random.default_rng(5).integers(0, 9, (5, 9)).astype(dtype)
        agree(kernel, x, close=1e-6 if kernel is near else 0.0)


# Rows are right whatever their width, and however many of them are made in a turn.
WIDTHS = [3, 4, 7, 33, 35, 36, 42, 65, 66, 67, 68, 76, 77, 99, 129, 130, 131, 195, 447]


def median(x):
    return int(np.median(x[-1:2, -1:2]))


def small_numbers(width, dtype="uint8", shape=None):
    return np.random.default_rng(width).integers(0, 99, shape or (9, width)).astype(dtype)


@pytest.mark.parametrize("dtype", only(1, ["uint8", "int16"]))
def test_every_width(dtype):
    stencil = npt.stencil(dtype=dtype, boundary="nearest")(median)
    chained = npt.stencil(dtype=dtype, boundary="nearest", schedule=npt.Schedule(steps=3))(median)
    for width in WIDTHS:
        x = small_numbers(width, dtype)
        wanted = stencil(x)
        inside = np.median(views(x, 3, 3), axis=(2, 3))
        np.testing.assert_array_equal(wanted[1:-1, 1:-1], inside, err_msg=str(width))
        # Steps that are done together.
        made = chained.iterate(x, steps=3)
        np.testing.assert_array_equal(made, stencil(stencil(wanted)), err_msg=str(width))
        # A result that goes over its field.
        stencil(x, out=x)
        np.testing.assert_array_equal(x, wanted, err_msg=str(width))
