"""A kernel beside what it means: `debug`, or what NumPy gives for each window by itself."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import ninepoint as npt
from compared import each
from seams import interpreted

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
