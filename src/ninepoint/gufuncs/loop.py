"""The loop over a stack, as NumPy calls it, around a function of core arrays.

    loop(arguments, sizes, steps, data)

`sizes` are how many items there are, and the sizes of the core axes; `steps` how far it is from
one item to the next in each array, then along each core axis of each.  An item's arrays go to the
function where they lie, if they lie in C's order; else through room of their own.

`data` says among how many threads of a crew the items may be shared.  They are if
that takes less time than it costs: the first of them are timed.  Only then is the crew asked for:
to begin one takes longer than most calls.  No other Python is run meanwhile, and
the interpreter's lock is let go of.  What the function raises is told to Python as numbers, which
`raised` understands.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import as_dtype

from ..backends.threads import CREW_HANDOFF
from .inside import ROOM

ENTRY = "ninepoint_loop"

# The words of `data`: the type of what is raised, what is asked for a crew, how many threads there
# are, where it is written whether a call took long; and the place of each size of the signature in
# `sizes`.
RAISED, ASK, THREADS, SLOW, PLACES = range(5)

# A call that takes longer may be shared the next time [ns].
_LONG = 20_000

# One item is too short for the clock if it takes less; then so many more are timed [ns].
_SHORT, _MORE = 1000, 16

# How many parts a thread is given, so that one that comes late takes fewer.
_PARTS = 4

# What NumPy looks for after a loop, by the machine: invalid, divided by zero, over- and underflow.
_EXCEPTIONS = {"x86_64": 0x1D, "AMD64": 0x1D, "aarch64": 0x0F, "arm64": 0x0F}

_BIT, _BYTE, _INT, _WORD = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_POINTER = _BYTE.as_pointer()

# What is asked for a crew, by how many threads there are; 0 if there is none.
_ASKED = ir.FunctionType(_WORD, [_WORD])

# The words of a record, which all that takes part in a call knows; the text of an error follows.
_ARGUMENTS, _SIZES, _STEPS, _DATA, _FIRST, _CHUNK, _COUNT, _FAILED, _CODE, _INFO, _TOLD = range(11)

# The code of an error where there is no room for arrays that do not lie in order; all others are
# Numba's.
NO_MEMORY = -100

# So many words of what was told are given to Python.
TOLD_WORDS = 8


@dataclass(frozen=True, slots=True)
class Operand:
    """An array of a call: Numba's type of what the function sees, and its core sizes.

    These are numbers of the sizes of the signature.
    """

    kind: Any
    core: tuple[int, ...]
    out: bool


def loop_module(
    context: Any,
    described: Any,
    operands: Sequence[Operand],
    order: Sequence[int],
    told: bool,
    entry: str = ENTRY,
) -> Any:
    """The module with the loop, called `entry`, for a function as Numba describes it.

    `order` has for each argument of the function the number of its operand; where `told`, what
    is told (see `inside`) comes last.
    """
    module = context.create_module("ninepoint.gufunc")
    writer = _Writer(context, module, described, tuple(operands), tuple(order), told)
    items = writer.items()
    writer.loop(entry, items, writer.part(items))
    return module


class _Writer:
    """Writes the functions of a loop."""

    def __init__(
        self,
        context: Any,
        module: Any,
        described: Any,
        operands: tuple[Operand, ...],
        order: tuple[int, ...],
        told: bool,
    ) -> None:
        self.context, self.module, self.described = context, module, described
        self.operands, self.order, self.told = operands, order, told
        kind = context.call_conv.get_function_type(described.restype, described.argtypes)
        self.function = ir.Function(module, kind, described.llvm_func_name)
        self.builder: Any = None

    def begin(self, name: str, result: Any, *arguments: Any) -> Any:
        function = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        self.builder = ir.IRBuilder(function.append_basic_block())
        return function

    def call(self, name: str, result: Any, *values: Any, more: bool = False) -> Any:
        """Call a function of C or of Python."""
        fixed = [value.type for value in (values[:2] if more else values)]
        kind = ir.FunctionType(result, fixed, var_arg=more)
        return self.builder.call(cgutils.get_or_insert_function(self.module, kind, name), values)

    def word(self, base: Any, place: Any) -> Any:
        """The address of a word, counted from one."""
        number = place if hasattr(place, "type") else _WORD(place)
        at = self.builder.add(base, self.builder.mul(number, _WORD(8)))
        return self.builder.inttoptr(at, _WORD.as_pointer())

    def get(self, base: Any, place: Any) -> Any:
        return self.builder.load(self.word(base, place))

    def put(self, base: Any, place: Any, value: Any) -> None:
        self.builder.store(value, self.word(base, place))

    def size(self, sizes: Any, data: Any, name: int) -> Any:
        """A size of the signature, by its number."""
        place = self.get(data, PLACES + name)
        return self.get(sizes, self.builder.add(place, _WORD(1)))

    # Items.

    def items(self) -> Any:
        """`items(record, begin, end)`: the items of a part, one by one; 0 if all went well."""
        function = self.begin("ninepoint.items", _WORD, _WORD, _WORD, _WORD)
        function.linkage = "internal"
        builder = self.builder
        record, first, last = function.args
        known = (_ARGUMENTS, _SIZES, _STEPS, _DATA)
        arguments, sizes, steps, data = (self.get(record, k) for k in known)
        told = cgutils.alloca_once(builder, _WORD, ROOM)
        builder.store(_WORD(0), told)
        failed = cgutils.alloca_once_value(builder, _WORD(0))
        places = []
        step = len(self.operands)
        for k, operand in enumerate(self.operands):
            shape = [self.size(sizes, data, name) for name in operand.core]
            strides = [self.get(steps, step + axis) for axis in range(len(shape))]
            step += len(shape)
            base, move = self.get(arguments, k), self.get(steps, k)
            places.append(_Place(self, operand, base, move, shape, strides))
        for place in places:
            with builder.if_then(builder.not_(place.has_room()), likely=False):
                self.put(record, _FAILED, _WORD(1))
                self.put(record, _CODE, _WORD(NO_MEMORY))
                for other in places:
                    other.end()
                builder.ret(_WORD(1))
        index = cgutils.alloca_once_value(builder, first)
        check, body, end = (builder.append_basic_block() for _ in range(3))
        builder.branch(check)
        builder.position_at_end(check)
        at = builder.load(index)
        builder.cbranch(builder.icmp_signed("<", at, last), body, end)
        builder.position_at_end(body)
        for place in places:
            place.arrive(at, builder.icmp_signed("==", at, first))
        values = [places[k].value(at) for k in self.order]
        if self.told:
            values.append(self._told(told))
        status, _ = self.context.call_conv.call_function(
            builder, self.function, self.described.restype, self.described.argtypes, values
        )
        with builder.if_then(status.is_error, likely=False):
            self._note(record, status, told)
            builder.store(_WORD(1), failed)
            builder.branch(end)
        for place in places:
            place.leave(at)
        builder.store(builder.add(at, _WORD(1)), index)
        builder.branch(check)
        builder.position_at_end(end)
        for place in places:
            place.end()
        builder.ret(builder.load(failed))
        return function

    def _told(self, told: Any) -> Any:
        """What a function is told into, as an array."""
        kind = types.Array(types.int64, 1, "C")
        address = self.builder.ptrtoint(told, _WORD)
        return view(self.context, self.builder, kind, address, [_WORD(ROOM)], [_WORD(8)])

    def _note(self, record: Any, status: Any, told: Any) -> None:
        """Keep what went wrong, if nothing did before."""
        builder = self.builder
        place = self.word(record, _FAILED)
        taken = builder.cmpxchg(place, _WORD(0), _WORD(1), "seq_cst", "seq_cst")
        with builder.if_then(builder.extract_value(taken, 1)):
            self.put(record, _CODE, builder.sext(status.code, _WORD))
            self.put(record, _INFO, builder.ptrtoint(status.excinfoptr, _WORD))
            for k in range(TOLD_WORDS):
                self.put(record, _TOLD + k, builder.load(builder.gep(told, [_INT(k)])))

    def part(self, items: Any) -> Any:
        """`part(record, k)`: the items of part `k`, as a crew calls it."""
        function = self.begin("ninepoint.part", _WORD, _WORD, _WORD)
        function.linkage = "internal"
        builder = self.builder
        record, k = function.args
        chunk, count = self.get(record, _CHUNK), self.get(record, _COUNT)
        begin = builder.add(self.get(record, _FIRST), builder.mul(k, chunk))
        end = builder.add(begin, chunk)
        end = builder.select(builder.icmp_signed("<", end, count), end, count)
        builder.ret(builder.call(items, [record, begin, end]))
        return function

    # The loop.

    def loop(self, entry: str, items: Any, part: Any) -> None:
        """Write the function that NumPy calls."""
        words = _WORD.as_pointer()
        function = self.begin(entry, ir.VoidType(), _WORD, words, _WORD, _WORD)
        builder = self.builder
        arguments, sizes, steps, data = function.args
        count = builder.load(sizes)
        record = builder.ptrtoint(cgutils.alloca_once(builder, _WORD, _TOLD + TOLD_WORDS), _WORD)
        clock = cgutils.alloca_once(builder, _WORD, 2)
        places = builder.ptrtoint(sizes, _WORD)
        known = (arguments, places, steps, data, _WORD(0), _WORD(0), count)
        for k, value in enumerate((*known, _WORD(0))):
            self.put(record, k, value)
        threads = self.get(data, THREADS)
        several = builder.icmp_signed(">", threads, _WORD(0))
        held = cgutils.alloca_once_value(builder, _POINTER(None))
        with builder.if_then(several):
            here = self.call("PyGILState_Check", _INT)
            with builder.if_then(builder.icmp_signed("!=", here, _INT(0))):
                builder.store(self.call("PyEval_SaveThread", _POINTER), held)
        failed = cgutils.alloca_once_value(builder, _WORD(0))
        begin = self.now(clock)
        shared = builder.and_(
            builder.icmp_signed(">", threads, _WORD(1)), builder.icmp_signed(">", count, _WORD(1))
        )
        with builder.if_else(shared) as (then, otherwise):
            with then:
                self._shared(items, part, record, data, count, begin, clock, failed)
            with otherwise:
                builder.store(builder.call(items, [record, _WORD(0), count]), failed)
        spent = builder.sub(self.now(clock), begin)
        slow = builder.zext(builder.icmp_signed(">", spent, _WORD(_LONG)), _WORD)
        self.put(self.get(data, SLOW), 0, slow)
        self._forget_exceptions()
        thread = builder.load(held)
        with builder.if_then(cgutils.is_not_null(builder, thread)):
            self.call("PyEval_RestoreThread", ir.VoidType(), thread)
        with builder.if_then(builder.icmp_signed("!=", builder.load(failed), _WORD(0)), False):
            self._raise(record, data)
        builder.ret_void()

    def now(self, clock: Any) -> Any:
        """The time [ns]; `clock` is room for two words."""
        builder = self.builder
        room = builder.bitcast(clock, _POINTER)
        self.call("clock_gettime", _INT, _INT(time.CLOCK_MONOTONIC), room)
        seconds, rest = (builder.load(builder.gep(clock, [_INT(k)])) for k in range(2))
        return builder.add(builder.mul(seconds, _WORD(1_000_000_000)), rest)

    def _shared(
        self,
        items: Any,
        part: Any,
        record: Any,
        data: Any,
        count: Any,
        begin: Any,
        clock: Any,
        failed: Any,
    ) -> None:
        """Do the first items, and share the others if they take long enough."""
        builder = self.builder
        builder.store(builder.call(items, [record, _WORD(0), _WORD(1)]), failed)
        done = cgutils.alloca_once_value(builder, _WORD(1))
        each = cgutils.alloca_once(builder, _WORD)
        middle = self.now(clock)
        builder.store(builder.sub(middle, begin), each)
        short = builder.icmp_signed("<", builder.load(each), _WORD(_SHORT))
        more = builder.icmp_signed(">", count, _WORD(2 * _MORE))
        with builder.if_then(builder.and_(short, more)):
            again = builder.call(items, [record, _WORD(1), _WORD(1 + _MORE)])
            builder.store(builder.or_(builder.load(failed), again), failed)
            spent = builder.sub(self.now(clock), middle)
            builder.store(builder.sdiv(spent, _WORD(_MORE)), each)
            builder.store(_WORD(1 + _MORE), done)
        first = builder.load(done)
        left = builder.sub(count, first)
        # What is too short for the clock takes a nanosecond at least.
        long = builder.add(builder.load(each), _WORD(1))
        gain = builder.icmp_signed(">", builder.mul(long, left), _WORD(int(CREW_HANDOFF * 1e9)))
        well = builder.icmp_signed("==", builder.load(failed), _WORD(0))
        threads = self.get(data, THREADS)
        crew = cgutils.alloca_once_value(builder, _WORD(0))
        with builder.if_then(builder.and_(well, gain)):
            ask = builder.inttoptr(self.get(data, ASK), _ASKED.as_pointer())
            builder.store(builder.call(ask, [threads]), crew)
        there = builder.icmp_signed("!=", builder.load(crew), _WORD(0))
        with builder.if_then(well), builder.if_else(there) as (then, otherwise):
            with then:
                parts = builder.mul(threads, _WORD(_PARTS))
                above = builder.add(left, builder.sub(parts, _WORD(1)))
                chunk = builder.sdiv(above, parts)
                parts = builder.sdiv(builder.add(left, builder.sub(chunk, _WORD(1))), chunk)
                self.put(record, _FIRST, first)
                self.put(record, _CHUNK, chunk)
                kind = ir.FunctionType(_WORD, [_WORD, _WORD, part.type, _WORD, _WORD])
                address = builder.load(crew)
                do = builder.load(builder.inttoptr(address, kind.as_pointer().as_pointer()))
                builder.store(builder.call(do, [address, threads, part, record, parts]), failed)
            with otherwise:
                builder.store(builder.call(items, [record, first, count]), failed)

    def _forget_exceptions(self) -> None:
        """Forget that a float was none, or too large: threads of a crew cannot tell either."""
        known = _EXCEPTIONS.get(platform.machine())
        if known is None:
            return
        found = self.call("fetestexcept", _INT, _INT(known))
        with self.builder.if_then(self.builder.icmp_signed("!=", found, _INT(0)), likely=False):
            self.call("feclearexcept", _INT, _INT(known))

    def _raise(self, record: Any, data: Any) -> None:
        """Tell Python the numbers of an error."""
        builder = self.builder
        state = self.call("PyGILState_Ensure", _INT)
        text = cgutils.global_constant(
            self.module,
            "ninepoint.numbers",
            cgutils.make_bytearray(b" ".join([b"%lld"] * (2 + TOLD_WORDS)) + b"\0"),
        )
        kind = builder.inttoptr(self.get(data, RAISED), _POINTER)
        numbers = [self.get(record, k) for k in range(_CODE, _TOLD + TOLD_WORDS)]
        self.call(
            "PyErr_Format", _POINTER, kind, builder.bitcast(text, _POINTER), *numbers, more=True
        )
        self.call("PyGILState_Release", ir.VoidType(), state)


class _Place:
    """One array of a call, as its items come by."""

    def __init__(
        self, writer: _Writer, operand: Operand, base: Any, move: Any, shape: Any, strides: Any
    ) -> None:
        self.writer, self.operand = writer, operand
        self.base, self.move, self.shape, self.strides = base, move, shape, strides
        builder = writer.builder
        dtype = operand.kind.dtype if isinstance(operand.kind, types.Array) else operand.kind
        self.data = writer.context.get_data_type(dtype)
        self.itemsize = as_dtype(dtype).itemsize
        self.in_order: Any = _BIT(1)
        size: Any = _WORD(self.itemsize)
        ordered: list[Any] = []
        for length, stride in reversed(list(zip(shape, strides, strict=True))):
            fits = builder.or_(
                builder.icmp_signed("==", stride, size),
                builder.icmp_signed("<=", length, _WORD(1)),
            )
            self.in_order = builder.and_(self.in_order, fits)
            ordered.insert(0, size)
            size = builder.mul(size, length)
        self.ordered = ordered
        self.room: Any = None
        if shape:
            self.room = cgutils.alloca_once_value(builder, _WORD(0))
            with builder.if_then(builder.not_(self.in_order), likely=False):
                room = writer.call("malloc", _POINTER, builder.or_(size, _WORD(1)))
                builder.store(builder.ptrtoint(room, _WORD), self.room)

    def has_room(self) -> Any:
        """Whether room is there where it is needed."""
        if not self.shape:
            return _BIT(1)
        builder = self.writer.builder
        there = builder.icmp_signed("!=", builder.load(self.room), _WORD(0))
        return builder.or_(self.in_order, there)

    def value(self, at: Any) -> Any:
        """What the function is given for an item."""
        builder, context, kind = self.writer.builder, self.writer.context, self.operand.kind
        address = self._address(at)
        if not isinstance(kind, types.Array):
            place = builder.inttoptr(address, self.data.as_pointer())
            return context.unpack_value(builder, kind, place)
        if not self.shape:
            # A number that is a result has one axis of length 1.
            return view(context, builder, kind, address, [_WORD(1)], [_WORD(self.itemsize)])
        room = builder.load(self.room)
        address = builder.select(self.in_order, address, room)
        return view(context, builder, kind, address, self.shape, self.ordered)

    def arrive(self, at: Any, begins: Any) -> None:
        """Bring what the function reads into order, if it is another item than before."""
        if self.shape and not self.operand.out:
            builder = self.writer.builder
            moves = builder.icmp_signed("!=", self.move, _WORD(0))
            needed = builder.and_(builder.not_(self.in_order), builder.or_(moves, begins))
            with builder.if_then(needed, likely=False):
                self._copy(self._address(at), self.strides, builder.load(self.room), self.ordered)

    def leave(self, at: Any) -> None:
        """Bring what the function wrote to its place."""
        if self.shape and self.operand.out:
            builder = self.writer.builder
            with builder.if_then(builder.not_(self.in_order), likely=False):
                self._copy(builder.load(self.room), self.ordered, self._address(at), self.strides)

    def end(self) -> None:
        if self.shape:
            builder = self.writer.builder
            room = builder.inttoptr(builder.load(self.room), _POINTER)
            self.writer.call("free", ir.VoidType(), room)

    def _address(self, at: Any) -> Any:
        builder = self.writer.builder
        return builder.add(self.base, builder.mul(at, self.move))

    def _copy(self, source: Any, steps: Any, target: Any, target_steps: Any) -> None:
        builder = self.writer.builder
        pointer = self.data.as_pointer()
        with cgutils.loop_nest(builder, self.shape, _WORD) as indices:
            found = []
            for base, strides in ((source, steps), (target, target_steps)):
                for index, stride in zip(indices, strides, strict=True):
                    base = builder.add(base, builder.mul(index, stride))
                found.append(builder.inttoptr(base, pointer))
            builder.store(builder.load(found[0]), found[1])


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
