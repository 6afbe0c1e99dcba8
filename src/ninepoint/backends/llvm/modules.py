"""Modules of LLVM IR: that of a kernel, and that of what all kernels share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from llvmlite import ir

from ...loops.reading import LOOKS, functions_of, read, read_words
from . import commands, entries, runtime
from .building import HALVES, LONG_ROW
from .layout import Kind, arrays_of
from .printing import printed, printed_words

# What generated text calls by these names.
_CONSTANTS = {
    "nan": math.nan, "inf": math.inf, "OPEN": 0, "BEYOND": 1, "FILL": 2, "KEEP": 3,
    "LONG_ROW": LONG_ROW, "HALVES": HALVES,
}  # fmt: skip

# What others call of the texts that all kernels share.
_SHARED: dict[ModuleType, str] = {
    commands: "apart commands",
    entries: "entry part elements",
    runtime: "begin member do hold repeat malloc calloc realloc free swap mapped unmap",
}


def kernel_module(text: str, kinds: Sequence[Kind], *, fastmath: bool) -> ir.Module:
    """The module of a generated text, whose function computes a block (see `printing`)."""
    module = ir.Module("ninepoint")
    library = Path(__file__).with_name("library.py").read_text(encoding="utf-8")
    types = [(kind.machine, kind.ndim) for kind in kinds]
    loops = read(text, functions_of(library), _CONSTANTS, types, fastmath=fastmath)
    for look in LOOKS:
        look(loops)
    printed(loops, module, arrays_of(kinds))
    return module


def shared_module() -> ir.Module:
    """The module of what all kernels share: functions whose names begin with `ninepoint_`."""
    module = ir.Module("ninepoint")
    for source, names in _SHARED.items():
        assert source.__file__
        text = Path(source.__file__).read_text(encoding="utf-8")
        constants = {name: one for name, one in vars(source).items() if isinstance(one, int)}
        printed_words(read_words(text, names.split(), constants), module, names.split())
    return module
