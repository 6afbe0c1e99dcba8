"""The peers: one small module for each library, with what it needs beside the calls in `groups`.

Nothing here imports a library before it is used, so that a missing one costs its column only.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
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

    def of(self, one: np.dtype, other: np.dtype) -> float:
        """How large the difference of two results of such types may be."""
        if one.kind in "iu":
            return self.integers
        return self.float32 if np.float32 in (one, other) else self.float64


# Of a peer that is there for its time: it computes something else, of the same reads.
UNLIKE = Tolerance(10**9, math.inf, math.inf)


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


def same(given: np.dtype) -> Any:
    """The type of a result that is that of the array."""
    return given


def signed(given: np.dtype) -> Any:
    """A type that holds the differences of numbers of another one."""
    return {"uint8": np.int16, "uint16": np.int32}.get(given.name, given)


def holes(x: np.ndarray) -> np.ndarray:
    """The same array, a hundredth of which is NaN."""
    random = np.random.default_rng(5)
    return np.where(random.random(x.shape) < 0.01, np.nan, x).astype(x.dtype)


def filled(result: Any) -> np.ndarray:
    """A result whose NaN are numbers, so that it can be compared."""
    return np.nan_to_num(as_array(result), nan=-1.0)


def built(
    name: str,
    module: str,
    build: Callable[[Any, np.ndarray, int], Work],
    nan: bool = False,
    begin: Callable[[Any, int], None] | None = None,
    **options: Any,
) -> Peer:
    """A peer from `build(module, x, threads)`; with `nan` for an array with holes.

    `begin(module, threads)` tells a library how many threads it may use.
    """

    def prepare(x: np.ndarray, threads: int) -> Work:
        found = importlib.import_module(module)
        if begin is not None:
            begin(found, threads)
        return build(found, holes(x) if nan else x, threads)

    if nan:
        options["finish"] = filled
    return Peer(name, module.partition(".")[0], prepare, **options)


def giving(name: str, module: str, call: Callable[[Any, np.ndarray], Any], **options: Any) -> Peer:
    """A peer from `call(module, x)`, which makes a result each time."""
    return built(name, module, lambda found, x, threads: lambda: call(found, x), **options)


def writing(
    name: str,
    module: str,
    call: Callable[[Any, np.ndarray, np.ndarray], Any],
    result: Callable[[np.dtype], Any] = same,
    **options: Any,
) -> Peer:
    """A peer from `call(module, x, out)`, which writes into an array that is there before."""

    def build(found: Any, x: np.ndarray, threads: int) -> Work:
        out = np.empty(x.shape, result(x.dtype))

        def work() -> np.ndarray:
            call(found, x, out)
            return out

        return work

    return built(name, module, build, **options)
