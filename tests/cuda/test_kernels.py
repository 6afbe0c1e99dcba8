"""Kernels whose texts have something of their own give on a GPU what they give on the CPU.

Random kernels are those of tests/test_agree.py; these are at the ends of types and arrays, with
windows of every kind and arrays of every width.  All are built by a few runs of g++, and each is
run with its threads in several orders, between pages that nobody may touch.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
import on_gpu
import seams
from kernels import RULES
from nightly import only

# Nothing is written out, or done in stages.
LOOPS = npt.Schedule(unrolled=0, network=0, sorted_columns=0)

# Orders of threads, and where arrays lie.
WAYS = ["end", "begin"]


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


def listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def agree(cupy: Any, cases: list[Case], compiled: bool = False) -> None:
    """Compare what a GPU gives with what the CPU gives, to the bit but for signs of zeros.

    The CPU runs what is generated as plain Python, or `compiled`.
    """

    def there(case: Case) -> Any:
        return case(*map(cupy.asarray, case.fields))

    python = contextlib.nullcontext() if compiled else seams.interpreted()
    with python, np.errstate(all="ignore"):
        wanted = [listed(case(*case.fields)) for case in cases]
        with on_gpu.prepared(lambda case=case: there(case) for case in cases):
            for way, (k, case) in itertools.product(WAYS, enumerate(cases)):
                with on_gpu.strictly(way):
                    found = listed(there(case))
                for one, other in zip(found, wanted[k], strict=True):
                    words = f"{case.stencil} {case.named} {way}"
                    assert one.dtype == other.dtype, words
                    np.testing.assert_array_equal(known(one.get()), known(other), words)


def known(made: np.ndarray) -> np.ndarray:
    """Numbers among which NumPy finds NaN: those of other packages as float32."""
    return made.astype("float32") if made.dtype.kind == "V" else made


def drawn(dtype, shape, seed=0):
    """Numbers of a type; many are the least or the greatest of it, some are NaN."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.random(shape) < 0.5
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = random.integers(info.min, info.max, shape, kind, endpoint=True)
        ends = random.choice(np.array([info.min, info.max], kind), shape)
        return np.where(random.random(shape) < 0.3, ends, values)
    values = random.normal(0, 3, shape)
    if kind.kind == "c":
        values = values + 1j * random.normal(0, 3, shape)
    elif kind.kind == "f":
        values[random.random(shape) < 0.02] = np.nan
    return values.astype(kind)


# Borders.


def skew(x):
    return x[-2, 1] + 2 * x[1, -1] - 3 * x[0, 3], x[0, 0] - x[0, 1]


def wide(x):
    return (x[-3:4, -2:3] * np.arange(35.0).reshape(7, 5)).sum()


def test_rules_of_borders_on_arrays_smaller_than_the_reach(cupy):
    some = [rule for rule in RULES if rule != "wrap"]
    # Each rule before and after each of the two axes.
    boundaries: list[Any] = [
        ((rule, some[k - 4]), (some[k - 2], some[k - 6])) for k, rule in enumerate(some)
    ]
    boundaries += [("wrap", ("mirror", "fill")), (("constant", "nearest"), "wrap")]
    cases = []
    for k, boundary in enumerate(boundaries):
        # There is a field to keep for one output only.
        two = k % 3 == 0 and "keep" not in str(boundary)
        one = npt.stencil(skew if two else wide if k % 3 == 1 else (lambda x: skew(x)[0]))
        for shape in ((1, 1), (2, 5), (6, 4)):
            cases.append(Case(one, [drawn("int16", shape, k)], {"boundary": boundary, "cval": 4}))
    agree(cupy, cases)


def test_what_keep_keeps_of_another_type(cupy):
    cases = []
    for before, after in zip(("float16", "float32", "int8", "bool", "float16", "int8", "bfloat16"),
                             ("float16", "complex64", "float64") * 2 + ("bfloat16",),
                             strict=True):  # fmt: skip
        one = npt.stencil(lambda x: x[-1, 0] - x[0, 1] * 1.0, dtype=after)
        cases.append(Case(one, [drawn(before, (4, 5))], {"boundary": "keep"}))
    agree(cupy, cases)


# Windows.


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


def test_windows_that_are_loops(cupy):
    x = drawn("float32", (5, 7))
    x[1, 2], x[4, 4] = np.nan, -np.inf
    kinds = {sums: "int8", places: "uint64", ranks: "uint64", parts: "int8", in_order: "int8"}
    agree(cupy, [
        Case(npt.stencil(schedule=LOOPS)(function), [field], {"boundary": "reflect"})
        for function, dtype in kinds.items() for field in (x, drawn(dtype, (5, 7)))
    ])  # fmt: skip


def test_what_lies_beside_a_stage_reaches_no_result(cupy):
    """Rows of what lies between stages are longer than what is written of them."""
    one = npt.stencil(schedule=LOOPS)(
        lambda x: ((x[-1:2, -20:20] ** 2).sum(), x[-1:2, -1:2].prod())
    )
    x = (np.arange(35) * 37 % 251 - 125).astype("int8").reshape(5, 7)
    agree(cupy, [Case(one, [x], {"boundary": "reflect"})])


DISK = npt.shapes.disk(9)


def means(x):
    near = x[-9:10, -9:10][DISK]
    return near.mean(), near.min(), near.max(), near.argmax()


def conditions(x):
    near = x[-9:10, -9:10][DISK]
    return (near > 100).any(), (near > -100).all(), near.var()


def middles(x):
    near = x[-9:10, -9:10][DISK]
    return np.quantile(near, 0.2), np.percentile(near, 90), np.median(near)


def middles_of_numbers(x):
    near = x[-9:10, -9:10][DISK] / 3
    return np.nanmedian(near), np.nanpercentile(near, 90), np.nanquantile(near, 0.1)


def products_of_many(x, w):
    return (x[-9:10, -9:10] * w).sum()


@pytest.mark.parametrize("dtype", only(2, ["float32", "bool", "int8"]))
def test_windows_of_many_elements(cupy, dtype):
    x = drawn(dtype, (5, 7))
    w = np.arange(361.0).reshape(19, 19)
    functions = [means, conditions]
    if dtype == "float32":
        functions += [middles, middles_of_numbers]
    loops = npt.stencil(schedule=LOOPS)
    cases = [Case(loops(one), [x], {"boundary": "mirror"}) for one in functions]
    if dtype != "bool":
        one = npt.stencil(standard_indexing="w")(products_of_many)
        cases.append(Case(one, [x], {"w": w, "boundary": "mirror"}))
    agree(cupy, cases)


def test_sums_of_many_rows(cupy):
    loops = npt.stencil(schedule=LOOPS)
    one = loops(lambda x: x[-31:32, -20:21].sum() + x[-40:41, -3:4].max())
    agree(cupy, [Case(one, [drawn("uint8", (4, 23))], {"boundary": "mirror"})])


@npt.stencil(boundary="nearest", dtype="float16")
def halved(x):
    return x[0, 1] * 0.5 + x[-1, 0] * 0.25


@npt.stencil(boundary="nearest")
def around(x):
    return np.median(x[-4:5, -4:5])


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


def test_calls_that_are_not_done_together(cupy):
    """Half floats are rounded where they are stored, and large medians are by themselves."""
    half, x = drawn("float16", (5, 9)), drawn("float32", (5, 9))
    cases = [Case(halves_twice, [x]), Case(medians_twice, [x])]
    cases += [Case(halved, [half], {}, 3), Case(around, [x], {}, 3)]
    agree(cupy, cases)


def test_large_windows(cupy):
    """The CPU slides histograms along a row, and sums down the rows."""
    median = npt.stencil(lambda x: np.median(x[-4:5, -3:4]))
    ball = npt.shapes.ball(1)
    around = npt.stencil(schedule=LOOPS)(lambda x: np.quantile(x[-1:2, -1:2, -1:2][ball], 0.3))
    quarter = npt.stencil(lambda x: np.quantile(x[-35:25], 0.25))
    mean = npt.stencil(lambda x: np.uint8(x[-15:16, -9:10].mean()))
    greatest = npt.stencil(lambda x: x[-15:16, -9:10].max())
    volume = drawn("float32", (4, 5, 6))
    volume[1, 2, 3] = np.nan
    given = [
        (median, drawn("uint8", (9, 11)), "mirror"),
        (median, drawn("int16", (7, 6)), "constant"),
        (around, volume, "mirror"),
        (quarter, drawn("int8", (90,)), "wrap"),
        (mean, drawn("uint8", (20, 13)), "nearest"),
        (greatest, drawn("uint8", (33, 40)), "valid"),
    ]
    agree(cupy, [Case(one, [x], {"boundary": rule}) for one, x, rule in given])


# Several points of a thread.


def sum3(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, -1] + x[1, 0]
        + x[1, 1]
    ) * np.float32(0.11)  # fmt: skip


def mean3(x):
    return np.sum(x[-1:2, -1:2]) // 9


def gauss5(x):
    weights = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]).astype(np.float32) / 256
    return np.sum(x[-2:3, -2:3] * weights)


def median3(x):
    return np.median(x[-1:2, -1:2])


def heat3d(x):
    beside = x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    return x[0, 0, 0] + np.float32(0.1) * (beside - np.float32(6) * x[0, 0, 0])


def line(x):
    return np.maximum(x[-2], x[1]) - x[0]


def far(x, y):
    return x[0, 5] + y[2, -3] * x[-1, 20]


def largest(x):
    return np.max(x[-4:5, -4:5])


def both(x, y):
    return x[0, -1] - y[1, 0], np.float32(0.5) * x[1, 2]


def shifts(x):
    return (x[0, -1] * 4 + x[0, 2] * 12 + 32) >> 4


def constants(x):
    return np.minimum(np.maximum(x[0, -1], 17), np.maximum(x[1, 1], 90)) - 3


def outputs(x, y):
    return np.int16(x[0, -1] - y[2, 0]), np.int8((x[0, 0] + x[1, 1]) // 2), x[0, 0] > y[0, 1]


def negated(x, y):
    return np.maximum(5 - x[0, -1] + y[0, 0], -(2 * y[0, 3]) - x[1, 0])


def short_median(x):
    return np.uint16(np.median(x[-1:2, -1:2]))


BYTES = {"dtype": "uint8", "overflow": "saturate"}
WIDE: list[tuple[Any, tuple[str, ...], dict[str, Any]]] = [
    (sum3, ("float32",), {}),
    (sum3, ("float64",), {}),
    (mean3, ("uint8",), BYTES),
    (mean3, ("int8",), {"dtype": "int8", "overflow": "saturate"}),
    (mean3, ("int16",), {}),
    (gauss5, ("float32",), {}),
    (median3, ("uint8",), BYTES),
    (median3, ("float32",), {"dtype": "float32"}),
    (heat3d, ("float32",), {}),
    (line, ("int16",), {}),
    (far, ("uint8", "float32"), {}),
    (largest, ("float64",), {}),
    (both, ("uint8", "bool"), {}),
    (both, ("float64", "complex64"), {}),
    (shifts, ("int8",), {}),
    (constants, ("uint8",), {}),
    (outputs, ("int8", "int8"), {}),
    (negated, ("uint8", "int8"), {}),
    (short_median, ("uint16",), {}),
]
SIDES = [
    ("mirror", "constant"), ("fill", "nearest"), ("wrap", "wrap"), ("reflect", "keep"),
    ("valid", "reflect"), ("constant", "fill"), ("nearest", "mirror"), ("keep", "valid"),
]  # fmt: skip


def test_rows_of_any_width(cupy):
    """Of types of all sizes, with all rules of borders."""
    shapes = {1: (3, 700), 2: (2, 11, 85), 3: (4, 9, 41)}
    cases = []
    for k, (function, dtypes, options) in enumerate(WIDE):
        one = npt.stencil(function)
        ndim = {heat3d: 3, line: 1}.get(function, 2)
        boundary = RULES[k // 3 % len(RULES)]
        if k % 3:
            boundary = tuple(SIDES[(k + axis) % len(SIDES)] for axis in range(ndim))
        named = {**options, "boundary": boundary, "cval": 1}
        if "keep" in str(boundary) and function in (both, outputs):
            named["boundary"] = "fill"
        # A width that the widths of vectors divide, and another.
        for width in (shapes[ndim][-1], 16)[: 1 + k % 2]:
            shape = (*shapes[ndim][:-1], width)
            fields = [drawn(dtype, shape, k) for dtype in dtypes]
            cases.append(Case(one, fields, named))
    agree(cupy, cases)


# Volumes, stacks, steps and pipelines.


def skew3(x, y):
    return x[-2, 1, 0] - y[0, -1, 5] + x[1, 0, 0], np.float32(y[-1, 2, -1]) * x[0, 0, 1]


def along(x):
    return x[-1, 0, 0] * x[2, 0, 0] - x[0, 0, 0]


def test_volumes(cupy):
    mixed = (("constant", "keep"), ("mirror", "fill"), ("fill", "constant"))
    largest3 = npt.stencil(lambda x: x[-1:2, -1:2, -1:2].max())
    given = [
        (npt.stencil(heat3d), ("float32",), "nearest"),
        (npt.stencil(heat3d), ("float32",), "constant"),
        (largest3, ("uint8",), ("mirror", "wrap", "reflect")),
        (largest3, ("uint8",), mixed),
        (npt.stencil(skew3), ("float64", "int16"), ("valid", "constant", ("fill", "valid"))),
        (npt.stencil(along), ("float32",), "keep"),
    ]
    cases = []
    for one, dtypes, rule in given:
        for shape in ((2, 5, 3, 9), (19, 2, 70), (1, 35, 16)):
            fields = [drawn(dtype, shape) for dtype in dtypes]
            cases.append(Case(one, fields, {"boundary": rule, "cval": 3}))
    agree(cupy, cases)


def test_stacks_that_are_broadcast(cupy):
    one = npt.stencil(lambda a, b: a[-1, 0] - b[0, 1])
    volume = npt.stencil(lambda a: a[-1, 0, 1] + a[1, 1, -1])
    a, b = drawn("float32", (2, 3, 2, 5, 6)), drawn("int8", (3, 1, 5, 6))
    given = [
        (one, [a, b], "reflect"),
        (one, [a[:0], b], "reflect"),
        (one, [a[0], b[0, :, :1, :1]], "reflect"),
        (one, [a[0, 0], b], "valid"),
        (one, [a[0], b[0, :, :1, :1]], ("fill", "constant")),
        (one, [a[..., :1, :], b[..., :1]], "keep"),
        (volume, [a], "mirror"),
    ]
    agree(cupy, [Case(one, fields, {"boundary": rule, "cval": 4}) for one, fields, rule in given])


@npt.stencil
def rolled(u):
    return (u[-1, 1] + 2 * u[2, -1] - u[0, -2] + u[0, 0]) * np.float32(0.25)


@npt.stencil
def harris(x):
    dx = x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]
    dy = x[1, -1] + 2 * x[1, 0] + x[1, 1] - x[-1, -1] - 2 * x[-1, 0] - x[-1, 1]
    xx, xy, yy = dx * dx, dx * dy, dy * dy
    a, b, c = xx[-1:2, -1:2].sum(), xy[-1:2, -1:2].sum(), yy[-1:2, -1:2].sum()
    return a * c - b * b - 0.04 * (a + c) ** 2


@npt.stencil(boundary="mirror")
def slopes(x):
    s = rolled(harris(x))
    return s[0, 0] - s[1, -1]


def test_steps_and_calls_on_arrays_of_any_width(cupy):
    shapes = [(1, 1), (2, 4), (3, 111), (20, 112), (130, 113), (5, 120), (2, 9, 230)]
    rules = [
        "nearest", "wrap", (("constant", "reflect"), ("fill", "mirror")), "keep",
    ]  # fmt: skip
    cases = []
    for k, shape in enumerate(shapes):
        x = drawn("float32", shape, k)
        named = {"boundary": rules[k % 4], "cval": 1}
        cases.append(Case(rolled, [x], named, steps=3))
        cases.append(Case(harris, [x], {"boundary": "reflect"}) if k % 2 else Case(slopes, [x]))
    agree(cupy, cases)


# Numbers.


def middle(x, int, double=2, *, threadIdx=1.5):
    return x[-1] * int + len(x) * double + threadIdx


def weighted(x, w, M_PI, __syncthreads):
    return (x[-1:2] * w).sum() + M_PI[2] * __syncthreads


def index(x):
    return x[-1] + x[1]


def half(x):
    return x[-1] * x[1]


def geometry(x):
    return x[-1] - x[1]


def test_names_that_mean_something_in_cuda(cupy):
    x, short = drawn("int32", (2, 9)), drawn("float16", (11,))
    w, m = np.array([0.5, 1.5, 2.5], "float16"), np.array([True, False, True])
    one = npt.stencil(standard_indexing=("w", "M_PI"))(weighted)
    named = {"w": w, "M_PI": m, "__syncthreads": math.pi, "boundary": "wrap"}
    cases = [Case(npt.stencil(middle), [x], {"int": 3, "double": 5, "boundary": "nearest"})]
    cases.append(Case(one, [x], named))
    cases += [Case(npt.stencil(own), [short]) for own in (index, half, geometry)]
    agree(cupy, cases)


def casts(x):
    return np.uint8(x[0]), np.int16(x[0] * 1.7), np.float16(x[1]), np.uint64(x[0]), x[0] != 0


def whole(x, k):
    return x[-1] // k, x[1] % k, x[0] // -5, x[0] % 12, x[0] << (k & 77), x[0] >> k, x[0] ** 3


def products(z):
    return z[-1] * np.conj(z[0]) - 2j * z[1], z[0] == z[1]


def complex_parts(z):
    return z[0].real, z[1].imag, z[0] ** 2.5, z[0] * 1.5 + 0.5j, True


def negatives(x):
    return -x[0], -(x[1] * 3), True


def test_parts_and_negatives(cupy):
    z = drawn("complex128", (9,))
    wide = [Case(npt.stencil(negatives), [drawn(d, (9,))]) for d in ("int64", "uint32", "uint8")]
    agree(cupy, [Case(npt.stencil(complex_parts), [z]), *wide])


def test_numbers_of_odd_types(cupy):
    cases = [
        Case(npt.stencil(casts), [drawn(dtype, (9,))], {"boundary": "mirror"})
        for dtype in ("int64", "uint64", "float16", "bool")
    ]
    for k, dtype in enumerate(("int64", "uint64", "uint8", "int32")):
        x, one = drawn(dtype, (9,)), npt.stencil(whole)
        cases += [Case(one, [x], {"k": v, "boundary": "fill"}) for v in (k, 7, -1, 0)]
    halves = npt.stencil(lambda x: (1.5, np.median(x[-40:41])), dtype=("float16", "float16"))
    beyond = npt.stencil(lambda x: x[-1, 0, 0, 100, 0] - x[0, 0, 2, 0, -3])
    cases += [
        Case(npt.stencil(products), [drawn("complex64", (9,))], {"boundary": "constant"}),
        Case(halves, [drawn("float16", (50,))], {"boundary": "reflect"}),
        Case(beyond, [drawn("int16", (2, 3, 2, 3, 4))], {"boundary": "mirror"}),
    ]
    agree(cupy, cases)


# The ends of all types, two by two.
ENDS = [0, 1, -1, 2, -2, 3, 7, -9, 63, 64, 10**6, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
FLOATS = [
    0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 7.0, -7.0, 1e-45, 1e-310, 2.0**-14, 2.0**-25, 65504.0,
    65519.9, 65520.0, 1e30, -1e30, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 3e38, 1e300, np.inf,
    -np.inf, np.nan, 88.7, -103.9, 709.7, -745.1, 126.9, 127.0, 128.5, -128.9, -129.0,
]  # fmt: skip
PARTS = [0.0, -0.0, 1.0, -2.5, 1e200, 1e-200, np.inf]


def two_by_two(values, dtype):
    with np.errstate(over="ignore"):
        one = np.array(values).astype(dtype)
    return [np.repeat(one, len(one)), np.tile(one, len(one))]


def quotients(x, y):
    return x[0] // y[0], x[0] % y[0]


def rounded(x):
    return np.round(x[0], -1), np.round(x[0], -9)


def angles(x):
    return np.exp(x[0]), np.deg2rad(x[0]), np.rad2deg(x[0])


def ordered(x):
    near = x[-2:3]
    return np.median(near), near.max(), near.argmin()


def ratio(x, y):
    return x[0] / y[0]


def test_numbers_at_the_ends_of_their_types(cupy):
    cases = []
    for dtype in ("int32", "int64", "uint8", "uint64"):
        info = np.iinfo(dtype)
        x, y = two_by_two([n for n in ENDS if info.min <= n <= info.max], dtype)
        cases.append(Case(npt.stencil(quotients), [x, y]))
        if dtype != "uint8":
            cases.append(Case(npt.stencil(rounded), [x]))
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x, y = two_by_two(FLOATS, dtype)
        cases.append(Case(npt.stencil(quotients), [x, y]))
        if dtype in ("float32", "float64"):
            cases.append(Case(npt.stencil(ordered), [x]))
    z, w = two_by_two([complex(a, b) for a in PARTS for b in PARTS], "complex128")
    cases.append(Case(npt.stencil(ratio), [z, w]))
    agree(cupy, cases)
    # NumPy's own functions differ in the last place.
    with np.errstate(over="ignore"):
        one = [np.array(FLOATS, dtype) for dtype in ("float32", "float64")]
    agree(cupy, [Case(npt.stencil(angles), [x]) for x in one], compiled=True)


def test_numbers_that_are_stored_shorter(cupy):
    """Rounded to floats of 16 bits, to the even of two; cut to integers and to their ends."""
    bits = np.arange(2**16, dtype=np.uint16)
    random = np.random.default_rng(0)
    scales = 2.0 ** random.integers(-30, 18, 4000)
    ties = random.integers(0, 2**11, 4000) + random.choice([0, 0.5, 0.5 + 2**-40], 4000)
    values = np.concatenate([FLOATS, random.normal(size=4000) * scales, ties * scales])
    shorter, longer = npt.stencil(lambda x: np.float16(x[0])), npt.stencil(lambda x: x[0] + 0)
    cut = [{"dtype": dtype, "overflow": "saturate"} for dtype in ("int8", "int64", "uint64")]
    with np.errstate(over="ignore"):
        singles = values.astype("float32")
    agree(cupy, [
        Case(shorter, [values]), Case(shorter, [singles]),
        *[Case(longer, [bits.view(dtype)]) for dtype in ("float16", "bfloat16")],
        *[Case(longer, [given], {"dtype": dtype})
          for given in (values, singles) for dtype in ("float16", "bfloat16")],
        *[Case(longer, [np.array(FLOATS)], one) for one in cut],
    ])  # fmt: skip
