"""What is measured: plain functions, as a user would write them.

`groups` decorates them with `npt.stencil`.  Where all of a text is reads at offsets, it is also
that of everybody who can be asked for a neighbour: numba.stencil, the fields of pystencils and
Devito, and shifted views of NumPy and JAX.  Integer images give integers, rounded to nearest, so
some problems have one text for integers and one for floats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]
State = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True)
class ByType:
    """Kernels that differ by the type of the array, which is given by its name."""

    choose: Callable[[str], Function]


def text(kernel: Function | ByType, dtype: np.dtype) -> Function:
    """The kernel for a type."""
    return kernel.choose(dtype.name) if isinstance(kernel, ByType) else kernel


def box(function: Function, reach: int) -> Function:
    """A function of all points that are not farther than so many along each axis of two."""
    return lambda x: function(x[-reach : reach + 1, -reach : reach + 1])


def shaped(function: Function, shape: np.ndarray) -> Function:
    """A function of the points of a shape."""
    return box(lambda near: function(near[shape]), len(shape) // 2)


def disk(radius: int) -> np.ndarray:
    """The points that are not farther than this."""
    steps = np.arange(-radius, radius + 1)
    near: np.ndarray = steps[:, None] ** 2 + steps**2 <= radius**2
    return near


def recipe(x):
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


def mean(size: int) -> ByType:
    near, count = size // 2, size * size

    def mean_integers(x):
        return (x[-near : near + 1, -near : near + 1].sum() + count // 2) // count

    floats = box(np.mean, near)
    return ByType(lambda dtype: floats if dtype.startswith("float") else mean_integers)


def median(size: int) -> ByType:
    floats, integers = box(np.median, size // 2), box(lambda w: int(np.median(w)), size // 2)
    return ByType(lambda dtype: floats if dtype.startswith("float") else integers)


def bell() -> np.ndarray:
    """Five weights of a Gaussian with sigma 1; they sum to 1."""
    weights = np.exp(-0.5 * np.arange(-2, 3) ** 2)
    return weights / weights.sum()


# The same in 256ths, as OpenCV takes them for uint8: their sum is 256 to the last bit.
BELL_8 = np.array([14, 62, 104, 62, 14])
BELL = np.outer(bell(), bell()).astype(np.float32)


@ByType
def gaussian(dtype: str) -> Function:
    """5x5, sigma 1: 8 bits an axis for uint8, as OpenCV has them, else floats."""
    integers = np.outer(BELL_8, BELL_8)
    weights = np.outer(bell(), bell()).astype(np.float64 if dtype == "float64" else np.float32)

    def gaussian_fixed(x):
        return ((x[-2:3, -2:3] * integers).sum() + 32768) >> 16

    def gaussian_rounded(x):
        return min(round((x[-2:3, -2:3] * weights).sum()), 65535)

    def gaussian_floats(x):
        return (x[-2:3, -2:3] * weights).sum()

    return {"uint8": gaussian_fixed, "uint16": gaussian_rounded}.get(dtype, gaussian_floats)


SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


def sobel(x):
    return (x[-1:2, -1:2] * SOBEL).sum()


def laplace(x):
    return x[-1, 0] + x[1, 0] + x[0, -1] + x[0, 1] - 4 * x[0, 0]


def bilateral(exp: Function) -> Function:
    """5x5, for floats; everybody has an exponential function of their own."""

    def bilateral(x):
        centre = x[0, 0]
        total = centre * 0.0
        weights = centre * 0.0
        for i in range(-2, 3):
            for j in range(-2, 3):
                step = x[i, j] - centre
                weight = exp(-(i * i + j * j) / 8.0 - step * step * 12.5)
                total += weight * x[i, j]
                weights += weight
        return total / weights

    return bilateral


def seven(x):
    return x[0, 0, 0] * 0.4 + 0.1 * (
        x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    )


# A low-pass filter of 25 taps: a windowed sinc that passes a fifth of the band.
TAPS = np.sinc(np.arange(-12, 13) / 5) * np.hamming(25)
TAPS /= TAPS.sum()


@ByType
def signal(dtype: str) -> Function:
    taps = TAPS.astype(dtype)
    return lambda x: (x[-12:13] * taps).sum()


# Pipelines: stencils that read what others made.

# As OpenCV's cornerHarris scales them for windows of 3x3 everywhere.
ACROSS = (SOBEL / 12).astype(np.float32)
DOWN = np.ascontiguousarray(ACROSS.T)

# How much an unsharp mask adds of what the blur takes away.
AMOUNT = 0.7

blur = gaussian.choose("float32")


def gradients(x):
    return (x[-1:2, -1:2] * DOWN).sum(), (x[-1:2, -1:2] * ACROSS).sum()


def response(p, q):
    """How much the gradients in a window differ in direction: det - k trace**2."""
    a = (p[-1:2, -1:2] * p[-1:2, -1:2]).sum()
    b = (p[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    c = (q[-1:2, -1:2] * q[-1:2, -1:2]).sum()
    return a * c - b * b - 0.04 * (a + c) * (a + c)


def sharpen(x, soft):
    return x[0, 0] + AMOUNT * (x[0, 0] - soft[0, 0])


def harris(stencil: Any) -> Any:
    slopes = stencil(gradients)

    @stencil
    def harris(x):
        p, q = slopes(x)
        return response(p, q)

    return harris


def unsharp(stencil: Any) -> Any:
    soften = stencil(blur)
    return stencil(lambda x: sharpen(x, soften(x)))


def blurs(stencil: Any) -> Any:
    soften = stencil(blur)
    return stencil(lambda x: (soften(soften(soften(x)))[-2:3, -2:3] * BELL).sum())


# Steps in time: what one does to a state, and the states that are made from one array.


def heat(u):
    return u[0, 0] + 0.2 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0])


def wave(u, before):
    """Second order in time, fourth in space."""
    around = (
        16 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])
        - (u[-2, 0] + u[2, 0] + u[0, -2] + u[0, 2])
        - 60 * u[0, 0]
    )
    return 2 * u[0, 0] - before[0, 0] + 0.01 * around, u[0, 0]


def react(u, v):
    """Gray and Scott: two substances that diffuse, and react with each other."""
    spread_u = u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4 * u[0, 0]
    spread_v = v[-1, 0] + v[1, 0] + v[0, -1] + v[0, 1] - 4 * v[0, 0]
    made = u[0, 0] * v[0, 0] * v[0, 0]
    return (
        u[0, 0] + 0.16 * spread_u - made + 0.037 * (1 - u[0, 0]),
        v[0, 0] + 0.08 * spread_v + made - 0.097 * v[0, 0],
    )


def life(x):
    n = x[-1:2, -1:2].sum() - x[0, 0]
    return 1 if n == 3 or (n == 2 and x[0, 0] == 1) else 0


def line_mean(u):
    return (u[-1] + u[0] + u[1]) / 3


def alone(x: np.ndarray) -> State:
    return (x,)


def at_rest(x: np.ndarray) -> State:
    """A wave, and the same one step before."""
    return x, x


def mixed(x: np.ndarray) -> State:
    """Two substances that fill the plate together."""
    return 1 - x / 2, x / 2


def inner(near: tuple[int, ...]) -> tuple[slice, ...]:
    """The points that have all their neighbours."""
    return tuple(slice(reach, -reach or None) for reach in near)


def results(made: Any) -> tuple[Any, ...]:
    """What a step gives, as a tuple also where it is one state."""
    return made if isinstance(made, tuple) else (made,)
