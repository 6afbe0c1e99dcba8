"""`python -m benchmarks`: measure, and write the results where the pages read them."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import groups, machine, plots, report, results, worker


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands; the exit code is 1 where results differ or a process died."""
    options = _options(arguments)
    if options.command == "run":
        return _run(options)
    stored = results.load(options.file)
    if not stored:
        raise SystemExit(f"{options.file} is not there; `python -m benchmarks` measures.")
    if options.command == "readme":
        report.write(stored)
    elif options.command == "plot":
        print(*plots.write(stored), sep="\n")
    else:
        print(report.page(stored))
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add(
        "command",
        nargs="?",
        default="run",
        choices=["run", "readme", "plot", "show"],
        help="run (the default); write the tables of the pages, draw their pictures or show the "
        "tables, all from the stored results",
    )
    add("--quick", action="store_true", help="small arrays, one thread; shown, not stored")
    add(
        "--only",
        action="append",
        metavar="NAME",
        help="what has NAME in its name, or is of a group: "
        f"{', '.join(dict(groups.ORDER))}; may be repeated; shown, not stored",
    )
    add("--store", action="store_true", help="store partial results in place of the same ones")
    add("--repeat", type=int, default=7, help="samples of each (default 7)")
    add("--side", type=int, default=5, help="chunks along a side of the volume (default 5: 1 GB)")
    add("--minutes", type=float, default=45, help="begin nothing after so long (default 45)")
    add("--file", type=Path, default=results.FILE, help="where results are")
    add("--list", action="store_true", help="show what there is to measure and stop")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    chosen = _chosen(options.only)
    if options.list:
        for item in chosen:
            print(f"{item.group}: {item.name}: {', '.join(getattr(item, 'peer_names', ()))}")
        return 0
    storing = options.store or not (options.quick or options.only)
    # What a GPU did stays where everything else is measured anew.
    known = results.load(options.file)
    before = [run for run in known if options.only or run["machine"].get("gpu")]
    run: dict[str, Any] = {"machine": machine.describe(), "cells": []}
    if any(item.group == "gpu" for item in chosen):
        run["machine"]["gpu"] = machine.gpu()
    missing: list[str] = []
    took: dict[str, float] = {}
    for threads, item in _ordered(chosen, options.quick):
        name, start = f"{item.group}: {item.name}, threads: {threads}", time.perf_counter()
        if start - begin > 60 * options.minutes:
            missing.append(f"{name} (the time was up)")
            continue
        found, died = _measured(item, threads, options)
        run["cells"] += found
        missing += [f"{name} (the process died)"] if died else []
        took[item.group] = took.get(item.group, 0.0) + time.perf_counter() - start
        # What is there is kept, should the next take the machine with it.
        if storing and run["cells"]:
            results.save(options.file, results.merged(before, run))
    print("\n" + report.page([run]))
    each = ", ".join(f"{group} {seconds:.0f} s" for group, seconds in took.items())
    print(f"Measured in {time.perf_counter() - begin:.0f} s: {each}.")
    if storing and run["cells"]:
        print(f"Stored in {options.file}.")
        if options.file.resolve() == results.FILE.resolve():
            stored = results.load(options.file)
            report.write(stored)
            print("The tables of the pages are written from it.")
            if importlib.util.find_spec("matplotlib"):
                plots.write(stored)
    if missing:
        print("Not measured: " + "; ".join(missing), file=sys.stderr)
    dead = any("died" in one for one in missing)
    return 1 if dead or any(cell.get("refused") for cell in run["cells"]) else 0


def _chosen(only: list[str] | None) -> list[Any]:
    if not only:
        return list(groups.ITEMS)
    texts = [text.lower() for text in only]
    items = groups.GPU if "gpu" in texts else groups.ITEMS
    found = [i for i in items if i.group in texts or any(t in i.name.lower() for t in texts)]
    if not found:
        names = "; ".join(item.name for item in items)
        raise SystemExit(f"Nothing has {' or '.join(only)} in its name. There are: {names}")
    return found


def _ordered(items: list[Any], quick: bool) -> list[tuple[int, Any]]:
    """What is done by which number of threads: all of one before the next."""
    cores = machine.cores()
    counts = [1] if quick or cores < 2 else [1, 2]
    threaded = [item for item in items if getattr(item, "threaded", False)]
    others = [(cores, item) for item in items if item not in threaded]
    return [*((count, item) for count in counts for item in threaded), *others]


def _measured(item: Any, threads: int, options: argparse.Namespace) -> tuple[list[Any], bool]:
    """The cells that a process of its own finds, and whether it died."""
    gpu = item.group == "gpu"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cells.jsonl"
        order = {
            "gpu": gpu,
            "number": (groups.GPU if gpu else groups.ITEMS).index(item),
            "threads": threads,
            "quick": options.quick,
            "repeat": options.repeat,
            "side": 2 if options.quick else options.side,
            "file": str(file),
        }
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(order)],
            env=worker.environment(threads) | ({} if gpu else {"JAX_PLATFORMS": "cpu"}),
            cwd=report.ROOT,
        )
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines], ended.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
