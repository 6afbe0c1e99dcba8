"""Scalars of an iteration: some stay, and some have a value for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .arrays.recognise import refuse_foreign


class Scalars:
    """The arguments that are no fields, some of which have a value for each step."""

    def __init__(self, values: Mapping[str, Any], arrays: Sequence[str], steps: int) -> None:
        self.fixed: dict[str, Any] = {}
        self.varying: dict[str, Callable[[int], Any]] = {}
        self._known: dict[int, dict[str, Any]] = {}
        for name, value in values.items():
            refuse_foreign(value, f"'{name}'")
            if callable(value):
                self.varying[name] = value
            elif np.ndim(value) == 1 and name not in arrays:
                if len(value) < steps:
                    raise ValueError(
                        f"'{name}' has {len(value)} values, but there are {steps} steps; give one "
                        "for each, or name it in standard_indexing if it is a small array."
                    )
                self.varying[name] = _item(np.asarray(value))
            else:
                self.fixed[name] = value

    def at(self, step: int) -> dict[str, Any]:
        """The values at one step; a function is called once for each, in their order."""
        if not self.varying:
            return self.fixed
        if step not in self._known:
            now = {name: value(step) for name, value in self.varying.items()}
            self._known[step] = self.fixed | now
        return self._known[step]

    def forget(self, step: int) -> None:
        """Drop the values of all steps before."""
        for known in [k for k in self._known if k < step]:
            del self._known[known]


def _item(values: np.ndarray) -> Callable[[int], Any]:
    if not len(values):
        # No step asks for it, but its type is looked at.
        return lambda step: values.dtype.type(0).item()
    return lambda step: values[step].item()
