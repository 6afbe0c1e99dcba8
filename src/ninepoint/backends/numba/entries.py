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

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import as_dtype

from . import native
from .elements import elements, takes_elements

_BIT, _BYTE, _INT, _WORD = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_POINTER = _BYTE.as_pointer()


def entries(context: Any, described: Any, *, with_elements: bool) -> Any:
    """The module with both entries, for a function as Numba describes it.

    The loop over elements takes a third of the time in which a small kernel is compiled.
    """
    module = context.create_module("ninepoint.entries")
    kernel = _Kernel(context, module, described)
    block = _block(kernel)
    _entry(kernel, block)
    _together(kernel, block)
    if with_elements and takes_elements(kernel):
        elements(kernel, block, _values_type(kernel))
    return module


class _Kernel:
    """What Numba compiled, as a module that calls it knows it.

    The first `arrays` arguments are fields and results, which have the stack's axis and those of
    the kernel: `axes` in all.
    """

    def __init__(self, context: Any, module: Any, described: Any) -> None:
        self.context = context
        self.module = module
        self.kinds = described.argtypes
        kind = context.call_conv.get_function_type(described.restype, self.kinds)
        self.function = ir.Function(module, kind, described.llvm_func_name)
        self.result = described.restype
        self.axes = self.kinds[0].ndim
        # Results come after fields, and nothing else is written.
        written = [isinstance(kind, types.Array) and kind.mutable for kind in self.kinds]
        self.arrays = len(written) - written[::-1].index(True)

    def call(self, builder: Any, values: Sequence[Any]) -> Any:
        """Call it; whether it failed."""
        status, _ = self.context.call_conv.call_function(
            builder,
            self.function,
            self.result,
            self.kinds,
            values,
            # As in Numba's own wrappers: loops stay as they were optimised by themselves.
            attrs=("noinline",),
        )
        return status.is_error


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
        kind = ir.FunctionType(result, [value.type for value in values], var_arg=more)
        function = cgutils.get_or_insert_function(self.kernel.module, kind, name)
        return self.builder.call(function, values)

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
            if isinstance(kind, types.Array):
                given = self.array(_WORD(place), kind)
                others.append(_array(kernel.context, builder, given, kind))
            else:
                given = self.argument(_WORD(place))
                others.append(_number(kernel.context, builder, given, kind, self.python))
        if not all(isinstance(kind, types.Array) for kind in rest):
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
        table = cgutils.alloca_once(builder, _WORD, kernel.arrays * words)
        for k, argument in enumerate(arrays):
            for j, word in enumerate(_described(builder, argument, kernel.axes)):
                builder.store(word, builder.gep(table, [_INT(k * words + j)]))
        values = cgutils.alloca_once(builder, _values_type(kernel))
        for k, value in enumerate(others):
            builder.store(value, cgutils.gep_inbounds(builder, values, 0, k))
        return builder.ptrtoint(table, _WORD), builder.ptrtoint(values, _WORD)

    def commands(self, place: Any) -> Any:
        """The address of a list of commands."""
        kind = types.Array(types.int64, 1, "C", readonly=True)
        return _field(self.builder, self.array(place, kind), native.DATA, _WORD)

    def finish(self, failed: Any) -> None:
        """Give None to Python, or what went wrong."""
        with self.builder.if_then(failed, likely=False):
            # Nothing else is raised by text that reads what it was proved to have.
            self.builder.ret(self.python("PyErr_NoMemory", _POINTER))
        empty = cgutils.global_constant(self.builder, "ninepoint.none", ir.Constant(_BYTE, 0))
        self.builder.ret(self.python("Py_BuildValue", _POINTER, empty, more=True))


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
        _array(kernel.context, builder, argument, kind)
        for argument, kind in zip(arrays, kernel.kinds, strict=False)
    ]
    thread = called.python("PyEval_SaveThread", _POINTER)
    failed = kernel.call(builder, [*blocks, *others])
    called.python("PyEval_RestoreThread", ir.VoidType(), thread)
    called.finish(failed)


def _carried_out(
    kernel: _Kernel, builder: Any, told: Any, table: Any, block: Any, values: Any
) -> Any:
    """Call what carries out commands (see `commands`)."""
    kind = ir.FunctionType(_WORD, [_WORD] * 4)
    function = cgutils.get_or_insert_function(kernel.module, kind, native.COMMANDS)
    return builder.call(function, [told, table, builder.ptrtoint(block, _WORD), values])


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
    with cgutils.for_range(builder, parts) as loop:
        called.commands(builder.add(loop.index, _WORD(before)))
    lists = builder.add(builder.ptrtoint(called.arguments, _WORD), _WORD(8 * before))
    # Who keeps all of it (see `..repeated`) is told how many bytes stand at the first two places.
    size = kernel.context.get_abi_sizeof(_values_type(kernel))
    sizes = _WORD(8 * kernel.arrays * (kernel.axes + 1)), _WORD(size)
    held = cgutils.alloca_once(builder, _WORD, 5)
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
    kinds = kernel.kinds[kernel.arrays :]
    return ir.LiteralStructType([kernel.context.get_value_type(kind) for kind in kinds])


def _block(kernel: _Kernel) -> Any:
    """A function that computes a block from views of its arrays; 0 if all went well.

    A view is an address, a shape and strides, in words; one stands after the other.
    """
    kind = ir.FunctionType(_WORD, [_WORD, _WORD])
    function = ir.Function(kernel.module, kind, "ninepoint.block")
    function.linkage = "internal"
    views, others = function.args
    builder = ir.IRBuilder(function.append_basic_block())

    def word(place: int) -> Any:
        at = builder.add(views, _WORD(8 * place))
        return builder.load(builder.inttoptr(at, _WORD.as_pointer()))

    values = []
    axes, arrays = kernel.axes, kernel.arrays
    for k, one in enumerate(kernel.kinds[:arrays]):
        first = k * (2 * axes + 1)
        shape = [word(first + 1 + axis) for axis in range(axes)]
        strides = [word(first + 1 + axes + axis) for axis in range(axes)]
        values.append(view(kernel.context, builder, one, word(first), shape, strides))
    held = builder.inttoptr(others, _values_type(kernel).as_pointer())
    values += [
        builder.load(cgutils.gep_inbounds(builder, held, 0, k))
        for k in range(len(kernel.kinds) - arrays)
    ]
    builder.ret(builder.zext(kernel.call(builder, values), _WORD))
    return function


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


def _fits(builder: Any, array: Any, kind: Any, fewer: Any = None) -> Any:
    """Whether an array has the axes, the dtype and the properties that the code relies on.

    It may have one axis less where `fewer` holds.
    """
    dtype = as_dtype(kind.dtype)
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
    """Whether an array is of the kind of a dtype; to the code half floats are integers."""
    fits = builder.icmp_signed("==", found, _BYTE(ord(dtype.kind)))
    if dtype != "uint16":
        return fits
    return builder.or_(fits, builder.icmp_signed("==", found, _BYTE(ord("f"))))


def _array(context: Any, builder: Any, array: Any, kind: Any) -> Any:
    """Numba's view of an array; it owns nothing."""
    shape, strides = (
        [
            _field(builder, _field(builder, array, place, _POINTER), 8 * axis, _WORD)
            for axis in range(kind.ndim)
        ]
        for place in (native.SHAPE, native.STRIDES)
    )
    data = _field(builder, array, native.DATA, _WORD)
    return view(context, builder, kind, data, shape, strides)


def view(
    context: Any, builder: Any, kind: Any, address: Any, shape: list[Any], strides: list[Any]
) -> Any:
    """Numba's view of memory; it owns nothing."""
    made = make_array(kind)(context, builder)
    populate_array(
        made,
        data=builder.inttoptr(address, made.data.type),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=_WORD(as_dtype(kind.dtype).itemsize),
        meminfo=None,
        parent=None,
    )
    return made._getvalue()
