"""Checks that results are equal, and only then takes times, in turn: A B C A B C.

Times of one machine wander within minutes; taking turns lets all wander together, so that
ratios of medians stay.  Each sample is many calls where one is too short for the clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .peers import Peer, Work, ours
from .problem import Case, Problem, array

# Seconds that a sample takes at least.
_SAMPLE = 0.002

# A call that takes longer is not made once before each sample of it [s].
_LONG = 0.3

# How long the machine is left alone before each sample [s].
_PAUSE = 0.03


def difference(
    ours: np.ndarray, theirs: np.ndarray, near: tuple[int, ...], interior: bool
) -> float:
    """The largest difference of two results, leaving out the border where they have another.

    For integers in steps, for floats in parts of the largest value.  Where shapes do not fit,
    or one has a NaN that the other has not, it is infinite.
    """
    inner = (..., *(slice(reach, -reach or None) for reach in near))
    if interior and ours.shape == theirs.shape:
        ours, theirs = ours[inner], theirs[inner]
    elif ours.shape != theirs.shape:
        ours = ours[inner]
    if ours.shape != theirs.shape:
        return float("inf")
    if np.array_equal(ours, theirs):
        return 0.0
    wide_ours, wide_theirs = ours.astype(np.float64), theirs.astype(np.float64)
    largest = float(np.max(np.abs(wide_ours - wide_theirs)))
    if np.isnan(largest):
        return float("inf")
    if ours.dtype.kind in "iu":
        return largest
    return largest / max(float(np.max(np.abs(wide_ours))), 1e-300)


def check(
    problem: Problem, peer: Peer, x: np.ndarray, mine: np.ndarray, threads: int = 1
) -> tuple[Work, float, float]:
    """Let a peer do its work once: the work, by how much it differs from ours, and may at most."""
    work = peer.prepare(x, threads)
    theirs = peer.finish(work())
    bound = (peer.tolerance or problem.tolerance).of(mine.dtype, theirs.dtype)
    return work, difference(mine, theirs, problem.near, peer.interior), bound


def peers_for(problem: Problem, case: Case, threads: int) -> list[Peer]:
    """The peers that are installed, know the dtype and do not merely repeat themselves."""
    return [
        peer
        for peer in problem.peers
        if peer.installed
        and case.dtype in peer.dtypes
        and (threads == 1 or peer.threads or problem.everybody)
    ]


def _nothing() -> None:
    """What is done when a work returns is done."""


def take_times(
    works: Mapping[str, Work],
    repeat: int,
    share: float = 0.4,
    sample: float = _SAMPLE,
    wait: Callable[[], None] = _nothing,
) -> dict[str, list[float]]:
    """Time works in turn, `repeat` times or until one has used up its share of time [s].

    A sample takes some time at least [s], and what works have only begun is waited for at its end.
    The first turn says how many calls make a sample.  A call that takes the whole share needs
    no such turn, and is a sample itself; so everybody has one.
    """
    counts, once = {}, {}
    samples: dict[str, list[float]] = {name: [] for name in works}
    spent = dict.fromkeys(works, 0.0)
    for name, work in works.items():
        once[name] = _seconds(work, 1, wait)
        if once[name] < sample:
            once[name] = _seconds(work, 3, wait)
        counts[name] = max(1, round(sample / max(once[name], 1e-7)))
        if once[name] > share:
            samples[name].append(once[name])
            spent[name] += once[name]
    for _ in range(repeat):
        for name, work in works.items():
            if spent[name] > share:
                continue
            if once[name] < _LONG:
                # The threads of the one before go to sleep: JAX's go on asking for work, which
                # doubled what took 5 ms on both cores.  And one call brings back into cache what
                # the others drove out, as in a loop.
                time.sleep(_PAUSE)
                work()
                wait()
            seconds = _seconds(work, counts[name], wait)
            samples[name].append(seconds)
            spent[name] += seconds * counts[name]
    return samples


def _seconds(work: Callable[[], Any], count: int, wait: Callable[[], None]) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        work()
    wait()
    return (time.perf_counter() - begin) / count


def turns(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each way, in turn; the first round, which also compiles, is none."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, work in ways.items():
            found[name].append(_seconds(work, 1, _nothing))
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def solve(
    problem: Problem,
    case: Case,
    threads: int,
    repeat: int,
    beside: Callable[[np.ndarray, np.ndarray], Mapping[str, Work]] | None = None,
    sample: float = _SAMPLE,
    wait: Callable[[], None] = _nothing,
) -> dict[str, Any]:
    """One cell of the table, as data: the times of who does not differ, and who does.

    `beside` gives what is timed as well without being compared, for the array and our result.
    """
    begin = time.perf_counter()
    x = array(problem, case)
    our_work = problem.ours.prepare(x, threads)
    mine = problem.ours.finish(our_work()).copy()
    works, notes, refused = {problem.ours.name: our_work}, {}, {}
    if isinstance(our_work, ours.IntoResult):
        works[ours.WITHOUT] = our_work.without
    for peer in peers_for(problem, case, threads):
        try:
            work, apart, bound = check(problem, peer, x, mine, threads)
        except Exception as error:
            # Of any type, from a library that is not ours: it costs its own cell only.
            refused[peer.name] = f"fails: {type(error).__name__}: {str(error).splitlines()[:1]}"
            continue
        if apart > bound:
            refused[peer.name] = f"differs by {apart:g}, {bound:g} allowed"
            continue
        works[peer.name] = work
        note = getattr(work, "note", None) or (apart and peer.why)
        if note:
            notes[peer.name] = note
    if beside is not None:
        works |= beside(x, mine)
    times = take_times(works, repeat, problem.share, sample, wait)
    return {
        "group": problem.group,
        "problem": problem.name,
        "dtype": case.dtype,
        "shape": list(case.shape),
        "threads": threads,
        "steps": problem.steps,
        "times": {name: float(f"{statistics.median(one):.4g}") for name, one in times.items()},
        "refused": refused,
        "notes": notes,
        "seconds": round(time.perf_counter() - begin, 1),
    }
