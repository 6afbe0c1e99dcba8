"""Run the programs of the gallery, and save their pictures.

python examples/draw.py FOLDER
"""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

GALLERY = Path(__file__).parent / "gallery"


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    plt.switch_backend("agg")
    warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
    for path in sorted(GALLERY.glob("*.py")):
        print(path.name, flush=True)
        runpy.run_path(str(path), run_name="__main__")
        plt.savefig(target / f"{path.stem}.png", dpi=100)
        plt.close("all")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
