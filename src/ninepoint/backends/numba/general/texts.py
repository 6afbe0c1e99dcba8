"""Texts of the values that a kernel finds outside itself: numbers, arrays, functions.

0.25     ->  0.25                    np.sqrt           ->  np.sqrt
(1, 2)   ->  (1, 2)                  array([1, 2])     ->  np.array([1, 2], dtype=np.int64)
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from ....language.dtypes import computed
from ....language.values import constant, wrapped


def text_of(value: Any) -> str | None:
    """A constant as an expression; None for what no compiled kernel can hold."""
    value = constant(value)
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(value if -(2**63) <= value < 2**64 else wrapped(value))
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({_number(value.item())})"
    if isinstance(value, float | complex):
        return _number(value)
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, tuple):
        items = [text_of(item) for item in value]
        if any(item is None for item in items):
            return None
        return f"({', '.join(str(i) for i in items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, np.ndarray):
        return _array(value)
    return function_text(value)


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return f"({value!r})" if value < 0 else repr(value)


def _array(value: np.ndarray) -> str:
    """An array; its integers are exact, so they become int64 unless they are uint64."""
    dtype = computed(value.dtype)
    if dtype.kind in "iu" and dtype != np.uint64:
        dtype = np.dtype("int64")
    text = str if dtype.kind == "b" else _number
    numbers = [text(item) for item in value.ravel().tolist()]
    rows = [", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)]
    inner = ",\n    ".join(rows)
    return f"np.array([\n    {inner},\n], dtype=np.{dtype.name}).reshape({value.shape})"


def function_text(value: Any) -> str | None:
    """Where a function or a type of Python or NumPy is found."""
    name = getattr(value, "__name__", "")
    if value is np.bool:
        return "np.bool_"
    for module, prefix in (
        (np, "np."),
        (np.linalg, "np.linalg."),
        (math, "math."),
        (builtins, ""),
    ):
        if name and getattr(module, name, None) is value:
            return prefix + name
    return None
