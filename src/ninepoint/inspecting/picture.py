"""A picture of a footprint for notebooks: a grid of cells, those that are read filled.

smooth(x, y), border 'reflect'
x   [0, :, :]   [1, :, :]         a row for each field, in a colour of its own;
y   [0, :, :]   [1, :, :]         a panel for each offset along the axes before the last two
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from html import escape

from ..analysis.footprint import tap_offsets
from ..language.box import Box
from ..language.ir import Kernel, Offset, Read, Reduce

_CELL = 18  # [pixels]
_LINE = 18
_MOST = 63  # cells along an axis, beyond which there is no picture
_PANELS = 9  # side by side

# Readable beside each other for those who do not tell red from green (Okabe and Ito, 2008).
_COLOURS = ("#7aa6d8", "#e69f00", "#009e73", "#cc79a7", "#f0e442")


def cells(kernel: Kernel) -> dict[str, frozenset[Offset]]:
    """Every offset that a kernel reads, for each of its fields."""
    found: dict[str, set[Offset]] = {name: set() for name, _ in kernel.fields}
    for assign in kernel.body:
        if isinstance(assign.value, Read):
            found[assign.value.field].add(assign.value.offset)
        elif isinstance(assign.value, Reduce):
            for field, offsets in tap_offsets(assign.value):
                found[field].update(offsets)
    return {name: frozenset(offsets) for name, offsets in found.items()}


def footprint_svg(title: str, box: Box, read: Mapping[str, frozenset[Offset]]) -> str | None:
    """Draw the offsets in a box for each field; the point itself has a dot.

    None if the box is too large to be drawn.
    """
    low = (0, *(min(0, o) for o in box.lo))[-max(2, len(box.lo)) :]
    high = (0, *(max(0, o) for o in box.hi))[-max(2, len(box.hi)) :]
    rows, columns = (b - a + 1 for a, b in zip(low[-2:], high[-2:], strict=True))
    outer = [range(a, b + 1) for a, b in zip(low[:-2], high[:-2], strict=True)]
    planes = list(itertools.islice(itertools.product(*outer), _PANELS + 1))
    if max(rows, columns) > _MOST or len(planes) > _PANELS:
        return None
    labelled = len(read) > 1 or len(planes) > 1
    across = columns * _CELL + 12
    down = rows * _CELL + 12 + (_LINE if labelled else 0)
    parts = []
    for number, (name, offsets) in enumerate(read.items()):
        for place, plane in enumerate(planes):
            x, y = place * across + 1, _LINE + 6 + number * down
            if labelled:
                at = f"[{', '.join([*map(str, plane), ':', ':'])}]" if plane else ""
                parts.append(_words(x, y + _LINE - 6, f"{name}{at}"))
                y += _LINE
            parts += _panel(
                x, y, (low[-2], low[-1]), (rows, columns),
                {(0, *o)[-2:] for o in offsets if o[:-2] == plane},
                _COLOURS[number % len(_COLOURS)], not any(plane),
            )  # fmt: skip
    width = max(len(planes) * across, 8 * len(title) + 2)
    height = _LINE + 6 + len(read) * down
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">'
        f"<title>{escape(title)}: what is read</title>"
        f"{_words(1, _LINE - 5, title)}{''.join(parts)}</svg>"
    )


def _panel(
    x: int,
    y: int,
    low: tuple[int, int],
    shape: tuple[int, int],
    filled: set[Offset],
    colour: str,
    centre: bool,
) -> Iterator[str]:
    """The cells of one plane; the point itself is in the one at the centre."""
    for row, column in itertools.product(*map(range, shape)):
        fill = colour if (row + low[0], column + low[1]) in filled else "none"
        yield (
            f'<rect x="{x + column * _CELL}" y="{y + row * _CELL}" width="{_CELL}" '
            f'height="{_CELL}" fill="{fill}" stroke="#888"/>'
        )
    if centre:
        middle = _CELL // 2
        yield (
            f'<circle cx="{x - low[1] * _CELL + middle}" cy="{y - low[0] * _CELL + middle}" '
            f'r="{_CELL // 5}" fill="#c0392b"/>'
        )


def _words(x: int, y: int, words: str) -> str:
    # Grey, to be read on a dark page too.
    return (
        f'<text x="{x}" y="{y}" font-family="monospace" font-size="13" fill="#888">'
        f"{escape(words)}</text>"
    )
