"""ninepoint itself, in the form of a peer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import peers
from ..kernels import ByType, State, alone, text

NAME = "ninepoint"

# The same without what makes many steps or stages one pass over memory.
SINGLE = "single sweeps"
SEPARATE = "separate calls"

# The same as most users write it: each call makes its result.
WITHOUT = "without `out=`"

# A stencil, the names of what it reads, and of what it makes; the first reads `x`, the last
# makes `out`.
Call = tuple[Callable[..., Any], str, str]


class IntoResult:
    """A call that writes into a result that is there; `without` makes a new one."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.without = call
        self._out = call()

    def __call__(self) -> Any:
        return self.without(out=self._out)


def calling(
    build: Callable[[Any, np.ndarray, int], Any], name: str = NAME, **options: Any
) -> peers.Peer:
    """Ours from `build(npt, x, threads)`."""
    return peers.built(name, "ninepoint", build, threads=True, **options)


def stencil(
    kernel: Callable[..., Any] | ByType,
    boundary: str = "reflect",
    name: str = NAME,
    unlike: str = "",
    nan: bool = False,
    **options: Any,
) -> peers.Peer:
    """The stencil of a kernel, with options of the call; `unlike` is there for its time."""

    def build(npt: Any, x: np.ndarray, threads: int) -> Any:
        made = npt.stencil(boundary=boundary)(text(kernel, x.dtype))
        return IntoResult(partial(made, x, threads=threads, **options))

    more: dict[str, Any] = {"tolerance": peers.UNLIKE, "why": unlike} if unlike else {}
    return calling(build, name, nan=nan, **more)


def stepping(
    kernel: Callable[..., Any],
    start: Callable[[np.ndarray], State],
    steps: int,
    boundary: str = "keep",
    name: str = NAME,
    dtype: str | None = None,
    **options: Any,
) -> peers.Peer:
    """So many steps from `start(array)`; as single sweeps where that is the name."""

    def build(npt: Any, x: np.ndarray, threads: int) -> Any:
        from ninepoint.lowering.schedule import Schedule

        schedule = Schedule(steps=1) if name == SINGLE else None
        made = npt.stencil(boundary=boundary, dtype=dtype, schedule=schedule)(kernel)
        # The others' buffers are there already as well.
        call = partial(made.iterate, *start(x), steps=steps, threads=threads, **options)
        return IntoResult(call)

    return calling(build, name)


def staged(
    whole: Callable[[Any], Any],
    boundary: str = "reflect",
    fields: Callable[[np.ndarray], State] = alone,
) -> peers.Peer:
    """The stencil of `whole(decorator)`, which may call others, writing into a ready array."""

    def build(npt: Any, x: np.ndarray, threads: int) -> Any:
        made = whole(npt.stencil(boundary=boundary))
        return IntoResult(partial(made, *fields(x), threads=threads))

    return calling(build)


def separate(calls: tuple[Call, ...], boundary: str = "reflect") -> peers.Peer:
    """One call after the other, each writing into arrays that are there."""

    def build(npt: Any, x: np.ndarray, threads: int) -> Any:
        known: dict[str, np.ndarray] = {"x": x}
        works = []
        for kernel, reads, makes in calls:
            fields = [known[name] for name in reads.split()]
            out = tuple(known.setdefault(name, np.empty_like(x)) for name in makes.split())
            one = npt.stencil(boundary=boundary)(kernel)
            to = out if len(out) > 1 else out[0]
            works.append(partial(one, *fields, out=to, threads=threads))

        def work() -> np.ndarray:
            for one in works:
                one()
            return known["out"]

        return work

    return calling(build, SEPARATE)
