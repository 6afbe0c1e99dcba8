"""An allocator for NumPy that hands out the memory it was given, and says when that is free.

NumPy lets a thread choose who allocates (`PyDataMem_SetHandler`).  An array remembers who did,
and frees its memory there; in all else it is as any other array: it owns its data, has no base,
and is resized, pickled and copied in the usual way.

The memory of an array begins behind a head of 64 bytes, which says what becomes of it:

    USED     an array has it; once that is gone, it is FREE
    FREE     nobody has it, and it is kept
    OWN      an array has it, with which it goes
    PLAIN    an array has it from `malloc`, to which it goes back

The functions that NumPy calls are machine code made here: they may be called at any time, even
when the interpreter ends, and run no Python.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..undisturbed import imported
from .assembly import Assembly

USED, FREE, OWN, PLAIN = range(4)

# Before an array's memory: what becomes of it, where its mapping begins, how long that is, and
# how many bytes the array may have.  64 bytes keep arrays aligned for every vector.
HEAD = 64

# Where functions are in the table of NumPy's C interface, which never changes.
_SET, _DEFAULT = 304, 306

_NAME = b"ninepoint"


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler` of NumPy's binary interface."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class Allocator:
    """What arrays are made of memory with, and memory is asked for and given back with."""

    _next: Any
    _handler: Any
    _default: Any
    _choose: Callable[[Any], Any]
    _swap: Callable[[int, int, int], int]
    _map: Callable[..., int]
    _unmap: Callable[[int, int], int]
    _advise: Callable[[int, int, int], int]

    def array(self, at: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array whose memory begins at `at`; nothing where the user chose another allocator.

        One thread at a time may ask for one.
        """
        before = self._choose(self._handler)
        try:
            if before is not self._default and before is not self._handler:
                return None
            self._next.value = at
            made = np.empty(shape, dtype)
            # An interrupt's own call may have come between, and taken it.
            taken, self._next.value = not self._next.value, 0
            return made if taken and made.ctypes.data == at else None
        finally:
            self._choose(self._default if before is self._handler else before)

    def state(self, at: int) -> int:
        """What becomes of the memory at `at`."""
        return ctypes.c_int64.from_address(at - HEAD).value

    def changed(self, at: int, before: int, after: int) -> bool:
        """Say that the memory becomes something else, if it was what it is thought to be."""
        return self._swap(at, before, after) == before

    def mapped(self, size: int, shift: int, huge: int, count: int) -> int | None:
        """Memory of the process's own for an array, which is USED; nothing if there is none.

        It begins `shift` bytes, HEAD or more, behind the begin of a page.  The first `count` of
        its pages are `huge` bytes long, as far as the system has them.
        """
        length = -(-(size + shift) // mmap.PAGESIZE) * mmap.PAGESIZE
        if count:
            length = max(length, count * huge) + huge
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = self._map(0, length, mmap.PROT_READ | mmap.PROT_WRITE, kind, -1, 0)
        if base == -1:
            return None
        begin = base
        if count:
            begin = -(-base // huge) * huge
            self._advise(begin, count * huge, mmap.MADV_HUGEPAGE)
        at = begin + shift
        head = (ctypes.c_int64 * 4).from_address(at - HEAD)
        head[:] = [USED, base, length, size]
        return at

    def unmap(self, at: int) -> None:
        """Give the memory at `at` back to the system; it must be nobody's."""
        _, base, length, _ = (ctypes.c_int64 * 4).from_address(at - HEAD)
        self._unmap(base, length)


def allocator() -> Allocator | None:
    """The allocator; nothing where NumPy, or the system, is not as it needs them."""
    if struct.calcsize("P") != 8 or sys.platform == "win32":
        return None
    if sys.implementation.name != "cpython":
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    core = imported("numpy._core._multiarray_umath")
    table = (ctypes.c_int64 * (_DEFAULT + 1)).from_address(pointer(core._ARRAY_API, None))
    default = ctypes.py_object.from_address(table[_DEFAULT]).value

    assembly = _assembly()
    given = ctypes.c_int64(0)
    functions = [assembly.address(name) for name in ("malloc", "calloc", "realloc", "free")]
    handler = _Handler(_NAME, 1, ctypes.addressof(given), *functions)
    label = ctypes.c_char_p(b"mem_handler")
    capsule = new(ctypes.addressof(handler), label, None)
    # Arrays outlive this module when the interpreter ends.
    for one in (assembly, given, handler, label, capsule):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))

    word, size, number = ctypes.c_int64, ctypes.c_size_t, ctypes.c_int
    process = ctypes.CDLL(None)
    # Only what may take long lets other threads run: to get on again may take 5 ms.
    kind = ctypes.PYFUNCTYPE
    return Allocator(
        given,
        capsule,
        default,
        kind(ctypes.py_object, ctypes.py_object)(table[_SET]),
        kind(word, word, word, word)(assembly.address("swap")),
        kind(word, word, size, number, number, number, word)(("mmap", process)),
        ctypes.CFUNCTYPE(number, word, size)(("munmap", process)),
        kind(number, word, size, number)(("madvise", process)),
    )


def _assembly() -> Assembly:
    """The four functions that NumPy calls, and one that changes what becomes of memory."""
    from llvmlite import ir

    byte, word = ir.IntType(8), ir.IntType(64)
    pointer, nothing = byte.as_pointer(), ir.VoidType()
    module = ir.Module("ninepoint.allocator")

    def declared(name: str, result: Any, *arguments: Any) -> Any:
        return ir.Function(module, ir.FunctionType(result, arguments), name)

    def begun(name: str, result: Any, *arguments: Any) -> tuple[Any, Any]:
        function = declared(f"ninepoint_{name}", result, *arguments)
        return function, ir.IRBuilder(function.append_basic_block())

    def place(builder: Any, at: Any, offset: int) -> Any:
        moved = builder.gep(at, [word(offset)])
        return builder.bitcast(moved, word.as_pointer())

    c_malloc = declared("malloc", pointer, word)
    c_calloc = declared("calloc", pointer, word, word)
    c_free = declared("free", nothing, pointer)
    c_munmap = declared("munmap", ir.IntType(32), pointer, word)
    c_memcpy = declared("memcpy", pointer, pointer, pointer, word)

    def headed(builder: Any, base: Any, size: Any) -> Any:
        """Memory from `malloc` with a head."""
        lost = builder.icmp_unsigned("==", base, pointer(None))
        with builder.if_then(lost, likely=False):
            builder.ret(pointer(None))
        after = builder.add(builder.ptrtoint(base, word), word(2 * HEAD - 1))
        at = builder.inttoptr(builder.and_(after, word(-HEAD)), pointer)
        values = (word(PLAIN), builder.ptrtoint(base, word), word(0), size)
        for k, value in enumerate(values):
            builder.store(value, place(builder, at, 8 * k - HEAD))
        return at

    malloc, builder = begun("malloc", pointer, pointer, word)
    context, size = malloc.args
    slot = builder.bitcast(context, word.as_pointer())
    given = builder.atomic_rmw("xchg", slot, word(0), "seq_cst")
    with builder.if_then(builder.icmp_unsigned("!=", given, word(0))):
        builder.ret(builder.inttoptr(given, pointer))
    base = builder.call(c_malloc, [builder.add(size, word(2 * HEAD))])
    builder.ret(headed(builder, base, size))

    calloc, builder = begun("calloc", pointer, pointer, word, word)
    _, count, size = calloc.args
    base = builder.call(c_calloc, [builder.add(count, word(2 * HEAD)), size])
    builder.ret(headed(builder, base, builder.mul(count, size)))

    free, builder = begun("free", nothing, pointer, pointer, word)
    _, at, _ = free.args
    with builder.if_then(builder.icmp_unsigned("==", at, pointer(None)), likely=False):
        builder.ret_void()
    base = builder.inttoptr(builder.load(place(builder, at, 8 - HEAD)), pointer)
    length = builder.load(place(builder, at, 16 - HEAD))
    state = builder.atomic_rmw("xchg", place(builder, at, -HEAD), word(FREE), "seq_cst")
    with builder.if_then(builder.icmp_unsigned("==", state, word(OWN))):
        builder.call(c_munmap, [base, length])
    with builder.if_then(builder.icmp_unsigned("==", state, word(PLAIN))):
        builder.call(c_free, [base])
    builder.ret_void()

    realloc, builder = begun("realloc", pointer, pointer, pointer, word)
    context, at, size = realloc.args
    fresh = builder.call(malloc, [context, size])
    lost = builder.icmp_unsigned("==", fresh, pointer(None))
    with builder.if_then(lost, likely=False):
        builder.ret(fresh)
    with builder.if_then(builder.icmp_unsigned("!=", at, pointer(None))):
        capacity = builder.load(place(builder, at, 24 - HEAD))
        fewer = builder.icmp_unsigned("<", capacity, size)
        builder.call(c_memcpy, [fresh, at, builder.select(fewer, capacity, size)])
        builder.call(free, [context, at, word(0)])
    builder.ret(fresh)

    swap, builder = begun("swap", word, word, word, word)
    at, before, after = swap.args
    slot = place(builder, builder.inttoptr(at, pointer), -HEAD)
    swapped = builder.cmpxchg(slot, before, after, "seq_cst", "seq_cst")
    builder.ret(builder.extract_value(swapped, 0))
    return Assembly(str(module))
