"""Functions of the loop language as CUDA C++: the printer of the GPU.

    let t2 = to int32 t0 + to int32 t1         const int t2 = int(t0) + int(t1);
    for d0 in 0 .. 3                     ->    for (npt_index d0 = 0; d0 < 3; d0++) {

Sums, differences, products and shifts to the left of integers are those of unsigned numbers where
they may wrap.  Indices are of the type `npt_index`: numbers that count elements or turns of loops,
and what is added to them.

The arrays of a text have elements that are read and written so, and rules at their borders:

x[i0, i1] of float16, as float32     ->     npt_as<float>::from(f0[i0 * f0_0 + i1 * f0_1])
c[2, 1] of 3 x 4 bytes               ->     c0[2 * 4 + 1]

mirror      at1(i1 - 1, n1)                     the position that stands there
constant    a1m1 < 0 ? b0 : f0[a1m1 * f0_1]     no position: a constant of the text
fill        o0[...] = i1 < 1 ? b1 : t4          where a result has no neighbour
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...base.frozen import frozen
from ...language.dtypes import SHORT_FLOATS, short
from ...language.ir import Box, Offset
from ...loops import nodes
from ...loops.nodes import (
    BITS,
    FLOATS,
    PARTS,
    Assign,
    Call,
    For,
    If,
    Let,
    Load,
    Name,
    Number,
    Op,
    Statement,
    Store,
    Value,
    Variable,
    While,
    convert,
    wrapped,
)

# The rules before and after an array along each core axis.
Rules: TypeAlias = tuple[tuple[str, str], ...]

# Rules under which there is nothing beyond the ends: an output without neighbours is left out.
ABSENT = ("fill", "keep", "valid")

# How the machine types are called in C++: those of values, and those that only storage has.
C_TYPES = {name: one.device for name, one in SHORT_FLOATS.items()} | {
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned",
    "float32": "float",
    "float64": "double",
}
C_TYPES |= {name: f"npt_{name}" for name in ("int64", "uint64", *PARTS)} | {"bool": "bool"}


@frozen
class Array:
    """An array of a text: its name, and what its elements are.

    A field has the rules of its border.  What a launch before has made has none, but reaches
    beyond the ends by a `region`: from its first corner to the length of the fields plus its
    second one.
    """

    name: str
    dtype: np.dtype
    rules: Rules = ()
    region: tuple[Offset, Offset] = ((), ())

    @property
    def stored(self) -> str:
        """How its elements are called."""
        return stored_type(self.dtype)

    @property
    def beyond(self) -> str:
        """The constant that stands beyond the ends of a field."""
        return f"b{self.name[1:]}"

    def steps(self, places: Sequence[str]) -> list[str]:
        """How far a position is, along each of the first axes."""
        return [
            f"{f'({place})' if ' ' in place else place} * {self.name}_{axis}"
            for axis, place in enumerate(places)
        ]

    def at(self, places: Sequence[str]) -> str:
        """The element at a position along each core axis."""
        return f"{self.name}[{' + '.join(self.steps(places))}]"


@frozen
class Local:
    """A contiguous array of known lengths: coefficients, a table, or memory of a thread."""

    name: str
    dtype: np.dtype
    shape: Offset

    def at(self, places: Sequence[str]) -> str:
        """An element."""
        text = places[0]
        for place, length in zip(places[1:], self.shape[1:], strict=True):
            first = f"({text})" if " " in text else text
            text = f"{first} * {length} + {place}"
        return f"{self.name}[{text}]"


def stored_type(dtype: np.dtype) -> str:
    """How the elements of an array are called; of a bool whatever byte there is."""
    return "unsigned char" if dtype == np.bool_ else C_TYPES[dtype.name]


def loaded(machine: str, dtype: np.dtype, text: str) -> str:
    """A stored element as it is computed with, of that type in C++ as well."""
    if dtype == np.bool_ and machine == "bool":
        return f"({text} != 0)"
    return text if machine == dtype.name else f"npt_as<{C_TYPES[machine]}>::from({text})"


def stored(dtype: np.dtype, machine: str, text: str) -> str:
    """A value as it is stored, which holds it."""
    # C++ takes integers of one type for those of another, if that holds them.
    whole = dtype.kind in "iu" and machine.startswith(("int", "uint"))
    same = whole or machine == dtype.name or (machine == "bool" and not short(dtype))
    return text if same else f"npt_as<{stored_type(dtype)}>::from({text})"


# Borders.


def finders(pair: tuple[str, str]) -> str:
    """What finds the places of what stands before and after an axis: a template's arguments."""
    return ", ".join(f"npt_{'nearest' if rule in ABSENT else rule}" for rule in pair)


def maps(rules: Rules) -> list[str]:
    """The functions at0, at1, ... that find what stands at a position along each axis."""
    return [
        f"NPT npt_index at{axis}(npt_index i, npt_index n) "
        f"{{ return npt_at<{finders(pair)}>(i, n); }}"
        for axis, pair in enumerate(rules)
    ]


def left_out(rules: Rules, reach: Box) -> list[tuple[int, int]]:
    """How many points at both ends of each axis have no neighbour, and none instead."""
    return [
        (low * (before in ABSENT), high * (after in ABSENT))
        for (before, after), (low, high) in zip(rules, reach.sides, strict=True)
    ]


def ends(rules: Rules, reach: Box) -> list[tuple[str, str]]:
    """Tests whether the point i0, i1, ... is left out at an end, and the rule that says so.

    At a corner the first axis decides, and its beginning over its end.
    """
    found = list[tuple[str, str]]()
    for axis, (low, high) in enumerate(left_out(rules, reach)):
        before, after = rules[axis]
        if low:
            found.append((f"i{axis} < {low}", before))
        if high:
            found.append((f"i{axis} >= n{axis} - {high}", after))
    return found


# Operators between their operands.
_INFIX = frozenset("| ^ & == != < <= > >= << >> + - * /".split())

# Of integers these are done modulo a power of two.
_MODULAR = frozenset("+-*")

# Functions of the device's text that have other names than operations.
_CALLED = {
    "//": "integer_divide", "%": "integer_modulo", "**": "power", "complex": "pair",
}  # fmt: skip


class Printer:
    """Prints statements; `names` are those that what is there already has in C++.

    An array whose only element is a result has one too, under which this is left.  Names of
    `indices` stand for positions.
    """

    def __init__(self) -> None:
        self.names = dict[str, str]()
        self.indices = set[str]()
        self.arrays = dict[str, Array | Local]()
        # What names are the negative of.
        self._negatives = dict[str, Value]()
        self._made = 0

    def named(self, name: str) -> str:
        """Give a name one in C++ that nothing else has."""
        own = self.names[name] = f"t{self._made}"
        self._made += 1
        return own

    def lines(self, statements: Sequence[Statement]) -> list[str]:
        """The lines of statements."""
        return [line for one in statements for line in self._statement(one)]

    # Statements.

    def _statement(self, node: Statement) -> list[str]:
        match node:
            case Let(name, value):
                text = self._text(value)
                opposite = _opposite(value)
                if opposite is not None:
                    self._negatives[name] = opposite
                machine = C_TYPES[value.type]
                if self._is_index(value):
                    self.indices.add(name)
                    machine = "npt_index"
                # In templates NVRTC looks for the value of what is `const`, and for those of all
                # that this is made of, as often as it is read: minutes for a median.
                return [f"{machine} {self.named(name)} = {text};"]
            case Variable(name, value):
                text = self._text(value)
                return [f"{C_TYPES[value.type]} {self.named(name)} = {text};"]
            case Assign(name, value):
                return [f"{self.names[name]} = {self._text(value)};"]
            case Store(array, _, value):
                kind, name = C_TYPES[array.element], self.names[array.name]
                return [f"{kind} {name} = {self._text(value)};"]
            case For():
                return self._for(node)
            case While(head, test, body):
                stop = f"if (!({self._text(test)})) break;"
                return block("while (true) {", [*self.lines(head), stop, *self.lines(body)])
            case If(test, then, other):
                return either(self._text(test), self.lines(then), self.lines(other))
            case _:
                # Texts store nothing but results, and take no memory.
                raise AssertionError(node)

    def _for(self, node: For) -> list[str]:
        self.indices.add(node.index)
        start, stop = self._text(node.start), self._text(node.stop)
        own = self.named(node.index)
        step = f"{own}++" if node.step == 1 else f"{own} += {node.step}"
        head = f"for (npt_index {own} = {start}; {own} < {stop}; {step}) {{"
        return block(head, self.lines(node.body))

    # Values.

    def _text(self, value: Value) -> str:
        match value:
            case Number(machine, held):
                # A short one becomes as long as what it is beside.
                is_short = machine == "int64" and abs(held) < 2**31
                text = str(held) if is_short else number(machine, held)
                return f"({text})" if text.startswith("-") else text
            case Name(_, name):
                return self.names[name]
            case Load(array, index):
                source = self.arrays[array.name]
                element = source.at(list(map(self._text, index)))
                return loaded(array.element, source.dtype, element)
            case Call(_, function, args):
                name = function.partition(".")[0].removeprefix("complex_").removeprefix("float_")
                return self._called(name, args)
            case Op():
                return self._operation(value)
            case _:
                raise AssertionError(value)

    def _called(self, name: str, args: Sequence[Value | nodes.Array]) -> str:
        """A function of the device's text."""
        place = name.startswith("at")
        texts = []
        for arg in args:
            assert not isinstance(arg, nodes.Array), "functions of a text take values"
            text = self._text(arg)
            known = isinstance(arg, Name) and not self._is_index(arg)
            texts.append(text if place or known or arg.type != "int64" else cast("int64", text))
        return f"{'' if place else 'npt_'}{name}({', '.join(texts)})"

    def _is_index(self, value: Value) -> bool:
        """Whether a number is a position, or is added to one."""
        match value:
            case Number("int64", int(number)):
                return abs(number) < 2**31
            case Name(_, name):
                return name in self.indices
            case Op("int64", _, args, True):
                return all(map(self._is_index, args))
            case Call(_, function, _):
                return function.startswith("at")
            case _:
                return False

    def _operation(self, value: Op) -> str:
        machine, args = value.type, value.args
        match value.op, args:
            case "to", (arg,):
                return self._converted(machine, arg)
            case "select", (test, *chosen):
                if machine in BITS:
                    # It may be a minimum or a maximum.
                    if isinstance(test, Op):
                        test = replace(test, args=tuple(map(self._negative, test.args)))
                    chosen = list(map(self._negative, chosen))
                return "({} ? {} : {})".format(*map(self._text, (test, *chosen)))
            case "not" | "~" | "-", (arg,):
                return f"({'!' if value.op == 'not' else value.op}{self._text(arg)})"
            case op, _ if machine in BITS and (op in _MODULAR or op == "<<"):
                return self._wrapping(value)
            case op, _ if op in _INFIX:
                return _infix(op, *map(self._text, args))
            case _:
                return self._called(_CALLED.get(value.op, value.op), args)

    def _negative(self, value: Value) -> Value:
        """The same number; a negation is one whose sign ptxas keeps, see `device.h`."""
        match value:
            case Op(machine, "to", (arg,)) if machine in BITS:
                return replace(value, args=(self._negative(arg),))
            case Name(_, name):
                opposite = self._negatives.get(name)
            case _:
                opposite = _opposite(value)
        return value if opposite is None else Op(value.type, "negative", (opposite,))

    def _converted(self, machine: str, arg: Value) -> str:
        text = self._text(arg)
        if machine in PARTS:
            return f"npt_as<{C_TYPES[machine]}>::from({text})"
        if machine == "bool":
            return _infix("!=", text, "{}" if arg.type in PARTS else "0")
        return cast(machine, text)

    def _wrapping(self, value: Op) -> str:
        """An operation of integers, which wraps unless it is known that it does not."""
        own = all(arg.type == value.type == "int32" and not _cut(arg) for arg in value.args)
        first, last = map(self._text, value.args)
        if value.exact or (own and value.op in _MODULAR):
            # What the ranges of kernels prove to fit in 32 bits does not wrap.
            return _infix(value.op, first, last)
        unsigned = f"uint{max(32, BITS[value.type])}"
        if value.op in _MODULAR:
            last = cast(unsigned, last)
        text = _infix(value.op, cast(unsigned, first), last)
        return text if value.type == unsigned else cast(value.type, text)


def _infix(op: str, left: str, right: str) -> str:
    """An operator between its operands, which may stand for an operand itself."""
    return f"({left} {op} {right})"


def _opposite(value: Value) -> Value | None:
    """What an integer is the negative of, if it is."""
    match value:
        case Op("int32" | "int64", "-", (Number(_, 0), other)):
            return convert(other, value.type)
        case Op("int32" | "int64", "*", (Number(_, -1), other) | (other, Number(_, -1))):
            return convert(other, value.type)
        case _:
            return None


def _cut(value: Value) -> bool:
    """Whether a number is what is left of a longer one."""
    return isinstance(value, Op) and value.op == "to" and BITS.get(value.args[0].type, 0) > 32


def block(head: str, lines: Sequence[str]) -> list[str]:
    """Lines in braces, the first of which `head` ends with."""
    return [head, *("  " + line for line in lines), "}"]


def either(test: str, then: Sequence[str], other: Sequence[str]) -> list[str]:
    """Some lines where a test holds, and others, if there are any, where it does not."""
    lines = block(f"if ({test}) {{", then)
    return [*lines[:-1], *block("} else {", other)] if other else lines


def cast(machine: str, text: str) -> str:
    """A value as another machine type."""
    name = C_TYPES[machine]
    return f"({name})({text})" if " " in name else f"{name}({text})"


def number(machine: str, value: Any) -> str:
    """A number of a machine type."""
    if machine == "bool":
        return "true" if value else "false"
    if machine in PARTS:
        whole, part = complex(value), PARTS[machine]
        return f"{C_TYPES[machine]}{{{number(part, whole.real)}, {number(part, whole.imag)}}}"
    if machine in FLOATS:
        return _float(float(value), machine)
    held = wrapped(int(value), machine)
    suffix = {"uint32": "u", "int64": "ll", "uint64": "ull"}.get(machine, "")
    if held in (-(2**31), -(2**63)):
        # C++ has no negative numbers: the sign is an operator on one that is too large.
        return f"({held + 1}{suffix} - 1)"
    return f"{held}{suffix}"


def _float(value: float, machine: str) -> str:
    bits = machine.removeprefix("float")
    if value != value:
        return f"NPT_NAN{bits}"
    with np.errstate(over="ignore"):
        value = float(np.dtype(machine).type(value))
    if abs(value) == np.inf:
        return f"{'-' * (value < 0)}NPT_INF{bits}"
    mantissa, exponent = value.hex().split("p")
    mantissa = mantissa.rstrip("0").removesuffix(".")
    return f"{mantissa}p{exponent}{'f' * (machine == 'float32')}"
