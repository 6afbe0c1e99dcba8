"""Write what a store lacks: all of it, what an earlier run has left, or one part of many.

not there                    laid out, then written
there, incomplete            with resume, or another part of it: if it means the same, gone on with
there, complete              with resume and the same meaning: nothing is done
there, anything else         an error, unless it is to be replaced
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..files.errors import AmongInputsError
from ..files.progress import Progress, shown
from .journal import Journal, Meaning, check_same
from .meaning import read_from
from .tasks import Item, write
from .units import share

Part: TypeAlias = "tuple[int, int] | None"


class Store(Protocol):
    """A store that is written unit by unit."""

    @property
    def path(self) -> str: ...

    @property
    def is_shared(self) -> bool:
        """Whether several processes may write it, and others go on after one that was killed."""

    @property
    def journal(self) -> Journal: ...

    def is_there(self) -> bool: ...

    def is_unfinished(self) -> bool: ...

    def is_begun(self) -> bool:
        """Whether there is something that one could go on with, or that is complete."""

    def create(self, meaning: Meaning) -> bool:
        """Lay it out; false if another process was first."""

    def finish(self) -> None:
        """All units are written."""

    def remove(self) -> None: ...


@dataclass(frozen=True, slots=True)
class How:
    """What `save` was asked for besides the result and its place."""

    resume: bool = False
    part: Part = None
    progress: Progress = None
    overwrite: bool = False


def fill(store: Store, items: Sequence[Item], meaning: Meaning, how: How) -> None:
    """Write the units of all items that are to be written now."""
    if how.part and not store.is_shared:
        suffix = os.path.splitext(store.path)[1]
        raise ValueError(
            f"part={how.part!r}: a {suffix} file cannot be written by several processes; "
            "save as .zarr, or the parts of the array in files of their own"
        )
    if not _begun(store, items, meaning, how):
        return
    count = sum(item.units.count for item in items)
    done = store.journal.done() if how.resume else set()
    numbers = [number for number in share(count, how.part) if number not in done]
    with shown(how.progress, len(numbers)) as advance:
        write(items, numbers, store.journal if store.is_shared else None, advance)
    if not store.is_shared or len(store.journal.done()) >= count:
        store.finish()


def _begun(store: Store, items: Sequence[Item], meaning: Meaning, how: How) -> bool:
    """Lay out the store, or find the one that is being written; false if that is complete."""
    path = store.path
    fresh = not store.is_there()
    if not fresh and how.overwrite and not how.resume:
        if any(read_from(item.array.dask, path) for item in items):
            raise AmongInputsError(
                f"save would replace {path!r}, from which the array is still to be read; "
                "save under another name"
            )
        store.remove()
        fresh = True
    if fresh:
        _check_folder(os.path.dirname(path))
        if store.create(meaning):
            return True
    if not (how.resume or how.part):
        can_go_on = store.is_begun() and store.is_unfinished() and store.journal.meaning()
        more = "resume=True goes on with it, " if can_go_on else ""
        raise FileExistsError(f"{path!r} exists; {more}overwrite=True replaces it")
    count = sum(item.units.count for item in items)
    old = store.journal.meaning()
    if old is None or not store.is_begun():
        raise FileExistsError(
            f"{path!r} exists, and is nothing that save has begun with these variables; "
            "remove it, or save under another name"
        )
    check_same(path, old, meaning)
    if not store.is_unfinished():
        if how.resume or (how.part and not share(count, how.part)):
            # There are more parts than units, and this one is empty.
            return False
        raise FileExistsError(f"{path!r} exists and is complete; resume=True takes it as it is")
    if store.is_shared:
        return True
    # What was left half written is not to be trusted.
    store.remove()
    return store.create(meaning)


def _check_folder(folder: str) -> None:
    """Make the folder, and find out now that it cannot be written, not after an hour."""
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(f"{folder!r} is no folder; save needs one there") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {folder!r} cannot be written")
