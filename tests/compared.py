"""Whole numbers, how results of calls are compared, and what calls take and compile."""

import os
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest


def whole(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Whole numbers from 0 to 99: sums of them are exact in any order."""
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def each(results: Any) -> tuple[Any, ...]:
    """Give the results of a call, of which there may be one, as a tuple."""
    return results if isinstance(results, tuple) else (results,)


def same(made: Any, wanted: Any) -> None:
    """Check that results, one or several, have the types, shapes and elements of others."""
    for one, other in zip(each(made), each(wanted), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def one_by_one(stencil: Any, *state: Any, steps: int, rest: Any = (), **options: Any) -> Any:
    """Do what `iterate` promises: a call after the other, each on the results of the last."""
    for _ in range(steps):
        state = each(stencil(*state, *rest, **options))
    return state


def most_memory(call: Callable[[], Any]) -> int:
    """The most bytes that Python and NumPy hold during a call beside what they held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Fail where anything is compiled within the block, or is looked up among what was."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NINEPOINT_CACHE_DIR", folder)
        yield
        assert os.listdir(folder) == []
