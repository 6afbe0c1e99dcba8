"""Tuned schedules on disk: what was measured to be fastest on this machine.

A file is named by a hash of what a stencil means, of the types of its fields and of the machine.
One that cannot be read is as if it were not there: a schedule changes speed, never a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from ..lowering.schedule import Schedule
from . import private
from .numba.cache import folder


def path(token: str, types: str) -> Path:
    """The file for a stencil, named by its `token`, and the types of its fields."""
    text = f"{token}\n{types}\n{_machine()}"
    return folder() / f"tuned_{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def load(token: str, types: str) -> Schedule | None:
    """The schedule that was found for it, if there is one."""
    try:
        known = json.loads(private.read(path(token, types)).decode())
        return _schedule(known)
    except (private.NotPrivate, OSError, ValueError, TypeError, LookupError):
        return None


def store(token: str, types: str, schedule: Schedule) -> Path:
    """Keep a schedule, so that no process ever sees a part of the file."""
    target = path(token, types)
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".new-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(schedule), file)
        os.replace(temporary, target)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def _schedule(known: dict[str, Any]) -> Schedule:
    default = asdict(Schedule())
    numbers = (int, float)
    kinds = {n: numbers if isinstance(v, numbers) else type(v) for n, v in default.items()}
    known["stages"] = tuple((str(name), str(how)) for name, how in known["stages"])
    if set(known) != set(default) or not all(isinstance(v, kinds[n]) for n, v in known.items()):
        raise ValueError("no schedule of this version")
    return Schedule(**known)


@cache
def _machine() -> str:
    """The processor, as far as one can tell without a compiler."""
    # Not `platform.processor`: it starts a program and holds a lock meanwhile, which a child
    # that is forked then would wait for without end.
    name = ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line for line in lines if line.startswith("model name")), name)
    return f"{platform.machine()} {name} {os.cpu_count()}"
