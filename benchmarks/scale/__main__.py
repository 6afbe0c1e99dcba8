"""`python -m benchmarks.scale`: measure, and say what meets its aim.

A measure is a module of this folder with a function `measure(quick)`, which checks first that
results are equal and then gives rows.  Each has a process of its own: what one of them keeps in
memory is no figure of another.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
import time

import benchmarks.scale as group

from ..report import ROOT


def main(arguments: list[str] | None = None) -> int:
    """Run the measures; the exit code is 1 where one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="measures with NAME in theirs"
    )
    parser.add_argument("--quick", action="store_true", help="small arrays: a rehearsal")
    parser.add_argument("--list", action="store_true", help="show the measures and stop")
    parser.add_argument("--here", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        for row in _module(options.here).measure(quick=options.quick):
            print(row, flush=True)
        return 0
    names = [name for name in _names() if not options.only or any(t in name for t in options.only)]
    if not names:
        raise SystemExit(f"No measure has such a name. There are: {', '.join(_names())}")
    failed = []
    for name in names:
        print(f"-- {name}: {(_module(name).__doc__ or '').splitlines()[0]}", flush=True)
        if options.list:
            continue
        begin = time.perf_counter()
        quick = ["--quick"] if options.quick else []
        command = [sys.executable, "-m", "benchmarks.scale", "--here", name, *quick]
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(name)
        print(f"   {time.perf_counter() - begin:.0f} s", flush=True)
    if failed:
        print(f"These failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _names() -> list[str]:
    names = [found.name for found in pkgutil.iter_modules(group.__path__)]
    return sorted(n for n in names if n != "__main__" and hasattr(_module(n), "measure"))


def _module(name: str):
    return importlib.import_module(f"{group.__name__}.{name}")


if __name__ == "__main__":
    sys.exit(main())
