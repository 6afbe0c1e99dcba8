"""A picture of a footprint for notebooks: a grid of cells, those that are read filled."""

from __future__ import annotations

from ..analysis.footprint import tap_offsets
from ..language.box import Box
from ..language.ir import Kernel, Offset, Read, Reduce

_CELL = 18  # [pixels]
_MOST = 63  # cells along an axis, beyond which there is no picture


def cells(kernel: Kernel) -> frozenset[Offset]:
    """Every offset that a kernel reads, of any field."""
    found: set[Offset] = set()
    for assign in kernel.body:
        if isinstance(assign.value, Read):
            found.add(assign.value.offset)
        elif isinstance(assign.value, Reduce):
            for _, offsets in tap_offsets(assign.value):
                found.update(offsets)
    return frozenset(found)


def footprint_svg(name: str, box: Box, read: frozenset[Offset]) -> str | None:
    """Draw the offsets in a box, along the last two axes; the point itself has a dot.

    None if the box is too large to be drawn.
    """
    low = (0, 0, *(min(0, o) for o in box.lo))[-2:]
    high = (0, 0, *(max(0, o) for o in box.hi))[-2:]
    rows, columns = (b - a + 1 for a, b in zip(low, high, strict=True))
    if max(rows, columns) > _MOST:
        return None
    plane = {(0, *offset)[-2:] for offset in read}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{columns * _CELL + 2}" '
        f'height="{rows * _CELL + 2}" role="img"><title>{name}: what is read</title>'
    ]
    for row in range(rows):
        for column in range(columns):
            filled = (row + low[0], column + low[1]) in plane
            parts.append(
                f'<rect x="{column * _CELL + 1}" y="{row * _CELL + 1}" width="{_CELL}" '
                f'height="{_CELL}" fill="{"#7aa6d8" if filled else "none"}" stroke="#888"/>'
            )
    x, y = -low[1] * _CELL + 1 + _CELL // 2, -low[0] * _CELL + 1 + _CELL // 2
    parts.append(f'<circle cx="{x}" cy="{y}" r="{_CELL // 5}" fill="#c0392b"/></svg>')
    return "".join(parts)
