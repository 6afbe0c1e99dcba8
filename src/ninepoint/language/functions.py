"""Functions of floats that kernels call, and operators: for the parser, analyses and targets.

    np.hypot(a, b), math.hypot(a, b)     hypot of two floats, C's `hypot` and `hypotf`

A new function of NumPy's or `math`'s that C has too is a line of the table here, and nothing
else.  What operators mean the reader and the reference each say for themselves.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class FloatFunction(NamedTuple):
    """A function of floats.

    `c` is C's name for doubles; that for floats ends in "f".  `python` is the name in `math`,
    `arguments` how many there are.  An `intrinsic` is one of LLVM's.
    """

    c: str
    python: str
    arguments: int
    numpy: bool
    of_complex: bool
    intrinsic: bool


# The name, NumPy's or that of `math` if NumPy has none; that of C and that in `math`, how many
# arguments there are, and what is true of it.
_FUNCTIONS = """
    sqrt      sqrt      sqrt      1  numpy complex intrinsic
    cbrt      cbrt      cbrt      1  numpy
    exp       exp       exp       1  numpy complex intrinsic
    exp2      exp2      exp2      1  numpy intrinsic
    expm1     expm1     expm1     1  numpy
    log       log       -         1  numpy complex intrinsic
    log2      log2      log2      1  numpy intrinsic
    log10     log10     log10     1  numpy intrinsic
    log1p     log1p     log1p     1  numpy
    sin       sin       sin       1  numpy complex intrinsic
    cos       cos       cos       1  numpy complex intrinsic
    tan       tan       tan       1  numpy complex
    arcsin    asin      asin      1  numpy
    arccos    acos      acos      1  numpy
    arctan    atan      atan      1  numpy
    arctan2   atan2     atan2     2  numpy
    sinh      sinh      sinh      1  numpy complex
    cosh      cosh      cosh      1  numpy complex
    tanh      tanh      tanh      1  numpy complex
    arcsinh   asinh     asinh     1  numpy
    arccosh   acosh     acosh     1  numpy
    arctanh   atanh     atanh     1  numpy
    hypot     hypot     hypot     2  numpy
    erf       erf       erf       1
    erfc      erfc      erfc      1
    gamma     tgamma    gamma     1
    lgamma    lgamma    lgamma    1
    rint      rint      -         1  numpy intrinsic
    fabs      fabs      -         1  numpy intrinsic
    floor     floor     -         1  numpy intrinsic
    ceil      ceil      -         1  numpy intrinsic
    trunc     trunc     -         1  numpy intrinsic
    copysign  copysign  copysign  2  numpy intrinsic
    nextafter nextafter nextafter 2  numpy
    fmod      fmod      fmod      2  numpy
    fmin      fmin      -         2  numpy
    fmax      fmax      -         2  numpy
    power     pow       pow       2  numpy intrinsic
"""
# What results lie within, or are NaN.
BOUNDS = {"sin": (-1, 1), "cos": (-1, 1), "tanh": (-1, 1), "erf": (-1, 1), "erfc": (0, 2)}


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


FLOAT_FUNCTIONS = {
    name: FloatFunction(
        c,
        python.strip("-"),
        int(arguments),
        numpy="numpy" in known,
        of_complex="complex" in known,
        intrinsic="intrinsic" in known,
    )
    for name, c, python, arguments, *known in _rows(_FUNCTIONS)
}


def is_shape(value: Any) -> bool:
    """Whether it is one of the functions of `ninepoint.shapes`, which a kernel may call."""
    return getattr(value, "__module__", "") == "ninepoint.shapes" and callable(value)


def origin(value: Any) -> str:
    """The package in which a function or a class is defined."""
    return str(getattr(value, "__module__", None)).partition(".")[0]


def from_numpy(value: Any) -> bool:
    """Whether it is a function of NumPy's; a method of one of its objects counts."""
    owner = type(getattr(value, "__self__", None)).__module__
    module = getattr(value, "__module__", None) or owner
    return callable(value) and str(module).partition(".")[0] == "numpy"


# Operators, and what they are called in the module `operator`, in a syntax tree and in NumPy.
_OPERATORS = """
    +   add       Add       add
    -   sub       Sub       subtract
    *   mul       Mult      multiply
    /   truediv   Div       divide
    //  floordiv  FloorDiv  floor_divide
    %   mod       Mod       remainder
    **  pow       Pow       power
    <<  lshift    LShift    left_shift
    >>  rshift    RShift    right_shift
    &   and       BitAnd    bitwise_and
    |   or        BitOr     bitwise_or
    ^   xor       BitXor    bitwise_xor
    <   lt        Lt        less
    <=  le        LtE       less_equal
    >   gt        Gt        greater
    >=  ge        GtE       greater_equal
    ==  eq        Eq        equal
    !=  ne        NotEq     not_equal
"""
_ROWS = _rows(_OPERATORS)

# Python's own operators of two operands.
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    symbol: getattr(operator, f"__{name}__") for symbol, name, _, _ in _ROWS
}

# And those of one.
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "not": operator.not_,
}

# The operators in a syntax tree, and functions of NumPy that do the same.
SYMBOLS: dict[type[ast.AST], str] = {getattr(ast, node): symbol for symbol, _, node, _ in _ROWS}
SYMBOLS |= {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
UFUNCS: dict[Any, str] = {getattr(np, ufunc): symbol for symbol, _, _, ufunc in _ROWS}
UNARY_UFUNCS: dict[Any, str] = {np.negative: "-", np.positive: "+", np.invert: "~"}
