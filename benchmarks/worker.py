"""One process that measures with one number of threads; `__main__` starts it.

The number of threads is fixed before any library is loaded, as several of the peers read it
only then, and JAX can be held to one core by no other means than the system's.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def environment(threads: int) -> dict[str, str]:
    """What the peers read when they are loaded."""
    names = ("HL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return os.environ | dict.fromkeys(names, str(threads)) | {"JAX_PLATFORMS": "cpu"}


def main(order: dict[str, Any]) -> None:
    """Solve what is ordered and append to a file of JSON lines; the first word says what."""
    threads = order["threads"]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    # Only now: these load NumPy.
    from . import machine, measure, report
    from .problem import Case
    from .problems import PROBLEMS

    with Path(order["file"]).open("a") as file:

        def write(kind: str, content: Any) -> None:
            file.write(json.dumps({kind: content}) + "\n")
            file.flush()

        if order["copy"]:
            write("copy", {"threads": threads, "speeds": machine.copy_speed(threads, 15)})
        for name, dtype, shape in order["cells"]:
            if time.time() > order["until"]:
                write("late", [name, dtype, shape])
                continue
            problem = next(problem for problem in PROBLEMS if problem.name == name)
            write("begun", [name, dtype, shape])
            begin = time.perf_counter()
            # Whatever hangs, in whatever library, says where and costs its own cell only.
            faulthandler.dump_traceback_later(order["limit"], exit=True)
            cell = measure.solve(problem, Case(dtype, tuple(shape)), threads, order["repeat"])
            faulthandler.cancel_dump_traceback_later()
            cell["seconds"] = round(time.perf_counter() - begin, 2)
            write("cell", cell)
            print(report.line(cell), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
