"""Syntax trees as data of our own: to be pickled, named by a digest, and copied.

    x[0] + 1     ->     (("BinOp", (("left", Part(1)), ...), ...), ("Subscript", ...), ...)

A node of `ast` may carry what other tools hung on it: IPython sets a `parent` when it shows a
traceback, and `ast.Load()` is one object in every tree of the process.  So nobody copies or
pickles nodes; here only what the grammar gives them is read.

One thread makes trees of texts at a time: Python up to 3.12 counts how deep a tree is in one place
for all threads, and raises SystemError where two of them parse at once
(https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
import os
import threading
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

_Node = TypeVar("_Node", bound=ast.AST)

_PLACES = ("lineno", "col_offset", "end_lineno", "end_col_offset")


@dataclass(frozen=True, slots=True)
class Part:
    """A node inside another one: its number in the list of all nodes."""

    number: int


# The kind of a node, what is in it, and where it stands.
_Row: TypeAlias = tuple[str, tuple[tuple[str, Any], ...], tuple[int | None, ...]]


def encoded(tree: ast.AST) -> tuple[_Row, ...]:
    """Every node of a tree in one list, each before what is in it."""
    nodes: list[ast.AST] = [tree]
    rows: list[_Row] = []

    def part(value: Any) -> Any:
        if isinstance(value, list):
            return [part(item) for item in value]
        if not isinstance(value, ast.AST):
            return value
        nodes.append(value)
        return Part(len(nodes) - 1)

    # The list grows while it is gone through: no tree is too deep for that.
    for node in nodes:
        parts = tuple((name, part(value)) for name, value in ast.iter_fields(node))
        rows.append((type(node).__name__, parts, tuple(getattr(node, p, None) for p in _PLACES)))
    return tuple(rows)


def restored(rows: tuple[_Row, ...]) -> ast.AST:
    """The tree again, of new nodes."""
    made: dict[int, ast.AST] = {}

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(item) for item in value]
        return made[value.number] if isinstance(value, Part) else value

    # From the last to the first: what is in a node stands behind it.
    for number, (kind, parts, places) in reversed(list(enumerate(rows))):
        known = {n: p for n, p in zip(_PLACES, places, strict=True) if p is not None}
        made[number] = getattr(ast, kind)(**{n: whole(v) for n, v in parts}, **known)
    return made[0]


def copied(node: _Node) -> _Node:
    """A copy that shares no node with the original."""
    copy = restored(encoded(node))
    assert isinstance(copy, type(node))
    return copy


# Of texts.

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    # No child is born while a thread that it does not have holds the lock.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


def parsed(text: str) -> ast.Module:
    """The tree of the text of a module."""
    with _lock:
        return ast.parse(text)


def expression(text: str) -> ast.expr:
    """The tree of the text of an expression."""
    with _lock:
        return ast.parse(text, mode="eval").body
