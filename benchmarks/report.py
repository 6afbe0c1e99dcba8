"""What is written of the results: lines while they come, the pages' tables, and the plot."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .peers.ours import NAME as OURS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "images" / "benchmarks.png"

_MARKS = ("<!-- bench:start -->", "<!-- bench:end -->")
_RECIPE = "recipe: mean 3x3, 64 frames"
_BORDERS = "border rules"
_COLUMNS = (
    "the recipe", "Numba by hand", "SciPy", "OpenCV", "Halide", "scikit-image", "JAX",
    "pystencils", "Devito", "NumPy", "njit of numba.stencil",
)  # fmt: skip
# The problems that OpenCV and SciPy have functions for: DESIGN calls them the filter list.
_FILTERS = (
    "mean 3x3", "gaussian 5x5, sigma 1", "sobel", "laplace", "median 3x3", "median 5x5",
    "minimum 3x3 (erode)", "maximum 3x3 (dilate)", "minimum 31x31 (erode)",
    "maximum 31x31 (dilate)", "mean 31x31", "local std 7x7",
)  # fmt: skip

Cell = dict[str, Any]


def _ours(cell: Cell) -> float:
    """Our seconds; the first that was timed is ours."""
    return float(next(iter(cell["times"].values()))["median"])


def ratios(cell: Cell) -> dict[str, float]:
    """How many times as long as we each peer takes."""
    names = list(cell["times"])[1:]
    return {name: cell["times"][name]["median"] / _ours(cell) for name in names}


def _size(shape: list[int]) -> str:
    return "x".join(str(length) for length in shape)


def _points(cell: Cell) -> str:
    speed = math.prod(cell["shape"]) / _ours(cell)
    return f"{speed / 1e9:.3g}"


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _time(seconds: float) -> str:
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    unit = next((unit for unit, scale in units.items() if seconds >= scale), "µs")
    return f"{seconds / units[unit]:.3g} {unit}"


def line(cell: Cell) -> str:
    """One cell, for the terminal."""
    parts = [f"{name} {_ratio(ratio)}x" for name, ratio in ratios(cell).items()]
    parts += [f"{name} {reason}" for name, reason in cell["refused"].items()]
    where = f"{cell['dtype']} {_size(cell['shape'])}, {_threads(cell['threads'])}"
    speed = f"{_time(_ours(cell))} = {_points(cell)} Gpoint/s"
    return f"{cell['problem']}, {where}: {speed}; " + ", ".join(parts)


def _markdown(rows: list[list[str]]) -> str:
    """A table, the first row its head; figures stand right."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def _machine(results: dict[str, Any]) -> str:
    machine = results["machine"]
    versions = machine["versions"]
    shown = [f"{name} {versions[name]}" for name in sorted(versions) if name != "llvmlite"]
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores ({caches}), {machine['memory_gib']} GiB; "
        f"{machine['system']}; Python {machine['python']}; {', '.join(shown)}. "
        f"{machine['date'][:10]}, load before {machine['load_before']:.1f}."
    )


def recipe_table(results: dict[str, Any]) -> str:
    """The first problem, a row for each peer."""
    cells = {c["threads"]: c for c in results["cells"] if c["problem"] == _RECIPE}
    if not cells:
        return "(not measured)"
    counts = sorted(cells)
    head = ["3x3 mean of int8, 64 frames of 1000x1000"]
    for count in counts:
        head += [f"Gpoint/s, {_threads(count)}", f"{OURS} is faster by"]
    rows = [head]
    for name in dict.fromkeys(name for cell in cells.values() for name in cell["times"]):
        row = [f"**{name}**" if name == OURS else name]
        for count in counts:
            cell = cells[count]
            taken = cell["times"].get(name)
            if taken is None:
                row += ["", ""]
                continue
            speed = math.prod(cell["shape"]) / taken["median"] / 1e9
            row += [f"{speed:.3g}", "" if name == OURS else _ratio(taken["median"] / _ours(cell))]
        rows.append(row)
    row = ["`np.copyto` of as many bytes"]
    speeds = {copy["threads"]: copy["speeds"]["beyond cache"] for copy in results["copy"]}
    for count in counts:
        row += [f"{speeds[count] / 2 / 1e9:.3g}" if count in speeds else "", ""]
    rows.append(row)
    return _markdown(rows)


def big_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and how many times as long each peer takes."""
    names = [name for name in _COLUMNS if any(name in cell["times"] for cell in cells)]
    rows = [["problem", "type", "size", "our time", "Gpoint/s", *names]]
    for cell in cells:
        found = ratios(cell)
        row = [cell["problem"], cell["dtype"], _size(cell["shape"]), _time(_ours(cell))]
        row += [_points(cell), *(_ratio(found[n]) if n in found else "" for n in names)]
        rows.append(row)
    return _markdown(rows)


def summary(cells: list[Cell]) -> str:
    """Over the filter list: the geometric mean of ratios, and the least, for each peer."""
    rows = [["filter list against", "geometric mean", "least", "where"]]
    for name in _COLUMNS:
        found = [
            (ratios(cell)[name], cell)
            for cell in cells
            if cell["problem"] in _FILTERS and name in cell["times"]
        ]
        if not found:
            continue
        middle = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        least, cell = min(found, key=lambda pair: pair[0])
        where = f"{cell['problem']}, {cell['dtype']}, {_size(cell['shape'])}"
        rows.append([name, _ratio(middle), _ratio(least), where])
    return _markdown(rows) if len(rows) > 1 else ""


def _notes(cells: list[Cell]) -> list[str]:
    found = {
        (cell["problem"], name, note)
        for cell in cells
        for name, note in cell["notes"].items()
        if name != "Halide"
    }
    return [f"- {problem}, {name}: {note}" for problem, name, note in sorted(found)]


def _refused(cells: list[Cell]) -> list[str]:
    return [
        f"- {cell['problem']}, {cell['dtype']}, {_size(cell['shape'])}, {name}: {reason}"
        for cell in cells
        for name, reason in cell["refused"].items()
    ]


def page(results: dict[str, Any]) -> str:
    """The whole page of results, in Markdown."""
    parts = [
        "# Benchmarks",
        "This page is written by `python -m benchmarks readme` from `benchmarks/results/`; "
        "`make bench` measures anew.",
        "Results are compared first, and only equal ones are timed: integers to the last bit "
        "but for the differences listed below, floats within a stated bound, the border where "
        "rules are the same. Then all take turns (A B C A B C), and the middle of each one's "
        "samples is taken. The columns with a peer's name say **how many times as long as "
        "ninepoint it takes**: above 1, ninepoint is faster. What can be made before (output "
        "arrays, compiled code, device arrays) is made before. For Halide the fastest of its "
        "schedules by hand and Mullapudi2016 is taken, and its work leaves out the border.",
        _machine(results),
    ]
    for count in sorted({cell["threads"] for cell in results["cells"]}):
        cells = [c for c in results["cells"] if c["threads"] == count]
        filters = [cell for cell in cells if cell["problem"] != _BORDERS]
        parts += [f"## {_threads(count).capitalize()}", summary(filters)]
        parts += [big_table(filters) if filters else ""]
        parts += [_border_table([cell for cell in cells if cell["problem"] == _BORDERS])]
    parts += ["## Copying", _copy_table(results["copy"])]
    if results.get("start"):
        parts += ["## From nothing to the first result", _start_table(results["start"])]
    notes, refused = _notes(results["cells"]), _refused(results["cells"])
    if notes:
        parts += ["## Differences that are known", "\n".join(notes)]
    if refused:
        parts += ["## Not timed, because results differ", "\n".join(refused)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _border_table(cells: list[Cell]) -> str:
    if not cells:
        return ""
    names = list(ratios(cells[0]))
    rows = [["mean 3x3 by border rule, in times of `fill`", "size", "`fill`", *names]]
    for cell in cells:
        row = [cell["dtype"], _size(cell["shape"]), _time(_ours(cell))]
        rows.append([*row, *(f"{ratio:.2f}" for ratio in ratios(cell).values())])
    return _markdown(rows)


def _copy_table(copies: list[dict[str, Any]]) -> str:
    rows = [["`np.copyto`, GB/s, counted once in and once out", "in cache", "beyond cache"]]
    for copy in copies:
        speeds = copy["speeds"]
        values = [f"{speeds[name] / 1e9:.3g}" for name in ("in cache", "beyond cache")]
        rows.append([_threads(copy["threads"]), *values])
    return _markdown(rows)


def _start_table(start: dict[str, dict[str, float]]) -> str:
    rows = [["a new process, 100x100 float64", "cold [s]", "warm [s]"]]
    rows += [[name, f"{t['cold']:.2f}", f"{t['warm']:.2f}"] for name, t in start.items()]
    return _markdown(rows)


def write_readme(results: dict[str, Any]) -> None:
    """Put the first table between the README's marks, and write the page of all."""
    text = README.read_text()
    before, mark, rest = text.partition(_MARKS[0])
    _, end, after = rest.partition(_MARKS[1])
    if not mark or not end:
        raise SystemExit(f"README.md lacks the lines {_MARKS[0]} and {_MARKS[1]}.")
    machine = results["machine"]
    under = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['date'][:10]}. "
        "All other problems, types and sizes: [benchmarks](docs/benchmarks.md)."
    )
    table = f"\n{recipe_table(results)}\n\n{under}\n"
    README.write_text(before + mark + table + end + after)
    PAGE.write_text(page(results))


def write_plot(results: dict[str, Any], path: Path = PLOT) -> None:
    """Draw the ratios of one thread, on the first type and the largest array of each problem."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SystemExit("The plot needs matplotlib: pip install matplotlib") from error
    chosen: dict[str, Cell] = {}
    for cell in results["cells"]:
        if cell["threads"] != 1 or cell["problem"] == _BORDERS:
            continue
        before = chosen.get(cell["problem"])
        if before is None or math.prod(cell["shape"]) > math.prod(before["shape"]):
            chosen[cell["problem"]] = cell
    names = [n for n in _COLUMNS if any(n in cell["times"] for cell in chosen.values())]
    figure = Figure(figsize=(9, 0.45 * len(chosen) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    marks = "osD^vP*Xh<>"
    for name, mark in zip(names, marks, strict=False):
        points = [
            (ratios(cell)[name], row)
            for row, cell in enumerate(chosen.values())
            if name in cell["times"]
        ]
        axes.scatter(*zip(*points, strict=True), marker=mark, s=36, label=name, zorder=3)
    axes.axvline(1, color="black", linewidth=1.5)
    labels = [f"{c['problem']}\n{c['dtype']}, {_size(c['shape'])}" for c in chosen.values()]
    axes.set_yticks(range(len(chosen)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.grid(axis="both", color="0.9")
    axes.set_xlabel("times as long as ninepoint, one thread (right of the line: slower)")
    figure.legend(loc="outside upper center", ncols=6, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
