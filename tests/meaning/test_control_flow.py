"""Loops whose turns differ from point to point, and computed offsets, beside random programs."""

import math
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from compared import agree, only, refuses
from seams import plan_of

pytestmark = pytest.mark.filterwarnings("error::ninepoint.PerformanceWarning")

BYTES = np.random.default_rng(0).integers(0, 200, (7, 9)).astype("uint8")
LINE = np.arange(70).astype("int16") % 37
WEIGHTS = np.array([0.5, 0.25, 2.0])
FLOATS = np.abs(np.random.default_rng(1).normal(size=(6, 8))) * 9


def at_another_point(x):
    v, n = int(x[0]), 0
    while v > 1:
        v, n = v // 2, n + 1
    return n[1] - n[-1]


def below_a_branch(x):
    """The loops would not end where the branch is not taken."""
    v = int(x[0])
    if v == 0:
        return -1
    if v > 0:
        while v % 2 == 0:
            v //= 2
    else:
        while v < -1:
            v += 2
    return v


def helper_with_a_loop(x):
    def digits(v):
        n = 0
        while v > 0:
            v, n = v // 10, n + 1
            if n > 9:
                return -1
        return n

    return digits(x[0]) + 10 * digits(x[1] * x[1])


def halved(x):
    """A float of NumPy keeps its type."""
    v = 100.0
    while v > x[0]:
        v = v / np.float32(2)
    return v


def in_tuples(x):
    pair, k = (0, 1), 0
    while k < x[0]:
        pair, k = (pair[1], pair[0] + pair[1]), k + 1 if k < 20 else 1000
    return pair


def window_of_turns(x):
    """The mean of those that are near the mean."""
    w = x[-1:2]
    m, k = w.mean(), 0
    while k < 5:
        m, k = w.mean(where=abs(w - m) < 12), k + 1
    return m


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
        elif j > -2:
            j -= 1
    return x[i, j]


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


def sorted_by_insertion(x):
    values = np.empty(5)
    for n, i in enumerate(range(-2, 3)):
        value, k = x[0, i], n
        while k > 0 and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value
    return values[2], values[0]


def chosen_weights(x):
    total = 0.0
    k = 0
    while k < 3 and x[k] != 5:
        total += WEIGHTS[k] * x[k] + WEIGHTS[-1 - k]
        k += 1
    return total


def in_the_row_below(x):
    """The row is known once what does nothing is gone."""
    down = int(x[0, 0]) * 0 + 1
    return x[down, x[0, 0] % 3]


# Of each kernel, which no random program is like: the field and the neighborhood.
KERNELS: dict[Any, tuple[np.ndarray, Any]] = {
    chosen_weights: (LINE, ((0, 2),)),
    at_another_point: (LINE, None),
    below_a_branch: (LINE - 9, None),
    helper_with_a_loop: (LINE.astype("uint64"), None),
    halved: (FLOATS[0].astype("float32"), None),
    searching: (BYTES, ((0, 0), (0, 3))),
    following: (BYTES, ((0, 2), (-2, 0))),
    in_the_row_below: (BYTES, ((0, 1), (0, 2))),
    sorted_by_insertion: (FLOATS, None),
    **dict.fromkeys((in_tuples, window_of_turns, counting), (LINE, None)),
}
RULES = ("fill", "reflect", "valid")


def agrees(kernel: Any, rule: str, way: str) -> None:
    field, neighborhood = KERNELS[kernel]
    agree(kernel, field, close=1e-6, way=way, neighborhood=neighborhood, boundary=rule)


@pytest.mark.parametrize("kernel", KERNELS)
def test_as_plain_python(kernel: Any) -> None:
    agrees(kernel, RULES[list(KERNELS).index(kernel) % 3], "interpreted")


@pytest.mark.parametrize("kernel", only(8, KERNELS))
def test_as_machine_code(kernel: Any) -> None:
    agrees(kernel, RULES[list(KERNELS).index(kernel) % 3 - 1], "compiled")


def test_threads_points_chunks_positions_and_finer_results() -> None:
    da = pytest.importorskip("dask.array")
    stencil = npt.stencil(neighborhood=((0, 0), (0, 3)), boundary="wrap")(searching)
    whole = np.tile(BYTES, (40, 40))
    wanted = stencil(whole, threads=1)
    lazy = stencil(da.from_array(whole, chunks=101))
    for made in (stencil(whole, threads=2), lazy.compute(scheduler="threads")):
        np.testing.assert_array_equal(made, wanted)
    np.testing.assert_array_equal(stencil(whole, every=3), wanted[::3, ::3])

    @npt.stencil(upsample=2, boundary="nearest")
    def kernel(x):
        i, n = npt.index(), 0
        while n * n < i and n < len(x):
            n += 1
        return n + x[0]

    made = agree(kernel, np.arange(9.0), way="compiled")
    np.testing.assert_array_equal(made, [math.ceil(math.sqrt(i)) + i // 2 for i in range(18)])


def test_what_is_outside_is_an_error_when_it_happens() -> None:
    @npt.stencil(neighborhood=((-2, 1), (-1, 1)))
    def kernel(x, k, scale=2.0):
        return x[0, k] * scale - x[k, 0]

    agree(kernel, BYTES, -1, way="compiled")
    refuses(IndexError, r"offset 2 on axis 1 is not in -1\.\.1.*line \d+", kernel, BYTES, 2)
    refuses(IndexError, f"offset {-(10**12)} on axis", kernel, BYTES, -(10**12))

    @npt.stencil
    def counted(x):
        counts = np.zeros(3)
        counts[x[0]] += 1
        return counts[0]

    np.testing.assert_array_equal(counted(np.array([0, 2, -3])), [1, 0, 1])
    with pytest.raises(IndexError, match=r"'counted' has no element 3 of counts.*line \d+"):
        counted(np.array([0, 3]))

    @npt.stencil(neighborhood=((0, 3),))
    def seek(x):
        k = 0
        while x[k] < 99:
            k += 1
        return k

    da = pytest.importorskip("dask.array")
    for threads in (1, 2):
        with pytest.raises(IndexError, match="'seek' read outside its neighborhood: offset 4 on"):
            seek(np.zeros(9), threads=threads)
    refuses(IndexError, "offset 4", seek(da.zeros(20, chunks=7)).compute, scheduler="threads")
    np.testing.assert_array_equal(seek(np.full(5, 100.0)), 0)


def test_reads_past_the_derived_neighborhood_do_not_widen_it() -> None:
    def broken(x):
        total = 0
        for i in range(-2, 2):
            if x[0, i] > 100:
                break
            total += x[i, 0]
        return total

    assert plan_of(npt.stencil(broken), "uint8").reaches[0] == ((-2, -2), (1, 1))
