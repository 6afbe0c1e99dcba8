"""From a generated function to object code that needs no Numba (see `native`).

Numba types and lowers the function as ever, but makes no wrapper for Python.  The entries are
added before LLVM optimises; where buffers come from, after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit
from numba.core import cgutils, compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrtdynmod import _meminfo_struct_type

_BYTE, _INT, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _BYTE.as_pointer()


# What `_buffers` takes the place of.
_BUFFERS = frozenset({"NRT_MemInfo_alloc_aligned", "NRT_MemInfo_call_dtor"})


class _Library(JITCodeLibrary):
    """A library that is never given to Numba's engine, whose names all of Numba's code sees."""

    def _finalize_final_module(self):
        self._finalized = True


def object_code(
    function: Callable[..., None],
    signature: Any,
    *,
    entries: Callable[[Any, Any], Any],
    **options: Any,
) -> tuple[bytes, tuple[str, ...]] | None:
    """The object code of a function with an entry, and the names of what it calls.

    `entries` writes the module with the entry, from Numba's context and description; `options`
    are those of `njit`.  Nothing if the code holds addresses of this process, or needs more than
    to be loaded.
    """
    with global_compiler_lock:
        library, result, context = _compiled(function, signature, options, entries, _Library)
        # Numba 0.61 has the former alone, and later releases fill in the latter at this point.
        to_rerun = result.reload_init or getattr(library, "_reload_init", ())
        if library.has_dynamic_globals or to_rerun:
            return None
        module = library._final_module
        if _BUFFERS.issuperset(name for name in _called(module) if name.startswith("NRT_")):
            module.link_in(llvm.parse_assembly(str(_buffers(module.triple))))
        if any(one.is_declaration for one in module.global_variables) or _reads_objects(module):
            # Data of Python's or Numba's are not near enough to be reached.
            return None
        code = context.codegen()._tm.emit_object(module)
    return code, _called(module)


def _reads_objects(module: Any) -> bool:
    """Whether it needs Python's objects, as to print and to raise what is known at run time only.

    Numba keeps these for each function under a name of its own, which is then read.
    """
    names = [v.name for v in module.global_variables if v.name.startswith("_ZN08NumbaEnv")]
    text = str(module) if names else ""
    return any(text.count(f"@{name}") > 1 for name in names)


def address_here(
    function: Callable[..., None],
    signature: Any,
    entry: str,
    *,
    entries: Callable[[Any, Any], Any],
    **options: Any,
) -> tuple[int, Any]:
    """Where an entry begins that this process alone can use, and what holds its code.

    All entries are in Numba's one engine, so their names differ.
    """
    with global_compiler_lock:
        library, result, _ = _compiled(function, signature, options, entries, JITCodeLibrary)
        library.codegen.set_env(result.fndesc.env_name, result.environment)
        return library.get_pointer_to_function(entry), result


def _compiled(
    function: Callable[..., None],
    signature: Any,
    options: Mapping[str, Any],
    entries: Callable[[Any, Any], Any],
    kind: Any,
) -> tuple[Any, Any, Any]:
    """A kind of library with a function and its entry, what Numba made, and Numba's context."""
    dispatcher: Any = njit(**{"nogil": True, "error_model": "numpy", **options})(function)
    target = dispatcher.targetdescr
    flags: Any = compiler.Flags()
    target.options.parse_as_flags(flags, dispatcher.targetoptions)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    context = target.target_context
    result = compiler.compile_extra(
        target.typing_context,
        context,
        function,
        args=signature.args,
        return_type=types.void,
        flags=flags,
        locals={},
        library=kind(context.codegen(), function.__module__),
        pipeline_class=dispatcher._compiler.pipeline_class,
    )
    library = result.library
    library.add_ir_module(entries(context, result.fndesc))
    library.finalize()
    return library, result, context


def _called(module: Any) -> tuple[str, ...]:
    """The names of what a module calls and does not hold."""
    called = [f.name for f in module.functions if f.is_declaration]
    called += [v.name for v in module.global_variables if v.is_declaration]
    return tuple(sorted(name for name in called if not name.startswith("llvm.")))


def _buffers(triple: str) -> Any:
    """What `np.empty` calls, from C's `malloc` and `free` instead of Numba's runtime."""
    module = ir.Module("ninepoint.buffers")
    module.triple = triple
    malloc = ir.Function(module, ir.FunctionType(_POINTER, [_WORD]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER]), "free")

    kind = ir.FunctionType(_POINTER, [_WORD, _INT])
    allocate = ir.Function(module, kind, "NRT_MemInfo_alloc_aligned")
    allocate.linkage = "linkonce_odr"
    size, _ = allocate.args
    builder = ir.IRBuilder(allocate.append_basic_block())
    # Of rows that are kept no vector then lies in two cache lines (nanmean of 7 x 7 float32,
    # 512 x 512, in 0.85 of the time; Zen 5).  Numba asks for less.
    head = align = _WORD(64)
    block = builder.call(malloc, [builder.add(builder.add(size, align), head)])
    with builder.if_then(builder.icmp_unsigned("==", block, _POINTER(None)), likely=False):
        builder.ret(_POINTER(None))
    begin = builder.add(builder.add(builder.ptrtoint(block, _WORD), head), align)
    begin = builder.sub(begin, builder.urem(begin, align))
    info = builder.bitcast(block, _meminfo_struct_type.as_pointer())
    values = [_WORD(1), None, None, builder.inttoptr(begin, _POINTER), size]
    for k, (element, value) in enumerate(zip(_meminfo_struct_type.elements, values, strict=True)):
        if value is None:
            value = element(None)
        builder.store(value, cgutils.gep_inbounds(builder, info, 0, k))
    builder.ret(block)

    kind = ir.FunctionType(ir.VoidType(), [_POINTER])
    release = ir.Function(module, kind, "NRT_MemInfo_call_dtor")
    release.linkage = "linkonce_odr"
    builder = ir.IRBuilder(release.append_basic_block())
    builder.call(free, [release.args[0]])
    builder.ret_void()
    return module
