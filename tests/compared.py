"""How results and errors of calls are compared; what calls take; what is tried at night only."""

import contextlib
import os
import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import ninepoint as npt
from seams import interpreted


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


def refuses(error: Any, words: str, call: Callable[..., Any], /, *args: Any, **named: Any) -> None:
    """Check that a call ends with an error of this kind, in these words."""
    with pytest.raises(error, match=words or None):
        call(*args, **named)


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


WAYS = {"interpreted": interpreted, "compiled": contextlib.nullcontext}


def by_text(stencil: Any, *fields: Any, **named: Any) -> Any:
    """What the generated text gives, run as plain Python: to compile it takes longer."""
    with interpreted():
        return stencil(*fields, **named)


def alike(made: Any, wanted: Any, close: float = 0.0) -> None:
    """Of one type and equal, or floats that are so to a part of themselves and of the largest."""
    for one, other in zip(each(made), each(wanted), strict=True):
        assert one.dtype == other.dtype
        if close and one.dtype.kind in "fc":
            scale = float(np.abs(other[np.isfinite(other)]).max(initial=1.0))
            np.testing.assert_allclose(one, other, rtol=close, atol=close * scale)
        else:
            np.testing.assert_array_equal(one, other)


def agree(
    kernel: Any, *fields: Any, close: float = 0.0, way: str = "interpreted", **options: Any
) -> Any:
    """Results that are those of `debug`; options are of the decorator, or of a stencil's call."""
    called: dict[str, Any] = {}
    if isinstance(kernel, npt.Stencil):
        called = options
    else:
        kernel = npt.stencil(**{"boundary": "mirror"} | options)(kernel)
    with WAYS[way]():
        made = kernel(*fields, **called)
    alike(made, kernel.debug(*fields, **called), close)
    return made


def views(x: np.ndarray, *shape: int) -> np.ndarray:
    """All windows of an array that are inside."""
    return np.lib.stride_tricks.sliding_window_view(x, shape)


def of_windows(function: Callable[[Any], Any], x: np.ndarray, *shape: int) -> np.ndarray:
    """What a function gives for each window by itself, without its warnings."""
    windows = views(x, *shape)
    places = windows.shape[: x.ndim]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [function(windows[place]) for place in np.ndindex(places)]
    return np.array(found).reshape(places)


def only(number: int, values: Iterable[Any]) -> list[Any]:
    """Values for `parametrize`, of which a usual run takes `number`, spread over all of them."""
    all_of_them = list(values)
    taken = {k * len(all_of_them) // number for k in range(number)}
    return [value if k in taken else at_night(value) for k, value in enumerate(all_of_them)]


def at_night(value: Any) -> Any:
    """The value, which only a nightly run takes."""
    if hasattr(value, "marks"):
        return pytest.param(*value.values, id=value.id, marks=pytest.mark.nightly)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.nightly)
