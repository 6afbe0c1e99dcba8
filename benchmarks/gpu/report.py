"""What is written of the results: lines while they come, and the table of docs/gpu.md."""

from __future__ import annotations

import math
from pathlib import Path

from ..peers.ours import NAME as OURS
from ..peers.ours import WITHOUT
from ..report import ROOT, markdown, size_text, time_text
from ..runs import Cell, Run
from .peers import COPY, CPU
from .problems import PROBLEMS

PAGE = ROOT / "docs" / "gpu.md"

_MARKS = ("<!-- gpu:start -->", "<!-- gpu:end -->")
_BORDERS = "border rules"
_NAMES = [problem.name for problem in PROBLEMS]


def cells(stored: list[Run]) -> list[tuple[Cell, Run]]:
    """The cells of all runs, in the order of the table, each with its run."""
    found = [(c, run) for run in stored for c in run["cells"] if c["problem"] in _NAMES]
    return sorted(found, key=lambda pair: _NAMES.index(pair[0]["problem"]))


def _seconds(cell: Cell, name: str = OURS) -> float:
    return float(cell["times"][name]["median"])


def moved(cell: Cell) -> float:
    """Of a copy of the array and its result: how many such copies one sweep is as fast as."""
    return cell["steps"] * _seconds(cell, COPY) / _seconds(cell)


def speed(cell: Cell) -> float:
    """Points a second, each step of which counts."""
    points: float = cell["steps"] * math.prod(cell["shape"]) / _seconds(cell)
    return points


def nearest(cell: Cell) -> tuple[str, float] | None:
    """The fastest of the others on the GPU, and how many times as long as we it takes."""
    own = (OURS, WITHOUT, COPY, CPU)
    others = {name: _seconds(cell, name) for name in cell["times"] if name not in own}
    if not others:
        return None
    name = min(others, key=lambda one: others[one])
    return name, others[name] / _seconds(cell)


def line(cell: Cell) -> str:
    """One cell, for the terminal."""
    names = [name for name in cell["times"] if name != OURS]
    parts = [f"{name} {_seconds(cell, name) / _seconds(cell):.3g}x" for name in names]
    parts += [f"{name} {reason}" for name, reason in cell["refused"].items()]
    where = f"{cell['dtype']} {size_text(cell['shape'])}"
    own = f"{time_text(_seconds(cell))} = {speed(cell) / 1e9:.3g} Gpoint/s"
    parts.insert(0, f"{moved(cell):.2f} of copies")
    return f"{cell['problem']}, {where}: {own}; {', '.join(parts)}"


def table(found: list[Cell]) -> str:
    """A row for each work: our speed, beside a copy, our CPU, and the fastest of the others."""
    head = "on the GPU;size;time;Gpoint/s;of a copy;the CPU takes;nearest other;takes"
    rows = [head.split(";")]
    for cell in found:
        near = nearest(cell)
        cpu = f"{_seconds(cell, CPU) / _seconds(cell):.0f}x" if CPU in cell["times"] else ""
        rows.append([
            cell["problem"],
            f"{cell['dtype']} {size_text(cell['shape'])}",
            time_text(_seconds(cell)),
            f"{speed(cell) / 1e9:.3g}",
            f"{moved(cell):.2f}",
            cpu,
            *((near[0], f"{near[1]:.2f}x") if near else ("", "")),
        ])  # fmt: skip
    return markdown(rows)


def page(stored: list[Run]) -> str:
    """All that is known, in Markdown."""
    every = cells(stored)
    single = [cell for cell, _ in every if cell["problem"] != _BORDERS]
    parts = [*map(_machine, stored), table(single) if single else ""]
    parts += [_border_table(cell) for cell, _ in every if cell["problem"] == _BORDERS]
    parts += [_refused([cell for cell, _ in every])]
    known = [run["host"] for run in stored if run.get("host")]
    if known:
        parts += [_host(known[-1])]
    return "\n\n".join(part for part in parts if part)


def _machine(run: Run) -> str:
    machine = run["machine"]
    gpu = machine["gpu"]
    versions = machine["versions"]
    shown = [f"{name} {versions[name]}" for name in sorted(versions) if name != "llvmlite"]
    return (
        f"{gpu['text']}; NVRTC {gpu['compiler']}, CuPy {gpu['cupy']}; {machine['cpu']}, "
        f"{machine['cores']} cores; Python {machine['python']}; {', '.join(shown)}. "
        f"{machine['date'][:10]}."
    )


def _border_table(cell: Cell) -> str:
    names = [name for name in cell["times"] if name not in (OURS, WITHOUT, COPY)]
    head = [f"mean 3x3 by border rule, {size_text(cell['shape'])}, in times of `fill`", *names]
    own = _seconds(cell)
    return markdown([head, ["", *(f"{_seconds(cell, name) / own:.2f}" for name in names)]])


def _refused(found: list[Cell]) -> str:
    return "\n".join(
        f"- Not timed: {name}, {cell['problem']}, {cell['dtype']}: {reason}"
        for cell in found
        for name, reason in cell["refused"].items()
    )


def _host(found: dict[str, dict[str, dict[str, float] | float]]) -> str:
    rows = [["what the processor does", "time"]]
    for name, seconds in found["calls"].items():
        assert isinstance(seconds, float)
        rows.append([f"one call, `{name}`", time_text(seconds)])
    for name, times in found["first"].items():
        assert isinstance(times, dict)
        for state, seconds in times.items():
            rows.append([f"a new process: {name}, {state}", time_text(seconds)])
    return markdown(rows)


def write(stored: list[Run], path: Path = PAGE) -> None:
    """Put the tables between the page's marks."""
    text = path.read_text()
    before, mark, rest = text.partition(_MARKS[0])
    _, end, after = rest.partition(_MARKS[1])
    if not mark or not end:
        raise SystemExit(f"{path} lacks the lines {_MARKS[0]} and {_MARKS[1]}.")
    path.write_text(f"{before}{mark}\n\n{page(stored)}\n\n{end}{after}")
