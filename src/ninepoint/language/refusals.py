"""What the language has not: the constructs that no path runs, with what to write instead."""

from __future__ import annotations

import ast
from typing import NoReturn

from . import errors
from .errors import Span
from .source import Function
from .values import NotUnderstood

# What neither tier runs: the construct in words, and what to write instead.
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Raise: ("'raise'", "Return a value for every point; nothing in a kernel raises."),
    ast.Assert: ("'assert'", "Check the arrays before the call; nothing in a kernel raises."),
    ast.Try: ("'try'", "Nothing in a kernel raises, so there is nothing to catch."),
    ast.TryStar: ("'try'", "Nothing in a kernel raises, so there is nothing to catch."),
    ast.With: ("'with'", "Keep to arithmetic, branches and loops."),
    ast.Import: ("'import'", "Import at the top of the file."),
    ast.ImportFrom: ("'import'", "Import at the top of the file."),
    ast.ClassDef: ("a class", "Define it outside the kernel."),
    ast.Global: ("'global'", "Pass the value as a scalar argument."),
    ast.Nonlocal: ("'nonlocal'", "Pass the value as a scalar argument."),
    ast.Delete: ("'del'", "Leave the name as it is."),
    ast.Match: ("'match'", "Write it with if and elif."),
    ast.Dict: ("a dictionary", "Use a tuple."),
    ast.DictComp: ("a dictionary", "Use a tuple."),
    ast.Set: ("a set", "Use a tuple."),
    ast.SetComp: ("a set", "Use a tuple."),
    ast.Yield: ("'yield'", "Make a tuple of the values."),
    ast.YieldFrom: ("'yield'", "Make a tuple of the values."),
    ast.AsyncFunctionDef: ("'async'", "Write a plain function."),
    ast.JoinedStr: ("an f-string", "A kernel computes with numbers only."),
}


def refuse(function: Function) -> None:
    """Raise for a construct that no tier can run."""
    for node in ast.walk(function.definition):
        if type(node) in _REFUSED:
            raise errors.unsupported(function.span(node), *_REFUSED[type(node)])


def refuse_node(node: ast.AST, span: Span) -> NoReturn:
    """Raise for a construct that is not analysed."""
    if type(node) in _REFUSED:
        raise errors.unsupported(span, *_REFUSED[type(node)])
    raise NotUnderstood(f"'{type(node).__name__.lower()}'", span)
