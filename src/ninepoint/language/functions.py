"""Functions of floats that kernels call: a row for each, read by the parser, analyses and targets.

    np.hypot(a, b), math.hypot(a, b)     hypot of two floats, C's `hypot` and `hypotf`

A new function of NumPy's or `math`'s that C has too is a row here, and nothing elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFunction:
    """A function of floats, by NumPy's name for it, or that of `math` if NumPy has none.

    `c` is C's name for doubles; that for floats ends in "f".  `python` is the name in `math`,
    `arguments` how many there are.  Results are within `bounds`, or NaN.  An `intrinsic` is one
    of LLVM's; what is `exact` gives the same bits on every target.
    """

    name: str
    c: str
    python: str = ""
    arguments: int = 1
    numpy: bool = True
    of_complex: bool = False
    bounds: tuple[float, float] = (-math.inf, math.inf)
    intrinsic: bool = False
    exact: bool = False


_ROWS = (
    FloatFunction("sqrt", "sqrt", "sqrt", of_complex=True, intrinsic=True, exact=True),
    FloatFunction("cbrt", "cbrt", "cbrt"),
    FloatFunction("exp", "exp", "exp", of_complex=True, intrinsic=True, exact=True),
    FloatFunction("exp2", "exp2", "exp2", intrinsic=True),
    FloatFunction("expm1", "expm1", "expm1"),
    FloatFunction("log", "log", of_complex=True, intrinsic=True),
    FloatFunction("log2", "log2", "log2", intrinsic=True),
    FloatFunction("log10", "log10", "log10", intrinsic=True),
    FloatFunction("log1p", "log1p", "log1p"),
    FloatFunction("sin", "sin", "sin", of_complex=True, bounds=(-1, 1), intrinsic=True),
    FloatFunction("cos", "cos", "cos", of_complex=True, bounds=(-1, 1), intrinsic=True),
    FloatFunction("tan", "tan", "tan", of_complex=True),
    FloatFunction("arcsin", "asin", "asin"),
    FloatFunction("arccos", "acos", "acos"),
    FloatFunction("arctan", "atan", "atan"),
    FloatFunction("arctan2", "atan2", "atan2", arguments=2),
    FloatFunction("sinh", "sinh", "sinh", of_complex=True),
    FloatFunction("cosh", "cosh", "cosh", of_complex=True),
    FloatFunction("tanh", "tanh", "tanh", of_complex=True, bounds=(-1, 1)),
    FloatFunction("arcsinh", "asinh", "asinh"),
    FloatFunction("arccosh", "acosh", "acosh"),
    FloatFunction("arctanh", "atanh", "atanh"),
    FloatFunction("hypot", "hypot", "hypot", arguments=2),
    FloatFunction("erf", "erf", "erf", numpy=False, bounds=(-1, 1)),
    FloatFunction("erfc", "erfc", "erfc", numpy=False, bounds=(0, 2)),
    FloatFunction("gamma", "tgamma", "gamma", numpy=False),
    FloatFunction("lgamma", "lgamma", "lgamma", numpy=False),
    FloatFunction("rint", "rint", intrinsic=True, exact=True),
    FloatFunction("fabs", "fabs", intrinsic=True, exact=True),
    FloatFunction("floor", "floor", intrinsic=True, exact=True),
    FloatFunction("ceil", "ceil", intrinsic=True, exact=True),
    FloatFunction("trunc", "trunc", intrinsic=True, exact=True),
    FloatFunction("copysign", "copysign", arguments=2, intrinsic=True, exact=True),
    FloatFunction("nextafter", "nextafter", "nextafter", arguments=2, exact=True),
    FloatFunction("fmod", "fmod", "fmod", arguments=2, exact=True),
    FloatFunction("fmin", "fmin", arguments=2, exact=True),
    FloatFunction("fmax", "fmax", arguments=2, exact=True),
    FloatFunction("power", "pow", "pow", arguments=2, intrinsic=True),
)

FLOAT_FUNCTIONS = {row.name: row for row in _ROWS}
