"""Values along an edge that name their dimensions, as plain arrays in the order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..borders import Boundary
from ..conditions import Condition
from ..recognise import is_xarray

if TYPE_CHECKING:
    from ..xarray import Named


def unnamed(boundary: Boundary, fields: Named, dims: Sequence[Any], ndim: int) -> Boundary:
    """A boundary whose values are plain arrays, for a call along the last `ndim` core dimensions.

    They are laid by their names, in the order of `dims`, and have the coordinates of the fields.
    """
    if not boundary.conditions:
        return boundary
    found: list[tuple[Any, Any]] = []
    core = fields.core[len(fields.core) - ndim :]
    for dim, pair in zip(core, boundary.sides(ndim), strict=True):

        def plain(value: Any, dim: Any = dim) -> Any:
            return fields.edge(value, dim, tuple(dims)) if is_xarray(value) else value

        before, after = (one.of(plain) if isinstance(one, Condition) else one for one in pair)
        found.append((before, after))
    return Boundary(tuple(found), False)
