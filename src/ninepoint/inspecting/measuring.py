"""Measure calls on NumPy arrays: compile first, warm up, then take turns with a copy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import accepted
from ..arrays.axes import behind
from ..arrays.borders import Array
from ..arrays.executable import apply
from ..arrays.parts import SPLIT_POINTS
from ..arrays.recognise import is_chunked, is_xarray
from ..backends.compiled import Bound
from ..backends.threads import thread_count
from ..definition import Definition
from .asked import Asked, asked
from .timing import Measurement, beside_copy, prepared, quartiles

# Bytes of a field beyond which `explain` looks at a part of it only.
_LARGE = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Watched(Bound):
    """A program that remembers which threads ran it."""

    threads: set[int] = field(default_factory=set, compare=False)

    def run(
        self, fields: Sequence[Array], outs: Sequence[Array], told: Array | None = None
    ) -> None:
        """Run, and remember where."""
        self.threads.add(threading.get_ident())
        # Not `super()`: a dataclass with slots is another class than the one defined here.
        Bound.run(self, fields, outs, told)


def real(
    definition: Definition, values: Mapping[str, Any], options: Mapping[str, Any], what: str
) -> Asked:
    """What is asked about by a call on arrays of NumPy with something in them, or raise."""
    if options.get("device") is not None:
        raise TypeError(f"{what} measures the CPU; leave device= out.")
    fields = [values[name] for name in definition.fields]
    for array, name in zip(fields, definition.fields, strict=True):
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"{what} measures arrays of NumPy, and '{name}' is {kind_of(array)}; "
                f"{plain_array(array)}."
            )
        if not array.size:
            raise ValueError(f"{what} needs points to compute; '{name}' is empty.")
    scalars = {name: values[name] for name in definition.scalars}
    return asked(definition, fields, {**scalars, **options})


def kind_of(value: Any) -> str:
    """What somebody gave where an array of NumPy is needed."""
    if is_chunked(value):
        return "a Dask array"
    return f"of type {type(value).__name__}"


def plain_array(value: Any) -> str:
    """How to make an array of NumPy of it."""
    if is_chunked(value):
        return "give one chunk of it, as x.blocks[0].compute() makes it"
    if is_xarray(value):
        return "give its array, x.values"
    return "give an array, as np.asarray(x) makes it"


def check_repeat(repeat: Any) -> None:
    """Raise unless it is a number of samples."""
    if isinstance(repeat, bool) or not isinstance(repeat, int):
        raise TypeError(f"repeat must be a whole number, not {repeat!r}.")
    if repeat < 1:
        raise ValueError(f"repeat={repeat} is less than 1.")


def measured(
    call: Callable[..., Any],
    one: Asked,
    options: Mapping[str, Any],
    repeat: int,
    limit: float,
) -> Measurement:
    """Measure what is asked about, on the arrays that were given for it.

    `call` is the stencil, or what takes arguments as it does.
    """
    definition = one.call.definition
    names = definition.fields
    fields = [accepted.as_field(*pair) for pair in zip(one.given, names, strict=True)]
    values = {**dict(zip(names, fields, strict=True)), **one.call.scalars}
    parameters, count = definition.parameters, definition.positional
    args = [values[name] for name in parameters[:count]]
    named = {name: values[name] for name in parameters[count:]} | dict(options)

    def run(out: Any) -> Any:
        return call(*args, **(named if out is None else named | {"out": out}))

    return _measurement(
        one, fields, run, lambda out: _threads(one, fields, options, out), repeat, limit
    )


def _threads(one: Asked, fields: Sequence[Array], options: Mapping[str, Any], out: Any) -> int:
    """How many threads compute in a call that writes to `out`."""
    if not one.is_single or one.call.definition.factors:
        points = max(field.size for field in fields)
        many = points >= SPLIT_POINTS
        return thread_count(options.get("threads")) if many else 1
    program = one.last.bind(one.call.scalars)
    graph, axes = one.graph[0], options.get("axes")
    if graph.places:
        shapes = [field.shape for field in fields]
        along = behind(axes, len(np.broadcast_shapes(*shapes)), one.last.ndim)
        fields = [*fields, *graph.along(along).positions(shapes)]
    # The first part decides how the rest is divided: twice, should the first be slow.
    # Each call is counted for itself, for it may have other threads of the pool.
    most = 0
    for _ in range(2):
        watched = Watched(program.compiled, program.coefficients, program.scalars)
        apply(
            watched, fields, border=one.call.boundary.outline(one.last.ndim), cval=one.call.cval,
            axes=axes, out=out, threads=options.get("threads"),
        )  # fmt: skip
        most = max(most, len(watched.threads))
    return most


def _measurement(
    one: Asked,
    fields: Sequence[Array],
    run: Callable[[Any], Any],
    count: Callable[[Any], int],
    repeat: int,
    limit: float,
) -> Measurement:
    """Measure `run`, which gives a result for `fields`, in `out` if it is given.

    `count` does the same and tells how many threads did.
    """
    ready = [prepared(kernel) for kernel in one.kernels]
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
        name=one.call.definition.name,
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
