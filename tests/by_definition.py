"""The reference for functions that nobody decorated: what it is told of them is found here."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ninepoint as npt
import seams
from ninepoint.arrays.borders import Boundary
from ninepoint.language import reference
from ninepoint.language.source import capture

Reach = tuple[tuple[int, ...], tuple[int, ...]]


def footprints(function: Callable[..., Any], *dtypes: Any, **named: Any) -> tuple[Reach, ...]:
    """The least and the greatest offset that each output depends on, as they are analysed."""
    return seams.plan_of(npt.stencil(function), *dtypes, **named).reaches


def evaluate(
    function: Callable[..., Any],
    arrays: Mapping[str, Any] | Sequence[Any],
    *,
    scalars: Mapping[str, Any] | None = None,
    standard: Sequence[str] = (),
    boundary: Any = "fill",
    cval: Any = 0,
    neighborhood: Any = None,
    reaches: Sequence[Reach] = (),
) -> tuple[np.ndarray[Any, Any], ...]:
    """What a function means at every point of its fields.

    Arrays in a sequence are those of the parameters that are no scalars; `reaches` are given for
    what no stencil can be made of.  Where a neighborhood is declared, there is one output.
    """
    given = dict(scalars or {})
    if not isinstance(arrays, Mapping):
        names = [name for name in inspect.signature(function).parameters if name not in given]
        arrays = dict(zip(names, arrays, strict=False))
    fields = {name: np.asarray(array) for name, array in arrays.items()}
    given |= {name: fields.pop(name) for name in standard}
    if neighborhood is not None and not reaches:
        reaches = [tuple(zip(*neighborhood, strict=True))]
    if not reaches:
        stencil = npt.stencil(function, standard_indexing=standard)
        # What a kernel never reads is no field of it.
        types = [fields[name].dtype for name in stencil.definition.fields]
        reaches = seams.plan_of(stencil, *types, **given).reaches
    setting = reference.Setting(
        boundary=Boundary.of(boundary).sides(len(reaches[0][0])),
        footprints=reaches,
        shape=np.broadcast_shapes(*(field.shape for field in fields.values())),
        cval=cval,
        scalars=given,
        neighborhood=neighborhood or (),
    )
    return reference.evaluate(capture(function), fields, setting)
