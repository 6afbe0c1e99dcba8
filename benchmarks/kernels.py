"""The stencils that are measured: plain functions, as a user would write them.

`problems` decorates them with `npt.stencil`; where numba.stencil understands the very same
text, the recipe's peer uses it too.  Integer images give integers, rounded to nearest, so
some problems have one text for integers and one for floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]


def recipe(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


def nine(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) / 9  # fmt: skip


def mean(size: int, integers: bool) -> Function:
    near, count = size // 2, size * size

    def mean_integers(x):
        return (x[-near : near + 1, -near : near + 1].sum() + count // 2) // count

    def mean_floats(x):
        return x[-near : near + 1, -near : near + 1].mean()

    return mean_integers if integers else mean_floats


def bell() -> np.ndarray:
    """Five weights of a Gaussian with sigma 1; they sum to 1."""
    weights = np.exp(-0.5 * np.arange(-2, 3) ** 2)
    return weights / weights.sum()


# The same in 256ths, as OpenCV takes them for uint8: their sum is 256 to the last bit.
BELL_8 = np.array([14, 62, 104, 62, 14])


def gaussian(bits: int | None) -> Function:
    """5x5, sigma 1; with weights of so many bits an axis, or floats rounded at the end, or floats.

    Eight bits an axis are what OpenCV takes for uint8.
    """
    if bits == 8:
        integers = np.outer(BELL_8, BELL_8)

        def gaussian_fixed(x):
            return ((x[-2:3, -2:3] * integers).sum() + 32768) >> 16

        return gaussian_fixed

    single = np.outer(bell(), bell()).astype(np.float32)
    double = np.outer(bell(), bell())

    def gaussian_rounded(x):
        return min(round((x[-2:3, -2:3] * single).sum()), 65535)

    def gaussian_single(x):
        return (x[-2:3, -2:3] * single).sum()

    def gaussian_double(x):
        return (x[-2:3, -2:3] * double).sum()

    return {16: gaussian_rounded, 32: gaussian_single, None: gaussian_double}[bits]


SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


def sobel(x):
    return (x[-1:2, -1:2] * SOBEL).sum()


def sobel_terms(x):
    return (x[-1, 1] - x[-1, -1]) + 2 * (x[0, 1] - x[0, -1]) + (x[1, 1] - x[1, -1])


def laplace(x):
    return x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0]


def median(size: int, integers: bool) -> Function:
    near = size // 2

    def median_integers(x):
        return int(x[-near : near + 1, -near : near + 1].median())

    def median_floats(x):
        return x[-near : near + 1, -near : near + 1].median()

    return median_integers if integers else median_floats


def least(size: int) -> Function:
    near = size // 2

    def least(x):
        return x[-near : near + 1, -near : near + 1].min()

    return least


def greatest(size: int) -> Function:
    near = size // 2

    def greatest(x):
        return x[-near : near + 1, -near : near + 1].max()

    return greatest


def local_std(x):
    return x[-3:4, -3:4].std()


def bilateral(x):
    centre = x[0, 0]
    total = centre * 0.0
    weights = centre * 0.0
    for i in range(-2, 3):
        for j in range(-2, 3):
            step = x[i, j] - centre
            weight = np.exp(-(i * i + j * j) / 8.0 - step * step * 12.5)
            total += weight * x[i, j]
            weights += weight
    return total / weights


def branches(x):
    across = x[0, 1] - x[0, -1]
    down = x[1, 0] - x[-1, 0]
    if abs(across) > 2 * abs(down):
        value = x[-1, 0] + x[1, 0]
    elif abs(down) > 2 * abs(across):
        value = x[0, -1] + x[0, 1]
    else:
        value = 2 * x[0, 0]
    return value


def seven(x):
    return x[0, 0, 0] * 0.4 + 0.1 * (
        x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    )


# The weights of `seven`, for peers that take an array.
SEVEN = np.array([0.4, 0.1, 0, 0])[np.abs(np.indices((3, 3, 3)) - 1).sum(axis=0)]

# By distance from the centre, as in the HPCG benchmark's operator but with four classes.
CUBE = np.array([0.3, 0.05, 0.025, 0.0125])[np.abs(np.indices((3, 3, 3)) - 1).sum(axis=0)]


def cube(single: bool) -> Function:
    weights = CUBE.astype(np.float32) if single else CUBE

    def cube(x):
        return (x[-1:2, -1:2, -1:2] * weights).sum()

    return cube


def cube_terms(x):
    total = 0.3 * x[0, 0, 0]
    total += 0.05 * (
        x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    )
    total += 0.025 * (
        x[-1, -1, 0] + x[-1, 1, 0] + x[1, -1, 0] + x[1, 1, 0]
        + x[-1, 0, -1] + x[-1, 0, 1] + x[1, 0, -1] + x[1, 0, 1]
        + x[0, -1, -1] + x[0, -1, 1] + x[0, 1, -1] + x[0, 1, 1]
    )  # fmt: skip
    total += 0.0125 * (
        x[-1, -1, -1] + x[-1, -1, 1] + x[-1, 1, -1] + x[-1, 1, 1]
        + x[1, -1, -1] + x[1, -1, 1] + x[1, 1, -1] + x[1, 1, 1]
    )  # fmt: skip
    return total


# A low-pass filter of 25 taps: a windowed sinc that passes a fifth of the band.
TAPS = np.sinc(np.arange(-12, 13) / 5) * np.hamming(25)
TAPS /= TAPS.sum()


def signal(single: bool) -> Function:
    taps = TAPS.astype(np.float32) if single else TAPS

    def signal(x):
        return (x[-12:13] * taps).sum()

    return signal


def signal_terms(single: bool) -> Function:
    """The same with one tap after another, for numba.stencil, which knows no windows."""
    taps = tuple((np.float32 if single else np.float64)(tap) for tap in TAPS)

    def signal_terms(x):
        total = taps[12] * x[0]
        for k in range(1, 13):
            total += taps[12 + k] * (x[k] + x[-k])
        return total

    return signal_terms
