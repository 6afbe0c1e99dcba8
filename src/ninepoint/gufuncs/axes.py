"""Where the core axes of a call are: the last ones, or where `axes=` and `axis=` say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .calling import Options
from .definition import GufuncDefinition
from .signature import Signature
from .sizes import last


@dataclass(frozen=True, slots=True)
class CoreAxes:
    """The core axes of each input and result; those that results keep, if there are such.

    Works on arrays of NumPy and of Dask.
    """

    signature: Signature
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    kept: bool

    def last(self, inputs: Sequence[Any]) -> list[Any]:
        """Inputs with their core axes last."""
        return [
            one if axes == last(len(axes)) else np.moveaxis(one, axes, last(len(axes)))
            for one, axes in zip(inputs, self.inputs, strict=True)
        ]

    def last_out(self, array: Any, number: int) -> Any:
        """An array for a result, with its core axes last and without those that are kept."""
        axes = self.outputs[number]
        if self.kept:
            return np.squeeze(array, axes)
        return np.moveaxis(array, axes, last(len(axes)))

    def placed(self, result: Any, number: int) -> Any:
        """A result, whose core axes are the last, as the call wants it."""
        axes = self.outputs[number]
        if self.kept:
            return np.expand_dims(result, axes)
        same = axes == last(len(axes))
        return result if same else np.moveaxis(result, last(len(axes)), axes)


def core_axes(definition: GufuncDefinition, options: Options) -> CoreAxes:
    """The core axes of a call.

    Raises
    ------
    ValueError
        If `axes` do not fit the signature.
    TypeError
        If there is no telling which axes `keepdims` keeps.
    """
    signature = definition.signature
    inputs, outputs = signature.inputs, signature.outputs
    kept = bool(options.keepdims)
    if kept and (any(outputs) or len({len(core) for core in inputs}) > 1):
        raise TypeError(
            "keepdims= is for results without core axes, of inputs with equally many: not "
            f"for {signature}."
        )
    wanted = [len(core) for core in (*inputs, *(inputs[:1] * len(outputs) if kept else outputs))]
    if options.axis is not None:
        found = [(options.axis,) * count for count in wanted]
    elif options.axes is None:
        found = [last(count) for count in wanted]
    else:
        found = [
            (entry,) if isinstance(entry, int | np.integer) else tuple(entry)
            for entry in options.axes
        ]
        if len(found) == len(inputs):
            # Those of results may be left out where there is nothing to say.
            found += [found[0] if kept else ()] * len(outputs)
        if [len(axes) for axes in found] != wanted:
            raise ValueError(
                f"axes={options.axes} is no list of the core axes of each array of {signature}."
            )
    count = len(inputs)
    return CoreAxes(signature, tuple(found[:count]), tuple(found[count:]), kept)
