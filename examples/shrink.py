"""Copy pictures for the pages: smaller, as JPEG.

python examples/shrink.py FROM TO
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

WIDTH = 900


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.png")):
        picture = Image.open(path).convert("RGB")
        height = round(picture.height * WIDTH / picture.width)
        small = picture.resize((WIDTH, height), Image.Resampling.LANCZOS)
        small.save(target / f"{path.stem}.jpg", quality=80, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
