"""Instructions of LLVM IR, as text, and numbers in its terms.

    number 1.5 of float32     ->     0x3FF8000000000000
    t0 + t1 of int16          ->     %v3 = add i16 %v1, %v2

A number is one of LLVM's values, a complex one a pair of floats.  Operands and results of an
operation have one machine type, but those of comparisons and of questions.  Functions are LLVM's
own, those of C's library, and a few that are written here.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base.frozen import frozen
from ...language.functions import FLOAT_FUNCTIONS
from ...language.ir import COMPARISONS
from ...loops.nodes import BITS, FLOATS, LINE, PARTS, SHORT

# LLVM's types of numbers.
TYPES = {"bool": "i1", "float32": "float", "float64": "double"}
TYPES |= {machine: f"i{bits}" for machine, bits in BITS.items()}
TYPES |= {machine: f"{{ {TYPES[part]}, {TYPES[part]} }}" for machine, part in PARTS.items()}

_INTEGER = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl"}
_FLOATING = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_ORDER = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


@frozen
class Memory:
    """A view of an array: where its elements begin, how many there are, and the bytes between.

    `strides` of a dense one are None.
    """

    machine: str
    data: str  # a pointer to elements
    shape: tuple[str, ...]
    strides: tuple[str, ...] | None = None


def stored(machine: str) -> str:
    """LLVM's type of an element in memory."""
    return "i8" if machine == "bool" else TYPES[machine]


def signed(machine: str) -> bool:
    """Whether numbers of a type may be negative."""
    return not machine.startswith("u") and machine != "bool"


def constant(machine: str, value: Any) -> str:
    """A known number; an integer is taken modulo what its type holds."""
    if machine in PARTS:
        kind, whole = TYPES[PARTS[machine]], complex(value)
        both = (constant(PARTS[machine], part) for part in (whole.real, whole.imag))
        return f"{{ {', '.join(f'{kind} {part}' for part in both)} }}"
    if machine == "bool":
        return "true" if value else "false"
    if machine in FLOATS:
        # Those of float32 too are written as the bits of a double.
        return f"0x{struct.pack('>d', np.dtype(machine).type(value)).hex()}"
    return str(int(value) % 2 ** BITS[machine])


def table(name: str, values: np.ndarray) -> tuple[str, Memory]:
    """The text of an array of constants, and where that is."""
    machine = values.dtype.name
    # A truth is a byte there.
    own = machine if machine != "bool" else "uint8"
    listed = ", ".join(f"{TYPES[own]} {constant(own, one)}" for one in values.ravel())
    symbol = f'@"table.{name}"'
    held = f"internal constant [{values.size} x {stored(machine)}] [{listed}]"
    memory = Memory(machine, symbol, tuple(map(str, values.shape)))
    return f"{symbol} = {held}, align {LINE}", memory


class Instructions:
    """The instructions of one function, and how numbers are computed by them."""

    def __init__(self, declared: dict[str, str], flags: str) -> None:
        # What the module declares, and the flags of its arithmetic on floats.
        self.declared, self.flags = declared, flags
        # What stands before all else, then the rest; and whether it goes on there.
        self.front = list[str]()
        self.lines = list[str]()
        self.open = True
        self._made = 0

    def name(self) -> str:
        """The name of a value that nothing else has."""
        self._made += 1
        return f"%v{self._made}"

    def do(self, text: str) -> None:
        """Write an instruction that gives nothing."""
        self.lines.append(f"  {text}")

    def new(self, text: str) -> str:
        """Write an instruction, and tell the name of what it gives."""
        name = self.name()
        self.do(f"{name} = {text}")
        return name

    def labels(self, count: int) -> list[str]:
        """The names of so many places."""
        return [self.name()[1:] for _ in range(count)]

    def go(self, label: str) -> None:
        """Go on at a place, unless this one was left already."""
        if self.open:
            self.leave(f"br label %{label}")

    def leave(self, text: str) -> None:
        """Write the last instruction of a place."""
        self.do(text)
        self.open = False

    def choose(self, test: str, then: str, other: str) -> None:
        """Go on at one of two places, and write what is done at the first of them."""
        self.leave(f"br i1 {test}, label %{then}, label %{other}")
        self.at(then)

    def at(self, label: str) -> None:
        """Write what is done at a place."""
        self.lines.append(f"{label}:")
        self.open = True

    # Memory.

    def variable(self, kind: str) -> str:
        """Memory of this call, from its begin on."""
        name = self.name()
        self.front.append(f"  {name} = alloca {kind}")
        return name

    def address(self, word: str) -> str:
        """A word, as a pointer."""
        return self.new(f"inttoptr i64 {word} to ptr")

    def further(self, place: str, kind: str, count: str) -> str:
        """A pointer so many elements on."""
        return self.new(f"getelementptr inbounds {kind}, ptr {place}, i64 {count}")

    def load(self, machine: str, place: str, more: str = "") -> str:
        """The element at a pointer, which is aligned as its type is."""
        value = self.new(f"load {stored(machine)}, ptr {place}{more}")
        return self.new(f"icmp ne i8 {value}, 0") if machine == "bool" else value

    def store(self, machine: str, place: str, value: str) -> None:
        """Write an element at a pointer."""
        if machine == "bool":
            value = self.new(f"zext i1 {value} to i8")
        self.do(f"store {stored(machine)} {value}, ptr {place}")

    def place(self, array: Memory, index: Sequence[str]) -> str:
        """Where the element at an index begins; with fewer indices, the first of those."""
        if array.strides is None and len(array.shape) == len(index) == 1:
            return self.further(array.data, stored(array.machine), index[0])
        offset = "0"
        for one, stride in zip(index, self.strides(array), strict=False):
            step = self.new(f"mul nsw i64 {one}, {stride}")
            offset = self.new(f"add nsw i64 {offset}, {step}")
        return self.further(array.data, "i8", offset)

    def strides(self, array: Memory) -> tuple[str, ...]:
        """The bytes between elements along each axis."""
        if array.strides is not None:
            return array.strides
        steps, step = [], str(np.dtype(array.machine).itemsize)
        for length in reversed(array.shape):
            steps.append(step)
            step = self.new(f"mul nsw i64 {step}, {length}")
        return tuple(reversed(steps))

    # Functions.

    def called(
        self, name: str, result: str, args: Sequence[tuple[str, str]], more: str = ""
    ) -> str:
        """Call a function of these types, whose declaration has `more`."""
        kinds = ", ".join(kind for kind, _ in args)
        given = ", ".join(f"{kind} {value}" for kind, value in args)
        self.declared.setdefault(name, f'declare {result} @"{name}"({kinds}) {more}')
        text = f'call {result} @"{name}"({given})'
        if result != "void":
            return self.new(text)
        self.do(text)
        return ""

    def _function(self, name: str, machine: str, args: Sequence[str]) -> str:
        """A function of numbers of a type."""
        # Nobody asks C for `errno`.
        more = "nounwind" if name.startswith("llvm.") else "nounwind readnone"
        kind = TYPES[machine]
        return self.called(name, kind, [(kind, arg) for arg in args], more)

    # Numbers.

    def pair(self, machine: str, parts: Sequence[str]) -> str:
        """A complex number of its parts."""
        kind, part, made = TYPES[machine], TYPES[PARTS[machine]], "undef"
        for k, one in enumerate(parts):
            made = self.new(f"insertvalue {kind} {made}, {part} {one}, {k}")
        return made

    def by_parts(
        self, machine: str, args: Sequence[str], make: Callable[..., str], *more: str
    ) -> list[str]:
        """What is made of the real parts of complex numbers, and of the imaginary ones."""
        made = []
        for k in range(2):
            each = [self.new(f"extractvalue {TYPES[machine]} {arg}, {k}") for arg in args]
            made.append(make(*each, *more))
        return made

    def convert(self, value: str, source: str, target: str) -> str:
        """The number in another machine type: cut to it, cut off or rounded."""
        if source == target:
            return value
        if target == "bool":
            return self.compared("!=", value, constant(source, 0), source)
        if source in PARTS:
            parts = self.by_parts(source, [value], self.convert, PARTS[source], PARTS[target])
            return self.pair(target, parts)
        if target in PARTS:
            part = PARTS[target]
            return self.pair(target, (self.convert(value, source, part), constant(part, 0)))
        how = _conversion(source, target)
        return self.new(f"{how} {TYPES[source]} {value} to {TYPES[target]}")

    def compared(self, op: str, left: str, right: str, machine: str) -> str:
        """A comparison of two numbers of a type."""
        if machine in PARTS:
            pair = partial(self.compared, op)
            tests = self.by_parts(machine, (left, right), pair, PARTS[machine])
            return self.new(f"{'or' if op == '!=' else 'and'} i1 {', '.join(tests)}")
        if machine in FLOATS:
            test = f"fcmp {'u' if op == '!=' else 'o'}"
        elif op in ("==", "!="):
            test = "icmp "
        else:
            test = f"icmp {'s' if signed(machine) else 'u'}"
        return self.new(f"{test}{_ORDER[op]} {TYPES[machine]} {left}, {right}")

    def chosen(self, test: str, then: str, other: str, machine: str) -> str:
        """One of two numbers; both are there."""
        if machine in PARTS:
            pair = partial(self.chosen, test)
            return self.pair(machine, self.by_parts(machine, (then, other), pair, PARTS[machine]))
        kind = TYPES[machine]
        return self.new(f"select i1 {test}, {kind} {then}, {kind} {other}")

    def applied(self, op: str, machine: str, args: Sequence[str], exact: bool) -> str:
        """An operation of numbers of a machine type; `exact` integers never overflow."""
        if op in COMPARISONS:
            return self.compared(op, args[0], args[1], machine)
        if machine in PARTS:
            if op not in _FLOATING:
                return self._of_c(op, machine, args)
            part = PARTS[machine]
            made = self.by_parts(machine, args, lambda *each: self._of_floats(op, part, each))
            return self.pair(machine, made)
        if machine in FLOATS:
            return self._of_floats(op, machine, args)
        return self._of_integers(op, machine, args, exact)

    def _of_integers(self, op: str, machine: str, args: Sequence[str], exact: bool) -> str:
        kind = TYPES[machine]
        given = f"{kind} {', '.join(args)}"
        match op:
            case "~" | "not":
                return self.new(f"xor {given}, -1")
            case "popcount":
                return self._function("llvm.ctpop.i64", machine, args)
            case ">>":
                return self.new(f"{'ashr' if signed(machine) else 'lshr'} {given}")
            case "//" | "%" if not signed(machine):
                return self.new(f"{'udiv' if op == '//' else 'urem'} {given}")
            case "//" | "%":
                return self._divided(op, machine, args)
            case _:
                return self.new(f"{_INTEGER[op]}{' nsw' * exact} {given}")

    def _divided(self, op: str, machine: str, args: Sequence[str]) -> str:
        """A quotient that is rounded down, or what is left."""
        kind, (first, last) = TYPES[machine], args
        rest = self.new(f"srem {kind} {first}, {last}")
        signs = self.new(f"xor {kind} {rest}, {last}")
        tests = self.new(f"icmp ne {kind} {rest}, 0"), self.new(f"icmp slt {kind} {signs}, 0")
        below = self.new(f"and i1 {', '.join(tests)}")
        if op == "%":
            return self.new(f"add {kind} {rest}, {self.chosen(below, last, '0', machine)}")
        quotient, less = self.new(f"sdiv {kind} {first}, {last}"), f"zext i1 {below} to {kind}"
        return self.new(f"sub {kind} {quotient}, {self.new(less)}")

    def _of_floats(self, op: str, machine: str, args: Sequence[str]) -> str:
        kind = TYPES[machine]
        given = f"{kind} {', '.join(args)}"
        if op in _FLOATING and len(args) == 2:
            return self.new(f"{_FLOATING[op]}{self.flags} {given}")
        match op:
            case "-":
                return self.new(f"fneg {given}")
            case "fmod":
                return self.new(f"frem {given}")
            case "signbit":
                bits = f"i{machine[5:]}"
                held = self.new(f"bitcast {given} to {bits}")
                return self.new(f"icmp slt {bits} {held}, 0")
        row = FLOAT_FUNCTIONS["power" if op == "**" else op]
        name = f"{row.c}{'f' * (machine == 'float32')}"
        if row.intrinsic:
            name = f"llvm.{row.c}.{SHORT[machine]}"
        return self._function(name, machine, args)

    def _of_c(self, op: str, machine: str, args: Sequence[str]) -> str:
        """A function of C of a complex number, in double precision."""
        name, kind, (arg,) = f"c{op}", TYPES["complex128"], args
        wide = self.convert(arg, machine, "complex128")
        if sys.platform == "win32":
            # There a pair is told by its address.
            given, place = self.variable(kind), self.variable(kind)
            self.do(f"store {kind} {wide}, ptr {given}")
            result = f"ptr sret({kind})"
            self.called(name, "void", [(result, place), ("ptr", given)])
            made = self.new(f"load {kind}, ptr {place}")
        else:
            made = self.called(name, kind, [(kind, wide)], "nounwind readnone")
        return self.convert(made, "complex128", machine)


def _conversion(source: str, target: str) -> str:
    """The instruction that converts numbers which are not complex."""
    if target in FLOATS and source in FLOATS:
        return "fpext" if target == "float64" else "fptrunc"
    if target in FLOATS:
        return "sitofp" if signed(source) else "uitofp"
    if source in FLOATS:
        return "fptosi" if signed(target) else "fptoui"
    own, bits = BITS.get(source, 1), BITS[target]
    if own >= bits:
        return "trunc" if own > bits else "bitcast"
    return "sext" if signed(source) else "zext"
