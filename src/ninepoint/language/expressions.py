"""Expressions: what is known is computed while the text is read, the rest becomes operations.

2 * K + x[0]          ->     t0 = read x 0;  t1 = 6 + t0      where K is 3
mean3(x)              ->     the text of `mean3`, with x
np.sqrt(t0)           ->     Call(sqrt, t0)
math.sqrt(2.0)        ->     1.4142135623730951
"""

from __future__ import annotations

import ast
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from .callables import FUNCTIONS
from .calls import LONGEST, Given, attribute
from .control import UNDEFINED, Frame
from .definitions import ArrayFunction, Definition, Function, SelfReference, Unusable, dotted
from .errors import here, mistake
from .functions import SYMBOLS
from .ir import Coefficients, Field
from .operations import binary, folded, logical, select, truth, unary, under
from .reductions import REDUCTIONS
from .signature import defaults_of, signature
from .stages import stage
from .subscripts import subscript
from .values import (
    Buffer,
    Choice,
    Closure,
    NotUnderstood,
    Value,
    constant,
    is_known,
    is_number,
    reading,
    settled,
    words,
)

# Every function that is understood.
KNOWN = FUNCTIONS | REDUCTIONS


class Expressions(Frame):
    """A frame that understands every expression."""

    # Names, and what they may stand for.

    def name(self, name: str) -> Any:
        value = self.names.get(name, UNDEFINED)
        if value is UNDEFINED:
            raise mistake("maybe-undefined", name)
        if isinstance(value, Buffer):
            raise NotUnderstood("a buffer as a whole")
        return value

    def outside(self, node: ast.expr) -> str:
        """The name of what was captured from outside, as `np.pi`; empty for anything else."""
        name = dotted(node)
        root = name.partition(".")[0]
        return name if name in self.function.constants and root not in self.names else ""

    def usable(self, name: str) -> Any:
        value = constant(self.function.constants[name])
        if isinstance(value, Unusable):
            raise mistake("bad-constant", name, value.words)
        if isinstance(value, ArrayFunction):
            raise mistake("ufunc-stage" if reading.pointwise else "stage-use", name)
        return value

    def buffer(self, node: ast.expr) -> Buffer | None:
        """The buffer that a name stands for, if it does."""
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(found, Buffer):
            return None
        if found.owner is not self:
            raise NotUnderstood("a buffer of another function", self.span(node))
        return found

    def check_numbers(self, operation: str, *values: Any) -> None:
        """Raise unless every value can take part in arithmetic."""
        for value in values:
            if not isinstance(value, Value | np.ndarray | Coefficients) and not is_number(value):
                raise mistake("bad-operand", operation, words(value))

    def check_truth(self, node: ast.expr, value: Any) -> None:
        """Raise, as NumPy does, for what is neither true nor false as a whole."""
        window = isinstance(value, Value) and value.shape
        if window or isinstance(value, Field | Coefficients | np.ndarray):
            raise mistake("bad-operand", self.span(node), "The truth", words(value))

    # Two ways to one point.

    def merge(self, test: Any, then: Any, other: Any) -> Any:
        if then is other:
            return then
        if then is UNDEFINED or other is UNDEFINED:
            return UNDEFINED
        if isinstance(then, Buffer) and then == other:
            return replace(then, items=select(test, then.items, other.items))
        options = isinstance(then, str | Choice) and isinstance(other, str | Choice)
        if options and any(isinstance(v, ArrayFunction) for v in self.function.constants.values()):
            return Choice(test, then, other)
        for one in (then, other):
            if not is_number(one) and not isinstance(one, Value | tuple | np.ndarray):
                raise NotUnderstood("a name that is one thing or another")
        counts = [len(v) if isinstance(v, tuple) else None for v in (then, other)]
        if counts[0] != counts[1]:
            raise mistake("choice-mismatch", words(then), words(other))
        return select(test, then, other)

    # Statements.

    @abstractmethod
    def assign(self, target: ast.expr, value: Any) -> None:
        """Give names to a value."""

    @abstractmethod
    def run(self, definition: Definition) -> Any:
        """The value that a function returns."""

    # Expressions.

    def eval(self, node: ast.expr) -> Any:
        """What an expression is; then mistakes point to where they did before."""
        before = here.place
        self.at(node)
        value = self._value(node)
        here.place = before
        return value

    def _value(self, node: ast.expr) -> Any:
        if name := self.outside(node):
            return self.usable(name)
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.name(name)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self.spread(elements)
            case ast.UnaryOp(op=op, operand=operand):
                symbol, value = SYMBOLS[type(op)], self.eval(operand)
                if symbol == "not":
                    self.check_truth(node, value)
                else:
                    self.check_numbers(f"'{symbol}'", value)
                return settled(unary(symbol, value))
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(SYMBOLS.get(type(op), "@"), self.eval(left), self.eval(right))
            case ast.BoolOp(op=op, values=values):
                return self.bool_op(op, values)
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self.truth(test)
                if isinstance(holds, bool):
                    return self.eval(body if holds else orelse)
                with under(holds, True):
                    then = self.eval(body)
                with under(holds, False):
                    other = self.eval(orelse)
                return self.merge(holds, then, other)
            case ast.Subscript():
                base = self.buffer(node.value) or self.eval(node.value)
                return subscript(base, self.eval(node.slice), node)
            case ast.Attribute():
                return attribute(self.eval(node.value), node.attr, KNOWN)
            case ast.Call():
                return self.call(node)
            case ast.Lambda():
                return self.closure(node)
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                saved = dict(self.names)
                found = [self.eval(element) for _ in self.turns(node.generators)]
                self.names = saved
                return tuple(found)
            case ast.NamedExpr(target=target, value=value):
                known = self.eval(value)
                self.assign(target, known)
                return known
            case ast.Slice():
                parts = (node.lower, node.upper, node.step)
                return slice(*(None if p is None else self.eval(p) for p in parts))
            case _:
                refuse_node(node)

    def items(self, iterable: ast.expr) -> tuple[Any, ...]:
        """What a loop goes through."""
        value = self.eval(iterable)
        if isinstance(value, range | tuple):
            if len(value) > LONGEST:
                raise NotUnderstood("a very long loop", self.span(iterable))
            return tuple(value)
        if isinstance(value, np.ndarray) and value.ndim:
            return tuple(map(constant, value))
        if isinstance(value, Field) or is_number(value):
            raise mistake("bad-operand", self.span(iterable), "A loop", words(value))
        raise NotUnderstood("a loop whose range is not constant", self.span(iterable))

    def binary(self, op: str, left: Any, right: Any) -> Any:
        if op == "@":
            raise NotUnderstood("a matrix product")
        if isinstance(left, tuple) and isinstance(right, tuple) and op == "+":
            return left + right
        if isinstance(left, tuple) and isinstance(right, int) and op == "*":
            if len(left) * right > LONGEST:
                raise mistake("bad-operand", "'*'", f"{words(left)} and {right}")
            return left * right
        self.check_numbers(f"'{op}'", left, right)
        return settled(binary(op, left, right))

    def truth(self, node: ast.expr) -> Any:
        value = self.eval(node)
        self.check_truth(node, value)
        return truth(value)

    def bool_op(self, op: ast.boolop, nodes: list[ast.expr]) -> Any:
        value = self.eval(nodes[0])
        for before, node in itertools.pairwise(nodes):
            self.check_truth(before, value)
            holds = truth(value)
            if isinstance(holds, bool):
                if holds is isinstance(op, ast.Or):
                    return value
                value = self.eval(node)
                continue
            both = isinstance(op, ast.And)
            with under(holds, both):
                other = self.eval(node)
            self.at(node)
            self.check_numbers("'and'" if both else "'or'", other)
            if holds is value and truth(other) is other and isinstance(other, Value):
                value = logical("&" if both else "|", holds, other)
            else:
                then, value = (other, value) if both else (value, other)
                value = select(holds, then, value)
        return value

    def compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            if isinstance(op, ast.Is | ast.IsNot):
                # A number is never None; two numbers may or may not be one object.
                if isinstance(left, Value) and isinstance(right, Value):
                    raise NotUnderstood("'is' between numbers")
                one: Any = (left is right) is isinstance(op, ast.Is)
            elif isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, tuple | range):
                    raise NotUnderstood("'in' something that is no tuple")
                one = False
                for item in right:
                    one = logical("|", one, binary("==", left, item))
                one = unary("not", one) if isinstance(op, ast.NotIn) else one
            elif isinstance(left, str | tuple) and isinstance(right, str | tuple):
                if not is_known((left, right)):
                    raise NotUnderstood("a comparison of tuples")
                one = folded(SYMBOLS[type(op)], left, right)
            else:
                one = self.binary(SYMBOLS[type(op)], left, right)
            if len(node.ops) > 1:
                self.check_truth(node, one)
            result = logical("&", result, one)
            left = right
        return result

    def turns(self, loops: Sequence[ast.comprehension]) -> Iterator[None]:
        """Go through the loops of a comprehension, each inside those before it."""
        if not loops:
            yield
            return
        for item in self.items(loops[0].iter):
            self.assign(loops[0].target, item)
            tests = [self.truth(test) for test in loops[0].ifs]
            if not all(isinstance(test, bool) for test in tests):
                raise NotUnderstood(
                    "a condition that is not constant", self.span(loops[0].ifs[-1])
                )
            if all(tests):
                yield from self.turns(loops[1:])

    # Calls.

    def call(self, node: ast.Call, names: Sequence[str] = ()) -> Any:
        """What a call gives; of a stencil fields, for which `names` wait."""
        found = self.function.constants.get(self.outside(node.func))
        if not isinstance(found, ArrayFunction):
            return self.invoke(self.eval(node.func), self.given(node))
        callee, given = found.definition, self.given(node)
        if callee.pointwise and not any(isinstance(one, Field) for one in given.all):
            return self.invoke(callee.function, given)
        if reading.pointwise:
            raise mistake("ufunc-stage", given.name)
        if self.function is not self.active[0]:
            raise mistake("stage-use", given.name)
        return stage(callee, given.args, given.named, names)

    def given(self, node: ast.Call) -> Given:
        """The arguments of a call."""
        args, named = self.spread(node.args), {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise NotUnderstood("'**' in a call")
            named[keyword.arg] = self.eval(keyword.value)
        return Given(ast.unparse(node.func), args, named)

    def spread(self, nodes: Sequence[ast.expr]) -> tuple[Any, ...]:
        """The values of expressions, in place of a starred one those that it holds."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.items(node.value)
            else:
                found.append(self.eval(node))
        return tuple(found)

    def invoke(self, function: Any, given: Given) -> Any:
        """What a function gives; one with a text is read in place."""
        if isinstance(function, SelfReference) or any(f is function for f in self.active):
            raise mistake("recursion", function.name)
        match function:
            case Function(definition=definition, defaults=defaults):
                seen, names = function, dict[str, Any]()
            case Closure(definition, seen, names, defaults):
                if extra := definition.args.vararg or definition.args.kwarg:
                    raise mistake("parameter-kind", self.span(extra), extra.arg)
                if len(self.active) > 50:
                    raise mistake("recursion", given.name)
            case _:
                return given.to(function, KNOWN)
        names = names | given.bound(signature(definition, defaults))
        return type(self)(seen, names, self.active, self.hidden).run(definition)

    def closure(self, node: ast.FunctionDef | ast.Lambda) -> Closure:
        """A function that is defined inside the kernel."""
        defaults = {name: self.eval(one) for name, one in defaults_of(node).items()}
        return Closure(node, self.function, self.names, defaults)


# What neither tier runs.
_REFUSED = frozenset(
    "Raise Assert Try TryStar With Import ImportFrom ClassDef Global Nonlocal Delete Match Dict "
    "DictComp Set SetComp Yield YieldFrom AsyncFunctionDef JoinedStr".split()
)


def refuse(function: Function) -> None:
    """Raise for a construct that no tier can run."""
    for node in ast.walk(function.definition):
        if (name := type(node).__name__) in _REFUSED:
            raise mistake("unsupported", function.span(node), f"'{name.lower()}'")


def refuse_node(node: ast.AST) -> NoReturn:
    """Raise for a construct that is not analysed."""
    name = type(node).__name__
    if name in _REFUSED:
        raise mistake("unsupported", f"'{name.lower()}'")
    raise NotUnderstood(f"'{name.lower()}'")
