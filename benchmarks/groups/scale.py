"""What Dask pays, tasks and graphs, and what arrays larger than memory and many workers take.

A measure checks first that results are equal and then gives rows: a figure beside what is aimed
at.  Each has a process of its own: what one of them keeps in memory is no figure of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

GROUP = "scale"


@dataclass(frozen=True, slots=True)
class Measure:
    """A function of `scale`, which is imported where Dask is."""

    name: str
    function: str
    group: str = GROUP

    def measure(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Its rows."""
        if not find_spec("distributed"):
            return
        scale = import_module("..scale", __package__)
        for row, figure, aim, unit in getattr(scale, self.function)(order):
            yield {
                "group": self.group,
                "problem": self.name,
                "row": row,
                "figure": float(f"{figure:.3g}"),
                "aim": aim,
                "unit": unit,
            }


SCALE: tuple[Measure, ...] = (
    Measure("tasks beside their kernels", "tasks"),
    Measure("graphs", "graphs"),
    Measure("Zarr to Zarr on threads", "threads"),
    Measure("Zarr to Zarr on workers", "workers"),
    Measure("what moves between workers", "halos"),
    Measure("what parts read", "parts"),
    Measure("many units", "units"),
    Measure("steps that are left over", "odd_steps"),
)
