"""Which kernel is meant: a file's, a module's or a ready-made one."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..api.stencil import Stencil
from ..language.errors import StencilError
from . import UsageError

# What running a user's file raises. Errors of the user's own classes keep their traceback, as
# only the user knows what they mean.
_RAISED = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
           OSError, RuntimeError, SyntaxError, TypeError, ValueError)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kernel:
    """A stencil, or a ready-made filter: a function of the array, then of options by name.

    Of its parameters `known` can be given, and those `needed` have no default.
    """

    name: str
    function: Any
    known: tuple[str, ...]
    needed: tuple[str, ...]

    @property
    def is_filter(self) -> bool:
        """Whether it is a ready-made filter."""
        return not isinstance(self.function, Stencil)

    def check(self, params: dict[str, Any], complete: bool = True) -> None:
        """Refuse a parameter that it does not have, and miss one that it needs."""
        has = f"it has {', '.join(self.known)}" if self.known else "it has none"
        for param in params:
            if param not in self.known:
                raise UsageError(f"--param {param}: {self.name!r} has no such parameter; {has}")
        for param in self.needed if complete else ():
            if param not in params:
                raise UsageError(f"{self.name!r} needs a value: --param {param}=VALUE")


def find_kernel(text: str) -> Kernel:
    """Find the kernel that `text` names.

    Raises
    ------
    UsageError
        If nothing has that name, or what has it is no stencil.
    StencilError
        If the function is no stencil that can be compiled.
    ImportError
        If the file or module that holds it cannot be imported.
    """
    where, colon, name = text.rpartition(":")
    if text.endswith(".py"):
        return _of_stencil(_only(_from_file(text), text))
    if not colon:
        return _ready_made(text)
    if where in ("ninepoint.filters", "npt.filters"):
        return _ready_made(name)
    if not name or not where:
        raise UsageError(f"{text!r} is not of the form file.py:name or package.module:name")
    if where.endswith(".py"):
        module = _from_file(where)
    else:
        with _imports_from(os.getcwd(), where):
            module = importlib.import_module(where)
    return _of_stencil(_member(module, where, name))


def _of_stencil(found: Stencil) -> Kernel:
    needed = (name for name in found.scalars if name not in found.defaults)
    return Kernel(found.__name__, found, found.scalars, tuple(needed))


def _ready_made(name: str) -> Kernel:
    filters = importlib.import_module("ninepoint.filters")
    if name not in filters.__all__:
        close = difflib.get_close_matches(name, filters.__all__, 1)
        guess = f"did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"there is no ready-made filter {name!r}; {guess}A kernel of yours is named "
            f"file.py:name or package.module:name; ready-made are {', '.join(filters.__all__)}"
        )
    function = getattr(filters, name)
    _, *parameters = inspect.signature(function).parameters.values()
    own = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    needed = (one.name for one in own if one.default is one.empty)
    return Kernel(name, function, (*(one.name for one in own), "axes"), tuple(needed))


def _from_file(path: str) -> ModuleType:
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path!r}")
    # A name of its own: a file random.py must not take the place of the module random.
    spec = importlib.util.spec_from_file_location("_ninepoint_kernel", os.path.abspath(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    # As when Python runs the file: it can import its neighbours.
    with _imports_from(os.path.dirname(os.path.abspath(path)), path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _imports_from(folder: str, what: str) -> Iterator[None]:
    """Let the block import from `folder`, and say in a line what went wrong in it."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        yield
    except StencilError:
        raise
    except _RAISED as error:
        raise ImportError(f"{what} cannot be imported: {_where(error)}") from error


def _where(error: BaseException) -> str:
    """Say what happened, and in which line of the user's."""
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        # Its text names the file and the line itself.
        return words
    ours = (str(Path(__file__).parents[1]), os.path.dirname(importlib.__file__), "<frozen")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(ours)]
    return f"line {own[-1].lineno} of {own[-1].filename}: {words}" if own else words


def _only(module: ModuleType, path: str) -> Stencil:
    """Give the stencil of a file that is named without one."""
    names = _stencil_names(module)
    if not names:
        raise UsageError(f"{path} holds no stencil; put @npt.stencil above a function")
    if len(names) > 1:
        several = ", ".join(names)
        raise UsageError(f"{path} holds several stencils; choose {path}:NAME from {several}")
    return _member(module, path, names[0])


def _member(module: ModuleType, where: str, name: str) -> Stencil:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = _stencil_names(module)
            has = f"it has {', '.join(names)}" if names else "it has no stencil"
            raise UsageError(f"{where} has no {name!r}; {has}")
        found = getattr(found, part)
    if isinstance(found, Stencil):
        return found
    cure = "; put @npt.stencil above it" if callable(found) else f" but {type(found).__name__}"
    raise UsageError(f"{name!r} of {where} is no stencil{cure}")


def _stencil_names(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Stencil)]
