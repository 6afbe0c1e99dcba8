"""The stored results: runs, each with its machine and its date, and what is still valid of each.

A run that measured some problems only takes the place of these in the runs before it:

    [2026-11-20: mean, heat]  +  2026-11-21: heat   ->   [2026-11-20: mean], [2026-11-21: heat]

Ratios are of one run always, as a cell is measured as a whole; a row that the newest run has not
measured says of which day and commit it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .groups import ORDER

Cell = dict[str, Any]
Run = dict[str, Any]

FILE = Path(__file__).parent / "results.json"


def load(file: Path) -> list[Run]:
    """The runs of a file, the oldest first; none where it is not there."""
    return list(json.loads(file.read_text())["runs"]) if file.exists() else []


def save(file: Path, runs: list[Run]) -> None:
    """Write runs, a cell in a line."""
    parts = []
    for run in runs:
        cells = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in run["cells"])
        machine = json.dumps(run["machine"], ensure_ascii=False)
        parts.append(f'{{"machine": {machine},\n"cells": [\n{cells}\n]}}')
    file.write_text('{"runs": [\n' + ",\n".join(parts) + "\n]}\n")


def merged(before: list[Run], run: Run) -> list[Run]:
    """All runs, without the cells that the last one measured anew, nor those left empty."""
    anew = {_key(cell) for cell in run["cells"]}
    kept = [
        old | {"cells": [cell for cell in old["cells"] if _key(cell) not in anew]}
        for old in before
    ]
    return [*(old for old in kept if old["cells"]), run]


def cells(runs: list[Run], *groups: str) -> list[Cell]:
    """The cells of some groups in the order of the tables, without problems that are no more.

    `since` tells whose they are, where they are not of the newest run on such a machine.
    """
    newest = {bool(run["machine"].get("gpu")): run for run in runs}
    known = []
    for run in runs:
        last = run is newest[bool(run["machine"].get("gpu"))]
        since = {"since": "" if last else f" ({day(run)})"}
        known += [cell | since for cell in run["cells"] if cell["group"] in groups]
    return sorted((c for c in known if (c["group"], c["problem"]) in ORDER), key=place)


def day(run: Run) -> str:
    """The day of a run and, if it is known, the commit."""
    known = run["machine"]
    return ", ".join(filter(None, (known["date"][:10], known.get("commit"))))


def place(cell: Cell) -> tuple[int, list[int]]:
    """Where a cell stands in the tables, whenever it was measured."""
    row = ORDER.index((cell["group"], cell["problem"]))
    types = ("int8", "uint8", "uint16", "float32", "float64", "")
    return row, [*cell.get("shape", ()), types.index(cell.get("dtype", ""))]


def _key(cell: Cell) -> tuple[Any, ...]:
    named = (cell.get(name, "") for name in ("group", "problem", "dtype", "threads"))
    return (*named, tuple(cell.get("shape", ())))
