"""The cache: generated modules on disk, with machine code beside them.

A module is named by a hash of its text, of the types it is compiled for, of this package's
support text, of the versions of Python, Numba and llvmlite, of Numba's variables and of the CPU.
So a file never changes once it is written, and holds one function for one machine: many
processes, on many kinds of machines, may write it at once, and all write the same.
A cache that cannot be written or read costs a compilation and a warning, never a result.  What is
damaged, which each file's hash shows, or what others may have written (`private`), is not loaded.

What can only run out of memory is kept as object code and loaded without Numba (`native`); what
may raise a kernel's own errors, and all machine code where the former cannot be, as what Numba
makes of it (`kept`).
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ... import undisturbed
from .. import private
from ..llvm import native
from .interpreted import SETTINGS, in_numpy, interpreted
from .tables import separated

if TYPE_CHECKING:
    from ..llvm.native import Kind
    from .kept import Kept
    from .tables import Numbers

# Object code, and the names of what it calls.
_Code: TypeAlias = tuple[bytes, Sequence[str]]

VARIABLE = "NINEPOINT_CACHE_DIR"

_BACKENDS = Path(__file__).parents[1]

# The modules whose text takes part in what is compiled.
_CODE = (
    "numba/relative", "numba/kept",
    "llvm/building", "llvm/values", "llvm/functions", "llvm/printing",
    "llvm/library", "llvm/halves", "llvm/entries", "llvm/elements", "llvm/commands",
    "llvm/native", "../loops/nodes", "../loops/reading", "../loops/values",
)  # fmt: skip

# The names of our files and of Numba's beside them: the folder may hold others.
_OURS = re.compile(r"\w+_[0-9a-f]{24}\..*|\.new-.*\.py")


@dataclass(frozen=True, slots=True)
class _Loaded:
    band: Any
    from_disk: bool
    native: bool = False


_loaded: dict[Hashable, _Loaded] = {}
_modules: dict[Path, ModuleType] = {}
_refused: set[Path] = set()

# What all kernels call, by its name, and whether it could be loaded.
_COMMANDS = "commands"
_shared: dict[str, bool] = {}


def folder() -> Path:
    """The folder that holds the cache: NINEPOINT_CACHE_DIR, else the user's cache folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    try:
        home = Path.home()
    except RuntimeError:
        # A user without a home, as containers have them.
        return _fallback()
    base = {
        "darwin": home / "Library" / "Caches",
        "win32": Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")),
    }.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return base / "ninepoint"


@cache
def _environment() -> str:
    texts = [(_BACKENDS / f"{name}.py").read_text() for name in _CODE]
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    if SETTINGS.exists():
        settings.append(SETTINGS.read_text())
    parts = [platform.python_version(), *_versions(), *settings, *texts]
    return "\n".join(parts)


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
def _machine() -> str:
    """The CPU and its features, by which Numba too tells machines apart."""
    import llvmlite.binding as llvm

    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        # LLVM does not know how to ask this kind of CPU.
        features = ""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


@cache
def _fallback() -> Path:
    path = Path(tempfile.mkdtemp(prefix="ninepoint-"))
    owner = os.getpid()

    def remove() -> None:
        # A forked child ends earlier, and its parent still needs the folder.
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def load(
    text: str,
    name: str,
    types: Hashable,
    signature: Callable[[], Any],
    fastmath: bool,
    kinds: Sequence[Kind] | None = None,
    elements: bool = False,
) -> Any:
    """The compiled function `band` of a generated module; compiled once in a process.

    `types` are those of its arguments: one text may serve several.  `signature` gives the
    Numba signature; it is called only if Numba is needed.  What has no `kinds`, the types of
    its arguments, may raise errors of its own, and is left to Numba.  With `elements` there is a
    loop over elements as well, where there can be.
    """
    key = (text, name, types, fastmath)
    found = _loaded.get(key)
    if found is None:
        found = undisturbed.undisturbed(
            partial(_load, key, text, name, types, signature, fastmath, kinds, elements)
        )
    return found.band


def _load(
    key: Hashable,
    text: str,
    name: str,
    types: Hashable,
    signature: Callable[[], Any],
    fastmath: bool,
    kinds: Sequence[Kind] | None,
    elements: bool,
) -> _Loaded:
    """Load or compile, one at a time in the process."""
    found = _loaded.get(key)
    if found is None:
        use = f"{types}\n{fastmath}\n{_machine()}"
        path = _written(text, f"{name}_{_key(text, use)}")
        if kinds is None:
            band = _compiled(path, signature(), fastmath)
            statistics = getattr(band, "stats", None)
            hits = statistics is not None and bool(statistics.cache_hits)
            found = _Loaded(band, from_disk=hits)
        elif interpreted():
            found = _Loaded(_module(path).band, from_disk=False)
        else:
            code, numbers = separated(text)
            place = path.with_stem(f"{name}_{_key(code, use)}")
            found = _native(place, text, numbers, kinds, fastmath, elements)
        _loaded[key] = found
    return found


def from_disk(text: str, name: str, types: Hashable, fastmath: bool) -> bool:
    """Whether what `load` gave was on disk already."""
    found = _loaded.get((text, name, types, fastmath))
    return found is not None and found.from_disk


def takes_commands(text: str, name: str, types: Hashable, fastmath: bool) -> bool:
    """Whether what `load` gave also takes whole arrays and commands (see `commands`)."""
    found = _loaded.get((text, name, types, fastmath))
    return found is not None and found.native


def _key(text: str, use: str) -> str:
    return hashlib.sha256(f"{_environment()}\n{use}\n{text}".encode()).hexdigest()[:24]


def module(text: str, name: str, fastmath: bool = False) -> ModuleType:
    """The generated module itself, with nothing of it compiled yet."""
    return undisturbed.undisturbed(
        lambda: _module(_written(text, f"{name}_{_key(text, str(fastmath))}"))
    )


def identifier(name: str) -> str:
    """A name for files: letters, digits and underscores, and not too many for a file system."""
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in name[:100])
    return plain.strip("_") or "kernel"


def _warn(words: str) -> None:
    warnings.warn(words, RuntimeWarning, stacklevel=2)


def _written(text: str, name: str) -> Path:
    """The path of the module, written if it is not there yet."""
    content = text.encode()
    # Not both in a tuple: the second folder is made when it is asked for.
    for place in (folder, _fallback):
        base = place()
        path = base / f"{name}.py"
        try:
            _make_private(base)
            found = _kept_content(path)
            if found == content:
                return path
            if found is not None:
                _warn(f"ninepoint writes {path} anew: it was damaged.")
            _replace(path, content)
        except private.NotPrivate as reason:
            _refuse(base, reason)
        except OSError as error:
            _warn_unusable(base, error)
        else:
            return path
    raise OSError(f"no folder can be written: neither {folder()} nor {_fallback()}.")


def _refuse(base: Path, reason: Exception) -> None:
    if base not in _refused:
        _refused.add(base)
        _warn(
            f"ninepoint does not use the cache folder {base}: {reason} Kernels are "
            f"compiled anew in each process. Set {VARIABLE} to a folder of your own."
        )


def _warn_unusable(base: Path, error: Exception) -> None:
    _warn(
        f"ninepoint cannot use the cache folder {base} ({error}); kernels are compiled "
        f"anew in each process. Set {VARIABLE} to a folder that can be written."
    )


def _make_private(base: Path) -> None:
    """Make the folder if it is not there; nobody else may write into it."""
    if not base.is_dir():
        base.parent.mkdir(parents=True, exist_ok=True)
        base.mkdir(mode=0o700, exist_ok=True)
    private.checked_folder(base)


def _kept_content(path: Path) -> bytes | None:
    """The content of a file of the cache; nothing if there is none that may be used."""
    try:
        return private.read(path)
    except private.NotPrivate as reason:
        _warn(f"ninepoint does not use {path}: {reason}")
    except OSError:
        # It is not there yet; what else may be wrong shows when it is written.
        pass
    return None


def _replace(path: Path, content: bytes) -> None:
    """Write a file so that no process ever sees a part of it, and only its owner may write it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-", suffix=".py")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _module(path: Path) -> ModuleType:
    # The functions of a module know what was compiled of them: it is made once.
    if path not in _modules:
        _modules[path] = _executed(path)
    return _modules[path]


def _executed(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Numba finds the module of a cached function by its name.
    sys.modules[path.stem] = module
    # Not by the loader, which would take bytecode from a file beside it.
    code = compile(path.read_bytes(), path, "exec")
    exec(in_numpy(code) if interpreted() else code, vars(module))
    return module


def text_of(name: str, meaning: str, make: Callable[[], str]) -> str:
    """A short text that `make` gives, and that depends on the meaning and the versions only."""
    file = _home() / f"{identifier(name)}_{_key(meaning, '')}.txt"
    content = _kept_content(file)
    if content is not None:
        try:
            return native.unpacked(content)[0].decode()
        except ValueError:
            _warn_damaged(file)
    text = make()
    _keep(file, native.packed(text.encode(), ()))
    return text


def binary(
    name: str,
    meaning: str,
    suffix: str,
    load: Callable[[bytes], Any],
    make: Callable[[], bytes | None],
) -> Any:
    """What `load` makes of bytes that depend on their meaning alone, and are kept.

    What `load` refuses by a ValueError is made anew.  If nothing is made, nothing is kept.
    """
    file = _home() / _binary(name, meaning, suffix)
    content = _kept_content(file)
    if content is not None:
        try:
            return load(native.unpacked(content)[0])
        except ValueError:
            _warn_damaged(file)
    made = make()
    if made is not None:
        _keep(file, native.packed(made, ()))
    return load(made or b"")


def is_kept(name: str, meaning: str, suffix: str) -> bool:
    """Whether such bytes are kept; no folder is made to find that out."""
    return (folder() / _binary(name, meaning, suffix)).exists()


def _binary(name: str, meaning: str, suffix: str) -> str:
    key = hashlib.sha256(meaning.encode()).hexdigest()[:24]
    return f"{identifier(name)}_{key}.{suffix}"


def _home() -> Path:
    """The folder, if it is there and nobody else may write into it."""
    base = folder()
    try:
        _make_private(base)
    except private.NotPrivate as reason:
        _refuse(base, reason)
    except OSError as error:
        _warn_unusable(base, error)
    else:
        return base
    return _fallback()


def _native(
    path: Path,
    text: str,
    numbers: Numbers,
    kinds: Sequence[Kind],
    fastmath: bool,
    elements: bool,
) -> _Loaded:
    """The object code of a text at a path, made if it is not there, with the text's numbers."""
    whole = native.possible() and _commands_are_shared(path.parent)

    def make() -> _Code:
        from ..llvm import entries
        from ..llvm.building import object_code

        if not whole:
            return object_code(entries.block_alone(text, kinds, fastmath=fastmath))
        return object_code(entries.entries(text, kinds, fastmath=fastmath, with_elements=elements))

    load = partial(native.loaded, numbers=numbers)
    if not whole:
        load = partial(native.loaded_block, numbers=numbers, kinds=kinds)
    band, from_disk = _object(path.with_suffix(".o" if whole else ".block.o"), load, make)
    if band is None:
        raise RuntimeError(f"the machine code of {path.stem} calls what this machine lacks.")
    return _Loaded(band, from_disk, native=whole)


def _commands_are_shared(folder: Path) -> bool:
    """Load what carries out commands, which the entries of all kernels call; once in a process.

    It is kept in this folder.
    """
    if _COMMANDS not in _shared:

        def make() -> _Code | None:
            from ..llvm.building import object_code
            from ..llvm.commands import commands_module

            return object_code(commands_module(), plain=True)

        text = (_BACKENDS / "llvm" / f"{_COMMANDS}.py").read_text()
        file = folder / f"{_COMMANDS}_{_key(text, _machine())}.o"
        shared, _ = _object(file, native.share, make)
        _shared[_COMMANDS] = bool(shared)
    return _shared[_COMMANDS]


def _object(
    file: Path,
    load: Callable[[bytes, Sequence[str]], Any],
    make: Callable[[], _Code | None],
) -> tuple[Any, bool]:
    """What `load` makes of object code, and whether that was on disk.

    The code is made if it is not there; None where it cannot be.
    """
    content = _kept_content(file)
    if content is not None:
        try:
            return load(*native.unpacked(content)), True
        except ValueError:
            _warn_damaged(file)
    made = make()
    if made is None:
        return None, False
    _keep(file, native.packed(*made))
    return load(*made), False


def kept(function: Any) -> Kept:
    """What Numba compiles of a generated function, on disk beside its text."""
    path = Path(function.__code__.co_filename)
    return _kept(path.with_suffix(f".{function.__name__}"))


def kept_by_meaning(name: str, meaning: str) -> Kept:
    """What Numba compiles of that meaning on this machine."""
    return _kept(_home() / f"{identifier(name)}_{_key(meaning, _machine())}.loop")


def _kept(place: Path) -> Kept:
    # Imported here, not above: it imports Numba.
    from .kept import Kept

    return Kept(place, _kept_content, _keep, _warn_damaged)


def _keep(file: Path, content: bytes) -> None:
    try:
        _replace(file, content)
    except OSError as error:
        _warn(
            f"ninepoint cannot keep the machine code of {file.name.partition('.')[0]} "
            f"in {file.parent} ({error!r})."
        )


def _warn_damaged(file: Path) -> None:
    stem = file.name.partition(".")[0]
    _warn(f"ninepoint compiles {stem} anew: its machine code is damaged.")


def _compiled(path: Path, signature: Any, fastmath: bool) -> Any:
    """Compile a module, or load what Numba made of it before.

    `parallel` is never used: Numba's default threading layer aborts the process when two
    threads enter it at once.
    """
    # Imported here, not above: a program that only builds graphs never needs Numba.
    from numba import njit

    function = _module(path).band
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    if not interpreted():
        dispatcher._cache = kept(function)
        dispatcher.compile(signature)
        dispatcher.disable_compile()
    return dispatcher


def clear() -> None:
    """Remove the kernels from the cache folder, and the folder too if nothing else is in it."""
    with undisturbed.lock:
        _loaded.clear()
        _modules.clear()
        base = folder()
        # Earlier versions kept files in a folder inside.
        for place in (base / "__pycache__", base):
            for file in place.glob("*"):
                if _OURS.fullmatch(file.name):
                    file.unlink(missing_ok=True)
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()
