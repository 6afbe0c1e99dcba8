"""What is written of the results: lines while they come, and the pages' tables."""

from __future__ import annotations

import math
from pathlib import Path

from . import runs
from .peers.ours import NAME as OURS
from .peers.ours import SEPARATE, SINGLE, WITHOUT
from .runs import Cell, Run

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"

# The pictures, which `plots` draws beside those of the pages.
RECIPE_PLOT, PEERS_PLOT = "benchmarks", "benchmarks-peers"
_PICTURED = "Points a second of ninepoint and its peers, one and two threads"

_MARKS = ("<!-- bench:start -->", "<!-- bench:end -->")
RECIPE = "recipe: mean 3x3, 64 frames"
BORDERS = "border rules"
_COPY = "copying, by `np.copyto`"
OWN = (WITHOUT, SINGLE, SEPARATE)
COLUMNS = (
    *OWN, "the recipe", "Numba by hand", "SciPy", "OpenCV", "Halide", "scikit-image", "JAX",
    "pystencils", "Devito", "numba.vectorize", "numexpr", "NumPy", "njit of numba.stencil",
    "numba.guvectorize", "numba.guvectorize, types as they come",
)  # fmt: skip
# The problems that OpenCV and SciPy have functions for: DESIGN calls them the filter list.
_FILTERS = (
    "mean 3x3", "gaussian 5x5, sigma 1", "sobel", "laplace", "median 3x3", "median 5x5",
    "minimum 3x3 (erode)", "maximum 3x3 (dilate)", "minimum 31x31 (erode)",
    "maximum 31x31 (dilate)", "mean 31x31", "local std 7x7",
)  # fmt: skip

# The other tables, each with what has to be said of it.
GROUPS = {
    "elements": (
        "Functions of numbers",
        "What is done to each element of two arrays. numba.vectorize is told the types, and knows "
        "one thread; numexpr compiles a text when it is first called.",
    ),
    "time": (
        "Steps in time",
        "A call does all the steps of a state; the speed counts every point at every step. "
        f"“{SINGLE}” is ninepoint with one step in each pass over memory. Devito has its own "
        "loop over time, JAX one under its compiler, pystencils one in Python between two "
        "arrays; what these keep goes on from call to call, after the first was compared.",
    ),
    "pipelines": (
        "Pipelines",
        "Several filters, each of which reads what another made, in one call; "
        f"“{SEPARATE}” is ninepoint with a call for each. Halide's are scheduled by "
        "hand as its own examples of them are, and in other ways, and by Mullapudi2016; the "
        "fastest is taken.",
    ),
    "windows": (
        "Windows that leave something out",
        "NaN, points outside a shape, every second point. Colours that lie last are beside the "
        "same with colours first, and what knows NaN beside what does not; SciPy's "
        "`generic_filter` calls a function of NumPy for each point.",
    ),
    "solvers": (
        "NPBench's stencils",
        "Written from their formulas, as users of each library would; a call does all steps.",
    ),
    "cores": (
        "Functions of core arrays",
        "A function that is given whole core arrays, applied to a stack of them: ours returns its "
        "results and declares no types, Numba's writes into arrays that are there.",
    ),
}


def _ours(cell: Cell) -> float:
    """Our seconds; the first that was timed is ours."""
    return float(next(iter(cell["times"].values()))["median"])


def ratios(cell: Cell) -> dict[str, float]:
    """How many times as long as we each peer takes."""
    names = list(cell["times"])[1:]
    return {name: cell["times"][name]["median"] / _ours(cell) for name in names}


def size_text(shape: list[int]) -> str:
    return "x".join(str(length) for length in shape)


def _points(cell: Cell) -> str:
    speed = cell["steps"] * math.prod(cell["shape"]) / _ours(cell)
    return f"{speed / 1e9:.3g}"


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _compared(ratio: float) -> str:
    """How we stand beside somebody who takes so many times as long, in words."""
    words = "faster" if ratio >= 1 else "slower"
    value = _ratio(max(ratio, 1 / ratio))
    return "as fast" if value == "1.00" else f"{value}x {words}"


def threads_text(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def time_text(seconds: float) -> str:
    """A time with a unit that suits it."""
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    unit = next((unit for unit, scale in units.items() if seconds >= scale), "µs")
    return f"{seconds / units[unit]:.3g} {unit}"


def line(cell: Cell) -> str:
    """One cell, for the terminal."""
    parts = [f"{name} {_ratio(ratio)}x" for name, ratio in ratios(cell).items()]
    parts += [f"{name} {reason}" for name, reason in cell["refused"].items()]
    where = f"{cell['dtype']} {size_text(cell['shape'])}, {threads_text(cell['threads'])}"
    speed = f"{time_text(_ours(cell))} = {_points(cell)} Gpoint/s"
    return f"{cell['problem']}, {where}: {speed}; " + ", ".join(parts)


def markdown(rows: list[list[str]]) -> str:
    """A table, the first row its head; figures stand right."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def _machine(run: Run) -> str:
    machine = run["machine"]
    versions = machine["versions"]
    shown = [f"{name} {versions[name]}" for name in sorted(versions) if name != "llvmlite"]
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores ({caches}), {machine['memory_gib']} GiB; "
        f"{machine['system']}; Python {machine['python']}; {', '.join(shown)}. "
        f"{machine['date'][:10]}, load before {machine['load_before']:.1f}."
    )


def _machines(stored: list[Run]) -> str:
    """What was measured on which machine and when; of one run there is no need to say what."""
    if len(stored) == 1:
        return _machine(stored[0])
    lines = ["The figures are of several runs; those of one row are always of one run."]
    for run in stored:
        names = dict.fromkeys(cell["problem"] for cell in runs.cells([run]))
        what = "; ".join(names) or "starting processes"
        lines.append(f"- {run['machine']['date'][:16]}: {what}. {_machine(run)}")
    return "\n".join(lines)


def recipe_table(stored: list[Run]) -> str:
    """The first problem, a row for each peer."""
    found = [(cell, run) for run in stored for cell in run["cells"] if cell["problem"] == RECIPE]
    if not found:
        return "(not measured)"
    cells = {cell["threads"]: cell for cell, _ in found}
    copies = [copy for run in stored if any(of is run for _, of in found) for copy in run["copy"]]
    counts = sorted(cells)
    head = ["3x3 mean of int8, 64 frames of 1000x1000"]
    for count in counts:
        head += [f"Gpoint/s, {threads_text(count)}", f"{OURS} is"]
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
            ratio = taken["median"] / _ours(cell)
            row += [f"{speed:.3g}", "" if name == OURS else _compared(ratio)]
        rows.append(row)
    row = [_COPY]
    speeds = {copy["threads"]: copy["speeds"]["beyond cache"] for copy in copies}
    for count in counts:
        row += [f"{speeds[count] / 2 / 1e9:.3g}" if count in speeds else "", ""]
    rows.append(row)
    return markdown(rows)


def big_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and how many times as long each peer takes."""
    names = [name for name in COLUMNS if any(name in cell["times"] for cell in cells)]
    rows = [["problem", "type", "size", "our time", "Gpoint/s", *names]]
    for cell in cells:
        found = ratios(cell)
        row = [cell["problem"], cell["dtype"], size_text(cell["shape"]), time_text(_ours(cell))]
        row += [_points(cell), *(_ratio(found[n]) if n in found else "" for n in names)]
        rows.append(row)
    return markdown(rows)


def nearest(cell: Cell) -> tuple[str, float] | None:
    """The fastest of the others, and how many times as long as we it takes."""
    others = [(name, ratio) for name, ratio in ratios(cell).items() if name not in OWN]
    return min(others, key=lambda pair: pair[1]) if others else None


def nearest_table(cells: list[Cell]) -> str:
    """A row for each cell: our speed, and the fastest of the others."""
    rows = [["in one call", "size", "Gpoint/s", "nearest other", f"{OURS} is"]]
    for cell in cells:
        near = nearest(cell)
        row = [cell["problem"], f"{cell['dtype']} {size_text(cell['shape'])}", _points(cell)]
        rows.append([*row, *((near[0], _compared(near[1])) if near else ("", ""))])
    return markdown(rows)


def summary(cells: list[Cell], title: str) -> str:
    """The geometric mean of ratios, and the least, for each peer."""
    rows = [[title, "geometric mean", "least", "where"]]
    for name in COLUMNS:
        found = [(ratios(cell)[name], cell) for cell in cells if name in cell["times"]]
        if not found:
            continue
        middle = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
        least, cell = min(found, key=lambda pair: pair[0])
        where = f"{cell['problem']}, {cell['dtype']}, {size_text(cell['shape'])}"
        rows.append([name, _ratio(middle), _ratio(least), where])
    return markdown(rows) if len(rows) > 1 else ""


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
        f"- {cell['problem']}, {cell['dtype']}, {size_text(cell['shape'])}, {name}: {reason}"
        for cell in cells
        for name, reason in cell["refused"].items()
    ]


def page(stored: list[Run]) -> str:
    """The whole page of results, in Markdown."""
    every = runs.cells(stored)
    parts = [
        "# Benchmarks",
        "This page is written by `python -m benchmarks readme` from `benchmarks/results/`; "
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
        _machines(stored),
        f"![How many times as long as ninepoint each peer takes](images/{PEERS_PLOT}.svg)",
    ]
    for count in sorted({cell["threads"] for cell in every}):
        cells = [cell for cell in every if cell["threads"] == count]
        single = [c for c in cells if c["group"] not in GROUPS and c["problem"] != BORDERS]
        filters = [cell for cell in single if cell["problem"] in _FILTERS]
        parts += [
            f"## {threads_text(count).capitalize()}",
            summary(filters, "filter list against"),
        ]
        parts += [big_table(single) if single else ""]
        parts += [_border_table([cell for cell in cells if cell["problem"] == BORDERS])]
        for group, (title, words) in GROUPS.items():
            found = [cell for cell in cells if cell["group"] == group]
            if found:
                parts += [f"### {title}, {threads_text(count)}", words, big_table(found)]
                parts += [summary(found, "against")]
    parts += ["## Copying", _copy_table(stored)]
    started = [run["start"] for run in stored if run.get("start")]
    if started:
        parts += ["## From nothing to the first result", _start_table(started[-1])]
    notes, refused = _notes(every), _refused(every)
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
        row = [cell["dtype"], size_text(cell["shape"]), time_text(_ours(cell))]
        rows.append([*row, *(f"{ratio:.2f}" for ratio in ratios(cell).values())])
    return markdown(rows)


def _copy_table(stored: list[Run]) -> str:
    rows = [["`np.copyto`, GB/s, counted once in and once out", "in cache", "beyond cache"]]
    for run in stored:
        when = f", {run['machine']['date'][:16]}" if len(stored) > 1 else ""
        for copy in run["copy"]:
            speeds = copy["speeds"]
            values = [f"{speeds[name] / 1e9:.3g}" for name in ("in cache", "beyond cache")]
            rows.append([threads_text(copy["threads"]) + when, *values])
    return markdown(rows)


def _start_table(start: dict[str, dict[str, float]]) -> str:
    rows = [["a new process, 100x100 float64", "cold [s]", "warm [s]"]]
    rows += [[name, f"{t['cold']:.2f}", f"{t['warm']:.2f}"] for name, t in start.items()]
    return markdown(rows)


def write_readme(stored: list[Run]) -> None:
    """Put two tables between the README's marks, and write the page of all."""
    text = README.read_text()
    before, mark, rest = text.partition(_MARKS[0])
    _, end, after = rest.partition(_MARKS[1])
    if not mark or not end:
        raise SystemExit(f"README.md lacks the lines {_MARKS[0]} and {_MARKS[1]}.")
    README.write_text(before + mark + readme_part(stored) + end + after)
    PAGE.write_text(page(stored))


def readme_part(stored: list[Run]) -> str:
    """What stands between the marks: the first problem, and the steps and pipelines."""
    machines = dict.fromkeys(
        f"{run['machine']['cpu']}, {run['machine']['cores']} cores, {run['machine']['date'][:10]}"
        for run in stored
    )
    parts = [recipe_table(stored)]
    if _COPY in parts[0]:
        parts.insert(0, f"![{_PICTURED}](docs/images/{RECIPE_PLOT}.svg)")
        parts.append(
            "Copying computes nothing: its row says how many bytes a second the machine reads, "
            "and writes elsewhere, at the same time."
        )
    many = [cell for cell in runs.cells(stored) if cell["group"] in ("time", "pipelines")]
    if many:
        count = max(cell["threads"] for cell in many)
        parts += [
            "Many steps in time, and filters that read each other's results, "
            f"{threads_text(count)}:",
            nearest_table([cell for cell in many if cell["threads"] == count]),
        ]
    parts += [
        f"{'; '.join(machines)}. "
        "All other problems, types and sizes: [benchmarks](docs/benchmarks.md)."
    ]
    return "\n" + "\n\n".join(parts) + "\n"
