"""The reductions of a window: NumPy's, with exact integers.

Integers: sums, differences and extremes stay integers; what divides is a float64.  Floats
are added from left to right in double precision; the result has the type of the elements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .functions import maximum, minimum
from .number import WORD, binary, common, integer, plain, see, wrapped

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

_ADDING: dict[str, Any] = {"sum": sum, "prod": math.prod}


def reduced(
    name: str,
    values: list[Any],
    *arguments: Any,
    taken: list[bool] | None = None,
    initial: Any = None,
    **options: Any,
) -> Any:
    """Reduce bare values of one type, or those that are `taken`, and an `initial` one beside.

    What leaves NaN out does so among floats only.
    """
    kind = name.removeprefix("nan")
    skips = kind != name and not _of_integers_only(values)
    left = values if taken is None else [v for v, one in zip(values, taken, strict=True) if one]
    left = [value for value in left if value == value] if skips else left
    if kind in ("min", "max"):
        return _extreme(kind, left, values[0], initial, skips)
    # Nothing may be left to divide a sum of squares by.
    spent = skips and kind in ("var", "std") and len(left) <= options.get("ddof", 0)
    known = left and not spent
    found = _number(kind, left, *arguments, **options) if known else _of_none(kind, values)
    if initial is None:
        return see(found)
    return binary("+" if kind == "sum" else "*", see(found), initial)


def _extreme(kind: str, left: list[Any], like: Any, initial: Any, skips: bool) -> Any:
    if not left:
        return see(type(like)(np.nan) if initial is None else common(initial, see(like))[0])
    result = see(_number(kind, left))
    if initial is None:
        return result
    if skips and plain(initial) != plain(initial):
        return see(common(result, initial)[0])
    return (minimum if kind == "min" else maximum)(result, initial)


def _of_none(kind: str, values: list[Any]) -> Any:
    """What a reduction gives of nothing, beside values of a type; a mean of nothing is NaN."""
    dtype = np.array(values).dtype.type
    match kind:
        case "any" | "all":
            return kind == "all"
        case "sum" | "prod":
            # A truth counts as an integer.
            return plain(dtype(kind == "prod")) + 0
        case _:
            return np.float64(np.nan) if _of_integers_only(values) else dtype(np.nan)


def _number(name: str, values: list[Any], *arguments: Any, **options: Any) -> Any:
    """Reduce some values, without exceptions."""
    if name in ("any", "all"):
        return {"any": any, "all": all}[name](bool(value) for value in values)
    if name == "count_nonzero":
        return sum(bool(value) for value in values)
    if name == "rank":
        return sorted(values)[min(int(len(values) * arguments[0] / 100), len(values) - 1)]
    if name in _OF_ORDERED:
        unknown = [value for value in values if value != value]
        return unknown[0] if unknown else _OF_ORDERED[name](sorted(values), *arguments)
    if _of_integers_only(values):
        return _of_integers(name, values, *arguments, **options)
    return _of_floats(name, np.array(values), *arguments, **options)


def _mode(ordered: list[Any]) -> Any:
    counts = Counter(ordered)
    return next(value for value in ordered if counts[value] == max(counts.values()))


def _entropy(ordered: list[Any]) -> Any:
    shares = [count / len(ordered) for count in Counter(ordered).values()]
    found = sum(-share * math.log2(share) for share in shares)
    return np.float64(found) if _of_integers_only(ordered) else type(ordered[0])(found)


def _trimmed_mean(ordered: list[Any], cut: float) -> Any:
    ends = int(cut * len(ordered))
    return _number("mean", ordered[ends : len(ordered) - ends])


# NaN, where an element is.
_OF_ORDERED: dict[str, Callable[..., Any]] = {
    "mode": _mode,
    "entropy": _entropy,
    "trimmed_mean": _trimmed_mean,
}


def _of_integers_only(values: list[Any]) -> bool:
    return all(map(integer, values))


def _of_integers(name: str, values: list[Any], *arguments: Any, **options: Any) -> Any:
    whole = [int(value) for value in values]
    match name:
        case "min" | "max":
            return min(values) if name == "min" else max(values)
        case "argmin" | "argmax":
            return whole.index(min(whole) if name == "argmin" else max(whole))
        case "sum" | "prod" | "ptp":
            result = max(whole) - min(whole) if name == "ptp" else _ADDING[name](whole)
            if any(isinstance(value, np.uint64) for value in values):
                return np.uint64(result % WORD)
            return wrapped(result, False).value
        case "mean":
            return np.float64(sum(whole) / len(whole))
        case "median":
            ordered, half = sorted(whole), len(whole) // 2
            return np.float64((ordered[half] + ordered[-1 - half]) / 2)
        case _:
            return getattr(np, name)(np.array(whole, np.float64), *arguments, **options)


def _of_floats(name: str, values: np.ndarray[Any, Any], *arguments: Any, **options: Any) -> Any:
    if values.dtype.kind == "c" and name not in ("sum", "prod", "mean", "std", "var"):
        raise TypeError(f"complex numbers have no order: {name}")
    kind = values.dtype.type
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if name in ("sum", "mean"):
        total = wide[0]
        for value in wide[1:]:
            total = total + value
        result = total if name == "sum" else total / len(wide)
    elif name == "median" and np.isnan(wide).any():
        result = np.float64(np.nan)
    elif name in ("percentile", "quantile") and np.isinf(wide).any():
        result = _beside_infinity(name, wide, *arguments, **options)
    else:
        result = getattr(np, name)(wide, *arguments, **options)
    if name in ("argmin", "argmax"):
        return int(result)
    if kind is np.complex64:
        return result.astype(np.complex64 if result.dtype.kind == "c" else np.float32)
    return result.astype(np.float32) if kind is np.float32 else result


def _beside_infinity(name: str, values: np.ndarray[Any, Any], q: float) -> Any:
    """A quantile of values some of which are infinite, which NumPy makes nan throughout.

    An element that is met exactly is the quantile, and half-way there is the mean of two; only
    between them NumPy's rule is followed to the letter.
    """
    with np.errstate(invalid="ignore"):
        where = (q / 100 if name == "percentile" else q) * (len(values) - 1)
        ordered = np.sort(values)
        if np.isnan(ordered[-1]) or where % 1 == 0:
            return ordered[-1] if np.isnan(ordered[-1]) else ordered[int(where)]
        below, above = ordered[int(where)], ordered[int(where) + 1]
        if where % 1 == 0.5:
            return (below + above) / 2
        return getattr(np, name)(values, q)
