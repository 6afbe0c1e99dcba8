"""Loops as LLVM's IR: from generated text, which is plain Python, to a module.

    for j in range(n):                    %j = phi i64 ...
        t0 = x_0[j]             ->        %t0 = load i8, i8* %p
        o0[j] = u16(t0 + t1)              store i16 (add of both as i16), i16* %q

Each function of rows is one of LLVM's, which it optimises by itself; what else the text calls,
of `library`, stands where it is called.  A name that is assigned once is a value, any other a
variable of the stack, which LLVM takes apart.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from . import functions, halves
from .building import BIT, POINTER, WORD, clear, function, loop, variable
from .native import Kind
from .values import (
    FLOATS,
    PARTS,
    WIDTHS,
    Array,
    Machine,
    NotWritten,
    Number,
    Value,
    at,
    chosen,
    common,
    compared,
    constant,
    convert,
    flat,
    held,
    load,
    resized,
    seen_as,
    store,
    stored,
    strides_of,
    truth,
    word,
)

_SHORT = {
    "b1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "f32": "float32", "f64": "float64",
    "c64": "complex64", "c128": "complex128", "bool": "bool", "int": "int64", "float": "float64",
}  # fmt: skip
_OPERATORS: Mapping[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=",
}  # fmt: skip
# Operations whose lowest bits depend on nothing but the lowest bits of their operands.
_MODULAR = {"+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor"}
_KNOWN = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}  # fmt: skip
_FLOATING = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}

# A line of the cache [bytes]: buffers begin at one.
_LINE = 64


def written(text: str, kinds: Sequence[Kind], fastmath: bool, module: ir.Module) -> ir.Function:
    """The function `band` of a generated text, in LLVM's terms; gives 0, or 1 without memory.

    Its arguments are, for each array, the address, the shape and the bytes between elements, and
    then all numbers, a complex one in two parts.

    Raises
    ------
    NotWritten
        Where the text holds what is not known here.
    """
    tree = ast.parse(text)
    texts = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    tables = {
        one.targets[0].id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    return _Module(module, texts, tables, fastmath).band(kinds)


# What the library has for plain Python alone: here it is a few instructions.
_WRITTEN_HERE = frozenset(
    "row row_from row_function aligned type_of same_bits ones float32_of_bits float64_of_bits "
    "bits_of_float64 float32_of_half half_of_float32".split()
)


@cache
def _library() -> Mapping[str, ast.FunctionDef]:
    """What generated text may call, by its name."""
    tree = ast.parse(Path(__file__).with_name("library.py").read_text(encoding="utf-8"))
    return {
        one.name: one
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name not in _WRITTEN_HERE
    }


_CONSTANTS = {
    "nan": float("nan"),
    "inf": float("inf"),
    "OPEN": 0,
    "BEYOND": 1,
    "FILL": 2,
    "KEEP": 3,
}


@cache
def _counted(node: ast.FunctionDef) -> Mapping[str, int]:
    """How often each name is assigned in a function; its parameters are assigned once before."""
    found: Counter[str] = Counter()
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found[one.id] += 1
        elif isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            found[one.target.id] += 1
    for arg in node.args.args:
        found[arg.arg] += 1
    return found


@cache
def _returns(node: ast.FunctionDef) -> tuple[int, bool]:
    """How many times a function returns, and whether only at its end."""
    count = sum(isinstance(one, ast.Return) for one in ast.walk(node))
    return count, count == 1 and isinstance(node.body[-1], ast.Return)


@dataclass
class _Slot:
    """A variable: the type of what it holds, and where it is."""

    like: Value
    places: tuple[Any, ...]


@dataclass
class _Frame:
    """The function whose text is being written: its names, and where it returns to."""

    node: ast.FunctionDef
    names: dict[str, Value | _Slot] = field(default_factory=dict)
    end: Any = None
    result: _Slot | None = None
    depth: int = 0


class _Module:
    """Writes the functions of one text."""

    def __init__(
        self,
        module: ir.Module,
        texts: Mapping[str, ast.FunctionDef],
        tables: Mapping[str, ast.expr],
        fastmath: bool,
    ) -> None:
        self.module, self.texts, self.fastmath = module, texts, fastmath
        self._tables = tables
        self._made: dict[Any, ir.Function] = {}
        self._globals: dict[str, Array] = {}

    def band(self, kinds: Sequence[Kind]) -> ir.Function:
        """The function that computes a block."""
        types: list[Any] = []
        for kind in kinds:
            if kind.ndim:
                types += [POINTER, *([WORD] * (2 * kind.ndim))]
            elif kind.machine in PARTS:
                types += [FLOATS[PARTS[kind.machine]]] * 2
            else:
                types.append(held(kind.machine))
        made = ir.Function(self.module, ir.FunctionType(WORD, types), "ninepoint.band")
        made.linkage = "internal"
        writer = _Writer(self, made)
        args = list(made.args)
        values: list[Value] = []
        for kind in kinds:
            if not kind.ndim:
                count = 2 if kind.machine in PARTS else 1
                taken, args = args[:count], args[count:]
                values.append(Number(kind.machine, tuple(taken) if count == 2 else taken[0]))
                continue
            (data, *words), args = args[: 2 * kind.ndim + 1], args[2 * kind.ndim + 1 :]
            pointer = writer.b.bitcast(data, stored(kind.machine).as_pointer())
            shape = tuple(Number("int64", one) for one in words[: kind.ndim])
            values.append(Array(kind.machine, pointer, shape, tuple(words[kind.ndim :])))
        writer.run(self.texts["band"], values)
        writer.finish()
        return made

    def row_function(self, node: ast.FunctionDef, args: Sequence[Value]) -> ir.Function:
        """The function that computes a row, for arguments as these are."""
        key = (node.name, tuple(_shape_of(arg) for arg in args))
        found = self._made.get(key)
        if found is not None:
            return found
        promises = _promises(node)
        types = [one.type for arg in args for one in flat(arg)]
        made = ir.Function(
            self.module, ir.FunctionType(ir.VoidType(), types), f"{node.name}.{len(self._made)}"
        )
        made.linkage = "internal"
        # As one function that LLVM has optimised by itself, not as a part of the loops around it.
        made.attributes.add("noinline")
        self._made[key] = made
        given = list(made.args)
        values = []
        for parameter, arg in zip(node.args.args, args, strict=True):
            count = len(flat(arg))
            taken, given = given[:count], given[count:]
            apart = promises["noalias"] or parameter.arg in promises["apart"]
            if isinstance(arg, Array) and apart:
                taken[0].add_attribute("noalias")
            values.append(_with(arg, taken))
        writer = _Writer(self, made)
        if promises["overlap"]:
            writer.in_turns(node, values, *promises["overlap"])
        else:
            writer.run(node, values)
        writer.b.ret_void()
        return made

    def table(self, name: str) -> Array | None:
        """A constant array of the text."""
        if name not in self._tables:
            return None
        if name not in self._globals:
            self._globals[name] = self._table(name, self._tables[name])
        return self._globals[name]

    def _table(self, name: str, node: ast.expr) -> Array:
        space: dict[str, Any] = {k: np.dtype(one).type for k, one in _SHORT.items()}
        space |= {"np": np, "nan": np.nan, "inf": np.inf, "complex": complex}
        values = eval(compile(ast.Expression(node), "<table>", "eval"), space)
        kind = stored(values.dtype.name)
        flat = [kind(_plain(one)) for one in values.ravel()]
        whole = ir.ArrayType(kind, len(flat))
        made = ir.GlobalVariable(self.module, whole, f"table.{name}")
        made.global_constant, made.linkage = True, "internal"
        made.initializer = ir.Constant(whole, flat)
        made.align = _LINE
        data = made.bitcast(kind.as_pointer())
        return Array(values.dtype.name, data, tuple(word(n) for n in values.shape))


def _plain(value: Any) -> Any:
    """A number of NumPy's, as LLVM's constants take it."""
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.complexfloating):
        return [value.real.item(), value.imag.item()]
    bits = value.dtype.itemsize * 8
    return int(value) % 2**bits


def _promises(node: ast.FunctionDef) -> dict[str, Any]:
    found: dict[str, Any] = {"noalias": False, "apart": (), "overlap": ()}
    for one in node.decorator_list:
        assert isinstance(one, ast.Call)
        found |= {str(k.arg): ast.literal_eval(k.value) for k in one.keywords}
    return found


def _with(value: Value, given: Sequence[Any]) -> Value:
    """A value of the same kind that others hold."""
    if isinstance(value, Number):
        return Number(value.machine, tuple(given) if isinstance(value.held, tuple) else given[0])
    assert isinstance(value, Array)
    data, *words = given
    count = len(value.shape)
    shape = tuple(Number("int64", one) for one in words[:count])
    strides = None if value.strides is None else tuple(words[count:])
    return Array(value.machine, data, shape, strides)


def _shape_of(value: Value) -> tuple[Any, ...]:
    """Of which kind a value is."""
    if isinstance(value, Number):
        return (value.machine,)
    assert isinstance(value, Array)
    return (value.machine, len(value.shape), value.strides is None)


class _Writer:
    """Writes the body of one of LLVM's functions."""

    def __init__(self, module: _Module, made: ir.Function) -> None:
        self.module = module
        self.b = ir.IRBuilder(made.append_basic_block("entry"))
        self.frame = _Frame(module.texts["band"])
        self._buffers: list[Any] = []
        # Where control goes when a loop is left, or goes on with its next turn, and where there
        # was too little memory.
        self._ends: list[tuple[Any, Any]] = []
        self._failed: Any = None
        self._failures: list[Any] = []
        self._flags = ("fast",) if module.fastmath else ()

    # Functions.

    def run(self, node: ast.FunctionDef, args: Sequence[Value]) -> Value:
        """Write a function's text here; what it returns."""
        before, self.frame = self.frame, _Frame(node)
        counts = _counted(node)
        for parameter, arg in zip(node.args.args, args, strict=True):
            name = parameter.arg
            self.frame.names[name] = self._slot(arg) if counts[name] > 1 else arg
        count, at_end = _returns(node)
        if count and not at_end:
            self.frame.end = self.b.append_basic_block("returned")
        result: Value = ()
        body = node.body[:-1] if at_end else node.body
        self.block(body)
        if at_end:
            last = node.body[-1]
            assert isinstance(last, ast.Return)
            assert last.value is not None
            result = self.value(last.value)
        elif self.frame.end is not None:
            if not self.b.block.is_terminated:
                self.b.branch(self.frame.end)
            self.b.position_at_end(self.frame.end)
            if self.frame.result is not None:
                result = self._read(self.frame.result)
        self.frame = before
        return result

    def in_turns(
        self, node: ast.FunctionDef, args: Sequence[Value], columns: int, least: int
    ) -> None:
        """Write the columns of a row that are whole vectors, then the last of them once more.

        All rows begin later in the second turn, which is no other loop: LLVM has that one loop to
        make fast, and its index still begins at 0.
        """
        b = self.b
        names = [one.arg for one in node.args.args]
        place = names.index("n")
        n = args[place]
        assert isinstance(n, Number)
        rest = b.and_(n.held, WORD(columns - 1))
        twice = b.and_(
            b.icmp_signed(">=", n.held, WORD(columns)), b.icmp_signed(">=", rest, WORD(least))
        )
        whole = b.select(twice, b.sub(n.held, rest), n.held)
        last = b.sub(n.held, WORD(columns))
        before, turn = b.block, b.append_basic_block("turn")
        b.branch(turn)
        b.position_at_end(turn)
        changing = []
        for now, then in [(WORD(0), last), (whole, WORD(columns)), (twice, BIT(0))]:
            phi = b.phi(now.type)
            phi.add_incoming(now, before)
            changing.append((phi, then))
        first, count, again = (phi for phi, _ in changing)
        moved = [
            replace(arg, data=b.gep(arg.data, [first], inbounds=True))
            if isinstance(arg, Array) and k < place
            else arg
            for k, arg in enumerate(args)
        ]
        moved[place] = Number("int64", count)
        self.run(node, moved)
        for phi, then in changing:
            phi.add_incoming(then, b.block)
        end = b.append_basic_block("end")
        b.cbranch(again, turn, end)
        b.position_at_end(end)

    def finish(self) -> None:
        """Give back all memory, and 0, or 1 where there was too little."""
        b = self.b
        status = WORD(0)
        if self._failed is not None:
            before = b.block
            b.branch(self._failed)
            b.position_at_end(self._failed)
            status = b.phi(WORD)
            status.add_incoming(WORD(0), before)
            for block in self._failures:
                status.add_incoming(WORD(1), block)
            free = function(self.module.module, "free", ir.VoidType(), [POINTER])
            for place in self._buffers:
                b.call(free, [b.load(place)])
        b.ret(status)

    # Statements.

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Write statements, up to one that leaves."""
        self.frame.depth += 1
        for one in statements:
            if self.b.block.is_terminated:
                break
            self.statement(one)
        self.frame.depth -= 1

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target]):
                self.assign(target, self.value(node.value))
            case ast.AugAssign():
                old = ast.copy_location(_loaded(node.target), node)
                if isinstance(node.target, ast.Subscript):
                    self._change(node)
                else:
                    new = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
                    self.assign(node.target, self.value(new))
            case ast.For():
                self._for(node)
            case ast.While():
                self._while(node)
            case ast.If():
                self._if(node)
            case ast.Return():
                self._return(node)
            case ast.Break():
                self.b.branch(self._ends[-1][0])
            case ast.Continue():
                self.b.branch(self._ends[-1][1])
            case ast.Expr(value=ast.Call() as call):
                self.value(call)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise NotWritten(ast.unparse(node))

    def assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                if _counted(self.frame.node)[name] == 1:
                    self.frame.names[name] = value
                    return
                slot = self.frame.names.get(name)
                # At the top a name may hold something else from here on.
                if not isinstance(slot, _Slot) or (
                    self.frame.depth == 1 and _shape_of(slot.like) != _shape_of(value)
                ):
                    self.frame.names[name] = self._slot(value)
                else:
                    self._write(slot, value)
            case ast.Tuple(elts=targets):
                assert isinstance(value, tuple)
                for one, part in zip(targets, value, strict=True):
                    self.assign(one, part)
            case ast.Subscript(value=filled, slice=ast.Slice()):
                self._fill(self.value(filled), value)
            case ast.Subscript():
                array, place = self._place(target)
                assert isinstance(value, Number)
                store(self.b, array, place, value)
            case _:
                raise NotWritten(ast.unparse(target))

    def _change(self, node: ast.AugAssign) -> None:
        """Change an element of an array."""
        assert isinstance(node.target, ast.Subscript)
        array, place = self._place(node.target)
        old, value = load(self.b, array, place), self.number(node.value)
        op = _OPERATORS[type(node.op)]
        if (
            array.machine in WIDTHS
            and op in _MODULAR
            and (value.is_integer or value.machine == "bool")
        ):
            bits = WIDTHS[array.machine]
            changed = getattr(self.b, _MODULAR[op])(old.held, resized(self.b, value, bits))
            store(self.b, array, place, Number(array.machine, changed))
        else:
            store(self.b, array, place, self.applied(op, old, value))

    def _fill(self, array: Value, value: Value) -> None:
        assert isinstance(array, Array)
        assert isinstance(value, Number)
        size = self._size(array)
        row = Array(array.machine, array.data, (size,))
        with loop(self.b, size.held) as inner:
            store(self.b, row, at(self.b, row, (inner.index,)), value)

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call)
        assert isinstance(node.target, ast.Name)
        limits = [convert(self.b, self.number(one), "int64") for one in node.iter.args]
        start, stop = (word(0), limits[0]) if len(limits) == 1 else limits[:2]
        step = limits[2].known if len(limits) == 3 else 1
        if not isinstance(step, int):
            raise NotWritten(ast.unparse(node.iter))
        with loop(self.b, stop.held, start.held, step) as inner:
            self._ends.append((inner.end, inner.next))
            index = Number("int64", inner.index)
            if _counted(self.frame.node)[node.target.id] == 1:
                self.frame.names[node.target.id] = index
            else:
                self.assign(node.target, index)
            self.block(node.body)
            self._ends.pop()

    def _while(self, node: ast.While) -> None:
        b = self.b
        test, body, end = (b.append_basic_block(name) for name in ("while", "do", "done"))
        b.branch(test)
        b.position_at_end(test)
        goes_on = truth(b, self.number(node.test)).held
        b.cbranch(goes_on, body, end)
        b.position_at_end(body)
        self._ends.append((end, test))
        self.block(node.body)
        self._ends.pop()
        if not b.block.is_terminated:
            b.branch(test)
        b.position_at_end(end)

    def _if(self, node: ast.If) -> None:
        b = self.b
        test = truth(b, self.number(node.test))
        if test.known is not None:
            self.block(node.body if test.known else node.orelse)
            return
        then, end = b.append_basic_block("then"), b.append_basic_block("after")
        other = b.append_basic_block("else") if node.orelse else end
        b.cbranch(test.held, then, other)
        for block, body in ((then, node.body), (other, node.orelse)):
            if block is end:
                continue
            b.position_at_end(block)
            self.block(body)
            if not b.block.is_terminated:
                b.branch(end)
        b.position_at_end(end)

    def _return(self, node: ast.Return) -> None:
        assert node.value is not None
        value = self.value(node.value)
        if self.frame.result is None:
            if isinstance(value, Number) and value.machine in WIDTHS:
                # Another return may have more bits.
                wide = "uint64" if value.machine.startswith("u") else "int64"
                value = convert(self.b, value, wide)
            self.frame.result = self._slot(value)
        else:
            self._write(self.frame.result, value)
        self.b.branch(self.frame.end)

    # Variables.

    def _slot(self, value: Value) -> _Slot:
        """A variable that holds a value."""
        if isinstance(value, tuple):
            parts = tuple(self._slot(one) for one in value)
            return _Slot(value, parts)
        if isinstance(value, Number) and not isinstance(value.held, tuple):
            value = replace(value, known=None)
        places = tuple(variable(self.b, one.type) for one in flat(value))
        slot = _Slot(value, places)
        self._write(slot, value)
        return slot

    def _write(self, slot: _Slot, value: Value) -> None:
        if isinstance(value, tuple):
            for one, part in zip(slot.places, value, strict=True):
                self._write(one, part)
            return
        if isinstance(slot.like, Number):
            assert isinstance(value, Number)
            value = convert(self.b, value, slot.like.machine)
        elif (
            isinstance(value, Array)
            and isinstance(slot.like, Array)
            and slot.like.strides is not None
        ):
            value = replace(value, strides=strides_of(self.b, value))
        for place, one in zip(slot.places, flat(value), strict=True):
            self.b.store(one, place)

    def _read(self, slot: _Slot) -> Value:
        if isinstance(slot.like, tuple):
            return tuple(self._read(one) for one in slot.places)
        return _with(slot.like, [self.b.load(place) for place in slot.places])

    # Expressions.

    def number(self, node: ast.expr) -> Number:
        found = self.value(node)
        if not isinstance(found, Number):
            raise NotWritten(ast.unparse(node))
        return found

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name):
                return self._named(name)
            case ast.Constant(value=value):
                return _literal(value)
            case ast.BinOp():
                return self.applied(
                    _OPERATORS[type(node.op)], self.number(node.left), self.number(node.right)
                )
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call():
                return self._call(node)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                return self._choose(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BoolOp():
                return self._both(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Tuple(elts=elements):
                return tuple(self.value(one) for one in elements)
            case _:
                raise NotWritten(ast.unparse(node))

    def _named(self, name: str) -> Value:
        found = self.frame.names.get(name)
        if isinstance(found, _Slot):
            return self._read(found)
        if found is not None:
            return found
        if name in _SHORT:
            return Machine(_SHORT[name])
        if name in _CONSTANTS:
            return _literal(_CONSTANTS[name])
        table = self.module.table(name)
        if table is None:
            raise NotWritten(name)
        return table

    def applied(self, op: str, left: Number, right: Number) -> Number:
        """An operation of two numbers."""
        b = self.b
        kind = common(left, right)
        if kind in PARTS:
            return self._of_parts(op, left, right, kind)
        if op == "**" and left.known is not None and right.known is not None:
            return constant(kind, left.known**right.known)
        if op == "**" and kind in FLOATS:
            return functions.power(b, left, right)
        if op == "/" and kind not in FLOATS:
            kind = "float64"
        if kind in FLOATS:
            if op not in _FLOATING:
                raise NotWritten(f"{op} of floats")
            first, last = convert(b, left, kind).held, convert(b, right, kind).held
            return Number(kind, getattr(b, _FLOATING[op])(first, last, flags=self._flags))
        if left.known is not None and right.known is not None:
            return constant(kind, _KNOWN[op](int(left.known), int(right.known)))
        if left.machine == right.machine == "bool" and op in ("&", "|", "^"):
            return Number("bool", getattr(b, _MODULAR[op])(left.held, right.held))
        first, last = convert(b, left, kind).held, convert(b, right, kind).held
        signed = kind == "int64"
        match op:
            case "+" | "-" | "*":
                flags = ("nsw",) if signed else ()
                return Number(kind, getattr(b, _MODULAR[op])(first, last, flags=flags))
            case "&" | "|" | "^":
                return Number(kind, getattr(b, _MODULAR[op])(first, last))
            case "<<":
                return Number(kind, b.shl(first, last))
            case ">>":
                return Number(kind, (b.ashr if signed else b.lshr)(first, last))
            case "//" | "%":
                return Number(kind, self._divided(op, first, last, signed))
            case _:
                raise NotWritten(op)

    def _divided(self, op: str, first: Any, last: Any, signed: bool) -> Any:
        """A quotient that is rounded down, or what is left."""
        b = self.b
        if not signed:
            return (b.udiv if op == "//" else b.urem)(first, last)
        rest = b.srem(first, last)
        other_sign = b.icmp_signed("<", b.xor(rest, last), WORD(0))
        below = b.and_(b.icmp_signed("!=", rest, WORD(0)), other_sign)
        if op == "%":
            return b.add(rest, b.select(below, last, WORD(0)))
        return b.sub(b.sdiv(first, last), b.zext(below, WORD))

    def _of_parts(self, op: str, left: Number, right: Number, kind: str) -> Number:
        """An operation of complex numbers."""
        b = self.b
        (a, c), (d, e) = (convert(b, one, kind).held for one in (left, right))
        match op:
            case "+":
                return Number(kind, (b.fadd(a, d), b.fadd(c, e)))
            case "-":
                return Number(kind, (b.fsub(a, d), b.fsub(c, e)))
            case "*":
                real = b.fsub(b.fmul(a, d), b.fmul(c, e))
                return Number(kind, (real, b.fadd(b.fmul(a, e), b.fmul(c, d))))
            case "/":
                return functions.divided(b, left, right)
            case "**":
                return self._whole(_library()["complex_power"], [left, right])
            case _:
                raise NotWritten(f"{op} of complex numbers")

    def _compare(self, node: ast.Compare) -> Number:
        result, left = None, self.number(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In):
                assert isinstance(right_node, ast.Tuple)
                tests = [compared(self.b, "==", left, self.number(k)) for k in right_node.elts]
                found = tests[0]
                for one in tests[1:]:
                    found = self._either(found, one, "|")
                return found
            right = self.number(right_node)
            test = compared(self.b, _OPERATORS[type(op)], left, right)
            result = test if result is None else self._either(result, test, "&")
            left = right
        assert result is not None
        return result

    def _either(self, first: Number, last: Number, op: str) -> Number:
        if first.known is not None and last.known is not None:
            return constant(
                "bool", (first.known and last.known) if op == "&" else first.known or last.known
            )
        return Number("bool", getattr(self.b, _MODULAR[op])(first.held, last.held))

    def _both(self, node: ast.BoolOp) -> Number:
        b, is_and = self.b, isinstance(node.op, ast.And)
        result = truth(b, self.number(node.values[0]))
        for one in node.values[1:]:
            if result.known is not None:
                if bool(result.known) != is_and:
                    return result
                result = truth(b, self.number(one))
            elif _is_plain(one):
                result = self._either(result, truth(b, self.number(one)), "&" if is_and else "|")
            else:
                result = self._later(result, one, is_and)
        return result

    def _later(self, first: Number, node: ast.expr, is_and: bool) -> Number:
        """`and` or `or`, whose second operand is computed only if it is asked for."""
        b = self.b
        before = b.block
        more, end = b.append_basic_block("more"), b.append_basic_block("either")
        b.cbranch(first.held, *((more, end) if is_and else (end, more)))
        b.position_at_end(more)
        last = truth(b, self.number(node)).held
        after = b.block
        b.branch(end)
        b.position_at_end(end)
        phi = b.phi(BIT)
        phi.add_incoming(BIT(not is_and), before)
        phi.add_incoming(last, after)
        return Number("bool", phi)

    def _choose(self, node: ast.IfExp) -> Value:
        b = self.b
        test = truth(b, self.number(node.test))
        if test.known is not None:
            return self.value(node.body if test.known else node.orelse)
        if _is_plain(node.body) and _is_plain(node.orelse):
            return chosen(b, test, self.number(node.body), self.number(node.orelse))
        then, other, end = (b.append_basic_block(name) for name in ("then", "else", "chosen"))
        b.cbranch(test.held, then, other)
        found = []
        for block, one in ((then, node.body), (other, node.orelse)):
            b.position_at_end(block)
            found.append((self.number(one), b.block))
        kinds = [number.machine for number, _ in found]
        kind = kinds[0] if kinds[0] == kinds[1] else common(found[0][0], found[1][0])
        values = []
        for number, block in found:
            b.position_at_end(block)
            value = convert(b, number, kind)
            values.append((flat(value), b.block))
            b.branch(end)
        b.position_at_end(end)
        phis = []
        for k, first in enumerate(values[0][0]):
            phi = b.phi(first.type)
            for parts, block in values:
                phi.add_incoming(parts[k], block)
            phis.append(phi)
        return Number(kind, tuple(phis) if kind in PARTS else phis[0])

    def _unary(self, node: ast.UnaryOp) -> Number:
        b, value = self.b, self.number(node.operand)
        match node.op:
            case ast.Not():
                asked = truth(b, value)
                if asked.known is not None:
                    return constant("bool", not asked.known)
                return Number("bool", b.not_(asked.held))
            case ast.USub() if value.machine in PARTS:
                return Number(value.machine, tuple(map(b.fneg, value.held)))
            case ast.USub() if value.known is not None and value.machine in (*FLOATS, "int64"):
                return constant(value.machine, -value.known)
            case ast.USub() if value.machine in FLOATS:
                return Number(value.machine, b.fneg(value.held))
            case ast.USub():
                kind = "uint64" if value.machine.startswith("u") else "int64"
                return Number(kind, b.neg(convert(b, value, kind).held))
            case ast.Invert():
                kind = "uint64" if value.machine.startswith("u") else "int64"
                return Number(kind, b.not_(convert(b, value, kind).held))
            case _:
                raise NotWritten(ast.unparse(node))

    # Arrays.

    def _subscript(self, node: ast.Subscript) -> Value:
        whole = self.value(node.value)
        if isinstance(whole, tuple):
            place = self.number(node.slice)
            assert isinstance(place.known, int)
            return whole[place.known]
        index = self.value(node.slice)
        if isinstance(whole, Array) and len(_listed(index)) < len(whole.shape):
            return self._part(whole, _listed(index))
        array, at_ = self._place(node)
        return load(self.b, array, at_)

    def _part(self, array: Array, index: tuple[Value, ...]) -> Array:
        """What an array holds at some first indices."""
        place = at(self.b, array, tuple(self._word(one) for one in index))
        count = len(index)
        strides = strides_of(self.b, array)[count:]
        return Array(array.machine, place, array.shape[count:], strides)

    def _place(self, node: ast.Subscript) -> tuple[Array, Any]:
        array = self.value(node.value)
        if not isinstance(array, Array):
            raise NotWritten(ast.unparse(node))
        index = self.value(node.slice)
        indices = _listed(index)
        if len(indices) != len(array.shape):
            raise NotWritten(ast.unparse(node))
        return array, at(self.b, array, tuple(self._word(one) for one in indices))

    def _word(self, value: Value) -> Any:
        assert isinstance(value, Number)
        return convert(self.b, value, "int64").held

    def _size(self, array: Array) -> Number:
        size = array.shape[0]
        for one in array.shape[1:]:
            size = self.applied("*", size, one)
        return size

    def _attribute(self, node: ast.Attribute) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id == "np":
            if node.attr in ("nan", "inf"):
                return _literal(float(node.attr))
            return Machine({"bool_": "bool"}.get(node.attr, node.attr))
        value = self.value(node.value)
        if isinstance(value, Number):
            if node.attr not in ("real", "imag") or value.machine not in PARTS:
                raise NotWritten(ast.unparse(node))
            return Number(PARTS[value.machine], value.held[node.attr == "imag"])
        assert isinstance(value, Array)
        match node.attr:
            case "shape":
                return value.shape
            case "ndim":
                return word(len(value.shape))
            case "size":
                return self._size(value)
            case "itemsize":
                return word(value.itemsize)
            case "nbytes":
                return self.applied("*", self._size(value), word(value.itemsize))
            case "strides":
                return tuple(Number("int64", one) for one in strides_of(self.b, value))
            case "dtype":
                return Machine(value.machine)
            case _:
                raise NotWritten(ast.unparse(node))

    def _row(self, array: Array, index: tuple[Value, ...], first: Value | None) -> Array:
        """The elements along the last axis, which lie side by side, from one of them on."""
        place = at(self.b, array, tuple(self._word(one) for one in index))
        if first is not None:
            place = self.b.gep(place, [self._word(first)], inbounds=True)
        return Array(array.machine, place, array.shape[-1:])

    def _allocate(self, shape: Value, machine: str, zero: bool) -> Array:
        """Memory for an array, which is given back at the end."""
        b = self.b
        lengths = shape if isinstance(shape, tuple) else (shape,)
        numbers = tuple(convert(b, one, "int64") for one in lengths if isinstance(one, Number))
        array = Array(machine, None, numbers)
        size = self.applied("*", self._size(array), word(array.itemsize)).held
        malloc = function(self.module.module, "malloc", POINTER, [WORD])
        free = variable(b, POINTER)
        with b.goto_entry_block():
            b.store(POINTER(None), free)
        self._buffers.append(free)
        memory = b.call(malloc, [b.add(size, WORD(_LINE))])
        b.store(memory, free)
        if self._failed is None:
            self._failed = b.append_basic_block("finish")
        goes_on = b.append_basic_block("allocated")
        self._failures.append(b.block)
        b.cbranch(b.icmp_unsigned("==", memory, POINTER(None)), self._failed, goes_on)
        b.position_at_end(goes_on)
        begin = b.and_(b.add(b.ptrtoint(memory, WORD), WORD(_LINE - 1)), WORD(-_LINE))
        address = b.inttoptr(begin, POINTER)
        if zero:
            clear(b, address, size)
        return replace(array, data=b.bitcast(address, stored(machine).as_pointer()))

    # Calls.

    def _call(self, node: ast.Call) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.module.texts:
            args = [self.value(one) for one in node.args]
            made = self.module.row_function(self.module.texts[name], args)
            self.b.call(made, [one for arg in args for one in flat(arg)])
            return ()
        if name in _SHORT and name not in self.frame.names:
            return self._cast(_SHORT[name], node.args[0])
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        if name in _library():
            return self.run(_library()[name], [self.value(one) for one in node.args])
        match name:
            case "row" | "row_from":
                array, index, *first = (self.value(one) for one in node.args)
                assert isinstance(array, Array)
                assert isinstance(index, tuple)
                return self._row(array, index, first[0] if first else None)
            case "aligned":
                kind = self.value(node.args[1])
                assert isinstance(kind, Machine)
                return self._allocate(self.value(node.args[0]), kind.machine, False)
            case "min" | "max":
                return self._extreme(name, [self.number(one) for one in node.args])
            case "abs":
                return self._size_of(self.number(node.args[0]))
            case "complex":
                parts = [self.number(one) for one in node.args]
                narrow = all(one.machine == "float32" for one in parts)
                machine = "complex64" if narrow else "complex128"
                held_by = (convert(self.b, one, PARTS[machine]).held for one in parts)
                return Number(machine, tuple(held_by))
            case "same_bits":
                array, like = (self.value(one) for one in node.args)
                assert isinstance(array, Array)
                assert isinstance(like, Array)
                return seen_as(self.b, array, like.machine)
            case "ones":
                value = convert(self.b, self.number(node.args[0]), "uint64")
                count = function(self.module.module, "llvm.ctpop.i64", WORD, [WORD])
                return Number("int64", self.b.call(count, [value.held]))
            case "type_of":
                limit, value = (self.number(one) for one in node.args)
                return convert(self.b, value, limit.machine)
            case "float32_of_bits" | "float64_of_bits" | "bits_of_float64":
                return self._bits(name, self.number(node.args[0]))
            case "float32_of_half":
                return halves.widened(self.b, self.number(node.args[0]))
            case "half_of_float32":
                return halves.narrowed(self.b, self.number(node.args[0]))
            case _:
                raise NotWritten(ast.unparse(node))

    def _bits(self, name: str, value: Number) -> Number:
        kind = {"float32_of_bits": "float32", "float64_of_bits": "float64"}.get(name, "int64")
        before = {"float32": "int32", "float64": "int64", "int64": "float64"}[kind]
        bits = convert(self.b, value, before).held
        return Number(kind, self.b.bitcast(bits, held(kind)))

    def _method(self, node: ast.Call, func: ast.Attribute) -> Value:
        place = func.value.id if isinstance(func.value, ast.Name) else ""
        if place not in ("np", "math"):
            raise NotWritten(ast.unparse(node))
        if func.attr in ("empty", "zeros"):
            named = [one.value for one in node.keywords if one.arg == "dtype"]
            kind = self.value((named or node.args[1:])[0])
            assert isinstance(kind, Machine)
            return self._allocate(self.value(node.args[0]), kind.machine, func.attr == "zeros")
        args = [self.number(one) for one in node.args]
        whole = _library().get(f"complex_{func.attr}")
        if whole is not None and any(arg.machine in PARTS for arg in args):
            return self._whole(whole, args)
        return functions.call(self.b, func.attr, args)

    def _whole(self, node: ast.FunctionDef, args: Sequence[Number]) -> Number:
        """A function of complex numbers, of the type that they have."""
        kind = args[0].machine
        for arg in args[1:]:
            kind = common(Number(kind, None), arg)
        found = self.run(node, [convert(self.b, arg, kind) for arg in args])
        assert isinstance(found, Number)
        return convert(self.b, found, kind)

    def _extreme(self, name: str, values: list[Number]) -> Number:
        found = values[0]
        for one in values[1:]:
            test = compared(self.b, "<" if name == "min" else ">", one, found)
            if one.machine != found.machine:
                kind = common(one, found)
                one, found = convert(self.b, one, kind), convert(self.b, found, kind)
            found = chosen(self.b, test, one, found)
        return found

    def _size_of(self, value: Number) -> Number:
        if value.machine in FLOATS:
            return functions.call(self.b, "fabs", [value])
        if value.machine in PARTS:
            part = PARTS[value.machine]
            return functions.call(self.b, "hypot", [Number(part, one) for one in value.held])
        negative = compared(self.b, "<", value, word(0))
        return chosen(self.b, negative, self.applied("-", word(0), value), value)

    def _cast(self, machine: str, node: ast.expr) -> Number:
        """A conversion; arithmetic inside that of integers is done in its width."""
        if (
            machine in WIDTHS
            and isinstance(node, ast.BinOp | ast.UnaryOp)
            and self._is_whole(node)
        ):
            return Number(machine, self._modular(node, WIDTHS[machine]))
        return convert(self.b, self.number(node), machine)

    def _is_whole(self, node: ast.expr) -> bool:
        """Whether an expression is one of integers, as far as can be told from its form."""
        match node:
            case ast.BinOp():
                op = _OPERATORS[type(node.op)]
                return op in _MODULAR and self._is_whole(node.left) and self._is_whole(node.right)
            case ast.UnaryOp(op=ast.USub() | ast.Invert()):
                return self._is_whole(node.operand)
            case ast.Call(func=ast.Name(id=name)):
                return _SHORT.get(name, "") in WIDTHS
            case ast.Constant(value=value):
                return isinstance(value, int)
            case ast.Name(id=name):
                found = self.frame.names.get(name)
                like = found.like if isinstance(found, _Slot) else found
                return isinstance(like, Number) and like.is_whole
            case ast.Subscript():
                found = self.value(node.value)
                return isinstance(found, Array) and found.machine in WIDTHS
            case _:
                return False

    def _modular(self, node: ast.expr, bits: int) -> Any:
        match node:
            case ast.BinOp() if _OPERATORS[type(node.op)] in _MODULAR:
                first, last = self._modular(node.left, bits), self._modular(node.right, bits)
                return getattr(self.b, _MODULAR[_OPERATORS[type(node.op)]])(first, last)
            case ast.UnaryOp(op=ast.USub()):
                return self.b.neg(self._modular(node.operand, bits))
            case ast.UnaryOp(op=ast.Invert()):
                return self.b.not_(self._modular(node.operand, bits))
            case _:
                return resized(self.b, self.number(node), bits)


def _listed(index: Value) -> tuple[Value, ...]:
    return index if isinstance(index, tuple) else (index,)


def _literal(value: Any) -> Number:
    if isinstance(value, bool):
        return constant("bool", value)
    if isinstance(value, int):
        return constant("int64" if value < 2**63 else "uint64", value)
    if isinstance(value, float):
        return constant("float64", value)
    raise NotWritten(repr(value))


def _loaded(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    return node


@cache
def _is_plain(node: ast.expr) -> bool:
    """Whether an expression may be computed where nobody asks for it."""
    for one in ast.walk(node):
        if isinstance(one, ast.Subscript | ast.IfExp | ast.BoolOp):
            return False
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.FloorDiv | ast.Mod | ast.Pow):
            return False
        if isinstance(one, ast.Call) and not (
            isinstance(one.func, ast.Name) and (one.func.id in _SHORT or one.func.id == "complex")
        ):
            name = one.func.attr if isinstance(one.func, ast.Attribute) else ""
            if name not in ("floor", "ceil", "trunc", "rint", "fabs", "sqrt"):
                return False
    return True
