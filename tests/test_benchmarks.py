"""The benchmark table: ours equals NumPy and SciPy on every problem, and the figures add up."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nightly import only

# The table is no part of the package: it lies beside `tests` in the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import measure, plots, report, runs
from benchmarks.peers import Peer
from benchmarks.problem import Case, Problem, array
from benchmarks.problems import PROBLEMS

# What needs nothing but the packages of the tests, and seconds to compile at most.
_PLAIN = ("NumPy", "SciPy", "reflect", "single sweeps", "separate calls")


def _tiny(number: int, problem: Problem) -> Case:
    # Of one problem integers, of the next one floats: each type is a compilation.
    dtype = "float32" if number % 2 and "float32" in problem.dtypes else problem.dtypes[0]
    return Case(dtype, problem.tiny)


@pytest.mark.parametrize(
    ("problem", "case"),
    only(
        8,
        [
            pytest.param(problem, _tiny(number, problem), id=problem.name)
            for number, problem in enumerate(PROBLEMS)
        ],
    ),
)
def test_ours_equals_numpy_and_scipy(problem: Problem, case: Case) -> None:
    x = array(problem, case)
    mine = problem.ours.finish(problem.ours.prepare(x, 1)())
    peers = measure.peers_for(problem, case, 1)
    plain = [peer for peer in peers if peer.name in _PLAIN]
    assert {"NumPy", "SciPy", "reflect"} & {peer.name for peer in plain}, (
        f"{problem.name} has no peer that needs nothing but NumPy or SciPy"
    )
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
    assert list(cell["times"]) == ["ninepoint", "without `out=`"]
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
    # Each is called once before it is timed.
    assert "".join(calls[-12:]) == "aabb" * 3
    assert times["a"].samples == 3
    assert times["a"].lower <= times["a"].median <= times["a"].upper


def test_a_call_that_takes_its_whole_share_is_made_once() -> None:
    calls: list[str] = []
    works = {name: lambda name=name: calls.append(name) or time.sleep(0.01) for name in "ab"}
    times = measure.take_times(works, repeat=3, share=0.001)
    assert calls == ["a", "b"]
    assert times["b"].samples == 1


def _pause() -> None:
    np.arange(3_000_000).sum()


def _cell(problem: str, threads: int = 1, **others: float) -> dict[str, Any]:
    """What is measured of a problem on its first array, with our time first."""
    found = next(one for one in PROBLEMS if one.name == problem)
    return {
        "problem": problem,
        "group": found.group,
        "steps": found.steps,
        "dtype": found.dtypes[0],
        "shape": list(found.shapes[0]),
        "threads": threads,
        "times": {name: {"median": seconds} for name, seconds in others.items()},
        "differences": {},
        "refused": {},
        "notes": {},
    }


def _run(date: str, *cells: dict[str, Any]) -> dict[str, Any]:
    machine = {
        "date": f"{date}T12:00:00+00:00",
        "cpu": "A processor",
        "cores": 2,
        "caches": {"L1": "32K"},
        "memory_gib": 8.0,
        "system": "Linux",
        "python": "3.11.7",
        "versions": {"numpy": "2.4.3"},
        "load_before": 0.0,
    }
    copy = {"threads": 1, "speeds": {"in cache": 8e10, "beyond cache": 2e10}}
    return {"machine": machine, "copy": [copy], "cells": list(cells)}


_FIRST = PROBLEMS[0].name


def test_the_table_of_the_readme() -> None:
    run = _run("2026-01-02", _cell(_FIRST, **{"ninepoint": 0.01, "the recipe": 0.3}))
    assert report.recipe_table([run]).splitlines() == [
        "| 3x3 mean of int8, 64 frames of 1000x1000 | Gpoint/s, 1 thread | ninepoint is |",
        "| --- | ---: | ---: |",
        "| **ninepoint** | 6.4 |  |",
        "| the recipe | 0.213 | 30x faster |",
        "| copying, by `np.copyto` | 10 |  |",
    ]


def test_the_speed_of_steps_counts_all_of_them_and_our_own_sweeps_are_no_other() -> None:
    times = {"ninepoint": 0.05, "single sweeps": 0.06, "JAX": 0.5, "Devito": 0.1}
    cell = _cell("heat 2-D, 16 steps", **times)
    assert report.nearest_table([cell]).splitlines()[-1] == (
        "| heat 2-D, 16 steps | float32 4096x4096 | 5.37 | Devito | 2.0x faster |"
    )


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.1, "2.0x faster"), (0.04, "1.25x slower"), (0.0501, "as fast")]
)
def test_slower_is_called_slower(seconds: float, words: str) -> None:
    times = {"ninepoint": 0.05, "Halide": seconds}
    cell = _cell("unsharp mask", **times)
    assert report.nearest_table([cell]).splitlines()[-1].endswith(f"| Halide | {words} |")


def test_the_readme_says_when_each_run_was() -> None:
    first = _run("2026-01-02", _cell(_FIRST, ninepoint=0.01))
    second = _run("2026-01-03", _cell("unsharp mask", threads=2, ninepoint=0.01, Halide=0.02))
    text = report.readme_part([first, second])
    assert "A processor, 2 cores, 2026-01-02; A processor, 2 cores, 2026-01-03." in text
    assert "2 threads:" in text
    assert "| unsharp mask | float32 4096x4096 | 1.68 | Halide | 2.0x faster |" in text


def test_the_page_says_what_was_measured_in_which_run() -> None:
    first = _run("2026-01-02", _cell(_FIRST, ninepoint=0.01), _cell("laplace", ninepoint=0.01))
    second = _run("2026-01-03", _cell("life, 16 steps", ninepoint=0.01, SciPy=0.3))
    page = report.page([first, second])
    assert f"- 2026-01-02T12:00: {_FIRST}; laplace. A processor" in page
    assert "- 2026-01-03T12:00: life, 16 steps. A processor" in page
    assert "### Steps in time, 1 thread" in page
    assert "### Pipelines" not in page
    assert "several runs" not in report.page([first])


def test_a_run_takes_the_place_of_what_it_measured_anew(tmp_path: Path) -> None:
    before = _run("2026-01-02", _cell("laplace", ninepoint=1.0), _cell("sobel", ninepoint=1.0))
    threads = _run("2026-01-03", _cell("sobel", threads=2, ninepoint=1.0))
    anew = _run("2026-01-04", _cell("sobel", ninepoint=2.0), _cell("sobel", 2, ninepoint=2.0))
    stored = runs.merged(runs.merged([before], threads), anew)
    assert [run["machine"]["date"][:10] for run in stored] == ["2026-01-02", "2026-01-04"]
    assert [(cell["problem"], cell["threads"]) for cell in runs.cells(stored)] == [
        ("sobel", 1),
        ("sobel", 2),
        ("laplace", 1),
    ]
    file = tmp_path / "results" / "some.json"
    assert runs.load(file) == []
    runs.save(file, stored)
    assert runs.load(file) == stored


def test_the_stored_results_are_of_problems_that_exist() -> None:
    stored = runs.load(Path(report.__file__).parent / "results" / "latest.json")
    assert len(runs.cells(stored)) == sum(len(run["cells"]) for run in stored)


@pytest.mark.nightly
def test_the_pictures_are_drawn_from_the_stored_results(tmp_path):
    pytest.importorskip("matplotlib")
    stored = runs.load(Path(report.__file__).parent / "results" / "latest.json")
    names = {path.name for path in plots.write(stored, tmp_path)}
    assert names == {
        f"{a}{b}" for a in ("benchmarks", "benchmarks-peers") for b in (".svg", ".png")
    }
    text = (tmp_path / "benchmarks.svg").read_text()
    cells = [cell for cell in runs.cells(stored) if cell["problem"] == report.RECIPE]
    for cell in cells:
        speed = cell["shape"][0] * 1e-3 / cell["times"]["ninepoint"]["median"]
        assert f"<!-- {speed:.3g}  ({report.threads_text(cell['threads'])}) -->" in text
    # What the pages show is of the same results.
    for name in names:
        if name.endswith(".svg"):
            shown = (report.ROOT / "docs/images" / name).read_text()
            assert _comments(shown) == _comments((tmp_path / name).read_text()), name


def _comments(svg: str) -> list[str]:
    """The words of a picture, which matplotlib writes beside their shapes."""
    return re.findall("<!-- (.*?) -->", svg)
