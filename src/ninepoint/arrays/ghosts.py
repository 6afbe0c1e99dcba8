"""Ghosts: what the conditions of a border lay along the edges of the fields of a call.

A ghost is `alpha * mirrored + beta`.  Conditions extend the fields axis by axis, the later ones
what the earlier ones have extended; the rules with names hold for what is extended so.  What they
say is laid along the edges, and the ghosts of a block are made of that (`executable`).

Values that name their dimensions become plain arrays in the order of the axes; values along axes
that are not the last are moved as fields are, as if these were the last.

fields (rows, columns, channels), along (0, 1)     ->     (channels, rows, columns)
values beside the rows (columns, channels)                (channels, columns)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..language.dtypes import kind_of, widened
from ..language.ir import joined
from .accepted import is_chunked, is_dask, is_xarray
from .arranging import stacked
from .borders import Boundary, Condition, check_range, weights
from .layout import Array, Axes, Extension, Extensions, Rule, Shape, source_indices
from .regions import Node


class Edges:
    """The edges of the fields of a node, whose shape ends in the axes that it works along."""

    def __init__(self, node: Node, shape: Shape) -> None:
        compiled = node.compiled
        fields = list(zip(compiled.field_dtypes, compiled.fields, strict=True))
        # The types of the fields, each with the first that has it.  Positions have nothing outside
        # that is asked for.
        self._types = dict(reversed(fields[: len(fields) - len(compiled.positions)]))
        # How far the node looks before and after each axis.
        self._shape, self._reach = shape, joined(node.reaches).sides

    def laid(self, boundary: Boundary) -> Extensions:
        """For each side a name, or how ghosts are made of values, which are checked."""
        beyond: Any = self._beyond
        return boundary.with_conditions(beyond, len(self._reach)).entries

    def _beyond(self, one: Condition, axis: int, side: int) -> Rule | Extension:
        far, place = self._reach[axis][side], axis + len(self._shape) - len(self._reach)
        if not far or (one.kind == "extrapolate" and not one.order):
            # Nobody looks there, whatever it says; or the last element stands for all.
            return "nearest"
        if one.order >= self._shape[place] > 0:
            raise ValueError(
                f"{one} needs {one.order + 1} elements along an axis, and the fields have the "
                f'shape {self._shape}; give a lower degree, or name the rule "nearest".'
            )
        laid = one.of(partial(self._values, one, place))
        for dtype, name in self._types.items():
            _check(laid, name, dtype)
        if one.kind == "robin":
            _check_mix(laid, far)

        def line(numbers: Array) -> Array:
            # For ghosts in the order of positions, of that beside the array first.
            shape = [far if k == axis + 1 else 1 for k in range(1 + len(self._reach))]
            return (numbers if side else numbers[::-1]).reshape(shape)

        if one.kind == "extrapolate":
            # By how much each of the last elements counts, for each ghost.
            each = zip(*(weights(one.order, k + 1) for k in range(far)), strict=True)
            return Extension(one.kind, tuple(line(np.array(own)) for own in each))
        # How far ghosts are from what they mirror: a number where there is but one.
        distance: Any = one.dx
        if far > 1:
            mirrored = source_indices(-far, 0, self._shape[place], "reflect", "reflect")
            distance = line(mirrored[::-1] + np.arange(1, far + 1)) * distance
        kind = "cell" if one.at == "cell" else one.kind
        return Extension(kind, (*laid.values, distance))

    def _values(self, one: Condition, axis: int, value: Any) -> Any:
        """A value of a condition at the end of an axis, laid along the edge there.

        Arrays have an axis for the stack, along which all that are alike are one, and the axes of
        the node; along their own they are one thick.
        """
        words = f"npt.{one.kind}"
        if callable(value):
            first = len(self._shape) - len(self._reach)
            others = [n for k, n in enumerate(self._shape) if first <= k != axis]
            words = f"'{getattr(value, '__name__', 'function')}' of npt.{one.kind}"
            value = _called(value, one, others)
        if is_chunked(value):
            raise TypeError(f"{words} has values that are yet to be computed; compute them first.")
        if getattr(value, "ndim", 0):
            ndim, value = len(self._reach), _on_edge(value, self._shape, axis, words)
            if any(n != 1 for n in value.shape[:-ndim]):
                value = np.broadcast_to(value, (*self._shape[:-ndim], *value.shape[-ndim:]))
            value = stacked(value, ndim)
        # Elements are stored as they are given, all else is computed with double precision, which
        # NumPy's numbers have, and divide complex ones in another way than Python's.
        if one.at == "face":
            value = np.asarray(value, np.complex128 if np.iscomplexobj(value) else np.float64)
        return value[()] if isinstance(value, np.ndarray) else value


def _on_edge(value: Any, shape: Shape, axis: int, words: str) -> Any:
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
    try:
        fits = np.broadcast_shapes(value.shape, edge) == edge
    except (ValueError, TypeError):
        fits = False
    if not fits:
        raise ValueError(
            f"{words} has values of shape {tuple(value.shape)}, and the edge has the shape "
            f"{edge}, the fields' shape without the axis that ends there; give one of that "
            "shape, or that broadcasts to it."
        )
    return np.expand_dims(value[(None,) * (len(edge) - len(value.shape))], axis)


def _called(function: Any, one: Condition, lengths: Sequence[int]) -> Any:
    """What a function gives for a step and the positions along an edge."""
    name = getattr(function, "__name__", "function")
    last = len(lengths) - 1
    positions = [np.arange(n).reshape(-1, *(1,) * (last - k)) for k, n in enumerate(lengths)]
    try:
        value = function(one.step, *positions)
    except TypeError as error:
        told = ", ".join(("step", *"ijklmn"[: len(positions)]))
        error.add_note(
            f"npt.{one.kind} calls '{name}' with the step and an array of positions for each axis "
            f"along the edge, as {name}({told})."
        )
        raise
    if not is_dask(value):
        value = widened(np.asarray(value))
    if value.dtype.kind not in "biufc":
        raise TypeError(
            f"'{name}' of npt.{one.kind} gave {value!r}; it must give a number, or an array of "
            "numbers along the edge."
        )
    return value


def _check(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where ghosts of a condition do not fit the type of a field."""
    floats = kind_of(dtype) in "fc"
    if one.kind == "extrapolate" and not floats:
        raise TypeError(
            f"{one} makes values that integers need not hold, and field '{name}' is {dtype}; "
            'convert it with .astype("float32"), or name the rule "nearest".'
        )
    if one.at == "face" and not floats:
        who, cure = f"npt.{one.kind}", 'give the values themselves, npt.dirichlet(..., at="cell")'
        if one.kind == "dirichlet":
            who, cure = f"{who} at the face", 'fix the elements outside themselves, at="cell"'
        raise TypeError(
            f"{who} makes fractions, and field '{name}' is {dtype}; convert it with "
            f'.astype("float32"), or {cure}.'
        )
    check_range(one, name, dtype)


def _check_mix(one: Condition, reach: int) -> None:
    """Raise where a mix says nothing of a ghost."""
    a, b, _ = one.values
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


def unnamed(
    boundary: Boundary, core: Sequence[Hashable], edge: Callable[[Any, Hashable], Any]
) -> Boundary:
    """A boundary whose values are plain arrays, for a call along these dimensions.

    `edge` lays an array of names along the edges that end a dimension.
    """

    def plain(one: Condition, axis: int, side: int) -> Condition:
        return one.of(lambda value: edge(value, core[axis]) if is_xarray(value) else value)

    return boundary.with_conditions(plain, len(core)) if boundary.conditions else boundary


def turned(boundary: Boundary, shape: Shape, along: Axes) -> Boundary:
    """The boundary of a call on fields of a shape whose axes `along` become the last ones.

    What functions give has the axes of the stencil in its own order, and stays.
    """
    rank, ends = len(shape), tuple(range(-len(along), 0))
    if along == ends or not boundary.conditions:
        return boundary

    def plain(one: Condition, axis: int, side: int) -> Condition:
        def last(value: Any) -> Any:
            if callable(value) or not getattr(value, "ndim", 0):
                return value
            value = _on_edge(value, shape, along[axis] % rank, f"npt.{one.kind}")
            place = rank - len(along) + axis
            return np.moveaxis(value, along, ends).squeeze(place)

        return one.of(last)

    return boundary.with_conditions(plain, len(along))
