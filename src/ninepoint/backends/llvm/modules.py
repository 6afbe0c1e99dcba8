"""Modules of LLVM IR: that of a kernel, and that of what all kernels share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from llvmlite import ir

from ...loops.reading import LOOKS, functions_of, read, read_words
from . import commands, entries, native, runtime
from .building import HALVES, LONG_ROW, POINTER, WORD, begun, element, pointer, word
from .native import Kind
from .printing import printed, printed_words

# What generated text calls by these names.
_CONSTANTS = {
    "nan": math.nan, "inf": math.inf, "OPEN": 0, "BEYOND": 1, "FILL": 2, "KEEP": 3,
    "LONG_ROW": LONG_ROW, "HALVES": HALVES,
}  # fmt: skip

# What others call of the texts that all kernels share.
_SHARED: dict[ModuleType, str] = {
    commands: "apart commands",
    entries: "entry together part elements",
    runtime: "begin member do hold repeat malloc calloc realloc free swap",
}


def kernel_module(text: str, kinds: Sequence[Kind], *, fastmath: bool) -> ir.Module:
    """The module of a generated text.

    Its function computes a block from views and values (see `entries`); it gives 0 if all went
    well.
    """
    module = ir.Module("ninepoint")
    library = Path(__file__).with_name("library.py").read_text(encoding="utf-8")
    types = [(kind.machine, kind.ndim) for kind in kinds]
    loops = read(text, functions_of(library), _CONSTANTS, types, fastmath=fastmath)
    for look in LOOKS:
        look(loops)
    band = printed(loops, module)
    made, builder = begun(module, native.BLOCK, WORD, [WORD, WORD])
    views, others = made.args
    words = 2 * kinds[0].ndim + 1
    values = [word(builder, views, k) for k in range(words * native.arrays_of(kinds))]
    values[::words] = [builder.inttoptr(one, POINTER) for one in values[::words]]
    held = ir.LiteralStructType([one.type for one in band.args[len(values) :]])
    place = pointer(builder, others, held)
    values += [builder.load(element(builder, place, k)) for k in range(len(held.elements))]
    # Its loops stay as they are optimised by themselves.
    builder.ret(builder.call(band, values, attrs=("noinline",)))
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
