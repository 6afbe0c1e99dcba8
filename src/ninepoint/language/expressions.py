"""Expressions: what is known is computed while the text is read, the rest becomes operations.

2 * K + x[0]     ->     t0 = read x 0;  t1 = 6 + t0      where K is 3
"""

from __future__ import annotations

import ast
import itertools
from typing import Any

import numpy as np

from . import errors
from . import operations as ops
from .callables import FUNCTIONS
from .calls import Calls
from .dtypes import Field
from .frame import holds_value, kind, node_root, refuse_node, settled
from .operators import SYMBOLS
from .subscripts import Subscripts
from .values import Closure, NotUnderstood, Value, constant, is_number, reading, words

# The most turns of a loop, or items of a tuple, that are followed one by one.
LONGEST = 100_000


class Expressions(Subscripts, Calls):
    """A frame that understands every expression."""

    def eval(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name():
                return self.name(node)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self.spread(elements)
            case ast.UnaryOp(op=op, operand=operand):
                value = self.eval(operand)
                return self.unary(node, SYMBOLS[type(op)], value)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self.eval(left), self.eval(right)
                self.at(node)
                return self.binary(SYMBOLS.get(type(op), "@"), a, b)
            case ast.BoolOp(op=op, values=values):
                return self.bool_op(op, values)
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = self.truth(test)
                if isinstance(truth, bool):
                    return self.eval(body if truth else orelse)
                with ops.under(truth, True):
                    then = self.eval(body)
                with ops.under(truth, False):
                    other = self.eval(orelse)
                self.at(node)
                return self.merge(truth, then, other)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Lambda():
                return Closure(node, self.names)
            case (
                ast.ListComp(elt=element, generators=loops)
                | ast.GeneratorExp(elt=element, generators=loops)
            ):
                return self.comprehension(element, loops)
            case ast.NamedExpr(target=target, value=value):
                known = self.eval(value)
                self.assign(target, known)
                return known
            case ast.Slice():
                parts = (node.lower, node.upper, node.step)
                return slice(*(None if p is None else self.eval(p) for p in parts))
            case _:
                refuse_node(node, self.at(node))

    def items(self, iterable: ast.expr) -> tuple[Any, ...]:
        value = self.eval(iterable)
        if isinstance(value, range | tuple):
            if len(value) > LONGEST:
                raise NotUnderstood("a very long loop", self.at(iterable))
            return tuple(value)
        if isinstance(value, np.ndarray) and value.ndim:
            return tuple(constant(item) for item in value)
        if isinstance(value, Field) or is_number(value):
            raise errors.bad_operand(self.at(iterable), "A loop", words(value))
        raise NotUnderstood("a loop whose range is not constant", self.at(iterable))

    def unary(self, node: ast.expr, op: str, value: Any) -> Any:
        if op == "not":
            self.check_truth(node, value)
            return ops.unary(op, value)
        self.at(node)
        self.check_numbers(f"'{op}'", value)
        return settled(ops.unary(op, value))

    def binary(self, op: str, left: Any, right: Any) -> Any:
        if op == "@":
            raise NotUnderstood("a matrix product", reading.span)
        if isinstance(left, tuple) and isinstance(right, tuple) and op == "+":
            return left + right
        if isinstance(left, tuple) and isinstance(right, int) and op == "*":
            if len(left) * right > LONGEST:
                raise errors.bad_operand(reading.span, "'*'", f"{words(left)} and {right}")
            return left * right
        self.check_numbers(f"'{op}'", left, right)
        return settled(ops.binary(op, left, right))

    def truth(self, node: ast.expr) -> Any:
        value = self.eval(node)
        self.check_truth(node, value)
        return ops.truth(value)

    def bool_op(self, op: ast.boolop, nodes: list[ast.expr]) -> Any:
        value = self.eval(nodes[0])
        for before, node in itertools.pairwise(nodes):
            self.check_truth(before, value)
            truth = ops.truth(value)
            if isinstance(truth, bool):
                if truth is isinstance(op, ast.Or):
                    return value
                value = self.eval(node)
                continue
            both = isinstance(op, ast.And)
            with ops.under(truth, both):
                other = self.eval(node)
            self.at(node)
            self.check_numbers("'and'" if both else "'or'", other)
            if truth is value and ops.truth(other) is other and isinstance(other, Value):
                value = ops.logical("&" if both else "|", truth, other)
            else:
                then, value = (other, value) if both else (value, other)
                value = ops.select(truth, then, value)
        return value

    def compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.eval(right_node)
            self.at(node)
            if isinstance(op, ast.Is | ast.IsNot):
                # A number is never None; two numbers may or may not be one object.
                if isinstance(left, Value) and isinstance(right, Value):
                    raise NotUnderstood("'is' between numbers", reading.span)
                one: Any = (left is right) is isinstance(op, ast.Is)
            elif isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, tuple | range):
                    raise NotUnderstood("'in' something that is no tuple", reading.span)
                one = False
                for item in right:
                    one = ops.logical("|", one, ops.binary("==", left, item))
                one = ops.unary("not", one) if isinstance(op, ast.NotIn) else one
            elif isinstance(left, str | tuple) and isinstance(right, str | tuple):
                if holds_value(left) or holds_value(right):
                    raise NotUnderstood("a comparison of tuples", reading.span)
                one = ops._known(SYMBOLS[type(op)], left, right)
            else:
                one = self.binary(SYMBOLS[type(op)], left, right)
            if len(node.ops) > 1:
                self.check_truth(node, one)
            result = one if result is True else ops.logical("&", result, one)
            left = right
        return result

    def attribute(self, node: ast.Attribute) -> Any:
        dotted = ast.unparse(node)
        if dotted in self.function.constants and node_root(node) not in self.names:
            return self.usable(dotted, self.at(node))
        base = self.eval(node.value)
        span = self.at(node)
        if node.attr in ("shape", "ndim", "size"):
            shape = self.shape() if isinstance(base, Field) else getattr(base, "shape", ())
            if shape or isinstance(base, np.ndarray):
                return self.measured(shape, node.attr)
        if isinstance(base, Value) and node.attr in ("real", "imag"):
            return FUNCTIONS[np.real if node.attr == "real" else np.imag](base)
        if isinstance(base, np.ndarray) and node.attr == "T":
            return base.T
        if isinstance(base, slice) and node.attr in ("start", "stop", "step"):
            return getattr(base, node.attr)
        if is_number(base) and node.attr in ("real", "imag"):
            return getattr(base, node.attr)
        if isinstance(base, Value) and base.shape and hasattr(np.ndarray, node.attr):
            raise NotUnderstood(f"'{node.attr}' of a window", span)
        raise errors.unknown_method(span, kind(base), node.attr)

    def comprehension(self, element: ast.expr, loops: list[ast.comprehension]) -> tuple[Any, ...]:
        saved = dict(self.names)
        found: list[Any] = []

        def nested(depth: int) -> None:
            if depth == len(loops):
                found.append(self.eval(element))
                return
            for item in self.items(loops[depth].iter):
                self.assign(loops[depth].target, item)
                tests = [self.truth(test) for test in loops[depth].ifs]
                if not all(isinstance(test, bool) for test in tests):
                    raise NotUnderstood("a condition that is not constant", reading.span)
                if all(tests):
                    nested(depth + 1)

        nested(0)
        self.names = saved
        return tuple(found)
