"""What is written of the results: lines while they come, and the pages' tables."""

from __future__ import annotations

import math
from pathlib import Path

from . import results
from .peers.cupy import COPY, CPU
from .peers.ours import NAME as OURS
from .peers.ours import SEPARATE, SINGLE, WITHOUT
from .results import Cell, Run

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
GPU_PAGE = ROOT / "docs" / "gpu.md"

# The problems of the README's table.
SHOWN = (
    "recipe: mean 3x3, 64 frames", "Harris corners", "four Gaussian blurs", "heat 2-D, 16 steps",
    "life, 16 steps",
)  # fmt: skip
OWN = (
    WITHOUT, SINGLE, SEPARATE, "one call", "mean", "median",
    "without a look", COPY, CPU,
)  # fmt: skip

_HEAD = f"""# Benchmarks

This page is written by `python -m benchmarks readme` from `benchmarks/results.json`; `make bench` measures anew.

Results are compared first, and only equal ones are timed: integers to the last bit but for the differences listed below, floats within a stated bound, the border where rules are the same. Then all take turns (A B C A B C), and the middle of each one's samples is taken. The columns with a peer's name say **how many times as long as ninepoint it takes**: above 1, ninepoint is faster. What can be made before (output arrays, compiled code, device arrays) is made before; “{WITHOUT}” is ninepoint as most calls are written, each of which gives a new array. For Halide the fastest of its schedules by hand and Mullapudi2016 is taken, and its work leaves out the border."""  # noqa: E501

# The tables of problems, each with what has to be said of it.
GROUPS = {
    "calls": ("Single calls", ""),
    "windows": (
        "Windows that leave something out",
        "NaN, points outside a shape, every second point. What knows NaN is beside what does "
        "not; SciPy's "
        "`generic_filter` calls a function of NumPy for each point.",
    ),
    "pipelines": (
        "Pipelines",
        "Several filters, each of which reads what another made, in one call; "
        f"“{SEPARATE}” is ninepoint with a call for each. Limited diffusion and isoneutral "
        "mixing are of weather and ocean models; JAX and Numba compile their texts for NumPy.",
    ),
    "steps": (
        "Steps in time",
        "A call does all the steps of a state; the speed counts every point at every step. "
        f"“{SINGLE}” is ninepoint with one step in each pass over memory. Devito has its own "
        "loop over time, JAX one under its compiler, pystencils one in Python between two "
        "arrays; what these keep goes on from call to call, after the first was compared.",
    ),
    "functions": (
        "Functions of numbers, and of core arrays",
        "What is done to each element of two or three arrays, or to core arrays of a stack.",
    ),
}


def _ours(cell: Cell) -> float:
    """Our seconds; the first that was timed is ours."""
    return float(next(iter(cell["times"].values())))


def ratios(cell: Cell) -> dict[str, float]:
    """How many times as long as we each peer takes."""
    return {name: cell["times"][name] / _ours(cell) for name in list(cell["times"])[1:]}


def _size(cell: Cell) -> str:
    return "x".join(map(str, cell["shape"]))


def _points(cell: Cell) -> str:
    return f"{cell['steps'] * math.prod(cell['shape']) / _ours(cell) / 1e9:.3g}"


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _compared(ratio: float) -> str:
    """How we stand beside somebody who takes so many times as long, in words."""
    words = "faster" if ratio >= 1 else "slower"
    value = _ratio(max(ratio, 1 / ratio))
    return "as fast" if value == "1.00" else f"{value}x {words}"


def threads_text(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _time(seconds: float) -> str:
    """A time with a unit that suits it."""
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    unit = next((unit for unit, scale in units.items() if seconds >= scale), "µs")
    return f"{seconds / units[unit]:.3g} {unit}"


def line(cell: Cell) -> str:
    """One cell, for the terminal."""
    if "row" in cell:
        met = "" if cell["figure"] <= cell["aim"] else " MISSED"
        return f"{cell['row']}: {cell['figure']:g} {cell['unit']} (at most {cell['aim']:g}){met}"
    if "shape" not in cell:
        return f"{cell['problem']}: {cell['times']}"
    parts = [f"{name} {_ratio(ratio)}x" for name, ratio in ratios(cell).items()]
    parts += [f"{name} {reason}" for name, reason in cell["refused"].items()]
    where = f"{cell['problem']}, {cell['dtype']} {_size(cell)}, {threads_text(cell['threads'])}"
    speed = f"{_time(_ours(cell))} = {_points(cell)} Gpoint/s"
    return f"{where}: {speed}; {', '.join(parts)} [{cell['seconds']:g} s]"


def _table(rows: list[list[str]]) -> str:
    """A table, the first row its head; figures stand right."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def _machine(run: Run) -> str:
    known = run["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in known["versions"].items())
    parts = [known.get("gpu"), known["cpu"], f"{known['cores']} cores", known["system"]]
    parts += [f"load before {known['load_before']:.1f}", f"Python {known['python']}", versions]
    return f"{results.day(run)}: {'; '.join(filter(None, parts))}."


def big_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and how many times as long each peer takes."""
    found = dict.fromkeys(name for cell in cells for name in list(cell["times"])[1:])
    names = sorted(found, key=lambda name: name not in OWN)
    rows = [["problem", "type", "size", "our time", "Gpoint/s", *names]]
    for cell in cells:
        known = ratios(cell)
        name = cell["problem"] + cell["since"]
        row = [name, cell["dtype"], _size(cell), _time(_ours(cell)), _points(cell)]
        rows.append([*row, *(_ratio(known[n]) if n in known else "" for n in names)])
    return _table(rows)


def nearest_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and the fastest of the others."""
    rows = [["in one call", "size", "Gpoint/s", "nearest other", f"{OURS} is"]]
    for cell in cells:
        others = {name: ratio for name, ratio in ratios(cell).items() if name not in OWN}
        if others:
            near = min(others, key=lambda name: others[name])
            size = f"{cell['dtype']} {_size(cell)}"
            row = [cell["problem"] + cell["since"], size, _points(cell), near]
            rows.append([*row, _compared(others[near])])
    return _table(rows)


def _summary(cells: list[Cell]) -> str:
    """The geometric mean of ratios, and the least, for each peer."""
    rows = [["against", "geometric mean", "least", "where"]]
    for name in dict.fromkeys(name for cell in cells for name in list(cell["times"])[1:]):
        found = [(ratios(cell)[name], cell) for cell in cells if name in cell["times"]]
        middle = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        least, cell = min(found, key=lambda pair: pair[0])
        where = f"{cell['problem']}, {cell['dtype']}, {_size(cell)}"
        rows.append([name, _ratio(middle), _ratio(least), where])
    return _table(rows)


def page(stored: list[Run]) -> str:
    """The whole page of results, in Markdown."""
    every = results.cells(stored, *GROUPS)
    machines = [f"- {_machine(run)}" for run in stored if not run["machine"].get("gpu")]
    parts = [_HEAD, "\n".join(machines)]
    for count in sorted({cell["threads"] for cell in every}):
        parts += [f"## {threads_text(count).capitalize()}"]
        for group, (title, words) in GROUPS.items():
            found = [c for c in every if c["group"] == group and c["threads"] == count]
            if found:
                parts += [f"### {title}, {threads_text(count)}", words]
                parts += [big_table(found), _summary(found)]
    scale, started = results.cells(stored, "scale"), results.cells(stored, "start")
    if scale:
        rows = [["Dask, files and workers", "figure", "at most"]]
        for cell in scale:
            figures = (f"{cell[n]:g} {cell['unit']}" for n in ("figure", "aim"))
            rows.append([cell["row"] + cell["since"], *figures])
        parts += ["## Dask, and what is larger than memory", _table(rows)]
    if started:
        rows = [["a new process, 100x100 float64", "cold [s]", "warm [s]"]]
        for cell in started:
            if "times" in cell:
                name = cell["problem"] + cell["since"]
                rows.append([name, *(f"{t:.2f}" for t in cell["times"].values())])
        parts += ["## From nothing to the first result", _table(rows)]
    notes = {
        f"- {cell['problem']}, {name}: {note}"
        for cell in every
        for name, note in cell["notes"].items()
        if name != "Halide"
    }
    parts += ["## Differences that are known", "\n".join(sorted(notes))] if notes else []
    parts += [_refused(every), "" if every else gpu_part(stored)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _refused(cells: list[Cell]) -> str:
    return "\n".join(
        f"- Not timed: {name}, {cell['problem']}, {cell['dtype']}: {reason}"
        for cell in cells
        for name, reason in cell["refused"].items()
    )


def gpu_part(stored: list[Run]) -> str:
    """What stands between the marks of docs/gpu.md."""
    every = results.cells(stored, "gpu")
    machines = [_machine(run) for run in stored if run["machine"].get("gpu")]
    tables = [big_table(every), _refused(every)] if every else []
    return "\n\n".join(filter(None, [*machines, *tables]))


def readme_part(stored: list[Run]) -> str:
    """What stands between the marks: some problems, each beside the fastest of the others."""
    cells = {(c["problem"], c["threads"]): c for c in results.cells(stored, *GROUPS)}
    count = max((threads for _, threads in cells), default=1)
    found = [cells[name, count] for name in SHOWN if (name, count) in cells]
    parts = [
        "![Points a second of ninepoint and its peers, one and two threads]"
        "(docs/images/benchmarks.svg)",
        nearest_table(found),
        f"With {threads_text(count)}. All problems, types, sizes and machines: "
        "[benchmarks](docs/benchmarks.md).",
    ]
    return "\n\n".join(parts) + "\n"


def write(stored: list[Run]) -> None:
    """Write the page of all, and put tables between the marks of the README and docs/gpu.md."""
    if results.cells(stored, *GROUPS):
        _between(README, "bench", readme_part(stored))
        PAGE.write_text(page(stored))
    if results.cells(stored, "gpu"):
        _between(GPU_PAGE, "gpu", f"\n{gpu_part(stored)}\n\n")


def _between(path: Path, name: str, part: str) -> None:
    marks = f"<!-- {name}:start -->\n", f"<!-- {name}:end -->"
    before, mark, rest = path.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not mark or not end:
        raise SystemExit(f"{path} lacks the lines {marks[0]} and {marks[1]}.")
    path.write_text(before + mark + part + end + after)
