"""A picture of a footprint for notebooks: cells, of which those that are read are filled.

    smooth(x, y, k=3)
    x[0, :, :]                        a panel for each field, in a colour of its own, and for each
    x[1, :, :]                        offset along the axes before the last two
    y[0, :, :]
    y[1, :, :]
    axis -3, from panel to panel: border reflect
    axis -2, downward: border reflect
    axis -1, to the right: nearest before, wrap after

Brackets are around the point itself.  The offsets of rows and columns stand beside the cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape

from ..analysis.footprint import tap_offsets
from ..arrays.borders import Condition
from ..arrays.layout import Rule
from ..language.errors import StencilError
from ..language.ir import Box, Kernel, Offset, Read, Reduce
from ..language.signature import signature_text
from ..language.stages import StageCall
from ..program.definition import Definition
from .asked import Asked, asked

_LETTER, _LINE = 8, 18  # the width of a letter, and the height of a line [pixels]
_MOST = 63  # cells along an axis, beyond which there is no picture
_PANELS = 9  # of one field

# Readable beside each other for those who do not tell red from green (Okabe and Ito, 2008).
_COLOURS = ("#7aa6d8", "#e69f00", "#009e73", "#cc79a7", "#f0e442")


def drawn(definition: Definition) -> str | None:
    """A picture for a notebook of what a kernel reads of float64 fields; None if it cannot be.

    What stages make is drawn as fields, with the calls that make them.  A function of numbers
    looks at nothing that could be drawn, and a box may be too large.
    """
    if definition.pointwise or not definition.is_known:
        return None
    try:
        one = asked(definition)
        compiled = one.last.compiled
    except (StencilError, TypeError, ValueError):
        return None
    if compiled.forms is None:
        return None
    read = _cells(compiled.forms.simplified)
    made = map(_made, definition.calls())
    sides = one.call.options.boundary.sides(compiled.ndim)
    ways = ("from panel to panel", "downward", "to the right")
    axes = (
        f"axis {axis}, {ways[max(axis, -3)]}: {_sides(one, *pair)}"
        for axis, pair in enumerate(sides, start=-len(sides))
    )
    title = f"{definition.name}{signature_text(definition.function)}"
    fields = dict(zip(one.last.call.fields, read.values(), strict=True))
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
    """A call of a stencil as the user wrote it."""
    text = call.span.text[call.span.start : call.span.end]
    return f"{', '.join(call.made)} = {text}"


def _sides(one: Asked, before: Rule | Condition, after: Rule | Condition) -> str:
    """What is outside the array along one axis, in words."""
    words = [_rule(one, rule) for rule in (before, after)]
    if before == after:
        return f"border {words[0]}"
    return f"{words[0]} before, {words[1]} after"


def _rule(one: Asked, rule: Rule | Condition) -> str:
    if isinstance(rule, Condition):
        return repr(rule)
    return f"{rule} with {one.call.options.cval!r}" if rule in ("fill", "constant") else rule


def _svg(
    title: str, box: Box, read: Mapping[str, set[Offset]], below: Sequence[str]
) -> str | None:
    """Draw the offsets in a box for each field, and lines of text; None if it is too large."""
    ndim = len(box.lo)
    ends = [(min(0, low), max(0, high)) for low, high in zip(box.lo, box.hi, strict=True)]
    *outer, rows, columns = (
        range(low, high + 1) for low, high in [(0, 0), *ends][-max(2, ndim) :]
    )
    planes = list(itertools.islice(itertools.product(*outer), _PANELS + 1))
    if max(len(rows), len(columns)) > _MOST or len(planes) > _PANELS:
        return None
    above = "".join(f"{column:^3}" for column in _told(columns))
    # A signal has no rows to be counted.
    beside = _told(rows) if ndim > 1 else [""]
    # Each with the colour of its cells that are read.
    lines = [(title, "")]
    for (name, offsets), colour in zip(read.items(), itertools.cycle(_COLOURS), strict=False):
        for plane in planes:
            label = f"{name}[{', '.join(map(str, plane))}, :, :]" if plane else name
            lines += [(label, ""), (f"    {above}", "")]
            for row, mark in zip(rows, beside, strict=True):
                line = f"{mark:>3} "
                for column in columns:
                    place = (*plane, row, column)
                    cell = "■" if place[-ndim:] in offsets else "□"
                    line += f" {cell} " if any(place) else f"[{cell}]"
                lines.append((line, colour))
    lines += [(text, "") for text in below]
    width = _LETTER * (1 + max(len(line) for line, _ in lines))
    texts = (
        f'<text x="1" y="{number * _LINE}" xml:space="preserve">'
        + escape(line).replace("■", f'<tspan fill="{colour}">■</tspan>')
        + "</text>"
        for number, (line, colour) in enumerate(lines, start=1)
    )
    # Grey, to be read on a dark page too.
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{(len(lines) + 1) * _LINE}" role="img">'
        f"<title>{escape(title)}: what is read</title>"
        f'<g font-family="monospace" font-size="13" fill="#777">{"".join(texts)}</g></svg>'
    )


def _told(offsets: range) -> list[str]:
    """The offsets as text: all where there are few, else the first, the last and 0."""
    few = offsets if len(offsets) <= 9 else (offsets[0], 0, offsets[-1])
    return [str(one) if one in few else "" for one in offsets]
