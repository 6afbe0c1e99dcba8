"""The cache: machine code on disk, what kernels were read to, and tuned schedules.

A file is named by a hash of what it is made of: a text or another meaning, the types that it is
for, what compiles in this package, the versions of Python, Numba and llvmlite, Numba's variables
and the CPU.  So a file never changes once it is written, and is for one machine: many
processes, on many kinds of machines, may write it at once, and all write the same.

A cache that cannot be written or read costs a compilation and a warning, never a result.  What is
damaged, which each file's hash shows, is not loaded.  Nor is what others may have written: machine
code is run as it is read, and a hash shows that a file is whole, not whose it is.

What is not there yet is compiled, and `announced` where that takes long.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import platform
import re
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..base import limits, undisturbed

T = TypeVar("T")

VARIABLE = "NINEPOINT_CACHE_DIR"

# Where Numba also looks for its settings.
SETTINGS = Path(".numba_config.yaml")

# The folders whose modules say what is compiled.
_FOLDERS = ("analysis", "backends", "gufuncs", "language", "loops", "lowering")

# The names of our files and of Numba's beside them: the folder may hold others.
_OURS = re.compile(r"\w+_[0-9a-f]{24}\..*|\.new-.*")

_refused: set[Path] = set()


class Outside(IndexError):
    """An index outside an array.

    Its arguments say where: the function, the row below its `def`, and the array's name there.
    Object code that is kept on disk names this class.
    """


class NotPrivate(Exception):
    """Others may have written a file, or may write into a folder."""


def folder() -> Path:
    """The folder that holds the cache: NINEPOINT_CACHE_DIR, else the user's cache folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    try:
        home = Path.home()
    except RuntimeError:
        # A user without a home, as containers have them.
        user = os.getuid() if hasattr(os, "getuid") else ""
        return Path(tempfile.gettempdir()) / f"ninepoint-{user}"
    base = {
        "darwin": home / "Library" / "Caches",
        "win32": Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")),
    }.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return base / "ninepoint"


# Names.


@cache
def code() -> str:
    """What is another one when some module that compiles was changed."""
    found, root = hashlib.sha256(), Path(__file__).parents[1]
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()


@cache
def _environment() -> str:
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    if SETTINGS.exists():
        settings.append(SETTINGS.read_text())
    # An interrupt while Python looks for a module may leave its lock of imports held.
    versions = undisturbed.undisturbed(_versions)
    return "\n".join([platform.python_version(), *versions, *settings, code(), machine()])


def _versions() -> tuple[str, str]:
    """Of Numba and of llvmlite, without importing the former."""
    import llvmlite

    package = importlib.util.find_spec("numba")
    if package is not None and package.origin is not None:
        numba = Path(package.origin).with_name("_version.py")
        if numba.exists():
            return numba.read_text(), llvmlite.__version__
    # Imported here, not above: it takes 15 ms.
    from importlib.metadata import version

    return version("numba"), llvmlite.__version__


@cache
def machine() -> str:
    """The CPU and its features, by which Numba too tells machines apart."""
    return undisturbed.undisturbed(_machine)


def _machine() -> str:
    from llvmlite import binding as llvm

    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        # LLVM does not know how to ask this kind of CPU.
        features = ""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def named(name: str, meaning: str, suffix: str) -> str:
    """The file of what depends on its meaning alone."""
    found = hashlib.sha256(meaning.encode()).hexdigest()[:24]
    return f"{identifier(name)}_{found}.{suffix}"


def code_named(name: str, meaning: str, suffix: str) -> str:
    """The file of what is compiled of that meaning, by these versions, on this machine."""
    return named(name, f"{_environment()}\n{meaning}", suffix)


def identifier(name: str) -> str:
    """A name for files: letters, digits and underscores, and not too many for a file system."""
    return re.sub("[^0-9A-Za-z]", "_", name[:100]).strip("_") or "kernel"


# Folders.


def _is_usable() -> bool:
    """Whether the folder is there, which is made, and nobody else may write into it."""
    base = folder()
    try:
        if not base.is_dir():
            base.parent.mkdir(parents=True, exist_ok=True)
            base.mkdir(mode=0o700, exist_ok=True)
        _check(os.stat(base), f"the folder {base}")
    except (NotPrivate, OSError) as error:
        if base not in _refused:
            _refused.add(base)
            _warn(
                f"ninepoint does not use the cache folder {base} ({error}); kernels are compiled "
                f"anew in each process. Set {VARIABLE} to a folder of your own."
            )
        return False
    return True


def _check(found: os.stat_result, name: str) -> None:
    """Raise `NotPrivate` if others may write to a file, or into a folder."""
    if not hasattr(os, "geteuid"):
        # Windows keeps other rules, by which a user's own folder is private.
        return
    if found.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{name} belongs to another user (number {found.st_uid})")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(f"others may write to {name}; take that from them with 'chmod go-w'")


def _warn(words: str) -> None:
    warnings.warn(words, RuntimeWarning, stacklevel=2)


# Files.


def _private(path: Path) -> bytes:
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
    flags |= getattr(os, "O_BINARY", 0)
    if path.is_symlink():
        raise NotPrivate(f"{path} is a link")
    handle = os.open(path, flags)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivate(f"{path} is no file")
        _check(found, str(path))
        return file.read()


def keep(file: str, value: Any) -> Path:
    """Keep a value, or warn where that cannot be; where it is.

    No process ever sees a part of it, and only its owner may write it.
    """
    path, temporary = folder() / file, None
    if not _is_usable():
        return path
    body = pickle.dumps(value, protocol=5)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as whole:
            whole.write(_digest(file, body) + body)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        _warn(f"ninepoint cannot keep {path} ({error!r}).")
    return path


def _digest(file: str, body: bytes) -> bytes:
    """The hash that a file of this name begins with."""
    return hashlib.sha256(file.encode() + body).digest()


def recalled(file: str, load: Callable[[Any], T]) -> T | None:
    """What `load` makes of the value in a file, if it is there.

    What it refuses by an error is as if it were not there.
    """
    path = folder() / file
    if not _is_usable():
        return None
    try:
        kept = _private(path)
    except NotPrivate as reason:
        _warn(f"ninepoint does not use {path}: {reason}.")
    except OSError:
        # It is not there yet; what else may be wrong shows when it is written.
        pass
    else:
        try:
            if kept[:32] != _digest(file, kept[32:]):
                raise ValueError("not what was written")
            return load(pickle.loads(kept[32:]))
        except Exception:
            # What is in a whole file may mean something else by now: there is no one way to fail.
            _warn(f"ninepoint does not use {path}: it is damaged.")
    return None


def remembered(file: str, load: Callable[[Any], T], make: Callable[[], Any]) -> tuple[T, bool]:
    """What `load` makes of a value, and whether that was on disk.

    It is made if it is not there, or if `load` refuses it.
    """
    found = recalled(file, load)
    if found is not None:
        return found, True
    made = make()
    keep(file, made)
    return load(made), False


def clear() -> None:
    """Remove the kernels from the cache folder, and the folder too if nothing else is in it."""
    with undisturbed.lock:
        base = folder()
        for file in base.glob("*"):
            if _OURS.fullmatch(file.name):
                file.unlink(missing_ok=True)
        if base.is_dir() and not any(base.iterdir()):
            base.rmdir()


# What is not there yet takes long.


# Silences what `announced` says.
QUIET = "NINEPOINT_QUIET"


@contextmanager
def announced(name: str, dtypes: Sequence[np.dtype]) -> Iterator[None]:
    """Say once that a kernel is compiled, if that takes longer than nobody minds."""
    if os.environ.get(QUIET):
        yield
        return
    words = f"compiling '{name}' for {', '.join(map(str, dtypes))}"
    clock = threading.Timer(limits.current.announced_seconds, _say, [words])
    clock.daemon = True
    clock.start()
    try:
        yield
    finally:
        clock.cancel()
        clock.join()


@cache
def _say(words: str) -> None:
    print(f"ninepoint: {words} ..., which is kept on disk for other runs", file=sys.stderr)
