"""The kernels whose machine code on a GPU is looked at, and which are run on arrays larger than a
thread's part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ninepoint as npt
from ninepoint.backends.backend import Lowered
from ninepoint.backends.cuda.source import Source
from ninepoint.backends.cuda.writing import written
from ninepoint.calls import Call

BINOMIAL = (np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256).astype(np.float32)


def sum3(x):
    return (
        x[-1, -1] + x[-1, 0] + x[-1, 1] + x[0, -1] + x[0, 0] + x[0, 1] + x[1, -1] + x[1, 0]
        + x[1, 1]
    ) * np.float32(0.11)  # fmt: skip


def mean3(x):
    return np.sum(x[-1:2, -1:2]) // 9


def gauss5(x):
    return np.sum(x[-2:3, -2:3] * BINOMIAL)


def median3(x):
    return np.median(x[-1:2, -1:2])


def largest3(x):
    return np.max(x[-1:2, -1:2])


def median5(x):
    return np.median(x[-2:3, -2:3])


def heat3d(x):
    beside = x[-1, 0, 0] + x[1, 0, 0] + x[0, -1, 0] + x[0, 1, 0] + x[0, 0, -1] + x[0, 0, 1]
    return x[0, 0, 0] + np.float32(0.1) * (beside - np.float32(6) * x[0, 0, 0])


def mean3d(x):
    return x[-1:2, -1:2, -1:2].sum() // 27


def harris(x):
    a = b = c = np.float32(0)
    for i in range(-1, 2):
        for j in range(-1, 2):
            p = x[i - 1, j + 1] + np.float32(2) * x[i, j + 1] + x[i + 1, j + 1]
            p = p - x[i - 1, j - 1] - np.float32(2) * x[i, j - 1] - x[i + 1, j - 1]
            q = x[i + 1, j - 1] + np.float32(2) * x[i + 1, j] + x[i + 1, j + 1]
            q = q - x[i - 1, j - 1] - np.float32(2) * x[i - 1, j] - x[i - 1, j + 1]
            a += p * p
            b += q * q
            c += p * q
    return a * b - c * c - np.float32(0.04) * (a + b) * (a + b)


def line(x):
    return np.maximum(x[-2], x[1]) - x[0]


def far(x, y):
    return x[0, 5] + y[2, -3] * x[-1, 20]


def largest(x):
    return np.max(x[-4:5, -4:5])


def both(x, y):
    return x[0, -1] - y[1, 0], np.float32(0.5) * x[1, 2]


@dataclass(frozen=True)
class Work:
    """A kernel on fields of some types, and the types of its results."""

    function: Callable[..., Any]
    types: tuple[str, ...]
    dtype: str | None = None
    ndim: int = 2

    @property
    def name(self) -> str:
        """What it is called in lists."""
        return "_".join([self.function.__name__, *self.types])

    @property
    def stencil(self) -> npt.Stencil:
        """The kernel, to be called."""
        return npt.stencil(self.function)

    @property
    def options(self) -> dict[str, Any]:
        """How it is called."""
        if self.dtype is None:
            return {}
        return {"dtype": self.dtype, "overflow": "saturate"}

    def source(self, boundary: Any = "nearest") -> tuple[Source, Lowered, Any]:
        """Its text for a border, what it does, and the border along each axis."""
        types = [np.dtype(one) for one in self.types]
        call = Call.of(self.stencil.definition, {}, boundary, **self.options)
        lowered, forms, reason = call.compiled(types)
        assert forms is not None, reason
        border = call.boundary.on(lowered.ndim)
        return written(forms, border.rules), lowered, border


# Those whose machine code is counted.
COUNTED = (
    Work(sum3, ("float32",)),
    Work(sum3, ("float64",)),
    Work(mean3, ("uint8",), "uint8"),
    Work(mean3, ("int8",), "int8"),
    Work(gauss5, ("float32",)),
    Work(median3, ("uint8",), "uint8"),
    Work(median3, ("float32",), "float32"),
    Work(largest3, ("uint8",)),
    Work(median5, ("uint8",), "uint8"),
    Work(median5, ("float32",), "float32"),
    Work(heat3d, ("float32",), ndim=3),
    Work(mean3d, ("uint8",), "uint8", ndim=3),
    Work(harris, ("float32",)),
)

WORKS = (
    *(work for work in COUNTED if work.function not in (median5, harris, mean3d, largest3)),
    Work(line, ("int16",), ndim=1),
    Work(far, ("uint8", "float32")),
    Work(largest, ("float64",)),
    Work(both, ("uint8", "bool")),
    Work(both, ("float64", "complex64")),
)
