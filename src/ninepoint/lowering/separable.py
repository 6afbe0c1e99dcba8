"""Separable weights: a window of weights as a product of one factor for each axis.

1 2 1       1
2 4 2   =   2  (1 2 1)          found for integers exactly, for floats to a few units in
1 2 1       1                   the last place of the largest weight
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import TypeAlias

import numpy as np

from ..language.dtypes import DType
from ..language.ir import Atom, Binary, Cast, Const, Expr, Offset, Reduce, Ref, Weight, atoms
from .choices import NO_PRODUCT, Refused

# What the product of the factors may miss of a weight, in units of the largest one: a few
# roundings of the type in which the weights are applied.
TOLERANCE = {DType.F32: 2.0**-21, DType.C64: 2.0**-21}
FINE = 2.0**-50

Factors: TypeAlias = tuple[tuple[float, ...], ...]


def factors(
    reduce: Reduce, values: Mapping[str, Expr]
) -> tuple[Atom, Factors, frozenset[str]] | Refused:
    """The window's element without its constant weights, and the weights axis by axis.

    An axis without weights has the factor ().  The names are those of the assignments that
    need no weight.  Refused if the weights are no product, or are not simply multiplied with.
    """
    heavy: set[str] = set()
    for name, value in values.items():
        operands = [a.name for a in atoms(value) if isinstance(a, Ref)]
        if isinstance(value, Weight) or any(operand in heavy for operand in operands):
            heavy.add(name)
    weightless = frozenset(values) - heavy
    result = reduce.result
    if not isinstance(result, Ref) or result.name not in heavy:
        return result, tuple(() for _ in reduce.shape), weightless
    product = values[result.name]
    if not isinstance(product, Binary) or product.op != "*":
        return Refused("its weights are not simply multiplied with")
    for weight, element in ((product.left, product.right), (product.right, product.left)):
        if not isinstance(element, Ref) or element.name in heavy:
            continue
        table = _table(weight, values)
        if table is not None and reduce.kind in ("sum", "mean"):
            numbers = [Const(table.dtype, text).value for text in table.texts]
            array = np.array(numbers, np.complex128).reshape(reduce.shape)
            if array.imag.any():
                return Refused("its weights are complex")
            # By its type: a bool counts as 0 or 1.
            whole = all(isinstance(value, int) for value in numbers)
            found = separated(array.real, whole, TOLERANCE.get(product.dtype, FINE))
            return Refused(NO_PRODUCT) if found is None else (element, found, weightless)
    return Refused("its weights are not simply multiplied with")


def _table(atom: Atom, values: Mapping[str, Expr]) -> Weight | None:
    value = values.get(atom.name) if isinstance(atom, Ref) else None
    if isinstance(value, Cast) and not value.storage and isinstance(value.arg, Ref):
        value = values.get(value.arg.name)
    return value if isinstance(value, Weight) else None


def separated(weights: np.ndarray, whole: bool, tolerance: float = FINE) -> Factors | None:
    """A factor for each axis whose product is `weights`, or None.

    None too for `whole` numbers that a float does not hold.
    """
    shape: Offset = weights.shape
    if whole and np.abs(weights).max() >= 2**53:
        return None
    if weights.ndim == 1:
        return (tuple(weights.tolist()),)
    matrix = weights.reshape(shape[0], -1)
    largest = np.unravel_index(np.argmax(np.abs(matrix)), matrix.shape)
    pivot = matrix[largest]
    if pivot == 0:
        return None
    row, column = matrix[largest[0]], matrix[:, largest[1]]
    if whole:
        divisor = gcd(*(int(v) for v in row))
        row = row / divisor
        column = column * divisor / pivot
        if (column != np.round(column)).any():
            return None
        if not np.array_equal(np.outer(column, row), matrix):
            return None
    else:
        column = column / pivot
        apart = np.abs(np.outer(column, row) - matrix).max()
        if not apart <= tolerance * abs(pivot):
            return None
    rest = separated(row.reshape(shape[1:]), whole, tolerance)
    return None if rest is None else (tuple(column.tolist()), *rest)
