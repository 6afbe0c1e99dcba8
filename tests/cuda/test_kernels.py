"""Kernels whose texts have something of their own give on a GPU what they give on the CPU.

Some are random programs; the others are at the ends of types, with windows of every kind and
arrays of every width.  The texts of a group are built by one run of g++, and each is run between
pages that nobody may touch.
"""

import contextlib
import itertools
import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest

import agree
import drawing
import kernels
import ninepoint as npt
import on_gpu
import seams
from compared import each

# Nothing is written out, or done in stages.
LOOPS = npt.Schedule(unrolled=0, network=0, sorted_columns=0)


@dataclass
class Case:
    """A stencil, its fields and all else that it is given."""

    stencil: Any
    fields: list[np.ndarray]
    named: dict[str, Any] = field(default_factory=dict)
    steps: int = 0

    def __call__(self, *fields: Any) -> Any:
        if self.steps:
            return self.stencil.iterate(*fields, **self.named, steps=self.steps)
        return self.stencil(*fields, **self.named)


def case(stencil: Any, *fields: np.ndarray, steps: int = 0, **named: Any) -> Case:
    return Case(stencil, list(fields), named, steps)


def drawn(dtype, shape, seed=0):
    """Numbers of a type; many are the least or the greatest of it, some are NaN."""
    return kernels.values(Random(f"{dtype} {shape} {seed}"), dtype, shape, False)


@pytest.mark.parametrize("kind", drawing.KINDS)
def test_random_programs(cupy, kind):
    _, wrong = agree.many(kind, range(6), most=1, gpu=1)
    assert not wrong, "\n\n".join(wrong)


def sums(x):
    near = x[-1:2, -1:2]
    return near.sum(), near.prod(), near.mean(), x[-1:2, -20:20].var(), near.min(), near.max()


def places(x):
    near = x[-1:2, -1:2]
    return (near > 40).any(), (near > -40).all(), near.argmin(), near.argmax(), np.median(near)


def ranks(x):
    low, high = np.quantile(x[-2:3, -1:2], 0.2), np.percentile(x[-2:2, -1:2], 90)
    near = x[-1:2, -1:2] / 3
    return low, high, np.nanmedian(near), np.nanpercentile(near, 90)


WEIGHTS = np.array([[1, 2.5, 0], [0, 7, 1], [1 / 3, 0, 9]])


def parts(x):
    near = x[-1:2, -1:2]
    return near.mean(where=near > 3), (near * WEIGHTS).sum()


def in_order(x):
    near = x[-2:3, -1:2]
    return npt.mode(near), npt.trimmed_mean(near, 0.2), npt.mode(near[near.shape[0] // 2])


def beside_a_stage(x):
    """Rows of what lies between stages are longer than what is written of them."""
    return (x[-1:2, -20:20] ** 2).sum(), x[-1:2, -1:2].prod()


def windows_that_are_loops():
    x = drawn("float32", (3, 6))
    x[1, 2], x[2, 4] = np.nan, -np.inf
    whole = (np.arange(35) * 37 % 251 - 125).astype("int8").reshape(5, 7)
    given = [(sums, x), (sums, whole), (places, drawn("uint64", (3, 6))), (ranks, x), (parts, x),
             (in_order, whole), (beside_a_stage, whole)]  # fmt: skip
    for function, values in given:
        yield case(npt.stencil(schedule=LOOPS)(function), values, boundary="reflect")
    turns = np.array([1j, 2, 0.5])
    turned = npt.stencil(lambda z: (z[-1:2] * turns).sum(), schedule=LOOPS)
    yield case(turned, drawn("complex64", (7,)))


DISK = npt.shapes.disk(9)


def means(x):
    near = x[-9:10, -9:10][DISK]
    return near.mean(), near.min(), near.max(), near.argmax(), (near > 100).any(), near.var()


def middles(x):
    near = x[-9:10, -9:10][DISK]
    return np.quantile(near, 0.2), np.median(near), np.nanquantile(near / 3, 0.1)


@npt.stencil(boundary="mirror", standard_indexing="w")
def products_of_many(x, w):
    return (x[-9:10, -9:10] * w).sum()


@npt.stencil(boundary="mirror", schedule=LOOPS)
def sums_of_many_rows(x):
    return x[-31:32, -20:21].sum() + x[-40:41, -3:4].max()


def windows_of_many_elements():
    loops = npt.stencil(schedule=LOOPS, boundary="mirror")
    x, small = drawn("float32", (3, 4)), drawn("int8", (3, 4))
    yield from (case(loops(means), x), case(loops(means), small), case(loops(middles), x))
    yield case(products_of_many, x, w=np.arange(361.0).reshape(19, 19))
    yield case(sums_of_many_rows, drawn("uint8", (2, 5)))


def large_windows():
    """The CPU slides histograms along a row, and sums down the rows."""
    median = npt.stencil(lambda x: np.median(x[-4:5, -3:4]))
    ball = npt.shapes.ball(1)
    around = npt.stencil(schedule=LOOPS)(lambda x: np.quantile(x[-1:2, -1:2, -1:2][ball], 0.3))
    quarter = npt.stencil(lambda x: np.quantile(x[-35:25], 0.25))
    mean = npt.stencil(lambda x: np.uint8(x[-15:16, -9:10].mean()))
    greatest = npt.stencil(lambda x: x[-15:16, -9:10].max())
    volume = drawn("float32", (3, 4, 5))
    volume[1, 2, 3] = np.nan
    yield case(median, drawn("uint8", (5, 7)), boundary="mirror")
    yield case(median, drawn("int16", (4, 6)), boundary="constant")
    yield case(around, volume, boundary="mirror")
    yield case(quarter, drawn("int8", (70,)), boundary="wrap")
    yield case(mean, drawn("uint8", (6, 9)), boundary="nearest")
    yield case(greatest, drawn("uint8", (32, 24)), boundary="valid")


def sum3(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, -1] + x[1, 0]
        + x[1, 1]
    ) * np.float32(0.11)  # fmt: skip


def mean3(x):
    return np.sum(x[-1:2, -1:2]) // 9


def median3(x):
    return np.median(x[-1:2, -1:2])


def heat3d(x):
    beside = x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    return x[0, 0, 0] + np.float32(0.1) * (beside - np.float32(6) * x[0, 0, 0])


def both(x, y):
    return x[0, -1] - y[1, 0], np.float32(0.5) * x[1, 2]


def outputs(x, y):
    return np.int16(x[0, -1] - y[2, 0]), np.int8((x[0, 0] + x[1, 1]) // 2), x[0, 0] > y[0, 1]


BYTES = {"dtype": "uint8", "overflow": "saturate"}
# Kernels, how many axes they have, the types of their fields, and options.
WIDE: list[tuple[Any, int, str, dict[str, Any]]] = [
    (sum3, 2, "float32", {}),
    (sum3, 2, "float64", {}),
    (mean3, 2, "uint8", BYTES),
    (mean3, 2, "int16", {}),
    (median3, 2, "uint8", BYTES),
    (median3, 2, "float32", {"dtype": "float32"}),
    (heat3d, 3, "float32", {}),
    (lambda x: np.maximum(x[-2], x[1]) - x[0], 1, "int16", {}),
    (lambda x, y: x[0, 5] + y[2, -3] * x[-1, 20], 2, "uint8 float32", {}),
    (both, 2, "uint8 bool", {}),
    (both, 2, "float64 complex64", {}),
    (lambda x: (x[0, -1] * 4 + x[0, 2] * 12 + 32) >> 4, 2, "int8", {}),
    (lambda x: np.minimum(np.maximum(x[0, -1], 17), np.maximum(x[1, 1], 90)) - 3, 2, "uint8", {}),
    (outputs, 2, "int8 int8", {}),
    (lambda x, y: np.maximum(5 - x[0, -1] + y[0, 0], -(2 * y[0, 3]) - x[1, 0]), 2, "uint8 int8",
     {}),
    (lambda x: np.uint16(np.median(x[-1:2, -1:2])), 2, "uint16", {}),
]  # fmt: skip
SIDES = [
    ("mirror", "constant"), ("fill", "nearest"), ("wrap", "wrap"), ("reflect", "keep"),
    ("valid", "reflect"), ("constant", "fill"), ("nearest", "mirror"), ("keep", "valid"),
]  # fmt: skip


def rows_of_any_width():
    """Of types of all sizes, with all rules of borders."""
    shapes = {1: (3, 150), 2: (2, 7, 45), 3: (3, 5, 41)}
    for k, (function, ndim, dtypes, options) in enumerate(WIDE):
        boundary: Any = kernels.RULES[k // 3 % len(kernels.RULES)]
        if k % 3:
            boundary = tuple(SIDES[(k + axis) % len(SIDES)] for axis in range(ndim))
        if "keep" in str(boundary) and function in (both, outputs):
            boundary = "fill"
        # A width that the widths of vectors divide, and another.
        for width in (shapes[ndim][-1], 16)[: 1 + k % 2]:
            shape = (*shapes[ndim][:-1], width)
            fields = [drawn(dtype, shape, k) for dtype in dtypes.split()]
            one = npt.stencil(function)
            yield case(one, *fields, boundary=boundary, cval=1, **options)


rolled = npt.stencil(lambda u: (u[-1, 1] + 2 * u[2, -1] - u[0, -2] + u[0, 0]) * np.float32(0.25))


@npt.stencil(boundary="mirror")
def twice_rolled(x):
    s = rolled(rolled(x))
    return s[0, 0] - s[1, -1]


@npt.stencil(boundary="nearest", dtype="float16")
def halved(x):
    return x[0, 1] * 0.5 + x[-1, 0] * 0.25


around = npt.stencil(lambda x: np.median(x[-4:5, -4:5]), boundary="nearest")


@npt.stencil(boundary="nearest")
def halves_twice(x):
    s = halved(x)
    t = halved(s)
    return t[0, 0] + s[1, 0]


@npt.stencil(boundary="nearest")
def medians_twice(x):
    s = around(x)
    t = around(s)
    return t[0, 1] - s[0, 0]


def steps_and_calls():
    """Half floats are rounded where they are stored, and large medians are by themselves."""
    rules = ["nearest", "wrap", (("constant", "reflect"), ("fill", "mirror")), "keep"]
    for k, shape in enumerate([(1, 1), (2, 4), (3, 111), (20, 32), (2, 5, 70)]):
        x = drawn("float32", shape, k)
        yield case(rolled, x, boundary=rules[k % 4], cval=1, steps=3)
        yield case(twice_rolled, x)
    half, x = drawn("float16", (4, 9)), drawn("float32", (4, 5))
    yield from (case(halves_twice, x), case(medians_twice, x))
    yield from (case(halved, half, steps=3), case(around, x, steps=2))


def middle(x, int, double=2, *, threadIdx=1.5):
    return x[-1] * int + len(x) * double + threadIdx


@npt.stencil(boundary="wrap", standard_indexing=("w", "M_PI"))
def weighted(x, w, M_PI, __syncthreads):
    return (x[-1:2] * w).sum() + M_PI[2] * __syncthreads


def casts(x):
    return np.uint8(x[0]), np.int16(x[0] * 1.7), np.float16(x[1]), np.uint64(x[0]), x[0] != 0


def whole(x, k):
    return x[-1] // k, x[1] % k, x[0] // -5, x[0] % 12, x[0] << (k & 77), x[0] >> k, x[0] ** 3


def complex_parts(z):
    return z[0].real, z[1].imag, z[0] ** 2.5, z[0] * 1.5 + 0.5j, True


def names_and_types():
    x, short = drawn("int32", (2, 9)), drawn("float16", (11,))
    w, m = np.array([0.5, 1.5, 2.5], "float16"), np.array([True, False, True])
    # Names that mean something in CUDA.
    yield case(npt.stencil(middle), x, int=3, double=5, boundary="nearest")
    yield case(weighted, x, w=w, M_PI=m, __syncthreads=math.pi)
    yield case(npt.stencil(lambda x: x[-1] - x[1]), short)
    for dtype in ("int64", "uint64", "float16", "bool"):
        yield case(npt.stencil(casts), drawn(dtype, (9,)), boundary="mirror")
    for k, dtype in enumerate(("int64", "uint64", "uint8", "int32")):
        one = npt.stencil(whole)
        yield from (case(one, drawn(dtype, (9,)), k=v, boundary="fill") for v in (k, -1, 0))
    for dtype in ("int64", "uint32", "uint8"):
        yield case(npt.stencil(lambda x: (-x[0], -(x[1] * 3), True)), drawn(dtype, (9,)))
    z = drawn("complex128", (9,))
    yield case(npt.stencil(complex_parts), z)
    products = npt.stencil(lambda z: (z[-1] * np.conj(z[0]) - 2j * z[1], z[0] == z[1]))
    yield case(products, z.astype("complex64"), boundary="constant")
    halves = npt.stencil(lambda x: (1.5, np.median(x[-40:41])), dtype=("float16", "float16"))
    yield case(halves, drawn("float16", (50,)), boundary="reflect")
    beyond = npt.stencil(lambda x: x[-1, 0, 0, 100, 0] - x[0, 0, 2, 0, -3])
    yield case(beyond, drawn("int16", (2, 3, 2, 3, 4)), boundary="mirror")


# The ends of all types, two by two.
ENDS = [0, 1, -1, 2, -2, 3, 7, -9, 63, 64, 10**6, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [
    0.0, -0.0, 0.5, -0.5, 1.5, -2.5, 7.0, 1e-45, 1e-310, 2.0**-14, 2.0**-25, 65504.0, 65519.9,
    65520.0, -1e30, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 3e38, 1e300, np.inf, -np.inf, np.nan,
    88.7, -103.9, 709.7, -745.1, 127.0, 128.5, -128.9, -129.0,
]  # fmt: skip
PARTS = [0.0, -0.0, -2.5, 1e200, 1e-200, np.inf]


def two_by_two(values, dtype):
    with np.errstate(over="ignore"):
        one = np.array(values).astype(dtype)
    return [np.repeat(one, len(one)), np.tile(one, len(one))]


def ordered(x):
    near = x[-2:3]
    return np.median(near), near.max(), near.argmin()


def numbers_at_the_ends_of_their_types():
    quotients = npt.stencil(lambda x, y: (x[0] // y[0], x[0] % y[0]))
    rounded = npt.stencil(lambda x: (np.round(x[0], -1), np.round(x[0], -9)))
    for dtype in ("int32", "int64", "uint8", "uint64"):
        info = np.iinfo(dtype)
        ends = [n for n in ENDS if info.min <= n <= info.max]
        yield case(quotients, *two_by_two(ends, dtype))
        if dtype != "uint8":
            yield case(rounded, np.array(ends, dtype))
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        yield case(quotients, *two_by_two(FLOATS, dtype))
    for dtype in ("float32", "float64"):
        yield case(npt.stencil(ordered), two_by_two(FLOATS[::2], dtype)[1])
    ratio = npt.stencil(lambda x, y: x[0] / y[0])
    yield case(ratio, *two_by_two([complex(a, b) for a in PARTS for b in PARTS], "complex128"))


def numbers_that_are_stored_shorter():
    """Rounded to floats of 16 bits, to the even of two; cut to integers and to their ends."""
    bits = np.arange(0, 2**16, 9, dtype=np.uint16)
    random = np.random.default_rng(0)
    scales = 2.0 ** random.integers(-30, 18, 1000)
    ties = random.integers(0, 2**11, 1000) + random.choice([0, 0.5, 0.5 + 2**-40], 1000)
    values = np.concatenate([FLOATS, random.normal(size=1000) * scales, ties * scales])
    shorter, longer = npt.stencil(lambda x: np.float16(x[0])), npt.stencil(lambda x: x[0] + 0)
    with np.errstate(over="ignore"):
        singles = values.astype("float32")
    yield from (case(shorter, values), case(shorter, singles))
    for dtype in ("float16", "bfloat16"):
        yield case(longer, bits.view(dtype))
        yield from (case(longer, given, dtype=dtype) for given in (values, singles))
    for dtype in ("int8", "int64", "uint64"):
        yield case(longer, np.array(FLOATS), dtype=dtype, overflow="saturate")


def numbers_where_numpy_differs_in_the_last_place():
    angles = npt.stencil(lambda x: (np.exp(x[0]), np.deg2rad(x[0]), np.rad2deg(x[0])))
    with np.errstate(over="ignore"):
        yield from (case(angles, np.array(FLOATS, dtype)) for dtype in ("float32", "float64"))


GROUPS = [
    windows_that_are_loops, windows_of_many_elements,
    large_windows, rows_of_any_width, steps_and_calls, names_and_types,
    numbers_at_the_ends_of_their_types, numbers_that_are_stored_shorter,
    numbers_where_numpy_differs_in_the_last_place,
]  # fmt: skip


def known(made: np.ndarray) -> np.ndarray:
    """Numbers among which NumPy finds NaN: those of other packages as float32."""
    return made.astype("float32") if made.dtype.kind == "V" else made


@pytest.mark.parametrize("group", GROUPS)
def test_a_gpu_gives_what_the_cpu_gives(cupy, group):
    """To the bit, but for signs of zeros; the CPU runs what is generated as plain Python."""
    compiled = group is numbers_where_numpy_differs_in_the_last_place
    python = contextlib.nullcontext() if compiled else seams.interpreted()
    cases = list(group())

    def there(case: Case) -> Any:
        return each(case(*map(cupy.asarray, case.fields)))

    with python, np.errstate(all="ignore"):
        wanted = [each(case(*case.fields)) for case in cases]
        with on_gpu.prepared(lambda case=case: there(case) for case in cases):
            for way, (k, case) in itertools.product(["end", "begin"], enumerate(cases)):
                with on_gpu.strictly(way):
                    found = there(case)
                words = f"{case.stencil} {case.named} {way}"
                for one, other in zip(found, wanted[k], strict=True):
                    assert one.dtype == other.dtype, words
                    np.testing.assert_array_equal(known(one.get()), known(other), words)
