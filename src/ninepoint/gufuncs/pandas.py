"""Gufuncs on columns and tables of pandas: an axis that a result still has keeps its labels.

"(n)->(n)"    column      ->    column, the same index
"(n)->()"     table       ->    column, a number for each row
"(n)->(n)"    table       ->    table
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays.recognise import is_pandas
from .calling import Arguments


def on_pandas(gufunc: Any, given: Arguments) -> Any:
    """The results for inputs of which some are columns or tables."""
    given.refuse(("out",), "is for NumPy arrays; the result of pandas objects is made anew.")
    given.refuse(
        ("axes", "axis", "keepdims"), "is for arrays; the axes of pandas objects have labels."
    )
    definition, signature = gufunc.definition, gufunc.definition.signature
    labels: dict[Any, Any] = {}
    names = set()
    arrays = []
    for value, name, core in zip(given.inputs, definition.inputs, signature.inputs, strict=True):
        if not is_pandas(value):
            arrays.append(value)
            continue
        arrays.append(value.to_numpy())
        names.add(value.name if value.ndim == 1 else None)
        for place, label in zip(_places(value.ndim, core), value.axes, strict=False):
            if not labels.setdefault(place, label).equals(label):
                raise ValueError(
                    f"the index of '{name}' is another than that of the inputs before; align "
                    "them first, or give .to_numpy()."
                )
    result = gufunc(*arrays, **given.scalars, **given.options)
    named = names.pop() if len(names) == 1 else None
    if not isinstance(result, tuple):
        return _labelled(result, signature.outputs[0], labels, named)
    pairs = zip(result, signature.outputs, strict=True)
    return tuple(_labelled(one, core, labels, named) for one, core in pairs)


def _places(ndim: int, core: Sequence[str]) -> list[Any]:
    """Names of axes: those of the stack are counted from the last, those of the core have some."""
    return [*range(len(core) - ndim, 0), *core[max(0, len(core) - ndim) :]]


def _labelled(result: Any, core: Sequence[str], labels: Mapping[Any, Any], name: Any) -> Any:
    """A result with the labels of its axes, if all are known."""
    own = [labels.get(place) for place in _places(np.ndim(result), core)]
    shape = np.shape(result)
    if [None if one is None else len(one) for one in own] != list(shape):
        return result
    pandas: Any = sys.modules["pandas"]
    match own:
        case [index]:
            return pandas.Series(result, index=index, name=name)
        case [index, columns]:
            return pandas.DataFrame(result, index=index, columns=columns)
        case _:
            return result
