"""Pictures of the stored results, as SVG for the pages and as PNG for whatever shows no SVG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from . import results
from .peers.ours import NAME as OURS
from .report import (
    BORDERS,
    GROUPS,
    OWN,
    PEERS_PLOT,
    RECIPE,
    RECIPE_PLOT,
    ROOT,
    ratios,
    size_text,
    threads_text,
)
from .results import Cell, Run

FOLDER = ROOT / "docs" / "images"

# Grey text and lines are read on white and on black; the colours are told apart by everybody
# (Okabe and Ito, 2008).
_GREY = "#808080"
_MINE = ("#e69f00", "#b87f00")
_OTHERS = ("#56b4e9", "#0072b2")
_MARKS = "osD^vP*Xh<>pd"


def write(stored: list[Run], folder: Path = FOLDER) -> list[Path]:
    """Draw all pictures; gives their files."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    # Of equal results equal files are made.
    with matplotlib.rc_context({"svg.hashsalt": "ninepoint"}):
        for name, figure in ((RECIPE_PLOT, recipe(stored)), (PEERS_PLOT, peers(stored))):
            for suffix, more in ((".svg", {"Date": None}), (".png", {"Software": None})):
                path = folder / (name + suffix)
                figure.savefig(path, dpi=120, transparent=True, metadata=more)
                written.append(path)
    return written


def recipe(stored: list[Run]) -> Any:
    """Draw how many points a second each peer does of the first problem, the fastest on top."""
    cells = [cell for cell in results.cells(stored, "calls") if cell["problem"] == RECIPE]
    cells.sort(key=lambda cell: cell["threads"])
    speeds = {
        name: [
            math.prod(cell["shape"]) / cell["times"][name] / 1e9 if name in cell["times"] else 0.0
            for cell in cells
        ]
        for name in dict.fromkeys(name for cell in cells for name in cell["times"])
        if name not in OWN
    }
    names = sorted(speeds, key=lambda name: max(speeds[name]))
    figure, axes = _figure(7.2, 0.42 * len(names) + 1.2)
    height = 0.8 / max(1, len(cells))
    for number, cell in enumerate(cells):
        places = [row - 0.4 + height * (len(cells) - number - 0.5) for row in range(len(names))]
        values = [speeds[name][number] for name in names]
        colours = [(_MINE if name == OURS else _OTHERS)[number % 2] for name in names]
        axes.barh(places, values, height * 0.92, color=colours)
        for place, value in zip(places, values, strict=True):
            if value:
                axes.annotate(
                    f"{value:.3g}  ({threads_text(cell['threads'])})",
                    (value, place), (4, 0), textcoords="offset points",
                    va="center", fontsize=7, color=_GREY,
                )  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == OURS else "normal")
    axes.margins(x=0.14)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("Gpoint/s of the 3x3 mean of int8, 64 frames of 1000x1000: more is faster")
    return figure


def peers(stored: list[Run]) -> Any:
    """Draw the ratios of one thread, on the first type and the largest array of each problem."""
    chosen: dict[str, Cell] = {}
    for cell in results.cells(stored, *GROUPS):
        if cell["threads"] == 1 and cell["problem"] != BORDERS:
            before = chosen.get(cell["problem"])
            if before is None or math.prod(cell["shape"]) > math.prod(before["shape"]):
                chosen[cell["problem"]] = cell
    known = {name: None for cell in chosen.values() for name in list(cell["times"])[1:]}
    names = [name for name in known if name not in OWN]
    figure, axes = _figure(9, 0.42 * len(chosen) + 1.6)
    for number, name in enumerate(names):
        found = enumerate(chosen.values())
        points = [(ratios(cell)[name], row) for row, cell in found if name in cell["times"]]
        mark = _MARKS[number % len(_MARKS)]
        axes.scatter(*zip(*points, strict=True), marker=mark, s=36, label=name, zorder=3)
    axes.axvline(1, color=_GREY, linewidth=1.5)
    labels = [f"{c['problem']}\n{c['dtype']}, {size_text(c['shape'])}" for c in chosen.values()]
    axes.set_yticks(range(len(chosen)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("times as long as ninepoint, one thread (right of the line: slower)")
    figure.legend(loc="outside upper center", ncols=6, fontsize=8, labelcolor=_GREY, framealpha=0)
    return figure


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of so many inches, its surroundings in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.tick_params(which="both", colors=_GREY)
    axes.xaxis.label.set_color(_GREY)
    axes.patch.set_alpha(0)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_color(_GREY)
        spine.set_visible(side in ("left", "bottom"))
    axes.grid(color=_GREY, alpha=0.25, linewidth=0.6)
    return figure, axes
