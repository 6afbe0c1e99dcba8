"""What is being computed, for those who go on with it: they must mean the same.

What of it is written they see: the files of a unit appear when they are whole.

    smooth(da.from_zarr("a.zarr"), weight=2)   ->   the kernel 'smooth': its token
                                                    the argument 'weight' of 'smooth': 2
                                                    the source '/data/a.zarr': size, time
                                                    the lazy array: Dask's name of it

Two processes that mean the same find the same, so a store that was begun by one can be finished by
another; and where they differ there is a word for it.  What is looked at is what would be sent to
a worker: each object that would be pickled.
"""

from __future__ import annotations

import io
import json
import os
import pickle
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np

from ..base.remembered import digest
from ..base.undisturbed import imported
from .paths import stamp, write_whole

Meaning: TypeAlias = dict[str, Any]

# The file that says it.
NAME = "meaning.json"


def note(folder: str, meaning: Meaning) -> None:
    """Write down in a folder what will be computed."""
    os.makedirs(folder, exist_ok=True)
    text = json.dumps(list(meaning.items()), indent=1, default=str)
    write_whole(os.path.join(folder, NAME), text.encode())


def noted(folder: str) -> Meaning | None:
    """What was to be computed; None if nobody has written it down."""
    try:
        with open(os.path.join(folder, NAME), encoding="utf-8") as file:
            return dict(json.load(file))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def check_same(path: str, old: Meaning | None, new: Meaning) -> None:
    """Raise unless what was begun at `path`, if anything was, means the same.

    It says what differs first.
    """
    if old is None:
        raise FileExistsError(
            f"{path!r} exists, and is nothing that save has begun with these variables; "
            "remove it, or save under another name"
        )
    # What is compared has been through JSON, where tuples are lists.
    now = json.loads(json.dumps(new, default=str))
    for label in now | old:
        if label not in old:
            what = f"{label} was not there"
        elif label not in now:
            what = f"{label} is no longer there"
        elif old[label] != now[label]:
            pair = old[label], now[label]
            short = all(isinstance(one, int | float | str | list) for one in pair)
            what = f"{label} has changed"
            if short and max(len(str(one)) for one in pair) <= 40:
                what = f"{label}: {pair[0]} then, {pair[1]} now"
        else:
            continue
        raise ValueError(
            f"{path!r} was begun with another meaning, so save cannot go on with it: {what}. "
            "overwrite=True, without part=, begins anew"
        )


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


class Seen:
    """The calls, the functions, the paths, and the patterns of files that a Dask graph holds.

    Of a layer that is written out so `many` tasks are looked at.
    """

    def __init__(self, graph: Any, many: int | None = _TASKS) -> None:
        self.calls: dict[str, Any] = {}
        self.functions: dict[str, str] = {}
        self.paths: set[str] = set()
        self.patterns: set[str] = set()
        self._real = cache(os.path.realpath)
        found = self

        class Looking(imported("cloudpickle").Pickler):  # type: ignore[misc]
            def persistent_id(self, one: Any) -> Any:
                return found._looked_at(one)

        for layer in graph.layers.values():
            # A layer that is a rule is pickled at once.
            written = type(layer).__name__ == "MaterializedLayer" or isinstance(layer, dict)
            for piece in islice(layer.values(), many) if written else (layer,):
                with suppress(*_UNPICKLED):
                    Looking(io.BytesIO(), protocol=5, buffer_callback=[].append).dump(piece)

    def _looked_at(self, one: Any) -> Any:
        """Take note of an object; anything but None keeps it from being pickled."""
        if isinstance(one, str | PurePath):
            self._path(str(one))
            return None
        if isinstance(one, np.ndarray):
            # Of a map in memory the file.
            self._path(str(getattr(one, "filename", "")))
            return None if one.dtype.hasobject else "array"
        # By their names: images alone need no kernels, and do not import what these need.
        match f"{type(one).__module__}.{type(one).__name__}":
            case "ninepoint.io.images.Part":
                self.patterns.update(one.found)
                for path in {frame.stamp.path for frame in one.frames}:
                    # A name that is a link, and what it leads to.
                    folder, name = os.path.split(path)
                    self.paths |= {os.path.join(self._real(folder), name), os.path.realpath(path)}
                return "part"
            case "ninepoint.program.program.Program":
                self.calls |= {node.call.token: node.call for node in one.nodes}
                return "program"
            case "ninepoint.program.definition.Call":
                self.calls[one.token] = one
                return "call"
            case "ninepoint.program.definition.Definition" | "builtins.function":
                # Dask names a function by what it does; the files it may mention are its own.
                return "function"
        module = type(one).__module__.partition(".")[0]
        if module == "ninepoint" and hasattr(one, "signature"):
            definition = getattr(one, "definition", one)
            if isinstance(token := getattr(definition, "token", None), str):
                self.functions[str(getattr(definition, "name", "function"))] = token
                return "function"
        if module == "h5py":
            self._path(str(getattr(getattr(one, "file", None), "filename", "")))
            return "h5py"
        return None

    def _path(self, text: str) -> None:
        """Take note of a text that is the name of something that is there."""
        text = text.removeprefix("file://")
        suffix = os.path.splitext(text)[1]
        if suffix in _PROGRAMS or not (suffix or os.path.isabs(text)) or len(text) >= 4096:
            return
        with suppress(OSError, ValueError):
            if os.path.lexists(text):
                self.paths.add(os.path.realpath(text))


def facts_of(arrays: Iterable[Any]) -> dict[str, Any]:
    """What some Dask arrays are computed by and from, each fact with a name."""
    facts: dict[str, Any] = {}
    merge = imported("dask.highlevelgraph").HighLevelGraph.merge
    seen = Seen(merge(*(array.dask for array in arrays)))
    count: Counter[str] = Counter()
    for call in seen.calls.values():
        name = call.definition.name
        count[name] += 1
        title = f"'{name}'" if count[name] == 1 else f"'{name}' ({count[name]})"
        facts[f"the kernel {title}"] = call.definition.token
        for scalar, value in call.scalars.items():
            known = digest(np.asarray(value).tolist()) if np.ndim(value) else repr(value)
            facts[f"the argument '{scalar}' of {title}"] = known
        facts |= {
            f"the boundary of {title}": repr(call.boundary),
            f"the cval of {title}": repr(call.cval),
            f"the dtype of {title}": repr((call.dtypes, call.overflow)),
            f"the steps of {title} (every=)": repr(call.every),
        }
    facts |= {f"the function '{name}'": token for name, token in sorted(seen.functions.items())}
    return facts | {f"the source '{path}'": _identity(path) for path in sorted(seen.paths)}


def _identity(path: str) -> list[Any]:
    """What tells a file, or a store, from the one that it was: sizes and times."""
    known = []
    for name in (path, *(os.path.join(path, one) for one in _DESCRIBED)):
        with suppress(OSError):
            now = stamp(name)
            known.append([0 if os.path.isdir(name) else now.size, now.changed])
    return known
