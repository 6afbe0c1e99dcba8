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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...loops.nodes import PARTS
from ...loops.reading import LOOKS, functions_of, read
from . import native
from .building import (
    BIT,
    BYTE,
    INT,
    LONG_ROW,
    POINTER,
    WORD,
    begun,
    called,
    element,
    function,
    loop,
    machine,
    pointer,
    variable,
    word,
    words_on,
    written_words,
)
from .elements import elements, takes_elements
from .native import Kind
from .printing import printed
from .values import FLOATS, convert


def entries(text: str, kinds: Sequence[Kind], *, fastmath: bool, with_elements: bool) -> ir.Module:
    """The module of a generated text, with its entries.

    The loop over elements takes a third of the time in which a small kernel is compiled.
    """
    module = ir.Module("ninepoint")
    kernel = Kernel(module, kinds, _band(text, kinds, fastmath, module))
    block = _block(kernel, "ninepoint.block", internal=True)
    _entry(kernel, block)
    _together(kernel, block)
    if with_elements and takes_elements(kernel):
        elements(kernel, block)
    return module


def block_alone(text: str, kinds: Sequence[Kind], *, fastmath: bool) -> ir.Module:
    """The module of a generated text, for a Python whose objects are not known here.

    It has the function that computes a block, as `ninepoint_block`.
    """
    module = ir.Module("ninepoint")
    _block(Kernel(module, kinds, _band(text, kinds, fastmath, module)), native.BLOCK)
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
    for look in LOOKS:
        look(loops)
    return printed(loops, module)


class Kernel:
    """A kernel's function, and what it is called with.

    The first `arrays` arguments are fields and results, which have the stack's axis and those of
    the kernel: `axes` in all.  A view of one is so many `words`.  Coefficients and scalars are
    held as `values_type`.
    """

    def __init__(self, module: ir.Module, kinds: Sequence[Kind], band: ir.Function) -> None:
        self.module, self.kinds, self.band = module, kinds, band
        self.axes = kinds[0].ndim
        self.words = 2 * self.axes + 1
        # Results come after fields, and nothing else is written.
        changed = [kind.mutable for kind in kinds]
        self.arrays = len(changed) - changed[::-1].index(True)
        values = [one.type for one in band.args[self.words * self.arrays :]]
        self.values_type = ir.LiteralStructType(values)

    def call(self, builder: Any, values: Sequence[Any]) -> Any:
        """Call it; 0 if all went well."""
        # Its loops stay as they are optimised by themselves.
        return builder.call(self.band, values, attrs=("noinline",))

    def held(self, builder: Any, values: Sequence[Any]) -> Any:
        """The address of coefficients and scalars, one after the other."""
        place = variable(builder, self.values_type)
        for k, value in enumerate(values):
            builder.store(value, element(builder, place, k))
        return builder.ptrtoint(place, WORD)


class _Entry:
    """The begin of an entry: what it is called with, taken out of Python's objects."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        made, self.builder = begun(kernel.module, name, POINTER, [POINTER, POINTER, WORD])
        self.kernel = kernel
        self.array_type, arguments, self.count = made.args
        self.arguments = self.builder.ptrtoint(arguments, WORD)

    def python(self, name: str, result: Any, *values: Any) -> Any:
        """Call a function of Python's."""
        return called(self.builder, name, result, *values)

    def refuse_unless(self, fits: Any) -> None:
        with self.builder.if_then(self.builder.not_(fits), likely=False):
            self.python("PyErr_BadArgument", INT)
            self.builder.ret(POINTER(None))

    def argument(self, place: Any) -> Any:
        return self.builder.inttoptr(word(self.builder, self.arguments, place), POINTER)

    def array(self, place: Any, kind: Kind, fewer: Any = None) -> Any:
        """An argument that is an array of a type, or has one axis less where `fewer` holds."""
        argument = self.argument(place)
        kind_of = _field(self.builder, argument, native.TYPE, POINTER)
        is_array = self.python("PyType_IsSubtype", INT, kind_of, self.array_type)
        self.refuse_unless(self.builder.icmp_signed("!=", is_array, INT(0)))
        self.refuse_unless(_fits(self.builder, argument, kind, fewer))
        return argument

    def taken(self, first: int, fewer: Any) -> tuple[list[Any], list[Any]]:
        """Fields and results as Python's objects, and the values of all other arguments."""
        kernel, builder, others = self.kernel, self.builder, []
        rest = kernel.kinds[kernel.arrays :]
        for place, kind in enumerate(rest, first + kernel.arrays):
            if kind.ndim:
                others += _array(builder, self.array(place, kind), kind)
            else:
                others += _number(builder, self.argument(place), kind)
        if not all(kind.ndim for kind in rest):
            self.raise_if_raised()
        arrays = [
            self.array(place, kind, fewer)
            for place, kind in enumerate(kernel.kinds[: kernel.arrays], first)
        ]
        return arrays, others

    def raise_if_raised(self) -> None:
        raised = self.builder.ptrtoint(self.python("PyErr_Occurred", POINTER), WORD)
        with self.builder.if_then(self.builder.icmp_signed("!=", raised, WORD(0)), likely=False):
            self.builder.ret(POINTER(None))

    def held(self, arrays: Sequence[Any], others: Sequence[Any]) -> tuple[Any, Any]:
        """Where the addresses of arrays stand for commands, and where the other values are."""
        kernel, builder = self.kernel, self.builder
        begins = [_field(builder, array, native.DATA, WORD) for array in arrays]
        return written_words(builder, begins), kernel.held(builder, others)

    def commands(self, place: Any) -> Any:
        """The address of a list of commands."""
        kind = Kind(np.dtype("int64"), 1)
        return _field(self.builder, self.array(place, kind), native.DATA, WORD)

    @contextmanager
    def without_python(self) -> Iterator[None]:
        """Let go of the interpreter's lock meanwhile."""
        thread = self.python("PyEval_SaveThread", POINTER)
        yield
        self.python("PyEval_RestoreThread", ir.VoidType(), thread)

    def finish(self, status: Any) -> None:
        """Give None to Python, or what went wrong."""
        failed = self.builder.icmp_signed("!=", status, WORD(0))
        with self.builder.if_then(failed, likely=False):
            # Nothing else is raised by text that reads what it was proved to have.
            self.builder.ret(self.python("PyErr_NoMemory", POINTER))
        build = function(self.kernel.module, "Py_BuildValue", POINTER, [POINTER], more=True)
        self.builder.ret(self.builder.call(build, [self._empty()]))

    def _empty(self) -> Any:
        """A text of no letters."""
        name, module = "ninepoint.none", self.kernel.module
        found = module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(module, BYTE, name)
            found.initializer, found.linkage = BYTE(0), "internal"
            found.global_constant = True
        return found


def _entry(kernel: Kernel, block: Any) -> None:
    """The entry for one block, or for whole arrays and one list of commands."""
    entry = _Entry(kernel, native.ENTRY)
    builder, count = entry.builder, len(kernel.kinds)
    whole = builder.icmp_signed("==", entry.count, WORD(count + 1))
    of_block = builder.icmp_signed("==", entry.count, WORD(count))
    entry.refuse_unless(builder.or_(whole, of_block))
    arrays, others = entry.taken(0, whole)
    with builder.if_then(whole):
        table, values = entry.held(arrays, others)
        told = entry.commands(count)
        with entry.without_python():
            status = _carried_out(builder, told, table, block, values)
        entry.finish(status)
    blocks = [
        one
        for argument, kind in zip(arrays, kernel.kinds, strict=False)
        for one in _array(builder, argument, kind)
    ]
    with entry.without_python():
        status = kernel.call(builder, [*blocks, *others])
    entry.finish(status)


def _carried_out(builder: Any, told: Any, table: Any, block: Any, values: Any) -> Any:
    """Call what carries out commands (see `commands`)."""
    compute = builder.ptrtoint(block, WORD)
    return called(builder, native.COMMANDS, WORD, told, table, compute, values)


def _together(kernel: Kernel, block: Any) -> None:
    """The entry for whole arrays and lists of commands, which a crew shares (see `..threads`).

    All is looked at first, so that the threads of a crew carry out the lists without Python.
    """
    part = _part(kernel, block)
    entry = _Entry(kernel, native.TOGETHER)
    builder = entry.builder
    before = 2 + len(kernel.kinds)
    entry.refuse_unless(builder.icmp_signed(">=", entry.count, WORD(before)))
    crew, threads = (
        entry.python("PyLong_AsLongLong", WORD, entry.argument(place)) for place in range(2)
    )
    entry.raise_if_raised()
    arrays, others = entry.taken(2, BIT(1))
    parts = builder.sub(entry.count, WORD(before))
    with loop(builder, parts) as inside:
        entry.commands(builder.add(inside.index, WORD(before)))
    lists = words_on(builder, entry.arguments, before)
    # Who keeps all of it (see `..threads`) is told how many bytes stand at the first two places.
    size = kernel.values_type.get_abi_size(machine().target_data)
    sizes = WORD(8 * kernel.arrays), WORD(size)
    held = written_words(builder, (*entry.held(arrays, others), lists, *sizes))
    with entry.without_python():
        kind = ir.FunctionType(WORD, [WORD, WORD, part.type, WORD, WORD]).as_pointer()
        do = builder.load(pointer(builder, crew, kind))
        status = builder.call(do, [crew, threads, part, held, parts])
    entry.finish(status)


def _part(kernel: Kernel, block: Any) -> Any:
    """A function that carries out one of the lists; 0 if all went well."""
    part, builder = begun(kernel.module, "ninepoint.part", WORD, [WORD, WORD], internal=True)
    held, index = part.args
    table, values, lists = (word(builder, held, k) for k in range(3))
    array = builder.inttoptr(word(builder, lists, index), POINTER)
    told = _field(builder, array, native.DATA, WORD)
    builder.ret(_carried_out(builder, told, table, block, values))
    return part


def _block(kernel: Kernel, name: str, internal: bool = False) -> Any:
    """A function that computes a block from views of its arrays; 0 if all went well.

    A view is an address, a shape and strides, in words; one stands after the other.
    """
    block, builder = begun(kernel.module, name, WORD, [WORD, WORD], internal)
    views, others = block.args
    values: list[Any] = []
    for first in range(0, kernel.arrays * kernel.words, kernel.words):
        values.append(builder.inttoptr(word(builder, views, first), POINTER))
        values += [word(builder, views, first + k) for k in range(1, kernel.words)]
    kind = kernel.values_type
    held = pointer(builder, others, kind)
    values += [builder.load(element(builder, held, k)) for k in range(len(kind.elements))]
    builder.ret(kernel.call(builder, values))
    return block


def _number(builder: Any, argument: Any, kind: Kind) -> list[Any]:
    """A scalar of a type from a Python number; what it raises stays to be asked for."""
    double, name = FLOATS["float64"], kind.machine
    if name in PARTS:
        return [
            convert(builder, called(builder, part, double, argument), "float64", PARTS[name])
            for part in ("PyComplex_RealAsDouble", "PyComplex_ImagAsDouble")
        ]
    if name in FLOATS:
        value = called(builder, "PyFloat_AsDouble", double, argument)
        return [convert(builder, value, "float64", name)]
    if name == "bool":
        is_true = called(builder, "PyObject_IsTrue", INT, argument)
        return [builder.icmp_signed(">", is_true, INT(0))]
    python = "PyLong_AsUnsignedLongLong" if name.startswith("u") else "PyLong_AsLongLong"
    return [convert(builder, called(builder, python, WORD, argument), "int64", name)]


def _field(builder: Any, base: Any, offset: int, kind: Any) -> Any:
    address = builder.gep(builder.bitcast(base, POINTER), [INT(offset)])
    return builder.load(builder.bitcast(address, kind.as_pointer()))


def _fits(builder: Any, array: Any, kind: Any, fewer: Any = None) -> Any:
    """Whether an array has the axes, the dtype and the properties that the code relies on.

    It may have one axis less where `fewer` holds.
    """
    dtype = kind.dtype
    at = _field(builder, array, native.DTYPE, POINTER)
    flags = INT(native.ALIGNED | (native.WRITEABLE if kind.mutable else 0))
    found = builder.and_(_field(builder, array, native.FLAGS, INT), flags)
    order = _field(builder, at, native.ORDER, BYTE)
    ndim = _field(builder, array, native.NDIM, INT)
    of_axes = builder.icmp_signed("==", ndim, INT(kind.ndim))
    if fewer is not None:
        short = builder.icmp_signed("==", ndim, INT(kind.ndim - 1))
        of_axes = builder.or_(of_axes, builder.and_(short, fewer))
    size = _field(builder, at, native.ITEMSIZE, WORD)
    fits = of_axes
    for test in (
        builder.icmp_signed("==", found, flags),
        _of_kind(builder, _field(builder, at, native.KIND, BYTE), dtype),
        builder.icmp_signed("==", size, WORD(dtype.itemsize)),
        builder.icmp_signed("!=", order, BYTE(ord(">"))),
    ):
        fits = builder.and_(fits, test)
    return fits


def _of_kind(builder: Any, found: Any, dtype: Any) -> Any:
    """Whether an array is of the kind of a dtype; to the code floats of 16 bits are integers."""
    fits = builder.icmp_signed("==", found, BYTE(ord(dtype.kind)))
    if dtype != "uint16":
        return fits
    for kind in "fV":
        fits = builder.or_(fits, builder.icmp_signed("==", found, BYTE(ord(kind))))
    return fits


def _array(builder: Any, array: Any, kind: Kind) -> list[Any]:
    """Where an array begins, its shape and the bytes between its elements."""
    words = [
        _field(builder, _field(builder, array, place, POINTER), 8 * axis, WORD)
        for place in (native.SHAPE, native.STRIDES)
        for axis in range(kind.ndim)
    ]
    return [_field(builder, array, native.DATA, POINTER), *words]
