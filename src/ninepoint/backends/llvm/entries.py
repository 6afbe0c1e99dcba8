"""The entries of a kernel's machine code, which Python calls as it calls functions of C.

    entry(*fields, *results, *coefficients, *scalars)             a block, as Numba compiled it
    entry(*fields, *results, *coefficients, *scalars, told)       whole arrays, by commands
    together(crew, threads, *the same but for told, *lists)       lists shared among a crew

They read arrays where NumPy keeps what describes them, refuse what does not fit, and let go of
the interpreter's lock.  They call Python's functions only, none of its data: those are not near
enough to be reached.  Kernels of one axis that look at no neighbour have a loop for NumPy as
well (see `elements`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...loops.nodes import PARTS
from ...loops.reading import functions_of, read
from ...loops.verify import verify
from ...lowering.request import VERIFY
from . import native
from .building import LONG_ROW, element, function, loop, machine, variable
from .elements import elements, takes_elements
from .native import Kind
from .printing import printed
from .values import FLOATS, convert

_BIT, _BYTE, _INT, _WORD = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_POINTER = _BYTE.as_pointer()


def entries(text: str, kinds: Sequence[Kind], *, fastmath: bool, with_elements: bool) -> ir.Module:
    """The module of a generated text, with its entries.

    The loop over elements takes a third of the time in which a small kernel is compiled.
    """
    module = ir.Module("ninepoint")
    kernel = _Kernel(module, kinds, _band(text, kinds, fastmath, module))
    block = _block(kernel)
    _entry(kernel, block)
    _together(kernel, block)
    if with_elements and takes_elements(kernel):
        elements(kernel, block, _values_type(kernel))
    return module


def block_alone(text: str, kinds: Sequence[Kind], *, fastmath: bool) -> ir.Module:
    """The module of a generated text, for a Python whose objects are not known here.

    It has the function that computes a block, as `ninepoint_block`.
    """
    module = ir.Module("ninepoint")
    block = _block(_Kernel(module, kinds, _band(text, kinds, fastmath, module)), native.BLOCK)
    block.linkage = "external"
    return module


# What generated text calls by these names.
_CONSTANTS = {
    "nan": math.nan, "inf": math.inf, "OPEN": 0, "BEYOND": 1, "FILL": 2, "KEEP": 3,
    "LONG_ROW": LONG_ROW,
}  # fmt: skip


def _band(text: str, kinds: Sequence[Kind], fastmath: bool, module: ir.Module) -> ir.Function:
    """The function `band` of a generated text, in LLVM's terms."""
    library = Path(__file__).with_name("library.py").read_text(encoding="utf-8")
    types = [(kind.machine, kind.ndim) for kind in kinds]
    loops = read(text, functions_of(library), _CONSTANTS, types, fastmath=fastmath)
    if VERIFY in os.environ:
        verify(loops)
    return printed(loops, module)


class _Kernel:
    """A kernel's function, and what it is called with.

    The first `arrays` arguments are fields and results, which have the stack's axis and those of
    the kernel: `axes` in all.
    """

    def __init__(self, module: ir.Module, kinds: Sequence[Kind], band: ir.Function) -> None:
        self.module, self.kinds, self.band = module, kinds, band
        self.axes = kinds[0].ndim
        # Results come after fields, and nothing else is written.
        changed = [kind.mutable for kind in kinds]
        self.arrays = len(changed) - changed[::-1].index(True)

    def call(self, builder: Any, values: Sequence[Any]) -> Any:
        """Call it; 0 if all went well."""
        # Its loops stay as they are optimised by themselves.
        return builder.call(self.band, values, attrs=("noinline",))


class _Called:
    """The begin of an entry: what it is called with, taken out of Python's objects."""

    def __init__(self, kernel: _Kernel, name: str) -> None:
        kind = ir.FunctionType(_POINTER, [_POINTER, _POINTER, _WORD])
        entry = ir.Function(kernel.module, kind, name)
        self.kernel = kernel
        self.array_type, self.arguments, self.count = entry.args
        self.builder = ir.IRBuilder(entry.append_basic_block())

    def python(self, name: str, result: Any, *values: Any, more: bool = False) -> Any:
        """Call a function of Python's."""
        kinds = [value.type for value in values]
        called = function(self.kernel.module, name, result, kinds, more)
        return self.builder.call(called, values)

    def refuse_unless(self, fits: Any) -> None:
        with self.builder.if_then(self.builder.not_(fits), likely=False):
            self.python("PyErr_BadArgument", _INT)
            self.builder.ret(_POINTER(None))

    def argument(self, place: Any) -> Any:
        at = self.builder.add(
            self.builder.ptrtoint(self.arguments, _WORD), self.builder.mul(place, _WORD(8))
        )
        return self.builder.load(self.builder.inttoptr(at, _POINTER.as_pointer()))

    def array(self, place: Any, kind: Any, fewer: Any = None) -> Any:
        """An argument that is an array of a type, or has one axis less where `fewer` holds."""
        argument = self.argument(place)
        kind_of = _field(self.builder, argument, native.TYPE, _POINTER)
        is_array = self.python("PyType_IsSubtype", _INT, kind_of, self.array_type)
        self.refuse_unless(self.builder.icmp_signed("!=", is_array, _INT(0)))
        self.refuse_unless(_fits(self.builder, argument, kind, fewer))
        return argument

    def taken(self, first: int, fewer: Any) -> tuple[list[Any], list[Any]]:
        """Fields and results as Python's objects, and the values of all other arguments."""
        kernel, builder, others = self.kernel, self.builder, []
        rest = kernel.kinds[kernel.arrays :]
        for place, kind in enumerate(rest, first + kernel.arrays):
            if kind.ndim:
                given = self.array(_WORD(place), kind)
                others += _array(builder, given, kind)
            else:
                given = self.argument(_WORD(place))
                others += _number(builder, given, kind, self.python)
        if not all(kind.ndim for kind in rest):
            self.raise_if_raised()
        arrays = [
            self.array(_WORD(place), kind, fewer)
            for place, kind in enumerate(kernel.kinds[: kernel.arrays], first)
        ]
        return arrays, others

    def raise_if_raised(self) -> None:
        raised = self.builder.ptrtoint(self.python("PyErr_Occurred", _POINTER), _WORD)
        with self.builder.if_then(self.builder.icmp_signed("!=", raised, _WORD(0)), likely=False):
            self.builder.ret(_POINTER(None))

    def held(self, arrays: Sequence[Any], others: Sequence[Any]) -> tuple[Any, Any]:
        """Where arrays are described for commands, and where the other values are."""
        kernel, builder = self.kernel, self.builder
        words = kernel.axes + 1
        table = variable(builder, _WORD, count=kernel.arrays * words)
        for k, argument in enumerate(arrays):
            for j, word in enumerate(_described(builder, argument, kernel.axes)):
                builder.store(word, builder.gep(table, [_INT(k * words + j)]))
        values = variable(builder, _values_type(kernel))
        for k, value in enumerate(others):
            builder.store(value, element(builder, values, k))
        return builder.ptrtoint(table, _WORD), builder.ptrtoint(values, _WORD)

    def commands(self, place: Any) -> Any:
        """The address of a list of commands."""
        kind = Kind(np.dtype("int64"), 1)
        return _field(self.builder, self.array(place, kind), native.DATA, _WORD)

    def finish(self, failed: Any) -> None:
        """Give None to Python, or what went wrong."""
        with self.builder.if_then(failed, likely=False):
            # Nothing else is raised by text that reads what it was proved to have.
            self.builder.ret(self.python("PyErr_NoMemory", _POINTER))
        self.builder.ret(self.python("Py_BuildValue", _POINTER, self._empty(), more=True))

    def _empty(self) -> Any:
        """A text of no letters."""
        name, module = "ninepoint.none", self.kernel.module
        found = module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(module, _BYTE, name)
            found.initializer, found.linkage = _BYTE(0), "internal"
            found.global_constant = True
        return found


def _entry(kernel: _Kernel, block: Any) -> None:
    """The entry for one block, or for whole arrays and one list of commands."""
    called = _Called(kernel, native.ENTRY)
    builder, count = called.builder, len(kernel.kinds)
    whole = builder.icmp_signed("==", called.count, _WORD(count + 1))
    of_block = builder.icmp_signed("==", called.count, _WORD(count))
    called.refuse_unless(builder.or_(whole, of_block))
    arrays, others = called.taken(0, whole)
    with builder.if_then(whole):
        table, values = called.held(arrays, others)
        told = called.commands(_WORD(count))
        thread = called.python("PyEval_SaveThread", _POINTER)
        status = _carried_out(kernel, builder, told, table, block, values)
        called.python("PyEval_RestoreThread", ir.VoidType(), thread)
        called.finish(builder.icmp_signed("!=", status, _WORD(0)))
    blocks = [
        one
        for argument, kind in zip(arrays, kernel.kinds, strict=False)
        for one in _array(builder, argument, kind)
    ]
    thread = called.python("PyEval_SaveThread", _POINTER)
    status = kernel.call(builder, [*blocks, *others])
    called.python("PyEval_RestoreThread", ir.VoidType(), thread)
    called.finish(builder.icmp_signed("!=", status, _WORD(0)))


def _carried_out(
    kernel: _Kernel, builder: Any, told: Any, table: Any, block: Any, values: Any
) -> Any:
    """Call what carries out commands (see `commands`)."""
    carry_out = function(kernel.module, native.COMMANDS, _WORD, [_WORD] * 4)
    return builder.call(carry_out, [told, table, builder.ptrtoint(block, _WORD), values])


def _together(kernel: _Kernel, block: Any) -> None:
    """The entry for whole arrays and lists of commands, which a crew shares (see `..crew`).

    All is looked at first, so that the threads of a crew carry out the lists without Python.
    """
    part = _part(kernel, block)
    called = _Called(kernel, native.TOGETHER)
    builder = called.builder
    before = 2 + len(kernel.kinds)
    called.refuse_unless(builder.icmp_signed(">=", called.count, _WORD(before)))
    crew, threads = (
        called.python("PyLong_AsLongLong", _WORD, called.argument(_WORD(place)))
        for place in range(2)
    )
    called.raise_if_raised()
    arrays, others = called.taken(2, _BIT(1))
    parts = builder.sub(called.count, _WORD(before))
    with loop(builder, parts) as inside:
        called.commands(builder.add(inside.index, _WORD(before)))
    lists = builder.add(builder.ptrtoint(called.arguments, _WORD), _WORD(8 * before))
    # Who keeps all of it (see `..repeated`) is told how many bytes stand at the first two places.
    size = _values_type(kernel).get_abi_size(machine().target_data)
    sizes = _WORD(8 * kernel.arrays * (kernel.axes + 1)), _WORD(size)
    held = variable(builder, _WORD, count=5)
    for k, word in enumerate((*called.held(arrays, others), lists, *sizes)):
        builder.store(word, builder.gep(held, [_INT(k)]))
    thread = called.python("PyEval_SaveThread", _POINTER)
    kind = ir.FunctionType(_WORD, [_WORD, _WORD, part.type, _WORD, _WORD])
    do = builder.load(builder.inttoptr(crew, kind.as_pointer().as_pointer()))
    failed = builder.call(do, [crew, threads, part, builder.ptrtoint(held, _WORD), parts])
    called.python("PyEval_RestoreThread", ir.VoidType(), thread)
    called.finish(builder.icmp_signed("!=", failed, _WORD(0)))


def _part(kernel: _Kernel, block: Any) -> Any:
    """A function that carries out one of the lists; 0 if all went well."""
    part = ir.Function(kernel.module, ir.FunctionType(_WORD, [_WORD, _WORD]), "ninepoint.part")
    part.linkage = "internal"
    held, index = part.args
    builder = ir.IRBuilder(part.append_basic_block())
    table, values, lists = (
        builder.load(builder.inttoptr(builder.add(held, _WORD(8 * k)), _WORD.as_pointer()))
        for k in range(3)
    )
    place = builder.add(lists, builder.mul(index, _WORD(8)))
    array = builder.load(builder.inttoptr(place, _POINTER.as_pointer()))
    told = _field(builder, array, native.DATA, _WORD)
    builder.ret(_carried_out(kernel, builder, told, table, block, values))
    return part


def _described(builder: Any, array: Any, axes: int) -> list[Any]:
    """The address of an array and its strides; without a stack, that of the stack is 0."""
    strides = _field(builder, array, native.STRIDES, _POINTER)
    short = builder.icmp_signed("!=", _field(builder, array, native.NDIM, _INT), _INT(axes))
    shift = builder.select(short, _WORD(-8), _WORD(0))
    words = [_field(builder, array, native.DATA, _WORD)]
    first = _field(builder, strides, 0, _WORD)
    words.append(builder.select(short, _WORD(0), first))
    for axis in range(1, axes):
        place = builder.add(builder.ptrtoint(strides, _WORD), builder.add(shift, _WORD(8 * axis)))
        words.append(builder.load(builder.inttoptr(place, _WORD.as_pointer())))
    return words


def _values_type(kernel: _Kernel) -> Any:
    """The type of what holds coefficients and scalars."""
    axes = 2 * kernel.axes + 1
    return ir.LiteralStructType([one.type for one in kernel.band.args[axes * kernel.arrays :]])


def _block(kernel: _Kernel, name: str = "ninepoint.block") -> Any:
    """A function that computes a block from views of its arrays; 0 if all went well.

    A view is an address, a shape and strides, in words; one stands after the other.
    """
    kind = ir.FunctionType(_WORD, [_WORD, _WORD])
    block = ir.Function(kernel.module, kind, name)
    block.linkage = "internal"
    views, others = block.args
    builder = ir.IRBuilder(block.append_basic_block())

    def word(place: int) -> Any:
        at = builder.add(views, _WORD(8 * place))
        return builder.load(builder.inttoptr(at, _WORD.as_pointer()))

    values: list[Any] = []
    axes = kernel.axes
    for first in range(0, kernel.arrays * (2 * axes + 1), 2 * axes + 1):
        values.append(builder.inttoptr(word(first), _POINTER))
        values += [word(first + 1 + k) for k in range(2 * axes)]
    kind = _values_type(kernel)
    held = builder.inttoptr(others, kind.as_pointer())
    values += [builder.load(element(builder, held, k)) for k in range(len(kind.elements))]
    builder.ret(kernel.call(builder, values))
    return block


def _number(builder: Any, argument: Any, kind: Kind, python: Callable[..., Any]) -> list[Any]:
    """A scalar of a type from a Python number; what it raises stays to be asked for."""
    double, name = FLOATS["float64"], kind.machine
    if name in PARTS:
        return [
            convert(builder, python(part, double, argument), "float64", PARTS[name])
            for part in ("PyComplex_RealAsDouble", "PyComplex_ImagAsDouble")
        ]
    if name in FLOATS:
        value = python("PyFloat_AsDouble", double, argument)
        return [convert(builder, value, "float64", name)]
    if name == "bool":
        is_true = python("PyObject_IsTrue", _INT, argument)
        return [builder.icmp_signed(">", is_true, _INT(0))]
    called = "PyLong_AsUnsignedLongLong" if name.startswith("u") else "PyLong_AsLongLong"
    return [convert(builder, python(called, _WORD, argument), "int64", name)]


def _field(builder: Any, base: Any, offset: int, kind: Any) -> Any:
    address = builder.gep(builder.bitcast(base, _POINTER), [_INT(offset)])
    return builder.load(builder.bitcast(address, kind.as_pointer()))


def _fits(builder: Any, array: Any, kind: Any, fewer: Any = None) -> Any:
    """Whether an array has the axes, the dtype and the properties that the code relies on.

    It may have one axis less where `fewer` holds.
    """
    dtype = kind.dtype
    at = _field(builder, array, native.DTYPE, _POINTER)
    flags = _INT(native.ALIGNED | (native.WRITEABLE if kind.mutable else 0))
    found = builder.and_(_field(builder, array, native.FLAGS, _INT), flags)
    order = _field(builder, at, native.ORDER, _BYTE)
    ndim = _field(builder, array, native.NDIM, _INT)
    of_axes = builder.icmp_signed("==", ndim, _INT(kind.ndim))
    if fewer is not None:
        short = builder.icmp_signed("==", ndim, _INT(kind.ndim - 1))
        of_axes = builder.or_(of_axes, builder.and_(short, fewer))
    tests = [
        of_axes,
        builder.icmp_signed("==", found, flags),
        _of_kind(builder, _field(builder, at, native.KIND, _BYTE), dtype),
        builder.icmp_signed(
            "==", _field(builder, at, native.ITEMSIZE, _WORD), _WORD(dtype.itemsize)
        ),
        builder.icmp_signed("!=", order, _BYTE(ord(">"))),
    ]
    fits = tests[0]
    for test in tests[1:]:
        fits = builder.and_(fits, test)
    return fits


def _of_kind(builder: Any, found: Any, dtype: Any) -> Any:
    """Whether an array is of the kind of a dtype; to the code floats of 16 bits are integers."""
    fits = builder.icmp_signed("==", found, _BYTE(ord(dtype.kind)))
    if dtype != "uint16":
        return fits
    for kind in "fV":
        fits = builder.or_(fits, builder.icmp_signed("==", found, _BYTE(ord(kind))))
    return fits


def _array(builder: Any, array: Any, kind: Kind) -> list[Any]:
    """Where an array begins, its shape and the bytes between its elements."""
    words = [
        _field(builder, _field(builder, array, place, _POINTER), 8 * axis, _WORD)
        for place in (native.SHAPE, native.STRIDES)
        for axis in range(kind.ndim)
    ]
    return [_field(builder, array, native.DATA, _POINTER), *words]
