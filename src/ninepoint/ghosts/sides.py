"""The rules at the sides of a call, checked, and the values of conditions laid along the edges."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays.borders import Border, Boundary, Rule
from ..arrays.conditions import Condition
from ..arrays.recognise import is_chunked, is_dask, is_xarray
from ..graph import Node
from ..language.box import Box


@dataclass(frozen=True)
class Sides:
    """The rules of a call along its last axes, the values of conditions laid along the edges.

    `reach` is how far the call looks before and after each axis.
    """

    rules: tuple[tuple[Any, Any], ...]
    cval: Any
    core: tuple[int, ...]
    reaches: tuple[Box, ...]
    reach: tuple[tuple[int, int], ...]

    @staticmethod
    def of(node: Node, shape: tuple[int, ...], lazy: bool) -> Sides:
        """Those of a node on fields of a shape, checked; of lazy ones values may be lazy too."""
        ndim, reaches, names = node.ndim, node.reaches, node.call.definition.fields
        reach = tuple(
            (max(0, *(-box.lo[k] for box in reaches)), max(0, *(box.hi[k] for box in reaches)))
            for k in range(ndim)
        )
        rules: list[tuple[Any, Any]] = []
        for k, pair in enumerate(node.call.boundary.sides(ndim)):
            laid = [
                _laid(one, shape, len(shape) - ndim, len(shape) - ndim + k, lazy)
                if isinstance(one, Condition)
                else one
                for one in pair
            ]
            for one in laid:
                if isinstance(one, Condition):
                    for name, dtype in zip(names, node.compiled.field_dtypes, strict=False):
                        _check(one, name, dtype)
            rules.append((laid[0], laid[1]))
        return Sides(tuple(rules), node.cval, shape[len(shape) - ndim :], reaches, reach)

    @property
    def made(self) -> tuple[tuple[bool, bool], ...]:
        """At which sides ghosts are made, by conditions that somebody looks at.

        And where a rule with a name would look at ghosts beyond the other end: it means elements
        of the array.
        """
        found = []
        for (before, after), (low, high), n in zip(self.rules, self.reach, self.core, strict=True):
            first = isinstance(before, Condition) and low > 0
            last = isinstance(after, Condition) and high > 0
            found.append(
                (
                    first or (last and _bounces(before, low, n)),
                    last or (first and _bounces(after, high, n)),
                )
            )
        return tuple(found)

    @property
    def outline(self) -> Border:
        """A border of names for results of the same shape."""
        return Boundary(self.rules, False).outline(len(self.rules))

    def border(self, opened: Sequence[tuple[bool, bool]]) -> Border:
        """The rules, where some sides have no neighbours."""
        pairs: list[tuple[Rule, Rule]] = []
        for (before, after), (low, high) in zip(self.outline.rules, opened, strict=True):
            pairs.append(("valid" if low else before, "valid" if high else after))
        return Border(tuple(pairs))


def _bounces(rule: Any, reach: int, n: int) -> bool:
    return rule in ("reflect", "mirror") and reach >= n


def _laid(one: Condition, shape: tuple[int, ...], first: int, axis: int, lazy: bool) -> Condition:
    """A condition whose values have all axes of the fields; along `axis` they are one thick."""
    edge = (*shape[:axis], *shape[axis + 1 :])
    others = [shape[k] for k in range(first, len(shape)) if k != axis]

    def laid(value: Any) -> Any:
        where = "the fields' shape without the axis that ends there"
        words = f"npt.{one.kind}"
        if callable(value):
            words = f"'{getattr(value, '__name__', 'function')}' of npt.{one.kind}"
            value = _called(value, one, others)
        if is_xarray(value):
            raise TypeError(
                f"{words} has the DataArray {value.name!r}, and the fields' axes have no names; "
                "give its .data."
            )
        if is_chunked(value) and not lazy:
            raise TypeError(f"{words} has values that are yet to be computed; compute them first.")
        if not np.ndim(value):
            return value[()] if isinstance(value, np.ndarray) else value
        if len(value.shape) > len(edge) or not all(
            n in (1, m) for n, m in zip(value.shape[::-1], edge[::-1], strict=False)
        ):
            raise ValueError(
                f"{words} has values of shape {tuple(value.shape)}, and the edge has the shape "
                f"{edge}, {where}; give one of that shape, or that broadcasts to it."
            )
        value = value[(None,) * (len(edge) - len(value.shape))]
        return value[(*(slice(None),) * axis, None)]

    laid_one = one.of(laid)
    a, b = laid_one.a, laid_one.b
    if (
        one.kind == "robin"
        and not (is_chunked(a) or is_chunked(b))
        and np.any((np.equal(a, 0)) & np.equal(b, 0))
    ):
        raise ValueError(
            "npt.robin(a, b, c) has a = 0 and b = 0 somewhere along the edge, which fixes nothing "
            "there; give one of them another value."
        )
    return laid_one


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
        if is_chunked(value):
            if value.dtype.kind == "c" > dtype.kind:
                raise _unfit(one, name, dtype, "real numbers")
            continue
        given = np.asarray(value)
        if given.dtype.kind == "c" and dtype.kind != "c":
            raise _unfit(one, name, dtype, "real numbers")
        if one.at != "cell" or not given.size:
            continue
        if dtype.kind in "biu":
            low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            least, most = given.min().item(), given.max().item()
            if not (math.isfinite(least) and math.isfinite(most)) or not (
                low <= least and most <= high
            ):
                raise _unfit(one, name, dtype, f"numbers from {low} to {high}")
            if given.dtype.kind == "f" and np.any(given != np.trunc(given)):
                raise _unfit(one, name, dtype, "whole numbers")
        elif given.dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                made = given.astype(dtype)
                lost = np.isfinite(given) & ~np.isfinite(made)
            if np.any(lost):
                limit = float(np.finfo(dtype).max)
                raise _unfit(one, name, dtype, f"numbers up to {limit:.4g}")


def _unfit(one: Condition, name: str, dtype: np.dtype, cure: str) -> ValueError:
    return ValueError(
        f"the values of {one!r} do not fit field '{name}', which is {dtype}; use {cure}, or "
        "convert the field."
    )
