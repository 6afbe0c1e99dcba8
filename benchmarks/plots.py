"""The picture of the first problem, as SVG for the pages and as PNG for whatever shows no SVG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from . import results
from .peers.ours import NAME as OURS
from .report import OWN, ROOT, SHOWN, threads_text
from .results import Run

FOLDER = ROOT / "docs" / "images"

# Grey text and lines are read on white and on black; the colours are told apart by everybody
# (Okabe and Ito, 2008).
_GREY = "#808080"
_MINE = ("#e69f00", "#b87f00")
_OTHERS = ("#56b4e9", "#0072b2")


def write(stored: list[Run], folder: Path = FOLDER) -> list[Path]:
    """Draw it; gives the files."""
    import matplotlib

    paths = [folder / f"benchmarks{suffix}" for suffix in (".svg", ".png")]
    grey = dict.fromkeys(
        ("axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _GREY
    )
    sides = {"axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "ninepoint"}
    # Of equal results equal files are made.
    with matplotlib.rc_context({**grey, **sides, "axes.facecolor": "none"}):
        figure = recipe(stored)
        for path, more in zip(paths, ({"Date": None}, {"Software": None}), strict=True):
            figure.savefig(path, dpi=120, transparent=True, metadata=more)
    return paths


def recipe(stored: list[Run]) -> Any:
    """Draw how many points a second each peer does, the fastest on top."""
    from matplotlib.figure import Figure

    cells = [cell for cell in results.cells(stored, "calls") if cell["problem"] == SHOWN[0]]
    cells.sort(key=lambda cell: cell["threads"])
    speeds = {
        name: [
            math.prod(cell["shape"]) / cell["times"].get(name, math.inf) / 1e9 for cell in cells
        ]
        for name in dict.fromkeys(name for cell in cells for name in cell["times"])
        if name not in OWN
    }
    names = sorted(speeds, key=lambda name: max(speeds[name]))
    figure = Figure(figsize=(7.2, 0.42 * len(names) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    height = 0.8 / max(1, len(cells))
    for number, cell in enumerate(cells):
        places = [row - 0.4 + height * (len(cells) - number - 0.5) for row in range(len(names))]
        colours = [(_MINE if name == OURS else _OTHERS)[number % 2] for name in names]
        values = [speeds[name][number] for name in names]
        bars = axes.barh(places, values, height * 0.92, color=colours)
        words = [f"{v:.3g}  ({threads_text(cell['threads'])})" if v else "" for v in values]
        axes.bar_label(bars, words, padding=4, fontsize=7, color=_GREY)
    axes.set_yticks(range(len(names)), names)
    axes.margins(x=0.14)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=_GREY, alpha=0.25, linewidth=0.6)
    since = "".join({cell["since"] for cell in cells})
    words = "Gpoint/s of the 3x3 mean of int8, 64 frames of 1000x1000"
    axes.set_xlabel(f"{words}{since}: more is faster")
    return figure
