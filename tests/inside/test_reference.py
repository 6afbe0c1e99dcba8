"""The definition itself, against plain NumPy and SciPy on cases picked by hand."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ninepoint as npt
import seams
from compared import refuses
from kernels import compiled
from ninepoint.arrays.borders import Boundary
from ninepoint.language import reference
from ninepoint.language.reference import store
from ninepoint.language.source import capture

Reach = tuple[tuple[int, ...], tuple[int, ...]]


def footprints(function: Callable[..., Any], *dtypes: Any, **named: Any) -> tuple[Reach, ...]:
    """The least and the greatest offset that each output depends on, as they are analysed."""
    return seams.plan_of(npt.stencil(function), *dtypes, **named).reaches


def evaluate(
    function: Callable[..., Any],
    arrays: Mapping[str, Any] | Sequence[Any],
    *,
    scalars: Mapping[str, Any] | None = None,
    standard: Sequence[str] = (),
    boundary: Any = "fill",
    cval: Any = 0,
    neighborhood: Any = None,
    reaches: Sequence[Reach] = (),
) -> tuple[np.ndarray[Any, Any], ...]:
    """What a function means at every point of its fields.

    Arrays in a sequence are those of the parameters that are no scalars; `reaches` are given for
    what no stencil can be made of.  Where a neighborhood is declared, there is one output.
    """
    given = dict(scalars or {})
    if not isinstance(arrays, Mapping):
        names = [name for name in inspect.signature(function).parameters if name not in given]
        arrays = dict(zip(names, arrays, strict=False))
    fields = {name: np.asarray(array) for name, array in arrays.items()}
    given |= {name: fields.pop(name) for name in standard}
    if neighborhood is not None and not reaches:
        reaches = [tuple(zip(*neighborhood, strict=True))]
    if not reaches:
        stencil = npt.stencil(function, standard_indexing=standard)
        # What a kernel never reads is no field of it.
        types = [fields[name].dtype for name in stencil.definition.fields]
        reaches = seams.plan_of(stencil, *types, **given).reaches
    setting = reference.Setting(
        boundary=Boundary.of(boundary).sides(len(reaches[0][0])),
        footprints=reaches,
        shape=np.broadcast_shapes(*(field.shape for field in fields.values())),
        cval=cval,
        scalars=given,
        neighborhood=neighborhood or (),
    )
    return reference.evaluate(capture(function), fields, setting)


PAD = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap"}
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
WEIGHTS = np.arange(9.0).reshape(3, 3)
ZERO = 0.0


def values(function, *arrays, boundary="nearest", **options):
    """The only output, as a list."""
    (result,) = evaluate(function, arrays, boundary=boundary, **options)
    return result.tolist()


@pytest.mark.parametrize("offset", [-9, -2, 0, 1, 8])
def test_a_neighbour_outside_is_that_of_np_pad(offset):
    for rule, mode in PAD.items():
        for size in (1, 2, 3, 7):
            x = np.arange(10, 10 + size)
            wanted = np.pad(x, 9, mode=mode)[9 + offset : 9 + offset + size]
            assert values(lambda x: x[offset], x, boundary=rule) == wanted.tolist()


LINE = np.arange(1, 6)


@pytest.mark.parametrize(("function", "x", "boundary", "expected"), [
    (lambda x: 10 * x[-1] + x[1], LINE[:3], [("constant", "mirror")], [52, 13, 22]),
    (lambda x: min(x[-2], x[1]), LINE, "fill", [5, 5, 1, 2, 5]),
    (lambda x: min(x[-2], x[1]), LINE, "keep", [1, 2, 1, 2, 5]),
    (lambda x: min(x[-2], x[1]), LINE, "valid", [1, 2]),
    (lambda x: x[2], LINE, "valid", [3, 4, 5]),
    (lambda x: x[-2], LINE, "valid", [1, 2, 3]),
    (lambda x: x[9], LINE, "valid", []),
    (lambda x: x[1, -2], np.arange(12).reshape(3, 4), ("constant", "nearest"),
     [[4, 4, 4, 5], [8, 8, 8, 9], [5, 5, 5, 5]]),
])  # fmt: skip
def test_sides_rules_and_results_that_are_smaller(function, x, boundary, expected):
    assert values(function, x, boundary=boundary, cval=5) == expected


def test_each_output_has_its_own_border_also_of_stacks_and_of_nothing():
    left, here = evaluate(lambda x: (x[-1], x[0]), [np.arange(1, 4)])
    assert (left.tolist(), here.tolist()) == ([0, 1, 2], [1, 2, 3])
    x, y = np.arange(24).reshape(2, 3, 4), np.arange(4)
    (result,) = evaluate(lambda x, y: x[0, 0] + y[-1, 1], [x, y], boundary="wrap")
    assert_array_equal(result, x + np.roll(y, -1))
    for shape in [(0,), (0, 3), (2, 0)]:
        results = evaluate(lambda x: (x[-1], x[1]), [np.zeros(shape)])
        assert [result.shape for result in results] == [shape, shape]


# Numbers: a kernel, what the field holds, and the value, whose type is the kernel's.
SHORT, SINGLE = np.array([7], np.int16), np.array([3], np.float32)
LONG, ONE = np.array([2**64 - 1], np.uint64), np.array([1], np.uint64)


@pytest.mark.parametrize(("kernel", "x", "expected"), [
    (lambda x: x[0] - 9, np.array([3], np.uint8), -6),
    (lambda x: (x[0] << 61) * 2, SHORT, -(2**62)),
    (lambda x: x[0] ** 50, np.array([3], np.uint8), int(np.int64(3) ** np.int64(50))),
    (lambda x: x[0] + 2, LONG, 1),
    (lambda x: x[0] > -2, LONG, True),
    (lambda x: -x[0], LONG, 1),
    (lambda x: x[0] - 3, ONE, -2),
    (lambda x: x[0] // 0, SHORT, 0),
    (lambda x: x[0] % 0, SHORT, 0),
    (lambda x: -x[0] // 3, SHORT, -3),
    (lambda x: -x[0] % 3, SHORT, 2),
    (lambda x: x[0] << 64, SHORT, 0),
    (lambda x: -x[0] >> 99, SHORT, -1),
    (lambda x: x[0] ** -1, SHORT, np.float64(1 / 7)),
    (lambda x: x[0] / 0, SHORT, np.float64(np.inf)),
    (lambda x: math.log(0 * x[0]), SHORT, np.float64(-np.inf)),
    (lambda x: math.sqrt(-x[0]) == 0, SHORT, False),
    (lambda x: int(x[0] / 0), SHORT, 2**63 - 1),
    (lambda x: int(np.nan * x[0]), SHORT, 0),
    (lambda x: round(x[0] / 2), SHORT, 4),
    (lambda x: math.floor(-x[0] / 2), SHORT, -4),
    (lambda x: np.where(x[0] > 3, x[0], 0), SHORT, 7),
    (lambda x: np.clip(x[0], 1, 5), SHORT, 5),
    (lambda x: (x[0] > 3) + (x[0] > 4), SHORT, 2),
    (lambda x: (x[0] > 3) & (x[0] > 9), SHORT, False),
    (lambda x: ~(x[0] > 3), SHORT, False),
    (lambda x: ~x[0], SHORT, -8),
    (lambda x: x[0] and 3, SHORT, 3),
    (lambda x: 3 < x[0] <= 7, SHORT, True),
    (lambda x: np.int8(x[0] * 100), SHORT, -68),
    (lambda x: np.uint8(x[0] * 1e9), SHORT, 255),
    (lambda x: np.sqrt(x[0]), SHORT, np.sqrt(np.float64(7))),
    # Floats follow NEP 50.
    (lambda x: 0.1 * x[0], SINGLE, np.float32(0.1) * np.float32(3)),
    (lambda x: x[0] * 2**60, SINGLE, np.float32(3) * np.float32(2**60)),
    (lambda x: x[0] * int(x[0]), SINGLE, np.float32(9)),
    (lambda x: x[0] * np.float64(0.1), SINGLE, np.float64(3) * 0.1),
    (lambda x: x[0] / 0, SINGLE, np.float32(np.inf)),
    (lambda x: x[0] * math.sqrt(2), SINGLE, np.float32(3) * np.float32(math.sqrt(2))),
    (lambda x: float(x[0]) / 0, SINGLE, np.float64(np.inf)),
    (lambda x: (x[0:2] * CROSS[1, :2]).sum(), SINGLE, np.float32(6)),
    (lambda x: (x[0] > 2) + (x[0] > 1), SINGLE, 2),
    (lambda x: np.maximum(x[0], np.nan * x[0]) == 0, SINGLE, False),
    (lambda x: min(x[0], 5), SINGLE, np.float32(3)),
    (lambda x: x[0] * 1j, SINGLE, np.complex64(3j)),
])  # fmt: skip
def test_one_number(kernel, x, expected):
    (value,) = evaluate(kernel, [x], boundary="nearest")[0]
    assert value == expected
    assert type(value) is type(expected)


def test_store():
    numbers = np.array([300, -1, np.float64(2.9), np.float32(-np.inf), np.nan], object)
    assert store(numbers, np.uint8, "saturate").tolist() == [255, 0, 3, 0, 0]
    assert store(numbers, np.int8, "wrap").tolist() == [44, -1, 2, 0, 0]
    refuses(OverflowError, "300 does not fit into uint8", store, numbers, np.uint8)
    assert store(numbers[:2], np.float32).tolist() == [300, -1]


@pytest.mark.parametrize(
    "name", ["sum", "mean", "min", "max", "median", "std", "var", "argmin", "argmax", "ptp"]
)
def test_reductions_are_numpys(name):
    function = getattr(np, name)
    for dtype in ("uint8", "float32", "float64"):
        x = np.random.default_rng(1).integers(0, 50, (4, 5)).astype(dtype)
        (result,) = evaluate(lambda x: function(x[-1:2, 0:2]), [x], boundary="nearest")
        padded = np.pad(x, 1, mode="edge").astype(float)
        for i, j in np.ndindex(x.shape):
            wanted = function(padded[i : i + 3, j + 1 : j + 3])
            assert_allclose(result[i, j], wanted, rtol=1e-6)
        kind = np.float32 if dtype == "float32" else np.float64
        if name.startswith("arg") or (dtype == "uint8" and name in ("sum", "min", "max", "ptp")):
            kind = int
        assert type(result[0, 0]) is kind


def test_a_weight_of_zero_reads_nothing():
    x = np.ones((3, 3))
    x[0, 0] = np.inf
    (result,) = evaluate(lambda x: (x[-1:2, -1:2] * CROSS).sum(), [x])
    assert result[1, 1] == 5
    assert footprints(lambda x: (CROSS[:2] * x[-1:1, -1:2]).mean()) == (((-1, -1), (0, 1)),)
    column = np.array([[0, 1, 0]])
    assert footprints(lambda x: (x[0:1, -1:2] * column).sum()) == (((0, 0), (0, 0)),)


FUNCTIONS = {
    "sort": lambda w: np.sort(w, axis=0)[1, 2],
    "sort-method": lambda w: np.sort(w.ravel())[4] - np.sort(w.flatten())[0],
    "nanmedian": lambda w: np.nanmedian(w),
    "nanpercentile": lambda w: np.nanpercentile(w, 30),
    "cumsum": lambda w: np.cumsum(w)[5] + w.cumsum()[2],
    "dot": lambda w: np.dot(w, WEIGHTS)[0, 1],
    "matmul": lambda w: (w @ WEIGHTS)[1, 1] + (WEIGHTS @ w)[0, 2],
    "unique": lambda w: np.unique(w).size,
    "element": lambda w: w[1, 2] - w[-1, 0],
    "part": lambda w: w[0].max() - w[:, 1].mean() + w[1:, :2].sum(),
    "truths": lambda w: w[w > 0].sum() + (w > 0).sum(),
    "axis": lambda w: np.sum(w, axis=0).max() + w.mean(axis=1)[0] + np.var(w, 1)[2],
    "transposed": lambda w: w.T[0, 2] - w.reshape(9)[3],
    "joined": lambda w: np.concatenate((w[0], w[:, 1]))[4] + np.diff(w[0])[1],
    "order": lambda w: np.argsort(w.ravel())[2] + np.argmax(w),
    "average": lambda w: np.average(w, weights=WEIGHTS) + np.average(w),
    "copied": lambda w: w.copy()[0, 0] + w.astype(np.float64)[1, 1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_arrays(name):
    function, box = FUNCTIONS[name], ((-1, 1), (-1, 1))
    for dtype, wide in (("float64", "float64"), ("int16", "int64"), ("uint8", "int64")):
        x = (np.random.default_rng(0).normal(size=(5, 6)) * 50).astype("int16").astype(dtype)
        (result,) = evaluate(
            lambda x: function(x[-1:2, -1:2]), [x], boundary="valid", neighborhood=box
        )
        views = np.lib.stride_tricks.sliding_window_view(x.astype(wide), (3, 3))
        wanted = np.array([[function(view) for view in row] for row in views])
        assert_allclose(store(result, wanted.dtype), wanted)


def test_integers_of_arrays_are_exact_and_copies_may_be_written():
    def exact(x):
        return np.sort(x[-1:2])[1] + np.cumsum(x[-1:2])[0]

    def written(x):
        w, v = x[-1:2].copy(), x[-1:2]
        v.sort()
        w[0] = x[0] * 2
        w[1:] += 1
        return w[0] + 10 * w[1] + 100 * v[0]

    options = {"boundary": "valid", "neighborhood": ((-1, 1),)}
    x = np.array([2**62 + 1, 2**53 + 1, 5])
    assert values(exact, x, **options) == [2**53 + 1 + 2**62 + 1]
    assert values(written, np.array([5, 3, 4]), **options) == [6 + 10 * 4 + 100 * 3]


def branches(x, y):
    """Only the output that differs depends on the question."""
    if x[5] > 0:
        return x[1], y[0]
    return x[2], y[0]


def dead_reads(x, scale=2):
    unused = x[-7]  # noqa: F841
    return x[0] * scale if scale > 1 else x[1]


def elsewhere(x):
    """Expressions at other points depend on what is there."""
    d = x[1] - x[-1]
    e = d if x[0] > 0 else x[0]
    return d[2], d[-1:2].sum(), e[1]


def conversions(x):
    return int(x[1]), math.sqrt(float(x[2])), np.where(x[3] > 0, min(x[4], x[5]), 0)


@pytest.mark.parametrize(("kernel", "reaches"), [
    (branches, (((1,), (5,)), ((0,), (0,)))),
    (dead_reads, (((0,), (1,)),)),
    (elsewhere, (((1,), (3,)), ((-2,), (2,)), ((0,), (2,)))),
    (conversions, (((1,), (1,)), ((2,), (2,)), ((3,), (5,)))),
])  # fmt: skip
def test_footprints(kernel, reaches):
    assert footprints(kernel) == reaches


def test_a_declared_neighborhood_is_enforced():
    def kernel(x, shift):
        return x[shift]

    x, options = np.arange(5), {"scalars": {"shift": 1}, "boundary": "wrap"}
    assert values(kernel, x, neighborhood=[(-1, 1)], **options) == [1, 2, 3, 4, 0]
    with pytest.raises(IndexError, match=r"x\[1\] is outside the neighborhood"):
        evaluate(kernel, [x], neighborhood=[(-1, 0)], **options)


@numba.njit
def larger(a, b):
    return a if a > b else math.sqrt(-1.0) if b > 100 else b


def test_helpers_buffers_prints_and_what_cannot_be_assigned(capsys):
    def kernel(x, w):
        buffer = np.zeros(3)
        for k in range(3):
            buffer[k] = x[k - 1] * w[k]
        buffer.sort()
        return larger(buffer[1], 0.5)

    x, w = np.array([4, 1, 3]), np.array([1, 2, 1])
    (result,) = evaluate(kernel, {"x": x, "w": w}, standard=("w",), neighborhood=[(-1, 1)])
    assert result.tolist() == [0, 3, 0]

    def prints(x):
        print(f"{x[0]:03d}", x[0])
        return x[0]

    def assigns(x):
        x[0] = 1
        return x[0]

    evaluate(prints, [np.array([7], np.uint8)], reaches=[((0,), (0,))])
    assert capsys.readouterr().out == "007 7\n"
    with pytest.raises(TypeError, match="cannot assign to its field 'x'"):
        evaluate(assigns, [np.arange(3)], reaches=[((0,), (0,))])


def test_expressions_in_loops_are_computed_once_a_point(capsys):
    """Non-local means: what is read at other points depends on points again."""

    def counted(value):
        print(".")
        return value

    def means(x):
        total = 0.0
        for i in range(-1, 2):
            for j in range(-1, 2):
                apart = (x[i, j] - x[0, 0]) ** 2
                total += counted(1 / (1 + apart[-1:2, -1:2].sum()))
        return total

    x = np.arange(6.0).reshape(2, 3) % 5
    evaluate(means, [x], boundary="wrap", reaches=[((-2, -2), (2, 2))])
    assert capsys.readouterr().out.count(".") < 100_000


@pytest.mark.parametrize("value", ["0.0", "ZERO", "2", "-ZERO * 2 + 1", "1j"])
def test_a_number_on_one_path_is_read_at_other_points(value):
    text = f"def kernel(x):\n    f = {value} if x[0] > 0 else x[1]\n    return f[-1] + f[1] * 2\n"
    x = np.array([1.0, -2.0, 3.0, -4.0, -5.0, 6.0])
    (result,) = evaluate(compiled(text, names={"ZERO": ZERO}), [x], boundary="wrap")
    f = np.where(x > 0, eval(value, {"ZERO": ZERO}), np.roll(x, -1))
    assert_allclose(store(result, f.dtype), np.roll(f, 1) + np.roll(f, -1) * 2)
