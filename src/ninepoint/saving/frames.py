"""Images, as `imsave` writes them: a frame is a unit, and its file says that it is written.

folder/0000.png, 0001.png, ...           folder/.{:04d}.png.ninepoint/    what they mean
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from ..arrays.recognise import is_xarray
from ..files.formats import Options
from ..files.targets import parse_pattern
from ..files.writing import save_frames
from .contents import lazily
from .journal import Journal, Meaning, check_same
from .meaning import meaning
from .running import How
from .units import share


def save_images(result: Any, pattern: str, how: How) -> None:
    """Write the frames that are to be written now."""
    array = lazily(result.data if is_xarray(result) else result)
    target = parse_pattern(pattern)
    if how.part and not target.numbered:
        raise ValueError(
            f"part={how.part!r}: one file of images cannot be written by several processes; "
            "give each frame a file of its own, 'frames/{:04d}.tif', or save as .zarr"
        )
    journal = Journal(os.path.join(target.folder, f".{target.name}.ninepoint"))
    rest: Meaning = []
    means = meaning({"": array}, rest)
    old = journal.meaning()
    if how.resume or how.part:
        if old is not None:
            check_same(pattern, old, means)
        elif os.path.lexists(target.path(0)):
            raise FileExistsError(
                f"{target.path(0)!r} exists, and is nothing that save has begun; "
                "overwrite=True, without part=, replaces it"
            )
    elif not how.overwrite and os.path.lexists(target.path(0)):
        raise FileExistsError(f"{target.path(0)!r} exists; overwrite=True replaces it")
    if old is None or not (how.resume or how.part):
        journal.begin(means)
    only = None if how.part is None else partial(share, part=how.part)
    save_frames(array, pattern, only, how.overwrite, how.resume, how.progress, Options())
