"""Which names hold a uint64 at one place and another integer at the next.

total = 0;  total += u[k]                  ->     total is a uint64 from the first
slope = u[0];  slope = slope - u[1]        ->     slope is an int64 from the first
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Literal, TypeAlias

from .scopes import Scope, own

if TYPE_CHECKING:
    from .rewrite import Context

# A uint64; an integer that is written and not negative, or a truth; any other integer; and what is
# not known to be an integer.
Kind: TypeAlias = Literal["word", "natural", "integer", "any"]
Kinds: TypeAlias = Mapping[str, Set[Kind]]


def words(context: Context, scope: Scope) -> dict[str, str]:
    """What each value of a name is made by, where without it the name would have two types."""
    kinds = _kinds(context, scope)
    found: dict[str, str] = {}
    for name, held in kinds.items():
        if "word" in held and "any" not in held and len(held) > 1:
            found[name] = "op_integer" if "integer" in held else "op_word"
    return found


def several(node: ast.expr) -> list[ast.expr]:
    """The parts of a tuple, or the one that it is."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _kinds(context: Context, scope: Scope) -> dict[str, set[Kind]]:
    kinds: dict[str, set[Kind]] = {}
    if scope is context.scopes.root:
        # The fields of a function of numbers are numbers from the first.
        kinds = {name: {"word"} for name in context.modular & context.numbers}
    given: list[tuple[ast.expr, ast.expr]] = []
    for node in own(scope, ast.Assign | ast.AugAssign):
        if isinstance(node, ast.AugAssign):
            given.append((node.target, ast.BinOp(node.target, node.op, node.value)))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = several(target), several(node.value)
                alike = isinstance(target, ast.Tuple) == isinstance(node.value, ast.Tuple)
                if alike and len(pairs[0]) == len(pairs[1]):
                    given += zip(*pairs, strict=True)
                else:
                    given += [(one, ast.Constant(None)) for one in pairs[0]]
    while True:
        before = {name: set(held) for name, held in kinds.items()}
        for target, value in given:
            if isinstance(target, ast.Name):
                found = _Reader(context, scope, kinds).kind(value)
                kinds.setdefault(target.id, set()).update({found} if found else set())
        if kinds == before:
            return kinds


class _Reader:
    """Tells what kind of number an expression is."""

    def __init__(self, context: Context, scope: Scope, kinds: Kinds) -> None:
        self.context, self.scope, self.kinds = context, scope, kinds
        self.assigned = {n.id for n in own(scope, ast.Name) if isinstance(n.ctx, ast.Store)}

    def kind(self, node: ast.expr) -> Kind | None:
        """The kind; None while nothing is known of a name."""
        bounds = self.context.scopes.bounds(node, self.scope)
        if bounds is not None:
            return "natural" if bounds[0] >= 0 else "integer"
        match node:
            case ast.Name(id=name) if name in self.kinds:
                return _joined(self.kinds[name])
            case ast.Name(id=name) if name in self.assigned:
                return None
            case ast.Constant(value=bool()):
                return "natural"
            case ast.Subscript() if node in self.context.accesses:
                fields = self.context.scopes.fields(node.value, self.scope)
                return "word" if fields & self.context.modular else "any"
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return "natural"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return "any" if self.kind(operand) == "any" else "integer"
            case ast.UnaryOp(operand=operand):
                return self.kind(operand)
            case ast.IfExp(body=body, orelse=orelse):
                return _joined({self.kind(body), self.kind(orelse)})
            case ast.Call(func=function, args=args) if args:
                return _called(ast.unparse(function), {self.kind(one) for one in args})
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, self.kind(left), self.kind(right))
            case _:
                return "any"

    def _operation(self, op: ast.operator, left: Kind | None, right: Kind | None) -> Kind | None:
        both = {left, right}
        if "any" in both or isinstance(op, ast.Div):
            return "any"
        match op:
            case ast.Sub():
                return "integer"
            case ast.LShift() | ast.RShift():
                return left
            case ast.BitAnd() | ast.BitOr() | ast.BitXor() if "word" in both:
                return "word"
            case ast.Mod() if both == {"word", "integer"}:
                return right
            case _:
                return _joined(both)


def _called(name: str, given: Set[Kind | None]) -> Kind | None:
    """What a function gives; one that is not known what is computed of its arguments."""
    if name in ("int", "np.int64"):
        return "integer"
    if name == "np.uint64" or ("any" not in given and "max" in name and "word" in given):
        return "word"
    return _joined(given)


def _joined(kinds: Set[Kind | None]) -> Kind | None:
    for kind in ("any", "integer", "word", "natural"):
        if kind in kinds:
            return kind
    return None
