"""The nodes of `expressions` in the expressions of dask-array."""

from __future__ import annotations

from dask_array._expr import ArrayExpr
from dask_array._new_collection import new_collection as collection

from .expressions import BlocksNode, ResultNode

__all__ = ["Blocks", "Result", "collection"]


class Blocks(BlocksNode, ArrayExpr):
    """The blocks of a program."""


class Result(ResultNode, ArrayExpr):
    """One of several results."""
