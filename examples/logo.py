"""Draw the project's sign: what a stencil of nine points makes of a single bright one.

    python examples/logo.py FOLDER          leaves logo.svg and logo.png there

A point's area is its number. Lines lead from the eight neighbours to the point that reads them.
"""

from __future__ import annotations

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


def points() -> list[tuple[int, int, float]]:
    """Where the nine points are, and how large; the last is in the middle."""
    values = spread(np.eye(3)[1][:, None] * np.eye(3)[1])
    radii = (LARGEST * np.sqrt(values / values[1, 1])).round(1)
    places = SIZE // 2 + (np.arange(3) - 1) * APART
    found = [
        (x, y, r)
        for y, row in zip(places, radii, strict=True)
        for x, r in zip(places, row, strict=True)
    ]
    return [*found[:4], *found[5:], found[4]]


def main(folder: Path, scale: int = 8) -> None:
    half, (*around, middle) = SIZE // 2, points()
    # Points that nothing covers have the colour of the lines: else the edges would become dark.
    image = Image.new("RGBA", (SIZE * scale, SIZE * scale), "#8fa8c000")
    draw, lines, dots = ImageDraw.Draw(image), [], []
    for x, y, _ in around:
        lines.append(f'<path d="M{x} {y}L{half} {half}"/>')
        draw.line((x * scale, y * scale, half * scale, half * scale), LINES, LINE * scale)
    for (x, y, r), colour in [*((one, NEIGHBOURS) for one in around), (middle, MIDDLE)]:
        dots.append(f'<circle cx="{x}" cy="{y}" r="{r:g}" fill="{colour}"/>')
        draw.ellipse([v * scale for v in (x - r, y - r, x + r, y + r)], colour)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" '
        f'viewBox="0 0 {SIZE} {SIZE}" role="img">'
    )
    group = f'<g stroke="{LINES}" stroke-width="{LINE}">'
    text = [head, "<title>ninepoint</title>", group, *lines, "</g>", *dots, "</svg>\n"]
    (folder / "logo.svg").write_text("\n".join(text))
    # Large, then made smaller, so that edges are smooth.
    small = image.resize((2 * SIZE, 2 * SIZE), Image.Resampling.LANCZOS)
    small.save(folder / "logo.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
