"""Numbers at their ends: operators, literals, truths, casts, and functions give what debug gives.

The same text is run as plain Python for many pairs of types, compiled for some, and in a loop that
nobody knows the end of.
"""

import functools
import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import kernels
import ninepoint as npt
from compared import WAYS, agree, alike, by_text, each, only, refuses, views
from ninepoint import StencilError

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

# Operators: as they are written, as Python computes them (the same, where nothing is said), and
# what holds them: int64 ("signed"), uint64 if both operands are words or no integers ("words"), if
# any is ("any"), if the first is ("first"), for a remainder ("rest"); or any type, and a truth.
ARITHMETIC = [
    *((text, "", "words") for text in ("a + b", "a * b", "a // b")),
    *((text, "", "signed") for text in ("a - b", "-(a // b)")),
    *((text, "", "any") for text in ("a & b", "a | b", "a ^ b")),
    ("a % b", "", "rest"),
    ("divmod(a, b)[0]", "a // b", "words"),
    ("divmod(a, b)[1]", "a % b", "rest"),
    ("a << b", "a << b if 0 <= b < 64 else 0", "first"),
    ("a >> b", "a >> b if 0 <= b < 64 else -1 if a < 0 else 0", "first"),
    *((f"{name}(a, b)", "", "exact") for name in ("min", "max")),
    *((f"np.{name}imum(a, b)", f"{name}(a, b)", "exact") for name in ("min", "max")),
    *((f"a {symbol} b", "", "truth") for symbol in ("<", "<=", ">", ">=", "==", "!=")),
]
CONSTANTS = [
    *((f"a {divided}", "", "signed") for divided in ("// -1", "% -1", "// -7", "% -7")),
    *((f"a {by}", "", "first") for by in ("// 2**31", "% 2**32", ">> 7", "** 2", "** 3", "** 11")),
    ("a >> 64", "-1 if a < 0 else 0", "first"),
    ("a << 64", "0", "first"),
    ("a << -1", "0", "first"),
    ("a >> -1", "-1 if a < 0 else 0", "first"),
    ("~a", "1 - a if truth else ~a", "first"),
    ("-a", "", "signed"),
    ("abs(a)", "", "first"),
    *((f"round(a, {digits})", "", "first") for digits in (-1, -2, -18, -19, 3)),
    ("round(a, -30)", "0", "first"),
    ("np.round(a, -1)", "round(a, -1)", "first"),
    ("np.clip(a, -1, 3)", "min(max(a, -1), 3)", "exact"),
    ("max(0, -1, a)", "", "exact"),
    ("min(a, -5)", "", "exact"),
    *((f"a {test}", "", "truth") for test in (
        "> -1", "< 2**31", "<= 2**32", "== -(2**31)", "!= -1", "< -(2**63)")),
    ("-1 <= a < 2**63 - 1", "", "truth"),
]  # fmt: skip
IN_A_LOOP = "    k = 0\n    while k < 1:\n        k += 1\n        results = {}\n    return results"


def kernel_of(rows: list[Any], names: str, *, looping: bool = False) -> npt.Stencil:
    """A kernel that gives the first part of each row, of `x[0]` and `y[0]`."""
    results = ", ".join(row[0] for row in rows)
    text = f"import numpy as np\ndef kernel({names}):\n    a = x[0]\n"
    text += "    b = y[0]\n" if "y" in names else ""
    text += IN_A_LOOP.format(results) if looping else f"    return {results}"
    return npt.stencil(kernels.compiled(text + "\n"))


def extremes(dtype: str) -> list[Any]:
    if dtype == "bool":
        return [False, True]
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    near = [n for n in (-64, -7, -2, -1, 0, 1, 2, 3, 5, 15, 25, 31, 63, 64, 65) if n >= low]
    return [low, low + 1, *near, high // 2, high // 2 + 1, high - 1, high]


@functools.cache
def columns(*dtypes: str) -> list[np.ndarray]:
    """Every pair of extremes, or every extreme; more than one vector of them."""
    values = [np.array(extremes(dtype), dtype) for dtype in dtypes]
    crossed = [np.ascontiguousarray(v.ravel()) for v in np.meshgrid(*values, indexing="ij")]
    while len(crossed[0]) < 70:
        crossed = [np.concatenate([v, v]) for v in crossed]
    return crossed


def fitted(value: int, word: bool) -> int:
    return value % 2**64 if word else (value + 2**63) % 2**64 - 2**63


def check(results: Any, rows: list[Any], fields: list[np.ndarray]) -> None:
    """Results are what Python computes, in the type that holds them."""
    words = [field.dtype == np.uint64 for field in fields]
    mixed = any(words) and any(f.dtype not in (np.uint64, bool) for f in fields)
    both = any(words) and not mixed
    held = {"signed": False, "words": both, "any": any(words), "first": words[0]}
    held["rest"] = words[-1] if mixed else both
    numbers = [tuple(map(int, pair)) for pair in zip(*(f.tolist() for f in fields), strict=True)]
    for result, (text, python, rule) in zip(each(results), rows, strict=True):
        code = compile(python or text, "<python>", "eval")
        wanted = []
        for pair in numbers:
            names = dict(zip("ab", pair, strict=False), truth=fields[0].dtype == bool)
            try:
                value = eval(code, names)
            except ZeroDivisionError:
                value = 0
            wanted.append(fitted(value, held[rule]) if rule in held else value)
        assert result.tolist() == wanted, f"{text} of {[field.dtype.name for field in fields]}"
        assert result.dtype == bool or rule != "truth", text


@pytest.mark.parametrize("first", only(3, DTYPES))
def test_operators_are_exact_at_the_ends_of_every_pair_of_types(first):
    kernel = kernel_of(ARITHMETIC, "x, y")
    for second in DTYPES:
        fields = columns(first, second)
        check(by_text(kernel, *fields), ARITHMETIC, fields)


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_are_exact_beside_constants(dtype):
    check(by_text(kernel_of(CONSTANTS, "x"), *columns(dtype)), CONSTANTS, columns(dtype))


@pytest.mark.parametrize(
    ("first", "second"),
    only(2, [("int32", "int8"), ("int8", "int8"), ("uint64", "int64"), ("int8", "uint64")]),
)
def test_compiled_operators_are_exact(first, second):
    for rows, names, dtypes in ((ARITHMETIC, "x, y", (first, second)), (CONSTANTS, "x", (first,))):
        stencil, fields = kernel_of(rows, names), columns(*dtypes)
        check(stencil(*fields), rows, fields)
        few = [field[::7] for field in fields]
        check(stencil.debug(*few), rows, few)


def test_operators_are_exact_in_loops():
    fields = columns("uint64", "int64")
    check(kernel_of(ARITHMETIC, "x, y", looping=True)(*fields), ARITHMETIC, fields)
    fields = columns("uint64")
    check(kernel_of(CONSTANTS, "x", looping=True)(*fields), CONSTANTS, fields)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_the_least_by_minus_one_is_the_same_in_every_lane(dtype):
    rows = [(text, text.replace("b", "-1"), "signed") for text in ("a // b", "a % b", "a // -1")]
    fields = [np.full(70, np.iinfo(dtype).min, dtype), np.full(70, -1, dtype)]
    check(kernel_of(rows, "x, y")(*fields), rows, fields)


def test_what_is_known_while_a_text_is_read_is_divided_by_zero_alike():
    @npt.stencil
    def shares(x):
        found = x[0] * 0
        for a, b in ((3.0, 0.0), (3, 0.0), (3.0, 0), (3, 0)):
            found = (a / b, a // b, a % b, found)[0]
        return found, 1 / 0, 5 // 0, 5 % 0, 0.0**-1

    assert agree(shares, np.arange(3.0), way="compiled")[0].tolist() == [np.inf] * 3


@pytest.mark.parametrize("divide", [lambda a: bool(a % a), lambda a: bool(a // a)])
def test_integers_of_the_text_are_divided_by_zero_as_those_of_arrays(divide):
    @npt.stencil(boundary="nearest")
    def counted(x):
        count = 0
        for i in (-1, 0, 1):
            if x[i] > 3:
                count += int(x[i])
        return divide(count)

    assert not agree(counted, np.array([0, 1, 7, 2, 0, 0, 0], "uint8"), way="compiled")[-1]


QUOTIENTS = [("a // b",), ("a % b",), ("(a // b) / 3",), ("(a % b) / 3",)]


def test_powers_are_integers_where_that_is_known_and_have_the_sign_of_the_number():
    powers = npt.stencil(lambda x: (-3.0) ** x[0])
    x = np.array([1.0, 2.0, 3.0, -2.0, 0.0])
    np.testing.assert_array_equal(powers(x), [-3, 9, -27, 1 / 9, 1])

    @npt.stencil
    def kernel(x, y, u, b, n):
        return x[0] ** y[0], x[0] ** u[0], x[0] ** b[0], x[0] ** -1, u[0] ** -1, x[0] ** n

    x = np.array([3, -2, 0, 2**31 - 1, 7] * 14, "int64")
    y = np.array([41, 3, -1, 2, 0] * 14, "int8")
    u = np.array([41, 63, 64, 2, 0] * 14, "uint64")
    b = np.array([True, False, True, True, False] * 14)
    results = agree(kernel, x, y, u, b, 2, way="compiled")
    kinds = ["float64", "int64", "int64", "float64", "float64", "float64"]
    assert [r.dtype.name for r in results] == kinds
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(results[0], x.astype(float) ** y.astype(float), rtol=1e-15)
    powers = [fitted(int(a) ** int(n), False) for a, n in zip(x, u, strict=True)]
    assert results[1].tolist() == powers


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_of_floats_are_those_of_their_type(dtype):
    """Beyond 2**24 a float32 is rounded at each step that NumPy takes, not once at the end."""
    rng = np.random.default_rng(3)
    with np.errstate(over="ignore"):
        large = np.ldexp(rng.uniform(-1, 1, 4000), rng.integers(-20, 60, 4000)).astype(dtype)
        small = np.ldexp(rng.uniform(-1, 1, 4000), rng.integers(-20, 20, 4000)).astype(dtype)
    edges = [0, -0.0, 1, -1, 3, 2**24 + 1, -(2**26) - 9, 1e-45, 1e38, -1e38]
    # And beyond 64 bits.
    beyond = [] if dtype == "float32" else [1e300, -1e300, 1e-300, 1e20, -1e25]
    edges = np.array([*edges, *beyond, np.inf, -np.inf, np.nan], dtype)
    x, y = np.meshgrid(edges, edges)
    x, y = np.concatenate([x.ravel(), large]), np.concatenate([y.ravel(), small])
    with np.errstate(all="ignore"):
        wanted = [x // y, x % y, (x // y) / 3, (x % y) / 3]
    plain, looping = (kernel_of(QUOTIENTS, "x, y", looping=way) for way in (False, True))
    for results in (by_text(kernel_of(QUOTIENTS, "x, y"), x, y), plain(x, y), looping(x, y)):
        alike(results, tuple(wanted))
        for result, values in zip(results, wanted, strict=True):
            known = values == values
            np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(values[known]))
    alike(plain.debug(x[:300], y[:300]), tuple(one[:300] for one in wanted))


@pytest.mark.parametrize("looping", [False, True])
def test_sums_that_wrap_are_the_same_however_they_are_used(looping):
    """The compiler may not conclude that a number plus 1 is more than the number."""
    rows = [("a + 1 > a",), ("(a * 2) // 2",), ("a - 1 < a",), ("a + (-(2**63))",), ("a ** 9",)]
    stencil = kernel_of(rows, "x", looping=looping)
    x = np.array([2**63 - 1, -(2**63), 2**62 + 5, -7, 3], "int64")
    assert agree(stencil, x, way="compiled")[0].tolist() == [False, True, True, True, True]


MASK = np.array([True, False, True])
# As written, where `w` and `v` are windows of `m` and `x`, and `FLAG` is true; and as NumPy's.
TRUTHS = {
    "m[0] & (x[0] > 2)": "m & (x > 2)",
    "m[0] | ~(x[0] == 1)": "m | ~(x == 1)",
    "m[0] ^ True": "~m",
    "np.where(~m[0], 5, 7)": "np.where(~m, 5, 7)",
    "5 if ~m[0] else 7": "np.where(~m, 5, 7)",
    "m[0] & ~FLAG": "m & False",
    "~inside": "x > 3",
    "~given": "m & False",
    "found": "(~(x > 2) & m) | (x > 3)",
    "~np.bool_(x[0])": "x == 0",
    "~(m[0] and FLAG)": "~m",
    "m[0] & 3": "1 * m",
    "-m[0]": "-1 * m",
    "(~w).sum()": "(~w).sum(-1)",
    "(~(v > 2)).any()": "(~(v > 2)).any(-1)",
    "(w & ~MASK).sum()": "(w & ~MASK).sum(-1)",
    "(~np.isnan(v / 2.0)).all()": "m | True",
    "np.where(~(v > 2), v, 0).sum()": "np.where(v > 2, 0, v).sum(-1)",
}
TRUTHS_KERNEL = """
def kernel(m, x, given=True):
    w, v = m[-1:2], x[-1:2]
    inside = True
    if x[0] > 3:
        inside = False
    found = ~(x[0] > 2)
    found &= m[0]
    found |= ~inside
    return """


def test_not_and_or_of_truths_are_those_of_numpy():
    m = np.array([True, False, False, True, True, False, True] * 11)
    x = np.array([1, 0, 3, 4, 2, 5, 0] * 11, "int16")
    names = {"np": np, "FLAG": True, "MASK": MASK}
    text = TRUTHS_KERNEL + ", ".join(TRUTHS) + "\n"
    stencil = npt.stencil(boundary="nearest")(kernels.compiled(text, names=names))
    names |= {"m": m, "x": x}
    names |= {"w": views(np.pad(m, 1, mode="edge"), 3), "v": views(np.pad(x, 1, mode="edge"), 3)}
    for results in (stencil(m, x), stencil.debug(m, x)):
        for result, (text, numpy) in zip(results, TRUTHS.items(), strict=True):
            one = eval(numpy, names)
            np.testing.assert_array_equal(result, one, err_msg=text)
            assert (result.dtype == bool) == (one.dtype == bool), text


HUGE = 2**70


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_beyond_64_bits_are_floats_beside_floats(dtype):
    @npt.stencil(boundary="nearest")
    def beside_floats(x):
        compared = x[0] > 2**63, x[0] < 2**64, min(x[0], 2**63), np.clip(x[0], -(2**64), 2**64)
        windows = (x[-1:2] * 10**19).sum(), (x[-1:2] > 2**64).sum(), np.hypot(x[0], 2**64)
        chosen = x[0] if x[0] > 0 else 2**63
        divided = x[0] % 2**63, x[0] // -(2**65)
        return x[0] * 10**19, x[0] / 10**20, x[0] + HUGE, *compared, *divided, *windows, chosen

    x = np.array([1.0, 3.0, -7.0, 0.0, 2.0**64, 1e30] * 12, dtype)
    for result, wanted in zip(beside_floats(x), beside_floats.debug(x), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.dtype in (dtype, bool) or result.dtype.kind in "iu"


@pytest.mark.parametrize("kernel", [
    lambda x: x[0] * 10**20, lambda x: x[0] > 2**64, lambda x: min(x[0], 2**63),
    lambda x: np.where(x[0] > 1, x[0], HUGE), lambda x: (x[-1:2] * 10**20).sum(),
    lambda x: x[0] in (5, 2**64), lambda x: HUGE if x[0] > 1 else 0,
])  # fmt: skip
def test_numbers_beyond_64_bits_are_refused_beside_integers(kernel):
    stencil = npt.stencil(kernel)
    for dtype in ("uint8", "int64"):
        for call in (stencil, stencil.debug):
            refuses(StencilError, "literal-range", call, np.arange(5, dtype=dtype))


@pytest.mark.parametrize(
    ("dtype", "digits", "wanted"),
    [("uint8", -2, "uint16"), ("uint8", -3, "uint8"), ("int8", -1, "int16"),
     ("uint16", -4, "uint32"), ("int64", -1, "int64"), ("bool", -1, "uint8")],
)  # fmt: skip
def test_rounding_to_tens_has_a_type_that_holds_it(dtype, digits, wanted):
    result = agree(lambda x: round(x[0], digits), *columns(dtype))
    assert result.dtype == wanted
    assert result.tolist() == [fitted(round(int(v), digits), False) for v in columns(dtype)[0]]


HALVES = [2049.7, 70000.0, 65519.9, 65520.0, 1e-9, 0.1, 6.1e-5, 5.96e-8, 2.98e-8, 2.9802e-8, -0.0]
HALVES += [2049.0, 2051.0, 1.00048828125, 1.0004882812500002, -3.3, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "bool"])
@pytest.mark.parametrize("way", WAYS)
def test_a_cast_to_float16_rounds_once(dtype, way):
    x = np.array(HALVES * 5, dtype) if dtype[0] == "f" else columns(dtype)[0]
    stencil = npt.stencil(
        lambda x: (np.float16(x[0]), np.half(x[0:2]).max(), np.float16(7) * x[0])
    )
    with np.errstate(over="ignore"):
        wide = x if dtype == "float32" else x.astype("float64")
        wanted = wide.astype("float16").astype("float32")
    made = agree(stencil, x, way=way, close=1e-15)[0]
    assert made.dtype == "float32"
    np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(np.signbit(made), np.signbit(wanted))


@pytest.mark.parametrize("factor", [
    lambda whole, part: np.minimum(whole, 2) * 0.5, lambda whole, part: np.round(part),
    lambda whole, part: np.ceil(whole) // 1.5, lambda whole, part: np.divmod(part, 0.3)[1],
    lambda whole, part: np.conj(part), lambda whole, part: min(whole, 2) * 0.5 * round(part, 1),
])  # fmt: skip
def test_functions_of_numpy_make_its_own_numbers_of_pythons(factor) -> None:
    x = np.arange(4, dtype=np.float32)
    kernel = npt.stencil(lambda x, whole=3, part=0.7: factor(whole, part) * x[0])
    alike(agree(kernel, x), factor(3, 0.7) * x)


def test_a_local_of_many_operations_is_read_at_another_point() -> None:
    @npt.stencil(boundary="nearest")
    def far(x):
        d = 0.0
        for k in range(400):
            d = d * 0.5 + x[k]
        return d[1]

    assert "x[400]" in far.ir("float64")


def shares(x):
    total = x[0] * 2.0 if x[0] > 0 else 0.0
    return total / total, 1.0 / total, total % total, total // total


TWO, WORDS = np.array([2, 3]), np.array([2**63 - 1, 2**63], "uint64")
CHOSEN = np.array([7.5, -1.1, 3.3], "float32"), np.array([-5.5, 2.2, 1.7])
PRODUCTS, LOOPS = np.array([2, 0, -1]), npt.Schedule(unrolled=0, direct=0)
NAN, INF = np.nan, np.inf
# Kernels that were wrong once, or nearly: fields, options, and what they give.
AGREED: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[Any]]] = [
    # Python would raise: the numbers of a text are NumPy's.
    (shares, (np.array([3, 0, 2], "uint16"),), {}, [[1, NAN, 1], [1 / 6, INF, 0.25]]),
    (lambda x: x[0] + HUGE // 2**68 + 10**30 % 7, (np.array([1, 2], "int8"),), {}, [[6, 7]]),
    # An element of a constant array is a number of the text.
    (lambda x: x[0] ** TWO[0], (np.array([2**32 + 1, 3]),), {}, [[2**33 + 1, 9]]),
    (lambda x: x[0] * TWO[1], (WORDS,), {}, [(WORDS * np.uint64(3)).tolist()]),
    # Extremes have the type of a sum, and of products the type of their difference.
    (lambda x, y: (np.sqrt(abs(max(x[0], y[0]))), min(x[0], y[0]) / 3), CHOSEN, {},
     [np.sqrt(abs(np.maximum(*CHOSEN))), np.minimum(*CHOSEN) / 3]),
    (lambda x: np.ptp(x[0:3] * PRODUCTS) - x[0], (np.arange(9, dtype="uint32") * 1000,),
     {"schedule": LOOPS}, []),
    # The signs of zeros are kept, and a difference of infinities is no number.
    (lambda x: 1 / np.where(x[0] > 0, 0.0, -0.0), (np.array([-1.0, 1.0]),), {}, [[-INF, INF]]),
    (lambda x: np.maximum(np.exp(np.float32(x[0])) - np.exp(np.float32(x[1])), np.float32(0)),
     (np.array([1, 127, 127, 3], np.int8),), {"way": "compiled", "boundary": "valid"},
     [[0, NAN, INF]]),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "fields", "options", "wanted"), AGREED)
def test_what_was_wrong_once(kernel, fields, options, wanted) -> None:
    made = each(agree(kernel, *fields, **options))
    for one, right in zip(made, wanted, strict=False):
        np.testing.assert_array_equal(one, right)


NARROW = ["int8", "uint8", "int16", "uint16", "uint32", "int32", "bool"]


def limited(x):
    return max(-5, min(x[0] * 3, 100))


def clamped(x):
    v = x[1] - x[-1]
    return v if v > 0 else 0


# Kernels whose least and greatest results are those of corners: fields at the ends of their types.
RESULTS = {
    "difference": lambda x: x[1] - x[-1],
    "sum": lambda x: x[0] + x[1] + x[2],
    "product": lambda x: x[0] * x[1],
    "square": lambda x: x[0] * x[0],
    "scaled": lambda x: 3 * x[0] - 2 * x[1],
    "average": lambda x: (x[0] + x[1]) // 2,
    "shifted": lambda x: (x[0] << 2) + 1,
    "halved": lambda x: x[0] >> 1,
    "negative": lambda x: -x[0],
    "inverted": lambda x: ~x[0],
    "distance": lambda x: abs(x[0] - x[1]),
    "greater": lambda x: max(x[0], x[1] // 4),
    "rest": lambda x: x[0] % 11,
    "limited": limited,
    "clamped": clamped,
    "counted": lambda x: (x[0] > 3) + (x[1] > 5) + (x[2] > 7),
    "window": lambda x: x[-1:2].sum(),
    "weighted": lambda x: (x[-1:2] * np.array([1, -2, 1])).sum(),
    "power": lambda x: x[0] ** 3,
    "bits": lambda x: x[0] & 12,
    "rounded": lambda x: round((x[0] + x[1]) / 3),
    "constant": lambda x: x[0] * 0 + 300,
}
NOT_OF_TRUTHS = ("negative", "shifted", "halved", "inverted", "greater", "rest", "bits")


class Exact:
    """Three whole numbers of Python, read around the middle one as a kernel reads a field."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers, dtype=object)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return np.roll(self.numbers, 1)
        return self.numbers[at % 3]


def smallest(dtype, least, greatest):
    """The type of fields, if it is one of integers that holds these, or the smallest that does."""
    kind = "int" if least < 0 else "uint"
    own = [] if dtype == "bool" else [dtype]
    for name in [*own, *(f"{kind}{bits}" for bits in (8, 16, 32, 64))]:
        if np.iinfo(name).min <= least and greatest <= min(np.iinfo(name).max, 2**63 - 1):
            return name
    return "int64"  # which it goes beyond, and is taken modulo 2**64


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_has_the_smallest_type_and_is_exact_at_the_ends(name):
    function = RESULTS[name]
    stencil = npt.stencil(function, boundary="wrap")
    for dtype in NARROW:
        if dtype == "bool" and name in NOT_OF_TRUTHS:
            continue
        ends = [0, 1] if dtype == "bool" else [0, np.iinfo(dtype).min, np.iinfo(dtype).max]
        corners = list(itertools.product(map(int, ends), repeat=3))
        exact = [int(function(Exact(corner))) for corner in corners]
        made = by_text(stencil, np.array(corners, dtype))[:, 0]
        assert made.dtype == smallest(dtype, min(exact), max(exact))
        np.testing.assert_array_equal(made.astype("uint64"), [one % 2**64 for one in exact])


PARTS = np.array([0.0, -0.0, 0.5, -1.25, 3.0, -40.0, 1e-3, np.inf, -np.inf, np.nan])
REAL = PARTS[np.isfinite(PARTS)]
SPECIAL = np.array([complex(a, b) for a in PARTS for b in PARTS])
FINITE = SPECIAL[np.isfinite(SPECIAL)]
WHOLE = np.array([0, 1, 2, 90, 127, 3, 0])


def roots(x):
    return np.sqrt(x[0]), np.exp(x[0]), x[0].real - x[1].imag, abs(x[0])


def waves(x):
    circular = np.sin(x[0]), np.cos(x[0]), np.tan(x[0])
    return *circular, np.sinh(x[0]), np.cosh(x[0]), np.tanh(x[0])


def products(x):
    z = x[0] * x[1] + 2
    return z / (x[0].conjugate() + 7), z**2, z - 1j, -z


def powers(x):
    turned = np.angle(x[0]), np.angle(x[0], deg=True)
    return (x[0] + 2) ** (x[1] - 0.5), np.log(x[0] + 2), *turned


def questions(x):
    return np.isnan(x[0]), np.isinf(x[0]), np.isfinite(x[0]), x[0] == x[1], x[0] != x[1]


def of_floats(x):
    total = np.signbit(x[0]) + 2 * np.isnan(x[0]) + 4 * np.isinf(x[0]) + 8 * np.isfinite(x[0])
    rounded = round(x[0] / 7, 1), np.round(x[0], -1), np.sign(x[0])
    return total, np.fmax(x[0], x[1]), np.fmin(x[0], x[1]), np.maximum(x[0], 1), *rounded


def of_powers(x):
    return abs(x[0]) ** 0.5, x[0] ** 2, 2.0 ** np.clip(x[0], -3, 3), np.hypot(x[0], x[1])


def of_infinities(x):
    return (
        np.nan_to_num(x[0]), np.nan_to_num(x[0], nan=1.5, posinf=2, neginf=-3.0),
        np.heaviside(x[0], 0.5), np.nextafter(x[0], x[1]), np.isclose(x[0], x[1], rtol=0.1),
        np.isclose(x[0], x[1], equal_nan=True),
    )  # fmt: skip


def of_angles(x):
    return np.degrees(x[0]), np.radians(x[0]), math.degrees(x[0]), np.sinc(x[0]), np.angle(x[0])


def of_logarithms(x):
    return np.logaddexp(x[0], x[1]), np.logaddexp(x[0], 2), math.nextafter(x[0], 3.0)


COMPLEX = ("complex64", "complex128")
FLOATS = ("float16", "float32", "float64")
KERNELS: dict[Any, tuple[np.ndarray, tuple[str, ...]]] = {
    **dict.fromkeys((roots, waves, products, powers), (FINITE / 4, COMPLEX)),
    questions: (SPECIAL, COMPLEX),
    of_floats: (PARTS, FLOATS),
    of_powers: (REAL, FLOATS),
    of_angles: (REAL, FLOATS),
    **dict.fromkeys((of_infinities, of_logarithms), (PARTS, FLOATS)),
}
CASES = [
    *((kernel, dtype) for kernel, (_, dtypes) in KERNELS.items() for dtype in dtypes),
    *itertools.product((of_angles, of_infinities, of_logarithms), ("int16", "uint8")),
]


def agrees(kernel: Any, dtype: str, way: str) -> None:
    x = (WHOLE if "int" in dtype else KERNELS[kernel][0]).astype(dtype)
    program = npt.stencil(boundary="nearest")(kernel)
    with WAYS[way](), warnings.catch_warnings():
        warnings.simplefilter("ignore", npt.PerformanceWarning)
        made = each(program(x))
    single = x.dtype in ("float32", "complex64", "float16")
    rtol, atol = (2e-4, 2e-4) if single else (1e-9, 1e-12)
    for one, other in zip(made, each(program.debug(x)), strict=True):
        assert one.dtype == other.dtype
        for left, right in ((one.real, other.real), (one.imag, other.imag)):
            np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("kernel", "dtype"), CASES)
def test_as_plain_python(kernel: Any, dtype: str) -> None:
    agrees(kernel, dtype, "interpreted")


@pytest.mark.parametrize(("kernel", "dtype"), only(len(CASES) // 2, CASES))
def test_as_machine_code(kernel: Any, dtype: str) -> None:
    agrees(kernel, dtype, "compiled")


@pytest.mark.parametrize(("dtype", "low", "high", "edges"), [
    ("float32", -104.0, 88.8, [88.72, 88.73, -87.3, -87.4, -103.2, -104.0, -105.0, 89.5]),
    ("float64", -746.0, 709.9, [709.78, 709.79, -708.4, -745.1, -746.0, -747.0, 711.0]),
])  # fmt: skip
def test_exponential_within_two_units_in_the_last_place(dtype, low, high, edges):
    rng = np.random.default_rng(0)
    edges = [*edges, *PARTS, 1e-300]
    x = np.concatenate([rng.uniform(low, high, 200_000), rng.uniform(-2, 2, 50_000), edges])
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.longdouble))
        rounded = exact.astype(dtype)
        result = npt.stencil(lambda x: np.exp(x[0]))(x)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(rounded))
        np.testing.assert_array_equal(np.isinf(result), np.isinf(rounded))
        finite = np.isfinite(rounded)
        units = np.abs(result - exact)[finite] / np.spacing(rounded[finite])
    assert units.max() <= 2


def test_functions_of_math_beyond_their_range_are_those_of_numpy():
    @npt.stencil
    def kernel(x):
        exponentials = math.exp(x[0]), math.expm1(x[0]), math.cosh(x[0]), math.sinh(x[0])
        others = math.log(x[0]), math.sqrt(x[0]), math.pow(x[0], 301)
        return math.gamma(x[0]), math.lgamma(x[0]), *exponentials, *others

    x = np.array([1000, -1000, 0, 1, 171, 172], "int16")
    with np.errstate(all="ignore"):
        for result, wanted in zip(kernel(x), kernel.debug(x), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-13)


# Python 3.14 warns of a part that is complex itself, and computes it as before.
@pytest.mark.filterwarnings("ignore:complex:DeprecationWarning")
def test_complex_of_two_parts_is_pythons():
    joined = npt.stencil(lambda x, y: complex(x[0], y[0]))
    real = np.array([1, np.inf, -0.0, np.nan, -3])
    imag = np.array([np.inf, 2, -0.0, 1, np.nan])
    for x, y in ((real.astype("float32"), imag), (real, imag + 2j), (imag - 1j, real)):
        exact = np.array([complex(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
        for found in (joined(x, y), joined.debug(x, y)):
            assert found.dtype == np.complex128
            for part, other in ((found.real, exact.real), (found.imag, exact.imag)):
                np.testing.assert_array_equal(part, other)
                assert (np.isnan(part) | (np.signbit(part) == np.signbit(other))).all()
    whole = npt.stencil(lambda x: complex(x[0], 2) * complex(1) + complex(imag=x[0]))
    assert whole(np.array([3.0])).tolist() == [3 + 5j]
