"""The entry that takes all parts of a job at once, and shares them among a crew.

    together(crew, threads, *arguments of a part, *arguments of the next part, ...)

The arguments of all parts are looked at first, as the entry for one part does it, and kept as
machine code has them.  So the threads of a crew run them without Python (see `..crew`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from . import native

_INT, _WORD = ir.IntType(32), ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


def together(context: Any, described: Any, argument_of: Callable[..., Any]) -> Any:
    """A module with the entry, a function that Python calls as it calls those of C.

    `argument_of` writes how a Python object becomes an argument.
    """
    module = context.create_module("ninepoint.together")
    kinds = described.argtypes
    slot = ir.LiteralStructType([context.get_value_type(kind) for kind in kinds])
    size = context.get_abi_sizeof(slot)
    part = _part(context, module, described, slot, size)

    kind = ir.FunctionType(_POINTER, [_POINTER, _POINTER, _WORD])
    entry = ir.Function(module, kind, native.TOGETHER)
    array_type, arguments, count = entry.args
    builder = ir.IRBuilder(entry.append_basic_block())

    def python(name: str, result: Any, *values: Any, more: bool = False) -> Any:
        kind = ir.FunctionType(result, [value.type for value in values], var_arg=more)
        return builder.call(cgutils.get_or_insert_function(module, kind, name), values)

    def argument_at(place: Any) -> Any:
        address = cgutils.pointer_add(builder, arguments, builder.mul(place, _WORD(8)))
        return builder.load(builder.bitcast(address, _POINTER.as_pointer()))

    with builder.if_then(builder.icmp_signed("<", count, _WORD(2)), likely=False):
        python("PyErr_BadArgument", _INT)
        builder.ret(_POINTER(None))
    crew, threads = (
        python("PyLong_AsLongLong", _WORD, argument_at(_WORD(place))) for place in range(2)
    )
    parts = builder.sdiv(builder.sub(count, _WORD(2)), _WORD(len(kinds)))
    room = python("malloc", _POINTER, builder.add(builder.mul(parts, _WORD(size)), _WORD(1)))
    with builder.if_then(cgutils.is_null(builder, room), likely=False):
        builder.ret(python("PyErr_NoMemory", _POINTER))

    def leave() -> None:
        python("free", ir.VoidType(), room)
        builder.ret(_POINTER(None))

    def refuse_unless(fits: Any) -> None:
        with builder.if_then(builder.not_(fits), likely=False):
            python("PyErr_BadArgument", _INT)
            leave()

    whole = builder.add(builder.mul(parts, _WORD(len(kinds))), _WORD(2))
    refuse_unless(builder.icmp_signed("==", count, whole))
    with cgutils.for_range(builder, parts) as loop:
        first = builder.add(builder.mul(loop.index, _WORD(len(kinds))), _WORD(2))
        held = _slot(builder, room, loop.index, slot, size)
        for k, kind in enumerate(kinds):
            given = argument_at(builder.add(first, _WORD(k)))
            value = argument_of(context, builder, given, kind, array_type, python, refuse_unless)
            builder.store(value, cgutils.gep_inbounds(builder, held, 0, k))
    if not all(isinstance(kind, types.Array) for kind in kinds):
        raised = python("PyErr_Occurred", _POINTER)
        with builder.if_then(cgutils.is_not_null(builder, raised), likely=False):
            leave()
    thread = python("PyEval_SaveThread", _POINTER)
    kind = ir.FunctionType(_WORD, [_WORD, _WORD, part.type, _WORD, _WORD])
    do = builder.load(builder.inttoptr(crew, kind.as_pointer().as_pointer()))
    failed = builder.call(do, [crew, threads, part, builder.ptrtoint(room, _WORD), parts])
    python("PyEval_RestoreThread", ir.VoidType(), thread)
    python("free", ir.VoidType(), room)
    with builder.if_then(builder.icmp_signed("!=", failed, _WORD(0)), likely=False):
        # Nothing else is raised by text that reads what it was proved to have.
        builder.ret(python("PyErr_NoMemory", _POINTER))
    empty = cgutils.global_constant(builder, "ninepoint.nothing", ir.Constant(ir.IntType(8), 0))
    builder.ret(python("Py_BuildValue", _POINTER, empty, more=True))
    return module


def _slot(builder: Any, room: Any, index: Any, slot: Any, size: int) -> Any:
    """Where the arguments of a part are kept."""
    address = cgutils.pointer_add(builder, room, builder.mul(index, _WORD(size)))
    return builder.bitcast(address, slot.as_pointer())


def _part(context: Any, module: Any, described: Any, slot: Any, size: int) -> Any:
    """A function that runs a part, which is one of many at an address; 0 if all went well."""
    convention = context.call_conv
    callee = ir.Function(
        module,
        convention.get_function_type(described.restype, described.argtypes),
        described.llvm_func_name,
    )
    part = ir.Function(module, ir.FunctionType(_WORD, [_WORD, _WORD]), "ninepoint.part")
    part.linkage = "internal"
    room, index = part.args
    builder = ir.IRBuilder(part.append_basic_block())
    held = _slot(builder, builder.inttoptr(room, _POINTER), index, slot, size)
    values = [
        builder.load(cgutils.gep_inbounds(builder, held, 0, k))
        for k in range(len(described.argtypes))
    ]
    status, _ = convention.call_function(
        builder,
        callee,
        described.restype,
        described.argtypes,
        values,
        # As in Numba's own wrappers: loops stay as they were optimised by themselves.
        attrs=("noinline",),
    )
    builder.ret(builder.zext(status.is_error, _WORD))
    return part
