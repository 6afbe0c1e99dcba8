"""The benchmarks: ours equals NumPy and SciPy on every problem, and the figures add up."""

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compared import only

# The table is no part of the package: it lies beside `tests` in the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import groups, measure, plots, report, results
from benchmarks.peers import Peer
from benchmarks.problem import Case, Problem, array

PROBLEMS = [item for item in groups.ITEMS if isinstance(item, Problem)]

# What needs nothing but the packages of the tests, and seconds to compile at most.
_PLAIN = {"NumPy", "SciPy", "single sweeps", "separate calls", "without a look"}


@pytest.mark.parametrize(
    ("number", "problem"),
    only(8, [pytest.param(k, one, id=one.name) for k, one in enumerate(PROBLEMS)]),
)
def test_ours_equals_numpy_and_scipy(number: int, problem: Problem) -> None:
    # Of one problem integers, of the next one floats: each type is a compilation.
    floats = number % 2 and "float32" in problem.dtypes
    case = Case("float32" if floats else problem.dtypes[0], problem.tiny)
    x = array(problem, case)
    mine = problem.ours.finish(problem.ours.prepare(x, 1)())
    plain = [peer for peer in measure.peers_for(problem, case, 1) if peer.name in _PLAIN]
    assert plain, f"{problem.name} has no peer that needs nothing but NumPy or SciPy"
    for peer in plain:
        _, difference, bound = measure.check(problem, peer, x, mine)
        assert difference <= bound, f"{peer.name} differs by {difference}"


def test_names_are_unique_tolerances_have_reasons_and_a_wrong_peer_is_not_timed() -> None:
    assert len({(one.group, one.name) for one in groups.ITEMS}) == len(groups.ITEMS)
    for problem in PROBLEMS:
        names = [problem.ours.name, *(peer.name for peer in problem.peers)]
        assert len(set(names)) == len(names), problem.name
        for peer in problem.peers:
            if peer.tolerance is not None and peer.tolerance.integers:
                assert peer.why, (problem.name, peer.name)
    problem = next(problem for problem in PROBLEMS if problem.name == "laplace")
    wrong = Peer("wrong", "numpy", lambda x, threads: lambda: x.astype(np.int16))
    absent = Peer("absent", "no_such_package", lambda x, threads: lambda: x)
    table = Problem("wrong", "calls", problem.ours, (wrong, absent), problem.near)
    cell = measure.solve(table, Case("uint8", problem.tiny), threads=1, repeat=2)
    assert list(cell["times"]) == ["ninepoint", "without `out=`"]
    assert list(cell["refused"]) == ["wrong"]


def test_works_are_timed_in_turn_and_a_long_call_once() -> None:
    calls: list[str] = []
    works = {name: lambda name=name: calls.append(name) or time.sleep(0.01) for name in "ab"}
    times = measure.take_times(works, repeat=3)
    # Each is called once before it is timed.
    assert "".join(calls[-12:]) == "aabb" * 3
    assert len(times["a"]) == 3
    calls.clear()
    times = measure.take_times(works, repeat=3, share=0.001)
    assert calls == ["a", "b"]
    assert len(times["b"]) == 1


def _cell(problem: str, threads: int = 1, **others: float) -> dict[str, Any]:
    """What is measured of a problem on its first array, with our time first."""
    found = next(one for one in PROBLEMS if one.name == problem)
    return {
        "group": found.group, "problem": problem, "steps": found.steps, "dtype": found.dtypes[0],
        "shape": list(found.shapes[0]), "threads": threads, "times": others, "refused": {},
        "notes": {},
    }  # fmt: skip


def _run(date: str, *cells: dict[str, Any]) -> dict[str, Any]:
    machine = {"date": f"{date}T12:00:00+00:00", "cpu": "A processor", "cores": 2}
    machine |= {"system": "Linux", "python": "3.11.7", "versions": {"numpy": "2.4.3"}}
    return {"machine": machine | {"load_before": 0.0}, "cells": list(cells)}


def test_a_run_takes_the_place_of_what_it_measured_anew(tmp_path: Path) -> None:
    before = _run("2026-01-02", _cell("laplace", ninepoint=1.0), _cell("sobel", ninepoint=1.0))
    before["machine"]["commit"] = "abc123+"
    threads = _run("2026-01-03", _cell("sobel", threads=2, ninepoint=1.0))
    anew = _run("2026-01-04", _cell("sobel", ninepoint=2.0), _cell("sobel", 2, ninepoint=2.0))
    stored = results.merged(results.merged([before], threads), anew)
    assert [run["machine"]["date"][:10] for run in stored] == ["2026-01-02", "2026-01-04"]
    found = results.cells(stored, "calls")
    told, since = (
        [(c["problem"], c["threads"], c["since"]) for c in found],
        " (2026-01-02, abc123+)",
    )
    assert told == [("sobel", 1, ""), ("sobel", 2, ""), ("laplace", 1, since)]
    assert "| laplace (2026-01-02, abc123+) | uint8 |" in report.page(stored)
    file = tmp_path / "some.json"
    assert results.load(file) == []
    results.save(file, stored)
    assert results.load(file) == stored


def test_the_pages_show_the_stored_results() -> None:
    stored = results.load(results.FILE)
    assert report.page(stored) == report.PAGE.read_text()
    assert report.readme_part(stored) in report.README.read_text()
    assert report.gpu_part(stored) in report.GPU_PAGE.read_text()


@pytest.mark.nightly
def test_the_picture_is_drawn_from_the_stored_results(tmp_path: Path) -> None:
    for path in plots.write(results.load(results.FILE), tmp_path):
        if path.suffix == ".svg":
            # The words of a picture, which matplotlib writes beside their shapes.
            drawn, shown = (
                re.findall("<!-- (.*?) -->", (folder / path.name).read_text())
                for folder in (tmp_path, plots.FOLDER)
            )
            assert drawn == shown
