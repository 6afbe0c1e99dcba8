"""`python -m benchmarks`: measure, and write the results where the pages read them."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import arguments as common
from . import machine, plots, report, runs, start, worker
from .problem import Problem
from .problems import PROBLEMS

LATEST = Path(__file__).parent / "results" / "latest.json"


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; the exit code is 1 where results differ or a peer crashed."""
    options = _options(arguments)
    if options.command == "run":
        return _run(options)
    stored = runs.load(options.file)
    if not stored:
        raise SystemExit(f"{options.file} is not there; `python -m benchmarks` measures.")
    if options.command == "readme":
        report.write_readme(stored)
    elif options.command == "plot":
        for path in plots.write(stored):
            print(path)
    else:
        print(report.page(stored))
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "command",
        nargs="?",
        default="run",
        choices=["run", "readme", "plot", "show"],
        help="run (the default); write README.md's table and docs/benchmarks.md, draw their "
        "pictures or show the tables, all from the stored results",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one small array a problem and one thread; results are shown, not stored",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="problems whose name contains NAME, or all of a table: filters, elements, time, "
        "pipelines, windows or solvers; may be repeated; shown, not stored",
    )
    common.add(parser, "cell", LATEST, limit=150, minutes=None, minutes_text="30; quick 2")
    parser.add_argument("--threads", default=None, help="such as 1 or 1,2 (the default)")
    parser.add_argument(
        "--store",
        action="store_true",
        help="store partial results as well, in place of the stored ones of the same problems",
    )
    parser.add_argument("--list", action="store_true", help="show the problems and stop")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    if options.list:
        for problem in PROBLEMS:
            peers = ", ".join(dict.fromkeys(peer.name for peer in problem.peers))
            print(f"{problem.group}: {problem.name}: {peers}")
        return 0
    problems = _chosen(options.only)
    counts = _counts(options.threads, options.quick)
    partial = options.quick or options.only or len(counts) < 2
    begin = time.perf_counter()
    results: dict[str, Any] = {"machine": machine.describe(), "copy": [], "cells": []}
    crashed: list[str] = []
    minutes = options.minutes or (2 if options.quick else 30)
    late: list[str] = []
    for k, threads in enumerate(counts, start=1):
        # Two threads have fewer peers; still, half of what is left is theirs.
        until = time.time() + (60 * minutes - (time.perf_counter() - begin)) / (
            len(counts) - k + 1
        )
        found, died = _measure(problems, threads, options, until)
        results["copy"] += found["copy"]
        results["cells"] += sorted(found["cell"], key=runs.place)
        crashed += died
        late += [f"{' '.join(map(str, cell))}, threads: {threads}" for cell in found["late"]]
    if not options.only:
        print("Starting processes, cold and warm ...", flush=True)
        results["start"] = start.start_times(1 if options.quick else 3)
    results["seconds"] = round(time.perf_counter() - begin)
    print("\n" + report.page([results]))
    print(f"Measured in {results['seconds']} s.")
    if not partial or options.store:
        stored = runs.merged(runs.load(options.file) if partial else [], results)
        runs.save(options.file, stored)
        print(f"Stored in {options.file}.")
        if options.file == LATEST:
            report.write_readme(stored)
            print("README.md and docs/benchmarks.md are written from it.")
            if importlib.util.find_spec("matplotlib"):
                plots.write(stored)
            else:
                print("`python -m benchmarks plot` draws their pictures, where matplotlib is.")
    if late:
        print("Left out, as the time was up (--minutes): " + "; ".join(late))
    for cell in crashed:
        print(f"The process died in {cell}.", file=sys.stderr)
    return 1 if crashed or any(cell["refused"] for cell in results["cells"]) else 0


def _chosen(only: list[str] | None) -> list[Problem]:
    if not only:
        return list(PROBLEMS)
    texts = [text.lower() for text in only]
    found = [p for p in PROBLEMS if p.group in texts or any(t in p.name.lower() for t in texts)]
    if not found:
        names = "; ".join(problem.name for problem in PROBLEMS)
        raise SystemExit(f"No problem has {' or '.join(only)} in its name. There are: {names}")
    return found


def _counts(text: str | None, quick: bool) -> list[int]:
    if text is None:
        return [1] if quick else [1, 2]
    counts = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if not counts or any(not 1 <= count <= machine.cores() for count in counts):
        raise SystemExit(f"--threads takes numbers of 1 to {machine.cores()}, such as 1,2.")
    return counts


def _measure(
    problems: list[Problem], threads: int, options: argparse.Namespace, until: float
) -> tuple[dict[str, list[Any]], list[str]]:
    """Let workers measure all cells; where one dies, go on behind the cell that killed it.

    Each problem has a process of its own.  In one that has run for long, an array that was made
    once may lie in small pages and the next in huge ones, which made half of some figures luck.
    """
    cells = [
        [problem.name, case.dtype, list(case.shape)]
        for problem in problems
        for case in problem.cases(options.quick)
    ]
    # Should the time be up before the end, then the less common types are missing.
    cells.sort(key=lambda cell: cell[1] in ("uint16", "float64") and cell[2] != [100, 100])
    found: dict[str, list[Any]] = {"copy": [], "cell": [], "begun": [], "late": []}
    crashed = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.jsonl"
        while left := cells[len(found["begun"]) + len(found["late"]) :]:
            order = {
                "threads": threads,
                "repeat": options.repeat,
                "limit": options.limit,
                "until": until,
                "cells": list(itertools.takewhile(lambda cell: cell[0] == left[0][0], left)),
                "copy": not found["copy"],
                "file": str(file),
            }
            before = len(found["begun"])
            ended = subprocess.run(
                [sys.executable, "-m", "benchmarks.worker", json.dumps(order)],
                env=worker.environment(threads),
                cwd=report.ROOT,
            )
            found = {"copy": [], "cell": [], "begun": [], "late": []}
            for row in file.read_text().splitlines() if file.exists() else ():
                for kind, content in json.loads(row).items():
                    found[kind].append(content)
            if ended.returncode != 0:
                if len(found["begun"]) == before:
                    raise SystemExit("The worker does not start; its message is above.")
                crashed.append(" ".join(map(str, found["begun"][-1])))
                if len(crashed) > 2 and not found["cell"]:
                    raise SystemExit("No cell can be measured; the messages are above.")
    return found, crashed


if __name__ == "__main__":
    sys.exit(main())
