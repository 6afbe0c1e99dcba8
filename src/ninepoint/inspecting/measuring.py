"""Measure: how fast a call is, beside a copy of the same arrays.

A time alone says little: it depends on the machine and on what else it does.  So a call and a
copy take turns, A B B A, and what counts is the ratio of their medians.  Compiling is done
before, and has a time of its own.  Bytes are counted once in and once out.

    arrays of NumPy              beside a copy that is shared among as many threads
    arrays of a GPU              a call of their own, beside a copy on the GPU
    arrays of NumPy, device=     there and back, beside a copy on the CPU

On a GPU a sample ends when the GPU is done.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ..arrays.accepted import is_cupy, is_device, listed
from ..arrays.executable import SPLIT_POINTS
from ..backends.cuda import driver
from ..backends.threads import run_parallel, thread_count
from ..language.signature import counted, table, time_text
from ..program.definition import Definition
from ..program.options import CALL_OPTIONS
from ..program.program import beside, typed
from .asked import Asked, call_of, no_array

# A sample takes at least so long [s]: 40 times what a clock that counts microseconds misses.
_SAMPLE = 2e-3


@dataclass(frozen=True, slots=True, repr=False)
class Measurement:
    """What `Stencil.bench` measured; prints as one line.

    Attributes
    ----------
    name : str
        The stencil's.
    arrays : str
        Shapes and dtypes of the fields.
    points : int
        Points of a result.
    bytes : int
        Bytes of the fields and of the results, each counted once.
    seconds, lower, upper : float
        A call: the median of the samples, and their quartiles [s].
    samples : int
        How many samples there are.
    copy_bytes : int
        Bytes of the copy: the fields, counted once in and once out.
    copy_seconds : float
        The median of a copy of the fields, taken in turn with the calls [s].
    threads : int
        Threads that a call of so many points may use; the copy used as many.  On a GPU none did.
    preparation : str
        What was needed before the first call: "compiled", "loaded from the cache" or "already
        compiled".
    preparation_seconds : float
        How long that took [s]; it is in no other time.
    device : str
        The GPU that computed; empty where threads did.

    Examples
    --------
    >>> import numpy as np
    >>> import ninepoint as npt
    >>> @npt.stencil
    ... def difference(x):
    ...     return x[1] - x[-1]
    >>> found = difference.bench(np.zeros(1000), repeat=3)
    >>> found.name, found.copy_bytes, found.copy_ratio > 0
    ('difference', 16000, True)
    """

    name: str
    arrays: str
    points: int
    bytes: int
    seconds: float
    lower: float
    upper: float
    samples: int
    copy_bytes: int
    copy_seconds: float
    threads: int
    preparation: str
    preparation_seconds: float
    device: str = ""

    @property
    def points_per_second(self) -> float:
        """Points of a result that a call makes in a second."""
        return self.points / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes that a call reads and writes in a second."""
        return self.bytes / self.seconds

    @property
    def copy_bytes_per_second(self) -> float:
        """Bytes that the copy reads and writes in a second."""
        return self.copy_bytes / self.copy_seconds

    @property
    def copy_ratio(self) -> float:
        """Bytes a second of a call over those of the copy: 1 is as fast as memory allows."""
        return self.bytes_per_second / self.copy_bytes_per_second

    @property
    def _facts(self) -> tuple[tuple[str, str], ...]:
        """What was measured, in words, with labels."""
        by = self.device or ("1 thread" if self.threads == 1 else f"{self.threads} threads")
        before = self.preparation
        if before != "already compiled":
            before = f"{before} in {time_text(self.preparation_seconds)}"
        quartiles = f"{time_text(self.lower)} .. {time_text(self.upper)}"
        copy = counted(self.copy_bytes_per_second, "B/s")
        return (
            ("a call", f"{time_text(self.seconds)} ({quartiles}, {self.samples} samples)"),
            ("points", counted(self.points_per_second, "point/s")),
            ("memory", counted(self.bytes_per_second, "B/s")),
            ("of a copy", f"{self.copy_ratio:.2f} of a copy ({copy})"),
            ("computed by", by),
            ("before", before),
        )

    def __str__(self) -> str:
        *texts, before = (text for _, text in self._facts)
        return f"{self.name}({self.arrays}): {', '.join(texts)}; before: {before}"

    # A prompt shows what print() does.
    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Give a table for a notebook."""
        return table(f"{self.name}({self.arrays})", self._facts)


def check_repeat(repeat: Any) -> None:
    """Raise unless it is a number of samples."""
    if isinstance(repeat, bool) or not isinstance(repeat, int):
        raise TypeError(f"repeat must be a whole number, not {repeat!r}.")
    if repeat < 1:
        raise ValueError(f"repeat={repeat} is less than 1.")


def real(
    definition: Definition,
    args: tuple[Any, ...],
    named: Mapping[str, Any],
    what: str,
    gpu: bool = False,
) -> tuple[Asked, dict[str, Any]]:
    """What is asked about by a call on real arrays with something in them, and its options.

    The arrays may lie on a GPU where `gpu` says so.

    Raises
    ------
    TypeError
        If a field is no array of NumPy, nor one of a GPU where that is computed on.
    ValueError
        If one is empty.
    """
    options = {name: named[name] for name in CALL_OPTIONS & named.keys()}
    own = {name: value for name, value in named.items() if name not in options}
    values = dict(zip(definition.parameters, definition.arguments.bound(args, own), strict=True))
    if options.get("device") is not None and not gpu:
        raise TypeError(f"{what} measures the CPU; leave device= out.")
    call = call_of(definition, values, options)
    call.check_spaced()
    names = call.fields
    given = [values[name] for name in names]
    there = gpu and _on_gpu(given, options)
    kinds = "arrays of NumPy, or of a GPU," if there else "arrays of NumPy,"
    for array, name in zip(given, names, strict=True):
        if not isinstance(array, np.ndarray) and not (there and is_device(array)):
            raise no_array(f"{what} measures {kinds}", name, array)
    fields, types = typed(call.fields, given)
    for field, name in zip(fields, names, strict=True):
        if not field.size:
            raise ValueError(f"{what} needs points to compute; '{name}' is empty.")
    return Asked(call, tuple(types), tuple(fields)), options


def _on_gpu(given: Sequence[Any], options: Mapping[str, Any]) -> bool:
    return options.get("device") is not None or any(map(is_device, given))


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
    fields = one.given
    args, named = one.arguments(fields)
    named |= options

    def run(**out: Any) -> Any:
        return call(*args, **(named | out))

    threads, device, kernels, wait = 0, "", [], _at_once
    with beside(fields):
        if _on_gpu(fields, options):
            device = driver.name(driver.current())
            wait = partial(driver.wait_for, driver.current_stream())
        else:
            many = max(field.size for field in fields) >= SPLIT_POINTS
            threads = thread_count(options.get("threads")) if many else 1
            kernels = [kernel for kernel in one.kernels if not kernel.ready]
        known = set(map(id, driver.known()))
        begin = perf_counter()
        for kernel in kernels:
            # The call may use other forms of it only.
            _ = kernel.loaded
        out = run()
        wait()
        first = perf_counter() - begin
        made = [not kernel.loaded.from_disk for kernel in kernels]
        made += [text.made for text in driver.known() if id(text) not in known]
        copy = _copying(fields, max(1, threads))
        calls, copies = in_turn(lambda: run(out=out), copy, repeat, limit, wait)
    lower, middle, upper = np.quantile(calls, (0.25, 0.5, 0.75)).tolist()
    inside = sum(array.nbytes for array in fields)
    results = listed(out)
    words = "compiled" if any(made) else "loaded from the cache"
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
        copy_seconds=float(np.median(copies)),
        threads=threads,
        preparation=words if made else "already compiled",
        preparation_seconds=max(0.0, first - middle) if made else 0.0,
        device=device,
    )


def _at_once() -> None:
    """Wait for nothing: threads are done when a call ends."""


def _copying(fields: Sequence[Any], threads: int) -> Callable[[], None]:
    """What copies arrays, each of which is shared among threads along its longest axis."""
    tasks: list[Callable[[], object]] = []
    for source in fields:
        make = driver.empty if is_cupy(source) else np.zeros
        target = make(source.shape, source.dtype)
        axis = int(np.argmax(source.shape))
        ends = np.linspace(0, source.shape[axis], threads + 1).astype(int)
        for first, last in itertools.pairwise(ends):
            place = (*(slice(None),) * axis, slice(first, last))
            tasks.append(partial(operator.setitem, target[place], ..., source[place]))
    return lambda: run_parallel(tasks, threads)


def in_turn(
    call: Callable[[], object],
    other: Callable[[], object],
    repeat: int,
    limit: float = math.inf,
    wait: Callable[[], object] = _at_once,
) -> tuple[list[float], list[float]]:
    """Seconds of two calls that take turns; `wait` waits for what they began.

    Ends after `repeat` samples of each, or once `limit` seconds are over and there are three.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    rows = []
    for work, samples in zip((call, other), taken, strict=True):
        # The first time takes longer than others.
        once = min(_seconds(work, 1, wait) for _ in range(2))
        rows.append((work, max(1, round(_SAMPLE / max(once, 1e-7))), samples))
    begin = perf_counter()
    while len(taken[0]) < repeat and (len(taken[0]) < 3 or perf_counter() - begin < limit):
        for work, count, samples in rows:
            if count > 1:
                work()  # brings back into cache what the other drove out, as in a loop
            samples.append(_seconds(work, count, wait))
        # Each is as often the first, should what runs second find something in cache.
        rows.reverse()
    return taken


def _seconds(work: Callable[[], object], count: int, wait: Callable[[], object]) -> float:
    begin = perf_counter()
    for _ in range(count):
        work()
    wait()
    return (perf_counter() - begin) / count
