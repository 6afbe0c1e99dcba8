"""Numbers at their ends, against Python's own integers: operators, literals, truths, casts.

The same text is run as plain Python for every pair of types, compiled for some, and on the
general path, where a `while` stands around it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import kernels
import ninepoint as npt
from nightly import only
from ninepoint import StencilError
from seams import interpreted

DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
WORD = 2**64


# One operator for each output.


def arithmetic(x, y):
    return (
        x[0] + y[0],
        x[0] - y[0],
        x[0] * y[0],
        x[0] // y[0],
        x[0] % y[0],
        x[0] & y[0],
        x[0] | y[0],
        x[0] ^ y[0],
        x[0] << y[0],
        x[0] >> y[0],
        min(x[0], y[0]),
        max(x[0], y[0]),
        np.minimum(x[0], y[0]),
        np.maximum(x[0], y[0]),
        divmod(x[0], y[0])[0],
        divmod(x[0], y[0])[1],
        -(x[0] // y[0]),
    )


def orders(x, y):
    return (
        x[0] < y[0],
        x[0] <= y[0],
        x[0] > y[0],
        x[0] >= y[0],
        x[0] == y[0],
        x[0] != y[0],
    )


def constants(x):
    return (
        x[0] // -1,
        x[0] % -1,
        x[0] // -7,
        x[0] % -7,
        x[0] // 2**31,
        x[0] % 2**32,
        x[0] >> 64,
        x[0] >> 7,
        x[0] << 64,
        x[0] << -1,
        x[0] >> -1,
        x[0] ** 2,
        x[0] ** 3,
        x[0] ** 11,
        ~x[0],
        -x[0],
        abs(x[0]),
        round(x[0], -1),
        round(x[0], -2),
        round(x[0], -18),
        round(x[0], -19),
        round(x[0], -30),
        round(x[0], 3),
        np.round(x[0], -1),
        np.clip(x[0], -1, 3),
        max(0, -1, x[0]),
        min(x[0], -5),
    )


def comparisons(x):
    return (
        x[0] > -1,
        x[0] < 2**31,
        x[0] <= 2**32,
        x[0] == -(2**31),
        x[0] != -1,
        -1 <= x[0] < 2**63 - 1,
        x[0] < -(2**63),
    )


WHILE = """
HUGE = 2**70


def repeated({names}):
    k = 0
    while k < 1:
        k += 1
        result = {body}
    return result
"""


def repeated(kernel: Any) -> Any:
    """The kernel with a loop around what it returns, which the general path alone runs."""
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(kernel)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    returned = tree.body[0]
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    names = ", ".join(argument.arg for argument in tree.args.args)
    text = "import math\nimport numpy as np\n" + WHILE.format(
        names=names, body=ast.unparse(returned.value)
    )
    return kernels.compiled(text, "repeated")


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


def by_text(kernel: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results of the generated text, run as plain Python."""
    with interpreted():
        return listed(npt.stencil(kernel)(*arrays))


def listed(result: Any) -> list[np.ndarray]:
    return list(result) if isinstance(result, tuple) else [result]


def fitted(value: int, modular: bool) -> int:
    return value % WORD if modular else (value + 2**63) % WORD - 2**63


def shifted(left: Any, count: int) -> int:
    """`left` by a count; 0 or the sign where the count is none of 0 to 63."""
    return int(left) >> count if 0 <= count < 64 else -1 if left < 0 else 0


def expected_arithmetic(a: Any, b: Any, modular: tuple[bool, bool]) -> list[int]:
    """Python's results for two plain numbers, as 64 bits hold them."""
    x, y = int(a), int(b)
    # Beside an integer that may be negative a uint64 gives an int64.
    plain = [v for v, word in zip((a, b), modular, strict=True) if not word]
    mixed = any(modular) and any(not isinstance(v, bool) for v in plain)
    words, bits = any(modular) and not mixed, any(modular)
    of_rest = modular[1] if mixed else words
    quotient, rest = (x // y, x % y) if y else (0, 0)
    results = [fitted(x + y, words), fitted(x - y, False), fitted(x * y, words)]
    results += [fitted(quotient, words), fitted(rest, of_rest)]
    results += [fitted(value, bits) for value in (x & y, x | y, x ^ y)]
    results.append(fitted(x << y if 0 <= y < 64 else 0, modular[0]))
    results.append(fitted(shifted(x, y), modular[0]))
    results += [min(x, y), max(x, y)] * 2
    results += [fitted(quotient, words), fitted(rest, of_rest)]
    results.append(fitted(-quotient, False))
    return results


def expected_orders(a: Any, b: Any) -> list[bool]:
    x, y = int(a), int(b)
    return [x < y, x <= y, x > y, x >= y, x == y, x != y]


def expected_constants(a: Any, modular: bool) -> list[int]:
    x = int(a)
    inverted = int(not a) if isinstance(a, bool) else ~x
    clipped, least = min(max(x, -1), 3), min(x, -5)
    signed = [fitted(value, False) for value in (x // -1, x % -1, x // -7, x % -7)]
    values = [x // 2**31, x % 2**32, shifted(x, 64), x >> 7]
    values += [0, 0, -1 if x < 0 else 0, x**2, x**3, x**11, inverted]
    values = [fitted(value, modular) for value in values]
    values.append(fitted(-x, False))
    rounded = [
        abs(x),
        round(x, -1),
        round(x, -2),
        round(x, -18),
        round(x, -19),
        0,
        x,
        round(x, -1),
    ]
    rounded = [fitted(value, modular) for value in rounded]
    return [*signed, *values, *rounded, clipped, max(0, -1, x), least]


def expected_comparisons(a: Any) -> list[bool]:
    x = int(a)
    first = [x > -1, x < 2**31, x <= 2**32, x == -(2**31), x != -1]
    return [*first, -1 <= x < 2**63 - 1, False]


def check(results: list[np.ndarray], wanted: list[list[Any]], what: str) -> None:
    assert len(results) == len(wanted[0])
    for position, result in enumerate(results):
        exact = [one[position] for one in wanted]
        found = [int(value) for value in result.tolist()]
        assert found == [int(v) for v in exact], f"{what}, output {position}, {result.dtype}"
        if isinstance(exact[0], bool):
            assert result.dtype == bool


def pairs(x: np.ndarray, y: np.ndarray) -> list[list[Any]]:
    modular = x.dtype == np.uint64, y.dtype == np.uint64
    numbers = zip(x.tolist(), y.tolist(), strict=True)
    return [expected_arithmetic(a, b, modular) for a, b in numbers]


@pytest.mark.parametrize("first", only(3, DTYPES))
def test_text_of_operators_is_exact_at_the_ends_of_every_pair_of_types(first):
    for second in DTYPES:
        x, y = columns(first, second)
        check(by_text(arithmetic, [x, y]), pairs(x, y), f"{first} {second}")
        wanted = [expected_orders(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        check(by_text(orders, [x, y]), wanted, f"{first} {second}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_text_of_operators_is_exact_beside_constants(dtype):
    (x,) = columns(dtype)
    wanted = [expected_constants(a, dtype == "uint64") for a in x.tolist()]
    check(by_text(constants, [x]), wanted, dtype)
    check(by_text(comparisons, [x]), [expected_comparisons(a) for a in x.tolist()], dtype)


@pytest.mark.parametrize(
    ("first", "second"),
    only(2, [("int32", "int8"), ("int8", "int8"), ("uint64", "int64"), ("int8", "uint64")]),
)
def test_compiled_operators_are_exact(first, second):
    x, y = columns(first, second)
    check(listed(npt.stencil(arithmetic)(x, y)), pairs(x, y), f"{first} {second}")
    wanted = [expected_orders(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    check(listed(npt.stencil(orders)(x, y)), wanted, f"{first} {second}")
    debugged = npt.stencil(arithmetic).debug(x[::7], y[::7])
    check(listed(debugged), pairs(x, y)[::7], "debug")


@pytest.mark.parametrize("dtype", only(2, ["int8", "int64", "uint64", "int16"]))
def test_compiled_operators_are_exact_beside_constants(dtype):
    (x,) = columns(dtype)
    wanted = [expected_constants(a, dtype == "uint64") for a in x.tolist()]
    check(listed(npt.stencil(constants)(x)), wanted, dtype)
    check(listed(npt.stencil(constants).debug(x)), wanted, f"debug of {dtype}")


@pytest.mark.parametrize(("first", "second"), only(1, [("uint64", "int64"), ("int8", "int32")]))
def test_the_general_path_is_exact(first, second):
    x, y = columns(first, second)
    check(listed(npt.stencil(repeated(arithmetic))(x, y)), pairs(x, y), f"{first} {second}")
    wanted = [expected_orders(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    check(listed(npt.stencil(repeated(orders))(x, y)), wanted, f"{first} {second}")


@pytest.mark.parametrize("dtype", only(1, ["uint64", "bool"]))
def test_the_general_path_is_exact_beside_constants(dtype):
    (x,) = columns(dtype)
    wanted = [expected_constants(a, dtype == "uint64") for a in x.tolist()]
    check(listed(npt.stencil(repeated(constants))(x)), wanted, dtype)
    wanted = [expected_comparisons(a) for a in x.tolist()]
    check(listed(npt.stencil(repeated(comparisons))(x)), wanted, dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("divisor", [-1, "y"])
def test_the_least_by_minus_one_is_the_same_in_every_lane(dtype, divisor):
    least = int(np.iinfo(dtype).min)
    x, y = np.full(70, least, dtype), np.full(70, -1, dtype)
    if divisor == -1:
        quotient, rest = npt.stencil(lambda x: (x[0] // -1, x[0] % -1))(x)
    else:
        quotient, rest = npt.stencil(lambda x, y: (x[0] // y[0], x[0] % y[0]))(x, y)
    assert set(quotient.tolist()) == {fitted(-least, False)}
    assert set(rest.tolist()) == {0}


def test_text_divides_its_own_zeros_as_machine_code_does():
    """Python would raise: the numbers of a text are NumPy's."""

    def shares(x):
        total = x[0] * 2.0 if x[0] > 0 else 0.0
        return total / total, 1.0 / total, total % total, total // total

    x = np.array([3, 0, 2], "uint16")
    nan, inf = np.nan, np.inf
    wanted = [[1, nan, 1], [1 / 6, inf, 0.25], [0, nan, 0], [1, nan, 1]]
    np.testing.assert_array_equal(by_text(shares, [x]), wanted)


def test_what_is_known_while_a_text_is_read_is_divided_by_zero_alike():
    @npt.stencil
    def shares(x):
        found = x[0] * 0
        for a, b in ((3.0, 0.0), (3, 0.0), (3.0, 0), (3, 0)):
            found = (a / b, a // b, a % b, found)[0]
        return found, 1 / 0, 5 // 0, 5 % 0, 0.0**-1

    x = np.arange(3.0)
    for one, other in zip(shares(x), shares.debug(x), strict=True):
        np.testing.assert_array_equal(one, other)
    assert shares(x)[0].tolist() == [np.inf] * 3


def floating_quotients(x, y):
    return x[0] // y[0], x[0] % y[0], (x[0] // y[0]) / 3, (x[0] % y[0]) / 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_of_floats_are_those_of_their_type(dtype):
    """Beyond 2**24 a float32 is rounded at each step that NumPy takes, not once at the end."""
    rng = np.random.default_rng(3)
    with np.errstate(over="ignore"):
        large = np.ldexp(rng.uniform(-1, 1, 4000), rng.integers(-20, 60, 4000)).astype(dtype)
        small = np.ldexp(rng.uniform(-1, 1, 4000), rng.integers(-20, 20, 4000)).astype(dtype)
    edges = [0, -0.0, 1, -1, 3, 2**24 + 1, -(2**26) - 9, 1e-45, 1e38, -1e38]
    edges = np.array([*edges, np.inf, -np.inf, np.nan], dtype)
    x, y = np.meshgrid(edges, edges)
    x, y = np.concatenate([x.ravel(), large]), np.concatenate([y.ravel(), small])
    with np.errstate(all="ignore"):
        wanted = [x // y, x % y, (x // y) / 3, (x % y) / 3]
    stencils = npt.stencil(floating_quotients), npt.stencil(repeated(floating_quotients))
    for results in (by_text(floating_quotients, [x, y]), *(one(x, y) for one in stencils)):
        for result, values in zip(results, wanted, strict=True):
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, values)
            known = values == values
            np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(values[known]))
    for result, values in zip(stencils[0].debug(x[:300], y[:300]), wanted, strict=True):
        np.testing.assert_array_equal(result, values[:300])


def test_sums_that_wrap_are_the_same_however_they_are_used():
    """The compiler may not conclude that a number plus 1 is more than the number."""

    def kernel(x):
        return x[0] + 1 > x[0], (x[0] * 2) // 2, x[0] - 1 < x[0], x[0] + (-(2**63)), x[0] ** 9

    x = np.array([2**63 - 1, -(2**63), 2**62 + 5, -7, 3], "int64")
    stencil = npt.stencil(kernel)
    for result, wanted in zip(stencil(x), stencil.debug(x), strict=True):
        np.testing.assert_array_equal(result, wanted)
    assert stencil(x)[0].tolist() == [False, True, True, True, True]


# Truths.

FLAG = True
MASK = np.array([True, False, True])


def truths(m, x):
    inside = True
    if x[0] > 3:
        inside = False
    found = ~(x[0] > 2)
    found &= m[0]
    found |= ~inside
    return (
        ~m[0],
        m[0] & (x[0] > 2),
        m[0] | ~(x[0] == 1),
        m[0] ^ True,
        np.where(~m[0], 5, 7),
        5 if ~m[0] else 7,
        ~FLAG,
        m[0] & ~FLAG,
        ~inside,
        found,
        ~np.bool_(x[0]),
        ~bool(x[0]),
        ~(~m[0]),
        ~(m[0] and FLAG),
        np.invert(m[0]),
        m[0] & 3,
        m[0] + m[0],
        -m[0],
        round(m[0]),
        (~m[-1:2]).sum(),
        (~(x[-1:2] > 2)).any(),
        (m[-1:2] & ~MASK).sum(),
        (~np.isnan(x[-1:2] / 2.0)).all(),
        np.where(~(x[-1:2] > 2), x[-1:2], 0).sum(),
    )


def expected_truths(m, x):
    near, mask = np.pad(m, 1, mode="edge"), np.pad(x, 1, mode="edge")
    near = np.lib.stride_tricks.sliding_window_view(near, 3)
    mask = np.lib.stride_tricks.sliding_window_view(mask, 3)
    inside = x <= 3
    return (
        ~m,
        m & (x > 2),
        m | ~(x == 1),
        ~m,
        np.where(~m, 5, 7),
        np.where(~m, 5, 7),
        np.zeros_like(m),
        np.zeros_like(m),
        ~inside,
        (~(x > 2) & m) | ~inside,
        x == 0,
        x == 0,
        m,
        ~m,
        ~m,
        m & 1,
        2 * m,
        -1 * m,
        1 * m,
        (~near).sum(-1),
        (~(mask > 2)).any(-1),
        (near & ~MASK).sum(-1),
        np.ones_like(m),
        np.where(mask > 2, 0, mask).sum(-1),
    )


def test_not_and_or_of_truths_are_those_of_numpy():
    m = np.array([True, False, False, True, True, False, True] * 11)
    x = np.array([1, 0, 3, 4, 2, 5, 0] * 11, "int16")
    stencil = npt.stencil(boundary="nearest")(truths)
    wanted = expected_truths(m, x)
    for results in (stencil(m, x), stencil.debug(m, x)):
        for position, (result, one) in enumerate(zip(results, wanted, strict=True)):
            np.testing.assert_array_equal(result, one, err_msg=str(position))
            assert (result.dtype == bool) == (one.dtype == bool), position


def test_a_truth_that_is_given_inverts_too():
    def kernel(x, flag=True):
        return x[0] if ~flag else -x[0]

    x = np.array([1, 2], "int8")
    for call in (npt.stencil(kernel), npt.stencil(kernel).debug):
        assert call(x).tolist() == [-1, -2]
        assert call(x, flag=False).tolist() == [1, 2]


# Numbers of the text that int64 does not hold.

HUGE = 2**70
LARGE = np.uint64(2**63 + 1)


def beside_floats(x):
    return (
        x[0] * 10**19,
        x[0] / 10**20,
        x[0] + HUGE,
        x[0] > 2**63,
        x[0] < 2**64,
        min(x[0], 2**63),
        np.clip(x[0], -(2**64), 2**64),
        x[0] % 2**63,
        x[0] // -(2**65),
        (x[-1:2] * 10**19).sum(),
        (x[-1:2] > 2**64).sum(),
        x[0] if x[0] > 0 else 2**63,
        np.hypot(x[0], 2**64),
        x[0] * float(2**70),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_beyond_64_bits_are_floats_beside_floats(dtype):
    x = np.array([1.0, 3.0, -7.0, 0.0, 2.0**64, 1e30] * 12, dtype)
    kind = np.dtype(dtype).type
    stencil = npt.stencil(boundary="nearest")(beside_floats)
    made = stencil(x)
    for result, wanted in zip(made, stencil.debug(x), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.dtype in (dtype, bool) or result.dtype.kind in "iu"
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(made[0], x * kind(1e19))
    np.testing.assert_array_equal(made[1], x / kind(1e20))
    np.testing.assert_array_equal(made[2], x + kind(2.0**70))
    np.testing.assert_array_equal(made[3], x > 2.0**63)
    np.testing.assert_array_equal(made[4], x < 2.0**64)
    np.testing.assert_array_equal(made[5], np.minimum(x, kind(2.0**63)))


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: x[0] * 10**20,
        lambda x: x[0] + 2**63,
        lambda x: x[0] > 2**64,
        lambda x: min(x[0], 2**63),
        lambda x: x[0] - (-(2**63) - 1),
        lambda x: x[0] + LARGE,
        lambda x: np.where(x[0] > 1, x[0], HUGE),
        lambda x: (x[-1:2] * 10**20).sum(),
        lambda x: x[0] in (5, 2**64),
        lambda x: HUGE if x[0] > 1 else 0,
    ],
)
def test_numbers_beyond_64_bits_are_refused_beside_integers(kernel):
    stencil = npt.stencil(kernel)
    for dtype in ("int32", "uint8", "int64"):
        for call in (stencil, stencil.debug):
            with pytest.raises(StencilError, match="literal-range"):
                call(np.arange(5, dtype=dtype))


def test_uint64_holds_numbers_up_to_its_own_end():
    def kernel(u):
        return u[0] + 2**63, u[0] > 2**63, u[0] == LARGE, max(u[0], 2**64 - 2), u[0] // 2**63

    u = np.array([0, 1, 2**63 + 1, 2**64 - 1], "uint64")
    stencil = npt.stencil(kernel)
    wanted = [[(int(v) + 2**63) % WORD, v > 2**63, v == 2**63 + 1] for v in u.tolist()]
    for results in (stencil(u), stencil.debug(u)):
        assert [r.tolist() for r in results[:3]] == [list(c) for c in zip(*wanted, strict=True)]
        assert results[3].tolist() == [2**64 - 2] * 3 + [2**64 - 1]
        assert results[4].tolist() == [0, 0, 1, 1]


def test_an_element_of_a_constant_array_is_a_number_of_the_text():
    weights = np.array([2, 3])

    @npt.stencil
    def power(x):
        return x[0] ** weights[0]

    @npt.stencil
    def product(x):
        return x[0] * weights[1]

    x, words = np.array([2**32 + 1, 3]), np.array([2**63 - 1, 2**63], "uint64")
    for call in (power, power.debug):
        np.testing.assert_array_equal(call(x), [2**33 + 1, 9])
    for call in (product, product.debug):
        np.testing.assert_array_equal(call(words), words * np.uint64(3))
        assert call(words).dtype == "uint64"


def test_intermediate_numbers_may_be_of_any_size():
    x = np.array([1, 2], "int8")
    stencil = npt.stencil(lambda x: x[0] + HUGE // 2**68 + 10**30 % 7)
    assert stencil(x).tolist() == stencil.debug(x).tolist() == [6, 7]


def test_a_default_beyond_64_bits_is_refused():
    def kernel(x, factor=10**30):
        return x[0] * factor

    with pytest.raises(ValueError, match=r"'factor'=1000.* does not fit into int64; pass a float"):
        npt.stencil(kernel)(np.zeros(3))


# Types, rounding, powers.


@pytest.mark.parametrize(
    ("dtype", "digits", "wanted"),
    [
        ("uint8", -1, "uint16"),
        ("uint8", -2, "uint16"),
        ("uint8", -3, "uint8"),
        ("int8", -1, "int16"),
        ("int16", -1, "int32"),
        ("uint16", -4, "uint32"),
        ("int64", -1, "int64"),
        ("bool", -1, "uint8"),
    ],
)
def test_rounding_to_tens_has_a_type_that_holds_it(dtype, digits, wanted):
    (x,) = columns(dtype)
    stencil = npt.stencil(lambda x: round(x[0], digits))
    result = stencil(x)
    assert result.dtype == wanted
    assert stencil.debug(x).dtype == wanted
    exact = [fitted(round(int(v), digits), False) for v in x.tolist()]
    assert result.tolist() == exact


HALVES = [2049.7, 70000.0, 65519.9, 65520.0, 1e-9, 0.1, 6.1e-5, 5.96e-8, 2.98e-8, 2.9802e-8, -0.0]
HALVES += [2049.0, 2051.0, 1.00048828125, 1.0004882812500002, -3.3, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_cast_to_float16_rounds_once(dtype):
    x = np.array(HALVES * 5, dtype)
    stencil = npt.stencil(
        lambda x: (np.float16(x[0]), np.half(x[0:2]).max(), np.float16(7) * x[0])
    )
    with np.errstate(over="ignore"):
        wanted = x.astype("float16").astype("float32")
    for results in (stencil(x), stencil.debug(x)):
        assert results[0].dtype == "float32"
        np.testing.assert_array_equal(results[0], wanted)
        np.testing.assert_array_equal(np.signbit(results[0]), np.signbit(wanted))
    np.testing.assert_array_equal(by_text(lambda x: np.float16(x[0]), [x])[0], wanted)


@pytest.mark.parametrize("dtype", ["int32", "uint64", "bool"])
def test_integers_become_float16(dtype):
    (x,) = columns(dtype)
    stencil = npt.stencil(lambda x: np.float16(x[0]))
    with np.errstate(over="ignore"):
        wanted = x.astype("float64").astype("float16").astype("float32")
    np.testing.assert_array_equal(stencil(x), wanted)
    np.testing.assert_array_equal(stencil.debug(x), wanted)


def test_powers_are_integers_where_the_exponent_is_known_not_to_be_negative():
    def kernel(x, y, u, b, n):
        return (
            x[0] ** y[0],
            x[0] ** u[0],
            x[0] ** b[0],
            x[0] ** 5,
            x[0] ** -1,
            u[0] ** -1,
            x[0] ** n,
        )

    x = np.array([3, -2, 0, 2**31 - 1, 7] * 14, "int64")
    y = np.array([41, 3, -1, 2, 0] * 14, "int8")
    u = np.array([41, 63, 64, 2, 0] * 14, "uint64")
    b = np.array([True, False, True, True, False] * 14)
    stencil = npt.stencil(kernel)
    results, debugged = stencil(x, y, u, b, 2), stencil.debug(x, y, u, b, 2)
    assert [r.dtype.name for r in results] == [
        "float64", "int64", "int64", "int64", "float64", "float64", "float64",
    ]  # fmt: skip
    for result, wanted in zip(results, debugged, strict=True):
        np.testing.assert_array_equal(result, wanted)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(results[0], x.astype(float) ** y.astype(float), rtol=1e-15)
    powers = [fitted(int(a) ** int(n), False) for a, n in zip(x, u, strict=True)]
    assert results[1].tolist() == powers
    assert results[3].tolist() == [fitted(int(a) ** 5, False) for a in x]


def test_functions_of_math_beyond_their_range_are_those_of_numpy():
    def kernel(x):
        return (
            math.exp(x[0]),
            math.expm1(x[0]),
            math.cosh(x[0]),
            math.sinh(x[0]),
            math.gamma(x[0]),
            math.lgamma(x[0]),
            math.pow(x[0], 301),
            math.log(x[0]),
            math.sqrt(x[0]),
        )

    x = np.array([1000, -1000, 0, 1, 171, 172], "int16")
    stencil = npt.stencil(kernel)
    with np.errstate(all="ignore"):
        for result, wanted in zip(stencil(x), stencil.debug(x), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-13)


def test_the_extremes_of_floats_have_the_type_of_their_sum():
    stencil = npt.stencil(lambda x, y: (np.sqrt(abs(max(x[0], y[0]))), min(x[0], y[0]) / 3))
    x, y = np.array([7.5, -1.1, 3.3], "float32"), np.array([-5.5, 2.2, 1.7])
    wanted = np.sqrt(abs(np.maximum(x, y))), np.minimum(x, y) / 3
    for made in (stencil(x, y), stencil.debug(x, y)):
        np.testing.assert_array_equal(made, wanted)


def test_the_extremes_of_uint64_and_signed_integers():
    def kernel(u, i):
        least = min(u[0], i[0])
        return (
            least,
            least - 5,
            max(u[0], i[0]),
            np.minimum(u[0:2], i[0:2]).min(),
            np.maximum(u[0:2], i[0:2]).max(),
            (u[0:2] > i[0:2]).sum(),
            u[0] < i[0] <= 5,
            np.clip(u[0], -5, -1),
            np.clip(i[0], -1, u[0]),
        )

    u = np.array([0, 1, 5, 2**63, 2**64 - 1, 7] * 12, "uint64")
    i = np.array([-1, 1, -128, 127, 0, -7, 3] * 12, "int8")[: len(u)]
    stencil = npt.stencil(kernel)
    results = stencil(u, i)
    assert [r.dtype.name for r in results[:4]] == ["int8", "int16", "uint64", "int8"]
    for result, wanted in zip(results, stencil.debug(u, i), strict=True):
        np.testing.assert_array_equal(result, wanted)
    pairs = list(zip(u.tolist(), i.tolist(), strict=True))
    assert results[0].tolist() == [min(a, b) for a, b in pairs]
    assert results[2].tolist() == [max(a, b) for a, b in pairs]
    assert results[6].tolist() == [a < b <= 5 for a, b in pairs]
    assert set(results[7].tolist()) == {-1}
    assert results[8].tolist() == [min(max(b, -1), a) for a, b in pairs]


# The general path has rules of its own for all of these.


def large_floats(x):
    return (
        x[0] * 10**19,
        x[0] / HUGE,
        5 < x[0] < 2**64,
        min(x[0], 2**63),
        x[0] + 2**70 // 2**68,
        round(x[0] / 7, 1),
        np.float16(x[0]),
    )


def test_large_numbers_and_casts_on_the_general_path():
    x = np.array([1.0, 3.0, -7.0, 2.0**64, 1e30, 0.1])
    general = npt.stencil(repeated(large_floats))
    plain = npt.stencil(large_floats)
    for result, wanted in zip(general(x), plain(x), strict=True):
        np.testing.assert_array_equal(result, wanted)
    large = repeated(integer_sum)
    with pytest.raises(StencilError, match="literal-range"):
        npt.stencil(large)(np.arange(5, dtype="int32"))


def integer_sum(x):
    return x[0] + 10**20


def wraps(x):
    return (
        x[0] + 1 > x[0],
        (x[0] * 2) // 2,
        x[0] - 1 < x[0],
        x[0] ** 9,
        ~(x[0] > 3),
        np.where(~(x[0] > 3), x[0], True),
    )


def test_sums_wrap_on_the_general_path():
    x = np.array([2**63 - 1, -(2**63), 2**62 + 5, -7, 3], "int64")
    general = npt.stencil(repeated(wraps))
    for result, wanted in zip(general(x), npt.stencil(wraps)(x), strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("divide", [lambda a: bool(a % a), lambda a: bool(a // a)])
def test_integers_of_the_text_are_divided_by_zero_as_those_of_arrays(divide):
    @npt.stencil(boundary="nearest")
    def counted(x):
        count = 0
        for i in (-1, 0, 1):
            if x[i] > 3:
                count += int(x[i])
        return divide(count)

    x = np.array([0, 1, 7, 2, 0, 0, 0], "uint8")
    np.testing.assert_array_equal(counted(x), counted.debug(x))
    assert not counted(x)[-1]


def test_functions_of_numpy_make_its_own_numbers_of_pythons() -> None:
    @npt.stencil(boundary="nearest")
    def kernel(x, whole=3, part=0.7):
        return (
            np.minimum(whole, 2) * 0.5 * x[0],
            np.round(part) * x[0],
            np.ceil(whole) // 1.5 * x[0],
            np.divmod(part, 0.3)[1] * x[0],
            np.conj(part) * x[0],
            min(whole, 2) * 0.5 * x[0],
        )

    x = np.arange(4, dtype=np.float32)
    wanted = (
        np.minimum(3, 2) * 0.5 * x,
        np.round(0.7) * x,
        np.ceil(3) // 1.5 * x,
        np.divmod(0.7, 0.3)[1] * x,
        np.conj(0.7) * x,
        min(3, 2) * 0.5 * x,
    )
    for one, made, meant in zip(kernel(x), kernel.debug(x), wanted, strict=True):
        assert one.dtype == np.asarray(meant).dtype
        np.testing.assert_array_equal(one, meant)
        np.testing.assert_array_equal(made, meant)


def test_extremes_of_products_by_loops_have_the_type_of_their_difference() -> None:
    weights = np.array([2, 0, -1])

    @npt.stencil(schedule=npt.Schedule(unrolled=0, direct=0))
    def spread(x):
        return np.ptp(x[0:3] * weights) - x[0]

    x = np.arange(9, dtype="uint32") * 1000
    np.testing.assert_array_equal(spread(x), spread.debug(x))


def test_a_choice_between_zeros_keeps_their_signs() -> None:
    @npt.stencil
    def zeros(x):
        return np.where(x[0] > 0, 0.0, -0.0)

    assert np.signbit(zeros(np.array([-1.0, 1.0]))).tolist() == [True, False]


def test_a_local_of_many_operations_is_read_at_another_point() -> None:
    @npt.stencil(boundary="nearest")
    def far(x):
        d = 0.0
        for k in range(400):
            d = d * 0.5 + x[k]
        return d[1]

    assert "x[400]" in far.ir("float64")


def test_a_difference_of_infinities_is_no_number() -> None:
    @npt.stencil(boundary="valid")
    def grown(x):
        return np.maximum(np.exp(np.float32(x[0])) - np.exp(np.float32(x[1])), np.float32(0))

    x = np.array([1, 127, 127, 3], np.int8)
    np.testing.assert_array_equal(grown(x), np.array([0, np.nan, np.inf], np.float32))
    np.testing.assert_array_equal(grown.debug(x), grown(x))
