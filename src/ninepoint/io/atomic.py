"""A file, or a folder, appears under its name when it is whole, or not at all.

What is being written has a name that starts with a dot and ends in .tmp, so that no pattern for
images finds it if the process is killed.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex


@contextmanager
def replacement(path: str) -> Iterator[str]:
    """Give the temporary name of a new file, which is renamed to `path` at the end.

    The new file lies in the same folder, is on the disk before it gets its name, and is removed
    if anything fails; then whatever was at `path` is as it was.
    """
    temporary = _hidden(path)
    # Exclusive and without links: never write through something that somebody else put there.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    os.close(os.open(temporary, flags, 0o666))
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_whole(path: str, data: bytes) -> None:
    """Write a file, which is there when all of it is."""
    with replacement(path) as temporary:
        write_at(temporary, memoryview(data), 0)


def write_at(path: str, data: memoryview, at: int) -> None:
    """Write `data` from byte `at` of a file on; one that is gone stays gone."""
    with open(path, "rb+", buffering=0) as file:
        file.seek(at)
        # The system may take it piece by piece.
        while data:
            data = data[file.write(data) :]


def sync_folder(folder: str) -> None:
    """Make the new names last through a power cut, where the system can do that for a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def temporary_folder(path: str) -> Iterator[str]:
    """Give a name beside `path`, and remove what is left there."""
    name = _hidden(path)
    try:
        yield name
    finally:
        shutil.rmtree(name, ignore_errors=True)


def renamed(name: str, path: str) -> bool:
    """Give a folder its name; false if another process was first."""
    try:
        os.rename(name, path)
    except OSError as error:
        # What Linux, BSD and Windows say of a folder that is there and not empty.
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.EACCES) and os.path.isdir(path):
            return False
        raise
    return True


def removed(path: str) -> None:
    """Remove a folder, by another name first: nobody finds one that is half gone."""
    gone = _hidden(path)
    os.rename(path, gone)
    shutil.rmtree(gone)


def _hidden(path: str) -> str:
    return os.path.join(os.path.dirname(path), f".ninepoint-{token_hex(8)}.tmp")
