"""A picture of a footprint for notebooks: a grid of cells, those that are read filled.

    smooth(x, y, k=3)
    x[0, :, :]   x[1, :, :]           a row for each field, in a colour of its own;
    y[0, :, :]   y[1, :, :]           a panel for each offset along the axes before the last two
    axis -3, from panel to panel: border reflect
    axis -2, downward: border reflect
    axis -1, to the right: nearest before, wrap after

The offsets of rows and columns stand beside the cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ..analysis.footprint import tap_offsets
from ..language.box import Box
from ..language.ir import Kernel, Offset, Read, Reduce

_CELL = 18  # [pixels]
_LINE = 18
_LETTER = 8  # the width of a letter
_GAP = 12
_MARGIN = 30  # for the offsets of rows
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


def footprint_svg(
    title: str,
    box: Box,
    read: Mapping[str, frozenset[Offset]],
    borders: Sequence[str],
    made: Sequence[str] = (),
) -> str | None:
    """Draw the offsets in a box for each field; the point itself has a dot.

    `borders` says of each axis what is outside the array; `made` are lines that say where fields
    come from which are no parameters.  None if the box is too large to be drawn.
    """
    low = (0, *(min(0, o) for o in box.lo))[-max(2, len(box.lo)) :]
    high = (0, *(max(0, o) for o in box.hi))[-max(2, len(box.hi)) :]
    rows, columns = (b - a + 1 for a, b in zip(low[-2:], high[-2:], strict=True))
    outer = [range(a, b + 1) for a, b in zip(low[:-2], high[:-2], strict=True)]
    planes = list(itertools.islice(itertools.product(*outer), _PANELS + 1))
    if max(rows, columns) > _MOST or len(planes) > _PANELS:
        return None
    names = [
        [
            f"{name}[{', '.join([*map(str, plane), ':', ':'])}]" if plane else name
            for plane in planes
        ]
        for name in read
    ]
    wide = max(columns * _CELL, *(_LETTER * len(name) for line in names for name in line))
    across = wide + _GAP
    down = rows * _CELL + 2 * _LINE + _GAP
    lines = [*made, *_axes(borders)]
    parts = [_words(1, _LINE - 5, title, "bold")]
    for number, (labels, offsets) in enumerate(zip(names, read.values(), strict=True)):
        y = _LINE + 6 + number * down
        for place, (plane, label) in enumerate(zip(planes, labels, strict=True)):
            x = _MARGIN + place * across
            parts.append(_words(x, y + _LINE - 6, label))
            parts += _panel(
                x, y + 2 * _LINE, (low[-2], low[-1]), (rows, columns),
                {(0, *o)[-2:] for o in offsets if o[:-2] == plane},
                _COLOURS[number % len(_COLOURS)], not any(plane),
                # A signal has no rows to be counted.
                place == 0 and len(box.lo) > 1,
            )  # fmt: skip
    below = _LINE + 6 + len(read) * down
    for number, line in enumerate(lines):
        parts.append(_words(1, below + number * _LINE + _LINE - 6, line))
    letters = max(len(title) + 1, *map(len, lines))
    width = max(_MARGIN + len(planes) * across, _LETTER * letters + 2)
    height = below + len(lines) * _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}: what is read</title>{''.join(parts)}</svg>"
    )


def _axes(borders: Sequence[str]) -> Iterator[str]:
    """A line for each axis: which it is, how it is drawn, and what is beyond its ends."""
    ways = ("from panel to panel", "downward", "to the right")
    for position, border in enumerate(borders, start=-len(borders)):
        yield f"axis {position}, {ways[max(position, -3)]}: {border}"


def _panel(
    x: int,
    y: int,
    low: tuple[int, int],
    shape: tuple[int, int],
    filled: set[Offset],
    colour: str,
    centre: bool,
    counted: bool,
) -> Iterator[str]:
    """The cells of one plane, with their offsets; the point itself is in the one at the centre."""
    for row, column in itertools.product(*map(range, shape)):
        fill = colour if (row + low[0], column + low[1]) in filled else "none"
        yield (
            f'<rect x="{x + column * _CELL}" y="{y + row * _CELL}" width="{_CELL}" '
            f'height="{_CELL}" fill="{fill}" stroke="#888"/>'
        )
    for column in _told(low[1], shape[1]):
        middle = x + (column - low[1]) * _CELL + _CELL // 2
        yield _words(middle, y - 4, str(column), size=10, anchor="middle")
    for row in _told(low[0], shape[0]) if counted else ():
        middle = y + (row - low[0]) * _CELL + _CELL // 2 + 4
        yield _words(x - 4, middle, str(row), size=10, anchor="end")
    if centre:
        middle = _CELL // 2
        yield (
            f'<circle cx="{x - low[1] * _CELL + middle}" cy="{y - low[0] * _CELL + middle}" '
            f'r="{_CELL // 5}" fill="#c0392b"/>'
        )


def _told(low: int, length: int) -> list[int]:
    """The offsets that are written: all where there are few, else the first, the last and 0."""
    high = low + length - 1
    return list(range(low, high + 1)) if length <= 9 else sorted({low, 0, high})


def _words(
    x: int, y: int, words: str, weight: str = "normal", size: int = 13, anchor: str = "start"
) -> str:
    # Grey, to be read on a dark page too.
    return (
        f'<text x="{x}" y="{y}" font-family="monospace" font-size="{size}" '
        f'font-weight="{weight}" text-anchor="{anchor}" fill="#777">{escape(words)}</text>'
    )
