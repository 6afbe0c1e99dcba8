"""Which neighbours each output depends on, found by running the function on probes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .arguments import call_arguments, python_function
from .borders import Reach
from .number import place
from .position import Unplaced
from .probe import Probe, Trace, outcomes
from .views import Field, Table, Window
from .world import rebound

# How many axes are tried for a kernel that asks for its shape before it reads anything.
_MOST = 6


def footprints(
    function: Callable[..., Any],
    ndim: int | None = None,
    *,
    scalars: Mapping[str, Any] | None = None,
    standard: Iterable[str] = (),
    upsample: Sequence[int] = (),
) -> tuple[Reach, ...]:
    """For each output the least and greatest offset that it depends on, (lo, hi).

    `scalars` are values for parameters that steer loops or offsets.
    """
    standard = (standard,) if isinstance(standard, str) else tuple(standard)
    others = dict(scalars or {})
    ndim = ndim or dimensions(function, others, standard)
    return reaches(function, ndim, others, standard, upsample)


def reaches(
    function: Any,
    ndim: int,
    others: Mapping[str, Any],
    standard: Iterable[str],
    upsample: Sequence[int] = (),
) -> tuple[Reach, ...]:
    """The reach of each output: of a finer result that of all points around an element."""
    found: list[set[tuple[int, ...]]] = []
    for phase in np.ndindex(*upsample or (1,) * ndim):
        trace = Trace()
        run, _ = _probing(function, trace, others, standard, ndim, phase, upsample)
        offsets = [set(output.taint | trace.loose) for output in outcomes(trace, run)]
        found = [a | b for a, b in zip(found or offsets, offsets, strict=True)]
    return tuple(_box(offsets, ndim) for offsets in found)


def dimensions(function: Any, others: Mapping[str, Any], standard: Iterable[str]) -> int:
    """The number of indices of the reads, on the first path that has one."""
    for ndim in range(1, _MOST + 1):
        trace = Trace()
        run, reads = _probing(function, trace, others, standard, ndim)
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
    """A parameter that may turn out to be a field, a scalar, or a table."""

    __slots__ = ("field",)

    field: Any

    def __getattr__(self, name: str) -> Any:
        """What fields alone have: a shape, a place."""
        return getattr(self.field, name)

    def __getitem__(self, index: Any) -> Any:
        return self.field[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.field[index] = value


class _UnknownTable(Probe):
    """A table whose elements are not known."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return self.trace.join("element", self)


def _probing(
    function: Any,
    trace: Trace,
    others: Mapping[str, Any],
    standard: Iterable[str],
    ndim: int,
    phase: Sequence[int] = (),
    factors: Sequence[int] = (),
) -> tuple[Callable[[], tuple[Any, ...]], list[tuple[int, ...]]]:
    """A call of `function` of `ndim` axes on probes, and the list that it adds its reads to.

    With `factors` the point is one of several around an element.
    """
    kernel = rebound(function, quiet=True)
    reads: list[tuple[int, ...]] = []

    def shape() -> tuple[Probe, ...]:
        return tuple(trace.probe("length", axis) for axis in range(ndim))

    def placed(found: Sequence[Any]) -> Any:
        trace.placed = True
        return tuple(found) if ndim > 1 else found[0]

    def positions() -> Any:
        if factors:
            return placed([Unplaced(trace, axis, 0, 1) for axis in range(ndim)])
        return placed([trace.probe("position", axis) for axis in range(ndim)])

    def among_results() -> Any:
        if not factors:
            return positions()
        pairs = enumerate(zip(phase, factors, strict=True))
        return placed([Unplaced(trace, axis, r, k) for axis, (r, k) in pairs])

    def unknown(name: str, value: Any) -> Any:
        def read(offset: tuple[int, ...]) -> Probe:
            reads.append(offset)
            return trace.probe("read", name, offset, taint=frozenset([offset]))

        if isinstance(value, np.ndarray) and value.ndim:
            return value.view(Table)
        if name in standard:
            plain_probe = trace.probe("table", name)
            return _UnknownTable(trace, plain_probe.id, frozenset(), None)
        number = value if isinstance(value, (bool, int, float, np.number)) else None
        probe = _Unknown(trace, trace.probe("parameter", name).id, frozenset(), number)
        probe.field = Field(name, read, trace.constant(0), _shape=shape, _place=positions)
        return probe

    given = {}
    for name, parameter in inspect.signature(python_function(function)).parameters.items():
        default = None if parameter.default is parameter.empty else parameter.default
        given[name] = unknown(name, others.get(name, default))
    positional, named = call_arguments(function, given)

    def run() -> tuple[Any, ...]:
        token = place.set(among_results)
        try:
            with np.errstate(all="ignore"):
                returned = kernel(*positional, **named)
        finally:
            place.reset(token)
        outputs = returned if isinstance(returned, tuple) else (returned,)
        if any(isinstance(output, Window) for output in outputs):
            raise TypeError("a kernel returns numbers, not a window: reduce it")
        return outputs

    return run, reads


def _box(offsets: Iterable[tuple[int, ...]], ndim: int) -> Reach:
    """The smallest box around the offsets; the centre where there are none."""
    axes = list(zip(*offsets, strict=True)) or [(0,)] * ndim
    return tuple(min(axis) for axis in axes), tuple(max(axis) for axis in axes)
