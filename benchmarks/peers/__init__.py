"""The peers: one small module for each library, with one function for each thing it can do.

Nothing here imports a library before it is used, so that a missing one costs its column only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Does the work once and gives the result; what it needs was made before and is not timed.
Work = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far results may be apart.

    Integers: in steps.  Floats: in parts of the largest value, one bound for results of which
    one is float32, another for float64.
    """

    integers: int = 0
    float32: float = 1e-5
    float64: float = 1e-12


def as_array(result: Any) -> np.ndarray:
    """A result as one array; a state of several fields becomes a stack of them."""
    if isinstance(result, tuple | list):
        return np.stack(result) if len(result) > 1 else np.asarray(result[0])
    return np.asarray(result)


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to solve a problem.

    `prepare(array, threads)` gives the work.  The result has the shape of ours, or lacks the
    border; with `interior` it has one, by another rule than ours, which is not compared.
    """

    name: str
    package: str
    prepare: Callable[[np.ndarray, int], Work]
    dtypes: tuple[str, ...] = ("int8", "uint8", "uint16", "float32", "float64")
    threads: bool = False  # can use more than one
    interior: bool = False
    tolerance: Tolerance | None = None  # in place of the problem's
    why: str = ""  # the reason for such a tolerance
    finish: Callable[[Any], np.ndarray] = field(default=as_array)

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None
