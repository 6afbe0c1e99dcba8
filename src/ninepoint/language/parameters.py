"""Which parameters are fields: those that are read with an index, here or in a helper.

In a function of numbers nothing is indexed: there the signature says it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from .errors import Span
from .positions import index
from .source import Function, SelfReference


def indexed_parameters(function: Function) -> set[str]:
    """The parameters that are read with an index, here or in a function they are given to."""
    return _indexed(function, (function,))


def passed(parameters: Iterable[str], call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """The arguments of a call, each with the parameter that it is for."""
    named = [(keyword.arg, keyword.value) for keyword in call.keywords]
    return [*zip(parameters, call.args, strict=False), *named]


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


def _subscripts(function: Function, names: Iterable[str]) -> Iterator[tuple[ast.Subscript, str]]:
    """Where the text of a function indexes one of these names."""
    wanted = set(names)
    for node in ast.walk(function.definition):
        match node:
            case ast.Subscript(value=ast.Name(id=name)) if name in wanted:
                yield node, name


def indexed_names(function: Function, names: Iterable[str]) -> Iterator[tuple[Span, str]]:
    """Where the text of a function indexes one of these names."""
    for node, name in _subscripts(function, names):
        yield function.span(node), name


# What is asked of an array as a whole, besides `len`.
_OF_WHOLE = frozenset("shape size ndim strides T".split())


def asked_as_whole(function: Function, names: Iterable[str]) -> Iterator[tuple[Span, str]]:
    """Where the text of a function asks how long or of which shape one of these names is."""
    wanted = set(names)
    for node in ast.walk(function.definition):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if name in wanted and attribute in _OF_WHOLE:
                    yield function.span(node), name
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                if name in wanted and function.constants.get("len", len) is len:
                    yield function.span(node), name


def indices(function: Function, fields: Collection[str]) -> int | None:
    """With how many indices a function reads its fields, by a read that its text shows."""
    for read, _ in _subscripts(function, fields):
        if isinstance(read.slice, ast.Tuple):
            return len(read.slice.elts)
        known = function.constants.get(ast.unparse(read.slice))
        return len(known) if isinstance(known, tuple) else 1
    for node in ast.walk(function.definition):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=called)):
                if function.constants.get(ast.unparse(called)) is index:
                    return len(names)
    helpers = [one for one in function.constants.values() if isinstance(one, Function)]
    return next(filter(None, (indices(one, one.parameters) for one in helpers)), None)


def asks_position(function: Function) -> bool:
    """Whether a function asks for the position of the point, or a helper that it calls does."""
    return any(
        value is index or (isinstance(value, Function) and asks_position(value))
        for value in function.constants.values()
    )


def divides_position(function: Function) -> bool:
    """Whether a function asks for the position of the point, and divides something."""
    parts = [n for n in ast.walk(function.definition) if isinstance(n, ast.FloorDiv | ast.Mod)]
    return bool(parts) and asks_position(function)


def own_calls(function: Function) -> Iterator[tuple[Span, str]]:
    """Where a function names itself."""
    for node in ast.walk(function.definition):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            value = function.constants.get(node.id)
            if isinstance(value, SelfReference):
                yield function.span(node), value.name


def _operands(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that stand beside an operator, as numbers do."""
    return {
        part.id
        for node in nodes
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp)
        for part in ast.iter_child_nodes(node)
        if isinstance(part, ast.Name)
    }


def _indexed(function: Function, active: tuple[Function, ...]) -> set[str]:
    parameters = set(function.parameters)
    alias = {p: p for p in parameters}
    found: set[str] = set()
    definition = function.definition
    nodes = list(ast.walk(definition))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id not in parameters:
                    alias[target.id] = alias.get(node.value.id, node.value.id)
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            found.add(alias.get(node.value.id, node.value.id))
        elif isinstance(node, ast.Call):
            helper = function.constants.get(ast.unparse(node.func))
            if helper is index:
                names = {one.id for one in node.args if isinstance(one, ast.Name)}
                found.update(alias.get(name, name) for name in names - _operands(nodes))
            if isinstance(helper, Function) and helper not in active:
                inner = _indexed(helper, (*active, helper))
                for parameter, argument in passed(helper.parameters, node):
                    if parameter in inner and isinstance(argument, ast.Name):
                        found.add(alias.get(argument.id, argument.id))
    return found & parameters
