"""ninepoint itself, in the form of a peer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..stages import Call
from ..steps import State
from . import Peer
from .elementwise import second

NAME = "ninepoint"

# The same without what makes many steps or stages one pass over memory.
SINGLE = "single sweeps"
SEPARATE = "separate calls"

# The same as most users write it: each call makes its result.
WITHOUT = "without `out=`"


class IntoResult:
    """A call that writes into a result that is there; `without` makes a new one."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.without = call
        self._out = call()

    def __call__(self) -> Any:
        return self.without(out=self._out)


def ours(
    kernel: Callable[[np.dtype], Callable[..., Any]],
    boundary: str,
    name: str = NAME,
    interior: bool = False,
) -> Peer:
    """The stencil of `kernel(dtype)` with a border rule, writing into an array that is there."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        stencil = npt.stencil(boundary=boundary)(kernel(x.dtype))
        return IntoResult(partial(stencil, x, threads=threads))

    return Peer(name, "ninepoint", prepare, threads=True, interior=interior)


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], State],
    steps: int,
    boundary: str = "keep",
    name: str = NAME,
    dtype: str | None = None,
) -> Peer:
    """So many steps from `start(array)`; as single sweeps where that is the name."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt
        from ninepoint.lowering.schedule import Schedule

        stencil = npt.stencil(
            boundary=boundary,
            dtype=dtype,
            schedule=Schedule(steps=1) if name == SINGLE else None,
        )(kernel)
        # The others' buffers are there already as well.
        return IntoResult(partial(stencil.iterate, *start(x), steps=steps, threads=threads))

    return Peer(name, "ninepoint", prepare, threads=True)


def staged(build: Callable[[Any], Any], boundary: str) -> Peer:
    """The stencil of `build(decorator)`, which calls others, writing into a ready array."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        stencil = build(npt.stencil(boundary=boundary))
        return IntoResult(partial(stencil, x, threads=threads))

    return Peer(NAME, "ninepoint", prepare, threads=True)


def separate(calls: tuple[Call, ...], boundary: str) -> Peer:
    """One call after the other, each writing into arrays that are there."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        known: dict[str, np.ndarray] = {"x": x}
        works = []
        for kernel, reads, makes in calls:
            stencil = npt.stencil(boundary=boundary)(kernel)
            fields = [known[name] for name in reads.split()]
            names = makes.split()
            for made in names:
                known.setdefault(made, np.empty_like(x))
            out = tuple(known[made] for made in names)
            works.append((stencil, fields, out if len(out) > 1 else out[0]))

        def work() -> np.ndarray:
            for stencil, fields, out in works:
                stencil(*fields, out=out, threads=threads)
            return known["out"]

        return work

    return Peer(SEPARATE, "ninepoint", prepare, threads=True)


def applied(function: Callable[..., Any]) -> Peer:
    """The ufunc of a function of two numbers, writing into an array that is there."""

    def prepare(x: np.ndarray, threads: int) -> Any:
        import ninepoint as npt

        return IntoResult(partial(npt.ufunc(function), *second(x), threads=threads))

    return Peer(NAME, "ninepoint", prepare, threads=True)
