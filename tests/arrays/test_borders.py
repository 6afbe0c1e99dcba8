"""Rules, index maps and padded blocks, against scipy.ndimage and np.pad."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from ninepoint.arrays.borders import Border, Boundary
from ninepoint.arrays.fitting import fitting_cval
from ninepoint.arrays.gathering import Gather, runs, source_indices

PAD_MODES = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect", "wrap": "wrap"}
MAPPED = ("constant", "nearest", "reflect", "mirror", "wrap")


def naive(i: int, n: int, rule: str) -> int:
    """Walk to the source one step at a time, as the words of the table say."""
    match rule:
        case "constant":
            return i if 0 <= i < n else -1
        case "nearest":
            return min(max(i, 0), n - 1)
        case "wrap":
            while i < 0:
                i += n
            while i >= n:
                i -= n
            return i
        case _:
            if n == 1:
                return 0
            edge = 0 if rule == "mirror" else 1
            while not 0 <= i < n:
                i = -i - edge if i < 0 else 2 * (n - 1) - i + edge
            return i


@pytest.mark.parametrize("rule", MAPPED)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_any_reach_on_any_length(rule: str, n: int) -> None:
    got = source_indices(-40, 45, n, rule, rule)
    assert got.dtype == np.int64
    assert got.tolist() == [naive(i, n, rule) for i in range(-40, 45)]


@pytest.mark.parametrize("rule", sorted(PAD_MODES))
@pytest.mark.parametrize("n", [1, 2, 5])
def test_as_numpy_pads(rule: str, n: int) -> None:
    want = np.pad(np.arange(n), (11, 13), mode=PAD_MODES[rule])
    assert source_indices(-11, n + 13, n, rule, rule).tolist() == want.tolist()


def test_each_side_follows_its_own_rule() -> None:
    got = source_indices(-5, 7, 2, "mirror", "constant")
    assert got.tolist() == [1, 0, 1, 0, 1, 0, 1, -1, -1, -1, -1, -1]


def test_nothing_stands_on_an_empty_axis() -> None:
    assert source_indices(-2, 2, 0, "wrap", "wrap").tolist() == [-1] * 4


@pytest.mark.parametrize("before", MAPPED)
@pytest.mark.parametrize("after", MAPPED)
def test_runs_are_the_indices(before: str, after: str) -> None:
    for n, start, length in itertools.product((1, 2, 3, 5), range(-9, 9), (1, 2, 5, 12)):
        want = source_indices(start, start + length, n, before, after)
        got = np.full(length, -2)
        for run in runs(start, start + length, n, before, after):
            part = slice(run.start, run.stop)
            got[part] = -1 if run.first < 0 else np.arange(n)[run.source]
        assert got.tolist() == want.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_blocks_are_gathered_as_by_indices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 4))
    shape = tuple(int(k) for k in rng.integers(1, 6, ndim))
    array = rng.integers(0, 100, (2, *shape)).astype(np.int32)
    rules = []
    for _ in range(ndim):
        pair = rng.choice(MAPPED[:-1], 2)
        rules.append(("wrap", "wrap") if rng.random() < 0.3 else (str(pair[0]), str(pair[1])))
    border = Border(tuple(rules))
    start = tuple(int(k) for k in rng.integers(-7, 7, ndim))
    stop = tuple(a + int(k) for a, k in zip(start, rng.integers(1, 9, ndim), strict=True))
    got = Gather(shape, start, stop, border)(array, -5, array.dtype)
    axes = [
        source_indices(a, b, n, *pair)
        for a, b, n, pair in zip(start, stop, shape, rules, strict=True)
    ]
    want = array[np.ix_([0, 1], *axes)]
    absent = np.zeros(want.shape[1:], bool)
    for axis, indices in enumerate(axes):
        absent |= (indices < 0).reshape([-1 if k == axis else 1 for k in range(ndim)])
    want[:, absent] = -5
    np.testing.assert_array_equal(got, want)
    assert got.dtype == array.dtype


def test_parse_one_name_one_per_axis_pairs_and_aliases() -> None:
    assert Boundary.of("wrap").on(2).rules == (("wrap", "wrap"), ("wrap", "wrap"))
    assert Boundary.of(("edge", ("fill", "symmetric"))).on(2).rules == (
        ("nearest", "nearest"),
        ("fill", "reflect"),
    )
    assert Boundary.of(["grid-mirror", "grid-constant", "periodic"]).on(3).rules == (
        ("reflect", "reflect"),
        ("constant", "constant"),
        ("wrap", "wrap"),
    )
    assert str(Boundary.of(("wrap", ("fill", "keep"))).on(2)) == "('wrap', ('fill', 'keep'))"


def test_a_boundary_is_a_value() -> None:
    one, other = Boundary.of("edge"), Boundary.of("nearest")
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert Boundary.of(one) is one
    assert one.on(2) is other.on(2)
    assert Boundary.of(("wrap", "wrap")) != Boundary.of("wrap")
    assert [str(one), str(Boundary.of(["wrap", ["fill", "keep"]]))] == [
        "'nearest'",
        "('wrap', ('fill', 'keep'))",
    ]
    assert Boundary.of(("fill", ("mirror", "keep"))).keeps
    assert not Boundary.of("valid").keeps


@pytest.mark.parametrize(
    ("boundary", "error", "words"),
    [
        ("nearst", ValueError, 'unknown boundary \'nearst\'; use one of "fill", "keep"'),
        (("fill",), ValueError, "has 1 entries, but the stencil has 2 axes"),
        (("fill", ("wrap", "keep")), ValueError, "wraps on one side only"),
        (("fill", ("wrap",)), ValueError, "neither a name nor a"),
        (("fill", 3), ValueError, "neither a name nor a"),
        (("fill", (None, "keep")), ValueError, "unknown boundary None"),
        (3, TypeError, "boundary must be a name"),
    ],
)
def test_parse_refuses(boundary: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        Boundary.of(boundary).on(2)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("cval", "dtype", "words"),
    [
        (float("nan"), "i4", "use a whole number"),
        (float("inf"), "u1", "use a whole number"),
        (2.5, "i8", "cval=2.5 does not fit the result, which is int64; use a whole number"),
        (
            300,
            "u1",
            "cval=300 does not fit the result, which is uint8; use a number from 0 to 255",
        ),
        (-1, "u8", "a number from 0 to"),
        (2, "?", "a number from 0 to 1"),
        (1j, "f8", "a real number"),
        (np.complex64(1), "i2", "a real number"),
        (1e300, "f4", "a number up to 3.403e+38"),
        (10**400, "f8", "a number up to"),
    ],
)
def test_a_cval_that_does_not_fit(cval: object, dtype: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^cval=") as caught:
        fitting_cval(cval, np.dtype(dtype), "the result")
    assert words in str(caught.value)


@pytest.mark.parametrize("cval", ["0", None, [1], np.zeros(2)])
def test_a_cval_that_is_no_number(cval: object) -> None:
    with pytest.raises(TypeError, match="cval must be a number"):
        fitting_cval(cval, np.dtype("f8"), "the result")


@pytest.mark.parametrize(
    ("cval", "dtype", "want"),
    [
        (2.0, "i4", 2),
        (255, "u1", 255),
        (True, "u1", 1),
        (np.int16(-4), "i1", -4),
        (0.1, "f4", np.float32(0.1)),
        (float("inf"), "f4", np.inf),
        (1 + 2j, "c8", 1 + 2j),
        (2**64 - 1, "u8", 2**64 - 1),
        (np.array(3), "i8", 3),
        (0, "u1", 0),
    ],
)
def test_a_cval_that_fits(cval: object, dtype: str, want: object) -> None:
    assert fitting_cval(cval, np.dtype(dtype), "the result") == want


def test_a_cval_of_negative_zero_and_nan_stay() -> None:
    assert np.signbit(fitting_cval(-0.0, np.dtype("f8"), "the result"))
    assert np.isnan(fitting_cval(float("nan"), np.dtype("f4"), "the result"))
