"""Pieces of LLVM IR: loops, variables, copies, and how a module becomes object code."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

BIT, BYTE, INT, WORD = (ir.IntType(bits) for bits in (1, 8, 32, 64))
POINTER = BYTE.as_pointer()


# Bytes of a row in memory from which on several rows are made at once, and not one by one.  With
# rows of 2 to 16 KiB, three at once took 0.6 to 1 of the time (Laplace, means, extremes and
# sharpening of 3 x 3; Sobel of 16 bits 1.3), with those of 1 KiB 0.8 to 1.3, as many above 1 as
# below (Zen 5).  Processors of Intel foresee longer streams: up to 16 KiB three at once took 1.05
# to 1.3 of the time, and with longer rows, which the first cache does not hold until the next one
# reads them, one by one lost up to a fifth (extremes of 64 bits, Sapphire Rapids).
LONG_ROW = 1 << 11 if llvm.get_host_cpu_name().startswith("znver") else 1 << 14


def _has_halves() -> bool:
    try:
        features = llvm.get_host_cpu_features()
    except RuntimeError:
        features = {}
    return bool(features.get("avx") and features.get("f16c"))


# Whether this machine converts half floats, several at once.
HALVES = platform.machine().lower() in ("aarch64", "arm64") or _has_halves()


@dataclass(frozen=True, slots=True)
class Loop:
    """The inside of a loop: its index, and the blocks of its next turn and behind it."""

    index: Any
    next: Any
    end: Any


@contextmanager
def loop(builder: Any, stop: Any, start: Any = None, step: int = 1) -> Iterator[Loop]:
    """Write a loop over words from `start` to `stop`."""
    start = WORD(0) if start is None else start
    before = builder.block
    test, body, after, end = map(builder.append_basic_block, ("test", "body", "next", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    index = builder.phi(WORD)
    index.add_incoming(start, before)
    goes_on = builder.icmp_signed("<" if step > 0 else ">", index, stop)
    builder.cbranch(goes_on, body, end)
    builder.position_at_end(body)
    yield Loop(index, after, end)
    if not builder.block.is_terminated:
        builder.branch(after)
    builder.position_at_end(after)
    index.add_incoming(builder.add(index, WORD(step), flags=("nsw",)), after)
    builder.branch(test)
    builder.position_at_end(end)


def variable(builder: Any, kind: Any, value: Any = None, count: int | None = None) -> Any:
    """Memory of this call, from its begin on; where it is written first, it holds `value`."""
    with builder.goto_entry_block():
        place = builder.alloca(kind, count)
    if value is not None:
        builder.store(value, place)
    return place


def function(module: ir.Module, name: str, result: Any, kinds: list[Any]) -> Any:
    """A function of the module, declared if it is not there."""
    found = module.globals.get(name)
    if found is not None:
        return found
    return ir.Function(module, ir.FunctionType(result, kinds), name)


def begun(
    module: ir.Module, name: str, result: Any, kinds: list[Any], internal: bool = False
) -> tuple[Any, Any]:
    """A function of the module, and what writes its body."""
    made = ir.Function(module, ir.FunctionType(result, kinds), name)
    if internal:
        made.linkage = "internal"
    return made, ir.IRBuilder(made.append_basic_block())


def called(builder: Any, name: str, result: Any, *values: Any) -> Any:
    """Call a function of C."""
    kinds = [value.type for value in values]
    return builder.call(function(builder.module, name, result, kinds), values)


def pointer(builder: Any, address: Any, kind: Any = WORD) -> Any:
    """An address, as that of something of a kind."""
    return builder.inttoptr(address, kind.as_pointer())


def word(builder: Any, address: Any, words: int) -> Any:
    """The word that stands so many words on."""
    return builder.load(pointer(builder, builder.add(address, WORD(8 * words))))


def clear(builder: Any, target: Any, size: Any) -> None:
    """Set so many bytes to 0."""
    called(builder, "llvm.memset.p0i8.i64", ir.VoidType(), target, BYTE(0), size, BIT(0))


@cache
def machine() -> Any:
    """LLVM's description of this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        # LLVM does not know how to ask this kind of CPU.
        features = ""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, codemodel="jitdefault", jit=True
    )


def object_code(module: ir.Module, plain: bool = False) -> tuple[bytes, tuple[str, ...]]:
    """The object code of a module, and the names of what it calls and does not hold.

    Of a `plain` one, whose loops are short, variables in registers are nearly all that it needs:
    four passes take a hundredth of the time of all.
    """
    target = machine()
    parsed = llvm.parse_assembly(str(module))
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
