"""The stored results: runs, each with its machine and its date, and what is still valid of each.

A run that measured some problems only takes the place of these in the runs before it:

    [2026-11-20: mean, heat]  +  2026-11-21: heat   ->   [2026-11-20: mean], [2026-11-21: heat]

Ratios are of one run always, as a cell is measured as a whole; who reads figures of several
runs side by side is told which is whose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .problems import PROBLEMS

Cell = dict[str, Any]
Run = dict[str, Any]

_NAMES = [problem.name for problem in PROBLEMS]


def load(file: Path) -> list[Run]:
    """The runs of a file, the oldest first; none where it is not there."""
    return list(json.loads(file.read_text())["runs"]) if file.exists() else []


def save(file: Path, runs: list[Run]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


def merged(before: list[Run], run: Run) -> list[Run]:
    """All runs, without the cells that the last one measured anew, nor those left empty."""
    anew = {_key(cell) for cell in run["cells"]}
    kept = [
        old | {"cells": [cell for cell in old["cells"] if _key(cell) not in anew]}
        for old in before
    ]
    return [*(old for old in kept if old["cells"] or old.get("start")), run]


def cells(runs: list[Run]) -> list[Cell]:
    """The cells of all runs, in the order of the tables; a problem that is no more is left out."""
    known = (cell for run in runs for cell in run["cells"] if cell["problem"] in _NAMES)
    return sorted(known, key=place)


def place(cell: Cell) -> tuple[int, list[int], int]:
    """Where a cell stands in the tables, whenever it was measured."""
    row = _NAMES.index(cell["problem"])
    return row, cell["shape"], PROBLEMS[row].dtypes.index(cell["dtype"])


def _key(cell: Cell) -> tuple[str, str, tuple[int, ...], int]:
    return cell["problem"], cell["dtype"], tuple(cell["shape"]), cell["threads"]
