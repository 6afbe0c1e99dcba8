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

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ..analysis.footprint import tap_offsets
from ..arrays.borders import Rule
from ..arrays.conditions import Condition
from ..language import errors
from ..language.box import Box
from ..language.ir import Kernel, Offset, Read, Reduce
from ..language.signature import signature_text
from ..language.stages import StageCall
from ..program.definition import Definition
from .asked import Asked, asked

_CELL = 18  # [pixels]
_LINE = 18
_LETTER = 8  # the width of a letter
_GAP = 12
_MARGIN = 30  # for the offsets of rows
_MOST = 63  # cells along an axis, beyond which there is no picture
_PANELS = 9  # side by side

# Readable beside each other for those who do not tell red from green (Okabe and Ito, 2008).
_COLOURS = ("#7aa6d8", "#e69f00", "#009e73", "#cc79a7", "#f0e442")


def drawn(definition: Definition) -> str | None:
    """A picture for a notebook of what a kernel reads of float64 fields; None if it cannot be.

    What stages make is drawn as fields, with the calls that make them.  A function of numbers
    looks at nothing that could be drawn, and a box may be too large.
    """
    if definition.pointwise:
        return None
    rest = definition.rest(False)
    try:
        one = asked(rest)
        compiled = one.last.compiled
    except (errors.StencilError, TypeError, ValueError):
        return None
    if compiled.forms is None:
        return None
    read = _cells(compiled.forms.simplified)
    made = map(_made, definition.calls)
    sides = one.call.boundary.sides(compiled.ndim)
    ways = ("from panel to panel", "downward", "to the right")
    axes = (
        f"axis {axis}, {ways[max(axis, -3)]}: {_sides(one, *pair)}"
        for axis, pair in enumerate(sides, start=-len(sides))
    )
    title = f"{definition.name}{signature_text(definition.function)}"
    fields = dict(zip(rest.fields, read.values(), strict=True))
    return _svg(title, compiled.reach, fields, [*made, *axes])


def _cells(kernel: Kernel) -> dict[str, set[Offset]]:
    """Every offset that a kernel reads, for each of its fields."""
    found: dict[str, set[Offset]] = {name: set() for name, _ in kernel.fields}
    for assign in kernel.body:
        if isinstance(assign.value, Read):
            found[assign.value.field].add(assign.value.offset)
        elif isinstance(assign.value, Reduce):
            for field, offsets in tap_offsets(assign.value):
                found[field].update(offsets)
    return found


def _made(call: StageCall) -> str:
    """A call of a stencil as one would write it."""
    values = {**call.scalars, **call.options}
    words = [*call.fields, *(f"{name}={ast.unparse(value)}" for name, value in values.items())]
    return f"{', '.join(call.made)} = {call.callee.name}({', '.join(words)})"


def _sides(one: Asked, before: Rule | Condition, after: Rule | Condition) -> str:
    """What is outside the array along one axis, in words."""
    words = [_rule(one, rule) for rule in (before, after)]
    if before == after:
        return f"border {words[0]}"
    return f"{words[0]} before, {words[1]} after"


def _rule(one: Asked, rule: Rule | Condition) -> str:
    if isinstance(rule, Condition):
        return repr(rule)
    return f"{rule} with {one.call.cval!r}" if rule in ("fill", "constant") else rule


def _svg(
    title: str, box: Box, read: Mapping[str, set[Offset]], below: Sequence[str]
) -> str | None:
    """Draw the offsets in a box for each field, and lines of text; None if it is too large."""
    ends = [(min(0, low), max(0, high)) for low, high in zip(box.lo, box.hi, strict=True)]
    *outer, rows, columns = (
        range(low, high + 1) for low, high in [(0, 0), *ends][-max(2, len(ends)) :]
    )
    planes = list(itertools.islice(itertools.product(*outer), _PANELS + 1))
    if max(len(rows), len(columns)) > _MOST or len(planes) > _PANELS:
        return None

    def label(name: str, plane: Offset) -> str:
        return f"{name}[{', '.join([*map(str, plane), ':', ':'])}]" if plane else name

    letters = max(len(label(name, plane)) for name in read for plane in planes)
    across = max(len(columns) * _CELL, _LETTER * letters) + _GAP
    down = len(rows) * _CELL + 2 * _LINE + _GAP
    parts = [_words(1, _LINE - 5, title, "bold")]
    for number, (name, offsets) in enumerate(read.items()):
        y = _LINE + 6 + number * down
        for place, plane in enumerate(planes):
            x = _MARGIN + place * across
            filled = {(0, *offset)[-2:] for offset in offsets if offset[:-2] == plane}
            colour = _COLOURS[number % len(_COLOURS)]
            # A signal has no rows to be counted.
            is_counted = place == 0 and len(box.lo) > 1
            cells = _panel(rows, columns, filled, colour, is_counted, not any(plane))
            parts.append(_words(x, y + _LINE - 6, label(name, plane)))
            parts.append(f'<g transform="translate({x} {y + 2 * _LINE})">{"".join(cells)}</g>')
    first = _LINE + 6 + len(read) * down
    parts += [_words(1, first + (k + 1) * _LINE - 6, line) for k, line in enumerate(below)]
    width = max(
        _MARGIN + len(planes) * across, _LETTER * max(len(title) + 1, *map(len, below)) + 2
    )
    height = first + len(below) * _LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}: what is read</title>{''.join(parts)}</svg>"
    )


def _panel(
    rows: range,
    columns: range,
    filled: set[Offset],
    colour: str,
    is_counted: bool,
    has_point: bool,
) -> Iterator[str]:
    """The cells of one plane, and the offsets of its columns; maybe of its rows, and the point."""
    middle = _CELL // 2
    for row, column in itertools.product(rows, columns):
        fill = colour if (row, column) in filled else "none"
        yield (
            f'<rect x="{_at(column, columns)}" y="{_at(row, rows)}" width="{_CELL}" '
            f'height="{_CELL}" fill="{fill}" stroke="#888"/>'
        )
    for column in _told(columns):
        yield _words(_at(column, columns) + middle, -4, str(column), size=10, anchor="middle")
    for row in _told(rows) if is_counted else ():
        yield _words(-4, _at(row, rows) + middle + 4, str(row), size=10, anchor="end")
    if has_point:
        x, y = (_at(0, offsets) + middle for offsets in (columns, rows))
        yield f'<circle cx="{x}" cy="{y}" r="{_CELL // 5}" fill="#c0392b"/>'


def _at(offset: int, offsets: range) -> int:
    """Where the cell of an offset begins."""
    return (offset - offsets[0]) * _CELL


def _told(offsets: range) -> Sequence[int]:
    """The offsets that are written: all where there are few, else the first, the last and 0."""
    return offsets if len(offsets) <= 9 else sorted({offsets[0], 0, offsets[-1]})


def _words(
    x: int, y: int, words: str, weight: str = "normal", size: int = 13, anchor: str = "start"
) -> str:
    # Grey, to be read on a dark page too.
    return (
        f'<text x="{x}" y="{y}" font-family="monospace" font-size="{size}" '
        f'font-weight="{weight}" text-anchor="{anchor}" fill="#777">{escape(words)}</text>'
    )
