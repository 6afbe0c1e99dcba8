"""Functions of floats that kernels call, and operators: for the parser, analyses and targets.

    np.hypot(a, b), math.hypot(a, b)     hypot of two floats, C's `hypot` and `hypotf`

A new function of NumPy's or `math`'s that C has too is named here, in the list of all and in those
of what is true of it, and nowhere else.  What operators mean the reader and the reference each say
for themselves.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class FloatFunction(NamedTuple):
    """A function of floats, by NumPy's name for it, or that of `math` if NumPy has none.

    `c` is C's name for doubles; that for floats ends in "f".  `python` is the name in `math`,
    `arguments` how many there are.  Results are within `bounds`, or NaN.  An `intrinsic` is one
    of LLVM's; what is `exact` gives the same bits on every target.
    """

    name: str
    c: str
    python: str
    arguments: int
    numpy: bool
    of_complex: bool
    bounds: tuple[float, float]
    intrinsic: bool
    exact: bool


_NAMES = (
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh "
    "cosh tanh arcsinh arccosh arctanh hypot erf erfc gamma lgamma rint fabs floor ceil trunc "
    "copysign nextafter fmod fmin fmax power"
)
_PAIRS = frozenset("arctan2 hypot copysign nextafter fmod fmin fmax power".split())
_OF_COMPLEX = frozenset("sqrt exp log sin cos tan sinh cosh tanh".split())
_BOUNDS = {"sin": (-1, 1), "cos": (-1, 1), "tanh": (-1, 1), "erf": (-1, 1), "erfc": (0, 2)}
_INTRINSIC = frozenset(
    "sqrt exp exp2 log log2 log10 sin cos rint fabs floor ceil trunc copysign power".split()
)
_EXACT = frozenset("sqrt exp rint fabs floor ceil trunc copysign nextafter fmod fmin fmax".split())

# What `math` calls them, where that is not NumPy's name, and what C does.
_MATH = {f"arc{name}": f"a{name}" for name in "sin cos tan tan2 sinh cosh tanh".split()}
_MATH["power"] = "pow"
_C = _MATH | {"gamma": "tgamma"}

# Those that NumPy has not, and those that `math` has not, or has in a way of its own.
_ONLY_MATH = frozenset("erf erfc gamma lgamma".split())
_NOT_MATH = frozenset("log rint fabs floor ceil trunc fmin fmax".split())

FLOAT_FUNCTIONS = {
    name: FloatFunction(
        name,
        _C.get(name, name),
        "" if name in _NOT_MATH else _MATH.get(name, name),
        arguments=2 if name in _PAIRS else 1,
        numpy=name not in _ONLY_MATH,
        of_complex=name in _OF_COMPLEX,
        bounds=_BOUNDS.get(name, (-math.inf, math.inf)),
        intrinsic=name in _INTRINSIC,
        exact=name in _EXACT,
    )
    for name in _NAMES.split()
}


def is_shape(value: Any) -> bool:
    """Whether it is one of the functions of `ninepoint.shapes`, which a kernel may call."""
    return getattr(value, "__module__", "") == "ninepoint.shapes" and callable(value)


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
_ROWS = [line.split() for line in _OPERATORS.strip().splitlines()]

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
