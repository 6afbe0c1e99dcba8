"""Fleeting arrays: those of which no turn of a loop needs what an earlier one made.

    for k in range(3):
        s += np.sort(x[k:k + 9])[4]     the window and what is sorted: gone at once
        rows.append(x[k:k + 9])         kept: three arrays

A fleeting array may lie in the room of its place (see `backends.numba.rooms`), which is written
anew whenever the text comes there again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from .scopes import Scope, own

# What gives numbers or new arrays, and keeps nothing of what it is given.
_NAMES = (
    "sum mean min max prod std var any all argmin argmax ptp median sort count_nonzero percentile "
    "quantile nansum nanmean nanmin nanmax nanprod nanstd nanvar nanmedian nanpercentile "
    "nanquantile abs sqrt exp log square where isnan isfinite dot amin amax absolute"
).split()
_FUNCTIONS = frozenset(getattr(np, name) for name in _NAMES) | {len, abs}
_METHODS = frozenset([*_NAMES[:13], "copy", "flatten"])
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def fleeting(scope: Scope, root: bool) -> dict[ast.AST, int]:
    """The expressions of a function that may be fleeting, if they are arrays.

    For each at most how many axes it may have: an element of more would be a part of it.  In the
    kernel's own function, outside loops, the text comes to each place once for each point.
    """
    parents = _parents(scope)
    found: dict[ast.AST, int] = {}
    for node in own(scope, ast.Subscript | ast.Call):
        once = root and not any(isinstance(one, _LOOPS) for one in _above(node, parents))
        found[node] = np.iinfo(np.int64).max if once else _axes(node, parents, scope)
    return found


def _axes(node: ast.AST, parents: dict[ast.AST, ast.AST], scope: Scope) -> int:
    """How many axes an array may have that is gone, as is all of it, once it was used."""
    parent = parents.get(node)
    match parent:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return _named(name, parents, scope)
        case _:
            return _used(node, parents, scope)


def _named(name: str, parents: dict[ast.AST, ast.AST], scope: Scope) -> int:
    """The same of an array with a name, by all that is done with that."""
    for inner in scope.inner:
        if any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(inner)):
            return 0
    uses = [
        node for node in own(scope, ast.Name) if node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return min((_used(use, parents, scope) for use in uses), default=0)


def _used(node: ast.AST, parents: dict[ast.AST, ast.AST], scope: Scope) -> int:
    everything = np.iinfo(np.int64).max
    parent = parents.get(node)
    match parent:
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return everything
        case ast.Attribute(attr=name) if name in _METHODS or name == "sort":
            call = parents.get(parent)
            return everything if isinstance(call, ast.Call) and call.func is parent else 0
        case ast.Call(func=function) if function is not node:
            held = scope.constant(function)
            known = held is not None and callable(held[0]) and held[0] in _FUNCTIONS
            return everything if known else 0
        case ast.Subscript(slice=index) if index is node:
            return everything
        case ast.Subscript(slice=index):
            elements = index.elts if isinstance(index, ast.Tuple) else [index]
            parts = any(isinstance(one, ast.Slice | ast.Starred) for one in elements)
            return 0 if parts else len(elements)
        case _:
            return 0


def _parents(scope: Scope) -> dict[ast.AST, ast.AST]:
    return {
        child: node for node in ast.walk(scope.definition) for child in ast.iter_child_nodes(node)
    }


def _above(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    while node in parents:
        node = parents[node]
        yield node
