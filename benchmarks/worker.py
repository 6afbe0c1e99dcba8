"""One process that measures one thing; `__main__` starts it.

The number of threads is fixed before any library is loaded, as several of the peers read it
only then, and JAX can be held to one core by no other means than the system's.  In a process that
has run for long, an array that was made once may lie in small pages and the next in huge ones,
which made half of some figures luck.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

# Seconds that a process may take.
_LIMIT = 400


def environment(threads: int) -> dict[str, str]:
    """What the peers read when they are loaded; and `malloc` lets go as in workers of Dask."""
    names = ("HL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    more = {"MALLOC_TRIM_THRESHOLD_": "65536", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return os.environ | dict.fromkeys(names, str(threads)) | more


def main(order: dict[str, Any]) -> None:
    """Measure what is ordered, and append each cell to a file of JSON lines."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: order["threads"]])
    # Whatever hangs, in whatever library, says where and costs its own cells only.
    faulthandler.dump_traceback_later(_LIMIT, exit=True)
    # Only now: these load NumPy.
    from . import groups, report

    item = (groups.GPU if order["gpu"] else groups.ITEMS)[order["number"]]
    with Path(order["file"]).open("a") as file:
        for cell in item.measure(order):
            file.write(json.dumps(cell) + "\n")
            file.flush()
            print(report.line(cell), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
