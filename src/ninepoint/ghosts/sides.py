"""The rules at the sides of a call, checked, and the values of conditions laid along the edges."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from ..arrays.borders import Border, Rule, fitting_cval
from ..arrays.conditions import Condition
from ..arrays.recognise import is_chunked, is_dask, is_xarray
from ..graph import Node
from ..language.box import Box

# Where in the place of a rule with a name a condition stands.
CONDITION = "condition"


@dataclass(frozen=True)
class Geometry:
    """What a call with ghosts is laid out by: lengths, where it looks, and which rules have names.

    `reach` is how far it looks before and after each axis.
    """

    core: tuple[int, ...]
    reaches: tuple[Box, ...]
    rules: tuple[tuple[str, str], ...]

    @cached_property
    def reach(self) -> tuple[tuple[int, int], ...]:
        """How far the call looks before and after each axis."""
        return tuple(
            (
                max(0, *(-box.lo[k] for box in self.reaches)),
                max(0, *(box.hi[k] for box in self.reaches)),
            )
            for k in range(len(self.core))
        )

    @cached_property
    def made(self) -> tuple[tuple[bool, bool], ...]:
        """At which sides ghosts are made, by conditions that somebody looks at.

        And where a rule with a name would look at ghosts beyond the other end: it means elements
        of the array.
        """
        found = []
        for (before, after), (low, high), n in zip(self.rules, self.reach, self.core, strict=True):
            first = before == CONDITION and low > 0
            last = after == CONDITION and high > 0
            found.append(
                (
                    first or (last and _bounces(before, low, n)),
                    last or (first and _bounces(after, high, n)),
                )
            )
        return tuple(found)

    @cached_property
    def outline(self) -> Border:
        """A border of names for results of the same shape."""
        pairs = [
            tuple("nearest" if rule == CONDITION else rule for rule in pair) for pair in self.rules
        ]
        return Border(tuple((cast(Rule, before), cast(Rule, after)) for before, after in pairs))

    def border(self, opened: Sequence[tuple[bool, bool]]) -> Border:
        """The rules, where some sides have no neighbours."""
        pairs: list[tuple[Rule, Rule]] = []
        for (before, after), (low, high) in zip(self.outline.rules, opened, strict=True):
            pairs.append(("valid" if low else before, "valid" if high else after))
        return Border(tuple(pairs))


# What is found out of a geometry is kept with it.
_geometry = lru_cache(maxsize=256)(Geometry)


@dataclass(frozen=True, eq=False)
class Sides:
    """The rules of a call along its last axes, the values of conditions laid along the edges."""

    rules: tuple[tuple[Any, Any], ...]
    cval: Any
    geometry: Geometry

    @staticmethod
    def of(node: Node, shape: tuple[int, ...], lazy: bool) -> Sides:
        """Those of a node on fields of a shape, checked; of lazy ones values may be lazy too."""
        first = len(shape) - node.ndim
        # The first field of each type.
        typed = zip(node.compiled.field_dtypes, node.call.definition.fields, strict=False)
        types = dict(reversed(list(typed)))
        rules: list[tuple[Any, Any]] = []
        names: list[tuple[str, str]] = []
        for axis, pair in enumerate(node.call.boundary.sides(node.ndim), first):
            laid: list[Any] = []
            for one in pair:
                if isinstance(one, Condition):
                    one = _laid(one, shape, first, axis, lazy)
                    for dtype, name in types.items():
                        _check(one, name, dtype)
                laid.append(one)
            rules.append((laid[0], laid[1]))
            before, after = (one if isinstance(one, str) else CONDITION for one in pair)
            names.append((before, after))
        geometry = _geometry(shape[first:], tuple(node.reaches), tuple(names))
        for pair, reach in zip(rules, geometry.reach, strict=True):
            for one, far in zip(pair, reach, strict=True):
                if isinstance(one, Condition) and one.kind == "robin":
                    _check_mix(one, far)
        return Sides(tuple(rules), node.cval, geometry)


def _bounces(rule: str, reach: int, n: int) -> bool:
    return rule in ("reflect", "mirror") and reach >= n


def _laid(one: Condition, shape: tuple[int, ...], first: int, axis: int, lazy: bool) -> Condition:
    """A condition whose values have all axes of the fields; along `axis` they are one thick."""
    others = [shape[k] for k in range(first, len(shape)) if k != axis]

    def laid(value: Any) -> Any:
        words = f"npt.{one.kind}"
        if callable(value):
            words = f"'{getattr(value, '__name__', 'function')}' of npt.{one.kind}"
            value = _called(value, one, others)
        if is_chunked(value) and not lazy:
            raise TypeError(f"{words} has values that are yet to be computed; compute them first.")
        if not getattr(value, "ndim", 0):
            return wide(value[()] if isinstance(value, np.ndarray) else value)
        value = on_edge(value, shape, axis, words)
        # Elements are stored as they are given, and all else is computed with double precision.
        return value if one.at == "cell" else wide(value)

    return one.of(laid)


def on_edge(value: Any, shape: tuple[int, ...], axis: int, words: str) -> Any:
    """Values along an edge of fields of a shape, with all their axes; `words` say whose they are.

    Raises
    ------
    ValueError
        If they do not broadcast to the edge.
    TypeError
        If they name dimensions that the fields do not name.
    """
    if is_xarray(value):
        raise TypeError(
            f"{words} has the DataArray {value.name!r}, and the fields' axes have no names; "
            "give its .data."
        )
    edge = (*shape[:axis], *shape[axis + 1 :])
    pairs = zip(value.shape[::-1], edge[::-1], strict=False)
    if len(value.shape) > len(edge) or not all(n in (1, m) for n, m in pairs):
        raise ValueError(
            f"{words} has values of shape {tuple(value.shape)}, and the edge has the shape "
            f"{edge}, the fields' shape without the axis that ends there; give one of that "
            "shape, or that broadcasts to it."
        )
    value = value[(None,) * (len(edge) - len(value.shape))]
    return value[(*(slice(None),) * axis, None)]


def wide(value: Any) -> Any:
    """Floats with double precision; whole numbers as they are."""
    if isinstance(value, float | complex) and not isinstance(value, np.generic):
        # What NumPy makes of a number: it divides complex ones otherwise than Python does.
        return np.complex128(value) if isinstance(value, complex) else np.float64(value)
    kind = getattr(value, "dtype", np.dtype(bool)).kind
    if kind not in "fc":
        return value
    dtype = np.dtype("float64" if kind == "f" else "complex128")
    return value if value.dtype == dtype else value.astype(dtype)


def _called(function: Any, one: Condition, lengths: Sequence[int]) -> Any:
    """What a function gives for a step and the positions along an edge."""
    name = getattr(function, "__name__", "function")
    positions = np.meshgrid(*map(np.arange, lengths), indexing="ij", sparse=True)
    told = ", ".join(("step", *"ijklmn"[: len(lengths)]))
    try:
        inspect.signature(function).bind(one.step, *positions)
    except TypeError as error:
        raise TypeError(
            f"npt.{one.kind} calls '{name}' with the step and an array of positions for each axis "
            f"along the edge, as {name}({told}), which it does not take: {error}."
        ) from None
    except ValueError:
        # Functions without a signature, as those of NumPy.
        pass
    value = function(one.step, *positions)
    if not is_dask(value):
        value = np.asarray(value)
    if value.dtype.kind not in "biufc":
        raise TypeError(
            f"'{name}' of npt.{one.kind} gave {value!r}; it must give a number, or an array of "
            "numbers along the edge."
        )
    return value


def _check(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where ghosts of a condition do not fit the type of a field."""
    if dtype.kind not in "fc" and not (one.kind == "dirichlet" and one.at == "cell"):
        cure = (
            ", or give the values themselves, npt.dirichlet(...)"
            if one.kind != "dirichlet"
            else ', or at="cell"'
        )
        mean = "npt.dirichlet(..., at='face')" if one.kind == "dirichlet" else f"npt.{one.kind}"
        raise TypeError(
            f"{mean} makes fractions, and field '{name}' is {dtype}; convert it with "
            f'.astype("float32"){cure}.'
        )
    for value in one.abc:
        kind = value.dtype.kind if hasattr(value, "dtype") else np.min_scalar_type(value).kind
        if kind == "c" != dtype.kind:
            raise _unfit(one, name, dtype, "real numbers")
    if one.at == "cell" and not is_chunked(one.c):
        _check_range(one, name, dtype)


def _check_mix(one: Condition, reach: int) -> None:
    """Raise where a mix says nothing of a ghost."""
    a, b = one.a, one.b
    if is_chunked(a) or is_chunked(b):
        return
    if np.any((a == 0) & (b == 0)):
        raise ValueError(
            "npt.robin(a, b, c) has a = 0 and b = 0 somewhere along the edge, which fixes nothing "
            "there; give one of them another value."
        )
    for distance in range(1, 2 * reach, 2):
        if np.any(b + a * (distance * one.dx / 2) == 0):
            raise ValueError(
                f"npt.robin(a, b, c) has b = -a * {distance * one.dx / 2:g} somewhere, with which "
                "no value outside has the mix that is asked for; a and b of one sign are right "
                "for a normal that points outward."
            )


def _check_range(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where elements outside cannot be stored as those of a field are."""
    given = one.c
    if not np.ndim(given):
        try:
            fitting_cval(given, dtype, name)
        except ValueError:
            raise _unfit(one, name, dtype, _range(dtype)) from None
    elif given.dtype != dtype and given.size:
        if dtype.kind in "biu":
            low, high = _limits(dtype)
            least, most = given.min().item(), given.max().item()
            whole = given.dtype.kind != "f" or not np.any(given != np.trunc(given))
            # NaN is neither.
            if not (low <= least and most <= high and whole):
                raise _unfit(one, name, dtype, _range(dtype))
        elif dtype.kind == "f":
            with np.errstate(all="ignore"):
                if np.any(np.isfinite(given) & ~np.isfinite(given.astype(dtype))):
                    raise _unfit(one, name, dtype, _range(dtype))


def _range(dtype: np.dtype) -> str:
    if dtype.kind in "biu":
        low, high = _limits(dtype)
        return f"whole numbers from {low} to {high}"
    return f"numbers up to {float(np.finfo(dtype).max):.4g}"


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _unfit(one: Condition, name: str, dtype: np.dtype, cure: str) -> ValueError:
    return ValueError(
        f"the values of npt.{one.kind} do not fit field '{name}', which is {dtype}; use {cure}, "
        "or convert the field."
    )
