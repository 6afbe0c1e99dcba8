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

_PICTURED = "Points a second of ninepoint and its peers, one and two threads"

RECIPE = "recipe: mean 3x3, 64 frames"
_COPY = "copying, by `np.copyto`"
OWN = (
    WITHOUT, SINGLE, SEPARATE, "one call", "colours first", "mean", "median", "walls that stay",
    "walls that are kept", "without a look", COPY, CPU,
)  # fmt: skip

# The tables of problems, each with what has to be said of it.
GROUPS = {
    "calls": ("Single calls", ""),
    "windows": (
        "Windows that leave something out",
        "NaN, points outside a shape, every second point. Colours that lie last are beside the "
        "same with colours first, and what knows NaN beside what does not; SciPy's "
        "`generic_filter` calls a function of NumPy for each point.",
    ),
    "pipelines": (
        "Pipelines",
        "Several filters, each of which reads what another made, in one call; "
        f"“{SEPARATE}” is ninepoint with a call for each. Halide's are scheduled by "
        "hand as its own examples of them are, and in other ways, and by Mullapudi2016; the "
        "fastest is taken.",
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
        "What is done to each element of two arrays, or to core arrays of a stack. Our gufuncs "
        "return their results and declare no types, Numba's write into arrays that are there.",
    ),
}


def _ours(cell: Cell) -> float:
    """Our seconds; the first that was timed is ours."""
    return float(next(iter(cell["times"].values())))


def ratios(cell: Cell) -> dict[str, float]:
    """How many times as long as we each peer takes."""
    return {name: cell["times"][name] / _ours(cell) for name in list(cell["times"])[1:]}


def size_text(shape: list[int]) -> str:
    return "x".join(str(length) for length in shape)


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
        known = {"speed": cell.get("speed")} if "speed" in cell else cell["times"]
        return f"{cell['problem']}: " + ", ".join(f"{k} {v:.3g}" for k, v in known.items())
    parts = [f"{name} {_ratio(ratio)}x" for name, ratio in ratios(cell).items()]
    parts += [f"{name} {reason}" for name, reason in cell["refused"].items()]
    where = f"{cell['dtype']} {size_text(cell['shape'])}, {threads_text(cell['threads'])}"
    speed = f"{_time(_ours(cell))} = {_points(cell)} Gpoint/s"
    return f"{cell['problem']}, {where}: {speed}; {', '.join(parts)} [{cell['seconds']:g} s]"


def _table(rows: list[list[str]]) -> str:
    """A table, the first row its head; figures stand right."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def _machine(run: Run) -> str:
    machine = run["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    gpu = f"{machine['gpu']}; " if machine.get("gpu") else ""
    return (
        f"{machine['date'][:10]}: {gpu}{machine['cpu']}; {machine['cores']} cores, load before "
        f"{machine['load_before']:.1f}; {machine['system']}; Python {machine['python']}; {versions}."
    )


def recipe_table(stored: list[Run]) -> str:
    """The first problem, a row for each peer."""
    cells = {c["threads"]: c for c in results.cells(stored, "calls") if c["problem"] == RECIPE}
    if not cells:
        return "(not measured)"
    rows = [["3x3 mean of int8, 64 frames of 1000x1000"]]
    for count in cells:
        rows[0] += [f"Gpoint/s, {threads_text(count)}", f"{OURS} is"]
    for name in dict.fromkeys(name for cell in cells.values() for name in cell["times"]):
        row = [f"**{name}**" if name == OURS else name]
        for cell in cells.values():
            seconds = cell["times"].get(name)
            if seconds is None:
                row += ["", ""]
                continue
            compared = "" if name == OURS else _compared(seconds / _ours(cell))
            row += [f"{math.prod(cell['shape']) / seconds / 1e9:.3g}", compared]
        rows.append(row)
    copied = {c["threads"]: c["speed"] for c in results.cells(stored, "start") if "speed" in c}
    if copied:
        row = [_COPY]
        for count in cells:
            row += [f"{copied[count] / 2 / 1e9:.3g}" if count in copied else "", ""]
        rows.append(row)
    return _table(rows)


def big_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and how many times as long each peer takes."""
    found = dict.fromkeys(name for cell in cells for name in list(cell["times"])[1:])
    names = [*(name for name in OWN if name in found), *(n for n in found if n not in OWN)]
    rows = [["problem", "type", "size", "our time", "Gpoint/s", *names]]
    for cell in cells:
        known = ratios(cell)
        row = [cell["problem"], cell["dtype"], size_text(cell["shape"]), _time(_ours(cell))]
        row += [_points(cell), *(_ratio(known[n]) if n in known else "" for n in names)]
        rows.append(row)
    return _table(rows)


def nearest(cell: Cell) -> tuple[str, float] | None:
    """The fastest of the others, and how many times as long as we it takes."""
    others = [(name, ratio) for name, ratio in ratios(cell).items() if name not in OWN]
    return min(others, key=lambda pair: pair[1]) if others else None


def nearest_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and the fastest of the others."""
    rows = [["in one call", "size", "Gpoint/s", "nearest other", f"{OURS} is"]]
    for cell in cells:
        near = nearest(cell)
        if near:
            size = f"{cell['dtype']} {size_text(cell['shape'])}"
            rows.append([cell["problem"], size, _points(cell), near[0], _compared(near[1])])
    return _table(rows)


def _summary(cells: list[Cell]) -> str:
    """The geometric mean of ratios, and the least, for each peer."""
    rows = [["against", "geometric mean", "least", "where"]]
    for name in dict.fromkeys(name for cell in cells for name in list(cell["times"])[1:]):
        found = [(ratios(cell)[name], cell) for cell in cells if name in cell["times"]]
        middle = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        least, cell = min(found, key=lambda pair: pair[0])
        where = f"{cell['problem']}, {cell['dtype']}, {size_text(cell['shape'])}"
        rows.append([name, _ratio(middle), _ratio(least), where])
    return _table(rows)


def page(stored: list[Run]) -> str:
    """The whole page of results, in Markdown."""
    every = results.cells(stored, *GROUPS)
    parts = [
        "# Benchmarks",
        "This page is written by `python -m benchmarks readme` from `benchmarks/results.json`; "
        "`make bench` measures anew.",
        "Results are compared first, and only equal ones are timed: integers to the last bit "
        "but for the differences listed below, floats within a stated bound, the border where "
        "rules are the same. Then all take turns (A B C A B C), and the middle of each one's "
        "samples is taken. The columns with a peer's name say **how many times as long as "
        "ninepoint it takes**: above 1, ninepoint is faster. What can be made before (output "
        "arrays, compiled code, device arrays) is made before; "
        f"“{WITHOUT}” is ninepoint as most calls are written, each of which gives a new array. "
        "For Halide the fastest of its schedules by hand and Mullapudi2016 is taken, and its "
        "work leaves out the border.",
        *(f"- {_machine(run)}" for run in stored if not run["machine"].get("gpu")),
    ]
    for count in sorted({cell["threads"] for cell in every}):
        parts += [f"## {threads_text(count).capitalize()}"]
        cells = [cell for cell in every if cell["threads"] == count]
        for group, (title, words) in GROUPS.items():
            found = [cell for cell in cells if cell["group"] == group]
            if found:
                parts += [f"### {title}, {threads_text(count)}", words]
                parts += [big_table(found), _summary(found)]
    dask = results.cells(stored, "dask")
    if dask:
        rows = [["on Dask, two threads", "figure", "at most"]]
        rows += [
            [c["row"], f"{c['figure']:g} {c['unit']}", f"{c['aim']:g} {c['unit']}"] for c in dask
        ]
        parts += ["## Dask", _table(rows)]
    started = results.cells(stored, "start")
    if started:
        parts += ["## From nothing to the first result, and copying", _start_table(started)]
    notes = sorted(
        {
            f"- {cell['problem']}, {name}: {note}"
            for cell in every
            for name, note in cell["notes"].items()
            if name != "Halide"
        }
    )
    if notes:
        parts += ["## Differences that are known", "\n".join(notes)]
    refused = _refused(every)
    if refused:
        parts += ["## Not timed, because results differ", refused]
    parts += [] if every else [gpu_part(stored)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _refused(cells: list[Cell]) -> str:
    return "\n".join(
        f"- Not timed: {name}, {cell['problem']}, {cell['dtype']}: {reason}"
        for cell in cells
        for name, reason in cell.get("refused", {}).items()
    )


def _start_table(cells: list[Cell]) -> str:
    rows = [["a new process, 100x100 float64", "cold [s]", "warm [s]"]]
    for cell in cells:
        if "times" in cell:
            rows.append([cell["problem"], *(f"{t:.2f}" for t in cell["times"].values())])
    speeds = [
        f"{threads_text(cell['threads'])}: {cell['speed'] / 1e9:.3g} GB/s"
        for cell in cells
        if "speed" in cell
    ]
    copied = f"`np.copyto`, counted once in and once out: {', '.join(speeds)}."
    return _table(rows) + (f"\n\n{copied}" if speeds else "")


def gpu_part(stored: list[Run]) -> str:
    """What stands between the marks of docs/gpu.md."""
    every = results.cells(stored, "gpu")
    machines = [_machine(run) for run in stored if run["machine"].get("gpu")]
    return "\n\n".join([*machines, big_table(every), *filter(None, [_refused(every)])])


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


def readme_part(stored: list[Run]) -> str:
    """What stands between the marks: the first problem, and the steps and pipelines."""
    machines = dict.fromkeys(
        f"{run['machine']['cpu']}; {run['machine']['cores']} cores, {run['machine']['date'][:10]}"
        for run in stored
        if not run["machine"].get("gpu")
    )
    parts = [recipe_table(stored)]
    if _COPY in parts[0]:
        parts.insert(0, f"![{_PICTURED}](docs/images/benchmarks.svg)")
        parts.append(
            "Copying computes nothing: its row says how many bytes a second the machine reads, "
            "and writes elsewhere, at the same time."
        )
    many = results.cells(stored, "steps", "pipelines")
    if many:
        count = max(cell["threads"] for cell in many)
        parts += [
            "Many steps in time, and filters that read each other's results, "
            f"{threads_text(count)}:",
            nearest_table([cell for cell in many if cell["threads"] == count]),
        ]
    others = "All other problems, types and sizes: [benchmarks](docs/benchmarks.md)."
    return "\n\n".join([*parts, f"{'; '.join(machines)}. {others}"]) + "\n"
