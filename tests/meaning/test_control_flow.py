"""Loops whose turns differ from point to point, the ways out of them, and computed offsets."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from nightly import only

pytestmark = pytest.mark.filterwarnings("error::ninepoint.PerformanceWarning")

BYTES = np.random.default_rng(0).integers(0, 200, (7, 9)).astype("uint8")
LINE = np.arange(70).astype("int16") % 37
WEIGHTS = np.array([0.5, 0.25, 2.0])
FLOATS = np.abs(np.random.default_rng(1).normal(size=(6, 8))) * 9


def newton(x):
    v, k = 1.0, 0
    while abs(v * v - x[0, 0]) > 1e-9 and k < 100:
        v, k = 0.5 * (v + x[0, 0] / v), k + 1
    return v, k


def escape(x, y):
    z, c = 0j, x[0, 0] + 1j * y[0, 0]
    for n in range(60):
        if abs(z) > 2:
            return n
        z = z * z + c
    return -1


def ways_out(x):
    for k in range(1, 30):
        if x[0] % k == 3:
            return k
        if x[0] < k:
            continue
        if x[1] == k:
            break
    else:
        return -1
    return k * 100


def short_ways_out(x):
    """So few turns that they are written out."""
    found = 0
    for k in range(1, 6):
        if x[0] % k == 3:
            continue
        if x[1] % 7 == k:
            break
        found += k
    else:
        found = -found
    return found


def nested(x):
    total = 0
    for i in range(x[0] % 5):
        for j in range(x[1] % 7, i, -2):
            total += x[1] * j
            if total > 300:
                break
        if i > 2:
            break
    return total


def below_a_branch(x):
    """The loop would not end where the branch is not taken."""
    v = int(x[0])
    if v > 0:
        while v % 2 == 0:
            v //= 2
        v += 100
    else:
        while v < -1:
            v += 2
    return v


def after_a_return(x):
    v = int(x[0])
    if v == 0:
        return -1.0
    while v % 2 == 0:
        v //= 2
    return v / 2


def returns_inside(x):
    k = 0
    while True:
        k += 1
        if k * k > x[0]:
            return k, True
        if x[1] == k:
            return k, False


def defined_inside(x):
    k = 0
    while True:
        d = x[0] - k * k
        if d < 5:
            break
        k += 1
    return d


def helper_with_a_loop(x):
    def digits(v):
        n = 0
        while v > 0:
            v //= 10
            n += 1
            if n > 9:
                return -1
        return n

    return digits(x[0]) + 10 * digits(x[1] * x[1])


def once(x):
    while True:
        if x[0] > 9:
            v = x[1]
            break
        return x[0]
    return -v


def in_tuples(x):
    pair, k = (0, 1), 0
    while k < x[0]:
        pair, k = (pair[1], pair[0] + pair[1]), k + 1 if k < 20 else 1000
    return pair


def outer_window(x):
    """What is the same in all turns stands before the loop."""
    k, near = 0, x[-1:2]
    while k < near.max():
        k += 1 + near.min()
        near = x[-1:2]
    return k


def window_of_turns(x):
    """The mean of those that are near the mean."""
    w = x[-1:2]
    m, k = w.mean(), 0
    while k < 5:
        m, k = w.mean(where=abs(w - m) < 12), k + 1
    return m


def at_another_point(x):
    v, n = int(x[0]), 0
    while v > 1:
        v, n = v // 2, n + 1
    return n[1] - n[-1]


def searching(x):
    k = 0
    while k < 4 and x[0, k] < 150:
        k += 1
    return k


def following(x):
    i = j = 0
    for _ in range(4):
        if x[i, j] % 3 == 0 and i < 2:
            i += 1
        elif x[i, j] % 3 == 1 and j > -2:
            j -= 1
    return x[i, j]


def on_its_way(x, step=1):
    return x[0, step] + x[step % 2, 0]


def counting(x):
    """What counts to a power of two has it after its last turn only."""
    k = j = n = 0
    while k < 256:
        k, j = k + 1, j - 3
        if x[0] == 5:
            break
    while n < 65536 and x[0] > 1:
        n += 256
    return k, j, n


def most_frequent(x):
    """A histogram of a window."""
    counts = np.zeros(4, np.int64)
    for i in range(-2, 3):
        for j in range(-2, 3):
            counts[int(x[i, j]) % 4] += 1
    best = 0
    for k in range(1, 4):
        if counts[k] > counts[best]:
            best = k
    return best, counts[-1]


def sorted_by_insertion(x):
    values = np.empty(5)
    for n, i in enumerate(range(-2, 3)):
        value, k = x[0, i], n
        while k > 0 and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value
    return values[2], values[0]


def table_of_two_axes(x):
    table = np.zeros((2, 3), dtype=np.float32)
    for i in range(2):
        for j in range(3):
            table[i, j] = x[i, j - 1] * (i + 1)
    table[1, -1] += 2
    total = 0.0
    k = 0
    while k < 3:
        total += table[k % 2, k] * table[-1, -k]
        k += 1
    return total


def elements_on_branches(x):
    parts = np.ones(3)
    flags = np.zeros(2, bool)
    if x[0] > 9:
        parts[1] = x[1]
        parts[2] += 1
        flags[x[0] % 2] = True
    elif x[0] > 4:
        return parts[2] * 7
    else:
        parts[0] = 7
    parts[0], parts[1] = parts[1], parts[0]
    return parts[0] + 10 * parts[1] + 100 * parts[2] + (1000 if flags[0] else 0)


def chosen_weights(x):
    total = 0.0
    k = 0
    while k < 3 and x[k] != 5:
        total += WEIGHTS[k] * x[k] + WEIGHTS[-1 - k]
        k += 1
    return total


KERNELS: dict[str, tuple[Any, tuple[np.ndarray, ...], Any]] = {
    "newton": (newton, (FLOATS,), None),
    "newton32": (newton, (FLOATS.astype("float32"),), None),
    "escape": (escape, (FLOATS / 9 - 1, FLOATS.T.reshape(6, 8) / 9 - 0.5), None),
    "outs": (ways_out, (LINE,), None),
    "short": (short_ways_out, (LINE,), None),
    "nested": (nested, (LINE,), None),
    "branch": (below_a_branch, (LINE - 9,), None),
    "return": (after_a_return, (LINE,), None),
    "returns": (returns_inside, (LINE,), None),
    "defined": (defined_inside, (LINE,), None),
    "helper": (helper_with_a_loop, (LINE.astype("uint64"),), None),
    "once": (once, (LINE,), None),
    "tuples": (in_tuples, (LINE,), None),
    "window": (outer_window, (LINE,), None),
    "turns": (window_of_turns, (LINE,), None),
    "moved": (at_another_point, (LINE,), None),
    "counting": (counting, (LINE,), None),
    "frequent": (most_frequent, (BYTES,), None),
    "insertion": (sorted_by_insertion, (FLOATS,), None),
    "table": (table_of_two_axes, (BYTES,), None),
    "branches": (elements_on_branches, (LINE,), None),
    "weights": (chosen_weights, (LINE,), ((0, 2),)),
    "searching": (searching, (BYTES,), ((0, 0), (0, 3))),
    "following": (following, (BYTES,), ((0, 2), (-2, 0))),
    "way": (on_its_way, (BYTES,), ((0, 1), (-1, 1))),
}


def agrees(name: str, boundary: str) -> None:
    function, arrays, neighborhood = KERNELS[name]
    stencil = npt.stencil(neighborhood=neighborhood, boundary=boundary)(function)
    made, wanted = stencil(*arrays), stencil.debug(*arrays)
    pairs = zip(made, wanted, strict=True) if isinstance(made, tuple) else [(made, wanted)]
    for one, other in pairs:
        assert one.dtype == other.dtype
        if one.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.usefixtures("as_python")
@pytest.mark.parametrize("name", KERNELS)
def test_as_plain_python(name: str) -> None:
    rules = ["fill", "reflect", "valid"]
    agrees(name, rules[list(KERNELS).index(name) % 3])


@pytest.mark.parametrize(
    ("name", "boundary"), only(13, itertools.product(KERNELS, ["valid", "fill", "reflect"]))
)
def test_as_machine_code(name: str, boundary: str) -> None:
    agrees(name, boundary)


@pytest.mark.parametrize("name", ["newton", "nested", "searching"])
def test_steps_threads_points_and_chunks(name: str) -> None:
    da = pytest.importorskip("dask.array")
    function, arrays, neighborhood = KERNELS[name]
    stencil = npt.stencil(neighborhood=neighborhood, boundary="wrap")(function)
    whole = [np.tile(one, (40,) * one.ndim) for one in arrays]

    def first(value: Any) -> Any:
        return value[0] if isinstance(value, tuple) else value

    wanted = first(stencil(*whole, threads=1))
    np.testing.assert_array_equal(first(stencil(*whole, threads=2)), wanted)
    lazy = stencil(*(da.from_array(one, chunks=101) for one in whole))
    np.testing.assert_array_equal(first(lazy).compute(scheduler="threads"), wanted)
    few = tuple(slice(None, None, 3) for _ in range(wanted.ndim))
    np.testing.assert_array_equal(first(stencil(*whole, every=3)), wanted[few])


def test_positions_and_lengths_and_finer_results() -> None:
    @npt.stencil(upsample=2, boundary="nearest")
    def kernel(x):
        i, n = npt.index(), 0
        while n * n < i and n < len(x):
            n += 1
        return n + x[0]

    x = np.arange(9.0)
    np.testing.assert_array_equal(kernel(x), kernel.debug(x))
    wanted = [math.ceil(math.sqrt(i)) + i // 2 for i in range(18)]
    np.testing.assert_array_equal(kernel(x), wanted)


def test_an_element_that_is_not_there_is_an_error_when_it_happens() -> None:
    @npt.stencil
    def counted(x):
        counts = np.zeros(3)
        counts[x[0]] += 1
        return counts[0]

    np.testing.assert_array_equal(counted(np.array([0, 2, -3])), [1, 0, 1])
    with pytest.raises(IndexError, match=r"'counted' has no element 3 of counts.*line \d+"):
        counted(np.array([0, 3]))


def test_a_numpy_float_keeps_its_type() -> None:
    @npt.stencil
    def halved(x):
        v = 100.0
        while v > x[0]:
            v = v / np.float32(2)
        return v

    assert halved(np.ones(3, "float32")).dtype == np.float32


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            "    k = 0\n    while k < x[0]:\n        v = k\n        k += 1\n    return v",
            "undefined",
        ),
        ("    while x[0] < 0:\n        return 1", "no-return"),
        ("    k = 0\n    while k < 3:\n        k += 1\n    return x[k]", "offset-not-constant"),
        ("    for k in range(x[0] / 2):\n        pass\n    return x[0]", "bad-operand"),
    ],
)
def test_mistakes(body: str, code: str) -> None:
    import kernels

    with pytest.raises(npt.StencilError) as caught:
        npt.stencil(kernels.compiled(f"def wrong(x):\n{body}\n", "wrong"))(np.ones(5))
    assert code in caught.value.diagnostic.code, str(caught.value)
