"""Kernels that are not analysed: they run as well, with the same borders and numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from compared import alike, only, refuses
from own_process import printed
from seams import plan_of

pytestmark = pytest.mark.filterwarnings("ignore::ninepoint.PerformanceWarning")

RNG = np.random.default_rng(3)
FLOATS = RNG.normal(size=(7, 9)) * 10
BYTES = RNG.integers(0, 200, (7, 9)).astype("uint8")
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)


def test_windows_whose_bounds_are_given_and_either_of_two_fields() -> None:
    @npt.stencil(neighborhood=((-2, 2),))
    def runtime_window(x, width):
        return x[-width : width + 1].max() - x[0]

    x = BYTES[0].astype("uint16")
    assert "general" in runtime_window.explain(x)
    alike(runtime_window(x, 2), runtime_window.debug(x, 2))
    refuses(IndexError, "neighborhood", runtime_window, x, 3)

    @npt.stencil(neighborhood=((-1, 1), (-1, 1)), boundary="wrap")
    def either(x, y, k):
        smaller = x if k > 0 else y
        return smaller[0, k] + y[k, 0] - x[0, 0]

    refuses(npt.StencilError, "not-compiled", either, FLOATS, FLOATS.astype("float32"), 1)
    alike(either(FLOATS, FLOATS, 1), either.debug(FLOATS, FLOATS, 1))


def scaled(value, *, more):
    return 2 * value + more


def test_lists_tuples_and_arrays_of_narrow_types() -> None:
    @npt.stencil(boundary="valid")
    def small(x):
        index = (0, 1)
        narrow = np.empty(2, dtype=np.uint8)
        narrow[0], narrow[1] = 1, 2
        double = lambda v: 2 * v  # noqa: E731
        found: list = []
        while len(found) < 1:
            found.append(double(scaled(x[index], more=0)) // 2)
        return found[0] + np.clip(x[0, 0], 1, 3), narrow[0] - narrow[1]

    first, second = small(BYTES)
    wanted = 2 * BYTES[:, 1:].astype(int) + np.clip(BYTES[:, :-1], 1, 3)
    np.testing.assert_array_equal(first, wanted)
    # Beside each other integers of a buffer are Numba's.
    assert second.dtype == np.uint64
    assert (second == 2**64 - 1).all()


def test_a_second_name_of_an_array_and_a_name_of_a_number_on_another_path() -> None:
    @npt.stencil
    def renamed(x):
        first = np.zeros(2)
        second = first
        second[0] = x[0]
        return first[0]

    np.testing.assert_array_equal(renamed(np.arange(3.0)), [0.0, 1.0, 2.0])

    @npt.stencil(boundary="wrap")
    def after(x):
        kept = np.zeros(2)
        if x[0] > 0:
            kept[0] = x[1]
        else:
            kept = 1.0
        return x[1]

    assert after(np.arange(3.0)).tolist() == [1, 2, 0]


def mistaken_type(x):
    while x[0] < 0:
        break
    return np.sort(x[0])


def mistaken_outside(x):
    while x[0] < 0:
        break
    return x[3]


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [(mistaken_type, "not-compiled", "np.sort"), (mistaken_outside, "offset-outside", "x[3]")],
)
def test_mistakes(function: Any, code: str, text: str) -> None:
    with pytest.raises(npt.StencilError) as caught:
        npt.stencil(neighborhood=((-1, 1),))(function)(np.zeros(5))
    assert caught.value.diagnostic.code == code, str(caught.value)
    assert text in caught.value.diagnostic.span.text
    assert "numba" not in str(caught.value.diagnostic.label).lower()


# What Numba compiles for seconds; small arrays lie in rooms that places of the text have: what is
# kept there is not written over.


def masked(x):
    w = x[-1:2, -1:2]
    return w[w > 0].sum() + w[CROSS][1]


def kept_rows(x):
    best = x[-1:2, -1:2][0]
    k = 0
    while k < 3:
        w = x[-1:2, -1:2]
        row = w[k]
        w = x[0:3, -1:2]
        w[0, 0] += k
        if row.sum() > best.sum():
            best = row
        k += 1
    return best.sum() + best[0]


def along_axes(x):
    w = x[-1:2, -2:3]
    return np.max(np.sum(w, axis=0)) + w.mean(axis=1)[1] + np.sum(w * w) + w.std()


def ranks(x):
    w = x[-1:2, -2:3]
    v, u = np.sort(w.ravel()), w.flatten()
    u.sort()
    return v[0], v[7], v[14], u[3], np.median(w), np.nanmedian(w), np.median(w[w > 0])


HOLES = FLOATS.copy()
HOLES[1, 2], HOLES[4, 4], HOLES[5, 5], HOLES[:3, 7:] = np.nan, np.inf, -np.inf, np.nan
SLOW = [
    (masked, FLOATS.astype("int16")), (kept_rows, abs(FLOATS)),
    (along_axes, BYTES.astype("int16")), (ranks, HOLES),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "x"), only(1, SLOW))
def test_what_is_kept_and_sorted(kernel: Any, x: np.ndarray) -> None:
    stencil = npt.stencil(boundary="reflect")(kernel)
    assert plan_of(stencil, x).reason
    with np.errstate(invalid="ignore"):
        alike(stencil(x), stencil.debug(x), close=1e-9)


NUMBA_FIRST = """
import numba
import numpy as np
import ninepoint as npt

numba.njit(lambda x: x[0])(np.zeros(3))

@npt.stencil(boundary="reflect")
def low(x):
    window = x[-1:2, -1:2]
    few = np.sort(window[window <= 3])
    total = 0.0
    for k in range(few.size):
        if k % 2 == 0:
            total += few[k]
    return total + few[few.size - 1] if few.size > 0 else total

x = np.random.default_rng(0).random((6, 7)) * 6
np.testing.assert_allclose(low(x), low.debug(x))
"""


@pytest.mark.nightly
def test_masks_pick_numbers_whoever_used_numba_before(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(NUMBA_FIRST)
    printed(program, NINEPOINT_CACHE_DIR=str(tmp_path / "cache"))
