"""The door of the back ends: what each of them must do, and what it is given.

A kernel is lowered without a thought of the target.  A back end takes what came of that, chooses
what only it can choose, writes text and makes something to call of it:

    Kernel  --schedule-->  Kernel  --text-->  Module  --load-->  a function of a block
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..language.box import Box, joined
from ..language.dtypes import DType
from ..language.ir import Kernel, Length
from ..lowering.chain import Edges
from ..lowering.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Lowered:
    """What describes a kernel for given types, whatever it is compiled for.

    It is called with fields, outputs, coefficients and scalars, in the order of their names
    here.  Each output has a reach of its own.
    """

    name: str
    fields: tuple[str, ...]
    coefficients: tuple[str, ...]
    scalars: tuple[str | Length, ...]
    reaches: tuple[Box, ...]
    field_dtypes: tuple[np.dtype, ...]
    out_dtypes: tuple[np.dtype, ...]
    coefficient_types: tuple[tuple[np.dtype, int], ...]
    scalar_types: tuple[DType, ...]
    fastmath: bool

    @property
    def ndim(self) -> int:
        return self.reaches[0].ndim

    @property
    def reach(self) -> Box:
        """The box that holds every output's."""
        return joined(self.reaches)


@dataclass(frozen=True, slots=True)
class Module:
    """Generated text with one function, `band`, that computes a block.

    `warm` is how many rows (or planes) of stages are made before the first of the result; where
    it is 0, a row costs the same whether it is the first or the hundredth.  `kept` is how many
    bytes of stages are kept for each column.  Text that is `checked` tells in a last argument
    that it read outside its neighborhood; `places` says where each of its reads stands.
    """

    text: str
    warm: int = 0
    kept: int = 0
    checked: bool = False
    places: tuple[str, ...] = ()


class Backend(Protocol):
    """A target for kernels."""

    def schedule(self, kernel: Kernel, schedule: Schedule) -> Kernel:
        """Choose for a lowered kernel what is a matter of this target alone."""

    def text(
        self,
        kernel: Kernel,
        title: str,
        reach: Box,
        edges: Edges | None = None,
        *,
        fastmath: bool,
    ) -> Module:
        """Write a kernel whose outputs are in their storage types already.

        The `edges` of a chain say what is written at the ends of its arrays, between its steps.
        """

    def load(self, lowered: Lowered, module: Module) -> Callable[..., None]:
        """Compile the text, or find what was compiled of it, and give its function."""

    def from_disk(self, lowered: Lowered, module: Module) -> bool:
        """Tell whether what `load` gave was found rather than compiled."""

    def takes_commands(self, lowered: Lowered, module: Module) -> bool:
        """Tell whether what `load` gave also takes whole arrays, with a list of commands."""

    def together(self, entry: Callable[..., None]) -> Callable[..., None] | None:
        """Find what shares lists of commands for a loaded function among threads, or nothing."""
