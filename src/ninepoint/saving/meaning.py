"""What a lazy array means: its kernels, their arguments and its sources, each by a name.

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
import os
import pickle
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from types import FunctionType
from typing import Any

import numpy as np

from ..calls import Call
from ..definition import Definition
from ..program import Program
from ..tokens import digest
from ..undisturbed import imported
from .journal import Meaning

# So many tasks of a layer that is written out are looked at; imread, for one, writes a task for
# each file, and its name has them all.
_TASKS = 4096

# Kernels lie in files too, and an edit of another line there changes no result.
_PROGRAMS = (".py", ".pyc", ".ipynb", ".so")

# What pickling objects of others may raise.
_UNPICKLED = (
    AttributeError, LookupError, NotImplementedError, OSError, RecursionError, RuntimeError,
    TypeError, ValueError, pickle.PicklingError,
)  # fmt: skip


class Found:
    """The calls, the functions and the paths that a Dask graph holds."""

    def __init__(self, graph: Any) -> None:
        self.calls: list[Call] = []
        self.functions: dict[str, str] = {}
        self.paths: set[str] = set()
        self._seen: set[str] = set()
        pickler: Any = imported("cloudpickle").Pickler
        found = self

        class Looking(pickler):  # type: ignore[misc]
            def persistent_id(self, one: Any) -> Any:
                return found._looked_at(one)

        for piece in _pieces(graph):
            buffers: list[Any] = []
            try:
                Looking(io.BytesIO(), protocol=5, buffer_callback=buffers.append).dump(piece)
            except _UNPICKLED:
                continue

    def _looked_at(self, one: Any) -> Any:
        """Take note of an object; anything but None keeps it from being pickled."""
        if isinstance(one, str):
            if 1 < len(one) < 4096 and "\n" not in one:
                self._path(one)
        elif isinstance(one, PurePath):
            self._path(str(one))
        elif isinstance(one, np.memmap) and one.filename is not None:
            self._path(str(one.filename))
            return "array"
        elif isinstance(one, np.ndarray):
            return None if one.dtype.hasobject else "array"
        elif isinstance(one, Program):
            for node in one.nodes:
                self._call(node.call)
            return "program"
        elif isinstance(one, Call):
            self._call(one)
            return "call"
        elif isinstance(one, Definition | FunctionType):
            # Dask names a function by what it does; the files it may mention are its own matter.
            return "function"
        elif type(one).__module__.startswith("ninepoint.") and hasattr(one, "signature"):
            definition = getattr(one, "definition", one)
            if isinstance(token := getattr(definition, "token", None), str):
                self.functions[str(getattr(definition, "name", "function"))] = token
                return "function"
        elif type(one).__module__.partition(".")[0] == "h5py":
            file: Any = getattr(one, "file", None)
            if file is not None:
                self._path(file.filename)
            return "h5py"
        return None

    def _call(self, call: Call) -> None:
        token = call.token
        if token not in self._seen:
            self._seen.add(token)
            self.calls.append(call)

    def _path(self, text: str) -> None:
        text = text.removeprefix("file://")
        suffix = os.path.splitext(text)[1]
        if suffix in _PROGRAMS or not (suffix or os.path.isabs(text)) or "\0" in text:
            return
        try:
            if os.path.lexists(text):
                self.paths.add(os.path.realpath(text))
        except OSError:
            return


def _pieces(graph: Any) -> Iterator[Any]:
    """What is pickled at a time: a layer that is a rule, and else some of its tasks."""
    layers = getattr(graph, "layers", None)
    for layer in [graph] if layers is None else layers.values():
        if type(layer).__name__ == "MaterializedLayer" or isinstance(layer, dict):
            yield from islice(layer.values(), _TASKS)
        else:
            yield layer


def meaning(arrays: Mapping[str, Any], rest: Meaning) -> Meaning:
    """What some Dask arrays mean, by their names, and the `rest` that is to be compared."""
    facts: dict[str, Any] = {}
    whole = imported("dask.highlevelgraph").HighLevelGraph.merge(
        *(array.dask for array in arrays.values())
    )
    found = Found(whole)
    count: dict[str, int] = {}
    for call in found.calls:
        name = call.definition.name
        count[name] = count.get(name, 0) + 1
        title = f"'{name}'" if count[name] == 1 else f"'{name}' ({count[name]})"
        facts[f"the kernel {title}"] = call.definition.token
        for scalar, value in call.scalars.items():
            known = digest(np.asarray(value).tolist()) if np.ndim(value) else repr(value)
            facts[f"the argument '{scalar}' of {title}"] = known
        facts[f"the boundary of {title}"] = repr(call.boundary)
        facts[f"the cval of {title}"] = repr(call.cval)
        facts[f"the dtype of {title}"] = repr((call.dtypes, call.overflow))
        facts[f"the steps of {title} (every=)"] = repr(call.every)
    for name, token in sorted(found.functions.items()):
        facts[f"the function '{name}'"] = token
    for path in sorted(found.paths):
        facts[f"the source '{path}'"] = identity(path)
    for name, array in arrays.items():
        of = f" of '{name}'" if name else ""
        facts[f"the dtype{of}"] = np.dtype(array.dtype).str
        facts[f"the shape{of}"] = list(array.shape)
    facts |= dict(rest)
    for name, array in arrays.items():
        of = f" of '{name}'" if name else ""
        facts[
            f"the lazy array{of} (the chunks of its sources, functions of others, sources "
            "without a lasting name)"
        ] = array.name
    return list(facts.items())


def identity(path: str) -> list[Any]:
    """What tells a file, or a store, from the one that it was: sizes and times."""
    names = [path]
    if os.path.isdir(path):
        names += [os.path.join(path, name) for name in ("zarr.json", ".zarray", ".zmetadata")]
    known = []
    for name in names:
        try:
            status = os.stat(name)
        except OSError:
            continue
        is_folder = os.path.isdir(name)
        known.append([0 if is_folder else status.st_size, status.st_mtime_ns])
    return known


def read_from(graph: Any, path: str) -> bool:
    """Whether a Dask graph reads a file or store at `path`, or in it."""
    real = os.path.realpath(path)
    return any(one == real or one.startswith(real + os.sep) for one in Found(graph).paths)
