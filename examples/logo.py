"""Draw the project's sign: what a stencil of nine points makes of a single bright one.

    python examples/logo.py FOLDER          leaves logo.svg and logo.png there

A point's area is its number. Lines lead from the eight neighbours to the point that reads them.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

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


def points() -> list[tuple[int, int, float, str]]:
    """Where the nine points are, how large, and in which colour; the last is in the middle."""
    bright = np.zeros((3, 3))
    bright[1, 1] = 1
    values = spread(bright)
    found = []
    for row, column in itertools.product(range(3), repeat=2):
        x, y = (SIZE // 2 + (k - 1) * APART for k in (column, row))
        radius = LARGEST * float(np.sqrt(values[row, column] / values[1, 1]))
        found.append((x, y, round(radius, 1), NEIGHBOURS))
    found.append((*found.pop(4)[:3], MIDDLE))
    return found


def svg() -> str:
    half = SIZE // 2
    nine = points()
    lines = [f'<path d="M{x} {y}L{half} {half}"/>' for x, y, _, _ in nine[:-1]]
    dots = [f'<circle cx="{x}" cy="{y}" r="{r:g}" fill="{c}"/>' for x, y, r, c in nine]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" '
            f'viewBox="0 0 {SIZE} {SIZE}" role="img">',
            "<title>ninepoint</title>",
            f'<g stroke="{LINES}" stroke-width="{LINE}">',
            *lines,
            "</g>",
            *dots,
            "</svg>\n",
        ]
    )


def picture(scale: int = 8) -> Image.Image:
    """Draw the same in pixels: large, then made smaller, so that edges are smooth."""
    side = SIZE * scale
    # Points that nothing covers have the colour of the lines: else the edges would become dark.
    image = Image.new("RGBA", (side, side), "#8fa8c000")
    draw = ImageDraw.Draw(image)
    nine = [(x * scale, y * scale, r * scale, colour) for x, y, r, colour in points()]
    for x, y, _, _ in nine[:-1]:
        draw.line((x, y, side // 2, side // 2), LINES, LINE * scale)
    for x, y, radius, colour in nine:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), colour)
    return image.resize((2 * SIZE, 2 * SIZE), Image.Resampling.LANCZOS)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "logo.svg").write_text(svg())
    picture().save(folder / "logo.png", optimize=True)
