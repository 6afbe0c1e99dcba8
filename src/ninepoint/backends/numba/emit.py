"""From a generated function to object code that needs no Numba (see `native`).

Numba types and lowers the function as ever, but makes no wrapper for Python.  The entry is
added before LLVM optimises; where buffers come from, after that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit
from numba.core import cgutils, compiler, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrtdynmod import _meminfo_struct_type
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import as_dtype

from . import native
from .together import together

_BYTE, _INT, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_POINTER = _BYTE.as_pointer()


class _Library(JITCodeLibrary):
    """A library that is never given to Numba's engine, whose names all of Numba's code sees."""

    def _finalize_final_module(self):
        self._finalized = True


def object_code(
    function: Callable[..., None], signature: Any, *, fastmath: bool
) -> tuple[bytes, tuple[str, ...]] | None:
    """The object code of a function with an entry, and the names of what it calls.

    Nothing if it holds addresses of this process, or needs more than to be loaded.
    """
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    target = dispatcher.targetdescr
    flags: Any = compiler.Flags()
    target.options.parse_as_flags(flags, dispatcher.targetoptions)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    context = target.target_context
    with global_compiler_lock:
        result = compiler.compile_extra(
            target.typing_context,
            context,
            function,
            args=signature.args,
            return_type=types.void,
            flags=flags,
            locals={},
            library=_Library(context.codegen(), function.__module__),
        )
        library = result.library
        library.add_ir_module(_entry(context, result.fndesc))
        library.add_ir_module(together(context, result.fndesc, _argument))
        library.finalize()
        # Numba 0.61 has the former alone, and later releases fill in the latter at this point.
        to_rerun = result.reload_init or getattr(library, "_reload_init", ())
        if library.has_dynamic_globals or to_rerun:
            return None
        module = library._final_module
        module.link_in(llvm.parse_assembly(str(_buffers(module.triple))))
        code = context.codegen()._tm.emit_object(module)
    called = [f.name for f in module.functions if f.is_declaration]
    called += [v.name for v in module.global_variables if v.is_declaration]
    return code, tuple(sorted(name for name in called if not name.startswith("llvm.")))


def _entry(context: Any, described: Any) -> Any:
    """A function that Python calls as it calls those of C (METH_FASTCALL).

    It calls Python's functions only, none of its data: those are not near enough to be reached.
    """
    module = context.create_module("ninepoint.entry")
    convention = context.call_conv
    callee = ir.Function(
        module,
        convention.get_function_type(described.restype, described.argtypes),
        described.llvm_func_name,
    )
    entry = ir.Function(
        module, ir.FunctionType(_POINTER, [_POINTER, _POINTER, _WORD]), native.ENTRY
    )
    array_type, arguments, count = entry.args
    builder = ir.IRBuilder(entry.append_basic_block())

    def python(name: str, result: Any, *values: Any, more: bool = False) -> Any:
        kind = ir.FunctionType(result, [value.type for value in values], var_arg=more)
        return builder.call(cgutils.get_or_insert_function(module, kind, name), values)

    def refuse_unless(fits: Any) -> None:
        with builder.if_then(builder.not_(fits), likely=False):
            python("PyErr_BadArgument", _INT)
            builder.ret(_POINTER(None))

    refuse_unless(builder.icmp_signed("==", count, _WORD(len(described.argtypes))))
    values = []
    for k, kind in enumerate(described.argtypes):
        argument = _field(builder, arguments, 8 * k, _POINTER)
        if isinstance(kind, types.Array):
            kind_of = _field(builder, argument, native.TYPE, _POINTER)
            refuse_unless(
                builder.icmp_signed(
                    "!=", python("PyType_IsSubtype", _INT, kind_of, array_type), _INT(0)
                )
            )
            refuse_unless(_fits(builder, argument, kind))
            values.append(_array(context, builder, argument, kind))
        else:
            values.append(_number(context, builder, argument, kind, python))
    if not all(isinstance(kind, types.Array) for kind in described.argtypes):
        raised = builder.ptrtoint(python("PyErr_Occurred", _POINTER), _WORD)
        with builder.if_then(builder.icmp_signed("!=", raised, _WORD(0)), likely=False):
            builder.ret(_POINTER(None))
    thread = python("PyEval_SaveThread", _POINTER)
    status, _ = convention.call_function(
        builder,
        callee,
        described.restype,
        described.argtypes,
        values,
        # As in Numba's own wrappers: loops stay as they were optimised by themselves.
        attrs=("noinline",),
    )
    python("PyEval_RestoreThread", ir.VoidType(), thread)
    with builder.if_then(status.is_error, likely=False):
        # Nothing else is raised by text that reads what it was proved to have.
        builder.ret(python("PyErr_NoMemory", _POINTER))
    empty = cgutils.global_constant(builder, "ninepoint.none", ir.Constant(_BYTE, 0))
    builder.ret(python("Py_BuildValue", _POINTER, empty, more=True))
    return module


def _argument(
    context: Any,
    builder: Any,
    argument: Any,
    kind: Any,
    array_type: Any,
    python: Callable[..., Any],
    refuse_unless: Callable[[Any], None],
) -> Any:
    """The value of the type `kind` that a Python object is."""
    if not isinstance(kind, types.Array):
        return _number(context, builder, argument, kind, python)
    kind_of = _field(builder, argument, native.TYPE, _POINTER)
    is_array = python("PyType_IsSubtype", _INT, kind_of, array_type)
    refuse_unless(builder.icmp_signed("!=", is_array, _INT(0)))
    refuse_unless(_fits(builder, argument, kind))
    return _array(context, builder, argument, kind)


def _number(
    context: Any, builder: Any, argument: Any, kind: Any, python: Callable[..., Any]
) -> Any:
    """A scalar of the type `kind` from a Python number; what it raises stays to be asked for."""
    wanted = context.get_value_type(kind)
    if isinstance(kind, types.Complex):
        half = ir.DoubleType()
        number = context.make_complex(builder, kind)
        narrow = wanted.elements[0]
        for part, name in (("real", "PyComplex_RealAsDouble"), ("imag", "PyComplex_ImagAsDouble")):
            value = python(name, half, argument)
            setattr(number, part, value if narrow == half else builder.fptrunc(value, narrow))
        return number._getvalue()
    if isinstance(kind, types.Float):
        value = python("PyFloat_AsDouble", ir.DoubleType(), argument)
        return value if wanted == value.type else builder.fptrunc(value, wanted)
    if kind == types.boolean:
        return builder.icmp_signed(">", python("PyObject_IsTrue", _INT, argument), _INT(0))
    name = "PyLong_AsLongLong" if kind.signed else "PyLong_AsUnsignedLongLong"
    value = python(name, _WORD, argument)
    return value if wanted == _WORD else builder.trunc(value, wanted)


def _field(builder: Any, base: Any, offset: int, kind: Any) -> Any:
    address = cgutils.pointer_add(builder, base, offset, kind.as_pointer())
    return builder.load(address)


def _fits(builder: Any, array: Any, kind: Any) -> Any:
    """Whether an array has the axes, the dtype and the properties that the code relies on."""
    dtype = as_dtype(kind.dtype)
    at = _field(builder, array, native.DTYPE, _POINTER)
    flags = _INT(native.ALIGNED | (native.WRITEABLE if kind.mutable else 0))
    found = builder.and_(_field(builder, array, native.FLAGS, _INT), flags)
    order = _field(builder, at, native.ORDER, _BYTE)
    tests = [
        builder.icmp_signed("==", _field(builder, array, native.NDIM, _INT), _INT(kind.ndim)),
        builder.icmp_signed("==", found, flags),
        builder.icmp_signed("==", _field(builder, at, native.KIND, _BYTE), _BYTE(ord(dtype.kind))),
        builder.icmp_signed(
            "==", _field(builder, at, native.ITEMSIZE, _WORD), _WORD(dtype.itemsize)
        ),
        builder.icmp_signed("!=", order, _BYTE(ord(">"))),
    ]
    fits = tests[0]
    for test in tests[1:]:
        fits = builder.and_(fits, test)
    return fits


def _array(context: Any, builder: Any, array: Any, kind: Any) -> Any:
    """Numba's view of an array; it owns nothing."""
    view = make_array(kind)(context, builder)
    data = _field(builder, array, native.DATA, _POINTER)
    sizes = [
        [
            _field(builder, _field(builder, array, place, _POINTER), 8 * axis, _WORD)
            for axis in range(kind.ndim)
        ]
        for place in (native.SHAPE, native.STRIDES)
    ]
    populate_array(
        view,
        data=builder.bitcast(data, view.data.type),
        shape=cgutils.pack_array(builder, sizes[0]),
        strides=cgutils.pack_array(builder, sizes[1]),
        itemsize=_WORD(as_dtype(kind.dtype).itemsize),
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


def _buffers(triple: str) -> Any:
    """What `np.empty` calls, from C's `malloc` and `free` instead of Numba's runtime."""
    module = ir.Module("ninepoint.buffers")
    module.triple = triple
    malloc = ir.Function(module, ir.FunctionType(_POINTER, [_WORD]), "malloc")
    free = ir.Function(module, ir.FunctionType(ir.VoidType(), [_POINTER]), "free")

    kind = ir.FunctionType(_POINTER, [_WORD, _INT])
    allocate = ir.Function(module, kind, "NRT_MemInfo_alloc_aligned")
    allocate.linkage = "linkonce_odr"
    size, align = allocate.args
    builder = ir.IRBuilder(allocate.append_basic_block())
    align = builder.zext(align, _WORD)
    head = _WORD(64)
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
