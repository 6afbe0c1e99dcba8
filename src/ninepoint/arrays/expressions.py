"""Programs on arrays of the library dask-array, which are expressions.

    smooth(x)     ->     the graph that arrays of Dask would get, as a node that depends on x

Of `x` no more is asked than its name and its chunks.  The tasks are written out when the
expression is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
from dask_array.io._from_graph import from_graph

from .accepted import is_expression
from .chunked.computation import lazily as lazily_on_dask
from .regions import Program

# Most of these functions carry no annotations.
_arrays: Any = da
_from_graph: Any = from_graph


def lazily(program: Program, fields: Sequence[Any]) -> list[Any]:
    """Give the wanted values as lazy arrays, in the chunks of the fields; as for those of Dask."""
    given = [field for field in fields if is_expression(field)]
    named = [
        _arrays.Array({}, field.name, field.chunks, meta=field._meta)
        if is_expression(field)
        else field
        for field in fields
    ]
    # Nothing but the name says which keys are the result's: a list of all would be long.
    return [
        _from_graph(one.dask, one._meta, one.chunks, (), one.name, given)
        for one in lazily_on_dask(program, named)
    ]
