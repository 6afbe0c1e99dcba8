"""What is being computed, for those who go on with it: they must mean the same.

What of it is written they see: the files of a unit appear when they are whole.

    smooth(da.from_zarr("a.zarr"), weight=2)   ->   Dask's name: kernel, arguments, functions
                                                    '/data/a.zarr': its size and time
                                                    one fingerprint of these, and of how it lies

Two processes that mean the same find the same, so a store that was begun by one can be finished by
another.  Sources are looked for in what would be sent to a worker: each object that would be
pickled.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..base.undisturbed import imported
from .formats import IMAGES
from .paths import AmongInputsError, stamp, write_whole

# The file that says it.
NAME = "meaning"


def note(folder: str, meaning: str) -> None:
    """Write down in a folder what will be computed."""
    os.makedirs(folder, exist_ok=True)
    write_whole(os.path.join(folder, NAME), meaning.encode())


def noted(folder: str) -> str | None:
    """What was to be computed; None if nobody has written it down."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return Path(folder, NAME).read_text(encoding="utf-8")
    return None


def check_same(path: str, old: str | None, new: str) -> None:
    """Raise unless what was begun at `path` means the same."""
    if old is None:
        raise FileExistsError(
            f"{path!r} exists, and is nothing that save has begun with these variables; "
            "remove it, or save under another name"
        )
    if old != new:
        raise ValueError(
            f"{path!r} was begun with another computation, so save cannot go on with it: kernels, "
            "arguments, sources, dtype, chunks and coordinates have to be the same. "
            "overwrite=True, without part=, begins anew"
        )


def check_not_read(who: str, arrays: Iterable[Any], targets: Sequence[str]) -> None:
    """Raise if arrays are read from files or stores that would be replaced, or from among them."""
    paths, folders = seen(arrays, None)
    read = paths | {str(folder) for path in paths for folder in PurePath(path).parents}
    folder = os.path.realpath(os.path.dirname(targets[0]) or ".")
    for target in targets:
        if os.path.join(folder, os.path.basename(target)) in read:
            raise AmongInputsError(
                f"{who} would overwrite {target!r}, from which the array is still to be read; "
                "save under another name, or into another folder"
            )
    if folder in folders and targets[0].lower().endswith(IMAGES):
        raise AmongInputsError(
            f"{who} would write {targets[0]!r} among the files that the array is read from, where "
            "the next run would take it for one of them; save into another folder"
        )


def sources(arrays: Iterable[Any]) -> list[Any]:
    """The files and stores that arrays are read from, with what tells each from another one.

    These are the sizes and times of what is there.
    """
    found = []
    for path in sorted(seen(arrays)[0]):
        for name in (path, *(os.path.join(path, one) for one in _DESCRIBED)):
            with suppress(OSError):
                now = stamp(name)
                found.append((name, 0 if os.path.isdir(name) else now.size, now.changed))
    return found


# So many tasks of a layer that is written out are looked at; imread, for one, writes a task for
# each file, and its name has them all.
_TASKS = 4096

# Kernels lie in files too, and an edit of another line there changes no result.
_PROGRAMS = (".py", ".pyc", ".ipynb", ".so")

# The files that describe a store of Zarr.
_DESCRIBED = ("zarr.json", ".zarray", ".zmetadata")

# What pickling objects of others may raise.
_UNPICKLED = (
    AttributeError, LookupError, NotImplementedError, OSError, RecursionError, RuntimeError,
    TypeError, ValueError, pickle.PicklingError,
)  # fmt: skip


def seen(arrays: Iterable[Any], many: int | None = _TASKS) -> tuple[set[str], set[str]]:
    """The paths that graphs of Dask arrays hold, and folders of which several images are read.

    Of a layer that is written out so `many` tasks are looked at.
    """
    paths, folders = set[str](), set[str]()
    real = cache(os.path.realpath)

    def note_path(text: str) -> None:
        """Take note of a text that is the name of something that is there."""
        text = text.removeprefix("file://")
        suffix = os.path.splitext(text)[1]
        if suffix in _PROGRAMS or not (suffix or os.path.isabs(text)) or len(text) >= 4096:
            return
        with suppress(OSError, ValueError):
            if os.path.lexists(text):
                # A name that is a link, and what it leads to.
                folder, name = os.path.split(text)
                paths.update((os.path.join(real(folder), name), os.path.realpath(text)))

    class Looking(imported("cloudpickle").Pickler):  # type: ignore[misc]
        """What its method gives anything but None for is not pickled."""

        def persistent_id(self, one: Any) -> Any:
            # By their names: images alone need no kernels, and do not import what these need.
            kind = f"{type(one).__module__}.{type(one).__name__}"
            if isinstance(one, str | PurePath):
                note_path(str(one))
            elif isinstance(one, np.ndarray):
                # Of a map in memory the file.
                note_path(str(getattr(one, "filename", "")))
                return None if one.dtype.hasobject else "array"
            elif kind.startswith("h5py."):
                note_path(str(getattr(getattr(one, "file", None), "filename", "")))
                return "h5py"
            elif kind == "ninepoint.io.images.Part":
                folders.update(map(real, one.folders))
            elif kind == "builtins.function" or kind.startswith("ninepoint.program."):
                # Dask names functions and kernels by what they do; the files they may mention are
                # theirs.
                return "function"
            elif kind.startswith("ninepoint.") and hasattr(one, "signature"):
                return "function"
            return None

    layers = {name: layer for array in arrays for name, layer in array.dask.layers.items()}
    for layer in layers.values():
        # A layer that is a rule is pickled at once.
        written = type(layer).__name__ == "MaterializedLayer" or isinstance(layer, dict)
        for piece in islice(layer.values(), many) if written else (layer,):
            with suppress(*_UNPICKLED):
                Looking(io.BytesIO(), protocol=5, buffer_callback=[].append).dump(piece)
    return paths, folders
