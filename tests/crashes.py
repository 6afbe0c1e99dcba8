"""Machine code that may touch memory it must not: tried in this process, which goes on.

    signal_of(band, arguments)     ->     0, or SIGSEGV

The signal's handler jumps back to before the call (`sigsetjmp`), as no function of Python could:
so what does the call is written for LLVM.  To fork for each call instead takes 30 ms, as the
process is large, and there are thousands of them.  Only functions that run no Python can be left
so.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

_INT, _WORD, _POINTER = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()

# Room for what `sigsetjmp` keeps, and for what `sigaction` tells: more than any C library needs.
_ROOM = 1024

_SIGNALS = (signal.SIGSEGV, signal.SIGBUS)
_lock = threading.Lock()

# Machine code, and how Python calls it: these stay for as long as it may be called.
_kept: list[Any] = []
_libc = ctypes.CDLL(None)


def signal_of(band: Callable[..., Any], arguments: Sequence[Any]) -> int:
    """The signal that ends a call of machine code on this thread, or 0; what it raises is lost."""
    call, handler = _functions()
    with _lock:
        before = [ctypes.create_string_buffer(_ROOM) for _ in _SIGNALS]
        for one, kept in zip(_SIGNALS, before, strict=True):
            _libc.sigaction(one, None, kept)
            _libc.signal(one, ctypes.c_void_p(handler))
        try:
            found: int = call(band, *arguments)
        finally:
            for one, kept in zip(_SIGNALS, before, strict=True):
                _libc.sigaction(one, kept, None)
    return found


class _Method(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# What takes an array of arguments, and how many these are.
_FASTCALL = 0x80


@cache
def _functions() -> tuple[Callable[..., int], int]:
    """What calls a function, as a function of Python, and the address of the handler."""
    module = ir.Module("crashes")
    place, thread, state = (_variable(module, name) for name in ("place", "thread", "state"))
    _write_call(module, place, thread, state)
    _write_handler(module, place, thread)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    call, handler = map(engine.get_function_address, ("ninepoint_call", "ninepoint_handler"))
    method = _Method(b"call", call, _FASTCALL, None)
    _kept.extend([engine, method])
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return new(ctypes.addressof(method), None, None), handler


def _variable(module: ir.Module, name: str) -> Any:
    kind = ir.ArrayType(ir.IntType(8), _ROOM)
    variable = ir.GlobalVariable(module, kind, name)
    variable.linkage, variable.initializer, variable.align = "internal", kind(None), 64
    return variable


def _declared(module: ir.Module, name: str, result: Any, *kinds: Any) -> Any:
    return ir.Function(module, ir.FunctionType(result, kinds), name)


def _write_call(module: ir.Module, place: Any, thread: Any, state: Any) -> None:
    """A function as C extensions have them: calls its first argument with the others."""
    kind = ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _WORD])
    function = ir.Function(module, kind, "ninepoint_call")
    b = ir.IRBuilder(function.append_basic_block())
    _, arguments, count = function.args

    def python(name: str, result: Any, *values: Any) -> Any:
        return b.call(_declared(module, name, result, *[v.type for v in values]), values)

    thread_at = b.bitcast(thread, _WORD.as_pointer())
    state_at = b.bitcast(state, _POINTER.as_pointer())
    b.store(python("pthread_self", _WORD), thread_at)
    b.store(python("PyThreadState_Get", _POINTER), state_at)
    name = "__sigsetjmp" if hasattr(_libc, "__sigsetjmp") else "sigsetjmp"
    remember = _declared(module, name, _INT, _POINTER, _INT)
    remember.attributes.add("returns_twice")
    found = b.call(remember, [b.bitcast(place, _POINTER), _INT(1)])
    with b.if_else(b.icmp_signed("==", found, _INT(0))) as (first, again):
        with first:
            called, nothing = b.load(arguments), _POINTER.as_pointer()(None)
            others = b.gep(arguments, [_WORD(1)])
            rest = b.sub(count, _WORD(1))
            result = python("PyObject_Vectorcall", _POINTER, called, others, rest, nothing)
            with b.if_else(b.icmp_unsigned("==", result, _POINTER(None))) as (raised, went):
                with raised:
                    python("PyErr_Clear", ir.VoidType())
                with went:
                    python("Py_DecRef", ir.VoidType(), result)
        with again:
            # Machine code lets go of the interpreter's lock while it runs.
            free = b.icmp_signed("==", python("PyGILState_Check", _INT), _INT(0))
            with b.if_then(free):
                python("PyEval_RestoreThread", ir.VoidType(), b.load(state_at))
    b.store(_WORD(0), thread_at)
    b.ret(python("PyLong_FromLongLong", _POINTER, b.sext(found, _WORD)))


def _write_handler(module: ir.Module, place: Any, thread: Any) -> None:
    """Jump back on the thread that calls; on any other the signal is as it ever was."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_INT]), "ninepoint_handler")
    b = ir.IRBuilder(function.append_basic_block())
    (number,) = function.args
    known = {one.name: one for one in module.functions}
    here = b.load(b.bitcast(thread, _WORD.as_pointer()))
    ours = b.icmp_signed("==", b.call(known["pthread_self"], []), here)
    with b.if_then(ours):
        jump = _declared(module, "siglongjmp", ir.VoidType(), _POINTER, _INT)
        b.call(jump, [b.bitcast(place, _POINTER), number])
    default = _declared(module, "signal", _POINTER, _INT, _POINTER)
    b.call(default, [number, _POINTER(None)])
    b.ret_void()
