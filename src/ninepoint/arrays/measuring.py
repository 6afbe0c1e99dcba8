"""Measure calls on NumPy arrays: compile first, warm up, then take turns with a copy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ninepoint.arrays.borders import Array
from ninepoint.backends.measure import Measurement, beside_copy, prepared, quartiles
from ninepoint.backends.numba.cpu import Bound, Compiled

# Bytes of a field beyond which `explain` looks at a part of it only.
_LARGE = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Watched(Bound):
    """A program that remembers which threads ran it."""

    threads: set[int] = field(default_factory=set, compare=False)

    def run(self, fields: Sequence[Array], outs: Sequence[Array]) -> None:
        """Run, and remember where."""
        self.threads.add(threading.get_ident())
        self.compiled.entry(*fields, *outs, *self.coefficients, *self.scalars)


def measurement(
    name: str,
    kernels: Sequence[Compiled],
    fields: Sequence[Array],
    run: Callable[[Any], Any],
    count: Callable[[Any], int],
    repeat: int,
    limit: float,
) -> Measurement:
    """Measure `run`, which gives a result for `fields`, in `out` if it is given.

    `kernels` are those that it runs, and `count` does the same and tells how many threads did.
    """
    ready = [prepared(kernel) for kernel in kernels]
    # What took longest says most: compiling, then loading.
    preparation, _ = max(ready, key=lambda one: one[1])
    seconds = sum(one for _, one in ready)
    out = run(None)
    results = out if isinstance(out, tuple) else (out,)
    threads = max(1, count(out))
    calls, copies = beside_copy(lambda: run(out), fields, threads, repeat, limit)
    lower, middle, upper = quartiles(calls)
    inside = sum(array.nbytes for array in fields)
    return Measurement(
        name=name,
        arrays=", ".join(f"{'x'.join(map(str, a.shape))} {a.dtype}" for a in fields),
        points=max(array.size for array in results),
        bytes=inside + sum(array.nbytes for array in results),
        seconds=middle,
        lower=lower,
        upper=upper,
        samples=len(calls),
        copy_bytes=2 * inside,
        copy_seconds=quartiles(copies)[1],
        threads=threads,
        preparation=preparation,
        preparation_seconds=seconds,
    )


def part(fields: Sequence[Array]) -> list[Array]:
    """The fields, or their first part where they are large and of one shape."""
    first = fields[0]
    largest = max(array.nbytes for array in fields)
    if largest <= _LARGE or any(array.shape != first.shape for array in fields):
        return list(fields)
    length = max(1, first.shape[0] * _LARGE // largest)
    return [array[:length] for array in fields]


def measurable(given: Sequence[Any], ndim: int) -> bool:
    """Whether all that is given is real arrays on which a kernel of `ndim` axes can run."""
    return bool(given) and all(
        type(array) is np.ndarray and array.ndim >= ndim and array.size for array in given
    )
