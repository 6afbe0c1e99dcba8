"""Blocks that come again: how the calls on one were made, so that on the next they only are made.

    run(groups, block, ..., noted=again)      once: everything is found out, and noted
    again(fields, outs)                       for blocks of the same shapes, at the same sides

Only calls one by one on arrays of NumPy are noted; of what is done in one pass, those at the ends
of the block.  All else is done anew for each block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ninepoint.arrays.recognise import listed

from ..remembered import Remembered
from .borders import Array
from .executable import Executable

# A part of an array, or all of it.
Index: TypeAlias = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call: where it takes its fields from, and what it makes, by number."""

    run: Executable
    fields: tuple[tuple[int, Index], ...]
    outputs: tuple[int, ...]
    numbers: tuple[Any, ...]
    targets: bool


class Again:
    """The calls of a run on a block, in order; `ready` once these are all that it takes."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._others = False
        self._given: Sequence[tuple[int, Index]] = ()
        # How the ends of what is done in one pass are done, by what they depend on.
        self.ends: Remembered[Any, Again] = Remembered(64)

    @property
    def ready(self) -> bool:
        """Whether another block can be done so."""
        return bool(self._given) and not self._others

    @property
    def other(self) -> bool:
        """Whether something was done in another way, so that each block is done anew."""
        return self._others

    def called(
        self,
        executable: Executable,
        values: Sequence[tuple[int, Index]],
        numbers: tuple[Any, ...],
        outputs: tuple[int, ...],
        targets: bool,
    ) -> None:
        """Note a call on fields, which are parts of values, and whether it wrote to `targets`."""
        if not self._others:
            self._calls.append(_Call(executable, tuple(values), outputs, numbers, targets))

    def otherwise(self) -> None:
        """Note that something was done in another way."""
        self._others = True

    def gave(self, wanted: Sequence[tuple[int, Index]]) -> None:
        """Note which parts of values were given in the end."""
        self._given = wanted

    def __call__(self, fields: Mapping[int, Array], outs: Mapping[int, Array]) -> list[Array]:
        """What the calls make of such values."""
        values = dict(fields)
        for call in self._calls:
            given = [values[k] if at is None else values[k][at] for k, at in call.fields]
            out = tuple([outs[k] for k in call.outputs]) if call.targets else None
            made = call.run(given, call.numbers, out)
            values.update(zip(call.outputs, listed(made), strict=True))
        return [values[k] if at is None else values[k][at] for k, at in self._given]
