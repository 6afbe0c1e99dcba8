"""Generated text as plain Python, which Numba's variable NUMBA_DISABLE_JIT asks for.

t0 = x[j] if t1 else 0.0          np.float64(0.0), as if it had been read from an array
t2 = t0 / t0                ->    nan, as in machine code, where Python would raise
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from ...language.dtypes import DType
from ...undisturbed import imported

# Where Numba also looks for its settings.
SETTINGS = Path(".numba_config.yaml")


@cache
def interpreted() -> bool:
    """Whether Numba's variable NUMBA_DISABLE_JIT asks for plain Python."""
    asked = "NUMBA_DISABLE_JIT" in os.environ or SETTINGS.exists()
    if not asked and "numba" not in sys.modules:
        return False
    return bool(vars(imported("numba.core.config"))["DISABLE_JIT"])


def in_numpy(code: CodeType) -> CodeType:
    """The code with NumPy's floats in the place of Python's, which raise when divided by zero."""
    constants = [
        in_numpy(one)
        if isinstance(one, CodeType)
        else np.float64(one)
        if type(one) is float
        else one
        for one in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


def silent(scalars: Sequence[DType], band: Callable[..., None], *arguments: Any) -> None:
    """Run a text as plain Python, where NumPy's numbers warn and Python's own do not wrap."""
    arrays = len(arguments) - len(scalars)
    values = [d.numpy.type(v) for d, v in zip(scalars, arguments[arrays:], strict=True)]
    with np.errstate(all="ignore"):
        band(*arguments[:arrays], *values)
