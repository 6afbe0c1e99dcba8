"""The loop language as LLVM's IR.

    for j in 0 .. n                       %j = phi i64 ...
        let t0 = x_0[j]          ->       %t0 = load i8, i8* %p
        o0[j] = t0 + t1                   store i16 (add of both as i16), i16* %q

Each row function is one of LLVM's, which it optimises by itself; any other function stands where
it is called.  A variable lies on the stack, which LLVM takes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, assert_never

from llvmlite import ir

from ...loops.nodes import (
    PARTS,
    Alloc,
    Array,
    Assign,
    Break,
    Call,
    Continue,
    Fetch,
    For,
    Function,
    If,
    Let,
    Load,
    Module,
    Name,
    Number,
    Op,
    Return,
    Run,
    Size,
    Statement,
    Store,
    Value,
    Variable,
    View,
    While,
)
from ...loops.values import whole
from .building import (
    INT,
    POINTER,
    WORD,
    begun,
    called,
    clear,
    function,
    loop,
    pointer,
    variable,
    word,
)
from .layout import BLOCK
from .numbers import (
    FLOATS,
    Held,
    Memory,
    applied,
    at,
    chosen,
    constant,
    convert,
    flat,
    held,
    load,
    store,
    stored,
    strides_of,
)

# A line of the cache [bytes]: memory begins at one.
_LINE = 64


def printed(loops: Module, module: ir.Module, arrays: int) -> None:
    """Print the function `band` of the loops as that which computes a block (see `entries`).

    It is given the address of views of its first arguments, which are so many arrays, and that of
    its other values; it gives 0, or 1 without memory.
    """
    _Module(loops, module).block(arrays)


def printed_words(loops: Module, module: ir.Module, names: Sequence[str]) -> None:
    """Functions of words, which others call by their names after `ninepoint_`."""
    printer = _Module(loops, module)
    for name in names:
        source = printer.function(name)
        made, builder = begun(module, f"ninepoint_{name}", WORD, [WORD] * len(source.args))
        builder.ret(builder.call(source, made.args))


# A row function of so many operations uses vectors of 512 bits where the processor has them, which
# LLVM avoids by itself.  (With them, 512x512 on one thread: bilateral 5x5 10.9 and 6.9 ms, median
# of 5x5 float32 620 and 485 us, Gaussians of sigma 1 172 and 149 us, of sigma 4 696 and 591 us;
# sums of 3x3 within 5 %, Sapphire Rapids.)  Not where all elements are bytes, of which 64 would be
# one vector: rows of 40 took up to one and a half times as long, and longer ones no less.
WIDE = 10


@dataclass(frozen=True, slots=True)
class _Variable:
    """Where a variable is; of a complex one both parts."""

    places: tuple[Any, ...]

    def read(self, b: Any) -> Held:
        values = tuple(b.load(place) for place in self.places)
        return values if len(values) > 1 else values[0]

    def write(self, b: Any, value: Held) -> None:
        for place, one in zip(self.places, flat(value), strict=True):
            b.store(one, place)


class _Module:
    """Prints the functions of a module, each when it is first called."""

    def __init__(self, loops: Module, module: ir.Module) -> None:
        self.loops, self.module = loops, module
        self._printed: dict[str, ir.Function] = {}
        self.tables = {name: self._table(name, values) for name, values in loops.tables}

    def block(self, arrays: int) -> None:
        """The function that computes a block."""
        source = self.loops.function("band")
        made, b = begun(self.module, BLOCK, WORD, [WORD, WORD])
        at, values = made.args
        given: list[Any] = []
        for k, parameter in enumerate(source.parameters):
            at = values if k == arrays else at
            if isinstance(parameter, Array):
                size = 1 + 2 * parameter.ndim
                first, *words = (word(b, at, place) for place in range(size))
                given += [b.inttoptr(first, POINTER), *words]
            else:
                size = 2 if parameter.type == "complex128" else 1
                given += flat(load(b, parameter.type, pointer(b, at, stored(parameter.type))))
            at = b.add(at, WORD(8 * size))
        writer = _Writer(self, source, b)
        writer.take(given)
        writer.whole()

    def function(self, name: str) -> ir.Function:
        """A function that others call."""
        if name not in self._printed:
            source = self.loops.function(name)
            types = [one for parameter in source.parameters for one in _types(parameter)]
            result = held(source.result) if source.result else ir.VoidType()
            made, builder = begun(self.module, f"{name}.loops", result, types, internal=True)
            if source.overlap is None:
                made.attributes.add("alwaysinline")
            else:
                # As one function that LLVM has optimised by itself, not as a part of others.
                made.attributes.add("noinline")
                for arg in made.args:
                    if isinstance(arg.type, ir.PointerType):
                        arg.add_attribute("noalias")
                if self._is_wide(source):
                    # It is none of the names that llvmlite's own method takes.
                    set.add(made.attributes, '"prefer-vector-width"="512"')
            writer = _Writer(self, source, builder)
            writer.take(made.args)
            writer.block(source.body)
            if not writer.b.block.is_terminated and source.result:
                # Each way through the function returned before.
                writer.b.unreachable()
            elif not writer.b.block.is_terminated:
                writer.b.ret_void()
            self._printed[name] = self._in_turns(source, made) if source.overlap else made
        return self._printed[name]

    def _in_turns(self, source: Function, row: ir.Function) -> ir.Function:
        """What does the columns of a row that are whole vectors, then the last of them once more.

        In the second turn all rows that stand before `n` begin later.
        """
        assert source.overlap
        columns, least = source.overlap
        made, b = begun(
            self.module, f"{row.name}.turns", ir.VoidType(), row.function_type.args, internal=True
        )
        made.attributes.add("alwaysinline")
        names = [one.name for one in source.parameters]
        before = sum(len(_types(one)) for one in source.parameters[: names.index("n")])
        rows, (n, *others) = made.args[:before], made.args[before:]

        def turn(first: Any, count: Any) -> None:
            moved = [
                b.gep(one, [first], inbounds=True) if isinstance(one.type, ir.PointerType) else one
                for one in rows
            ]
            b.call(row, [*moved, count, *others])

        rest = b.and_(n, WORD(columns - 1))
        long = b.icmp_signed(">=", n, WORD(columns))
        twice = b.and_(long, b.icmp_signed(">=", rest, WORD(least)))
        turn(WORD(0), b.select(twice, b.sub(n, rest), n))
        with b.if_then(twice):
            turn(b.sub(n, WORD(columns)), WORD(columns))
        b.ret_void()
        return made

    def _is_wide(self, function: Function) -> bool:
        """Whether a row function is to use the widest vectors."""
        sizes = [one.itemsize for one in function.parameters if isinstance(one, Array)]
        return max(sizes) > 1 and self.loops.operations(function.body) >= WIDE

    def _table(self, name: str, values: Any) -> Memory:
        machine = values.dtype.name
        kind = stored(machine)
        whole = ir.ArrayType(kind, values.size)
        # Floats are filled in when the code is loaded, so that LLVM must not know them.
        filled = machine in FLOATS
        made = ir.GlobalVariable(self.module, whole, name if filled else f"table.{name}")
        made.align = _LINE
        if filled:
            made.initializer = ir.Constant(whole, None)
        else:
            made.global_constant, made.linkage = True, "internal"
            numbers = [_element(machine, one) for one in values.ravel()]
            made.initializer = ir.Constant(whole, numbers)
        shape = tuple(WORD(n) for n in values.shape)
        return Memory(machine, made.bitcast(kind.as_pointer()), shape)


def _element(machine: str, value: Any) -> Any:
    if machine in PARTS:
        return ir.Constant(stored(machine), list(constant(machine, value)))
    number = constant(machine, value)
    return stored(machine)(int(bool(value))) if machine == "bool" else number


def _types(parameter: Name | Array) -> list[Any]:
    """LLVM's types of what holds an argument."""
    if isinstance(parameter, Name):
        if parameter.type in PARTS:
            return [FLOATS[PARTS[parameter.type]]] * 2
        return [held(parameter.type)]
    words = parameter.ndim if parameter.dense else 2 * parameter.ndim
    return [stored(parameter.element).as_pointer(), *([WORD] * words)]


class _Writer:
    """Writes the body of one of LLVM's functions."""

    def __init__(self, module: _Module, source: Function, builder: Any) -> None:
        self.module, self.source, self.b = module, source, builder
        self.values: dict[str, Held | _Variable] = {}
        self.arrays: dict[str, Memory] = dict(module.tables)
        self._buffers: list[Any] = []
        # Where control goes when a loop is left, or goes on with its next turn, and when all of it
        # ends; and 1 until it has ended well.
        self._ends: list[tuple[Any, Any]] = []
        self._end: Any = None
        self._status: Any = None
        self._flags = ("fast",) if module.loops.fastmath else ()

    # Functions.

    def take(self, args: Sequence[Any]) -> None:
        """Give the parameters their names."""
        given = iter(args)
        for parameter in self.source.parameters:
            first = next(given)
            if isinstance(parameter, Name):
                is_pair = parameter.type in PARTS
                self.values[parameter.name] = (first, next(given)) if is_pair else first
                continue
            shape = tuple(islice(given, parameter.ndim))
            strides = None if parameter.dense else tuple(islice(given, parameter.ndim))
            pointer = self.b.bitcast(first, stored(parameter.element).as_pointer())
            self.arrays[parameter.name] = Memory(parameter.element, pointer, shape, strides)

    def whole(self) -> None:
        """Write all of it, which gives back its memory, and gives 0, or 1 where there was none."""
        b = self.b
        self._end = b.append_basic_block("finish")
        self._status = variable(b, WORD, WORD(1))
        self.block(self.source.body)
        b.store(WORD(0), self._status)
        b.branch(self._end)
        b.position_at_end(self._end)
        for place in self._buffers:
            called(b, "free", ir.VoidType(), b.load(place))
        b.ret(b.load(self._status))

    # Statements.

    def block(self, statements: Sequence[Statement]) -> None:
        """Write statements, up to one that leaves."""
        for one in statements:
            if self.b.block.is_terminated:
                break
            self.statement(one)

    def statement(self, node: Statement) -> None:
        match node:
            case Let(name, value):
                self.values[name] = self.value(value)
            case Variable(name, value):
                begin = self.value(value)
                places = tuple(variable(self.b, one.type) for one in flat(begin))
                self.values[name] = _Variable(places)
                self.values[name].write(self.b, begin)
            case Assign(name, value):
                self.values[name].write(self.b, self.value(value))
            case Store(array, index, value):
                # What is stored is computed before where it goes.
                held_value = self.value(value)
                place = self._place(array, index)
                store(self.b, array.element, place, held_value)
            case View():
                self._view(node)
            case Alloc():
                self.arrays[node.array.name] = self._allocate(node)
            case For():
                self._for(node)
            case While():
                self._while(node)
            case If():
                self._if(node)
            case Break():
                self.b.branch(self._ends[-1][0])
            case Continue():
                self.b.branch(self._ends[-1][1])
            case Return(value):
                self._return(value)
            case Run(call):
                self.value(call)
            case Fetch():
                self._fetch(node)
            case _:
                assert_never(node)

    def _fetch(self, node: Fetch) -> None:
        """Ask for a row line by line of the cache; nothing is wrong with one outside."""
        b, row = self.b, self.arrays[node.row.name]
        size = b.mul(self.value(node.count), WORD(node.row.itemsize))
        begin = b.bitcast(row.data, POINTER)
        with loop(b, size, step=_LINE) as line:
            place = b.gep(begin, [line.index])
            called(b, "llvm.prefetch.p0i8", ir.VoidType(), place, *map(INT, (0, 3, 1)))

    def _return(self, value: Value) -> None:
        found = self.value(value)
        if isinstance(found, tuple):
            made = ir.Constant(held(self.source.result), ir.Undefined)
            for k, part in enumerate(found):
                made = self.b.insert_value(made, part, k)
            found = made
        self.b.ret(found)

    def _for(self, node: For) -> None:
        start, stop = self.value(node.start), self.value(node.stop)
        with loop(self.b, stop, start, node.step) as inner:
            self._ends.append((inner.end, inner.next))
            self.values[node.index] = inner.index
            self.block(node.body)
            self._ends.pop()

    def _while(self, node: While) -> None:
        b = self.b
        test, body, end = (b.append_basic_block(name) for name in ("while", "do", "done"))
        b.branch(test)
        b.position_at_end(test)
        self.block(node.head)
        b.cbranch(self.value(node.test), body, end)
        b.position_at_end(body)
        self._ends.append((end, test))
        self.block(node.body)
        self._ends.pop()
        if not b.block.is_terminated:
            b.branch(test)
        b.position_at_end(end)

    def _if(self, node: If) -> None:
        test = self.value(node.test)
        if not node.other:
            with self.b.if_then(test):
                self.block(node.then)
            return
        with self.b.if_else(test) as ways:
            for way, body in zip(ways, (node.then, node.other), strict=True):
                with way:
                    self.block(body)

    # Arrays.

    def _place(self, array: Array, index: Sequence[Value]) -> Any:
        places = tuple(map(self.value, index))
        return at(self.b, self.arrays[array.name], places)

    def _view(self, node: View) -> None:
        of = self.arrays[node.of.name]
        data, count = self._place(node.of, node.index), len(node.index)
        if node.array.element != node.of.element:
            data = self.b.bitcast(data, stored(node.array.element).as_pointer())
        if node.first is not None:
            data = self.b.gep(data, [self.value(node.first)], inbounds=True)
        strides = None if node.array.dense else strides_of(self.b, of)[count:]
        self.arrays[node.array.name] = Memory(node.array.element, data, of.shape[count:], strides)

    def _allocate(self, node: Alloc) -> Memory:
        """Memory for an array, which is given back at the end."""
        b = self.b
        shape = tuple(map(self.value, node.shape))
        size: Any = WORD(node.array.itemsize)
        for length in shape:
            size = b.mul(size, length, flags=("nsw",))
        free = variable(b, POINTER)
        with b.goto_entry_block():
            b.store(POINTER(None), free)
        self._buffers.append(free)
        memory = called(b, "malloc", POINTER, b.add(size, WORD(_LINE)))
        b.store(memory, free)
        goes_on = b.append_basic_block("allocated")
        b.cbranch(b.icmp_unsigned("==", memory, POINTER(None)), self._end, goes_on)
        b.position_at_end(goes_on)
        begin = b.and_(b.add(b.ptrtoint(memory, WORD), WORD(_LINE - 1)), WORD(-_LINE))
        address = b.inttoptr(begin, POINTER)
        if node.zero:
            clear(b, address, size)
        data = b.bitcast(address, stored(node.array.element).as_pointer())
        return Memory(node.array.element, data, shape)

    # Values.

    def value(self, node: Value) -> Held:
        match node:
            case Name(name=name):
                found = self.values[name]
                return found.read(self.b) if isinstance(found, _Variable) else found
            case Number(machine, value):
                return constant(machine, value)
            case Op():
                return self._operation(node)
            case Load(array, index, anew=True):
                return self.b.load_atomic(self._place(array, index), "monotonic", array.itemsize)
            case Load(array, index):
                return load(self.b, array.element, self._place(array, index))
            case Size(array, axis):
                return self.arrays[array.name].shape[axis]
            case Call():
                return self._call(node)
            case _:
                assert_never(node)

    def _operation(self, node: Op) -> Held:
        args = [self.value(arg) for arg in node.args]
        first = node.args[0].type
        match node.op:
            case "to":
                return convert(self.b, args[0], first, node.type)
            case "select":
                return chosen(self.b, *args)
            case "complex":
                return tuple(args)
            case "real" | "imag":
                return args[0][node.op == "imag"]
            case "bits":
                return self.b.bitcast(args[0], held(node.type))
            case "unhalf":
                return self.b.fpext(self.b.bitcast(args[0], ir.HalfType()), held(node.type))
            case "half":
                return self.b.bitcast(self.b.fptrunc(args[0], ir.HalfType()), held(node.type))
        return applied(self.b, node.op, first, args, node.exact, self._flags)

    def _call(self, node: Call) -> Held:
        place, _, name = node.function.partition(":")
        if name:
            values = [self.value(one) for one in node.args if not isinstance(one, Array)]
            done = _by_c if place == "c" else _by_machine
            return done(self.b, name, node, values)
        parameters = self.module.loops.function(node.function).parameters
        args: list[Any] = []
        for arg, parameter in zip(node.args, parameters, strict=True):
            if isinstance(arg, Array):
                assert isinstance(parameter, Array)
                array = self.arrays[arg.name]
                strides = () if parameter.dense else strides_of(self.b, array)
                args += [array.data, *array.shape, *strides]
            else:
                args += flat(self.value(arg))
        found = self.b.call(self.module.function(node.function), args)
        if node.type in PARTS:
            return tuple(self.b.extract_value(found, k) for k in range(2))
        return found


def _by_c(b: Any, name: str, node: Call, values: Sequence[Any]) -> Any:
    """What a function of C gives; words are addresses where it takes or gives these."""
    kinds = [value.type for value in values]
    found = function(b.module, name, held(node.type), kinds)
    given = [
        b.inttoptr(value, kind) if isinstance(kind, ir.PointerType) else value
        for value, kind in zip(values, found.function_type.args, strict=True)
    ]
    made = b.call(found, given)
    return b.ptrtoint(made, WORD) if isinstance(made.type, ir.PointerType) else made


# Steps that no other thread sees the half of.
_ATOMIC = {"add": "add", "either": "or", "exchange": "xchg"}


def _by_machine(b: Any, name: str, node: Call, values: Sequence[Any]) -> Any:
    """What is done with memory at an address, or with code that begins there."""
    first, *rest = values
    match name:
        case "room":
            # So many words, as long as the call lasts.
            return b.ptrtoint(b.alloca(WORD, first), WORD)
        case "do":
            return b.call(pointer(b, first, ir.FunctionType(WORD, [WORD] * len(rest))), rest)
        case "put":
            assert isinstance(node.args[1], Value)
            kind = node.args[1].type
            return store(b, kind, pointer(b, first, stored(kind)), rest[0], align=1)
        case "pick":
            assert isinstance(node.args[0], Number)
            return _pick(b, held(node.type), whole(node.args[0]), *rest)
    place = pointer(b, first, stored(node.type))
    match name:
        case "at":
            return load(b, node.type, place, align=1)
        case "get":
            return b.load_atomic(place, "seq_cst", 8)
        case "set":
            return b.store_atomic(rest[0], place, "seq_cst", 8)
        case "swap":
            return b.extract_value(b.cmpxchg(place, *rest, "seq_cst", "seq_cst"), 0)
        case _:
            return b.atomic_rmw(_ATOMIC[name], place, rest[0], "seq_cst")


def _pick(b: Any, kind: Any, step: int, to: Any, at: Any) -> None:
    """Copy 16 bytes of elements that lie some steps apart, or backwards, out of whole vectors."""
    count = 128 // kind.width
    wide = ir.VectorType(kind, count * abs(step))
    places = [k * step if step > 0 else count - 1 - k for k in range(count)]
    read = b.load(pointer(b, at, wide), align=1)
    picks = ir.Constant(ir.VectorType(INT, count), places)
    made = b.shuffle_vector(read, ir.Constant(wide, ir.Undefined), picks)
    b.store(made, pointer(b, to, made.type), align=1)
