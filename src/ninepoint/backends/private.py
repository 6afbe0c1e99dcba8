"""Files that nobody but their owner could have written.

Machine code is run as it is read, so it is read only where this user or the system's
administrator wrote it: a hash shows that a file is whole, not whose it is.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


class NotPrivate(Exception):
    """Others may have written a file, or may write into a folder."""


def checked_folder(path: Path) -> None:
    """Raise `NotPrivate` if others may put files into a folder."""
    _check(os.stat(path), f"the folder {path}")


def read(path: Path) -> bytes:
    """The content of a file.

    Raises
    ------
    NotPrivate
        If others may have written it, or it is no file: a link, a pipe.
    OSError
        If it cannot be read.
    """
    # A pipe is opened without waiting for its other end, and a link is not followed.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    if path.is_symlink():
        raise NotPrivate(f"{path} is a link.")
    handle = os.open(path, flags)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivate(f"{path} is no file.")
        _check(found, str(path))
        return file.read()


def _check(found: os.stat_result, name: str) -> None:
    if not hasattr(os, "geteuid"):
        # Windows keeps other rules, by which a user's own folder is private.
        return
    if found.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{name} belongs to another user (number {found.st_uid}).")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(f"others may write to {name}; take that from them with 'chmod go-w'.")
