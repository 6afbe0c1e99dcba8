"""The benchmark table: ours equals NumPy and SciPy on every problem, and the figures add up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# The table is no part of the package: it lies beside `tests` in the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import measure, report
from benchmarks.peers import Peer
from benchmarks.problems import PROBLEMS, Case, Problem, array


def _tiny(problem: Problem) -> list[Case]:
    # One type of integers and one of floats: each is a compilation, and the texts differ no more.
    dtypes = dict.fromkeys((problem.dtypes[0], "float32"))
    return [Case(dtype, problem.tiny) for dtype in dtypes if dtype in problem.dtypes]


@pytest.mark.parametrize(
    ("problem", "case"),
    [
        pytest.param(problem, case, id=f"{problem.name}-{case.dtype}")
        for problem in PROBLEMS
        for case in _tiny(problem)
    ],
)
def test_ours_equals_numpy_and_scipy(problem: Problem, case: Case) -> None:
    x = array(problem, case)
    mine = np.asarray(problem.ours.prepare(x, 1)())
    peers = measure.peers_for(problem, case, 1)
    plain = [peer for peer in peers if peer.name in ("NumPy", "SciPy", "reflect")]
    assert plain, f"{problem.name} has no peer that needs nothing but NumPy or SciPy"
    for peer in plain:
        checked = measure.check(problem, peer, x, mine)
        assert checked.equal, f"{peer.name} differs by {checked.difference}"


def test_names_of_problems_and_of_their_peers_are_unique() -> None:
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS)
    for problem in PROBLEMS:
        names = [problem.ours.name, *(peer.name for peer in problem.peers)]
        assert len(set(names)) == len(names), problem.name


def test_a_tolerance_of_its_own_has_a_reason() -> None:
    for problem in PROBLEMS:
        for peer in problem.peers:
            if peer.tolerance is not None and peer.tolerance.integers:
                assert peer.why, (problem.name, peer.name)


def test_a_wrong_peer_is_refused_and_not_timed() -> None:
    problem = next(problem for problem in PROBLEMS if problem.name == "laplace")
    wrong = Peer("wrong", "numpy", lambda x, threads: lambda: x.astype(np.int16))
    absent = Peer("absent", "no_such_package", lambda x, threads: lambda: x)
    case = Case("uint8", problem.tiny)
    table = Problem("wrong", problem.ours, (wrong, absent), problem.near)
    cell = measure.solve(table, case, threads=1, repeat=2)
    assert list(cell["times"]) == ["ninepoint"]
    assert list(cell["refused"]) == ["wrong"]
    assert cell["times"]["ninepoint"]["samples"] >= 1


@pytest.mark.parametrize(
    ("theirs", "interior", "expected"),
    [
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]], False, 0),
        ([[1, 2, 3], [4, 5, 6], [7, 8, 10]], False, 1),
        ([[0, 0, 0], [0, 5, 0], [0, 0, 0]], True, 0),
        ([[7]], False, 2),
        ([[1, 2]], False, np.inf),
    ],
)
def test_difference(theirs: list[list[int]], interior: bool, expected: float) -> None:
    ours = np.arange(1, 10).reshape(3, 3)
    assert measure.difference(ours, np.array(theirs), (1, 1), interior) == expected


def test_a_nan_on_one_side_only_is_an_infinite_difference() -> None:
    ours = np.array([1.0, np.nan])
    assert measure.difference(ours, np.array([1.0, 2.0]), (0,), False) == np.inf


def test_works_are_timed_in_turn() -> None:
    calls: list[str] = []
    works = {name: lambda name=name: calls.append(name) or _pause() for name in "ab"}
    times = measure.take_times(works, repeat=3)
    assert "".join(calls[-6:]) == "ababab"
    assert times["a"].samples == 3
    assert times["a"].lower <= times["a"].median <= times["a"].upper


def _pause() -> None:
    np.arange(3_000_000).sum()


def _results() -> dict[str, Any]:
    problem = PROBLEMS[0]
    times = {"ninepoint": 0.01, "the recipe": 0.3}
    cell = {
        "problem": problem.name,
        "dtype": "int8",
        "shape": [64, 1000, 1000],
        "threads": 1,
        "times": {name: {"median": seconds} for name, seconds in times.items()},
        "differences": {},
        "refused": {},
        "notes": {},
    }
    copy = {"threads": 1, "speeds": {"in cache": 8e10, "beyond cache": 2e10}}
    return {"cells": [cell], "copy": [copy]}


def test_the_table_of_the_readme() -> None:
    assert report.recipe_table(_results()).splitlines() == [
        "| 3x3 mean of int8, 64 frames of 1000x1000 | Gpoint/s, 1 thread | "
        "ninepoint is faster by |",
        "| --- | ---: | ---: |",
        "| **ninepoint** | 6.4 |  |",
        "| the recipe | 0.213 | 30 |",
        "| `np.copyto` of as many bytes | 10 |  |",
    ]
