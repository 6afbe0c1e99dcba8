"""Folders that appear under their name when they are whole, and go at once."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex


@contextmanager
def temporary(path: str) -> Iterator[str]:
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
    folder, name = os.path.split(path)
    return os.path.join(folder, f".ninepoint-{token_hex(8)}.tmp-{name}")
