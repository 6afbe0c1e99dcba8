"""Measure calls that a GPU does, in turn with a copy: on it, or in the memory of the CPU.

    arrays of a GPU              a call of their own, beside a copy on the GPU
    arrays of NumPy, device=     there and back, beside a copy on the CPU

A sample ends when the GPU is done, and is as many calls as a clock can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ..arrays import cuda
from ..arrays.recognise import is_cupy, is_device, listed
from ..backends.cuda import cubins, driver
from ..definition import Definition
from ..options import Place
from ..running import as_fields
from .measuring import kind_of, plain_array
from .timing import Measurement, in_turn, quartiles


def measured(
    call: Callable[..., Any],
    definition: Definition,
    values: Mapping[str, Any],
    options: Mapping[str, Any],
    repeat: int,
    limit: float,
) -> Measurement:
    """Measure a call on arrays of a GPU, or on arrays of NumPy that are sent to one.

    Raises
    ------
    TypeError
        If a field is neither.
    ValueError
        If one is empty.
    """
    names = definition.fields
    Place(device=options.get("device")).check(())
    for name in names:
        array = values[name]
        if not isinstance(array, np.ndarray) and not is_device(array):
            raise TypeError(
                "bench() measures arrays of NumPy, or of a GPU, and "
                f"'{name}' is {kind_of(array)}; {plain_array(array)}."
            )
    fields = as_fields([values[name] for name in names], names)
    for array, name in zip(fields, names, strict=True):
        if not array.size:
            raise ValueError(f"bench() needs points to compute; '{name}' is empty.")
    given = {**values, **dict(zip(names, fields, strict=True))}
    parameters, count = definition.parameters, definition.positional
    args = [given[name] for name in parameters[:count]]
    named = {name: given[name] for name in parameters[count:]} | dict(options)

    def run(out: Any) -> Any:
        return call(*args, **(named if out is None else named | {"out": out}))

    if not any(map(is_cupy, fields)):
        return _measurement(definition.name, fields, run, repeat, limit, _copies_of_numpy(fields))
    with cuda.beside(fields):
        there = [driver.empty(field.shape, field.dtype) for field in fields]
        copies = _copies(fields, there)
        return _measurement(definition.name, fields, run, repeat, limit, copies)


def _copies(sources: Sequence[Any], targets: Sequence[Any]) -> Callable[[], None]:
    def copy() -> None:
        for source, target in zip(sources, targets, strict=True):
            target[...] = source

    return copy


def _copies_of_numpy(fields: Sequence[Any]) -> Callable[[], None]:
    return _copies(fields, [np.zeros(field.shape, field.dtype) for field in fields])


def _measurement(
    name: str,
    fields: Sequence[Any],
    run: Callable[[Any], Any],
    repeat: int,
    limit: float,
    copy: Callable[[], None],
) -> Measurement:
    stream = driver.current_stream()
    before = set(map(id, cubins.known()))
    begin = perf_counter()
    out = run(None)
    driver.wait_for(stream)
    first = perf_counter() - begin
    new = [one for one in cubins.known() if id(one) not in before]
    words = "compiled" if any(one.made for one in new) else "loaded from the cache"
    calls, copies = in_turn(lambda: run(out), copy, repeat, limit, lambda: driver.wait_for(stream))
    lower, middle, upper = quartiles(calls)
    copied = quartiles(copies)[1]
    inside = sum(array.nbytes for array in fields)
    results = listed(out)
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
        copy_seconds=copied,
        threads=0,
        preparation=words if new else "already compiled",
        preparation_seconds=max(0.0, first - middle) if new else 0.0,
        device=driver.name(driver.current()),
    )
