"""Rewrite: the user's functions with their reads mapped to places in a block.

x[0, k]           ->     wide(peek(x.array, (x.place[0], x.place[1] + 1,
                                             near(x.place[2], k, -1, 1, x.outside, 0))))
x[-1:2].sum()     ->     held("- 3", x.array, (x.place[0], x.place[1])).sum()
x[-n:n].sum()     ->     window(x.array[x.place[0], near(...):near(...) + 1]).sum()
a // b            ->     op_floordiv(a, b)
"""

from __future__ import annotations

import ast
import copy
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....language import errors
from ....language.box import Box
from ....language.positions import index
from ....language.source import ArrayFunction, Function, SelfReference, Unusable
from ....shapes import is_shape
from ..window_loops import plus
from .fleeting import fleeting
from .reads import Access, Step, Stretch
from .scopes import Scope, Scopes, own
from .texts import text_of
from .words import several, words

_ALWAYS: dict[type[ast.operator], str] = {
    ast.FloorDiv: "op_floordiv",
    ast.Mod: "op_mod",
    ast.Pow: "op_pow",
    ast.LShift: "op_lshift",
    ast.RShift: "op_rshift",
}
_MODULAR: dict[type[ast.AST], str] = {
    ast.Add: "op_add",
    ast.Sub: "op_sub",
    ast.Mult: "op_mul",
    ast.BitAnd: "op_and",
    ast.BitOr: "op_or",
    ast.BitXor: "op_xor",
    ast.Lt: "op_lt",
    ast.LtE: "op_le",
    ast.Gt: "op_gt",
    ast.GtE: "op_ge",
    ast.Eq: "op_eq",
    ast.NotEq: "op_ne",
}
# Functions whose rule in a kernel is not Numba's.
_OURS: dict[Any, str] = {
    int: "whole",
    math.floor: "floored",
    math.ceil: "ceiled",
    math.trunc: "truncated",
}
_EXTREMES: dict[Any, str] = {
    min: "least",
    max: "greatest",
    np.minimum: "np_least",
    np.maximum: "np_greatest",
}
# Operators of constants, done while the text is read where a part needs more than 64 bits.
_FOLDED: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_ALONG = {
    function: f"along_{name}"
    for name in ("max", "min", "mean", "median", "std", "var", "prod", "any", "all", "ptp")
    for function in (getattr(np, name),)
} | {np.amax: "along_max", np.amin: "along_min"}


# Arrays of the kernel's own, and their types, that rooms may hold; at most so many elements.
_MAKERS: dict[Any, str] = {np.empty: "unwritten", np.zeros: "cleared"}
_KINDS: dict[type, str] = {
    getattr(np, name): name
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 "
    "complex128 bool_".split()
} | {int: "int64", float: "float64", complex: "complex128", bool: "bool_"}
_HELD = 1024
_MIDDLES: dict[Any, str] = {np.median: "middle", np.nanmedian: "known_middle"}


@dataclass(slots=True)
class Globals:
    """The constants and the names of functions of the generated module."""

    reserved: frozenset[str]
    taken: frozenset[str]
    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)

    @property
    def used(self) -> frozenset[str]:
        """Every name that the generated text has, or that a function of the user's binds."""
        return self.reserved | self.taken

    def fresh(self, name: str) -> str:
        new = name if name.isidentifier() else "function"
        while new in self.used or new in self.values or new in self.functions.values():
            new += "_"
        return new

    def constant(self, name: str, value: Any, text: str) -> str:
        """The name of a constant of the module."""
        for known, held in self.values.items():
            if held is value:
                return known
        name = self.fresh(name)
        self.values[name] = value
        self.lines.append(f"{name} = {text}")
        return name


@dataclass(frozen=True, slots=True)
class Context:
    """What the rewriting of every function of one kernel shares.

    `modular` are the fields of uint64, and `numbers` all fields of a function of numbers;
    `narrow` is true where a buffer may hold integers of less than 64 bits, whose elements are
    exact integers once they are read.  `among` says what positions are asked for.
    """

    scopes: Scopes
    accesses: Mapping[ast.Subscript, Access]
    box: Box
    modular: frozenset[str]
    numbers: frozenset[str]
    narrow: bool
    globals: Globals
    places: list[str]
    among: set[str]


class _Rewritten(ast.expr):
    """An operand that is not to be rewritten once more."""

    _fields = ("inner",)

    def __init__(self, inner: ast.AST) -> None:
        super().__init__()
        self.inner: ast.AST = inner


class Rewriter(ast.NodeTransformer):
    """Rewrites one function in place, and the functions inside it."""

    def __init__(self, context: Context, scope: Scope, outer: Rewriter | None = None) -> None:
        self.context = context
        self.scope = scope
        self._outermost: Rewriter = self if outer is None else outer._outermost
        # Where the whole function finds what its loops ask whether to go on, if any does.
        self.looks: str | None = None
        # Comparisons whose truths are used as a mask, and are gone with that.
        self._compared: set[ast.AST] = set()
        self.words = words(context, scope) if context.modular else {}
        # Outside loops a kernel's own text runs once for each point.
        self.fleeting = fleeting(scope, scope is context.scopes.root)

    def body(self) -> list[ast.stmt]:
        """The statements of the function."""
        definition = self.scope.definition
        if isinstance(definition, ast.Lambda):
            value = self.visit(definition.body)
            return [ast.copy_location(ast.Return(value), definition.body)]
        statements = definition.body
        first = statements[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            statements = statements[1:] or [ast.copy_location(ast.Pass(), first)]
        return [self.visit(statement) for statement in statements]

    # Names.

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and (held := self.scope.constant(node)) is not None:
            return self._folded(node) or self._outer(node, held[0])
        return ast.copy_location(ast.Name(self._local(node.id), node.ctx), node)

    def _local(self, name: str) -> str:
        while name in self.context.globals.reserved:
            name += "_"
        return name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        held = self.scope.constant(node)
        if held is not None:
            return self._outer(node, held[0])
        return self.generic_visit(node)

    def _outer(self, node: ast.expr, value: Any) -> ast.AST:
        """A value from outside the kernel."""
        span = self.scope.function.span(node)
        name = ast.unparse(node)
        if isinstance(value, SelfReference):
            raise errors.recursion(span, value.name)
        if isinstance(value, Unusable):
            raise errors.bad_constant(span, name, value.words)
        if isinstance(value, ArrayFunction):
            raise (errors.ufunc_stage if self.context.numbers else errors.stage_use)(span, name)
        if isinstance(value, Function):
            text = self.context.globals.functions[id(value)]
        else:
            found = text_of(value)
            if found is None:
                raise errors.unknown_function(span, name)
            text = found
            if isinstance(value, np.ndarray | tuple):
                text = self.context.globals.constant(name.replace(".", "_"), value, text)
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.copy_location(ast.arg(self._local(node.arg)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inner = Rewriter(self.context, self.scope.inner[node], self)
        node.name = self._local(node.name)
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.args = [self.visit(a) for a in node.args.args]
        node.body = inner.body()
        node.returns, node.decorator_list = None, []
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        inner = Rewriter(self.context, self.scope.inner[node], self)
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.args = [self.visit(a) for a in node.args.args]
        node.body = inner.visit(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.Assign([self.visit(node.target)], self.visit(node.value))
        return ast.copy_location(plain, node)

    # Loops.

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._asking(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        known = self.context.scopes.finite(node.iter, self.scope)
        return self.generic_visit(node) if known else self._asking(node)

    def _asking(self, node: ast.While | ast.For) -> ast.AST:
        """A loop that may never end, which asks each time whether to go on."""
        whole = self._outermost
        fields = (
            p for p in whole.scope.parameters if self.context.scopes.is_field(p, whole.scope)
        )
        field = next(fields, None)
        self.generic_visit(node)
        told = whole.scope is self.context.scopes.root and self.context.numbers
        if field is not None or told:
            whole.looks = "outside" if field is None else f"{whole._local(field)}.outside"
            # A function inside cannot count for the whole, and looks each time.
            inside = whole is not self
            counts = "turns -= 1\nif turns == 0:\n    turns = go_on(outside)"
            asks = ast.parse("go_on(outside)" if inside else counts).body
            for part in (part for one in asks for part in ast.walk(one)):
                ast.copy_location(part, node)
            node.body[:0] = asks
        return node

    # Reads.

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        access = self.context.accesses.get(node)
        if access is None:
            mask = isinstance(node.ctx, ast.Load) and _is_mask(self.scope, node.slice)
            if mask and isinstance(node.slice, ast.Compare):
                self._compared.add(node.slice)
            self.generic_visit(node)
            if mask:
                chosen = "taken" if self._fits(node, 1) else "masked"
                return self._call(chosen, node, node.value, node.slice)
            exact = self.context.narrow and isinstance(node.ctx, ast.Load)
            return self._call("wide", node, node) if exact else node
        base = ast.unparse(self.visit(node.value))
        base = base if base.isidentifier() else f"({base})"
        places = [self._place(base, axis, part, node) for axis, part in enumerate(access.parts)]
        index = ", ".join([f"{base}.place[0]", *places])
        stretched = any(isinstance(part, Stretch) for part in access.parts)
        text = f"wide(peek({base}.array, ({index})))"
        if stretched:
            text = self._held(access, node, base) or f"window({base}.array[{index}])"
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def _fits(self, node: ast.AST, ndim: int) -> bool:
        """Whether an array of so many axes may lie in the room of its place."""
        return ndim <= self.fleeting.get(node, 0)

    def _held(self, access: Access, node: ast.Subscript, base: str) -> str | None:
        """A window of constant size in a room, if it may lie there."""
        shape, corner = ["-"], [f"{base}.place[0]"]
        for axis, part in enumerate(access.parts):
            step = part.first if isinstance(part, Stretch) else part
            corner.append(self._near(base, axis, step, node, 0))
            length = part.length if isinstance(part, Stretch) else None
            if isinstance(part, Stretch) and length is None:
                return None
            shape.append("-" if length is None else str(length))
        sizes = [int(one) for one in shape if one != "-"]
        if math.prod(sizes) > _HELD or not self._fits(node, len(sizes)):
            return None
        return f"held('{' '.join(shape)}', {base}.array, ({', '.join(corner)}))"

    def _made(self, node: ast.Call, function: Any) -> ast.AST | None:
        """A small array of the kernel's own, in a room."""
        name = _MAKERS.get(function) if callable(function) else None
        if (
            name is None
            or not 1 <= len(node.args) <= 2
            or any(k.arg != "dtype" for k in node.keywords)
        ):
            return None
        shapes = self.context.scopes.values(node.args[0], self.scope)
        if shapes is None or len(shapes) != 1:
            return None
        shape = shapes[0] if isinstance(shapes[0], tuple) else (shapes[0],)
        kinds = [*node.args[1:], *(k.value for k in node.keywords)]
        held = self.scope.constant(kinds[0]) if kinds else (np.float64,)
        if len(kinds) > 1 or held is None or not all(type(n) is int and n > 0 for n in shape):
            return None
        kind = _KINDS.get(held[0]) if isinstance(held[0], type) else None
        if kind is None or math.prod(shape) > _HELD or not self._fits(node, len(shape)):
            return None
        text = f"{name}('{' '.join(map(str, shape))}', np.{kind})"
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def _place(self, base: str, axis: int, part: Step | Stretch, node: ast.AST) -> str:
        if isinstance(part, Step):
            return self._near(base, axis, part, node, 0)
        first = self._near(base, axis, part.first, node, 0)
        last = self._near(base, axis, part.stop, node, 1)
        return f"{first}:{last} + 1"

    def _near(self, base: str, axis: int, step: Step, node: ast.AST, before: int) -> str:
        """The place `before` steps before an offset."""
        low, high = self.context.box.lo[axis], self.context.box.hi[axis]
        place = f"{base}.place[{axis + 1}]"
        known = step.bounds
        if known is not None and known[0] == known[1] and low <= known[0] - before <= high:
            return plus(place, known[0] - before - low)
        offset: ast.expr = self.visit(step.node)
        if known is not None and low <= known[0] - before and known[1] - before <= high:
            return f"{place} + ({ast.unparse(_moved(offset, -before - low))})"
        text = ast.unparse(_moved(offset, -before))
        site = len(self.context.places)
        span = self.scope.function.span(node)
        self.context.places.append(f"{axis}|{span.file}|{span.line}")
        return f"near({place}, {text}, {low}, {high}, {base}.outside, {site})"

    # Numbers that int64 does not hold.

    def _known(self, node: ast.AST) -> int | None:
        """The integer that an expression of constants is."""
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._known(operand)
                return None if value is None else -value
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _FOLDED:
                a, b = self._known(left), self._known(right)
                if a is None or b is None:
                    return None
                if isinstance(op, ast.FloorDiv | ast.Mod) and b == 0:
                    return None
                if isinstance(op, ast.Pow) and not 0 <= b <= 4096:
                    return None
                return _FOLDED[type(op)](a, b)
            case ast.Constant() | ast.Name() | ast.Attribute():
                values = self.context.scopes.values(node, self.scope)
                if values is not None and len(values) == 1 and type(values[0]) is int:
                    return values[0]
                return None
            case _:
                return None

    def _large(self, node: ast.AST) -> int | None:
        """The integer that an expression of constants is, if int64 does not hold it."""
        value = self._known(node)
        return None if value is None or -(2**63) <= value < 2**63 else value

    def _folded(self, node: ast.expr) -> ast.expr | None:
        """What an expression of constants is, if a part of it does not fit into int64."""
        value = self._known(node)
        if value is None:
            return None
        if not any(self._large(part) is not None for part in ast.walk(node)):
            return None
        if -(2**63) <= value < 2**63:
            return ast.copy_location(ast.Constant(value), node)
        if not 0 <= value < 2**64:
            raise errors.literal_range(self.scope.function.span(node), value)
        word = ast.parse(f"np.uint64({value})", mode="eval").body
        return ast.copy_location(word, node)

    def _beside(self, node: ast.expr, value: int, partner: Any) -> ast.expr:
        """A large number of the text, as the rewritten operand beside it wants it."""
        number = ast.copy_location(ast.Constant(str(value)), node)
        return self._call("beside", node, number, copy.deepcopy(partner))

    def _operands(self, nodes: list[ast.expr]) -> list[Any]:
        """Rewritten operands; a large number is as the first of the others wants it."""
        large = [self._large(node) for node in nodes]
        if all(value is None for value in large) or None not in large:
            return [self.visit(node) for node in nodes]
        made = [
            self.visit(node) if value is None else None
            for node, value in zip(nodes, large, strict=True)
        ]
        rest = [one for one in made if one is not None]
        varying = [
            one
            for node, one in zip(nodes, made, strict=True)
            if one is not None and self._known(node) is None
        ]
        partner = (varying or rest)[0]
        return [
            one if value is None else self._beside(node, value, partner)
            for node, value, one in zip(nodes, large, made, strict=True)
        ]

    def visit__Rewritten(self, node: _Rewritten) -> ast.AST:
        return node.inner

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return self._folded(node) or node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        folded = self._folded(node)
        if folded is None and isinstance(node.op, ast.USub) and self.context.modular:
            return self._call("op_neg", node, self.visit(node.operand))
        return folded or self.generic_visit(node)

    # Operations.

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        wanted = [[self.words.get(ast.unparse(one)) for one in several(t)] for t in node.targets]
        self.generic_visit(node)
        return self._as_words(node, wanted[0])

    def _as_words(self, node: ast.Assign, wanted: Sequence[str | None]) -> ast.Assign:
        """Give names one type: Numba makes a float of what is a uint64 here and an int64 there."""
        parts = several(node.value)
        alike = isinstance(node.targets[0], ast.Tuple) == isinstance(node.value, ast.Tuple)
        if any(wanted) and alike and len(parts) == len(wanted):
            made = [
                one if name is None else self._call(name, one, one)
                for one, name in zip(parts, wanted, strict=True)
            ]
            node.value = made[0] if len(made) == 1 else ast.Tuple(made, ast.Load())
        return node

    def _operation(self, kind: ast.AST) -> str | None:
        if type(kind) in _ALWAYS:
            return _ALWAYS[type(kind)]  # type: ignore[index]
        return _MODULAR.get(type(kind)) if self.context.modular else None

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if (folded := self._folded(node)) is not None:
            return folded
        name = self._operation(node.op)
        power = isinstance(node.op, ast.Pow)
        if power and (known := self.context.scopes.bounds(node.right, self.scope)) is not None:
            name = "natural_power" if known[0] == known[1] >= 0 else name
        left, right = self._operands([node.left, node.right])
        if name is None:
            return ast.copy_location(ast.BinOp(left, node.op, right), node)
        return self._call(name, node, left, right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if self._operation(node.op) is None and self._large(node.value) is None:
            return self.generic_visit(node)
        # A buffer's index is written twice: nothing in a kernel has a side effect.
        old = ast.parse(ast.unparse(node.target), mode="eval").body
        for part in ast.walk(old):
            ast.copy_location(part, node)
        value = ast.copy_location(ast.BinOp(old, node.op, node.value), node)
        wanted = self.words.get(ast.unparse(node.target))
        made = ast.Assign([self.visit(node.target)], self.visit(value))
        return ast.copy_location(self._as_words(made, [wanted]), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        names = [self._operation(op) for op in node.ops]
        operands = [node.left, *node.comparators]
        if node in self._compared and len(node.ops) == 1 and type(node.ops[0]) in _MODULAR:
            compared = f"mask_{_MODULAR[type(node.ops[0])].removeprefix('op_')}"
            return self._call(compared, node, *self._operands(operands))
        large = any(self._large(operand) is not None for operand in operands)
        if None in names and not large:
            return self.generic_visit(node)
        tests: list[ast.expr] = []
        rewritten = self._operands(operands)
        for name, op, a, b in zip(names, node.ops, rewritten, rewritten[1:], strict=False):
            plain = ast.copy_location(ast.Compare(a, [op], [b]), node)
            tests.append(plain if name is None else self._call(name, node, a, b))
        if len(tests) == 1:
            return tests[0]
        return ast.copy_location(ast.BoolOp(ast.And(), list(tests)), node)

    def _call(self, name: str, node: ast.AST, *args: ast.expr) -> ast.expr:
        call = ast.Call(ast.Name(name, ast.Load()), list(args), [])
        return ast.copy_location(call, node)

    def _shape(self, node: ast.Call, function: Any) -> ast.AST:
        """The shape of a window that constant arguments say."""
        span, name = self.scope.function.span(node), ast.unparse(node.func)

        def known(argument: ast.expr) -> Any:
            held = self.scope.constant(argument)
            try:
                return held[0] if held else ast.literal_eval(argument)
            except ValueError:
                raise errors.shape_varies(span, name) from None

        args, named = [*map(known, node.args)], {str(k.arg): known(k.value) for k in node.keywords}
        try:
            shape = function(*args, **named)
        except (TypeError, ValueError) as error:
            raise errors.wrong_arguments(span, name, str(error)) from error
        text = self.context.globals.constant("shape", shape, str(text_of(shape)))
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        for keyword in node.keywords:
            if keyword.arg is None:
                span = self.scope.function.span(node)
                raise errors.unsupported(span, "'**' in a call", "Name each argument.")
        held = self.scope.constant(node.func)
        if held is None:
            method = self._method(node)
            return method if method is not None else self.generic_visit(node)
        function = held[0]
        args = node.args
        if is_shape(function):
            return self._shape(node, function)
        if function is index:
            return self._position(node)
        if (made := self._made(node, function)) is not None:
            return made
        if isinstance(function, type) and issubclass(function, np.integer) and len(args) == 1:
            kind = ast.parse(f"np.{np.dtype(function).name}", mode="eval").body
            return self._call("cast", node, self.visit(args[0]), kind)
        if any(self._large(a) is not None for a in args):
            args = [_Rewritten(a) for a in self._operands(args)]
            node.args = args
        if function is np.float16 and len(args) == 1:
            return self._call("halved", node, self.visit(args[0]))
        if function is divmod and len(args) == 2:
            return self._call("divided", node, *(self.visit(a) for a in args))
        if function in (round, np.round, np.around) and len(args) == 2 and not node.keywords:
            return self._call("rounded_to", node, *(self.visit(a) for a in args))
        pair = _EXTREMES.get(function) if callable(function) else None
        starred = any(isinstance(a, ast.Starred) for a in args)
        if pair is not None and len(args) > 1 and not node.keywords and not starred:
            found: ast.expr = self.visit(args[0])
            for one in args[1:]:
                found = self._call(pair, node, found, self.visit(one))
            return found
        if function is np.where and len(args) == 3 and not node.keywords:
            return self._call("chosen", node, *(self.visit(a) for a in args))
        if function is np.clip and len(args) == 3 and not node.keywords:
            return self._call("clipped", node, *(self.visit(a) for a in args))
        if function is np.sort and len(args) == 1 and not node.keywords:
            # A copy of its own of what is copied here: a view of it does.
            (inner,) = args
            match inner:
                case ast.Call(func=ast.Attribute(value=ast.expr(), attr="flatten") as method):
                    method.attr = "ravel"
            return self._call(
                "ordered" if self._fits(node, 1) else "np.sort", node, self.visit(inner)
            )
        if function in _MIDDLES and len(args) == 1 and not node.keywords:
            return self._call(_MIDDLES[function], node, self.visit(args[0]))
        if function is np.ptp and len(args) == 1 and not node.keywords:
            return self._call("span", node, self.visit(args[0]))
        name = "rounded" if function is round and len(args) == 1 else None
        if isinstance(function, type | type(math.floor)) and not node.keywords and len(args) == 1:
            name = name or _OURS.get(function)
        if name is not None:
            return self._call(name, node, self.visit(args[0]))
        along = _ALONG.get(function) if callable(function) else None
        if along is not None and (axis := _axis(node)) is not None:
            return self._call(along, node, self.visit(args[0]), self.visit(axis))
        return self.generic_visit(node)

    def _position(self, node: ast.Call) -> ast.AST:
        """`npt.index(x)`, or `npt.index()` for the position among the results."""
        span, scopes = self.scope.function.span(node), self.context.scopes
        if self.context.numbers:
            raise errors.ufunc_position(span)
        if node.keywords or len(node.args) > 1:
            raise errors.wrong_arguments(span, "npt.index", "it takes one field, or nothing")
        if node.args:
            base: ast.AST = self.visit(node.args[0])
            if not isinstance(base, ast.Name) or not scopes.is_field(base.id, self.scope):
                raise errors.position_field(span, f"'{ast.unparse(node.args[0])}'")
        else:
            fields = (p for p in self.scope.parameters if scopes.is_field(p, self.scope))
            found = next(fields, None)
            if found is None:
                raise errors.position_helper(span)
            base = ast.Name(self._local(found), ast.Load())
        among = "elements" if node.args else "results"
        self.context.among.add(among)
        text = f"{ast.unparse(base)}.{'index' if node.args else 'among'}"
        text += "" if self.context.box.ndim > 1 else "[0]"
        return ast.copy_location(ast.parse(text, mode="eval").body, node)

    def _method(self, node: ast.Call) -> ast.AST | None:
        """Methods of a window that Numba's arrays lack."""
        if not isinstance(node.func, ast.Attribute):
            return None
        name, base = node.func.attr, node.func.value
        function = getattr(np, name, None)
        if function in _ALONG:
            as_function = ast.Call(node.func, [base, *node.args], node.keywords)
            if (axis := _axis(as_function)) is not None:
                return self._call(_ALONG[function], node, self.visit(base), self.visit(axis))
        if name == "ptp" and not node.args and not node.keywords:
            return self._call("span", node, self.visit(base))
        if name == "median" and not node.args and not node.keywords:
            return self._call("middle", node, self.visit(base))
        if name == "sort" and not node.args and not node.keywords:
            return self._call("order", node, self.visit(base))
        return None


def _is_mask(scope: Scope, index: ast.expr) -> bool:
    """Whether an index may be an array of truths of several axes, which Numba has not."""
    held = scope.constant(index)
    if held is not None:
        return isinstance(held[0], np.ndarray) and held[0].ndim > 1
    if isinstance(index, ast.Name):
        values = [
            node.value
            for node in own(scope, ast.Assign)
            if any(isinstance(t, ast.Name) and t.id == index.id for t in node.targets)
        ]
        return any(not isinstance(v, ast.Name) and _is_mask(scope, v) for v in values)
    match index:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_mask(scope, operand)
        case ast.BinOp(left=left, right=right):
            return _is_mask(scope, left) or _is_mask(scope, right)
        case ast.Call(func=function) if (held := scope.constant(function)) and is_shape(held[0]):
            return True
        case ast.Call(func=function, args=args):
            named = ast.unparse(function).rpartition(".")[2]
            return bool(args) and named in ("isnan", "isfinite", "isinf", "logical_not",
                                            "logical_and", "logical_or")  # fmt: skip
        case _:
            return False


def _moved(offset: ast.expr, step: int) -> ast.expr:
    """The offset plus a constant; as a tree, so that parentheses stand where they must."""
    if not step:
        return offset
    return ast.BinOp(offset, ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))


def _axis(call: ast.Call) -> ast.expr | None:
    """The axis that a reduction is given, if it is the only option."""
    if len(call.args) == 2 and not call.keywords:
        return call.args[1]
    if len(call.args) == 1 and [k.arg for k in call.keywords] == ["axis"]:
        return call.keywords[0].value
    return None
