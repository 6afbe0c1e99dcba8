"""`python -m benchmarks.gpu`: measure on a GPU, and write the results where the page reads them.

Each row is measured by a process of its own, which costs its row if it dies.  With `--quick` the
arrays are tiny and nothing is stored: a rehearsal, which a stand-in for CuPy is enough for.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .. import arguments as common
from .. import runs
from ..report import ROOT
from . import report
from .problems import PROBLEMS

RESULTS = Path(__file__).parents[1] / "results" / "gpu.json"


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; the exit code is 1 where results differ or a process died."""
    options = _options(arguments)
    if options.command == "run":
        return _run(options)
    stored = runs.load(options.file)
    if not stored:
        raise SystemExit(f"{options.file} is not there; `make gpu` measures, where a GPU is.")
    if options.command == "page":
        report.write(stored)
    else:
        print(report.page(stored))
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument(
        "command",
        nargs="?",
        default="run",
        choices=["run", "page", "show"],
        help="run (the default); write the table of docs/gpu.md, or show it, from what is stored",
    )
    parser.add_argument("--quick", action="store_true", help="tiny arrays, shown and not stored")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="rows with NAME in them"
    )
    common.add(parser, "row", RESULTS, limit=120, minutes=9.0, minutes_text="9")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    rows = [
        {"what": "row", "problem": [one.name, one.dtypes[0]]}
        for one in PROBLEMS
        if not options.only or any(text.lower() in one.name.lower() for text in options.only)
    ]
    orders = [{"what": "device"}, *rows, *([] if options.only else [{"what": "host"}])]
    run: dict[str, Any] = {"machine": None, "cells": []}
    died: list[str] = []
    for order in orders:
        name = " ".join(order.get("problem", [order["what"]]))
        if (time.perf_counter() - begin) / 60 > options.minutes:
            died.append(f"{name} (the time was up)")
            continue
        found = _ordered(order, options)
        if found is None:
            died.append(name)
            if order["what"] == "device":
                return 1
        elif "cell" in found:
            run["cells"].append(found["cell"])
        else:
            run |= found
        # What is there is kept, should the next row take the machine with it.
        if not options.quick and run["cells"]:
            runs.save(options.file, runs.merged(runs.load(options.file), run))
    print("\n" + report.page([run]))
    print(f"Measured in {time.perf_counter() - begin:.0f} s.")
    if not options.quick and run["cells"]:
        stored = runs.merged(runs.load(options.file), run)
        runs.save(options.file, stored)
        print(f"Stored in {options.file}.")
        if options.file == RESULTS:
            report.write(stored)
            print("The table of docs/gpu.md is written from it.")
    if died:
        print("Not measured: " + "; ".join(died), file=sys.stderr)
    return 1 if died or any(_is_ours(cell) for cell in run["cells"]) else 0


def _is_ours(cell: dict[str, Any]) -> bool:
    """Whether it is we who differ from the CPU."""
    return report.CPU in cell["refused"]


def _ordered(order: dict[str, Any], options: argparse.Namespace) -> dict[str, Any] | None:
    """Have a process do it; None where it dies."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.jsonl"
        order = {
            **order,
            "file": str(file),
            "quick": options.quick,
            "repeat": options.repeat,
            "limit": options.limit,
        }
        # JAX would take most of the memory at once.
        environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu.worker", json.dumps(order)],
            cwd=ROOT,
            env=environment,
        )
        if ended.returncode != 0 or not file.exists():
            return None
        found: dict[str, Any] = json.loads(file.read_text())
        return found


if __name__ == "__main__":
    sys.exit(main())
