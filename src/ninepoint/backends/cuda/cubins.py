"""Machine code of a GPU: made of texts by NVRTC, kept on disk, loaded once for each GPU.

    text, options, architecture      ->     bytes in the cache folder      ->     functions by name

A second start of a program loads what is there, and the compiler not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ...base.frozen import frozen
from ...base.remembered import Remembered
from .. import cache as disk
from . import driver
from .source import FAR, OPTIONS

# What a compiler may do with floats beside what keeps every bit: all that "fastmath" means.
# Numbers too small to be normal are numbers in either case: images are dark somewhere.
_FAST = ("--fmad=true", "--prec-div=false", "--prec-sqrt=false")

_modules: Remembered[Functions] = Remembered(512)
_loading = threading.Lock()


@frozen
class Functions:
    """The functions of a module of machine code.

    `made` tells that they were compiled by this process, not loaded from the disk.
    """

    module: Any
    made: bool


def functions(text: str, name: str, fastmath: bool, far: bool, device: int) -> Functions:
    """The functions of a text on a GPU, which must be the current one.

    `name` is for files; `far` is for arrays that are too large for distances of 32 bits.
    """
    key = text, fastmath, far, device
    found = _modules.get(key)
    if found is not None:
        return found
    options = (*OPTIONS, *(_FAST if fastmath else ()), *(FAR if far else ()))
    with _loading:
        return _modules.made(key, lambda: _loaded(text, name, options, device))


def known() -> list[Functions]:
    """The functions that are there by now."""
    return list(_modules.values())


def _loaded(text: str, name: str, options: Sequence[str], device: int) -> Functions:
    architecture = driver.architecture(device)
    meaning = "\n".join((driver.compiler(), architecture, *options, text))
    try:
        module, from_disk = disk.remembered(
            disk.named(name, meaning, "cubin"),
            driver.loaded,
            lambda: driver.compiled(text, name, architecture, options),
        )
        return Functions(module, not from_disk)
    except ValueError as error:
        raise RuntimeError(
            f"the GPU's driver does not take machine code of CUDA's compiler {driver.compiler()} "
            f"({error}); install a newer driver, or the CuPy of an older CUDA."
        ) from error
