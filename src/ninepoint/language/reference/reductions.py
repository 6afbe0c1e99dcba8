"""The reductions of a window: NumPy's, with exact integers.

Integers: sums, differences and extremes stay integers; what divides is a float64.  Floats
are added from left to right in double precision; the result has the type of the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .functions import maximum, minimum
from .number import binary, common, plain, see

Array: TypeAlias = np.ndarray[Any, Any]

# Those that are methods of windows, and those that are functions.
METHODS = frozenset("sum prod mean min max median any all std var argmin argmax ptp".split())
REDUCTIONS = METHODS | frozenset(
    "percentile quantile count_nonzero nansum nanprod nanmean nanmin nanmax nanvar nanstd "
    "nanmedian nanpercentile nanquantile".split()
)

# Reductions that are given a number.
PARAMETRIC = frozenset(
    "percentile quantile nanpercentile nanquantile nanrank trimmed_mean".split()
)

# Those that NumPy gives the arguments `where`, or `initial`, or both.
MASKED = frozenset(
    "sum prod mean min max any all std var "
    "nansum nanprod nanmean nanmin nanmax nanvar nanstd".split()
)


def reduced(
    name: str,
    values: Array,
    *arguments: Any,
    taken: Array | None = None,
    initial: Any = None,
    **options: Any,
) -> Any:
    """Reduce an array of one axis, or those elements that are `taken`, and an `initial` one.

    What leaves NaN out does so among floats only.
    """
    kind = name.removeprefix("nan")
    skips = kind != name and not _whole(values)
    left = values if taken is None else values[taken]
    left = left[left == left] if skips else left
    if kind in ("min", "max"):
        return _extreme(kind, left, values, initial, skips)
    # Nothing may be left to divide a sum of squares by.
    spent = skips and kind in ("var", "std") and len(left) <= options.get("ddof", 0)
    if len(left) and not spent:
        found = _number(kind, left, *arguments, **options)
    elif kind in ("any", "all", "sum", "prod"):
        found = getattr(np, kind)(left)
    else:
        # A mean of nothing is NaN.
        found = np.float64(np.nan) if _whole(values) else values.dtype.type(np.nan)
    if initial is None:
        return see(found)
    return binary("+" if kind == "sum" else "*", see(found), initial)


def _extreme(kind: str, left: Array, values: Array, initial: Any, skips: bool) -> Any:
    if not len(left):
        nothing = see(values.dtype.type(np.nan) if initial is None else values[0])
        return nothing if initial is None else see(common(initial, nothing)[0])
    result = see(_number(kind, left))
    if initial is None:
        return result
    if skips and plain(initial) != plain(initial):
        return see(common(result, initial)[0])
    return (minimum if kind == "min" else maximum)(result, initial)


def _whole(values: Array) -> bool:
    """Whether they are integers or truth values."""
    return values.dtype.kind in "biu"


def _number(name: str, values: Array, *arguments: Any, **options: Any) -> Any:
    """Reduce some values, without exceptions."""
    if name in ("any", "all", "count_nonzero"):
        return getattr(np, name)(values)
    if values.dtype.kind == "c" and name not in ("sum", "prod", "mean", "std", "var"):
        raise TypeError(f"complex numbers have no order: {name}")
    if name == "rank":
        place = min(int(len(values) * arguments[0] / 100), len(values) - 1)
        return np.sort(values, kind="stable")[place]
    if name in _OF_ORDERED:
        unknown = values[values != values]
        ordered = np.sort(values, kind="stable")
        return unknown[0] if len(unknown) else _OF_ORDERED[name](ordered, *arguments)
    if not _whole(values):
        return _of_floats(name, values, *arguments, **options)
    match name:
        case "min" | "max" | "argmin" | "argmax":
            return getattr(np, name)(values)
        case "sum" | "prod" | "ptp":
            # A truth counts as an integer.
            return getattr(np, name)(values + 0)
        case "mean":
            return np.float64(sum(values.tolist()) / len(values))
        case "median":
            exact, half = sorted(values.tolist()), len(values) // 2
            return np.float64((exact[half] + exact[-1 - half]) / 2)
        case _:
            return getattr(np, name)(values.astype(np.float64), *arguments, **options)


def _mode(ordered: Array) -> Any:
    found, counts = np.unique(ordered, return_counts=True)
    return found[counts.argmax()]


def _entropy(ordered: Array) -> Any:
    _, counts = np.unique(ordered, return_counts=True)
    found = sum(-share * math.log2(share) for share in counts / len(ordered))
    return np.float64(found) if _whole(ordered) else ordered.dtype.type(found)


def _trimmed_mean(ordered: Array, cut: float) -> Any:
    ends = int(cut * len(ordered))
    return _number("mean", ordered[ends : len(ordered) - ends])


# NaN, where an element is.
_OF_ORDERED: dict[str, Callable[..., Any]] = {
    "mode": _mode,
    "entropy": _entropy,
    "trimmed_mean": _trimmed_mean,
}


def _of_floats(name: str, values: Array, *arguments: Any, **options: Any) -> Any:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if name in ("sum", "mean"):
        total = np.add.accumulate(wide)[-1]
        result = total if name == "sum" else total / len(wide)
    elif name == "median" and np.isnan(wide).any():
        result = np.float64(np.nan)
    elif name in ("percentile", "quantile") and np.isinf(wide).any():
        result = _beside_infinity(name, wide, *arguments, **options)
    else:
        result = getattr(np, name)(wide, *arguments, **options)
    if values.dtype == wide.dtype or name in ("argmin", "argmax"):
        return result
    return result.astype(np.complex64 if result.dtype.kind == "c" else np.float32)


def _beside_infinity(name: str, values: Array, q: float) -> Any:
    """A quantile of values some of which are infinite, which NumPy makes nan throughout.

    An element that is met exactly is the quantile, and half-way there is the mean of two; only
    between them NumPy's rule is followed to the letter.
    """
    where = (q / 100 if name == "percentile" else q) * (len(values) - 1)
    ordered = np.sort(values)
    if np.isnan(ordered[-1]) or where % 1 == 0:
        return ordered[-1] if np.isnan(ordered[-1]) else ordered[int(where)]
    if where % 1 == 0.5:
        return (ordered[int(where)] + ordered[int(where) + 1]) / 2
    return getattr(np, name)(values, q)
