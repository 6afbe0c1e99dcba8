"""The rules at the sides of a call, checked, and the values of conditions laid along the edges.

Values that name their dimensions become plain arrays in the order of the axes; values along axes
that are not the last are moved as fields are, as if these were the last.

fields (rows, columns, channels), along (0, 1)     ->     (channels, rows, columns)
values beside the rows (columns, channels)                (channels, columns)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language.box import joined
from ..language.dtypes import kind_of, widened
from .accepted import is_chunked, is_dask, is_xarray
from .borders import Boundary, Rule
from .conditions import Condition, Slot
from .layout import Shape
from .numpy import Behind, check_range, misfit
from .regions import Node


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of the fields of a node, whose shape ends in the axes that it works along.

    `types` are those of the fields, each with the first field that has it.  The node looks so far
    before and after each axis (`reach`).
    """

    shape: Shape
    types: tuple[tuple[np.dtype, str], ...]
    reach: tuple[tuple[int, int], ...]

    @staticmethod
    def of(node: Node, shape: Shape) -> Edges:
        """Those of fields of a shape."""
        compiled = node.compiled
        fields = list(zip(compiled.field_dtypes, compiled.fields, strict=True))
        # Positions have nothing outside that is asked for.
        types = dict(reversed(fields[: len(fields) - len(compiled.positions)]))
        return Edges(shape, tuple(types.items()), joined(node.reaches).sides)

    def laid(self, boundary: Boundary, lazy: bool = False, fields: Sequence[Any] = ()) -> Boundary:
        """The rules with their values laid along the edges, and checked.

        Of lazy fields values may be lazy too.  Some may be among `fields`, laid already.
        """
        # Numbers are the same along all edges.
        known: dict[tuple[int, int], Condition] = {}

        def laid(one: Condition, axis: int, side: int) -> Rule | Condition:
            far = self.reach[axis][side]
            if not far:
                # Nobody looks there, whatever it says.
                return "nearest"
            axis += len(self.shape) - len(self.reach)
            if one.order >= self.shape[axis] > 0:
                raise ValueError(
                    f"{one} needs {one.order + 1} elements along an axis, and the fields have the "
                    f'shape {self.shape}; give a lower degree, or name the rule "nearest".'
                )
            found = known.get((id(one), far))
            if found is None:
                found = self._laid(one, axis, lazy, fields)
                if found.kind == "robin":
                    _check_mix(found, far)
                if one.plain:
                    known[id(one), far] = found
            return found

        return boundary.with_conditions(laid, len(self.reach))

    def _laid(self, one: Condition, axis: int, lazy: bool, fields: Sequence[Any]) -> Condition:
        """A condition at the end of an axis.

        Its values have all axes of the fields; along their own they are one thick.
        """
        first = len(self.shape) - len(self.reach)

        def laid(value: Any) -> Any:
            if isinstance(value, Slot):
                return fields[value.number]
            if type(value) in (float, int):
                return value if one.at == "cell" else np.float64(value)
            words = f"npt.{one.kind}"
            if callable(value):
                others = [n for k, n in enumerate(self.shape) if first <= k != axis]
                words = f"'{getattr(value, '__name__', 'function')}' of npt.{one.kind}"
                value = _called(value, one, others)
            if is_chunked(value) and not lazy:
                raise TypeError(
                    f"{words} has values that are yet to be computed; compute them first."
                )
            if getattr(value, "ndim", 0):
                value = _on_edge(value, self.shape, axis, words)
            elif isinstance(value, np.ndarray):
                value = value[()]
            # Elements are stored as they are given, all else is computed with double precision.
            return value if one.at == "cell" else _wide(value)

        found = one.of(laid)
        for dtype, name in self.types:
            _check(found, name, dtype)
        return found


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
    pairs = zip(value.shape[::-1], edge[::-1], strict=False)
    if len(value.shape) > len(edge) or not all(n in (1, m) for n, m in pairs):
        raise ValueError(
            f"{words} has values of shape {tuple(value.shape)}, and the edge has the shape "
            f"{edge}, the fields' shape without the axis that ends there; give one of that "
            "shape, or that broadcasts to it."
        )
    value = value[(None,) * (len(edge) - len(value.shape))]
    return value[(*(slice(None),) * axis, None)]


def _wide(value: Any) -> Any:
    """Numbers with double precision."""
    if not hasattr(value, "dtype"):
        # What NumPy makes of a number: it divides complex ones otherwise than Python does.
        return np.complex128(value) if isinstance(value, complex) else np.float64(value)
    dtype = np.dtype("complex128" if value.dtype.kind == "c" else "float64")
    return value if value.dtype == dtype else value.astype(dtype)


def _called(function: Any, one: Condition, lengths: Sequence[int]) -> Any:
    """What a function gives for a step and the positions along an edge."""
    name = getattr(function, "__name__", "function")
    last = len(lengths) - 1
    positions = [np.arange(n).reshape(-1, *(1,) * (last - k)) for k, n in enumerate(lengths)]
    try:
        value = function(one.step, *positions)
    except TypeError:
        _check_signature(function, name, one, positions)
        raise
    if not is_dask(value):
        value = widened(np.asarray(value))
    if value.dtype.kind not in "biufc":
        raise TypeError(
            f"'{name}' of npt.{one.kind} gave {value!r}; it must give a number, or an array of "
            "numbers along the edge."
        )
    return value


def _check_signature(function: Any, name: str, one: Condition, positions: Sequence[Any]) -> None:
    """Raise where a function does not take what it is called with."""
    told = ", ".join(("step", *"ijklmn"[: len(positions)]))
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


def _check(one: Condition, name: str, dtype: np.dtype) -> None:
    """Raise where ghosts of a condition do not fit the type of a field."""
    if kind_of(dtype) not in "fc" and one.kind == "extrapolate" and one.order:
        raise TypeError(
            f"{one} makes values that integers need not hold, and field '{name}' is {dtype}; "
            'convert it with .astype("float32"), or name the rule "nearest".'
        )
    if one.kind == "extrapolate":
        return
    if kind_of(dtype) not in "fc" and not (one.kind == "dirichlet" and one.at == "cell"):
        cure = (
            ', or give the values themselves, npt.dirichlet(..., at="cell")'
            if one.kind != "dirichlet"
            else ', or fix the elements outside themselves, at="cell"'
        )
        mean = "npt.dirichlet at the face" if one.kind == "dirichlet" else f"npt.{one.kind}"
        raise TypeError(
            f"{mean} makes fractions, and field '{name}' is {dtype}; convert it with "
            f'.astype("float32"){cure}.'
        )
    for value in one.abc:
        if isinstance(value, float | int):
            continue
        kind = value.dtype.kind if hasattr(value, "dtype") else "ic"[isinstance(value, complex)]
        if kind == "c" != dtype.kind:
            raise misfit(one, name, dtype, "real numbers")
    if one.at == "cell" and not is_chunked(one.c):
        check_range(one, name, dtype)


def _check_mix(one: Condition, reach: int) -> None:
    """Raise where a mix says nothing of a ghost."""
    a, b = one.a, one.b
    if isinstance(a, float) and isinstance(b, float) and a > 0 < b:
        return
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


def unnamed(
    boundary: Boundary, core: Sequence[Hashable], edge: Callable[[Any, Hashable], Any]
) -> Boundary:
    """A boundary whose values are plain arrays, for a call along these dimensions.

    `edge` lays an array of names along the edges that end a dimension.
    """

    def plain(one: Condition, axis: int, side: int) -> Condition:
        return one.of(lambda value: edge(value, core[axis]) if is_xarray(value) else value)

    return boundary.with_conditions(plain, len(core)) if boundary.conditions else boundary


def turned(boundary: Boundary, shape: Shape, along: Behind) -> Boundary:
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
            return np.moveaxis(value, along, ends)[(*(slice(None),) * place, 0)]

        return one.of(last)

    return boundary.with_conditions(plain, len(along))
