"""Records on disk beside machine code: what kernels were compiled to, and tuned schedules.

    definition, types, request   ->   what was compiled of it in another process
    definition, types, machine   ->   the schedule that was measured to be fastest

So a kernel that was compiled once is neither read nor lowered in the next process.  A record is
named by all that it depends on, the files that compile among it.  A schedule that cannot be read
is as if it were not there: it changes speed, never a result.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.remembered import digest
from ..lowering.schedule import VERIFY, Schedule
from . import cache as disk
from .compiled import Compiled


def recalled(name: str, meaning: Any, make: Callable[[], Compiled]) -> Compiled:
    """What `make` compiles, or what another process compiled of the same meaning."""
    if VERIFY in os.environ:
        return make()
    file = disk.place(name, _named(meaning), "kernel")
    found: Compiled | None = disk.recalled(file, lambda body, _: pickle.loads(body))
    if found is not None:
        return replace(found, again=make)
    made = make()
    # What Numba compiles holds more than what its text says.
    if not made.unread:
        bare = replace(made, written=None, lowering=None)
        disk.keep(file, pickle.dumps(bare, protocol=5))
    return made


def note(name: str, meaning: Any) -> None:
    """Note that something went well."""
    if VERIFY not in os.environ and not noted(name, meaning):
        disk.keep(disk.place(name, _named(meaning), "well"), b"")


def noted(name: str, meaning: Any) -> bool:
    """Whether it was noted, by any process."""
    # No folder is made to find that out.
    file = disk.folder() / disk.named(name, _named(meaning), "well")
    return VERIFY not in os.environ and file.exists()


def _named(meaning: Any) -> str:
    return f"{np.__version__} {disk.code()} {digest(meaning)}"


# Schedules.


def tuned(token: str, types: Sequence[np.dtype]) -> Schedule | None:
    """The schedule that was found for a stencil, named by its `token`, and types of its fields."""
    try:
        found = disk.read_private(disk.folder() / _tuned(token, types))
        return _schedule(json.loads(found.decode()))
    except (disk.NotPrivate, OSError, ValueError, TypeError, LookupError):
        return None


def keep_tuned(token: str, types: Sequence[np.dtype], schedule: Schedule) -> Path:
    """Keep a schedule; the file that it is in."""
    target = disk.home() / _tuned(token, types)
    disk.replace(target, json.dumps(asdict(schedule)).encode())
    return target


def _tuned(token: str, types: Sequence[np.dtype]) -> str:
    return disk.named("tuned", f"{token}\n{' '.join(map(str, types))}\n{disk.machine()}", "json")


def _schedule(known: dict[str, Any]) -> Schedule:
    stages = tuple((str(name), str(how)) for name, how in known["stages"])
    numbers = {name: value for name, value in known.items() if name != "stages"}
    known_names = known.keys() == asdict(Schedule()).keys()
    if not known_names or not all(isinstance(one, int | float) for one in numbers.values()):
        raise ValueError("no schedule of this version")
    return Schedule(**numbers, stages=stages)
