"""Chunks of the source that are alive at once, on one thread."""

from __future__ import annotations

from collections.abc import Iterator

from .kernels import mean9, mean27
from .row import Row
from .watching import Held, equal, made, varied


def measure(*, quick: bool) -> Iterator[Row]:
    """Give the rows."""
    equal(mean9, varied((40, 50), 9, "f4"))
    for grid, stencil, aim in (((40, 40), mean9, 125), ((12, 12, 12), mean27, 310)):
        counts = [n // 4 for n in grid] if quick else grid
        size = 64 if len(grid) == 2 else 16
        held = Held()
        array = held.watch(made([n * size for n in counts], size, "f4"))
        stencil(array).max().compute(scheduler="sync")
        yield Row(f"chunks held: {'x'.join(map(str, counts))}", held.most, aim, "")
    held = Held()
    made_of = held.watch(mean9(held.source((2560, 2560), 64, "f4")))
    made_of.max().compute(scheduler="sync")
    yield Row("blocks held a thread by regions, read or made", held.most, 2, "")
