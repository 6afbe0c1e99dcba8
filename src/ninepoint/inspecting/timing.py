"""Measure: how fast a call is, beside a copy of the same arrays.

A time alone says little: it depends on the machine and on what else it does.  So a call and a
copy take turns, A B A B, and what counts is the ratio of their medians.  Compiling is done
before, and has a time of its own.  Bytes are counted once in and once out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ..backends.compiled import Compiled
from ..backends.threads import run_parallel
from ..undisturbed import imported
from .displays import bar, rate_text, table, time_text

# A sample takes at least so long [s]: 20 times what a clock that counts microseconds misses.
_SAMPLE = 1e-3


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
        Threads that computed in a call; the copy used as many.  On a GPU none did.
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
    def by(self) -> str:
        """Who computed, in words."""
        return self.device or threads_text(self.threads)

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

    def __str__(self) -> str:
        return (
            f"{self.name}({self.arrays}): {time_text(self.seconds)} "
            f"({time_text(self.lower)} .. {time_text(self.upper)}, {self.samples} samples), "
            f"{rate_text(self.points_per_second, 'point')}, "
            f"{rate_text(self.bytes_per_second, 'B')} = {self.copy_ratio:.2f} of a copy "
            f"({rate_text(self.copy_bytes_per_second, 'B')}), {self.by}; "
            f"before: {preparation_text(self.preparation, self.preparation_seconds)}"
        )

    def __repr__(self) -> str:
        # A prompt shows what print() does.
        return str(self)

    def _repr_html_(self) -> str:
        """Give a table for a notebook, with a bar that is full where a call is a copy."""
        copy = rate_text(self.copy_bytes_per_second, "B")
        return table(
            f"{self.name}({self.arrays})",
            (
                ("a call", time_text(self.seconds)),
                (
                    "quartiles",
                    f"{time_text(self.lower)} and {time_text(self.upper)} "
                    f"of {self.samples} samples",
                ),
                ("points", rate_text(self.points_per_second, "point")),
                ("memory", rate_text(self.bytes_per_second, "B")),
                ("of a copy", f"{bar(self.copy_ratio)} {self.copy_ratio:.2f} of {copy}"),
                ("computed by", self.by),
                ("before", preparation_text(self.preparation, self.preparation_seconds)),
            ),
        )


def prepared(compiled: Compiled) -> tuple[str, float]:
    """Make a kernel ready to run; what that took, in words and in seconds."""
    if compiled.ready:
        return "already compiled", 0.0
    # Numba's own import is no part of compiling.
    imported("numba")

    begin = perf_counter()
    loaded = compiled.loaded
    seconds = perf_counter() - begin
    return ("loaded from the cache" if loaded.from_disk else "compiled"), seconds


def cut(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], threads: int
) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """Cut a copy of arrays into a part for each thread, along their longest axis."""
    parts: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(threads)]
    for source, target in zip(sources, targets, strict=True):
        axis = int(np.argmax(source.shape))
        ends = np.linspace(0, source.shape[axis], threads + 1).astype(int).tolist()
        for part, first, last in zip(parts, ends[:-1], ends[1:], strict=True):
            place = (*(slice(None),) * axis, slice(first, last))
            part.append((source[place], target[place]))
    return parts


def _copied(parts: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]], threads: int) -> None:
    def copy(part: Sequence[tuple[np.ndarray, np.ndarray]]) -> Callable[[], None]:
        def one() -> None:
            for source, target in part:
                np.copyto(target, source)

        return one

    run_parallel((copy(part) for part in parts), threads)


def beside_copy(
    call: Callable[[], object],
    fields: Sequence[np.ndarray],
    threads: int,
    repeat: int,
    limit: float,
) -> tuple[list[float], list[float]]:
    """Seconds of calls, and of copies of the fields, taken in turn.

    Ends after `repeat` samples of each, or once `limit` seconds are over and there are three.
    """
    parts = cut(fields, [np.zeros(field.shape, field.dtype) for field in fields], threads)
    return in_turn(call, lambda: _copied(parts, threads), repeat, limit)


def in_turn(
    call: Callable[[], object],
    copy: Callable[[], object],
    repeat: int,
    limit: float,
    wait: Callable[[], object] = lambda: None,
) -> tuple[list[float], list[float]]:
    """Seconds of calls, and of copies, taken in turn; `wait` waits for what they began."""
    works = (call, copy)
    counts = []
    for work in works:
        work()
        wait()
        once = _seconds(work, 1, wait)
        several = _seconds(work, 3, wait) if once < _SAMPLE else once
        counts.append(max(1, round(_SAMPLE / max(several, 1e-7))))
    taken: tuple[list[float], list[float]] = ([], [])
    begin = perf_counter()
    while len(taken[0]) < repeat and (len(taken[0]) < 3 or perf_counter() - begin < limit):
        for work, count, samples in zip(works, counts, taken, strict=True):
            if count > 1:
                work()  # brings back into cache what the other drove out, as in a loop
            samples.append(_seconds(work, count, wait))
    return taken


def _seconds(
    work: Callable[[], object], count: int, wait: Callable[[], object] = lambda: None
) -> float:
    begin = perf_counter()
    for _ in range(count):
        work()
    wait()
    return (perf_counter() - begin) / count


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles of samples; the middle one is the median."""
    if len(samples) == 1:
        return (samples[0],) * 3
    lower, middle, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return lower, middle, upper


def threads_text(threads: int) -> str:
    """How many threads, with their word."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def preparation_text(preparation: str, seconds: float) -> str:
    """How the machine code came to be there."""
    if preparation == "already compiled":
        return preparation
    return f"{preparation} in {time_text(seconds)}"
