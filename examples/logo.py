"""Draw the project's sign: what a stencil of nine points makes of a single bright one.

    python examples/logo.py FOLDER          leaves logo.svg there

A point's area is its number. Lines lead from the eight neighbours to the point that reads them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import ninepoint as npt

SIZE = 256
APART = 76  # between two points next to each other
LARGEST = 34  # radius of the one in the middle
LINE = 8

# To be told apart without red and green, and seen on white as well as on black.
NEIGHBOURS, MIDDLE, LINES = "#4c8fd0", "#e69f00", "#8fa8c0"


@npt.stencil(boundary="constant")
def spread(x):
    return (x[-1, -1] + 2 * x[-1, 0] + x[-1, 1] +
            2 * x[0, -1] + 4 * x[0, 0] + 2 * x[0, 1] +
            x[1, -1] + 2 * x[1, 0] + x[1, 1]) / 16  # fmt: skip


def main(folder: Path) -> None:
    values = spread(np.eye(3)[1][:, None] * np.eye(3)[1])
    radii = (LARGEST * np.sqrt(values / values[1, 1])).round(1)
    half = SIZE // 2
    lines, dots = [], []
    for (row, column), radius in np.ndenumerate(radii):
        x, y = half + (column - 1) * APART, half + (row - 1) * APART
        colour = MIDDLE if (x, y) == (half, half) else NEIGHBOURS
        dots.append(f'<circle cx="{x}" cy="{y}" r="{radius:g}" fill="{colour}"/>')
        if colour == NEIGHBOURS:
            lines.append(f'<path d="M{x} {y}L{half} {half}"/>')
    dots.append(dots.pop(4))  # the middle one above the others
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" '
        f'viewBox="0 0 {SIZE} {SIZE}" role="img">'
    )
    group = f'<g stroke="{LINES}" stroke-width="{LINE}">'
    text = [head, "<title>ninepoint</title>", group, *lines, "</g>", *dots, "</svg>\n"]
    (folder / "logo.svg").write_text("\n".join(text))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
