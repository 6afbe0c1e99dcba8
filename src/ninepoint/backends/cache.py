"""The cache: generated modules on disk, with Numba's machine code beside them.

A module is named by a hash of its text, of this package's support text and of the versions of
Python, Numba and llvmlite, so that it never changes once it is written: many processes may
write it at once, and all write the same.  Numba keys its own files by the CPU's features.
A cache that cannot be written or read costs a compilation and a warning, never a result.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pickle
import platform
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Hashable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "NINEPOINT_CACHE_DIR"

# Numba compares the time of the source with the one it remembers, so that all processes must
# give a module the same.
_WRITTEN = 1_000_000_000

# What reading a damaged file of machine code has been seen to raise.
_DAMAGED = (EOFError, pickle.UnpicklingError, OSError, ValueError, AttributeError, ImportError,
            IndexError, KeyError, TypeError)  # fmt: skip

_lock = threading.RLock()
_loaded: dict[tuple[str, str, Hashable], Any] = {}
_modules: dict[Path, ModuleType] = {}


def folder() -> Path:
    """The folder that holds the cache: NINEPOINT_CACHE_DIR, else the user's cache folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    home = Path.home()
    base = {
        "darwin": home / "Library" / "Caches",
        "win32": Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")),
    }.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return base / "ninepoint"


@cache
def _environment() -> str:
    texts = [Path(__file__).with_name(f"{n}.py").read_text() for n in ("support", "relative")]
    parts = [platform.python_version(), version("numba"), version("llvmlite"), *texts]
    return "\n".join(parts)


@cache
def _fallback() -> Path:
    return Path(tempfile.mkdtemp(prefix="ninepoint-"))


def load(
    text: str, name: str, types: Hashable, signature: Callable[[], Any], fastmath: bool
) -> Any:
    """The compiled function `band` of a generated module; compiled once in a process.

    `types` are those of its arguments: one text may serve several.  `signature` gives the
    Numba signature; it is called only if Numba is needed.
    """
    key = _key(text, fastmath)
    with _lock:
        found = _loaded.get((key, name, types))
        if found is None:
            found = _compiled(_written(text, f"{name}_{key}"), signature(), fastmath)
            _loaded[key, name, types] = found
        return found


def _key(text: str, fastmath: bool) -> str:
    return hashlib.sha256(f"{_environment()}\n{fastmath}\n{text}".encode()).hexdigest()[:24]


def module(text: str, name: str, fastmath: bool = False) -> ModuleType:
    """The generated module itself, with nothing of it compiled yet."""
    with _lock:
        return _module(_written(text, f"{name}_{_key(text, fastmath)}"))


def identifier(name: str) -> str:
    """A name for files: letters, digits and underscores."""
    return "".join(c if c.isalnum() and c.isascii() else "_" for c in name).strip("_") or "kernel"


def _written(text: str, name: str) -> Path:
    """The path of the module, written if it is not there yet."""
    for base in (folder(), _fallback()):
        path = base / f"{name}.py"
        try:
            if path.exists() and path.read_text(encoding="utf-8") == text:
                return path
            base.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=base, prefix=".new-", suffix=".py")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.utime(temporary, (_WRITTEN, _WRITTEN))
            os.replace(temporary, path)
        except OSError as error:
            warnings.warn(
                f"ninepoint cannot use the cache folder {base} ({error}); kernels are compiled "
                f"anew in each process. Set {VARIABLE} to a folder that can be written.",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            return path
    raise OSError(f"no folder can be written: neither {folder()} nor {_fallback()}.")


def _module(path: Path) -> ModuleType:
    # The functions of a module know what was compiled of them: it is made once.
    if path not in _modules:
        _modules[path] = _executed(path)
    return _modules[path]


def _executed(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Numba finds the module of a cached function by its name.
    sys.modules[path.stem] = module
    written = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def _compiled(path: Path, signature: Any, fastmath: bool) -> Any:
    # Imported here, not above: a program that only builds graphs never needs Numba.
    from .support import compiled

    try:
        return compiled(_module(path).band, signature, fastmath=fastmath)
    except _DAMAGED as error:
        warnings.warn(
            f"ninepoint recompiles {path.stem}: its machine code could not be read ({error!r}).",
            RuntimeWarning,
            stacklevel=2,
        )
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
            stale.unlink(missing_ok=True)
        _modules.pop(path, None)
        return compiled(_module(path).band, signature, fastmath=fastmath)


def clear() -> None:
    """Remove everything from the cache folder."""
    with _lock:
        _loaded.clear()
        _modules.clear()
        shutil.rmtree(folder(), ignore_errors=True)
