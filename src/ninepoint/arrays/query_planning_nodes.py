"""The nodes of `expressions` in the expressions of Dask itself, with `array.query-planning`."""

from __future__ import annotations

from dask._collections import new_collection as collection
from dask.array._array_expr._expr import ArrayExpr

from .expressions import BlocksNode, ResultNode

__all__ = ["Blocks", "Result", "collection"]


class Blocks(BlocksNode, ArrayExpr):
    """The blocks of a program."""


class Result(ResultNode, ArrayExpr):
    """One of several results."""
