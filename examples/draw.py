"""Run the programs of the gallery, and save their pictures; for the pages smaller ones, as JPEG.

python examples/draw.py FOLDER [FOLDER OF THE PAGES]
"""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

GALLERY = Path(__file__).parent / "gallery"
WIDTH = 900


def main(target: Path, *pages: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    plt.switch_backend("agg")
    warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
    for path in sorted(GALLERY.glob("*.py")):
        print(path.name, flush=True)
        runpy.run_path(str(path), run_name="__main__")
        picture = target / f"{path.stem}.png"
        plt.savefig(picture, dpi=100)
        plt.close("all")
        for folder in pages:
            large = Image.open(picture).convert("RGB")
            size = WIDTH, round(large.height * WIDTH / large.width)
            small = large.resize(size, Image.Resampling.LANCZOS)
            small.save(folder / f"{path.stem}.jpg", quality=80, optimize=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
