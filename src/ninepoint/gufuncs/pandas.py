"""Gufuncs on columns and tables of pandas: an axis that a result still has keeps its labels.

"(n)->(n)"    column      ->    column, the same index
"(n)->()"     table       ->    column, a number for each row
"(n)->(n)"    table       ->    table
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .calling import Arguments
from .definition import GufuncDefinition


def on_pandas(definition: GufuncDefinition, given: Arguments, gufunc: Any) -> Any:
    """The results for inputs of which some are columns or tables."""
    options, signature = given.options, definition.signature
    options.refuse(("out",), "is for NumPy arrays; the result of pandas objects is made anew.")
    options.refuse(
        ("axes", "axis", "keepdims"), "is for arrays; the axes of pandas objects have labels."
    )
    labels: dict[Any, Any] = {}
    arrays, series = [], []
    for value, name, core in zip(given.inputs, definition.inputs, signature.inputs, strict=True):
        own = [getattr(value, part) for part in ("index", "columns") if _labelled(value, part)]
        arrays.append(value.to_numpy() if own else value)
        if not own:
            continue
        series.append(value)
        # The axes of the stack are counted from the last, those of the core have names.
        places = [*range(len(core) - len(own), 0), *core[max(0, len(core) - len(own)) :]]
        for place, label in zip(places, own, strict=False):
            before = labels.setdefault(place, label)
            if not before.equals(label):
                raise ValueError(
                    f"the index of '{name}' is another than that of the inputs before; align "
                    "them first, or give .to_numpy()."
                )
    result = gufunc(*arrays, **given.scalars, **options.given)
    several = isinstance(result, tuple)
    made = [
        _restored(one, core, labels, series)
        for one, core in zip(result if several else (result,), signature.outputs, strict=True)
    ]
    return tuple(made) if several else made[0]


def _labelled(value: Any, part: str) -> bool:
    kind = type(value).__name__
    root = type(value).__module__.partition(".")[0]
    return root == "pandas" and (kind == "DataFrame" or (kind == "Series" and part == "index"))


def _restored(
    result: Any, core: Sequence[str], labels: dict[Any, Any], inputs: Sequence[Any]
) -> Any:
    """A result with the labels of its axes, if all are known."""
    places = [*range(len(core) - np.ndim(result), 0), *core]
    own = [labels[place] for place in places if place in labels]
    if len(own) != len(places) or not 1 <= len(own) <= 2:
        return result
    pandas: Any = sys.modules["pandas"]
    if any(len(label) != n for label, n in zip(own, np.shape(result), strict=True)):
        return result
    if len(own) == 2:
        return pandas.DataFrame(result, index=own[0], columns=own[1])
    names = {getattr(one, "name", None) for one in inputs}
    return pandas.Series(result, index=own[0], name=names.pop() if len(names) == 1 else None)
