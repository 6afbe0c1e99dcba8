"""Which parameters are fields: those that are read with an index, here or in a helper.

In a function of numbers nothing is indexed: there the signature says it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from .definitions import ArrayFunction, Function, dotted, target_names, with_helpers
from .errors import Span
from .positions import index


def passed(parameters: Iterable[str], call: ast.Call) -> list[tuple[str | None, str]]:
    """The names that a call gives, each with the parameter that it is for."""
    given: list[tuple[str | None, ast.expr]] = [*zip(parameters, call.args, strict=False)]
    given += [(keyword.arg, keyword.value) for keyword in call.keywords]
    return [(name, one.id) for name, one in given if isinstance(one, ast.Name)]


def array_parameters(function: Function) -> tuple[str, ...]:
    """The parameters of a function of numbers for which arrays are given.

    They can be given by position, and have no number for a default.
    """
    arguments = function.definition.args
    numbers = (int, float, complex, np.number, np.bool)
    return tuple(
        one.arg
        for one in (*arguments.posonlyargs, *arguments.args)
        if not isinstance(function.defaults.get(one.arg), numbers)
    )


# What is asked of an array as a whole, besides `len`.
_OF_WHOLE = frozenset("shape size ndim strides T".split())


def array_uses(function: Function, names: Collection[str]) -> Iterator[tuple[Span, str, bool]]:
    """Where the text of a function indexes one of these names, or asks for its length or shape.

    Each place comes with the name, and with whether it is the array as a whole that is asked.
    """
    for node in ast.walk(function.definition):
        match node:
            case ast.Subscript(value=ast.Name(id=name)):
                whole = False
            case ast.Attribute(value=ast.Name(id=name), attr=asked) if asked in _OF_WHOLE:
                whole = True
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if (
                function.constants.get("len", len) is len
            ):
                whole = True
            case _:
                continue
        if name in names:
            yield function.span(node), name, whole


def indices(function: Function, fields: Collection[str]) -> int | None:
    """With how many indices a function reads its fields, by the first read that its text shows.

    What the stencils make that it calls, it reads with as many.
    """
    nodes, arrays = list(ast.walk(function.definition)), {*fields}

    def is_array(node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return isinstance(function.constants.get(dotted(node.func)), ArrayFunction)
        return dotted(node) in arrays

    for node in nodes:
        if isinstance(node, ast.Assign) and is_array(node.value):
            arrays.update(target_names(node.targets[0]))
    for node in nodes:
        if isinstance(node, ast.Subscript) and is_array(node.value):
            if isinstance(node.slice, ast.Tuple):
                return len(node.slice.elts)
            known = function.constants.get(dotted(node.slice))
            return len(known) if isinstance(known, tuple) else 1
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=called)):
                if function.constants.get(dotted(called)) is index:
                    return len(names)
    helpers = [one for one in function.constants.values() if isinstance(one, Function)]
    return next(filter(None, (indices(one, one.parameters) for one in helpers)), None)


def asks_position(function: Function) -> bool:
    """Whether a function asks for the position of the point, or a helper that it calls does."""
    return any(
        value is index for one in with_helpers(function) for value in one.constants.values()
    )


def divides_position(function: Function) -> bool:
    """Whether a function asks for the position of the point, and divides something."""
    nodes = ast.walk(function.definition)
    return asks_position(function) and any(isinstance(n, ast.FloorDiv | ast.Mod) for n in nodes)


def _operands(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that stand beside an operator, as numbers do."""
    return {
        part.id
        for node in nodes
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp)
        for part in ast.iter_child_nodes(node)
        if isinstance(part, ast.Name)
    }


def indexed_parameters(function: Function, active: tuple[Function, ...] = ()) -> set[str]:
    """The parameters that are read with an index, here or in a function they are given to."""
    active = (*active, function)
    parameters = set(function.parameters)
    nodes = list(ast.walk(function.definition))
    numbers = _operands(nodes) | (parameters - {*array_parameters(function)})
    alias: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=ast.Name(id=source)):
                names = {one.id for one in targets if isinstance(one, ast.Name)} - parameters
                alias |= dict.fromkeys(names, alias.get(source, source))
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Subscript(value=ast.Name(id=name)):
                found.add(name)
            case ast.Call(func=called):
                # The names that a call gives for arrays; what a ufunc is given may be a number.
                helper, sure = function.constants.get(dotted(called)), True
                if helper is index:
                    some, arrays, sure = ["field"], ["field"], False
                elif isinstance(helper, ArrayFunction):
                    callee = helper.definition
                    some, arrays, sure = callee.parameters, callee.fields, not callee.pointwise
                elif isinstance(helper, Function) and helper not in active:
                    some, arrays = [*helper.parameters], [*indexed_parameters(helper, active)]
                else:
                    continue
                given = {one for name, one in passed(some, node) if name in arrays}
                found |= given if sure else given - numbers
    return {alias.get(name, name) for name in found} & parameters
