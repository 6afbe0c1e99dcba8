"""Python's operators by all the names that they have.

    x + y     ->     ast.Add     operator.add     __add__     np.add

The reader and the reference both take them from here; what they mean each says for itself.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

_ALL: tuple[tuple[str, str, type[ast.AST], Any], ...] = (
    ("+", "add", ast.Add, np.add),
    ("-", "sub", ast.Sub, np.subtract),
    ("*", "mul", ast.Mult, np.multiply),
    ("/", "truediv", ast.Div, np.divide),
    ("//", "floordiv", ast.FloorDiv, np.floor_divide),
    ("%", "mod", ast.Mod, np.remainder),
    ("**", "pow", ast.Pow, np.power),
    ("<<", "lshift", ast.LShift, np.left_shift),
    (">>", "rshift", ast.RShift, np.right_shift),
    ("&", "and", ast.BitAnd, np.bitwise_and),
    ("|", "or", ast.BitOr, np.bitwise_or),
    ("^", "xor", ast.BitXor, np.bitwise_xor),
    ("<", "lt", ast.Lt, np.less),
    ("<=", "le", ast.LtE, np.less_equal),
    (">", "gt", ast.Gt, np.greater),
    (">=", "ge", ast.GtE, np.greater_equal),
    ("==", "eq", ast.Eq, np.equal),
    ("!=", "ne", ast.NotEq, np.not_equal),
)

# Python's own operators of two operands.
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    symbol: getattr(operator, f"__{name}__") for symbol, name, _, _ in _ALL
}

# And those of one.
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "not": operator.not_,
}

# The operators in a syntax tree, and functions of NumPy that do the same.
SYMBOLS: dict[type[ast.AST], str] = {node: symbol for symbol, _, node, _ in _ALL}
SYMBOLS |= {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
UFUNCS: dict[Any, str] = {ufunc: symbol for symbol, _, _, ufunc in _ALL}
UNARY_UFUNCS: dict[Any, str] = {np.negative: "-", np.positive: "+", np.invert: "~"}
