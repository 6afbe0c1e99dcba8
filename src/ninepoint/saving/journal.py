"""What has been written of a store, for those who go on with it.

<folder>/meaning.json     what is being computed: who goes on must mean the same
<folder>/done-<name>      numbers of the units that are written, a line each; a process has its own

A line is appended after its unit is written, so a process that is killed loses the units that it
was at.  The line that it may have been writing lacks its end, and does not count.
"""

from __future__ import annotations

import glob
import json
import os
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..files.replacing import replacement, write_all

Meaning: TypeAlias = "list[tuple[str, Any]]"

# The folder of a store in which these files lie, beside the pieces of an array: readers of Zarr
# look for nested arrays in groups, and would wonder about it there.
FOLDER = ".ninepoint"

# What a reader finds among the attributes of a store that is being written.
INCOMPLETE = "incomplete"
UNFINISHED = "ninepoint.save has not finished this store: parts of it are missing"

# The name of this process, by its number: a child that was forked needs one of its own.
_names: dict[int, str] = {}


@dataclass(frozen=True, slots=True)
class Journal:
    """The folder of such files; goes to every worker with every task."""

    folder: str

    def begin(self, meaning: Meaning) -> None:
        """Write down what will be computed."""
        os.makedirs(self.folder, exist_ok=True)
        text = json.dumps(meaning, indent=1, default=str)
        with replacement(os.path.join(self.folder, "meaning.json")) as (descriptor, _):
            write_all(descriptor, memoryview(text.encode()), 0)

    def meaning(self) -> Meaning | None:
        """What was to be computed; None if nobody has written it down."""
        try:
            with open(os.path.join(self.folder, "meaning.json"), encoding="utf-8") as file:
                return [(label, value) for label, value in json.load(file)]
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def mark(self, number: int) -> None:
        """Note that a unit is written."""
        name = _names.get(os.getpid())
        if name is None:
            host = "".join(c for c in socket.gethostname() if c.isalnum())
            name = f"done-{host}-{os.getpid()}-{secrets.token_hex(4)}"
            name = _names.setdefault(os.getpid(), name)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(os.path.join(self.folder, name), flags, 0o666)
        try:
            os.write(descriptor, b"%d\n" % number)
        finally:
            os.close(descriptor)

    def done(self) -> set[int]:
        """The units that are written."""
        numbers: set[int] = set()
        for path in glob.iglob(os.path.join(glob.escape(self.folder), "done-*")):
            with suppress(FileNotFoundError), open(path, "rb") as file:
                *lines, _ = file.read().split(b"\n")
                numbers.update(int(line) for line in lines if line.isdigit())
        return numbers

    def forget(self) -> None:
        """Remove the numbers: all units are written, or all are to be written again."""
        for path in glob.glob(os.path.join(glob.escape(self.folder), "done-*")):
            with suppress(FileNotFoundError):
                os.unlink(path)


def check_same(path: str, old: Iterable[tuple[str, Any]], new: Meaning) -> None:
    """Raise unless what was begun at `path` means the same."""
    what = changed(old, new)
    if what is not None:
        raise ValueError(
            f"{path!r} was begun with another meaning, so save cannot go on with it: {what}. "
            "overwrite=True, without part=, begins anew"
        )


def changed(old: Iterable[tuple[str, Any]], new: Meaning) -> str | None:
    """Say what differs between two meanings, the first thing that does; None if they are one."""
    # What is compared has been through JSON, where tuples are lists.
    now = dict(json.loads(json.dumps(new, default=str)))
    then = dict(old)
    for label, value in now.items():
        if label not in then:
            return f"{label} was not there"
        if then[label] != value:
            short = all(isinstance(one, int | float | str | list) for one in (value, then[label]))
            texts = str(then[label]), str(value)
            if short and max(map(len, texts)) <= 40:
                return f"{label}: {texts[0]} then, {texts[1]} now"
            return f"{label} has changed"
    gone = next((label for label in then if label not in now), None)
    return None if gone is None else f"{gone} is no longer there"
