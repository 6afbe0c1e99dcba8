"""Which neighbours each output depends on, found by running the function on probes.

For calls that do not say how far they look, and for tests of those who find it in another way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from .borders import Reach
from .number import elsewhere, place
from .probe import Probe, Trace, outcomes
from .views import Field, Table, Window
from .world import call_arguments, python_function, rebound

# How many axes are tried for a kernel that asks for its shape before it reads anything.
_MOST = 6

# A call of the function on probes, and the offsets of the reads that it makes.
_Run = tuple[Callable[[], tuple[Any, ...]], list[tuple[int, ...]]]


def footprints(
    function: Callable[..., Any],
    ndim: int | None = None,
    *,
    scalars: Mapping[str, Any] | None = None,
) -> tuple[Reach, ...]:
    """For each output the least and greatest offset that it depends on, (lo, hi).

    `scalars` are values for parameters that steer loops or offsets, and small arrays.
    """
    known = dict(scalars or {})
    ndim = ndim or dimensions(function, known)
    trace = Trace()
    run, _ = _probing(function, trace, known, ndim)
    found = outcomes(trace, run)
    return tuple(_box(output.taint | trace.loose, ndim) for output in found)


def dimensions(function: Any, known: Mapping[str, Any]) -> int:
    """The number of indices of the reads, on the first path that has one."""
    for ndim in range(1, _MOST + 1):
        trace = Trace()
        run, reads = _probing(function, trace, known, ndim)
        try:
            run()
            if not reads:
                outcomes(trace, run)
        except (ValueError, IndexError, TypeError):
            # The shape of a field, or a position, has more entries than that.
            if ndim == _MOST:
                raise
            continue
        lengths = {len(offset) for offset in reads}
        if not reads and trace.placed:
            return ndim
        if len(lengths) != 1:
            raise TypeError(f"reads with {sorted(lengths)} indices: give `ndim`")
        break
    return lengths.pop()


class _Unknown(Probe):
    """A parameter that may turn out to be a field, or a scalar."""

    __slots__ = ("field",)

    field: Any

    def __getattr__(self, name: str) -> Any:
        """What fields alone have: a shape, a place."""
        return getattr(self.field, name)

    def __getitem__(self, index: Any) -> Any:
        return self.field[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.field[index] = value


def _probing(function: Any, trace: Trace, known: Mapping[str, Any], ndim: int) -> _Run:
    """A call of `function` of `ndim` axes on probes, and the list that it adds its reads to."""
    kernel = rebound(function)
    reads: list[tuple[int, ...]] = []

    def shape() -> tuple[Probe, ...]:
        return tuple(trace.probe("length", axis) for axis in range(ndim))

    def position() -> Any:
        trace.placed = True
        found = tuple(trace.probe("position", axis) for axis in range(ndim))
        return found if ndim > 1 else found[0]

    def unknown(name: str, value: Any) -> Any:
        def read(offset: tuple[int, ...]) -> Probe:
            reads.append(offset)
            return trace.probe("read", name, offset, taint=frozenset([offset]))

        if isinstance(value, np.ndarray) and value.ndim:
            return value.view(Table)
        number = value if isinstance(value, (bool, int, float, np.number)) else None
        probe = _Unknown(trace, trace.probe("parameter", name).id, frozenset(), number)
        probe.field = Field(name, read, trace.constant(0), shape=shape, place=position)
        return probe

    given = {}
    for name, parameter in inspect.signature(python_function(function)).parameters.items():
        default = None if parameter.default is parameter.empty else parameter.default
        given[name] = unknown(name, known.get(name, default))
    positional, named = call_arguments(function, given)

    def run() -> tuple[Any, ...]:
        tokens = place.set(position), elsewhere.set(_moved)
        try:
            with redirect_stdout(None), np.errstate(all="ignore"):
                returned = kernel(*positional, **named)
        finally:
            place.reset(tokens[0])
            elsewhere.reset(tokens[1])
        outputs = returned if isinstance(returned, tuple) else (returned,)
        if any(isinstance(output, Window) for output in outputs):
            raise TypeError("a kernel returns numbers, not a window: reduce it")
        return outputs

    return run, reads


def _moved(value: Any, index: Any) -> Any:
    """An expression at other points: it may hang on all that was asked before it, there."""

    def read(offset: tuple[int, ...]) -> Any:
        if not isinstance(value, Probe):
            return value
        asked = [question.taint for question, _ in value.trace.taken]
        taint = frozenset(
            tuple(a + b for a, b in zip(one, offset, strict=True))
            for one in value.taint.union(*asked)
        )
        return value.trace.probe("moved", value.id, offset, taint=taint)

    return Field("an expression", read, value)[index]


def _box(offsets: Iterable[tuple[int, ...]], ndim: int) -> Reach:
    """The smallest box around the offsets; the centre where there are none."""
    axes: Sequence[Any] = list(zip(*offsets, strict=True)) or [(0,)] * ndim
    return tuple(min(axis) for axis in axes), tuple(max(axis) for axis in axes)
