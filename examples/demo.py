"""Filter a folder of photographs, and leave pictures to look at.

    python examples/demo.py [OUTPUT]

The photographs are those that scikit-image carries. Each is "taken" four times, with the
noise of a camera in poor light, and saved as PNG files. From there on it is what one does with
a folder of one's own: read it lazily, apply stencils, save the frames.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dask.array as da
import numpy as np
import skimage

import ninepoint as npt

PHOTOGRAPHS = ("camera.png", "moon.png", "brick.png", "grass.png", "gravel.png")
EXPOSURES = 4


@npt.stencil(boundary="reflect")
def smooth(x):
    """Take the mean of nine pixels."""
    return (x[-1, -1] + x[-1, 0] + x[-1, 1] +
            x[ 0, -1] + x[ 0, 0] + x[ 0, 1] +
            x[ 1, -1] + x[ 1, 0] + x[ 1, 1]) // 9  # fmt: skip


@npt.stencil(boundary="nearest", dtype=np.uint8, overflow="saturate")
def edges(x, gain=1.0):
    """Show how steep the picture is, white where it is flat."""
    down = x[1, -1] + 2 * x[1, 0] + x[1, 1] - x[-1, -1] - 2 * x[-1, 0] - x[-1, 1]
    right = x[-1, 1] + 2 * x[0, 1] + x[1, 1] - x[-1, -1] - 2 * x[0, -1] - x[1, -1]
    return 255 - gain * math.sqrt(down * down + right * right)


@npt.stencil(boundary="reflect", dtype=np.uint8, overflow="saturate")
def denoise(x, spread=30.0):
    """Average the neighbours that look like the pixel itself, so that edges stay sharp."""
    total = 0.0
    norm = 0.0
    for i in range(-2, 3):
        for j in range(-2, 3):
            difference = (x[i, j] - x[0, 0]) / spread
            weight = 1 / (1 + difference * difference)
            total += weight * x[i, j]
            norm += weight
    return total / norm + 0.5


def noisy_frames(photographs: da.Array) -> np.ndarray:
    """Every photograph several times, each time with other noise and a few dead pixels."""
    rng = np.random.default_rng(2019)
    frames = np.repeat(photographs.compute(), EXPOSURES, axis=0)
    frames = frames + rng.normal(0, 18, frames.shape)
    dead = rng.random(frames.shape) < 0.002
    frames[dead] = rng.choice([0, 255], dead.sum())
    return frames.clip(0, 255).astype(np.uint8)


def side_by_side(*images: da.Array) -> np.ndarray:
    """The images in a row, with a white gap between them."""
    gaps = [np.pad(one, ((0, 0), (0, 8)), constant_values=255) for one in images]
    return np.hstack(gaps)[:, :-8]


def main() -> None:
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output")
    shutil.rmtree(output, ignore_errors=True)

    carried = Path(skimage.__file__).parent / "data"
    photographs = npt.imread([carried / name for name in PHOTOGRAPHS])
    npt.imsave(noisy_frames(photographs), output / "frames/{:04d}.png", progress=False)

    x = npt.imread(output / "frames/*.png")
    print(f"frames    {x.shape[0]} of {x.shape[1]} x {x.shape[2]}, {x.dtype}")
    filters: dict[str, Callable[[da.Array], da.Array]] = {
        "smooth": smooth,
        "median": lambda x: npt.filters.median(x, size=3),
        "denoise": lambda x: denoise(npt.filters.median(x, size=3)),
        "edges": lambda x: edges(npt.filters.gaussian(x, sigma=1.5), gain=1.5),
    }
    results = {}
    for name, function in filters.items():
        results[name] = function(x)
        start = time.perf_counter()
        files = npt.imsave(results[name], output / name / "{:04d}.png")
        seconds = time.perf_counter() - start
        print(f"{name:9} {len(files)} frames in {seconds:.2f} s, compilation included")

    part = np.s_[0, 40:296, 130:386]
    smoothed, *others = (result[part] for result in results.values())
    pictures = {"smooth.png": side_by_side(x[part], smoothed)}
    pictures["filters.png"] = side_by_side(*others)
    colour = npt.imread([carried / "astronaut.png"])[0]
    pictures["colour.png"] = npt.filters.unsharp(colour, sigma=2, amount=0.7, axes=(0, 1))

    print("Pictures to look at:")
    for name, picture in pictures.items():
        (path,) = npt.imsave(picture, output / name, progress=False)
        print(f"  {path}")


if __name__ == "__main__":
    main()
