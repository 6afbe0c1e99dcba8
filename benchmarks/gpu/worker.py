"""One process that measures one row; `__main__` starts it.

Whatever breaks on a GPU breaks it for the whole process, so each row has its own.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from pathlib import Path
from typing import Any

# A sample takes so long [s]: thousands of times what it takes to wait for a GPU.
SAMPLE = 0.02


def main(order: dict[str, Any]) -> None:
    """Do what is ordered, and append it to a file of JSON lines; the first word says what."""
    faulthandler.dump_traceback_later(order["limit"], exit=True)
    with Path(order["file"]).open("a") as file:
        file.write(json.dumps(_done(order)) + "\n")


def _done(order: dict[str, Any]) -> dict[str, Any]:
    # Only now: these load NumPy and CuPy.
    from .. import measure
    from ..problem import Case
    from . import device, host, peers, report
    from .problems import PROBLEMS

    if order["what"] == "device":
        return {"machine": device.describe()}
    if order["what"] == "host":
        quick = order["quick"]
        calls = host.call_seconds(1, 3) if quick else host.call_seconds()
        return {"host": {"calls": calls, "first": host.first_seconds(1 if quick else 3)}}
    import cupy

    problem = next(one for one in PROBLEMS if _key(one) == order["problem"])
    shape = problem.tiny if order["quick"] else problem.shapes[0]
    cell = measure.solve(
        problem,
        Case(problem.dtypes[0], shape),
        1,
        order["repeat"],
        beside=peers.copying,
        sample=1e-4 if order["quick"] else SAMPLE,
        wait=cupy.cuda.runtime.deviceSynchronize,
    )
    print(report.line(cell), flush=True)
    return {"cell": cell}


def _key(problem: Any) -> list[str]:
    return [problem.name, problem.dtypes[0]]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
