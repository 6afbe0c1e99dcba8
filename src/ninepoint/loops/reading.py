"""Plain Python, with few words, as functions of the loop language.

    def band_row(x_0, o0, n):               function band_row(x_0: int8[1], o0: int16[1], ...)
        for j in range(n):           ->         for j in 0 .. n
            t0 = x_0[j]                             let t0 = x_0[j]
            o0[j] = i16(t0 + t0)                    o0[j] = to int16 t0 + to int16 t0

Types follow from those of the arguments: a function that is called with arguments of other types
is read once more.  Of an integer expression inside a conversion no more bits are computed than it
has.  A name that is assigned once is a value, any other a variable.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..language.definitions import parsed
from ..language.functions import SYMBOLS
from ..language.ir import COMPARISONS
from .nodes import (
    LINE,
    PARTS,
    SHORT,
    Array,
    Assign,
    Block,
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
    Values,
    Variable,
    View,
    While,
    applied,
    chosen,
    common,
    compared,
    convert,
    cut,
    negated,
    number,
    word,
)

# What looks at the bits of a number: of which type that is, the operation, and what it gives.
_LOOKS = """\
float32_of_bits  int32    bits      float32
float64_of_bits  int64    bits      float64
bits_of_float32  float32  bits      int32
bits_of_float64  float64  bits      int64
float32_of_half  uint16   unhalf    float32
half_of_float32  float32  half      uint16
ones             uint64   popcount  int64
"""
_BITS = {name: told for name, *told in map(str.split, _LOOKS.splitlines())}

# What the library has for plain Python alone: here it is an operation or a view.
_WORDS = frozenset([*_BITS, *"now row row_function type_of same_bits".split()])

# Operators of complex numbers that are functions, by their names.
_COMPLEX = {"**": "power", "*": "multiply", "/": "divide"}
_OPERATORS = {name: op for op, name in _COMPLEX.items()}

# What may be computed where nobody needs it, and takes little time.
_PLAIN = COMPARISONS | frozenset(
    "+ - * / & | ^ ~ << >> not to complex real imag bits floor ceil trunc rint fabs sqrt".split()
)

T = TypeVar("T")


class NotRead(Exception):
    """Text that is no program of the loop language."""


# What converts a number, and to what type.
_CONVERSIONS = {short: machine for machine, short in SHORT.items()}
_CONVERSIONS |= {"bool": "bool", "int": "int64", "float": "float64"}

# What a function may be called with, and what a name or an expression stands for; text is the name
# of a machine type, which converts what it is called with.
Given: TypeAlias = Value | Array | str
Known: TypeAlias = Given | tuple["Known", ...]

# The functions of a text by their names.
Texts: TypeAlias = Mapping[str, ast.FunctionDef]


@cache
def functions_of(text: str) -> Texts:
    """The functions of a text by their names."""
    return {one.name: one for one in parsed(text).body if isinstance(one, ast.FunctionDef)}


def read(
    text: str,
    library: Texts,
    constants: Mapping[str, float],
    types: Sequence[tuple[str, int]] = (),
    *,
    names: Sequence[str] = ("band",),
    fastmath: bool = False,
) -> Module:
    """Read functions of a text, which take arrays, and numbers, of these types; or words alone.

    A type is that of the elements, and the number of axes; 0 for a number.  `library` holds what
    the text may call besides its own functions, `constants` names that stand for a number.

    Raises
    ------
    NotRead
        Where the text holds what is not known here.
    """
    reader = _Reader(text, library, constants)
    for name in names:
        node = reader.texts[name]
        kinds = types or [("int64", 0)] * len(node.args.args)
        given = [
            Array(machine, ndim, "") if ndim else Name(machine, "") for machine, ndim in kinds
        ]
        reader.function(node, given)
    tables = tuple(reader.tables.items())
    return Module(tuple(reader.functions.values()), tables, fastmath=fastmath)


class _Reader:
    """Reads the functions of one text, for each of the types that they are called with."""

    def __init__(self, text: str, library: Texts, constants: Mapping[str, float]) -> None:
        self.texts, self.constants = {**library, **functions_of(text)}, constants
        self.functions = dict[tuple[object, ...], Function]()
        self.tables = dict[str, np.ndarray]()
        self._assigned = {
            one.targets[0].id: one.value
            for one in parsed(text).body
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        }

    def function(self, node: ast.FunctionDef, args: Sequence[Given]) -> Function:
        """A function, for arguments of these types; one that is a type is known inside."""
        key = (node.name, *map(_kind, args))
        if key not in self.functions:
            count = sum(known[0] == node.name for known in self.functions)
            body = _Body(self, node, args)
            lines = body.block(node.body)
            self.functions[key] = Function(
                node.name + f".{count}" * bool(count),
                tuple(body.parameters),
                (*body.front, *lines, *body.frees),
                body.result or "int64",
                bool(node.decorator_list),
            )
        return self.functions[key]

    def table(self, name: str) -> Array:
        """A constant array of the text."""
        if name not in self._assigned:
            raise NotRead(name)
        if name not in self.tables:
            space: dict[str, Any] = {short: np.dtype(kind).type for kind, short in SHORT.items()}
            space |= {"np": np, **self.constants}
            expression = ast.Expression(self._assigned[name])
            self.tables[name] = eval(compile(expression, "<table>", "eval"), space)
        values = self.tables[name]
        return Array(values.dtype.name, values.ndim, name, dense=True)


def _kind(value: Given) -> object:
    """Of which type a value is, and which type it is itself."""
    if isinstance(value, Array):
        return replace(value, name="")
    return (value,) if isinstance(value, str) else value.type


@cache
def _counted(node: ast.FunctionDef) -> Mapping[str, int]:
    """How often each name is assigned in a function; its parameters are assigned once before."""
    names = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    found = Counter(one.id for one in names if isinstance(one.ctx, ast.Store))
    found.update(arg.arg for arg in node.args.args)
    return found


class _Body:
    """Reads the body of one function."""

    def __init__(self, reader: _Reader, node: ast.FunctionDef, args: Sequence[Given]) -> None:
        self.reader, self.node = reader, node
        self.counts = _counted(node)
        self.names = dict[str, Known]()
        # The names of variables, and what stands before all else.
        self.variables = set[str]()
        self.front = list[Statement]()
        self.lines = self.front
        # What gives back its memory at its end.
        self.frees = list[Statement]()
        self.made = 0
        self.result = ""
        self.parameters = list[Name | Array]()
        for name, arg in zip((one.arg for one in node.args.args), args, strict=True):
            self.names[name] = arg
            if not isinstance(arg, str):
                own = replace(arg, name=name) if isinstance(arg, Array) else Name(arg.type, name)
                self.parameters.append(own)
                self.names[name] = own
                if isinstance(own, Name) and self.counts[name] > 1:
                    self.names[name] = self._variable(own)

    def _apart(self, make: Callable[[], T]) -> tuple[Block, T]:
        """What is made, and before it the statements that it takes."""
        before, self.lines = self.lines, []
        made = make()
        lines, self.lines = tuple(self.lines), before
        return lines, made

    def block(self, statements: Sequence[ast.stmt]) -> Block:
        """What statements do."""
        return self._apart(lambda: list(map(self._statement, statements)))[0]

    # Statements.

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                # All are computed before any is assigned.
                held = [self._named(self._value(one)) for one in values]
                for target, value in zip(targets, held, strict=True):
                    self._assign(target, value)
            case ast.Assign(targets=[target]):
                self._assign(target, self._value(node.value))
            case ast.AugAssign(target=target):
                self._assign(target, self._value(ast.BinOp(target, node.op, node.value)))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args), body=body):
                self._for(name, args, body)
            case ast.While():
                head, test = self._apart(lambda: self._truth(node.test))
                self.lines.append(While(head, test, self.block(node.body)))
            case ast.If():
                test, then = self._truth(node.test), self.block(node.body)
                self.lines.append(If(test, then, self.block(node.orelse)))
            case ast.Return(value=ast.expr() as value):
                given = self._number(value)
                self.result = self.result or given.type
                self.lines.append(Return(convert(given, self.result)))
            case ast.Expr(value=ast.Call() as call):
                found = self._value(call)
                if isinstance(found, Call):
                    self.lines.append(found)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise NotRead(ast.unparse(node))

    def _assign(self, target: ast.expr, value: Known) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(target.id, value)
            return
        match self._value(target):
            case Array() as array:
                self._fill(array, value)
            case Load(array, index):
                self.lines.append(Store(array, index, cut(_only(value), array.element)))
            case Call(_, _, (address,)):
                self._done_here("machine:put", [address, _word(value)])
            case _:
                raise NotRead(ast.unparse(target))

    def _assign_name(self, name: str, value: Known) -> None:
        if self.counts[name] == 1 or isinstance(value, tuple | Array | str):
            self.names[name] = self._named(value)
            return
        old = self.names.get(name)
        if not isinstance(old, Name) or old.name not in self.variables:
            old = self.names[name] = self._variable(number(value.type, 0))
        elif old.type != value.type and common(old, value) != old.type:
            raise NotRead(f"{name} is of two types: {old.type} and {value.type}")
        self.lines.append(Assign(old.name, convert(value, old.type)))

    def _variable(self, value: Value) -> Name:
        """A variable that begins with a value, at the front of the function."""
        own = Name(value.type, self._fresh())
        self.variables.add(own.name)
        self.front.append(Variable(own.name, value))
        return own

    def _named(self, value: Known) -> Known:
        """A value under a name, which needs no statement if it has one or is known."""
        if isinstance(value, tuple | Array | str | Number | Size):
            return value
        if isinstance(value, Name) and value.name not in self.variables:
            return value
        own = Name(value.type, self._fresh())
        self.lines.append(Let(own.name, value))
        return own

    def _fresh(self) -> str:
        self.made += 1
        # A dot is in no name of the text.
        return f"v{self.made}."

    def _kept(self, value: Value) -> Value:
        """A value as it is now."""
        return _only(self._named(value))

    def _fill(self, array: Array, value: Known) -> None:
        """Every element of an array, from one value or from those of another array."""
        names = [self._fresh() for _ in range(array.ndim)]
        index = tuple(Name("int64", one) for one in names)
        held = Load(value, index) if isinstance(value, Array) else _only(value)
        body: Statement = Store(array, index, convert(held, array.element))
        for axis in reversed(range(array.ndim)):
            body = For(names[axis], word(0), Size(array, axis), (body,))
        self.lines.append(body)

    def _for(self, name: str, args: Sequence[ast.expr], inner: Sequence[ast.stmt]) -> None:
        limits = slice(*(self._kept(_word(self._value(one))) for one in args))
        step = limits.step or word(1)
        if not isinstance(step, Number):
            raise NotRead(f"a step of {name}")
        index = self._fresh()
        self.names[name] = Name("int64", index)
        body = self.block(inner)
        self.lines.append(For(index, limits.start or word(0), limits.stop, body, step.value))

    # Expressions.

    def _number(self, node: ast.expr) -> Value:
        return _only(self._value(node))

    def _truth(self, node: ast.expr) -> Value:
        return convert(self._number(node), "bool")

    def _value(self, node: ast.expr) -> Known:
        match node:
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Name(id=name) if name in self.reader.constants:
                return _literal(self.reader.constants[name])
            case ast.Name(id=name):
                return self.reader.table(name)
            case ast.Constant(value=value):
                return _literal(value)
            case ast.BinOp():
                op = SYMBOLS[type(node.op)]
                pair = self._number(node.left), self._number(node.right)
                if op in _COMPLEX and not {one.type for one in pair}.isdisjoint(PARTS):
                    return self._function(_COMPLEX[op], pair)
                return applied(op, *pair)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=place), attr=name)):
                return self._method(place, name, node)
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, node)
            case ast.Compare():
                values = [self._number(one) for one in (node.left, *node.comparators)]
                pairs = zip(node.ops, pairwise(values), strict=True)
                tests = [compared(SYMBOLS[type(op)], *pair) for op, pair in pairs]
                return reduce(lambda a, b: Op("bool", "&", (a, b)), tests)
            case ast.IfExp():
                return self._one_of(node)
            case ast.BoolOp(op=op, values=[result, *others]):
                # Nothing is asked for that is not needed.
                for one in others:
                    result = (
                        ast.IfExp(result, ast.Constant(True), one)
                        if isinstance(op, ast.Or)
                        else ast.IfExp(result, one, ast.Constant(False))
                    )
                return self._truth(result)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Op("bool", "not", (self._truth(operand),))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return negated(self._number(operand))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                held = self._number(operand)
                machine = common(held, held)
                return Op(machine, "~", (convert(held, machine),))
            case ast.Attribute():
                return self._attribute(node)
            case ast.Tuple(elts=elements):
                return tuple(self._value(one) for one in elements)
            case _:
                raise NotRead(ast.unparse(node))

    def _one_of(self, node: ast.IfExp) -> Value:
        """One of two; what is not needed is computed only if that takes little."""
        test = self._truth(node.test)
        ways = (partial(self._number, one) for one in (node.body, node.orelse))
        (before, first), (after, last) = map(self._apart, ways)
        if not before and not after and _is_plain(first) and _is_plain(last):
            return chosen(test, first, last)
        machine = first.type if first.type == last.type else common(first, last)
        held = self._variable(number(machine, 0))
        pairs = (before, first), (after, last)
        blocks = ((*lines, Assign(held.name, convert(value, machine))) for lines, value in pairs)
        self.lines.append(If(test, *blocks))
        return held

    # Arrays.

    def _subscript(self, node: ast.Subscript) -> Known:
        of = self._value(node.value)
        index = self._value(node.slice)
        match of:
            case tuple() if isinstance(index, Number):
                return of[int(index.value)]
            case Array():
                places = tuple(map(_word, index if isinstance(index, tuple) else (index,)))
                left = of.ndim - len(places)
                return self._view(replace(of, ndim=left), of, places) if left else Load(of, places)
            case _:
                # A word of memory, so many words on from an address.
                words = applied("*", word(8), _word(index))
                return Call("int64", "machine:at", (applied("+", _word(of), words),))

    def _view(
        self, view: Array, of: Array, index: Values = (), first: Value | None = None
    ) -> Array:
        view = replace(view, name=self._fresh())
        self.lines.append(View(view, of, index, first))
        return view

    def _attribute(self, node: ast.Attribute) -> Known:
        if isinstance(node.value, ast.Name) and node.value.id == "np":
            return node.attr
        value = self._value(node.value)
        match value, node.attr:
            case Array() as array, "shape":
                return tuple(Size(array, axis) for axis in range(array.ndim))
            case Array(ndim=1) as array, "size":
                return Size(array, 0)
            case _, "real" | "imag" if (of := _only(value)).type in PARTS:
                return Op(PARTS[of.type], node.attr, (of,))
            case _:
                raise NotRead(ast.unparse(node))

    # Calls.

    def _call(self, name: str, node: ast.Call) -> Known:
        # Numbers may have names of types, which are called nonetheless.
        if name in _CONVERSIONS:
            return cut(self._number(node.args[0]), _CONVERSIONS[name])
        args = [self._value(one) for one in node.args]
        if name in self.reader.texts and name not in _WORDS:
            return self._called(self.reader.texts[name], args)
        match name, args:
            case ("row", [Array() as array, tuple(index), *first]):
                # The elements along the last axis, which lie side by side.
                view = replace(array, ndim=1, dense=True)
                return self._view(view, array, tuple(map(_word, index)), *map(_word, first))
            case ("now", [Array() as array, place]):
                at = _word(place)
                return self._kept(Load(array, (at,), anew=True))
            case ("same_bits", [Array() as array, Array() as like]):
                return self._view(replace(array, element=like.element), array)
        numbers = [_only(one) for one in args]
        match name:
            case "min" | "max":
                op = "<" if name == "min" else ">"
                return reduce(lambda a, b: chosen(compared(op, b, a), b, a), numbers)
            case "complex":
                narrow = all(one.type == "float32" for one in numbers)
                machine = "complex64" if narrow else "complex128"
                parts = tuple(convert(one, PARTS[machine]) for one in numbers)
                return Op(machine, "complex", parts)
            case "type_of":
                return convert(numbers[1], numbers[0].type)
            case _ if name in _BITS:
                source, op, target = _BITS[name]
                return Op(target, op, (convert(numbers[0], source),))
            case _:
                raise NotRead(ast.unparse(node))

    def _called(self, node: ast.FunctionDef, args: Sequence[Known]) -> Known:
        """Call a function of the text or of the library."""
        known = [arg for arg in args if not isinstance(arg, tuple)]
        function = self.reader.function(node, known)
        given = tuple(arg for arg in known if not isinstance(arg, str))
        call = Call(function.result, function.name, given)
        if any(isinstance(arg, Array) for arg in given):
            # It may change what later values are read from.
            return self._kept(call)
        return call

    def _method(self, place: str, name: str, node: ast.Call) -> Known:
        if place in ("c", "machine"):
            args = list(map(self._value, node.args))
            match name, args:
                case "view", [str(kind), *words]:
                    begin, *sizes = map(_word, words)
                    ndim = len(sizes) // 2
                    array = Array(kind, ndim, self._fresh())
                    laid = Laid(array, begin, tuple(sizes[:ndim]), tuple(sizes[ndim:]))
                    self.lines.append(laid)
                    return array
            return self._done_here(f"{place}:{name}", args)
        if place not in ("np", "math"):
            raise NotRead(ast.unparse(node))
        if name == "empty":
            kind = str(self._value(node.keywords[0].value))
            shape = self._value(node.args[0])
            lengths = shape if isinstance(shape, tuple) else (shape,)
            numbers = tuple(self._kept(_word(one)) for one in lengths)
            array = Array(kind, len(numbers), self._fresh(), dense=True)
            size: Value = word(array.itemsize)
            for one in numbers:
                size = applied("*", size, one)
            memory = self._done_here("c:malloc", [applied("+", size, word(LINE))])
            self.frees.append(Call("int64", "c:free", (memory,)))
            failed = compared("==", memory, word(0))
            self.lines.append(If(failed, (*self.frees, Return(word(1)))))
            begin = applied("&", applied("+", memory, word(LINE - 1)), word(-LINE))
            self.lines.append(Laid(array, begin, numbers))
            return array
        return self._function(name, [self._number(one) for one in node.args])

    def _done_here(self, name: str, args: list[Known]) -> Value:
        """What C or the machine does, in its turn; a first argument may be its type."""
        machine = "int64"
        if args and isinstance(args[0], str):
            machine, args = args[0], args[1:]
        return self._kept(Call(machine, name, tuple(map(_only, args))))

    def _function(self, name: str, args: Sequence[Value]) -> Value:
        """A function of NumPy, of floats or complex numbers of the type that all have."""
        machine = reduce(lambda kind, arg: common(Name(kind, ""), arg), args, "float32")
        given = tuple(convert(arg, machine) for arg in args)
        node = self.reader.texts.get(f"{'complex' if machine in PARTS else 'float'}_{name}")
        if node is not None:
            return convert(_only(self._called(node, given)), machine)
        op = _OPERATORS.get(name, name)
        return Op("bool" if name == "signbit" else machine, op, given)


def _only(known: Known) -> Value:
    """What must be a number."""
    if isinstance(known, tuple | Array | str):
        raise NotRead(repr(known))
    return known


def _word(known: Known) -> Value:
    """What must be a number, as an index."""
    return convert(_only(known), "int64")


def _literal(value: Any) -> Number:
    match value:
        case bool():
            return Number("bool", value)
        case int():
            return Number("int64" if value < 2**63 else "uint64", value)
        case float():
            return Number("float64", value)
        case _:
            raise NotRead(repr(value))


def _is_plain(value: Value) -> bool:
    """Whether a value may be computed where nobody needs it."""
    match value:
        case Op(_, op, args):
            return op in _PLAIN and all(map(_is_plain, args))
        case _:
            return not isinstance(value, Load | Call)
