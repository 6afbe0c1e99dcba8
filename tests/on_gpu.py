"""Run programs on a GPU, or on the stand-in for one, whose texts are built together.

with prepared(calls):                 g++ is started a few times for all that the calls ask for
    ...
with strictly("end"):  arrays of the stand-in end at pages that nobody may touch
    found = program(cupy.asarray(x))
"""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import ninepoint as npt
from compared import each

STANDIN = Path(__file__).parent / "cuda" / "standin"

# How a call may be refused; all else is a failure of its own.
REFUSED = (TypeError, ValueError, npt.StencilError, ArithmeticError)


def stand_in() -> None:
    """Have the stand-in where there is no CuPy."""
    if importlib.util.find_spec("cupy") is None:
        sys.path.insert(0, str(STANDIN))


def _fake() -> Any:
    import cupy

    return getattr(cupy, "fake", None)


def strictly(pages: str = "") -> AbstractContextManager[None]:
    """Lay arrays of the stand-in at pages that nobody may touch."""
    fake = _fake()
    found: AbstractContextManager[None] = nullcontext() if fake is None else fake.strictly(pages)
    return found


@contextlib.contextmanager
def prepared(calls: Iterable[Callable[[], Any]]) -> Iterator[None]:
    """Build the texts of all calls together, which are then done as they are asked for."""
    fake = _fake()
    if fake is not None:
        with fake.together():
            for call in calls:
                with contextlib.suppress(*REFUSED):
                    call()
    yield


def same(found: Any, wanted: Any) -> None:
    """Check that results are equal to the last bit, wherever they are."""
    for one, other in zip(each(found), map(np.asarray, each(wanted)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one if isinstance(one, np.ndarray) else one.get(), other)


def negated_extremes(x: Any) -> Any:
    """A kernel with a minimum and a maximum of several integers, some of them negated."""
    return min(x[0, -1], -x[0, 1], 0), np.max(np.array([[1, -1, -1]]) * x[0:1, -1:2])
