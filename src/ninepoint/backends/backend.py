"""The door of the back ends: what each of them must do, and what it is given.

A kernel is lowered without a thought of the target.  A back end takes what came of that, chooses
what only it can choose, writes text and makes something to call of it:

    Kernel  --schedule-->  Kernel  --text-->  Module  --load-->  a function of a block

`Code` is what is called for arrays: that function, with all that it takes besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from ..language.box import Box, joined
from ..language.dtypes import DType
from ..language.positions import Length
from ..lowering.schedule import Schedule
from .repeated import Held

if TYPE_CHECKING:
    from ..language.ir import Kernel, Position
    from ..lowering.chain import Edges


@dataclass(frozen=True, slots=True)
class Lowered:
    """What describes a kernel for given types, whatever it is compiled for.

    It is called with fields, outputs, coefficients and scalars, in the order of their names
    here.  The last fields are the `positions`, which no call gives.  Each output has a reach of
    its own.
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
    positions: tuple[Position, ...] = field(default=(), kw_only=True)
    # The axis along which each of these has other elements, where loops read one of equal elements
    # along all other axes: the first of a row.
    along: tuple[int, ...] = field(default=(), kw_only=True)
    # The step along each axis, where it computes some points only.
    every: tuple[int, ...] = field(default=(), kw_only=True)
    # Of each field whether it is read in the row of a result only; nothing if that is not known.
    in_row: tuple[bool, ...] = field(default=(), kw_only=True)

    @property
    def ndim(self) -> int:
        return self.reaches[0].ndim

    @property
    def reach(self) -> Box:
        """The box that holds every output's."""
        return joined(self.reaches)

    @property
    def alone(self) -> bool:
        """Whether it looks at no neighbour."""
        looks = any(any(box.lo) or any(box.hi) for box in self.reaches)
        return not looks and not self.every


@dataclass(frozen=True, slots=True)
class Module:
    """Generated text with one function, `band`, that computes a block.

    `warm` is how many rows (or planes) of stages are made before the first of the result; where
    it is 0, a row costs the same whether it is the first or the hundredth.  `kept` is how many
    bytes of stages are kept for each column.  Text that is `checked` tells in a last argument
    that it read outside its neighborhood; `places` says where each of its reads stands.  It
    takes `shorts`, floats of 16 bits, as they are, or else as float32.  What is `opaque` is left
    to Numba.
    """

    text: str
    warm: int = 0
    kept: int = 0
    checked: bool = False
    places: tuple[str, ...] = ()
    shorts: bool = False
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What a text was written of, by its title.

    `together` is the same kernel with several rows made at once.  `single` gives the same bits
    one row after the other, and leaves to be chosen what is kept in rows and made at once.
    """

    title: str
    kernel: Kernel
    together: Kernel | None
    single: Kernel
    schedule: Schedule


class Code(Protocol):
    """A compiled kernel, its scalars bound, for fields of certain dtypes."""

    @property
    def ndim(self) -> int:
        """How many core axes it has."""

    @property
    def reaches(self) -> tuple[Box, ...]:
        """Where each output looks."""

    @property
    def every(self) -> tuple[int, ...]:
        """Along each axis, of how many points it computes one; nothing if it computes all."""

    @property
    def in_row(self) -> tuple[bool, ...]:
        """Of each field whether it is read in a result's own row only; nothing if unknown."""

    @property
    def field_dtypes(self) -> tuple[np.dtype, ...]:
        """What the fields must be, in native byte order."""

    @property
    def positions(self) -> int:
        """How many of the fields, the last ones, are positions."""

    @property
    def along(self) -> tuple[int, ...]:
        """The axis along which each position has other elements; nothing if all are read."""

    @property
    def out_dtypes(self) -> tuple[np.dtype, ...]:
        """What the outputs are."""

    @property
    def scalars(self) -> tuple[Any, ...]:
        """Its numbers, and lengths of the whole array that it has not been told."""

    @property
    def takes_commands(self) -> bool:
        """Whether it takes whole arrays with commands, whatever the neighbours are."""

    @property
    def warm(self) -> int:
        """Rows that are made before the first row of a result."""

    @property
    def takes_elements(self) -> bool:
        """Whether it looks at no neighbour and takes elements that lie anywhere."""

    def within(self, core: tuple[int, ...]) -> Code:
        """Give the same code for a whole array of this shape, where it asks for that."""

    def with_numbers(self, numbers: Sequence[Any]) -> Code:
        """Give the same code with other coefficient arrays and scalars."""

    def interleaved(self, lanes: int) -> Self | None:
        """Give the same code on rows in which each column has so many lanes, if it has that."""

    def levelled(self) -> Self | None:
        """Give the same code with one more axis, along which nothing looks, if it has that."""

    def transposed(self, order: tuple[int, ...]) -> Self | None:
        """Give the same code with its axes in another order, if it has that."""

    @property
    def entry(self) -> Callable[..., None]:
        """What `run` calls, with fields, outputs, coefficient arrays and scalars."""

    @property
    def pace(self) -> list[float]:
        """How long a point took when that was last measured [s], or nothing; may be changed."""

    @property
    def handoff(self) -> float:
        """How long it takes to share lists of commands among threads [s]."""

    def run(
        self,
        fields: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        told: np.ndarray | None = None,
    ) -> None:
        """Compute ``outs[b, i] from fields[b, i + o - lo]``, serially, holding no lock.

        With `every` they are ``outs[b, i]`` from ``fields[b, every * i + o - lo]``.

        With commands the arrays are whole ones, with or without a stack axis.
        """

    def run_elements(self, fields: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
        """Compute arrays of any strides; results in the place of fields are allowed."""

    def held(
        self,
        fields: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        lists: Sequence[np.ndarray],
    ) -> Held | None:
        """Keep what is needed to carry out lists of commands again and again, if that can be."""

    def run_parts(
        self,
        fields: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        lists: Sequence[np.ndarray],
        threads: int,
    ) -> None:
        """Carry out lists of commands on threads, not to be interrupted."""


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
        together: Kernel | None = None,
        fastmath: bool,
        dtypes: Sequence[np.dtype] = (),
    ) -> Module:
        """Write a kernel whose outputs are in their storage types already, the `dtypes`.

        `together` is the same with several rows made at once, for the arrays that gain by it.
        The `edges` of a chain say what is written at the ends of its arrays, between its steps.
        """

    def load(self, lowered: Lowered, module: Module) -> Callable[..., None]:
        """Compile the text, or find what was compiled of it, and give its function."""

    def from_disk(self, lowered: Lowered, module: Module) -> bool:
        """Tell whether what `load` gave was found rather than compiled."""

    def takes_commands(self, lowered: Lowered, module: Module) -> bool:
        """Tell whether what `load` gave also takes whole arrays, with a list of commands."""

    def elements(self, entry: Callable[..., None]) -> int:
        """Find the loop over elements of a loaded function; 0 if it has none."""

    def together(self, entry: Callable[..., None]) -> Callable[..., None] | None:
        """Find what shares lists of commands for a loaded function among threads, or nothing."""
