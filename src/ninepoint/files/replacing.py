"""A file appears under its name when it is whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def replacement(path: str) -> Iterator[tuple[int, str]]:
    """Give a new file, open for writing, and its temporary name; rename it to `path` at the end.

    The new file lies in the same folder, is on the disk before it gets its name, and is removed
    if anything fails; then whatever was at `path` is as it was.  Its name starts with a dot
    and ends in .tmp, so that no pattern for images finds it if the process is killed.
    """
    temporary = os.path.join(os.path.dirname(path), f".ninepoint-{secrets.token_hex(8)}.tmp")
    # O_EXCL and O_NOFOLLOW: never write through something that somebody else has put there.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"):
        flags |= getattr(os, name, 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        try:
            yield descriptor, temporary
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_all(descriptor: int, data: memoryview, at: int) -> None:
    """Write all of `data` from byte `at` on; the system may take it piece by piece."""
    while data:
        if hasattr(os, "pwrite"):
            written = os.pwrite(descriptor, data, at)
        else:  # Windows
            os.lseek(descriptor, at, os.SEEK_SET)
            written = os.write(descriptor, data)
        data, at = data[written:], at + written


def sync_folder(folder: str) -> None:
    """Make the new names last through a power cut, where the system can do that for a folder."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
