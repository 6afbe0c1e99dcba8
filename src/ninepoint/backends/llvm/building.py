"""Object code of texts: that of a kernel, and that of what all kernels share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding as llvm

from ...loops.nodes import Module
from ...loops.reading import LOOKS, functions_of, read
from .. import cache as disk
from . import commands, entries, library, runtime
from .layout import Kind, arrays_of
from .printing import printed, printed_words

# What others call of the texts that all kernels share.
_SHARED: dict[ModuleType, list[str]] = {
    commands: "apart commands".split(),
    entries: "entry part elements".split(),
    runtime: "begin member do hold repeat malloc calloc realloc free swap mapped unmap".split(),
}

# Object code, and the names of what it calls and does not hold.
Code = tuple[bytes, tuple[str, ...]]


def kernel_code(text: str, kinds: Sequence[Kind], *, fastmath: bool) -> Code:
    """The code of a generated text, whose function computes a block (see `printing`)."""
    types = [(kind.dtype.name, kind.ndim) for kind in kinds]
    functions, constants = functions_of(_text(library)), _constants(library)
    loops = read(text, functions, constants, types, fastmath=fastmath)
    for look in LOOKS:
        look(loops)
    return _object_code(printed(loops, arrays_of(kinds)))


def shared_code() -> Code:
    """The code of what all kernels share: functions whose names begin with `ninepoint_`."""
    functions = functions_of(_text(library))
    made = [
        one
        for source, names in _SHARED.items()
        for one in read(_text(source), functions, _constants(source), names=names).functions
    ]
    assert len({one.name for one in made}) == len(made)
    names = [name for names in _SHARED.values() for name in names]
    return _object_code(printed_words(Module(tuple(made)), names), plain=True)


def _text(source: ModuleType) -> str:
    assert source.__file__
    return Path(source.__file__).read_text(encoding="utf-8")


def _constants(source: ModuleType) -> Mapping[str, float]:
    """The numbers that a text has names for."""
    return {name: one for name, one in vars(source).items() if isinstance(one, int | float)}


@cache
def _machine() -> Any:
    """LLVM's description of this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _, cpu, features = disk.machine().split(" ")
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True
    )


@cache
def _context() -> Any:
    """What texts are read in: one in which pointers have no types, which LLVM 15 must be told."""
    llvm.context.opaque_pointers_enabled = True
    made = llvm.create_context()
    llvm.context.opaque_pointers_enabled = False
    return made


def _object_code(text: str, plain: bool = False) -> Code:
    """The object code of a module of LLVM's.

    Of a `plain` one, whose loops are short, variables in registers are nearly all that it needs:
    four passes take a hundredth of the time of all.
    """
    target = _machine()
    parsed = llvm.parse_assembly(text, _context())
    parsed.triple, parsed.data_layout = target.triple, str(target.target_data)
    # Levels above the first keep x[j + 1] in a register until it is x[j], and shuffle vectors for
    # it: 27 points of 64 x 64 x 64 float32 took 530 us instead of 270, and no kernel gained.
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization, options.slp_vectorization = not plain, False
    builder = llvm.create_pass_builder(target, options)
    passes = llvm.create_new_module_pass_manager()
    if plain and hasattr(passes, "add_sroa_pass"):
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(parsed, builder)
    declared = [
        one.name for one in (*parsed.functions, *parsed.global_variables) if one.is_declaration
    ]
    names = tuple(sorted(name for name in declared if not name.startswith("llvm.")))
    return target.emit_object(parsed), names
