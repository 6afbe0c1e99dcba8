"""The loop language as LLVM's IR.

    for j in 0 .. n                       %j = phi i64 ...
        let t0 = x_0[j]          ->       %t0 = load i8, ptr %p
        o0[j] = t0 + t1                   store i16 (add of both as i16), ptr %q

Each row function is one of LLVM's, which it optimises by itself; any other function stands where
it is called.  A variable lies on the stack, which LLVM takes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from typing import assert_never

from ...loops.nodes import (
    Array,
    Assign,
    Call,
    For,
    Function,
    If,
    Laid,
    Let,
    Load,
    Module,
    Name,
    Number,
    Op,
    Return,
    Size,
    Statement,
    Store,
    Value,
    Variable,
    View,
    While,
    word,
)
from .instructions import TYPES, Instructions, Memory, constant, stored, table


def printed(loops: Module, names: Sequence[str]) -> str:
    """Print functions of words, which others call by their names after `ninepoint_`."""
    printer = _Module(loops)
    for name in names:
        printer.function(name, f"ninepoint_{name}")
    return "\n".join((*printer.parts.values(), ""))


class _Module:
    """Prints the functions of a module, each when it is first called."""

    def __init__(self, loops: Module) -> None:
        self.loops = loops
        # The text of each table and each function; what is not defined is declared.
        self.parts = dict[str, str]()
        self.tables = dict[str, Memory]()
        for name, values in loops.tables:
            self.parts[f"table {name}"], self.tables[name] = table(name, values)

    def function(self, name: str, exported: str = "") -> str:
        """Print a function, under the name by which it is found from outside, if it is.

        What it is given is called %a0, %a1, ...
        """
        own, source = exported or f"{name}.loops", self.loops.function(name)
        if own in self.parts and not exported:
            return own
        kinds = [kind for parameter in source.parameters for kind in _types(parameter)]
        writer, result = _Writer(self, source), TYPES[source.result]
        writer.block(source.body)
        if writer.open:
            writer.leave(f"ret {result} zeroinitializer")
        linkage, how = ("", "") if exported else ("internal", "alwaysinline")
        if source.row:
            # As one function that LLVM has optimised by itself, not as a part of others.
            kinds = [f"{kind} noalias" if kind == "ptr" else kind for kind in kinds]
            how = "noinline"
            # With vectors of 512 bits where the processor has them, which LLVM avoids by itself.
            # (With them, 512x512 on one thread: bilateral 5x5 10.9 and 6.9 ms, median of 5x5
            # float32 620 and 485 us, Gaussians of sigma 1 172 and 149 us, of sigma 4 696 and
            # 591 us; sums of 3x3 within 5 %, Sapphire Rapids.)  Not where all elements are bytes,
            # of which 64 would be one vector: rows of 40 took up to one and a half times as long,
            # and longer ones no less.
            sizes = [one.itemsize for one in source.parameters if isinstance(one, Array)]
            if max(sizes) > 1:
                how += ' "prefer-vector-width"="512"'
        parameters = ", ".join(f"{kind} %a{k}" for k, kind in enumerate(kinds))
        head = f'define {linkage} {result} @"{own}"({parameters}) {how} {{'
        self.parts[own] = "\n".join((head, "begin:", *writer.front, *writer.lines, "}"))
        return own


def _types(value: Value | Array) -> list[str]:
    """LLVM's types of what holds an argument."""
    if not isinstance(value, Array):
        return [TYPES[value.type]]
    words = value.ndim if value.dense else 2 * value.ndim
    return ["ptr", *["i64"] * words]


class _Writer(Instructions):
    """Writes the body of one of LLVM's functions."""

    def __init__(self, module: _Module, source: Function) -> None:
        super().__init__(module.parts, " fast" if module.loops.fastmath else "")
        self.module = module
        self.values = dict[str, str]()
        # Where each variable is.
        self.variables = dict[str, str]()
        self.arrays: dict[str, Memory] = dict(module.tables)
        given = map("%a{}".format, count())
        for parameter in source.parameters:
            first = next(given)
            if isinstance(parameter, Name):
                self.values[parameter.name] = first
                continue
            shape = tuple(islice(given, parameter.ndim))
            strides = None if parameter.dense else tuple(islice(given, parameter.ndim))
            self.arrays[parameter.name] = Memory(parameter.element, first, shape, strides)

    # Statements.

    def block(self, statements: Sequence[Statement]) -> None:
        """Write statements, up to one that leaves."""
        for one in statements:
            if self.open:
                self.statement(one)

    def statement(self, node: Statement) -> None:
        match node:
            case Let(name, value):
                self.values[name] = self.value(value)
            case Variable(name, value):
                self.variables[name] = self.variable(TYPES[value.type])
                self.statement(Assign(name, value))
            case Assign(name, value):
                held = self.value(value)
                self.do(f"store {TYPES[value.type]} {held}, ptr {self.variables[name]}")
            case Store(array, index, value):
                # What is stored is computed before where it goes.
                held = self.value(value)
                self.store(array.element, self._place(array, index), held)
            case View(array, source, index, first):
                of, data = self.arrays[source.name], self._place(source, index)
                if first is not None:
                    data = self.further(data, stored(array.element), self.value(first))
                left = None if array.dense else self.strides(of)[len(index) :]
                memory = Memory(array.element, data, of.shape[len(index) :], left)
                self.arrays[array.name] = memory
            case Laid(array, address, shape, strides):
                data = self.address(self.value(address))
                lengths, steps = (tuple(map(self.value, one)) for one in (shape, strides))
                self.arrays[array.name] = Memory(array.element, data, lengths, steps or None)
            case For(name, start, stop, body, step):
                turn = Name("int64", f"{name} of turns")
                more = Assign(turn.name, Op("int64", "+", (turn, word(step)), exact=True))
                goes_on = Op("bool", "<", (turn, stop))
                self.statement(Variable(turn.name, start))
                self._while(While((Let(name, turn),), goes_on, (*body, more)))
            case While():
                self._while(node)
            case If(test, then, other):
                here, there, end = self.labels(3)
                self.choose(self.value(test), here, there)
                self.block(then)
                self.go(end)
                self.at(there)
                self.block(other)
                self.go(end)
                self.at(end)
            case Return(value):
                self.leave(f"ret {TYPES[value.type]} {self.value(value)}")
            case Call():
                self.value(node)
            case _:
                assert_never(node)

    def _while(self, node: While) -> None:
        test, body, end = self.labels(3)
        self.go(test)
        self.at(test)
        self.block(node.head)
        self.choose(self.value(node.test), body, end)
        self.block(node.body)
        self.go(test)
        self.at(end)

    # Arrays.

    def _place(self, array: Array, index: Sequence[Value]) -> str:
        return self.place(self.arrays[array.name], [self.value(one) for one in index])

    # Values.

    def value(self, node: Value) -> str:
        match node:
            case Name(machine, name) if name in self.variables:
                return self.new(f"load {TYPES[machine]}, ptr {self.variables[name]}")
            case Name(_, name):
                return self.values[name]
            case Number(machine, value):
                return constant(machine, value)
            case Op():
                return self._operation(node)
            case Load(array, index, anew=True):
                head = f"load atomic {stored(array.element)}, ptr {self._place(array, index)}"
                return self.new(f"{head} monotonic, align {array.itemsize}")
            case Load(array, index):
                return self.load(array.element, self._place(array, index))
            case Size(array, axis):
                return self.arrays[array.name].shape[axis]
            case Call():
                return self._call(node)
            case _:
                assert_never(node)

    def _operation(self, node: Op) -> str:
        args = [self.value(arg) for arg in node.args]
        first, machine = node.args[0].type, node.type
        match node.op:
            case "to":
                return self.convert(args[0], first, machine)
            case "select":
                test, then, other = args
                return self.chosen(test, then, other, machine)
            case "complex":
                return self.pair(machine, args)
            case "real" | "imag":
                part = int(node.op == "imag")
                return self.new(f"extractvalue {TYPES[first]} {args[0]}, {part}")
            case "bits":
                return self.new(f"bitcast {TYPES[first]} {args[0]} to {TYPES[machine]}")
            case "unhalf":
                half = self.new(f"bitcast i16 {args[0]} to half")
                return self.new(f"fpext half {half} to float")
            case "half":
                half = self.new(f"fptrunc float {args[0]} to half")
                return self.new(f"bitcast half {half} to i16")
        return self.applied(node.op, first, args, node.exact)

    def _call(self, node: Call) -> str:
        args = list[tuple[str, str]]()
        for arg in node.args:
            if isinstance(arg, Array):
                array = self.arrays[arg.name]
                held = [array.data, *array.shape, *(() if arg.dense else self.strides(array))]
            else:
                held = [self.value(arg)]
            args += zip(_types(arg), held, strict=True)
        place, _, name = node.function.partition(":")
        if place == "machine":
            return self._by_machine(name, node.type, args)
        return self.called(name or self.module.function(place), TYPES[node.type], args)

    def _by_machine(self, name: str, result: str, args: Sequence[tuple[str, str]]) -> str:
        """What is done with memory at an address, or with code that begins there."""
        (_, first), *rest = args
        if name == "room":
            # So many words, as long as the call lasts.
            room = self.new(f"alloca i64, i64 {first}")
            return self.new(f"ptrtoint ptr {room} to i64")
        at, words = self.address(first), ", ".join(map(" ".join, rest))
        match name:
            case "do":
                return self.new(f"call i64 {at}({words})")
            case "put":
                self.do(f"store {words}, ptr {at}, align 1")
                return ""
            case "at":
                return self.load(result, at, ", align 1")
            case "get":
                return self.new(f"load atomic i64, ptr {at} seq_cst, align 8")
            case "set":
                self.do(f"store atomic {words}, ptr {at} seq_cst, align 8")
                return ""
            case "swap":
                pair = self.new(f"cmpxchg ptr {at}, {words} seq_cst seq_cst")
                return self.new(f"extractvalue {{ i64, i1 }} {pair}, 0")
            case _:
                return self.new(f"atomicrmw {name} ptr {at}, {words} seq_cst")
