"""Records: what kernels were compiled to, on disk beside their machine code.

    definition, types, request   ->   what was compiled of it in another process

So a kernel that was compiled once is neither read nor lowered in the next process.  A record is
named by all that it depends on, the files that compile among it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..lowering.request import VERIFY
from ..tokens import digest
from .compiled import Compiled
from .numba.cache import binary, is_kept

# The folders whose files say what a kernel is compiled to.
_FOLDERS = ("analysis", "backends", "language", "loops", "lowering")


def recalled(name: str, meaning: Any, make: Callable[[], Compiled]) -> Compiled:
    """What `make` compiles, or what another process compiled of the same meaning."""
    if VERIFY in os.environ:
        return make()
    fresh: list[Compiled] = []

    def made() -> bytes | None:
        fresh.append(make())
        # What Numba compiles holds more than what its text says.
        return None if fresh[0].unread else pickle.dumps(_record(fresh[0]), protocol=5)

    def loaded(content: bytes) -> Compiled:
        if fresh:
            return fresh[0]
        try:
            found: Compiled = pickle.loads(content)
        except Exception as error:
            raise ValueError(name) from error
        return found.made_again(make)

    compiled: Compiled = binary(name, _named(meaning), "kernel", loaded, made)
    return compiled


def note(name: str, meaning: Any) -> None:
    """Note that something went well."""
    if VERIFY not in os.environ:
        binary(name, _named(meaning), "well", bytes, bytes)


def noted(name: str, meaning: Any) -> bool:
    """Whether it was noted, by any process."""
    return VERIFY not in os.environ and is_kept(name, _named(meaning), "well")


def _record(compiled: Compiled) -> Compiled:
    """What is kept: all but what the text was written of, and what was loaded."""
    return replace(compiled, written=None)


def _named(meaning: Any) -> str:
    return f"{np.__version__} {_code()} {digest(meaning)}"


@cache
def _code() -> str:
    """What is another one when some file that compiles was changed."""
    root = Path(__file__).parents[1]
    files = [one for name in _FOLDERS for one in _files(os.fspath(root / name))]
    return digest(sorted(files))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """The files of a folder and of those in it: name, time of the last change, size."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                found = entry.stat()
                yield entry.path, found.st_mtime_ns, found.st_size
