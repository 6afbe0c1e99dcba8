"""A result of whole numbers has the smallest type that holds it, whatever is in the fields."""

import itertools

import numpy as np
import pytest

import ninepoint as npt
from seams import interpreted

DTYPES = ["int8", "uint8", "int16", "uint16", "uint32", "int32", "bool"]


def limited(x):
    return max(-5, min(x[0] * 3, 100))


def clamped(x):
    v = x[1] - x[-1]
    return v if v > 0 else 0


# Kernels whose least and greatest results are those of corners: fields at the ends of their types.
KERNELS = {
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


def wanted(dtype, least, greatest):
    """The type of fields, if it is one of integers that holds these, or the smallest that does."""
    kind = "int" if least < 0 else "uint"
    own = [] if dtype == "bool" else [dtype]
    for name in [*own, *(f"{kind}{bits}" for bits in (8, 16, 32, 64))]:
        if np.iinfo(name).min <= least and greatest <= min(np.iinfo(name).max, 2**63 - 1):
            return name
    return "int64"  # which it goes beyond, and is taken modulo 2**64


@pytest.mark.parametrize("name", KERNELS)
def test_a_result_has_the_smallest_type_and_is_exact_at_the_ends(name):
    function = KERNELS[name]
    stencil = npt.stencil(function, boundary="wrap")
    for dtype in DTYPES:
        if dtype == "bool" and name in NOT_OF_TRUTHS:
            continue
        ends = [0, 1] if dtype == "bool" else [0, np.iinfo(dtype).min, np.iinfo(dtype).max]
        corners = list(itertools.product(map(int, ends), repeat=3))
        exact = [int(function(Exact(corner))) for corner in corners]
        with interpreted():
            made = stencil(np.array(corners, dtype))[:, 0]
        assert made.dtype == wanted(dtype, min(exact), max(exact))
        np.testing.assert_array_equal(made.astype("uint64"), [one % 2**64 for one in exact])
